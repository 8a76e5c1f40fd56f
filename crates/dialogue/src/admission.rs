//! Admission control: limits the number of concurrent turns, by packet lateness and the load of the
//! encoding threads. A turn above the limit is refused at once ("the server is busy"), instead of
//! making all turns stutter. Before that, speech is encoded with less effort. Not for the wording
//! of the refusal, nor for connections, which have slots of their own.
//!
//! The limit rises while it is nearly used up, and faster the more headroom the busiest encoding
//! thread has. If the running turns overload that thread, the limit falls to what the thread can
//! just handle, before any packet is late. If packets are repeatedly late all the same, the limit
//! falls by a tenth, and rises slowly for a while; without trouble it returns to its initial value.
//! The encoding effort depends on the utilisation of these threads and of all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hearken_base::ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::metrics::{actor_metrics, as_f64};

/// Length of one control window: the interval between updates of the limit.
pub const WINDOW: Duration = Duration::from_millis(500);
/// Minimum number of packets to judge lateness; below it, counts carry over to the next window.
const FEWEST_PACKETS: u64 = 50;
/// Lower bound of the limit, in turns: if speech engines share the cores, packets of a single
/// household may be late.
const FEWEST_TURNS: usize = 8;
/// Smallest factor by which one window may reduce the limit.
const DECREASE: f64 = 0.9;
/// Largest increase of the limit per window, as a fraction of it (at least one turn): normally, and
/// (`WARY_INCREASE`) for a while after late packets.
const INCREASE: f64 = 0.25;
const WARY_INCREASE: f64 = 0.01;
/// Windows without late packets after which the limit may rise fast again. Late packets after that
/// are first treated as a transient of the machine.
const WARY_WINDOWS: usize = 20;
/// Weight of the newest window in the moving averages of the load and of the running turns, which
/// cover about five seconds. Turns come in bursts, and cause load only once recognition, the model
/// and synthesis respond.
const NEWEST: f64 = 0.1;
/// Fraction of the limit in use above which it rises.
const NEARLY_FULL: f64 = 0.8;
/// Initial limit per core, in turns: all devices may reconnect at once after a restart.
const FIRST_TURNS: usize = 48;
/// Delay of encoding, after a packet became urgent, above which the packet is late. A turn that is
/// behind by the length of a packet never catches up.
const ENCODING_LATE: Duration = Duration::from_millis(45);

/// Fraction of the cores in use above which effort is reduced, which brings the use to about half.
const STRAINED: f64 = 0.5;
/// Headroom factor below which encoding effort is reduced too.
const LOW_HEADROOM: f64 = 1.25;
/// Fraction of the cores in use below which full effort may return.
const CALM: f64 = 0.2;
/// Cost of encoding at full effort, as a multiple of its cost at reduced effort.
const FULL_EFFORT: f64 = 2.25;
/// Consecutive calm windows before full effort returns.
const CALM_WINDOWS: usize = 20;
/// Windows for reduced effort to take effect before the limit falls, and (`PATIENCE_AGAIN`) for a
/// lower limit to take effect before it falls again.
const PATIENCE: usize = 4;
const PATIENCE_AGAIN: usize = 1;

/// Section `[admission]`: limits of the turns in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionSettings {
    /// Maximum number of concurrent turns, even without overload; further turns get the
    /// phrase `busy`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_turns: usize,
    /// Delay past its due time above which a packet counts as late. Devices have some audio
    /// buffered.
    #[serde(rename = "late_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1, max = 1_000))]
    pub late: Duration,
    /// Share of late packets above which the server reduces the number of concurrent turns.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub late_percent: f64,
    /// Utilisation of a thread that encodes speech above which the server reduces the
    /// number of concurrent turns.
    #[schemars(range(min = 10.0, max = 100.0))]
    pub busy_percent: f64,
    /// Maximum number of turns per minute of one device; further turns get the phrase
    /// `busy`. `0` disables the limit.
    #[schemars(range(max = 10_000))]
    pub turns_per_minute: u32,
    /// Maximum number of turns per hour of one device; further turns get the phrase `busy`.
    /// `0` disables the limit.
    #[schemars(range(max = 100_000))]
    pub turns_per_hour: u32,
    /// Maximum number of turns per minute of all devices and text clients at one address
    /// that send no token. `0` disables the limit.
    #[schemars(range(max = 100_000))]
    pub turns_per_address: u32,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            max_turns: 10_000,
            late: Duration::from_millis(20),
            late_percent: 1.0,
            busy_percent: 75.0,
            turns_per_minute: 20,
            turns_per_hour: 300,
            turns_per_address: 60,
        }
    }
}

/// Admission control for turns. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: AdmissionSettings,
    /// Initial limit.
    first: usize,
    running: AtomicUsize,
    limit: AtomicUsize,
    /// True while encoding effort is reduced.
    strained: AtomicBool,
    /// Turns refused since the last window; packets (`sent`, `late`) since last judged.
    refused: AtomicU64,
    sent: AtomicU64,
    late: AtomicU64,
}

/// Control loop of an [`Admission`]: sets its limit and its encoding effort.
struct Governor {
    admission: Admission,
    /// Moving average of the utilisation of the busiest encoding thread, 0 to 1.
    load: f64,
    /// Moving average of the number of running turns.
    ran: f64,
    /// Remaining windows in which the limit rises slowly.
    wary: usize,
    /// Consecutive calm windows so far.
    calm: usize,
    /// Remaining windows in which the limit does not fall.
    patience: usize,
}

/// Permit of one running turn; dropping it releases the permit.
#[derive(Debug)]
pub struct TurnPermit(Arc<Inner>);

impl Admission {
    /// Creates an admission control with no running turns.
    pub fn new(settings: AdmissionSettings) -> Self {
        let first = settings.max_turns.min(FIRST_TURNS * cores());
        Self(Arc::new(Inner {
            settings,
            first,
            running: AtomicUsize::new(0),
            limit: AtomicUsize::new(first),
            strained: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }))
    }

    /// Returns a permit for a turn, or `None` if the limit is reached.
    pub fn try_acquire(&self) -> Option<TurnPermit> {
        let limit = self.0.limit.load(Ordering::Relaxed);
        let taken = self.0.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
            (running < limit).then_some(running + 1)
        });
        if taken.is_err() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        actor_metrics().running_turns.increment(1);
        Some(TurnPermit(Arc::clone(&self.0)))
    }

    /// Records that a packet was sent `late_by` after it was due.
    pub fn packet_sent(&self, late_by: Duration) {
        self.count_packet(late_by > self.0.settings.late);
    }

    /// Records that a packet is encoded `urgent_for` after it became urgent.
    pub fn packet_encoded(&self, urgent_for: Duration) {
        self.count_packet(urgent_for > ENCODING_LATE);
    }

    fn count_packet(&self, late: bool) {
        self.0.sent.fetch_add(1, Ordering::Relaxed);
        if late {
            self.0.late.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true while the server is strained (near its capacity): callers should save effort.
    pub fn is_strained(&self) -> bool {
        self.0.strained.load(Ordering::Relaxed)
    }

    /// Runs the control loop until dropped. `cpu_time` returns the CPU time of the process,
    /// `threads_busy` the time for which each encoding thread was busy so far.
    pub async fn govern(
        self,
        cpu_time: impl Fn() -> Duration,
        threads_busy: impl Fn() -> Vec<Duration>,
    ) {
        let mut governor = Governor::new(self);
        let cores = as_f64(cores());
        let mut before = (Instant::now(), cpu_time(), threads_busy());
        let mut windows = interval(WINDOW);
        windows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        windows.tick().await;
        loop {
            windows.tick().await;
            let now = (Instant::now(), cpu_time(), threads_busy());
            let time = (now.0 - before.0).as_secs_f64();
            let part = |now: Duration, before: Duration| {
                now.saturating_sub(before).as_secs_f64() / time.max(f64::EPSILON)
            };
            let encoding = now.2.iter().zip(&before.2).map(|(now, before)| part(*now, *before));
            governor.end_window(part(now.1, before.1) / cores, encoding.fold(0.0, f64::max));
            before = now;
        }
    }

    /// Returns true if too many packets were late, `None` if there were too few to judge.
    fn late(&self) -> Option<bool> {
        let Inner { settings, sent, late, .. } = &*self.0;
        if sent.load(Ordering::Relaxed) < FEWEST_PACKETS {
            return None;
        }
        let sent = sent.swap(0, Ordering::Relaxed);
        let late = late.swap(0, Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss, reason = "packets of half a second")]
        let too_late = late as f64 * 100.0 > settings.late_percent * sent as f64;
        Some(too_late)
    }
}

impl Governor {
    fn new(admission: Admission) -> Self {
        Self { admission, load: 0.0, ran: 0.0, wary: 0, calm: 0, patience: 0 }
    }

    /// Ends a window and adjusts effort and limit. `busy` is the fraction of the cores in use,
    /// `encoding` the fraction of the window for which the busiest encoding thread was busy.
    fn end_window(&mut self, busy: f64, encoding: f64) {
        self.load += NEWEST * (encoding - self.load);
        actor_metrics().encoding_busy.set(self.load);
        self.ran += NEWEST * (self.running() - self.ran);
        let late = self.admission.late();
        let headroom = self.headroom();
        let strain = busy > STRAINED || headroom < LOW_HEADROOM || late == Some(true);
        let calm = busy < CALM && headroom > LOW_HEADROOM * FULL_EFFORT;
        self.set_effort(strain, calm);
        self.limit(late);
    }

    fn running(&self) -> f64 {
        as_f64(self.admission.0.running.load(Ordering::Relaxed))
    }

    /// Returns the headroom: the factor by which running turns may grow, at their recent load each.
    fn headroom(&self) -> f64 {
        // A turn causes its load seconds after it was admitted: the average is scaled from the
        // turns that caused it to the running ones. Decision 0018.
        let load = self.load * self.running() / self.ran.max(as_f64(FEWEST_TURNS));
        self.admission.0.settings.busy_percent / 100.0 / load.max(0.01)
    }

    /// Reduces encoding effort, or restores it, and scales the load average accordingly: each turn
    /// now causes less load, or more.
    fn set_effort(&mut self, strain: bool, calm: bool) {
        let strained = &self.admission.0.strained;
        self.calm = if calm && !strain { self.calm + 1 } else { 0 };
        if strain && !strained.swap(true, Ordering::Relaxed) {
            self.patience = PATIENCE;
            self.load /= FULL_EFFORT;
            tracing::info!("the cores are busy: encoding speech with less effort");
        } else if self.calm >= CALM_WINDOWS && strained.swap(false, Ordering::Relaxed) {
            self.load *= FULL_EFFORT;
        }
        actor_metrics().strained.set(if self.admission.is_strained() { 1.0 } else { 0.0 });
    }

    /// Returns the limit after a window without trouble: one higher while it is below its initial
    /// value and no packets were late recently.
    fn recovered(&self) -> usize {
        let Inner { first, limit, .. } = &*self.admission.0;
        let now = limit.load(Ordering::Relaxed);
        if self.wary == 0 && now < *first { now + 1 } else { now }
    }

    fn limit(&mut self, late: Option<bool>) {
        let Inner { settings, running, limit, refused, .. } = &*self.admission.0;
        let too_late = late == Some(true);
        let held_back = refused.swap(0, Ordering::Relaxed) > 0;
        let now = limit.load(Ordering::Relaxed);
        let running = running.load(Ordering::Relaxed);
        let full = held_back || as_f64(running) > as_f64(now) * NEARLY_FULL;
        let headroom = self.headroom();
        let waits = self.patience > 0;
        self.patience = self.patience.saturating_sub(1);
        let again = self.wary > 0;
        self.wary = if too_late { WARY_WINDOWS } else { self.wary.saturating_sub(1) };
        // A fraction of the running turns, not of the limit: turns admitted before the limit fell
        // run on for seconds.
        let fewer = |factor: f64| now.min(part(running.max(1), factor.max(DECREASE)));
        let next = if late.is_none() {
            self.recovered()
        } else if (too_late || headroom < 1.0) && waits {
            now
        } else if too_late && again {
            self.patience = PATIENCE_AGAIN;
            fewer(DECREASE)
        } else if headroom < 1.0 {
            fewer(headroom)
        } else if full && !too_late {
            let fastest = if self.wary > 0 { WARY_INCREASE } else { INCREASE };
            now + part(now, ((headroom - 1.0) / 2.0).min(fastest)).max(1)
        } else {
            self.recovered()
        };
        let most = settings.max_turns;
        let next = next.clamp(FEWEST_TURNS.min(most), most);
        if next < now && too_late {
            tracing::warn!(running, limit = next, "packets are late: lowering the limit of turns");
        }
        limit.store(next, Ordering::Relaxed);
        actor_metrics().turn_limit.set(as_f64(next));
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        actor_metrics().running_turns.decrement(1);
    }
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn part(count: usize, part: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
    let part = (as_f64(count) * part) as usize;
    part
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn admission(max_turns: usize) -> Admission {
        Admission::new(AdmissionSettings { max_turns, ..AdmissionSettings::default() })
    }

    fn sent(governor: &mut Governor, packets: u64, late: u64) {
        for n in 0..packets {
            let late_by = Duration::from_millis(if n < late { 21 } else { 20 });
            governor.admission.packet_sent(late_by);
        }
        governor.end_window(0.4, 0.1);
    }

    fn limit(admission: &Admission) -> usize {
        admission.0.limit.load(Ordering::Relaxed)
    }

    #[test]
    fn turns_are_admitted_up_to_the_limit_and_dropped_permits_are_released() {
        let admission = admission(2);
        let permits = [admission.try_acquire(), admission.try_acquire()];
        assert!(permits.iter().all(Option::is_some));
        assert!(admission.clone().try_acquire().is_none());
        drop(permits);
        assert!(admission.try_acquire().is_some());
    }

    #[test]
    fn the_limit_rises_fast_but_slowly_for_a_while_after_late_packets() {
        let admission = admission(1_000);
        let mut governor = Governor::new(admission.clone());
        let first = limit(&admission);
        assert_eq!(first, FIRST_TURNS * cores());
        let mut permits: Vec<_> = (0..first).map(|_| admission.try_acquire().unwrap()).collect();
        sent(&mut governor, 1_000, 10);
        assert_eq!(limit(&admission), first + first / 4, "one in a hundred is not too many");
        permits.push(admission.try_acquire().unwrap());
        let before = limit(&admission);
        for _ in 0..PATIENCE {
            sent(&mut governor, 1_000, 11);
            assert!(admission.is_strained());
            assert_eq!(limit(&admission), before, "effort is reduced first");
        }
        sent(&mut governor, 1_000, 11);
        let fewer = (first + 1) * 9 / 10;
        assert_eq!(limit(&admission), fewer, "a tenth below the running turns");
        assert!(admission.try_acquire().is_none());
        sent(&mut governor, 1_000, 0);
        assert_eq!(limit(&admission), fewer + 1, "a turn was refused");
        for _ in 0..WARY_WINDOWS {
            sent(&mut governor, 1_000, 0);
        }
        assert!(limit(&admission) > fewer + WARY_WINDOWS + fewer / 5, "fast again");
        drop(permits);
        let before = limit(&admission);
        sent(&mut governor, 1_000, 0);
        assert_eq!(limit(&admission), before, "no turn was refused");
    }

    #[test]
    fn a_transient_does_not_lower_the_limit_and_a_limit_lowered_at_low_load_recovers() {
        let admission = admission(1_000);
        let mut governor = Governor::new(admission.clone());
        let first = limit(&admission);
        for _ in 0..3 {
            sent(&mut governor, 100, 100);
            assert_eq!(limit(&admission), first, "a single window is a transient");
            for _ in 0..WARY_WINDOWS {
                sent(&mut governor, 100, 0);
            }
        }
        for _ in 0..PATIENCE + 2 {
            sent(&mut governor, 100, 100);
        }
        assert_eq!(limit(&admission), FEWEST_TURNS, "hardly any turn is running");
        for _ in 0..WARY_WINDOWS - 1 {
            governor.end_window(0.1, 0.0);
        }
        assert_eq!(limit(&admission), FEWEST_TURNS);
        for _ in 0..first {
            governor.end_window(0.1, 0.0);
        }
        assert_eq!(limit(&admission), first, "recovered without a refused turn");
    }

    /// Returns the smallest and the largest limit once settled, if more turns arrive than are
    /// admitted and each takes seven seconds. `load` returns the load of a window, given the number
    /// of turns that started in each window so far.
    fn settled(mut load: impl FnMut(&[usize]) -> f64) -> (usize, usize) {
        const WINDOWS_OF_A_TURN: usize = 14;
        let admission = admission(1_000);
        let mut governor = Governor::new(admission.clone());
        let mut permits = VecDeque::new();
        let mut began = Vec::new();
        let mut limits = Vec::new();
        for window in 0..800 {
            if window >= WINDOWS_OF_A_TURN {
                let over: usize = began[window - WINDOWS_OF_A_TURN];
                permits.drain(..over);
            }
            let new: Vec<_> = (0..100).map_while(|_| admission.try_acquire()).collect();
            began.push(new.len());
            permits.extend(new);
            for _ in 0..FEWEST_PACKETS {
                admission.packet_sent(Duration::ZERO);
            }
            governor.end_window(0.6, load(&began));
            limits.push(limit(&admission));
        }
        let limits = &limits[200..];
        (*limits.iter().min().unwrap(), *limits.iter().max().unwrap())
    }

    #[test]
    fn the_limit_settles_at_the_capacity_of_the_busiest_thread() {
        // Each turn keeps the thread busy for a 400th of its time.
        let evenly = |began: &[usize]| as_f64(began.iter().rev().take(14).sum()) / 400.0;
        let (least, most) = settled(evenly);
        assert!(least >= 290 && most <= 310, "{least} to {most}");
        // The same work, all due a second after the turn started, or as soon as the thread is free.
        let mut work = 0.0;
        let late_and_at_once = |began: &[usize]| {
            work += as_f64(began.iter().rev().nth(2).copied().unwrap_or(0)) * 14.0 / 400.0;
            let done = f64::min(work, 1.0);
            work -= done;
            done
        };
        let (least, most) = settled(late_and_at_once);
        assert!(least >= 250 && most <= 420, "{least} to {most}");
    }

    #[test]
    fn effort_is_reduced_while_the_cores_are_busy_and_restored_after_calm_windows() {
        let admission = admission(10);
        let mut governor = Governor::new(admission.clone());
        governor.end_window(STRAINED + 0.01, 0.1);
        assert!(admission.is_strained());
        for _ in 1..CALM_WINDOWS {
            governor.end_window(CALM - 0.01, 0.1);
        }
        governor.end_window(0.4, 0.1);
        assert!(admission.is_strained(), "the count of calm windows restarts");
        for _ in 1..CALM_WINDOWS {
            governor.end_window(CALM - 0.01, 0.1);
            assert!(admission.is_strained());
        }
        governor.end_window(CALM - 0.01, 0.1);
        assert!(!admission.is_strained());
        // The cores are idle, but one thread is so busy that full effort would overload it again.
        let _places: Vec<_> = (0..FEWEST_TURNS).map(|_| admission.try_acquire().unwrap()).collect();
        governor.end_window(STRAINED + 0.01, 0.4);
        for _ in 0..CALM_WINDOWS * 2 {
            governor.end_window(CALM - 0.01, 0.4);
        }
        assert!(admission.is_strained());
    }

    #[test]
    fn few_packets_are_not_judged_and_some_turns_are_always_admitted() {
        let admission = admission(20);
        let mut governor = Governor::new(admission.clone());
        sent(&mut governor, FEWEST_PACKETS - 1, FEWEST_PACKETS - 1);
        assert_eq!(limit(&admission), 20);
        for _ in 0..20 + PATIENCE {
            sent(&mut governor, 100, 100);
        }
        assert_eq!(limit(&admission), FEWEST_TURNS);
    }
}
