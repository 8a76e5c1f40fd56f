//! What must hold whatever fails: notes what was asked, done and told, and says what was wrong. Not
//! for making anything fail.

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

use crate::instance::MOST_AT_ONCE;
use crate::plan::{Bug, Plan};

/// How long a request may go on that nobody waits for, as far as its model notices.
const GOES_ON_FOR: Duration = Duration::from_secs(1);

/// How many of what was judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    conversations: u64,
    messages: u64,
    attempts: u64,
    answered: u64,
    refused: u64,
    unknown: u64,
    /// Answers that devices spoke.
    spoken: u64,
    /// Answers to text clients that were told not to be stored.
    unstored: u64,
    tool_calls: u64,
    events: u64,
    /// Conversations whose watcher was never told that events may be missing.
    without_gap: u64,
    faults_made: u64,
}

impl Counts {
    pub(crate) const ROWS: usize = 12;

    /// All of them, with their names; the conversations first.
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
            ("events told", self.events),
            ("without gap", self.without_gap),
            ("faults made", self.faults_made),
        ]
    }
}

/// What is known of a message.
#[derive(Default)]
struct Known {
    keyed: bool,
    /// Messages of the conversation that were answered before it was asked.
    answered_before: BTreeSet<Message>,
    answer: Option<String>,
    refused: bool,
    left: Option<Instant>,
    marks: BTreeMap<u64, u32>,
    /// What people had said in the prompts for it.
    prompts: BTreeSet<Vec<Message>>,
}

/// What a conversation's watcher was told.
#[derive(Default)]
struct Watched {
    ids: BTreeSet<String>,
    told: Vec<Message>,
    /// Those that an instance told while it was alone.
    told_alone: BTreeSet<Message>,
    /// It was told that events may be missing.
    has_gap: bool,
}

/// How a watcher is told of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is new.
    New,
    /// It may be known: the watcher is told everything that is kept.
    Maybe,
    /// It is new, and comes from an instance that is cut off from the others.
    Alone,
}

impl Watched {
    /// Whether all of this was told, in order. Instances that Redis does not connect tell of their
    /// own turns as they come: then the order may be another, and whoever goes on elsewhere from a
    /// later event does not hear of an earlier one. What Redis has lost, some do not hear of.
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

/// Notes of a world. Clones share them.
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
    /// Running calls of the model by instance, and whether they are for applications.
    running: BTreeMap<(usize, bool), usize>,
    /// What each device's person says now.
    saying: BTreeMap<u16, Message>,
    /// Nothing fails any more.
    is_calm: bool,
    wrong: Vec<String>,
    /// Hash of everything that was noted.
    trace: u64,
}

/// A call of the model, as long as it runs.
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
        self.0.notes.lock().expect("nothing panics while it holds the notes")
    }

    /// Whether this bug is planted.
    pub(crate) fn plants(&self, bug: Bug) -> bool {
        self.0.plan.bug == Some(bug)
    }

    /// A number from `from` up to below `to`.
    pub(crate) fn throw(&self, from: usize, to: usize) -> usize {
        self.0.dice.lock().expect("nothing panics while it holds the dice").usize(from..to)
    }

    /// A time from `from` up to below `to` milliseconds.
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

    /// Notes that something was wrong.
    pub(crate) fn wrong(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(&format!("WRONG {what}"));
        self.notes().wrong.push(what);
    }

    pub(crate) fn fault_made(&self, what: &str) {
        self.note(what);
        self.notes().counts.faults_made += 1;
    }

    /// From now on the model does not fail.
    pub(crate) fn calm(&self) {
        self.notes().is_calm = true;
    }

    pub(crate) fn model_fails(&self) -> (u32, u32) {
        let Plan { model_fails, model_hangs, .. } = self.0.plan;
        if self.notes().is_calm { (0, 0) } else { (model_fails, model_hangs) }
    }

    pub(crate) fn asks(&self, message: Message, keyed: bool, instance: usize) {
        self.note(&format!("{message} is asked of {instance}, keyed: {keyed}"));
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

    /// It was refused: nothing of it may be stored.
    pub(crate) fn refused(&self, message: Message, why: &str) {
        self.note(&format!("{message} is refused: {why}"));
        let mut notes = self.notes();
        notes.counts.refused += 1;
        notes.messages.entry(message).or_default().refused = true;
    }

    /// Nobody knows what became of it.
    pub(crate) fn unknown(&self, message: Message, why: &str) {
        self.note(&format!("{message} is given up: {why}"));
        self.notes().counts.unknown += 1;
    }

    pub(crate) fn left(&self, message: Message) {
        self.note(&format!("the client of {message} leaves"));
        self.notes().messages.entry(message).or_default().left = Some(Instant::now());
    }

    /// A call of the model begins, with these messages of people in its prompt.
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
            // A text session goes on with what its instance remembers while the store fails, and a
            // device with what its connection does.
            let knows_all = message.is_of_application() || message.is_last();
            missing.filter(|_| knows_all && !message.is_spoken()).copied()
        };
        if let Some(missing) = missing {
            self.wrong(format!("the model is asked about {message} without {missing}"));
        }
        // Where Redis does not lock the session, the same request may just have been stored: its
        // second answer is refused then.
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
            self.wrong(format!("{running} messages are answered at once by {instance}"));
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

    /// A watcher was told that events may be missing.
    pub(crate) fn gap(&self, conversation: u16) {
        self.note(&format!("the watcher of {conversation} may have missed events"));
        self.notes().watched.entry(conversation).or_default().has_gap = true;
    }

    /// A watcher was told this event.
    pub(crate) fn told(&self, conversation: u16, id: &str, about: Option<Message>, told: Told) {
        let about_text = about.map(|message| message.to_string()).unwrap_or_default();
        self.note(&format!("the watcher of {conversation} is told of {about_text}"));
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
            // What is told after a gap, or when Redis is back, may be known by its id.
            let may_be_known = told == Told::Maybe || watched.has_gap || redis_fails;
            twice || !new && !may_be_known
        };
        if wrong {
            self.wrong(format!("the watcher of {conversation} was told twice of {about_text}"));
        }
    }

    /// Judges what is stored of a conversation in the end, oldest first.
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
                        "the watcher of {conversation} was told of {told:?}, stored is {turns:?}"
                    ));
                }
                notes.counts.without_gap += 1;
            }
        }
        wrong.into_iter().for_each(|what| self.wrong(what));
    }

    /// Returns counts, a hash of all that happened, and what was wrong.
    pub(crate) fn verdict(&self) -> (Counts, u64, Vec<String>) {
        let notes = self.notes();
        (notes.counts, notes.trace, notes.wrong.clone())
    }
}

/// The messages of people that are stored, each followed by its answer.
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
                    wrong.push(format!("an answer is stored behind {asked:?} that is not its own"));
                }
            }
            _ => {}
        }
    }
    turns
}

/// Judges which messages are stored, and their order.
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
            wrong.push(format!("{message} was answered and is not stored"));
        }
        if known.refused && times > 0 {
            wrong.push(format!("{message} was refused and is stored"));
        }
        let Some(place) = turns.iter().position(|turn| turn == message) else { continue };
        if !known.prompts.contains(&turns[..=place]) {
            wrong.push(format!(
                "{message} is stored behind {:?}, and was answered behind {:?}",
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
    /// The model has come to its next word.
    pub(crate) fn goes_on(&self) {
        let since = {
            let notes = self.judge.notes();
            let known = notes.messages.get(&self.message);
            let left = known.filter(|known| !known.keyed).and_then(|known| known.left);
            left.filter(|_| self.first_round).map(|left| left.elapsed())
        };
        if since.is_some_and(|since| since > GOES_ON_FOR) {
            let message = self.message;
            self.judge.wrong(format!("the model goes on with {message}, whose client has left"));
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
