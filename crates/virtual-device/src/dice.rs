//! Random numbers of a simulation: a seed gives the same numbers on every machine. Not for secrets.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x6a09_e667_f3bc_c909)
    }

    /// Returns an independent generator, whose use does not affect this one.
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

    /// Returns a number from `low` to `high`, both inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.throw() % (high.max(low) - low + 1)
    }

    /// Returns a duration from `low` to `high` milliseconds.
    pub fn ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// Returns true with this probability, in thousandths.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.throw() % 1_000 < per_mille
    }

    /// Returns a random element of a non-empty slice.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let last = from.len() as u64 - 1;
        from[usize::try_from(self.between(0, last)).unwrap_or_default()].clone()
    }
}
