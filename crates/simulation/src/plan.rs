//! The plan of a world by its seed: its size, its faults, and a planted bug, if any. Not for carrying it out.

use std::fmt;
use std::time::Duration;

use crate::redis::Link;

/// A defect that is planted to check that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bug {
    /// The store does not refuse a turn whose lock was overtaken.
    LostFence,
    /// A turn that was reported as stored is sometimes lost.
    MissingSync,
    /// An event is sometimes published twice.
    DoubledEvent,
    /// The number of concurrent requests is not limited.
    UnboundedLane,
    /// A request continues although its client has disconnected.
    SwallowedCancel,
    /// The store replaces any copy of a text session.
    BlindStore,
}

/// A fault of an instance, or of a shared service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An instance is killed, and started later.
    Kill,
    /// An instance stops gracefully, and is started again.
    Stop,
    /// The clock of all instances jumps.
    Clock,
    /// The store fails for a while.
    Store,
    /// An instance loses Redis for a while.
    Link(Link),
    /// Redis restarts.
    Redis {
        /// Without its data.
        forgets: bool,
    },
}

/// All faults, as often as they occur: first those of every world, then those of Redis, and last
/// its loss of data.
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

/// The world of one seed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) bug: Option<Bug>,
    pub(crate) instances: usize,
    /// Maximum time between two faults.
    pub(crate) fault_every: Duration,
    /// Redis, or links to it, also fail.
    pub(crate) redis_fails: bool,
    /// Redis also loses its data.
    pub(crate) redis_forgets: bool,
    /// Failures of the model per thousand calls, and calls without a response per thousand.
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

    /// The faults of this world.
    pub(crate) fn faults(&self) -> &'static [Fault] {
        match (self.redis_fails, self.redis_forgets) {
            (false, _) => &FAULTS[..10],
            (true, false) => &FAULTS[..15],
            (true, true) => &FAULTS,
        }
    }
}

/// Number of conversations in a world: with applications, text clients and devices.
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
