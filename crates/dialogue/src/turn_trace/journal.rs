//! Journal of the last turns, for watchers and for export. In memory, bounded. Not for the traces
//! themselves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hearken_ports::role::Keep;
use hearken_ports::usage::Used;
use jiff::Timestamp;
use metrics::counter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::{ClientKind, Entry, Facts, TracedSound, TracedTurn, TurnState, TurnTrace, Writer};
use crate::metrics::stages::record_turn;
use crate::role::AssignedRole;
use crate::tools::waiting::WaitingCalls;
use crate::usage::UsageMeter;

/// Maximum number of discarded turns in the list.
const MOST_DISCARDED: usize = 8;

/// Settings of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSettings {
    /// Maximum number of turns in the journal. `0` disables it.
    #[schemars(range(max = 10_000))]
    pub max_turns: usize,
    /// Include the words of both sides in the journal. The log never contains them.
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
    /// Number of changes so far.
    changes: watch::Sender<u64>,
    /// Receiver of finished turns, for trace export.
    export: OnceLock<mpsc::Sender<TracedTurn>>,
    /// Receiver of finished turns for the history, with their audio.
    history: OnceLock<mpsc::Sender<(TracedTurn, TracedSound)>>,
    keep: AtomicU8,
    /// Meter of the usage of turns.
    meter: OnceLock<UsageMeter>,
    waiting: WaitingCalls,
}

impl Default for TurnJournal {
    fn default() -> Self {
        Self::new(JournalSettings::default())
    }
}

impl TurnJournal {
    /// Creates a journal.
    pub fn new(settings: JournalSettings) -> Self {
        Self(Arc::new(Shared {
            settings,
            turns: Mutex::default(),
            changes: watch::Sender::new(0),
            export: OnceLock::new(),
            history: OnceLock::new(),
            keep: AtomicU8::default(),
            meter: OnceLock::new(),
            waiting: WaitingCalls::default(),
        }))
    }

    /// Returns whether words are shown.
    pub(super) fn keeps_words(&self) -> bool {
        self.0.settings.words
    }

    /// Returns what the history stores of finished turns.
    pub(super) fn keep(&self) -> Keep {
        match self.0.keep.load(Ordering::Relaxed) {
            0 => Keep::Off,
            1 => Keep::Text,
            _ => Keep::Audio,
        }
    }

    /// Sets what the history stores of turns that end after this call.
    pub fn set_keep(&self, keep: Keep) {
        self.0.keep.store(keep as u8, Ordering::Relaxed);
    }

    /// Sends each finished turn with words to this receiver, if it is to be stored. Turns above its
    /// capacity are lost and counted. Only the first receiver takes effect.
    pub fn keep_history(&self, receiver: mpsc::Sender<(TracedTurn, TracedSound)>) {
        if self.0.history.set(receiver).is_err() {
            tracing::error!("the history has a receiver already");
        }
    }

    /// Counts the usage of turns with this meter, and refuses turns above its limits. Only the
    /// first meter takes effect.
    pub fn count_with(&self, meter: UsageMeter) {
        if self.0.meter.set(meter).is_err() {
            tracing::error!("usage has a meter already");
        }
    }

    /// Returns the pending confirmations of its turns.
    pub fn waiting(&self) -> &WaitingCalls {
        &self.0.waiting
    }

    pub(super) fn meter(&self) -> Option<&UsageMeter> {
        self.0.meter.get()
    }

    /// Starts a turn of a client.
    pub fn begin(&self, kind: ClientKind, client: &str) -> TurnTrace {
        self.begin_as(kind, client, None)
    }

    /// Starts a turn of a client in this role, which may override what is stored.
    pub fn begin_as(
        &self,
        kind: ClientKind,
        client: &str,
        role: Option<Arc<AssignedRole>>,
    ) -> TurnTrace {
        let keep = role.as_ref().and_then(|role| role.history);
        let state =
            if kind == ClientKind::Voice { TurnState::Listening } else { TurnState::Thinking };
        let turn = TracedTurn {
            id: Uuid::new_v4(),
            kind,
            client: client.to_owned(),
            firmware: None,
            began: Timestamp::now(),
            state,
            outcome: None,
            heard: None,
            said: None,
            cut_off: None,
            spans: Vec::new(),
            events: Vec::new(),
            used: Used::default(),
        };
        // The change is announced while the list is locked: a watcher that wakes finds the turn in
        // the list.
        let mut turns = self.turns();
        let facts = Mutex::new(Facts {
            turn,
            speculations: 0,
            is_discarded: false,
            role,
            sound: TracedSound::default(),
            changed: self.changed(),
        });
        let entry = Arc::new(Entry { began: Instant::now(), keep, facts });
        turns.push_back(Arc::clone(&entry));
        while turns.len() > self.0.settings.max_turns {
            // Discarded turns are removed first.
            let first = turns.iter().position(|entry| entry.facts().is_discarded);
            turns.remove(first.unwrap_or(0));
        }
        drop(turns);
        TurnTrace {
            writer: Some(Arc::new(Writer { entry, journal: self.clone() })),
            speculation: 0,
        }
    }

    /// Returns the last turns, newest first.
    pub fn last(&self, most: usize) -> Vec<TracedTurn> {
        self.turns().iter().rev().take(most).map(|entry| self.shown(&entry.facts().turn)).collect()
    }

    /// Forgets turns that are deleted elsewhere. Their ends still count. Returns false if there are
    /// none.
    pub fn forget(&self, is_deleted: impl Fn(&TracedTurn) -> bool) -> bool {
        let mut turns = self.turns();
        let before = turns.len();
        turns.retain(|entry| !is_deleted(&entry.facts().turn));
        let forgot = turns.len() < before;
        drop(turns);
        if forgot {
            self.changed();
        }
        forgot
    }

    /// Removes all discarded turns but the last ones, whose start watchers may have seen.
    pub(super) fn drop_discarded(&self) {
        let mut turns = self.turns();
        let discarded = turns.iter().filter(|entry| entry.facts().is_discarded).count();
        let mut surplus = discarded.saturating_sub(MOST_DISCARDED);
        turns.retain(|entry| {
            let is_dropped = surplus > 0 && entry.facts().is_discarded;
            surplus -= usize::from(is_dropped);
            !is_dropped
        });
    }

    /// Counts the usage of a discarded turn.
    pub(super) fn count_refused(&self, turn: &TracedTurn, role: Option<&AssignedRole>) {
        if let Some(meter) = self.meter() {
            meter.count_refused(turn, role);
        }
    }

    /// Returns the turns that have changed after this number of changes, oldest first.
    pub fn changed_since(&self, seen: u64) -> Vec<TracedTurn> {
        let turns: Vec<_> = self.turns().iter().cloned().collect();
        let changed = turns.iter().map(|entry| entry.facts()).filter(|facts| facts.changed > seen);
        changed.map(|facts| self.shown(&facts.turn)).collect()
    }

    /// Returns a receiver of the number of changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Also sends each finished turn to this receiver. Turns above its capacity are lost and
    /// counted. Only the first receiver takes effect.
    pub fn export(&self, receiver: mpsc::Sender<TracedTurn>) {
        if self.0.export.set(receiver).is_err() {
            tracing::error!("the export has a receiver already");
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

    /// Returns a turn as the journal shows it.
    fn shown(&self, turn: &TracedTurn) -> TracedTurn {
        let mut turn = turn.clone();
        if !self.0.settings.words {
            (turn.heard, turn.said, turn.cut_off) = (None, None, None);
        }
        turn
    }

    /// Performs the consequences of the end of a turn: metrics, usage, history, export. All turns
    /// end here.
    pub(super) fn ended(
        &self,
        turn: TracedTurn,
        sound: TracedSound,
        keep: Keep,
        role: Option<&AssignedRole>,
    ) {
        record_turn(&turn);
        // The turn has its device and its role; the clients of services, which could count as well,
        // have neither. Decision 0074.
        if let Some(meter) = self.meter() {
            meter.count_turn(&turn, role);
        }
        // A turn without words is mostly an unintelligible sound: it is counted, but the history
        // holds words.
        let has_words = turn.heard.is_some() || turn.said.is_some();
        if keep != Keep::Off && has_words {
            // The end of a turn does not block: it runs on the threads of sockets, also in `Drop`.
            // Decision 0071.
            let lost =
                self.0.history.get().is_some_and(|h| h.try_send((turn.clone(), sound)).is_err());
            if lost {
                counter!("hearken_history_lost_total").increment(1);
            }
        }
        let lost = self.0.export.get().is_some_and(|export| export.try_send(turn).is_err());
        if lost {
            counter!("hearken_turn_exports_lost_total").increment(1);
        }
    }

    fn turns(&self) -> MutexGuard<'_, VecDeque<Arc<Entry>>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
