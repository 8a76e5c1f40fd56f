//! How many turns may run at once: as many as the server can, which it finds out by how late its
//! packets leave. One more is told that the server is busy, at once, instead of making all of them
//! stutter. Not for how it is told, nor for connections, of which there are places.
//!
//! The limit falls by a tenth whenever too many packets of the last half second were late, and
//! rises slowly while turns are held back and none are (additive increase, multiplicative
//! decrease, as TCP does).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::meters::{LATE, meters};

/// How often the limit is looked at.
pub const WINDOW: Duration = Duration::from_millis(500);
/// Fewer packets than this say nothing of how late packets are.
const FEWEST_PACKETS: u64 = 50;
/// So many turns are let in whatever happens.
const FEWEST_TURNS: usize = 2;
/// What is left of the limit where packets were late.
const DECREASE: f64 = 0.9;
/// The limit's rise in a window, as a part of it; at least one turn.
const INCREASE: f64 = 0.01;

/// When a turn is one too many.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionSettings {
    /// Turns that may run at once, however well it goes.
    pub max_turns: usize,
    /// Packets that leave over 5 ms late, of all, %: beyond, fewer turns may run.
    pub late_percent: f64,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self { max_turns: 10_000, late_percent: 1.0 }
    }
}

/// Lets turns in. Clones count together.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: AdmissionSettings,
    running: AtomicUsize,
    limit: AtomicUsize,
    /// Since the last look.
    refused: AtomicU64,
    sent: AtomicU64,
    late: AtomicU64,
}

/// A turn's place among those that run; given back when dropped.
#[derive(Debug)]
pub struct Place(Arc<Inner>);

impl Admission {
    /// Nobody is in.
    pub fn new(settings: AdmissionSettings) -> Self {
        let limit = AtomicUsize::new(settings.max_turns);
        Self(Arc::new(Inner {
            settings,
            running: AtomicUsize::new(0),
            limit,
            refused: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }))
    }

    /// A place for one more turn, where there is any.
    pub fn enter(&self) -> Option<Place> {
        let limit = self.0.limit.load(Ordering::Relaxed);
        let taken = self.0.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
            (running < limit).then_some(running + 1)
        });
        if taken.is_err() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        meters().running_turns.increment(1);
        Some(Place(Arc::clone(&self.0)))
    }

    /// A packet has been sent this long after it was due.
    pub(crate) fn packet_sent(&self, late_by: Duration) {
        self.0.sent.fetch_add(1, Ordering::Relaxed);
        if late_by > LATE {
            self.0.late.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Looks at the packets again and again and changes the limit, until dropped.
    pub async fn govern(self) {
        let mut windows = interval(WINDOW);
        windows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            windows.tick().await;
            self.look();
        }
    }

    fn look(&self) {
        let Inner { settings, running, limit, refused, sent, late } = &*self.0;
        meters().turn_limit.set(whole(limit.load(Ordering::Relaxed)));
        if sent.load(Ordering::Relaxed) < FEWEST_PACKETS {
            return;
        }
        let (sent, late) = (sent.swap(0, Ordering::Relaxed), late.swap(0, Ordering::Relaxed));
        let held_back = refused.swap(0, Ordering::Relaxed) > 0;
        let now = limit.load(Ordering::Relaxed);
        let running = running.load(Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss, reason = "packets of half a second")]
        let too_late = late as f64 * 100.0 > settings.late_percent * sent as f64;
        let next = if too_late {
            part(now.min(running.max(1)), DECREASE)
        } else if held_back {
            now + part(now, INCREASE).max(1)
        } else {
            now
        };
        let most = settings.max_turns.max(FEWEST_TURNS);
        let next = next.clamp(FEWEST_TURNS, most);
        if next < now {
            tracing::warn!(
                running,
                limit = next,
                late,
                sent,
                "packets leave late: fewer turns are let in"
            );
        }
        limit.store(next, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        meters().running_turns.decrement(1);
    }
}

fn whole(count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count as f64;
    count
}

fn part(count: usize, part: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
    let part = (whole(count) * part) as usize;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(max_turns: usize) -> Admission {
        Admission::new(AdmissionSettings { max_turns, ..AdmissionSettings::default() })
    }

    fn sent(admission: &Admission, packets: u64, late: u64) {
        for n in 0..packets {
            let late_by = if n < late { LATE * 2 } else { Duration::ZERO };
            admission.packet_sent(late_by);
        }
        admission.look();
    }

    fn limit(admission: &Admission) -> usize {
        admission.0.limit.load(Ordering::Relaxed)
    }

    #[test]
    fn there_are_as_many_places_as_may_be_and_they_are_given_back() {
        let admission = admission(2);
        let places = [admission.enter(), admission.enter()];
        assert!(places.iter().all(Option::is_some));
        assert!(admission.clone().enter().is_none());
        drop(places);
        assert!(admission.enter().is_some());
    }

    #[test]
    fn late_packets_let_fewer_in_and_the_limit_comes_back() {
        let admission = admission(1_000);
        let places: Vec<_> = (0..100).map(|_| admission.enter()).collect();
        sent(&admission, 1_000, 10);
        assert_eq!(limit(&admission), 1_000, "one in a hundred is not too many");
        sent(&admission, 1_000, 11);
        assert_eq!(limit(&admission), 90, "a tenth less than ran");
        assert!(admission.enter().is_none());
        drop(places);
        sent(&admission, 1_000, 0);
        assert_eq!(limit(&admission), 91, "somebody was held back");
        sent(&admission, 1_000, 0);
        assert_eq!(limit(&admission), 91, "nobody was");
    }

    #[test]
    fn few_packets_say_nothing_and_some_turns_always_run() {
        let admission = admission(3);
        sent(&admission, FEWEST_PACKETS - 1, FEWEST_PACKETS - 1);
        assert_eq!(limit(&admission), 3);
        for _ in 0..20 {
            sent(&admission, 100, 100);
        }
        assert_eq!(limit(&admission), FEWEST_TURNS);
    }
}
