//! The expected state of a chat session: a small reference model of one session, and the possible
//! outcomes of each request. If several outcomes are correct (a client that left, two concurrent
//! clients), there are several references, and the observed state decides which of them remain. Not
//! for sending requests.

use std::collections::BTreeMap;

use hearken_ports::Role;
use serde_json::Value;

use super::{Ask, Said, Trouble};

/// Maximum number of tool rounds per turn.
pub(super) const ROUNDS: i64 = 3;
/// The hero's hit points in a new world, and the version of that world.
pub(super) const UNHURT: (i64, i64) = (1_000, 2);

/// The reply that a client received.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    /// Error code; empty on success.
    pub(super) code: String,
    pub(super) body: Value,
    /// The HTTP form of the reply, if it came over HTTP.
    pub(super) wire: Option<Wire>,
}

/// HTTP form of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wire {
    pub(super) status: u16,
    /// The events before the end, if the answer was streamed.
    pub(super) pieces: Option<Pieces>,
}

/// Events of a streamed answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pieces {
    /// All `delta` events, joined.
    pub(super) said: String,
    /// Number of `event` events.
    pub(super) events: usize,
}

impl Reply {
    pub(super) fn to(code: String, body: Value) -> Self {
        Self { code, body, wire: None }
    }
}

/// HTTP status of an error code.
fn status_of(code: &str) -> u16 {
    match code {
        "SESSION_NOT_FOUND" | "NOT_FOUND" => 404,
        "CONFLICT" | "VERSION_CONFLICT" => 409,
        "MAX_ITERATIONS_EXCEEDED" => 500,
        "MCP_SERVER_ERROR" => 502,
        "LLM_UNAVAILABLE" => 503,
        other => panic!("no request is refused with {other}"),
    }
}

/// A message, as the tests print it.
pub(super) fn line(role: Role, content: &str) -> String {
    format!("{}: {content}", serde_json::to_value(role).unwrap().as_str().unwrap())
}

/// Observed state of a session after an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) status: Status,
    /// Messages as `role: content`.
    pub(super) lines: Vec<String>,
    /// The hero's hit points and the world's version.
    pub(super) world: Option<(i64, i64)>,
    /// Events sent to watchers since the last look; `None` if the session cannot be watched.
    pub(super) told: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Active,
    Archived,
    Deleted,
    Forgotten,
}

/// A message, as far as it is predictable.
#[derive(Debug, Clone, PartialEq)]
enum Line {
    Is(String),
    Begins(&'static str),
}

impl Line {
    fn fits(&self, seen: &str) -> bool {
        match self {
            Self::Is(line) => line == seen,
            Self::Begins(start) => seen.starts_with(start),
        }
    }
}

/// A request with a key that called tools or was answered.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    said: Said,
    answer: Answer,
}

#[derive(Debug, Clone, PartialEq)]
enum Answer {
    /// No answer: the turn failed after it had changed the world.
    Never,
    /// There is an answer that no client has received yet.
    Untold,
    /// The answer that a client has received.
    Told(Value),
}

#[derive(Debug, Clone, PartialEq)]
struct Snapshot {
    id: String,
    lines: Vec<Line>,
    version: i64,
    keys: BTreeMap<u8, Key>,
}

#[derive(Debug, Clone, PartialEq)]
struct World {
    hp: i64,
    version: i64,
    past: Vec<(i64, i64)>,
}

impl World {
    fn went_on(&mut self, hp: i64) {
        self.past.push((self.version, self.hp));
        self.version += 1;
        self.hp = hp;
    }

    fn go_back(&mut self, version: i64) {
        if version != self.version {
            let then = self.past.iter().find(|(past, _)| *past == version);
            let hp = then.expect("a snapshot has a former version").1;
            self.went_on(hp);
        }
    }
}

/// Reference of one session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    status: Status,
    lines: Vec<Line>,
    world: World,
    snapshots: Vec<Snapshot>,
    keys: BTreeMap<u8, Key>,
    /// Events since the last look.
    told: Vec<String>,
}

/// Expected body of a reply.
enum Body {
    Anything,
    /// An answer that starts like this, to a request with this key.
    Answer(Line, Option<u8>),
    /// The earlier answer to a request with this key.
    Again(u8),
    /// The snapshot that was made last.
    Snapshot,
}

/// One correct outcome of a request.
struct May {
    code: &'static str,
    body: Body,
    after: Known,
}

impl Known {
    /// A new session with an unhurt hero.
    pub(super) fn new() -> Self {
        let (hp, version) = UNHURT;
        Self {
            status: Status::Active,
            lines: Vec::new(),
            world: World { hp, version, past: Vec::new() },
            snapshots: Vec::new(),
            keys: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// The request with its snapshot number mapped to an existing snapshot, if there is any.
    pub(super) fn meant(&self, ask: Ask) -> Ask {
        match ask {
            Ask::GoBack(n) => Ask::GoBack(n.checked_rem(self.snapshots.len()).unwrap_or(n)),
            other => other,
        }
    }

    /// The id of a snapshot, by its number.
    pub(super) fn snapshot(&self, n: usize) -> Option<&str> {
        self.snapshots.get(n).map(|snapshot| snapshot.id.as_str())
    }

    /// The references that fit this reply to the request.
    pub(super) fn after(&self, ask: Ask, trouble: Trouble, reply: &Reply) -> Vec<Self> {
        let outcomes = self.outcomes(ask, trouble).into_iter();
        let fits = |may: &May| {
            let wire = reply.wire.as_ref();
            wire.is_none_or(|wire| *wire == may.wire(ask, reply, self.told.len()))
        };
        outcomes.filter(fits).filter_map(|may| may.told(reply)).collect()
    }

    /// The references after a client left: the request was carried out completely or not at all.
    pub(super) fn after_leaving(&self, ask: Ask, trouble: Trouble) -> Vec<Self> {
        let whole = self.outcomes(ask, trouble).into_iter().map(|may| may.after);
        whole.chain([self.clone()]).collect()
    }

    /// Another client hurt the hero.
    pub(super) fn hurt_elsewhere(&mut self) {
        self.hurt(1, false);
    }

    /// The reference after a purge.
    pub(super) fn after_purging(&self, undeletable: bool) -> Self {
        let forgotten = self.status == Status::Deleted && !undeletable;
        let status = if forgotten { Status::Forgotten } else { self.status };
        Self { status, ..self.clone() }
    }

    fn hurt(&mut self, times: i64, tell: bool) {
        for _ in 0..times {
            self.world.went_on(self.world.hp - 1);
            if tell {
                self.told.push(format!("character.hp_changed {}", self.world.hp));
            }
        }
    }

    fn note(&mut self, key: Option<u8>, said: Said, answer: Answer) {
        self.keys.extend(key.map(|name| (name, Key { said, answer })));
    }

    fn outcomes(&self, ask: Ask, trouble: Trouble) -> Vec<May> {
        let refused = |code| vec![May { code, body: Body::Anything, after: self.clone() }];
        let archived = self.status == Status::Archived;
        match (self.status, ask) {
            (Status::Forgotten, _) => refused("SESSION_NOT_FOUND"),
            (_, Ask::Restore) => self.becomes(Status::Active, "session.restored"),
            (Status::Deleted, _) => refused("SESSION_NOT_FOUND"),
            (_, Ask::Archive) => self.becomes(Status::Archived, "session.archived"),
            (_, Ask::Delete) => self.becomes(Status::Deleted, "session.deleted"),
            (_, Ask::Snapshot) => {
                let mut after = self.clone();
                after.snapshots.push(Snapshot {
                    id: String::new(),
                    lines: self.lines.clone(),
                    version: self.world.version,
                    keys: self.keys.clone(),
                });
                vec![May { code: "", body: Body::Snapshot, after }]
            }
            (_, Ask::GoBack(n)) => match self.snapshot(n) {
                None if archived => {
                    [refused("NOT_FOUND"), refused("CONFLICT")].into_iter().flatten().collect()
                }
                None => refused("NOT_FOUND"),
                Some(_) if archived => refused("CONFLICT"),
                Some(_) => self.goes_back(n),
            },
            (Status::Archived, Ask::Chat { .. }) => refused("CONFLICT"),
            (Status::Active, Ask::Chat { said, key, .. }) => self.says(said, key, trouble),
        }
    }

    fn becomes(&self, status: Status, told: &str) -> Vec<May> {
        let mut after = Self { status, ..self.clone() };
        after.told.push(told.to_owned());
        vec![May { code: "", body: Body::Anything, after }]
    }

    fn goes_back(&self, n: usize) -> Vec<May> {
        let mut after = self.clone();
        let snapshot = self.snapshots[n].clone();
        after.world.go_back(snapshot.version);
        after.lines = snapshot.lines;
        after.told.push("session.rolled_back".into());
        after.keys = snapshot.keys;
        vec![May { code: "", body: Body::Anything, after }]
    }

    fn says(&self, said: Said, key: Option<u8>, trouble: Trouble) -> Vec<May> {
        let Some((name, before)) = key.and_then(|name| Some((name, self.keys.get(&name)?))) else {
            return vec![self.runs(said, key, trouble)];
        };
        let again = before.said == said && before.answer != Answer::Never;
        let (code, body) =
            if again { ("", Body::Again(name)) } else { ("CONFLICT", Body::Anything) };
        vec![May { code, body, after: self.clone() }]
    }

    fn runs(&self, said: Said, key: Option<u8>, trouble: Trouble) -> May {
        let mut after = self.clone();
        let calls = said.calls();
        let refused = |code, after| May { code, body: Body::Anything, after };
        match trouble {
            Trouble::ModelAway | Trouble::ModelRefuses | Trouble::ModelSilent => {
                return refused("LLM_UNAVAILABLE", after);
            }
            Trouble::WorldAway => return refused("MCP_SERVER_ERROR", after),
            Trouble::Conflicts if calls > 0 => return refused("VERSION_CONFLICT", after),
            Trouble::ModelAwayBehindTools if calls > 0 => {
                after.hurt(calls, true);
                after.note(key, said, Answer::Never);
                return refused("LLM_UNAVAILABLE", after);
            }
            Trouble::ModelInsists if calls > 0 => {
                after.hurt(calls * ROUNDS, true);
                after.note(key, said, Answer::Never);
                return refused("MAX_ITERATIONS_EXCEEDED", after);
            }
            _ => {}
        }
        let failed = matches!(trouble, Trouble::CallsFail | Trouble::AnswersLost);
        if trouble != Trouble::CallsFail {
            after.hurt(calls, !failed);
        }
        after.answered(said, failed, key)
    }

    fn answered(mut self, said: Said, failed: bool, key: Option<u8>) -> May {
        let text = said.text();
        let answer = match (said.calls(), failed) {
            (0, _) => Line::Is(format!("assistant: You said {text}")),
            (_, false) => Line::Begins("assistant: You said {"),
            (_, true) => Line::Begins("assistant: You said error"),
        };
        self.lines.push(Line::Is(format!("user: {text}")));
        if said.calls() > 0 {
            self.lines.push(Line::Is("assistant: ".into()));
        }
        for _ in 0..said.calls() {
            self.lines.push(Line::Begins(if failed { "tool: error" } else { "tool: {" }));
        }
        self.lines.push(answer.clone());
        self.told.push(format!("chat.answered {text}"));
        self.note(key, said, Answer::Untold);
        May { code: "", body: Body::Answer(answer, key), after: self }
    }

    /// Checks the first prompt of a turn against the dialogue so far.
    pub(super) fn asked(&self, prompt: &[String], said: Said) -> Result<(), String> {
        let new = Line::Is(format!("user: {}", said.text()));
        let all: Vec<&Line> = self.lines.iter().chain([&new]).collect();
        let fits = prompt.len() == all.len() && all.iter().zip(prompt).all(|(l, s)| l.fits(s));
        if fits { Ok(()) } else { Err(format!("the model was asked {prompt:?}, not {all:?}")) }
    }

    /// Checks the observed state and starts the next look.
    pub(super) fn looked(mut self, seen: &Seen, in_order: bool) -> Result<Self, String> {
        // Events that no watcher could receive are compared at the next look.
        let mut told = seen.told.clone().unwrap_or_else(|| self.told.clone());
        if !in_order {
            told.sort();
            self.told.sort();
        }
        let shown = matches!(self.status, Status::Active | Status::Archived);
        let lines = if shown { &self.lines[..] } else { &[] };
        let world =
            (self.status != Status::Forgotten).then_some((self.world.hp, self.world.version));
        let fits = lines.len() == seen.lines.len()
            && lines.iter().zip(&seen.lines).all(|(line, seen)| line.fits(seen));
        let want = match () {
            () if self.status != seen.status => format!("{:?}", self.status),
            () if world != seen.world => format!("a world of {world:?}"),
            () if !fits => format!("messages {lines:?}"),
            () if self.told != told => format!("events {:?}", self.told),
            () => {
                if seen.told.is_some() {
                    self.told.clear();
                }
                return Ok(self);
            }
        };
        Err(want)
    }
}

impl May {
    /// The expected HTTP form, with `told` events before this request. A streamed message has an
    /// error status only if no event was sent.
    fn wire(&self, ask: Ask, reply: &Reply, told: usize) -> Wire {
        let events = self.after.told[told..].iter().filter(|told| told.starts_with("character."));
        let events = events.count();
        let worked = self.code.is_empty();
        if matches!(ask, Ask::Chat { stream: true, .. }) && (worked || events > 0) {
            let said = match self.body {
                Body::Answer(..) => reply.body["response"].as_str().unwrap_or_default(),
                _ => "",
            };
            let pieces = Some(Pieces { said: said.to_owned(), events });
            return Wire { status: 200, pieces };
        }
        let status = match ask {
            _ if !worked => status_of(self.code),
            Ask::Snapshot => 201,
            _ => 200,
        };
        Wire { status, pieces: None }
    }

    /// The reference after this reply; `None` if the reply does not fit.
    fn told(mut self, reply: &Reply) -> Option<Known> {
        if self.code != reply.code {
            return None;
        }
        match self.body {
            Body::Anything => {}
            Body::Answer(line, key) => {
                let text = format!("assistant: {}", reply.body["response"].as_str()?);
                if !line.fits(&text) {
                    return None;
                }
                if let Some(key) = key.and_then(|name| self.after.keys.get_mut(&name)) {
                    key.answer = Answer::Told(reply.body.clone());
                }
            }
            Body::Again(name) => {
                let key = self.after.keys.get_mut(&name)?;
                let told = Answer::Told(reply.body.clone());
                if key.answer != Answer::Untold && key.answer != told {
                    return None;
                }
                key.answer = told;
            }
            Body::Snapshot => {
                let count = self.after.lines.len();
                let made = self.after.snapshots.last_mut()?;
                if reply.body["message_count"] != count
                    || reply.body["state_version"] != made.version
                {
                    return None;
                }
                made.id = reply.body["id"].as_str()?.to_owned();
            }
        }
        Some(self.after)
    }
}
