//! Journal of the last turns, for who watches them and for who exports them. In memory, bounded. Not for what happens in a
//! turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use metrics::counter;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Activity, ClientKind, Entry, Facts, TracedTurn, TurnTrace, Writer};
use crate::metrics::stages::record_turn;

/// Settings of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSettings {
    /// Maximum number of turns that are kept, from 0.
    pub max_turns: usize,
    /// Whether what was said is kept with them.
    pub words: bool,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self { max_turns: 500, words: true }
    }
}

/// Journal of the turns of this server. Clones share it.
#[derive(Clone)]
pub struct TurnJournal(Arc<Shared>);

struct Shared {
    settings: JournalSettings,
    /// Turns, oldest first.
    turns: Mutex<VecDeque<Arc<Entry>>>,
    /// Number of changes until now.
    changes: watch::Sender<u64>,
    /// Receiver of turns that have ended.
    export: OnceLock<mpsc::Sender<TracedTurn>>,
}

impl Default for TurnJournal {
    fn default() -> Self {
        Self::new(JournalSettings::default())
    }
}

impl TurnJournal {
    /// Creates a journal.
    pub fn new(settings: JournalSettings) -> Self {
        let (turns, changes) = (Mutex::default(), watch::Sender::new(0));
        Self(Arc::new(Shared { settings, turns, changes, export: OnceLock::new() }))
    }

    /// Returns whether what was said is kept.
    pub(super) fn keeps_words(&self) -> bool {
        self.0.settings.words
    }

    /// Begins a turn of a client.
    pub fn begin(&self, kind: ClientKind, client: &str) -> TurnTrace {
        let activity =
            if kind == ClientKind::Voice { Activity::Listening } else { Activity::Thinking };
        let turn = TracedTurn {
            id: Uuid::new_v4(),
            kind,
            client: client.to_owned(),
            began: Timestamp::now(),
            activity,
            outcome: None,
            heard: None,
            said: None,
            spans: Vec::new(),
            moments: Vec::new(),
        };
        let facts = Mutex::new(Facts { turn, attempts: 0, changed: self.changed() });
        let entry = Arc::new(Entry { began: Instant::now(), facts });
        let mut turns = self.turns();
        turns.push_back(Arc::clone(&entry));
        while turns.len() > self.0.settings.max_turns {
            turns.pop_front();
        }
        drop(turns);
        TurnTrace { writer: Some(Arc::new(Writer { entry, journal: self.clone() })), attempt: 0 }
    }

    /// Returns the last turns, newest first.
    pub fn last(&self, most: usize) -> Vec<TracedTurn> {
        self.turns().iter().rev().take(most).map(|entry| entry.facts().turn.clone()).collect()
    }

    /// Returns the turns that have changed after this number of changes, oldest first.
    pub fn changed_since(&self, seen: u64) -> Vec<TracedTurn> {
        let turns: Vec<_> = self.turns().iter().cloned().collect();
        let changed = turns.iter().map(|entry| entry.facts()).filter(|facts| facts.changed > seen);
        changed.map(|facts| facts.turn.clone()).collect()
    }

    /// Returns a receiver of the number of changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Sends each turn that ends to this receiver, too. What it has no place for is lost and counted. Only the first
    /// receiver counts.
    pub fn export(&self, receiver: mpsc::Sender<TracedTurn>) {
        if self.0.export.set(receiver).is_err() {
            tracing::error!("turns are exported already");
        }
    }

    /// Counts a change, and returns its number.
    pub(super) fn changed(&self) -> u64 {
        let mut number = 0;
        self.0.changes.send_modify(|changes| {
            *changes += 1;
            number = *changes;
        });
        number
    }

    pub(super) fn ended(&self, turn: TracedTurn) {
        record_turn(&turn);
        let lost = self.0.export.get().is_some_and(|export| export.try_send(turn).is_err());
        if lost {
            counter!("hearken_turn_exports_lost_total").increment(1);
        }
    }

    fn turns(&self) -> MutexGuard<'_, VecDeque<Arc<Entry>>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
