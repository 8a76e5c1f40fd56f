//! Clock drift of the device relative to the caller's clock. Pure. Not for measuring time.

use std::time::Duration;

const MILLION: i128 = 1_000_000;

/// Drift in parts per million: faster (positive) or slower than the caller's clock. Crystals of
/// such boards are within some tens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drift {
    ppm: i32,
}

impl Drift {
    /// Creates a clock that gains this many microseconds per second, at most half a million in
    /// either direction.
    pub fn ppm(ppm: i32) -> Self {
        Self { ppm: ppm.clamp(-500_000, 500_000) }
    }

    /// Returns the device's time when the caller's time is `at`.
    pub fn on_device(self, at: Duration) -> Duration {
        if self.ppm == 0 {
            return at;
        }
        nanos(at.as_nanos() as i128 * (MILLION + i128::from(self.ppm)) / MILLION)
    }

    /// Returns the first time of the caller's clock at which the device's clock shows at least
    /// `at`.
    pub fn at_caller(self, at: Duration) -> Duration {
        if self.ppm == 0 {
            return at;
        }
        let rate = MILLION + i128::from(self.ppm);
        nanos((at.as_nanos() as i128 * MILLION + rate - 1) / rate)
    }
}

fn nanos(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_drift_of_200_ppm_is_720_ms_an_hour() {
        let hour = Duration::from_secs(3_600);
        let ahead = Drift::ppm(200).on_device(hour) - hour;
        assert_eq!(ahead, Duration::from_millis(720));
        assert_eq!(Drift::default().on_device(hour), hour);
    }

    proptest! {
        #[test]
        fn the_callers_time_is_exact(ns in 0_u64..1 << 55, ppm in -500_000..500_000) {
            let drift = Drift::ppm(ppm);
            let at = Duration::from_nanos(ns);
            prop_assert!(drift.on_device(drift.at_caller(at)) >= at);
            prop_assert!(drift.at_caller(drift.on_device(at)) <= at);
        }
    }
}
