//! Everything that happens in one device's life, in the order of its times. Not for judging it.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hearken_ports::ChatMessage;
use hearken_socket::testkit::Received;
use tokio::time::Instant;

use super::events::Hears;
use super::outside::ModelAct;
use super::table::Event;

/// A prompt that the model got.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) k: usize,
    /// The questions in its last message of the person.
    pub(crate) questions: Vec<usize>,
    /// Rounds of calls since.
    pub(crate) round: usize,
    pub(crate) messages: Vec<ChatMessage>,
    /// The names of the tools that were offered.
    pub(crate) tools: Vec<String>,
    pub(crate) does: ModelAct,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// The device, or somebody else, ended whatever is not answered yet.
    Cut,
    /// As `Cut`, by an abort: the device wants to be told.
    Aborted,
    /// This was pushed to be spoken.
    Pushed(String),
    /// A question was typed.
    Typed(usize),
    /// The connection is there from here on.
    Connected,
    /// The device, or the server, does this.
    Event(Event),
    /// Nothing comes from the device any more, not even the answer to a ping.
    FellSilent,
    /// There is no room for turns, or there is again.
    Busy(bool),
    /// The device sends a packet of sound.
    Packet {
        voice: bool,
    },
    /// The recogniser was opened, and will make this of it.
    Opened(Hears),
    /// The recogniser has heard the whole of an utterance.
    Finished,
    /// The port that was asked last works until then.
    Works(Duration),
    /// The recogniser has heard all of this question, and will understand it.
    Heard(usize),
    Asked(Asked),
    /// The voice was asked for this.
    Line(String),
    /// A tool of the server was called.
    Called(String),
    /// It came to its end.
    Done(String),
    /// The device was told this.
    Received(Received),
    /// The device is about to be asked an ordinary question, after a long silence.
    Settled,
}

impl Seen {
    /// It may end the hearing of what was said, or a turn.
    pub(crate) fn forgets(&self) -> bool {
        match self {
            Self::Event(_) => true,
            Self::Received(told) => told.name() == "tts/start",
            _ => false,
        }
    }

    /// In a few words.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::Received(told) => told.name(),
            Self::Asked(asked) => format!("Asked({})", asked.k),
            other => format!("{other:?}"),
        }
    }
}

/// When something happened, and on which connection.
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

/// A life as it goes on.
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

    /// What is noted from here on belongs to another connection.
    pub(crate) fn connects(&self) -> usize {
        let mut inner = self.inner();
        inner.connection += 1;
        inner.connection
    }

    /// It happens now, on the newest connection.
    pub(crate) fn note(&self, seen: Seen) {
        let at = self.now();
        let mut inner = self.inner();
        let connection = inner.connection;
        inner.entries.push(Entry { at, connection, seen });
    }

    /// The device was told this then.
    pub(crate) fn told(&self, connection: usize, at: Duration, told: Received) {
        self.inner().entries.push(Entry { at, connection, seen: Seen::Received(told) });
    }

    /// All so far, by time; what happened at once in the order in which it was noted.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = self.inner().entries.clone();
        entries.sort_by_key(|entry| entry.at);
        entries
    }
}

/// Every number that follows this word in a text.
pub(crate) fn numbers(text: &str, word: &str) -> Vec<usize> {
    let parts = text.split(word).skip(1);
    let digits = parts.map(|p| p.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}
