//! How many turns may run at once: as many as the server can, which it finds out by how late its
//! packets leave. One more is told that the server is busy, at once, instead of making all of them
//! stutter. Before that, speech is encoded with less effort. Not for how it is told, nor for
//! connections, of which there are places.
//!
//! The limit falls by a tenth whenever too many packets of the last half second were late, and
//! rises while it is nearly used up and none are: fast until they were late for the first time,
//! slowly from then on, as TCP does. Effort goes by the part of the cores that is in use, and comes back
//! when that is low for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::meters::{meters, whole};

/// How often the limit is looked at.
pub const WINDOW: Duration = Duration::from_millis(500);
/// Fewer packets than this say nothing of how late packets are.
const FEWEST_PACKETS: u64 = 50;
/// So many turns are let in whatever happens: where engines share the cores, packets of a single
/// household may be late.
const FEWEST_TURNS: usize = 8;
/// What is left of the limit where packets were late.
const DECREASE: f64 = 0.9;
/// The limit's rise in a window, as a part of it, at least one turn: before packets were late for
/// the first time, and later.
const FIRST_INCREASE: f64 = 0.25;
const INCREASE: f64 = 0.01;
/// Part of the limit in use beyond which it rises.
const NEARLY_FULL: f64 = 0.8;
/// Turns for each core that are let in at first: everybody may come at once after a restart.
const FIRST_TURNS: usize = 48;
/// A packet that waits longer than this to be encoded is late: voices that wait for as long as a
/// packet plays fall behind.
const ENCODING_LATE: Duration = Duration::from_millis(45);

/// Part of the cores in use beyond which effort is saved, and below which it need not be: saving
/// brings it to about half.
const STRAINED: f64 = 0.5;
const CALM: f64 = 0.2;
/// Windows of calm before effort is spent again.
const CALM_WINDOWS: usize = 20;
/// Windows for which saved effort is given time to show, before turns are held back.
const PATIENCE: usize = 4;

/// When a turn is one too many.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionSettings {
    /// Turns that may run at once, however well it goes.
    pub max_turns: usize,
    /// A packet that leaves later than this is late; devices have some to play meanwhile.
    pub late: Duration,
    /// Packets that may be late, of all, %: beyond, fewer turns may run.
    pub late_percent: f64,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self { max_turns: 10_000, late: Duration::from_millis(20), late_percent: 1.0 }
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
    /// Packets have been late since the start.
    met: AtomicBool,
    /// Effort is saved.
    strained: AtomicBool,
    /// Windows of calm so far, where it is.
    calm: AtomicUsize,
    /// Windows for which the limit stays.
    patience: AtomicUsize,
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
        let limit = AtomicUsize::new(settings.max_turns.min(FIRST_TURNS * cores()));
        Self(Arc::new(Inner {
            settings,
            running: AtomicUsize::new(0),
            limit,
            met: AtomicBool::new(false),
            strained: AtomicBool::new(false),
            calm: AtomicUsize::new(0),
            patience: AtomicUsize::new(0),
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
        self.saw(late_by > self.0.settings.late);
    }

    /// A packet has waited this long to be encoded.
    pub(crate) fn packet_encoded(&self, waited: Duration) {
        self.saw(waited > ENCODING_LATE);
    }

    fn saw(&self, late: bool) {
        self.0.sent.fetch_add(1, Ordering::Relaxed);
        if late {
            self.0.late.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The server is near the end of its strength: what can be done with less effort should be.
    pub fn is_strained(&self) -> bool {
        self.0.strained.load(Ordering::Relaxed)
    }

    /// Looks at the packets, and at the process's CPU time, again and again and changes what may
    /// be done, until dropped.
    pub async fn govern(self, cpu_time: impl Fn() -> Duration) {
        let cores = whole(cores());
        let mut before = (Instant::now(), cpu_time());
        let mut windows = interval(WINDOW);
        windows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            windows.tick().await;
            let now = (Instant::now(), cpu_time());
            let time = (now.0 - before.0).as_secs_f64() * cores;
            let used = now.1.saturating_sub(before.1).as_secs_f64();
            before = now;
            self.look(if time > 0.0 { used / time } else { 0.0 });
        }
    }

    /// Ends a window in which this part of the cores was in use.
    fn look(&self, busy: f64) {
        let late = self.late();
        self.spare(busy > STRAINED || late == Some(true), busy < CALM);
        if let Some(late) = late {
            self.limit(late);
        }
        meters().turn_limit.set(whole(self.0.limit.load(Ordering::Relaxed)));
    }

    /// Too many packets were late; none where there were too few to tell.
    fn late(&self) -> Option<bool> {
        let Inner { settings, sent, late, .. } = &*self.0;
        if sent.load(Ordering::Relaxed) < FEWEST_PACKETS {
            return None;
        }
        let (sent, late) = (sent.swap(0, Ordering::Relaxed), late.swap(0, Ordering::Relaxed));
        #[allow(clippy::cast_precision_loss, reason = "packets of half a second")]
        let too_late = late as f64 * 100.0 > settings.late_percent * sent as f64;
        Some(too_late)
    }

    /// Saves effort, or spends it again.
    fn spare(&self, strain: bool, calm: bool) {
        let Inner { strained, calm: windows, patience, .. } = &*self.0;
        if strain {
            windows.store(0, Ordering::Relaxed);
            if !strained.swap(true, Ordering::Relaxed) {
                patience.store(PATIENCE, Ordering::Relaxed);
                tracing::info!("the cores are busy: speech is encoded with less effort");
            }
        } else if !calm {
            windows.store(0, Ordering::Relaxed);
        } else if windows.fetch_add(1, Ordering::Relaxed) + 1 >= CALM_WINDOWS {
            strained.store(false, Ordering::Relaxed);
        }
        meters().strained.set(if self.is_strained() { 1.0 } else { 0.0 });
    }

    fn limit(&self, too_late: bool) {
        let Inner { settings, running, limit, patience, refused, met, .. } = &*self.0;
        let waits = patience
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        let held_back = refused.swap(0, Ordering::Relaxed) > 0;
        let now = limit.load(Ordering::Relaxed);
        let running = running.load(Ordering::Relaxed);
        let full = held_back || whole(running) > whole(now) * NEARLY_FULL;
        let first = !met.fetch_or(too_late, Ordering::Relaxed);
        let next = if too_late && waits {
            now
        } else if too_late {
            part(now.min(running.max(1)), DECREASE)
        } else if full {
            now + part(now, if first { FIRST_INCREASE } else { INCREASE }).max(1)
        } else {
            now
        };
        let most = settings.max_turns;
        let next = next.clamp(FEWEST_TURNS.min(most), most);
        if next < now {
            tracing::warn!(running, limit = next, "packets leave late: fewer turns are let in");
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

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
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
            let late_by = Duration::from_millis(if n < late { 21 } else { 20 });
            admission.packet_sent(late_by);
        }
        admission.look(0.4);
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
    fn the_limit_rises_fast_at_first_and_slowly_after_packets_were_late() {
        let admission = admission(1_000);
        let first = limit(&admission);
        assert_eq!(first, FIRST_TURNS * cores());
        let mut places: Vec<_> = (0..first).map(|_| admission.enter().unwrap()).collect();
        sent(&admission, 1_000, 10);
        assert_eq!(limit(&admission), first + first / 4, "one in a hundred is not too many");
        places.push(admission.enter().unwrap());
        let before = limit(&admission);
        for _ in 0..PATIENCE {
            sent(&admission, 1_000, 11);
            assert!(admission.is_strained());
            assert_eq!(limit(&admission), before, "less effort comes first");
        }
        sent(&admission, 1_000, 11);
        let fewer = (first + 1) * 9 / 10;
        assert_eq!(limit(&admission), fewer, "a tenth less than ran");
        assert!(admission.enter().is_none());
        sent(&admission, 1_000, 0);
        assert_eq!(limit(&admission), fewer + 1, "somebody was held back");
        drop(places);
        sent(&admission, 1_000, 0);
        assert_eq!(limit(&admission), fewer + 1, "nobody was");
    }

    #[test]
    fn effort_is_saved_while_the_cores_are_busy_and_spent_after_a_long_calm() {
        let admission = admission(10);
        admission.look(STRAINED + 0.01);
        assert!(admission.is_strained());
        for _ in 1..CALM_WINDOWS {
            admission.look(CALM - 0.01);
        }
        admission.look(0.4);
        assert!(admission.is_strained(), "calm begins anew");
        for _ in 1..CALM_WINDOWS {
            admission.look(CALM - 0.01);
            assert!(admission.is_strained());
        }
        admission.look(CALM - 0.01);
        assert!(!admission.is_strained());
    }

    #[test]
    fn few_packets_say_nothing_and_some_turns_always_run() {
        let admission = admission(20);
        sent(&admission, FEWEST_PACKETS - 1, FEWEST_PACKETS - 1);
        assert_eq!(limit(&admission), 20);
        for _ in 0..20 + PATIENCE {
            sent(&admission, 100, 100);
        }
        assert_eq!(limit(&admission), FEWEST_TURNS);
    }
}
