//! Everything that happens in one device's life, in order of time. Not for judging it.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hearken_ports::ChatMessage;
use hearken_socket::testkit::Received;
use tokio::time::Instant;

use super::events::Hears;
use super::outside::ModelAct;
use super::table::Event;

/// Prompt for the model.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) k: usize,
    /// Numbers of the questions in its last user message.
    pub(crate) questions: Vec<usize>,
    /// Number of rounds of calls since that message.
    pub(crate) round: usize,
    pub(crate) messages: Vec<ChatMessage>,
    /// Names of the offered tools.
    pub(crate) tools: Vec<String>,
    pub(crate) does: ModelAct,
}

/// Recorded entry.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// The device, or the server, ended everything that was not answered yet.
    Cut,
    /// Like `Cut`, by an abort, which requires an answer.
    Aborted,
    /// A message was pushed to be spoken.
    Pushed(String),
    /// A question was typed.
    Typed(usize),
    /// The connection was opened.
    Connected,
    /// The device, or the server, caused this event.
    Event(Event),
    /// The device sends nothing any more, not even the answer to a ping.
    FellSilent,
    /// The server starts to refuse turns, or admits them again.
    Busy(bool),
    /// The device sends a packet of sound.
    Packet {
        voice: bool,
    },
    /// The recogniser was opened, and will return this result.
    Opened(Hears),
    /// The recogniser has received the whole utterance.
    Finished,
    /// The port that was asked last works until this time.
    Works(Duration),
    /// The recogniser has received all of this question, and will understand it.
    Heard(usize),
    Asked(Asked),
    /// The synthesiser was asked for this.
    Line(String),
    /// A tool was called.
    Called(String),
    /// The call ended.
    Done(String),
    /// The device received this message.
    Received(Received),
    /// The device is about to ask an ordinary question, after a long silence.
    Settled,
}

impl Seen {
    /// Returns true if it may end an utterance or a turn, or shows that a turn has ended.
    pub(crate) fn forgets(&self) -> bool {
        match self {
            Self::Event(_) => true,
            Self::Received(told) => matches!(&*told.name(), "tts/start" | "tts/stop"),
            _ => false,
        }
    }

    /// Returns a short description.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::Received(told) => told.name(),
            Self::Asked(asked) => format!("Asked({})", asked.k),
            other => format!("{other:?}"),
        }
    }
}

/// Entry, with its time and its connection.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) connection: usize,
    pub(crate) seen: Seen,
}

struct Inner {
    connection: usize,
    entries: Vec<Entry>,
}

/// Trace of a life.
pub(crate) struct Trace {
    begun: Instant,
    inner: Mutex<Inner>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        let inner = Inner { connection: 0, entries: Vec::new() };
        Self { begun: Instant::now(), inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics while it holds a trace")
    }

    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Starts another connection for later entries. Returns its number.
    pub(crate) fn connects(&self) -> usize {
        let mut inner = self.inner();
        inner.connection += 1;
        inner.connection
    }

    /// Adds an entry with the current time, on the newest connection.
    pub(crate) fn note(&self, seen: Seen) {
        let at = self.now();
        let mut inner = self.inner();
        let connection = inner.connection;
        inner.entries.push(Entry { at, connection, seen });
    }

    /// Adds a message that the device received at this time.
    pub(crate) fn told(&self, connection: usize, at: Duration, told: Received) {
        self.inner().entries.push(Entry { at, connection, seen: Seen::Received(told) });
    }

    /// Returns all entries so far, ordered by time; simultaneous ones in order of recording.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = self.inner().entries.clone();
        entries.sort_by_key(|entry| entry.at);
        entries
    }
}

/// Returns every number that follows this word in a text.
pub(crate) fn numbers(text: &str, word: &str) -> Vec<usize> {
    let parts = text.split(word).skip(1);
    let digits = parts.map(|p| p.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}
