//! Outcomes of the turns of each kind of client, and waiting times. Not for the expected outcomes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Maximum number of stored descriptions of lost turns.
const MOST_TOLD: usize = 20;

/// Kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Device,
    Text,
    Application,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// With the words of the services.
    Answered,
    /// With other words, because a service was made to return them.
    Damaged,
    /// With an apology or an error.
    Apologised,
    /// With the phrase of a busy server.
    Busy,
    /// With a status that asks the client to retry.
    Refused,
    /// The client left during the turn.
    Left,
    /// In none of these ways.
    Lost,
}

/// Turns of one kind of client.
#[derive(Default)]
struct Turns {
    counts: BTreeMap<Outcome, usize>,
    waits: Vec<Duration>,
}

#[derive(Default)]
struct Seen {
    turns: BTreeMap<Kind, Turns>,
    lost: Vec<String>,
}

/// Turns of all clients.
#[derive(Default)]
pub(super) struct Outcomes(Mutex<Seen>);

impl Outcomes {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    /// Counts a turn. `wait` is set for clients that stayed.
    pub(super) fn add(&self, kind: Kind, outcome: Outcome, wait: Option<Duration>) {
        let mut seen = self.seen();
        let turns = seen.turns.entry(kind).or_default();
        *turns.counts.entry(outcome).or_default() += 1;
        turns.waits.extend(wait);
    }

    /// Counts a lost turn and prints it.
    pub(super) fn lose(&self, kind: Kind, why: &str) {
        self.add(kind, Outcome::Lost, None);
        let why = format!("{kind:?}: {why}");
        eprintln!("lost: {why}");
        let mut seen = self.seen();
        if seen.lost.len() < MOST_TOLD {
            seen.lost.push(why);
        }
    }

    /// Descriptions of lost turns.
    pub(super) fn lost(&self) -> Vec<String> {
        self.seen().lost.clone()
    }

    /// The number of turns of this kind with this outcome.
    pub(super) fn count(&self, kind: Kind, outcome: Outcome) -> usize {
        let seen = self.seen();
        seen.turns.get(&kind).and_then(|turns| turns.counts.get(&outcome)).copied().unwrap_or(0)
    }

    /// A table with a row for each kind of client.
    pub(super) fn table(&self) -> String {
        let mut out = "| client | turns by outcome | wait p50 | p99 | longest, ms |\n".to_owned();
        for (kind, turns) in &mut self.seen().turns {
            turns.waits.sort_unstable();
            let part = |percent: usize| {
                let place = (turns.waits.len() * percent / 100).min(turns.waits.len().max(1) - 1);
                turns.waits.get(place).map_or(0, Duration::as_millis)
            };
            let counts = &turns.counts;
            let [p50, p99, longest] = [50, 99, 100].map(part);
            out += &format!("| {kind:?} | {counts:?} | {p50} | {p99} | {longest} |\n");
        }
        out
    }
}
