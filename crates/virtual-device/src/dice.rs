//! The chance of a simulation: the same seed gives the same throws on every machine. Not for
//! secrets.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates the dice of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x6a09_e667_f3bc_c909)
    }

    /// Dice of their own, so that throws here do not change those elsewhere.
    pub fn fork(&mut self) -> Self {
        Self(self.throw())
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.throw() % (high.max(low) - low + 1)
    }

    /// A time from `low` to `high` milliseconds.
    pub fn ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// True this often in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.throw() % 1_000 < per_mille
    }

    /// One of these, of which there must be some.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let last = from.len() as u64 - 1;
        from[usize::try_from(self.between(0, last)).unwrap_or_default()].clone()
    }
}
