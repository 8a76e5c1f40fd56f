//! Time of day for everything that is stored or sent, and the dates that it may be where the clock
//! has jumped. Not for time-outs, which use tokio's clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Time for which a jump of the clock is doubted at least; at most, it is twice as long.
// Clocks that jump often jump back, and what was deleted meanwhile does not come back. Decision 0059.
const DOUBTED_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Least jump that is told in the log, in milliseconds. Clocks that are adjusted drift by less.
const TOLD_FROM_MS: i64 = 60_000;

/// Differences of less than this are no jumps, in milliseconds: clocks are adjusted, and both are not
/// read in the same instant.
const JUMPS_FROM_MS: i64 = 1_000;

/// A date before which no version of this program ran, in seconds since 1970: 2026-01-01.
const SOONEST: i64 = 1_767_225_600;

/// Source of the time of day, to the millisecond: [`now`], or in tests that of a virtual day.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns the current time, cut to the millisecond. A date that is stored is also one that it may be
/// from then on, however soon the clock jumps again.
pub fn now() -> Timestamp {
    observed().0
}

/// Dates between which the current one lies, by all that the clock has told for a day. Both are
/// that of the clock unless it has jumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateRange {
    /// By this date it is decided what has expired: a clock that jumps ahead ends nothing.
    pub earliest: Timestamp,
    /// By this date it is decided what was made in the future, or before something else.
    pub latest: Timestamp,
}

impl From<Timestamp> for DateRange {
    fn from(now: Timestamp) -> Self {
        Self { earliest: now, latest: now }
    }
}

/// Returns the dates that it may be.
pub fn dates() -> DateRange {
    observed().1
}

/// Reads the clock. Returns what it says, and the dates that it may be.
fn observed() -> (Timestamp, DateRange) {
    static JUMPS: Mutex<Option<Jumps>> = Mutex::new(None);
    let mut jumps = JUMPS.lock().expect("nothing panics while it holds the jumps");
    let now = Timestamp::now();
    let steady = Instant::now();
    let wall = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
    (wall, jumps.get_or_insert_with(|| Jumps::new(wall, steady)).dates(wall, steady))
}

/// Notes the date at the start, for jumps to be known by, and warns if it cannot be true.
pub fn begin() {
    let DateRange { latest, .. } = dates();
    if latest.as_second() < SOONEST {
        tracing::warn!(
            date = %latest,
            "the clock of this machine is not set: tokens that devices get now expire two days after it is"
        );
    }
}

/// Returns the earliest date that it may be.
pub fn earliest() -> Timestamp {
    dates().earliest
}

/// Differences between the time of day and the steady clock, in milliseconds.
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

/// What the clock has told lately.
struct Jumps {
    origin: Instant,
    /// Time at which the current period began.
    since: Instant,
    current: Offsets,
    /// The period before it.
    before: Offsets,
}

impl Jumps {
    fn new(wall: Timestamp, steady: Instant) -> Self {
        let offset = wall.as_millisecond();
        let offsets = Offsets { least: offset, most: offset };
        Self { origin: steady, since: steady, current: offsets, before: offsets }
    }

    /// Notes the current time, and returns the dates that it may be.
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
            tracing::warn!(%by, "the clock of this machine has jumped: nothing expires by that for a day");
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

    /// A clock that can be set.
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

        /// Lets time pass, as the clock tells it, too.
        fn pass(&mut self, time: Duration) {
            self.wall += time;
            self.steady += time;
        }

        /// How far the earliest and the latest date are from that of the clock, in seconds.
        fn range(&mut self) -> (i64, i64) {
            let dates = self.jumps.dates(self.wall, self.steady);
            let from = |date: Timestamp| date.as_second() - self.wall.as_second();
            (from(dates.earliest), from(dates.latest))
        }
    }

    #[test]
    fn a_clock_that_runs_is_believed() {
        let mut machine = Machine::new();
        for _ in 0..100 {
            machine.pass(HOUR);
            assert_eq!(machine.range(), (0, 0));
        }
        // So is one that is adjusted, or read a little later than the steady one.
        for ms in [1, -1, 400, -800, 600] {
            machine.wall += SignedDuration::from_millis(ms);
            let dates = machine.jumps.dates(machine.wall, machine.steady);
            assert_eq!((dates.earliest, dates.latest), (machine.wall, machine.wall), "{ms}");
        }
    }

    #[test]
    fn a_jump_is_believed_once_it_has_lasted_for_a_day() {
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
    fn a_jump_that_is_taken_back_leaves_the_date_where_it_was() {
        let mut machine = Machine::new();
        machine.wall += HOUR;
        assert_eq!(machine.range(), (-3_600, 0));
        machine.pass(HOUR);
        machine.wall -= HOUR;
        assert_eq!(machine.range(), (0, 3_600));
    }

    /// A board whose clock begins in 1970.
    #[test]
    fn a_clock_that_is_set_for_the_first_time_ends_nothing() {
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
