//! How many turns may run at once: as many as the server can, which it finds out by how late its
//! packets leave and by how busy the threads are that make them. One more is told that the server
//! is busy, at once, instead of making all of them stutter. Before that, speech is encoded with less
//! effort. Not for how it is told, nor for connections, of which there are places.
//!
//! The limit rises while it is nearly used up, the faster the less the busiest of these threads will
//! have to do for the turns that run now; where that is too much, it falls to what would be just
//! enough, before anything is late.
//! Where packets are late again and again all the same, as when other programs take the cores, it
//! falls by a tenth, and rises slowly for a while; once all goes well it finds back to where it
//! began. Effort goes by how busy these threads and all cores are, and comes back when that is low
//! for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::metrics::{meters, whole};
use crate::settings::ms;

/// How often the limit is looked at.
pub const WINDOW: Duration = Duration::from_millis(500);
/// Fewer packets than this say nothing of how late packets are.
const FEWEST_PACKETS: u64 = 50;
/// So many turns are let in whatever happens: where engines share the cores, packets of a single
/// household may be late.
const FEWEST_TURNS: usize = 8;
/// What is left of the limit, at least, after a window.
const DECREASE: f64 = 0.9;
/// The limit's rise in a window, as a part of it, at least one turn: at most, and while packets were
/// late not long ago.
const INCREASE: f64 = 0.25;
const WARY_INCREASE: f64 = 0.01;
/// Windows without late packets after which the limit may rise fast again, and after which late
/// packets are thought to be a hiccup of the machine that will pass.
const WARY_WINDOWS: usize = 20;
/// How much of the newest window goes into the mean load and the mean of turns: about five seconds
/// are looked at, since turns come in bunches, and their load only when somebody has understood,
/// thought and spoken.
const NEWEST: f64 = 0.1;
/// Part of the limit in use beyond which it rises.
const NEARLY_FULL: f64 = 0.8;
/// Turns for each core that are let in at first: everybody may come at once after a restart.
const FIRST_TURNS: usize = 48;
/// A packet that is encoded this much after it was urgent is late: a voice that is behind by as long
/// as a packet plays falls behind for good.
const ENCODING_LATE: Duration = Duration::from_millis(45);

/// Part of the cores in use beyond which effort is saved, and below which it need not be: saving
/// brings it to about half.
const STRAINED: f64 = 0.5;
/// Effort is saved too where turns could be only so many times as many without that.
const LITTLE_ROOM: f64 = 1.25;
const CALM: f64 = 0.2;
/// What speech costs at full effort, in times of what it costs while effort is saved.
const FULL_EFFORT: f64 = 2.25;
/// Windows of calm before effort is spent again.
const CALM_WINDOWS: usize = 20;
/// Windows for which saved effort, and fewer turns, are given time to show, before turns are held
/// back, or held back again.
const PATIENCE: usize = 4;
const PATIENCE_AGAIN: usize = 1;

/// Section `[admission]`: when a turn is one too many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionSettings {
    /// Turns that may run at once, however well it goes.
    pub max_turns: usize,
    /// A packet that leaves later than this is late; devices have some to play meanwhile.
    #[serde(rename = "late_ms", with = "ms")]
    pub late: Duration,
    /// Packets that may be late, of all, %: beyond, fewer turns may run.
    pub late_percent: f64,
    /// How much of its time a thread that makes speech may be busy, %: beyond, fewer turns may run.
    pub busy_percent: f64,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            max_turns: 10_000,
            late: Duration::from_millis(20),
            late_percent: 1.0,
            busy_percent: 75.0,
        }
    }
}

/// Lets turns in. Clones count together.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: AdmissionSettings,
    /// The limit that it begins with.
    first: usize,
    running: AtomicUsize,
    limit: AtomicUsize,
    /// Effort is saved.
    strained: AtomicBool,
    /// Since the last look.
    refused: AtomicU64,
    sent: AtomicU64,
    late: AtomicU64,
}

/// What looks at an admission's packets and changes what may be done.
struct Governor {
    admission: Admission,
    /// Part of its time for which the busiest thread that makes speech was busy, of late.
    load: f64,
    /// The turns that ran, of late.
    ran: f64,
    /// Windows for which the limit rises slowly.
    wary: usize,
    /// Windows of calm so far, while effort is saved.
    calm: usize,
    /// Windows for which the limit stays.
    patience: usize,
}

/// A turn's place among those that run; given back when dropped.
#[derive(Debug)]
pub struct Place(Arc<Inner>);

impl Admission {
    /// Nobody is in.
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

    /// A packet is encoded this long after it was urgent.
    pub(crate) fn packet_encoded(&self, urgent_for: Duration) {
        self.saw(urgent_for > ENCODING_LATE);
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

    /// Looks at the packets, at the process's CPU time, and at the time for which each thread that
    /// makes speech was busy, again and again and changes what may be done, until dropped.
    pub async fn govern(
        self,
        cpu_time: impl Fn() -> Duration,
        voices_busy: impl Fn() -> Vec<Duration>,
    ) {
        let mut governor = Governor::new(self);
        let cores = whole(cores());
        let mut before = (Instant::now(), cpu_time(), voices_busy());
        let mut windows = interval(WINDOW);
        windows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        windows.tick().await;
        loop {
            windows.tick().await;
            let now = (Instant::now(), cpu_time(), voices_busy());
            let time = (now.0 - before.0).as_secs_f64();
            let part = |now: Duration, before: Duration| {
                now.saturating_sub(before).as_secs_f64() / time.max(f64::EPSILON)
            };
            let voices = now.2.iter().zip(&before.2).map(|(now, before)| part(*now, *before));
            governor.look(part(now.1, before.1) / cores, voices.fold(0.0, f64::max));
            before = now;
        }
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
}

impl Governor {
    fn new(admission: Admission) -> Self {
        Self { admission, load: 0.0, ran: 0.0, wary: 0, calm: 0, patience: 0 }
    }

    /// Ends a window in which this part of the cores was in use, and the busiest thread that makes
    /// speech was busy for this part of it.
    fn look(&mut self, busy: f64, voices: f64) {
        self.load += NEWEST * (voices - self.load);
        meters().encoding_busy.set(self.load);
        self.ran += NEWEST * (self.running() - self.ran);
        let late = self.admission.late();
        let room = self.room();
        let strain = busy > STRAINED || room < LITTLE_ROOM || late == Some(true);
        let calm = busy < CALM && room > LITTLE_ROOM * FULL_EFFORT;
        self.spare(strain, calm);
        self.limit(late);
    }

    fn running(&self) -> f64 {
        whole(self.admission.0.running.load(Ordering::Relaxed))
    }

    /// What runs could be so many times as much: each turn makes as much load as those of late.
    fn room(&self) -> f64 {
        let load = self.load * self.running() / self.ran.max(whole(FEWEST_TURNS));
        self.admission.0.settings.busy_percent / 100.0 / load.max(0.01)
    }

    /// Saves effort, or spends it again; turns from now on make less load, or more.
    fn spare(&mut self, strain: bool, calm: bool) {
        let strained = &self.admission.0.strained;
        self.calm = if calm && !strain { self.calm + 1 } else { 0 };
        if strain && !strained.swap(true, Ordering::Relaxed) {
            self.patience = PATIENCE;
            self.load /= FULL_EFFORT;
            tracing::info!("the cores are busy: speech is encoded with less effort");
        } else if self.calm >= CALM_WINDOWS && strained.swap(false, Ordering::Relaxed) {
            self.load *= FULL_EFFORT;
        }
        meters().strained.set(if self.admission.is_strained() { 1.0 } else { 0.0 });
    }

    /// The limit after a while in which all went well: not below where it began for long.
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
        let full = held_back || whole(running) > whole(now) * NEARLY_FULL;
        let room = self.room();
        let waits = self.patience > 0;
        self.patience = self.patience.saturating_sub(1);
        let again = self.wary > 0;
        self.wary = if too_late { WARY_WINDOWS } else { self.wary.saturating_sub(1) };
        // Of what runs, not of the limit: turns that were let in before it fell go on for seconds.
        let fewer = |factor: f64| now.min(part(running.max(1), factor.max(DECREASE)));
        let next = if late.is_none() {
            self.recovered()
        } else if (too_late || room < 1.0) && waits {
            now
        } else if too_late && again {
            self.patience = PATIENCE_AGAIN;
            fewer(DECREASE)
        } else if room < 1.0 {
            fewer(room)
        } else if full && !too_late {
            let fastest = if self.wary > 0 { WARY_INCREASE } else { INCREASE };
            now + part(now, ((room - 1.0) / 2.0).min(fastest)).max(1)
        } else {
            self.recovered()
        };
        let most = settings.max_turns;
        let next = next.clamp(FEWEST_TURNS.min(most), most);
        if next < now && too_late {
            tracing::warn!(running, limit = next, "packets leave late: fewer turns are let in");
        }
        limit.store(next, Ordering::Relaxed);
        meters().turn_limit.set(whole(next));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        meters().running_turns.decrement(1);
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn part(count: usize, part: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
    let part = (whole(count) * part) as usize;
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
        governor.look(0.4, 0.1);
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
    fn the_limit_rises_fast_and_for_a_while_after_packets_were_late_slowly() {
        let admission = admission(1_000);
        let mut governor = Governor::new(admission.clone());
        let first = limit(&admission);
        assert_eq!(first, FIRST_TURNS * cores());
        let mut places: Vec<_> = (0..first).map(|_| admission.enter().unwrap()).collect();
        sent(&mut governor, 1_000, 10);
        assert_eq!(limit(&admission), first + first / 4, "one in a hundred is not too many");
        places.push(admission.enter().unwrap());
        let before = limit(&admission);
        for _ in 0..PATIENCE {
            sent(&mut governor, 1_000, 11);
            assert!(admission.is_strained());
            assert_eq!(limit(&admission), before, "less effort comes first");
        }
        sent(&mut governor, 1_000, 11);
        let fewer = (first + 1) * 9 / 10;
        assert_eq!(limit(&admission), fewer, "a tenth less than ran");
        assert!(admission.enter().is_none());
        sent(&mut governor, 1_000, 0);
        assert_eq!(limit(&admission), fewer + 1, "somebody was held back");
        for _ in 0..WARY_WINDOWS {
            sent(&mut governor, 1_000, 0);
        }
        assert!(limit(&admission) > fewer + WARY_WINDOWS + fewer / 5, "fast again");
        drop(places);
        let before = limit(&admission);
        sent(&mut governor, 1_000, 0);
        assert_eq!(limit(&admission), before, "nobody was held back");
    }

    #[test]
    fn a_hiccup_takes_nothing_and_what_was_taken_from_few_turns_comes_back() {
        let admission = admission(1_000);
        let mut governor = Governor::new(admission.clone());
        let first = limit(&admission);
        for _ in 0..3 {
            sent(&mut governor, 100, 100);
            assert_eq!(limit(&admission), first, "once is a hiccup");
            for _ in 0..WARY_WINDOWS {
                sent(&mut governor, 100, 0);
            }
        }
        for _ in 0..PATIENCE + 2 {
            sent(&mut governor, 100, 100);
        }
        assert_eq!(limit(&admission), FEWEST_TURNS, "hardly any turn runs");
        for _ in 0..WARY_WINDOWS - 1 {
            governor.look(0.1, 0.0);
        }
        assert_eq!(limit(&admission), FEWEST_TURNS);
        for _ in 0..first {
            governor.look(0.1, 0.0);
        }
        assert_eq!(limit(&admission), first, "nobody has to be refused for that");
    }

    /// The least and the largest limit, once it has settled, where more ask than there are places
    /// and a turn lasts for seven seconds. `load` is a window's, of the turns that began in each
    /// window so far.
    fn settled(mut load: impl FnMut(&[usize]) -> f64) -> (usize, usize) {
        const WINDOWS_OF_A_TURN: usize = 14;
        let admission = admission(1_000);
        let mut governor = Governor::new(admission.clone());
        let (mut places, mut began, mut limits) = (VecDeque::new(), Vec::new(), Vec::new());
        for window in 0..800 {
            if window >= WINDOWS_OF_A_TURN {
                let over: usize = began[window - WINDOWS_OF_A_TURN];
                places.drain(..over);
            }
            let new: Vec<_> = (0..100).map_while(|_| admission.enter()).collect();
            began.push(new.len());
            places.extend(new);
            for _ in 0..FEWEST_PACKETS {
                admission.packet_sent(Duration::ZERO);
            }
            governor.look(0.6, load(&began));
            limits.push(limit(&admission));
        }
        let limits = &limits[200..];
        (*limits.iter().min().unwrap(), *limits.iter().max().unwrap())
    }

    #[test]
    fn the_limit_settles_where_the_busiest_thread_has_just_enough_to_do() {
        // Each turn keeps the thread busy for a 400th of its time.
        let evenly = |began: &[usize]| whole(began.iter().rev().take(14).sum()) / 400.0;
        let (least, most) = settled(evenly);
        assert!(least >= 290 && most <= 310, "{least} to {most}");
        // The same, but all of it a second after the turn began, or when the thread comes to it.
        let mut work = 0.0;
        let late_and_at_once = |began: &[usize]| {
            work += whole(began.iter().rev().nth(2).copied().unwrap_or(0)) * 14.0 / 400.0;
            let done = f64::min(work, 1.0);
            work -= done;
            done
        };
        let (least, most) = settled(late_and_at_once);
        assert!(least >= 250 && most <= 420, "{least} to {most}");
    }

    #[test]
    fn effort_is_saved_while_the_cores_are_busy_and_spent_after_a_long_calm() {
        let admission = admission(10);
        let mut governor = Governor::new(admission.clone());
        governor.look(STRAINED + 0.01, 0.1);
        assert!(admission.is_strained());
        for _ in 1..CALM_WINDOWS {
            governor.look(CALM - 0.01, 0.1);
        }
        governor.look(0.4, 0.1);
        assert!(admission.is_strained(), "calm begins anew");
        for _ in 1..CALM_WINDOWS {
            governor.look(CALM - 0.01, 0.1);
            assert!(admission.is_strained());
        }
        governor.look(CALM - 0.01, 0.1);
        assert!(!admission.is_strained());
        // The cores are idle, but one thread has so much to do that effort would strain it again.
        let _places: Vec<_> = (0..FEWEST_TURNS).map(|_| admission.enter().unwrap()).collect();
        governor.look(STRAINED + 0.01, 0.4);
        for _ in 0..CALM_WINDOWS * 2 {
            governor.look(CALM - 0.01, 0.4);
        }
        assert!(admission.is_strained());
    }

    #[test]
    fn few_packets_say_nothing_and_some_turns_always_run() {
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
