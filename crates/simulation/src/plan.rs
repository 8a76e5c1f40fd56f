//! What the seed of a world says: its size, its faults, and the bug that may be planted. Not for
//! doing any of it.

use std::fmt;
use std::time::Duration;

use crate::redis::Link;

/// Defect that is planted to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bug {
    /// The store does not refuse a turn whose lock was overtaken.
    LostFence,
    /// A turn that was said to be stored is lost at times.
    MissingSync,
    /// An event is published twice at times.
    DoubledEvent,
    /// As many requests run as are asked.
    UnboundedLane,
    /// A request goes on though its client has left.
    SwallowedCancel,
    /// The store takes a text session in place of any copy.
    BlindStore,
}

/// Fault of an instance, or of what instances share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An instance is killed, and started later.
    Kill,
    /// An instance stops by itself, and is started again.
    Stop,
    /// The clock of all jumps.
    Clock,
    /// The store fails for a while.
    Store,
    /// An instance loses Redis for a while.
    Link(Link),
    /// Redis starts anew.
    Redis {
        /// Without its data.
        forgets: bool,
    },
}

/// All faults, as often as they come: first those of every world, then those of Redis, and last its
/// loss of data.
const FAULTS: [Fault; 16] = [
    Fault::Kill,
    Fault::Kill,
    Fault::Kill,
    Fault::Stop,
    Fault::Clock,
    Fault::Store,
    Fault::Store,
    Fault::Store,
    Fault::Store,
    Fault::Store,
    Fault::Link(Link::Cut),
    Fault::Link(Link::Cut),
    Fault::Link(Link::Silent),
    Fault::Link(Link::Silent),
    Fault::Redis { forgets: false },
    Fault::Redis { forgets: true },
];

/// World of one seed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) bug: Option<Bug>,
    pub(crate) instances: usize,
    /// Longest time between two faults.
    pub(crate) fault_every: Duration,
    /// Redis, or the links to it, fail, too.
    pub(crate) redis_fails: bool,
    /// Redis loses its data, too.
    pub(crate) redis_forgets: bool,
    /// How often in a thousand the model fails, and how often it falls silent.
    pub(crate) model_fails: u32,
    pub(crate) model_hangs: u32,
}

impl Plan {
    pub(crate) fn of(seed: u64, bug: Option<Bug>) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let faulty = dice.u32(0..10) > 0;
        let redis_fails = dice.bool();
        Self {
            seed,
            bug,
            instances: dice.usize(1..=4),
            fault_every: Duration::from_secs(if faulty { dice.u64(2..40) } else { 100_000 }),
            redis_fails,
            redis_forgets: redis_fails && dice.bool(),
            model_fails: if faulty { dice.u32(0..80) } else { 0 },
            model_hangs: if faulty { dice.u32(0..20) } else { 0 },
        }
    }

    /// Faults that come in this world.
    pub(crate) fn faults(&self) -> &'static [Fault] {
        match (self.redis_fails, self.redis_forgets) {
            (false, _) => &FAULTS[..10],
            (true, false) => &FAULTS[..15],
            (true, true) => &FAULTS,
        }
    }
}

/// Conversations in a world: with applications, text clients and devices.
pub(crate) const CONVERSATIONS: usize = APPLICATIONS + TEXTS + DEVICES;
pub(crate) const APPLICATIONS: usize = 14;
pub(crate) const TEXTS: usize = 8;
pub(crate) const DEVICES: usize = 3;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, instances, fault_every, .. } = self;
        write!(
            f,
            "seed {seed}: {instances} instances, {CONVERSATIONS} conversations, a fault each {} s or sooner",
            fault_every.as_secs()
        )
    }
}
