//! Required properties of sessions, by docs/state-machines/text-session.md: which are alive, in
//! which one each request is answered, and what each remembers. Not for sending anything.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use hearken_ports::{ChatMessage, Role};
use serde_json::Value;
use tokio::time::Instant;

use super::world::{IDLE, Instances, MAX_MESSAGES};

/// Within this time of its end a session may be over or not.
const MARGIN: Duration = Duration::from_secs(1);

/// Known state of a session's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Over,
    Unsure,
}

/// One session.
#[derive(Debug)]
pub(super) struct Known {
    /// The instances that have it in memory.
    here: BTreeSet<usize>,
    /// Set once one of its turns was answered, so that the store has it.
    kept: bool,
    /// Set if the store failed during its life: its state is no longer certain.
    pub(super) murky: bool,
    /// Set once a client has requested its end, and was informed of it.
    ending: bool,
    pub(super) ended: Option<Instant>,
    /// Number of its running and waiting requests.
    busy: usize,
    /// Times of the last certain use, and of the last possible use.
    used: (Instant, Instant),
    /// The shortest and the longest idle time in force since.
    idle: (Duration, Duration),
}

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Open,
    Answered(String),
    Cancelled { content: String, calls: usize },
    Failed,
    Left(Instant),
}

/// Request of a client.
#[derive(Debug)]
pub(super) struct Request {
    /// Empty unless the request is a text.
    pub(super) words: String,
    pub(super) named: Option<String>,
    /// Session that this request protects from expiry.
    held: Option<String>,
    pub(super) life: Life,
    pub(super) session: Option<String>,
    pub(super) outcome: Outcome,
    pub(super) waiting_for: u64,
    pub(super) callbacks: u64,
}

impl Request {
    pub(super) fn kind(&self) -> &str {
        self.words.split(' ').next_back().unwrap_or_default()
    }
}

/// All known sessions and requests.
pub(super) struct Oracle {
    pub(super) sessions: HashMap<String, Known>,
    pub(super) requests: Vec<Request>,
    idle: Duration,
    instances: usize,
    store_fails: bool,
}

impl Oracle {
    pub(super) fn new(instances: usize) -> Self {
        let sessions = HashMap::new();
        let requests = Vec::new();
        Self { sessions, requests, idle: IDLE, instances, store_fails: false }
    }

    /// Records that a session was announced on this instance: this is a use.
    pub(super) fn told(&mut self, id: &str, instance: usize, at: Instant) {
        let idle = self.idle;
        let murky = self.store_fails;
        let known = self.sessions.entry(id.to_owned()).or_insert_with(|| Known {
            here: BTreeSet::new(),
            kept: false,
            murky,
            ending: false,
            ended: None,
            busy: 0,
            used: (at, at),
            idle: (idle, idle),
        });
        known.here.insert(instance);
        self.used(id, at);
    }

    pub(super) fn used(&mut self, id: &str, at: Instant) {
        if let Some(known) = self.sessions.get_mut(id) {
            known.used = (at.max(known.used.0), at.max(known.used.1));
            known.idle = (self.idle, self.idle);
        }
    }

    /// Records that a client requested the end of this session, unless it switches to another one
    /// first.
    pub(super) fn may_end(&mut self, id: &str) {
        if let Some(known) = self.sessions.get_mut(id) {
            known.ending = true;
        }
    }

    /// Reports whether the session has ended or may have ended.
    pub(super) fn may_have_ended(&self, id: &str) -> bool {
        self.sessions.get(id).is_none_or(|known| known.ending || known.ended.is_some())
    }

    pub(super) fn idles(&mut self, idle: Duration) {
        self.idle = idle;
        for known in self.sessions.values_mut() {
            known.idle = (known.idle.0.min(idle), known.idle.1.max(idle));
        }
    }

    pub(super) fn store(&mut self, fails: bool) {
        self.store_fails = fails;
        for known in self.sessions.values_mut() {
            known.murky |= fails;
        }
    }

    /// Returns whether a session is alive for a connection of this instance.
    pub(super) fn life(&self, id: &str, instance: usize, at: Instant) -> Life {
        let Some(known) = self.sessions.get(id) else { return Life::Over };
        if known.ended.is_some() {
            return if known.murky || self.instances > 1 && !known.kept {
                Life::Unsure
            } else {
                Life::Over
            };
        }
        if known.murky || known.ending || self.store_fails {
            return Life::Unsure;
        }
        if known.busy == 0 && at.saturating_duration_since(known.used.1) > known.idle.1 + MARGIN {
            return Life::Over;
        }
        let in_time = at.saturating_duration_since(known.used.0) + MARGIN < known.idle.0;
        let reachable = known.kept || (self.instances == 1 && known.here.contains(&instance));
        let alone = known.here.len() == 1 && known.here.contains(&instance);
        match (known.busy > 0 || in_time) && (reachable || alone) {
            true => Life::Live,
            false => Life::Unsure,
        }
    }

    /// Records a request for this session, and returns its number.
    pub(super) fn sent(
        &mut self,
        words: String,
        named: Option<String>,
        own: &str,
        instance: usize,
        waits: bool,
        at: Instant,
    ) -> usize {
        let target = named.as_deref().unwrap_or(own).to_owned();
        let mut life = self.life(&target, instance, at);
        if waits && (self.instances > 1 || named.is_none()) {
            life = Life::Unsure;
        }
        let held = (life == Life::Live).then_some(target);
        if let Some(known) = held.as_ref().and_then(|id| self.sessions.get_mut(id)) {
            known.busy += 1;
        }
        let session = None;
        let outcome = Outcome::Open;
        self.requests.push(Request {
            words,
            named,
            held,
            life,
            session,
            outcome,
            waiting_for: 0,
            callbacks: 0,
        });
        self.requests.len() - 1
    }

    /// Records that a request is executed in this session, which it protects from expiry.
    pub(super) fn runs(&mut self, number: usize, id: &str) {
        let request = &mut self.requests[number];
        if let (None, Some(known)) = (&request.held, self.sessions.get_mut(id)) {
            request.held = Some(id.to_owned());
            known.busy += 1;
        }
    }

    /// Records the outcome of a request.
    pub(super) fn done(&mut self, number: usize, outcome: Outcome, at: Instant) {
        let request = &mut self.requests[number];
        let held = request.held.take();
        let session = request.session.clone();
        let kept = matches!(outcome, Outcome::Answered(_));
        request.outcome = outcome;
        if let Some(id) = &held {
            self.sessions.get_mut(id).expect("it was there").busy -= 1;
            self.used(id, at);
        }
        if let Some(id) = session {
            self.used(&id, at);
            self.sessions.get_mut(&id).expect("it was there").kept |= kept;
        }
    }

    /// Records that the client of a request left: the request may continue until its calls are
    /// over.
    pub(super) fn left(&mut self, number: usize, at: Instant) {
        let session = self.requests[number].session.clone();
        self.done(number, Outcome::Left(at), at);
        if let Some(known) = session.and_then(|id| self.sessions.get_mut(&id)) {
            known.used.1 = at + Duration::from_secs(300);
        }
    }

    /// Checks the memory of each session against the model's prompts and the stored rows.
    pub(super) fn check_memories(&self, instances: &Instances) {
        let called = |r: &&Request| {
            matches!((r.kind(), &r.outcome), ("server" | "mixed", Outcome::Answered(_)))
        };
        let done = instances.turned_on.load(std::sync::atomic::Ordering::Relaxed);
        assert!(self.requests.iter().filter(called).count() as u64 <= done, "a call was not made");
        let mut turns: HashMap<&str, Vec<Turn>> = HashMap::new();
        for (words, prompt) in instances.model.asked.lock().unwrap().iter() {
            let request = self.requests.iter().find(|r| r.words == *words);
            let request = request.unwrap_or_else(|| panic!("no request said {words:?}"));
            let Some(id) = &request.session else { continue };
            let before = turns.entry(id).or_default();
            let known = &self.sessions[id];
            if !known.murky {
                check(&format!("the prompt of {words}"), before, &prompt[..prompt.len() - 1]);
            }
            before.extend(kept(request));
        }
        let rows = instances.store.rows.lock().unwrap();
        for (id, known) in self.sessions.iter().filter(|(_, known)| !known.murky) {
            let row = rows.iter().find(|(kept, _)| kept.as_str() == *id).map(|(_, row)| row);
            let told = turns.get(id.as_str()).map_or([].as_slice(), Vec::as_slice);
            match row {
                Some(_) if known.ended.is_some() => panic!("{id} ended, and is still stored"),
                Some(row) => {
                    let state: Value = serde_json::from_str(&row.state).unwrap();
                    let messages: Vec<ChatMessage> =
                        serde_json::from_value(state["messages"].clone()).unwrap();
                    check(&format!("the row of {id}"), told, &messages);
                }
                None => {}
            }
        }
    }
}

/// A remembered turn; `may` if it is uncertain whether it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    words: String,
    answer: String,
    may: bool,
}

fn kept(request: &Request) -> Option<Turn> {
    let words = request.words.clone();
    match &request.outcome {
        Outcome::Answered(answer) => Some(Turn { words, answer: answer.clone(), may: false }),
        Outcome::Cancelled { content, calls } if !content.is_empty() || *calls > 0 => {
            Some(Turn { words, answer: content.clone(), may: false })
        }
        // The client did not send a result in time: the calls are remembered.
        Outcome::Failed if matches!(request.kind(), "client" | "mixed") => {
            Some(Turn { words, answer: String::new(), may: false })
        }
        // Whether its calls had started depends on when the client left.
        Outcome::Left(_) if matches!(request.kind(), "server" | "client" | "mixed") => {
            Some(Turn { words, answer: String::new(), may: true })
        }
        _ => None,
    }
}

/// Checks that the remembered turns are the last of these turns: no others, none joined, none lost.
fn check(what: &str, turns: &[Turn], messages: &[ChatMessage]) {
    let mut seen: Vec<(&str, String)> = Vec::new();
    for message in messages {
        match (message.role, seen.last_mut()) {
            (Role::User, _) => seen.push((&message.content, String::new())),
            (Role::Assistant, Some(last)) => last.1.push_str(&message.content),
            _ => {}
        }
    }
    let mut must = turns.iter().rev().peekable();
    for (words, answer) in seen.iter().rev() {
        while must.peek().is_some_and(|turn| turn.may && turn.words != *words) {
            must.next();
        }
        let turn = must.next();
        let same = turn.is_some_and(|turn| {
            turn.words == *words && (turn.may || turn.answer.replace('\n', "") == *answer)
        });
        assert!(same, "{what} remembers {words:?}: {answer:?}, not {turn:?}, of {turns:#?}");
    }
    let all_plain = turns.iter().all(|t| !t.may && t.words.ends_with("plain"));
    let at_least = match turns.iter().filter(|turn| !turn.may).count() {
        count if all_plain => count.min(MAX_MESSAGES / 2),
        count => count.min(1),
    };
    assert!(seen.len() >= at_least, "{what} remembers {seen:?} of {turns:#?}");
}
