//! Time of day for everything that is stored or sent, and the range of possible dates after a clock
//! jump. Not for time-outs, which use tokio's clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Minimum time for which a jump of the clock is doubted; at most it is twice this.
// Clocks that jump often jump back, and deleted data does not come back. Decision 0059.
const DOUBTED_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Minimum jump that is logged, in milliseconds. Adjusted clocks drift by less.
const TOLD_FROM_MS: i64 = 60_000;

/// Minimum difference that counts as a jump, in milliseconds: clocks are adjusted, and the two
/// clocks are not read at the same instant.
const JUMPS_FROM_MS: i64 = 1_000;

/// Date before which no version of this program ran, in seconds since 1970: 2026-01-01.
const SOONEST: i64 = 1_767_225_600;

/// Source of the time of day, in milliseconds: [`now`], or a virtual clock in tests.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns the current time, truncated to the millisecond. From then on, the range of possible
/// dates includes it, even if the clock jumps again at once.
pub fn now() -> Timestamp {
    observed().0
}

/// Range of the current date, by the readings of the clock over at least a day. Without a jump,
/// both ends equal the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateRange {
    /// Date for deciding what has expired: a clock that jumps ahead expires nothing.
    pub earliest: Timestamp,
    /// Date for deciding what lies in the future, and for comparing the order of events.
    pub latest: Timestamp,
}

impl From<Timestamp> for DateRange {
    fn from(now: Timestamp) -> Self {
        Self { earliest: now, latest: now }
    }
}

/// Returns the range of possible dates.
pub fn dates() -> DateRange {
    observed().1
}

/// Reads the clock. Returns its time, and the range of possible dates.
fn observed() -> (Timestamp, DateRange) {
    static JUMPS: Mutex<Option<Jumps>> = Mutex::new(None);
    let mut jumps = JUMPS.lock().expect("nothing panics while it holds the jumps");
    let now = Timestamp::now();
    let steady = Instant::now();
    let wall = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
    (wall, jumps.get_or_insert_with(|| Jumps::new(wall, steady)).dates(wall, steady))
}

/// Records the date at startup, so that later jumps are detected, and warns if it is impossible.
pub fn begin() {
    let DateRange { latest, .. } = dates();
    if latest.as_second() < SOONEST {
        tracing::warn!(
            date = %latest,
            "the clock of this machine is not set: tokens that devices get now expire two days after it is"
        );
    }
}

/// Returns the earliest possible date.
pub fn earliest() -> Timestamp {
    dates().earliest
}

/// Range of the difference between the time of day and the steady clock, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offsets {
    least: i64,
    most: i64,
}

impl Offsets {
    fn widened(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// Recent readings of the clock.
struct Jumps {
    origin: Instant,
    /// Start of the current period.
    since: Instant,
    current: Offsets,
    /// Offsets of the previous period.
    before: Offsets,
}

impl Jumps {
    fn new(wall: Timestamp, steady: Instant) -> Self {
        let offset = wall.as_millisecond();
        let offsets = Offsets { least: offset, most: offset };
        Self { origin: steady, since: steady, current: offsets, before: offsets }
    }

    /// Records the current time, and returns the range of possible dates.
    fn dates(&mut self, wall: Timestamp, steady: Instant) -> DateRange {
        let elapsed = steady.saturating_duration_since(self.origin).as_millis();
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        let offset = wall.as_millisecond().saturating_sub(elapsed);
        let here = Offsets { least: offset, most: offset };
        let known = self.current.widened(self.before);
        if offset > known.most.saturating_add(TOLD_FROM_MS)
            || offset < known.least.saturating_sub(TOLD_FROM_MS)
        {
            let by = SignedDuration::from_millis(offset.saturating_sub(known.most));
            tracing::warn!(%by, "the clock of this machine has jumped: expiry ignores the jump for a day");
        }
        if steady.saturating_duration_since(self.since) >= DOUBTED_FOR {
            (self.since, self.before, self.current) = (steady, self.current, here);
        } else {
            self.current = self.current.widened(here);
        }
        let all = self.current.widened(self.before);
        let date = |known: i64| {
            if known.abs_diff(offset) < JUMPS_FROM_MS.unsigned_abs() {
                return wall;
            }
            Timestamp::from_millisecond(known.saturating_add(elapsed)).unwrap_or(wall)
        };
        DateRange { earliest: date(all.least), latest: date(all.most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Machine with an adjustable clock.
    struct Machine {
        jumps: Jumps,
        wall: Timestamp,
        steady: Instant,
    }

    impl Machine {
        fn new() -> Self {
            let wall = Timestamp::from_second(1_790_000_000).unwrap();
            let steady = Instant::now();
            Self { jumps: Jumps::new(wall, steady), wall, steady }
        }

        /// Lets time pass, on both clocks.
        fn pass(&mut self, time: Duration) {
            self.wall += time;
            self.steady += time;
        }

        /// Returns the differences of the earliest and the latest date from the clock, in seconds.
        fn range(&mut self) -> (i64, i64) {
            let dates = self.jumps.dates(self.wall, self.steady);
            let from = |date: Timestamp| date.as_second() - self.wall.as_second();
            (from(dates.earliest), from(dates.latest))
        }
    }

    #[test]
    fn a_steady_clock_is_trusted() {
        let mut machine = Machine::new();
        for _ in 0..100 {
            machine.pass(HOUR);
            assert_eq!(machine.range(), (0, 0));
        }
        // An adjusted clock is trusted, too, and one that is read a little later than the steady
        // clock.
        for ms in [1, -1, 400, -800, 600] {
            machine.wall += SignedDuration::from_millis(ms);
            let dates = machine.jumps.dates(machine.wall, machine.steady);
            assert_eq!((dates.earliest, dates.latest), (machine.wall, machine.wall), "{ms}");
        }
    }

    #[test]
    fn a_jump_is_trusted_after_a_day() {
        for (hours, range) in [(1, (-3_600, 0)), (-1, (0, 3_600)), (9_000, (-32_400_000, 0))] {
            let mut machine = Machine::new();
            machine.pass(HOUR);
            assert_eq!(machine.range(), (0, 0));
            machine.wall += SignedDuration::from_hours(hours);
            assert_eq!(machine.range(), range, "{hours}");
            for passed in 1..=24 {
                machine.pass(HOUR);
                assert_eq!(machine.range(), range, "{hours} h, after {passed} h");
            }
            for _ in 0..24 {
                machine.pass(HOUR);
                machine.range();
            }
            assert_eq!(machine.range(), (0, 0), "{hours} h, after two days");
        }
    }

    #[test]
    fn a_reverted_jump_does_not_change_the_date() {
        let mut machine = Machine::new();
        machine.wall += HOUR;
        assert_eq!(machine.range(), (-3_600, 0));
        machine.pass(HOUR);
        machine.wall -= HOUR;
        assert_eq!(machine.range(), (0, 3_600));
    }

    /// A board whose clock starts in 1970.
    #[test]
    fn setting_the_clock_for_the_first_time_expires_nothing() {
        let steady = Instant::now();
        let begun = Timestamp::from_second(9).unwrap();
        let mut jumps = Jumps::new(begun, steady);
        let set = Timestamp::from_second(1_790_000_000).unwrap();
        let dates = jumps.dates(set, steady + HOUR);
        assert_eq!(dates, DateRange { earliest: begun + HOUR, latest: set });
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_is_no_jump_ahead() {
        let before = dates();
        tokio::time::advance(HOUR * 100).await;
        assert!(dates().earliest <= now() && before.earliest <= now());
    }
}
