//! Invariants under any failure: records requests, effects and events, and reports violations. Not
//! for injecting failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hearken_ports::KeptMessage;
use hearken_proto::chat::Role;
use tokio::time::Instant;

mod message;
mod spoken;
mod texts;

pub(crate) use message::{FIRST_DEVICE, FIRST_TEXT, LAST, Message};

use crate::plan::{Bug, Plan};

/// Maximum number of messages that an instance answers concurrently.
pub(crate) const MOST_AT_ONCE: usize = 8;
/// Time for which an abandoned request may continue, as far as its model notices.
const GOES_ON_FOR: Duration = Duration::from_secs(1);

/// Counters of a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    conversations: u64,
    messages: u64,
    attempts: u64,
    answered: u64,
    refused: u64,
    unknown: u64,
    /// Answers that devices received.
    spoken: u64,
    /// Answers to text clients that were marked as not stored.
    unstored: u64,
    tool_calls: u64,
    events: u64,
    /// Conversations whose watcher was never notified of possibly missing events.
    without_gap: u64,
    faults_made: u64,
}

impl Counts {
    pub(crate) const ROWS: usize = 12;

    /// All counters with their names; conversations first.
    pub(crate) fn rows(&self) -> [(&'static str, u64); Self::ROWS] {
        [
            ("conversations", self.conversations),
            ("messages", self.messages),
            ("attempts", self.attempts),
            ("answered", self.answered),
            ("refused", self.refused),
            ("unknown", self.unknown),
            ("spoken", self.spoken),
            ("unstored", self.unstored),
            ("tool calls", self.tool_calls),
            ("events received", self.events),
            ("without gap", self.without_gap),
            ("faults made", self.faults_made),
        ]
    }
}

/// Record of a message.
#[derive(Default)]
struct Known {
    keyed: bool,
    /// Messages of the conversation that were answered before it was sent.
    answered_before: BTreeSet<Message>,
    answer: Option<String>,
    refused: bool,
    left: Option<Instant>,
    marks: BTreeMap<u64, u32>,
    /// Users' messages in its prompts.
    prompts: BTreeSet<Vec<Message>>,
}

/// Record of a conversation's watcher.
#[derive(Default)]
struct Watched {
    ids: BTreeSet<String>,
    told: Vec<Message>,
    /// Events that a disconnected instance published.
    told_alone: BTreeSet<Message>,
    /// The server reported that events may be missing.
    has_gap: bool,
}

/// How a watcher receives an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is new.
    New,
    /// It may be a repetition: the watcher receives all stored events.
    Maybe,
    /// It is new, and comes from an instance that is disconnected from the others.
    Alone,
}

impl Watched {
    /// Whether all of these events were received, in order. Instances without Redis publish only
    /// their own turns: the order may then differ, and a watcher that resumes elsewhere from a
    /// later event misses an earlier one. Some watchers miss events that Redis has lost.
    fn is_whole(&self, turns: &[Message], plan: &Plan) -> bool {
        if !plan.redis_fails {
            return self.told == turns;
        }
        let overtaken = |at: usize| turns[at..].iter().any(|turn| self.told_alone.contains(turn));
        let may_be_lost = |at| plan.redis_forgets || overtaken(at);
        let is_told = |(at, turn): (usize, &Message)| self.told.contains(turn) || may_be_lost(at);
        turns.iter().enumerate().all(is_told) && self.told.iter().all(|told| turns.contains(told))
    }
}

/// Records of a world. Clones share them.
#[derive(Clone)]
pub(crate) struct Judge(Arc<Inner>);

struct Inner {
    begun: Instant,
    plan: Plan,
    shows: bool,
    notes: Mutex<Notes>,
    dice: Mutex<fastrand::Rng>,
}

#[derive(Default)]
struct Notes {
    counts: Counts,
    messages: BTreeMap<Message, Known>,
    watched: BTreeMap<u16, Watched>,
    /// Running calls of the model by instance, and by whether they are for applications.
    running: BTreeMap<(usize, bool), usize>,
    /// The current message of each device's person.
    saying: BTreeMap<u16, Message>,
    /// All faults have ended.
    is_calm: bool,
    wrong: Vec<String>,
    /// Hash of all records.
    trace: u64,
}

/// A running call of the model.
pub(crate) struct Running {
    judge: Judge,
    instance: usize,
    message: Message,
    first_round: bool,
}

impl Judge {
    pub(crate) fn new(dice: fastrand::Rng, plan: &Plan, shows: bool) -> Self {
        let begun = Instant::now();
        let plan = plan.clone();
        let notes = Mutex::default();
        Self(Arc::new(Inner { begun, plan, shows, notes, dice: Mutex::new(dice) }))
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.notes.lock().expect("no panic while the records are locked")
    }

    /// Whether this bug is planted.
    pub(crate) fn plants(&self, bug: Bug) -> bool {
        self.0.plan.bug == Some(bug)
    }

    /// A random number from `from` to below `to`.
    pub(crate) fn throw(&self, from: usize, to: usize) -> usize {
        self.0.dice.lock().expect("no panic while the dice are locked").usize(from..to)
    }

    /// A random time from `from` to below `to` milliseconds.
    pub(crate) fn pause(&self, from: usize, to: usize) -> Duration {
        Duration::from_micros(self.throw(from * 1_000, to * 1_000) as u64)
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, line: &str) {
        let at = self.0.begun.elapsed();
        let mut notes = self.notes();
        for byte in line.bytes().chain(at.as_nanos().to_le_bytes()) {
            notes.trace = (notes.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.0.shows {
            println!("{:9.3} {line}", at.as_secs_f64());
        }
    }

    /// Records a violation.
    pub(crate) fn wrong(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(&format!("WRONG {what}"));
        self.notes().wrong.push(what);
    }

    pub(crate) fn fault_made(&self, what: &str) {
        self.note(what);
        self.notes().counts.faults_made += 1;
    }

    /// The model does not fail from now on.
    pub(crate) fn calm(&self) {
        self.notes().is_calm = true;
    }

    pub(crate) fn model_fails(&self) -> (u32, u32) {
        let Plan { model_fails, model_hangs, .. } = self.0.plan;
        if self.notes().is_calm { (0, 0) } else { (model_fails, model_hangs) }
    }

    pub(crate) fn asks(&self, message: Message, keyed: bool, instance: usize) {
        self.note(&format!("{message} is sent to {instance}, keyed: {keyed}"));
        let mut notes = self.notes();
        notes.counts.attempts += 1;
        if notes.messages.contains_key(&message) {
            return;
        }
        notes.counts.messages += 1;
        let same = |(other, known): (&Message, &Known)| {
            (other.conversation == message.conversation && known.answer.is_some()).then_some(*other)
        };
        let answered_before = notes.messages.iter().filter_map(same).collect();
        let known = Known { keyed, answered_before, ..Known::default() };
        notes.messages.insert(message, known);
    }

    pub(crate) fn answered(&self, message: Message, answer: &str) {
        self.note(&format!("{message} is answered: {answer}"));
        if !answer.contains(&message.answer()) {
            self.wrong(format!("{message} has the answer of another: {answer}"));
        }
        let before = {
            let mut notes = self.notes();
            notes.counts.answered += 1;
            notes.messages.entry(message).or_default().answer.replace(answer.to_owned())
        };
        if before.is_some_and(|before| before != answer) {
            self.wrong(format!("{message} has two answers"));
        }
    }

    /// The message was refused: nothing of it may be stored.
    pub(crate) fn refused(&self, message: Message, why: &str) {
        self.note(&format!("{message} is refused: {why}"));
        let mut notes = self.notes();
        notes.counts.refused += 1;
        notes.messages.entry(message).or_default().refused = true;
    }

    /// The outcome of the message is unknown.
    pub(crate) fn unknown(&self, message: Message, why: &str) {
        self.note(&format!("{message} is given up: {why}"));
        self.notes().counts.unknown += 1;
    }

    pub(crate) fn left(&self, message: Message) {
        self.note(&format!("the client of {message} disconnects"));
        self.notes().messages.entry(message).or_default().left = Some(Instant::now());
    }

    /// A call of the model starts, with these users' messages in its prompt.
    pub(crate) fn model_begins(
        &self,
        instance: usize,
        message: Message,
        said: &[Message],
        results: usize,
    ) -> Running {
        self.note(&format!("the model of {instance} is asked about {message}, {results} results"));
        let missing = {
            let mut notes = self.notes();
            let known = notes.messages.entry(message).or_default();
            known.prompts.insert(said.to_vec());
            let missing = known.answered_before.iter().find(|before| !said.contains(before));
            // While the store fails, a text session continues with what its instance remembers, and
            // a device with what its connection does.
            let knows_all = message.is_of_application() || message.is_last();
            missing.filter(|_| knows_all && !message.is_spoken()).copied()
        };
        if let Some(missing) = missing {
            self.wrong(format!("the model is asked about {message} without {missing}"));
        }
        // If Redis does not lock the session, the same request may just have been stored: its
        // second answer is then refused.
        let is_twice = said.iter().collect::<BTreeSet<_>>().len() < said.len();
        if is_twice && !self.0.plan.redis_fails {
            self.wrong(format!("a message is twice in the prompt of {message}"));
        }
        let running = {
            let mut notes = self.notes();
            let of = (instance, message.is_of_application());
            let running = notes.running.entry(of).or_default();
            *running += 1;
            *running
        };
        if running > MOST_AT_ONCE && message.is_of_application() {
            self.wrong(format!("{instance} answers {running} messages concurrently"));
        }
        Running { judge: self.clone(), instance, message, first_round: results == 0 }
    }

    pub(crate) fn tool_called(&self, message: Message, nth: u64) {
        self.note(&format!("the tool is called for {message}, {nth}"));
        let times = {
            let mut notes = self.notes();
            notes.counts.tool_calls += 1;
            let known = notes.messages.entry(message).or_default();
            let times = known.marks.entry(nth).or_default();
            *times += 1;
            *times
        };
        if times > 1 {
            self.wrong(format!("the tool was called {times} times for {message}, {nth}"));
        }
    }

    /// A watcher was notified that events may be missing.
    pub(crate) fn gap(&self, conversation: u16) {
        self.note(&format!("the watcher of {conversation} may have missed events"));
        self.notes().watched.entry(conversation).or_default().has_gap = true;
    }

    /// A watcher received this event.
    pub(crate) fn told(&self, conversation: u16, id: &str, about: Option<Message>, told: Told) {
        let about_text = about.map(|message| message.to_string()).unwrap_or_default();
        self.note(&format!("the watcher of {conversation} receives {about_text}"));
        let redis_fails = self.0.plan.redis_fails;
        let wrong = {
            let mut notes = self.notes();
            notes.counts.events += 1;
            let watched = notes.watched.entry(conversation).or_default();
            let new = watched.ids.insert(id.to_owned());
            let twice = new && about.is_some_and(|message| watched.told.contains(&message));
            if let (true, Some(message)) = (new && !twice, about) {
                watched.told.push(message);
                if told == Told::Alone {
                    watched.told_alone.insert(message);
                }
            }
            // An event after a gap, or after Redis has recovered, may be a repetition with the same id.
            let may_be_known = told == Told::Maybe || watched.has_gap || redis_fails;
            twice || !new && !may_be_known
        };
        if wrong {
            self.wrong(format!("the watcher of {conversation} received {about_text} twice"));
        }
    }

    /// Checks the stored messages of a conversation at the end, oldest first.
    pub(crate) fn stored(&self, conversation: u16, stored: &[KeptMessage]) {
        let mut wrong = Vec::new();
        {
            let mut notes = self.notes();
            notes.counts.conversations += 1;
            let turns = turns(conversation, stored, &mut wrong);
            judge_turns(conversation, &turns, &notes.messages, &mut wrong);
            let watched = notes.watched.get(&conversation).filter(|watched| !watched.has_gap);
            if let Some(watched) = watched {
                if !watched.is_whole(&turns, &self.0.plan) {
                    let told = &watched.told;
                    wrong.push(format!(
                        "the watcher of {conversation} received {told:?}, but {turns:?} are stored"
                    ));
                }
                notes.counts.without_gap += 1;
            }
        }
        wrong.into_iter().for_each(|what| self.wrong(what));
    }

    /// The counters, a hash of all records, and the violations.
    pub(crate) fn verdict(&self) -> (Counts, u64, Vec<String>) {
        let notes = self.notes();
        (notes.counts, notes.trace, notes.wrong.clone())
    }
}

/// The stored messages of users, each of which must be followed by its answer.
fn turns(conversation: u16, stored: &[KeptMessage], wrong: &mut Vec<String>) -> Vec<Message> {
    let mut turns: Vec<Message> = Vec::new();
    let mut open = None;
    for (index, KeptMessage { number, message }) in stored.iter().enumerate() {
        if usize::try_from(*number) != Ok(index + 1) {
            wrong.push(format!("message {index} of {conversation} has the number {number}"));
        }
        match (message.role, Message::in_text(&message.content)) {
            (Role::User, Some(asked)) => {
                if let Some(open) = open.replace(asked) {
                    wrong.push(format!("{open} is stored without its answer"));
                }
                turns.push(asked);
            }
            (Role::Assistant, _) if message.tool_calls.is_empty() => {
                let asked = open.take();
                if asked.is_none_or(|asked| !message.content.contains(&asked.answer())) {
                    wrong.push(format!("{asked:?} is stored with the answer to another message"));
                }
            }
            _ => {}
        }
    }
    turns
}

/// Checks the stored messages and their order.
fn judge_turns(
    conversation: u16,
    turns: &[Message],
    messages: &BTreeMap<Message, Known>,
    wrong: &mut Vec<String>,
) {
    let of_this = messages.iter().filter(|(message, _)| message.conversation == conversation);
    for (message, known) in of_this {
        let times = turns.iter().filter(|turn| *turn == message).count();
        let keyed = known.keyed;
        if times > 1 {
            wrong.push(format!("{message} is stored {times} times, keyed: {keyed}"));
        }
        if known.answer.is_some() && times == 0 {
            wrong.push(format!("{message} was answered but is not stored"));
        }
        if known.refused && times > 0 {
            wrong.push(format!("{message} was refused but is stored"));
        }
        let Some(place) = turns.iter().position(|turn| turn == message) else { continue };
        if !known.prompts.contains(&turns[..=place]) {
            wrong.push(format!(
                "{message} is stored after {:?}, but was answered after {:?}",
                &turns[..place],
                known.prompts,
            ));
        }
        let late = |before: &&Message| turns[place..].contains(*before);
        if let Some(before) = known.answered_before.iter().find(late) {
            wrong.push(format!("{message} is stored before {before}, which was answered earlier"));
        }
    }
}

impl Running {
    /// The model produces its next word.
    pub(crate) fn goes_on(&self) {
        let since = {
            let notes = self.judge.notes();
            let known = notes.messages.get(&self.message);
            let left = known.filter(|known| !known.keyed).and_then(|known| known.left);
            left.filter(|_| self.first_round).map(|left| left.elapsed())
        };
        if since.is_some_and(|since| since > GOES_ON_FOR) {
            let message = self.message;
            self.judge.wrong(format!("the model continues {message}, whose client is gone"));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let of = (self.instance, self.message.is_of_application());
        if let Some(running) = self.judge.notes().running.get_mut(&of) {
            *running -= 1;
        }
    }
}
