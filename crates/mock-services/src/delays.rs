//! Response times of the mocks: a log-normal distribution, like those of real services, drawn with
//! a seed. Not for waiting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Source of random delays. Clones draw from the same sequence.
#[derive(Debug, Clone)]
pub struct Delay {
    median: Duration,
    spread: f64,
    dice: Arc<Mutex<fastrand::Rng>>,
}

impl Delay {
    /// Creates a source. Half of all delays are longer than `median`. `spread` is the standard
    /// deviation of their logarithm (0.0: all are equal; 0.5: one in twenty is over 2.3 times the
    /// median).
    pub fn new(median: Duration, spread: f64, seed: u64) -> Self {
        let dice = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Self { median, spread: spread.clamp(0.0, 3.0), dice }
    }

    /// Returns the next delay.
    pub fn draw(&self) -> Duration {
        if self.median.is_zero() || self.spread == 0.0 {
            return self.median;
        }
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        // Box-Muller transform: a normal deviate from two uniform ones.
        let radius = 1.0 - dice.f64();
        let angle = std::f64::consts::TAU * dice.f64();
        let normal = (-2.0 * radius.ln()).sqrt() * angle.cos();
        self.median.mul_f64((self.spread * normal).exp())
    }

    /// Waits for the next delay.
    pub(super) async fn pass(&self) {
        let delay = self.draw();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_delays_and_their_median_is_the_requested_one() {
        let delays = |seed| -> Vec<Duration> {
            let delay = Delay::new(Duration::from_millis(200), 0.5, seed);
            (0..2_001).map(|_| delay.draw()).collect()
        };
        let mut drawn = delays(7);
        assert_eq!(drawn, delays(7));
        assert_ne!(drawn, delays(8));
        drawn.sort();
        let median = drawn[1_000].as_secs_f64();
        assert!((0.18..0.22).contains(&median), "{median}");
        let late = drawn.iter().filter(|d| d.as_secs_f64() > 0.2 * 2.28).count();
        assert!((60..140).contains(&late), "{late} of 2,001");
    }

    #[test]
    fn without_a_spread_all_delays_are_equal() {
        let delay = Delay::new(Duration::from_millis(50), 0.0, 1);
        assert!((0..100).all(|_| delay.draw() == Duration::from_millis(50)));
        assert_eq!(Delay::new(Duration::ZERO, 0.5, 1).draw(), Duration::ZERO);
    }
}
