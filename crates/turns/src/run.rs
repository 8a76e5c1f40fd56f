//! Runs every policy on every recording, on several threads, and collects the results. A single
//! recording is in [`device`](crate::device).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hearken_base::language::Language;
use hearken_ports::TurnDetector;

use crate::device::{self, Network, Upstreams};
use crate::latency::Latency;
use crate::manifest::Sample;
use crate::policy::Policy;
use crate::score::{Groups, Measure, Tally};
use crate::speech;

/// Longest wait for an answer after the end of a turn.
pub const LONGEST_WAIT: Duration = Duration::from_secs(4);
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// A recording as packets of its device.
pub struct Turn {
    sample: Sample,
    packets: Vec<Bytes>,
    seed: u64,
}

impl Turn {
    /// Language in which the server's conversation starts.
    fn language(&self) -> Language {
        let chinese = self.sample.group.starts_with("zh");
        if chinese { Language::Chinese } else { Language::English }
    }
}

/// Reads the recordings; with `splices`, each a second time with a pause spliced in, in a separate group.
///
/// # Errors
/// Fails if a recording cannot be read.
pub fn read(samples: Vec<Sample>, splices: bool) -> anyhow::Result<Vec<Turn>> {
    let mut turns = Vec::new();
    for sample in samples {
        let sound = speech::read(&sample.file)?;
        let seed = seed_of(&sample);
        if splices && let Some((sound, sample)) = speech::spliced(&sound, &sample, seed) {
            turns.push(turn(sound, sample, seed)?);
        }
        turns.push(turn(sound, sample, seed)?);
    }
    Ok(turns)
}

fn turn(mut sound: Vec<i16>, sample: Sample, seed: u64) -> anyhow::Result<Turn> {
    speech::with_room_behind(&mut sound, LONGEST_WAIT);
    Ok(Turn { packets: speech::packets(sound)?, sample, seed })
}

/// The seed depends on the name of the recording only, so that the folder does not matter.
fn seed_of(sample: &Sample) -> u64 {
    let mut hasher = DefaultHasher::new();
    sample.file.file_name().hash(&mut hasher);
    hasher.finish()
}

/// Conditions of a run, apart from its policies.
#[derive(Clone)]
pub struct Conditions {
    /// Turn detector, for policies with turn detection.
    pub detector: Option<Arc<dyn TurnDetector>>,
    /// Network between device and server.
    pub network: Network,
    /// Services behind the server.
    pub upstreams: Upstreams,
    /// Number of recordings at a time.
    pub jobs: usize,
}

/// Scores the policies; returns the results in their order.
pub fn score(policies: &[Policy], turns: &[Turn], conditions: &Conditions) -> Vec<Groups<Tally>> {
    let mut scores: Vec<Groups<Tally>> = run(policies, turns, conditions);
    for tally in scores.iter_mut().flat_map(|groups| groups.values_mut()) {
        tally.waits.sort();
    }
    scores
}

/// Measures the latency of replies with each policy; returns the results in their order.
pub fn latency(
    policies: &[Policy],
    turns: &[Turn],
    conditions: &Conditions,
) -> Vec<Groups<Latency>> {
    let mut latencies: Vec<Groups<Latency>> = run(policies, turns, conditions);
    for latency in latencies.iter_mut().flat_map(|groups| groups.values_mut()) {
        latency.first_audio.sort();
    }
    latencies
}

fn run<T: Measure + Clone + Default + Send>(
    policies: &[Policy],
    turns: &[Turn],
    conditions: &Conditions,
) -> Vec<Groups<T>> {
    let Conditions { detector, network, upstreams, jobs } = conditions;
    let all = policies.len() * turns.len();
    let measured = Mutex::new(vec![Groups::<T>::new(); policies.len()]);
    let shown = Mutex::new(Instant::now());
    in_parallel(*jobs, all, |place| {
        let policy = place / turns.len();
        let turn = &turns[place % turns.len()];
        let arrivals = network.arrivals(turn.packets.len(), turn.seed);
        let mut settings = policies[policy].settings.clone();
        settings.dialogue.language = turn.language();
        let detector = detector.clone();
        let packets = turn.packets.clone();
        let seen = device::play(settings, detector, *upstreams, packets, arrivals);
        let mut measured = measured.lock().expect("no panic while locked");
        let group = turn.sample.group.clone();
        measured[policy].entry(group).or_default().add(&turn.sample, &seen);
        drop(measured);
        progress(&shown, place, all);
    });
    measured.into_inner().expect("no panic while locked")
}

/// Calls `work` for each number below `count`, on `jobs` threads.
pub(crate) fn in_parallel(jobs: usize, count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let next = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| std::iter::from_fn(next).for_each(&work));
        }
    });
}

pub(crate) fn progress(shown: &Mutex<Instant>, done: usize, all: usize) {
    let mut shown = shown.lock().expect("no panic while locked");
    if shown.elapsed() >= PROGRESS_EVERY {
        *shown = Instant::now();
        // Writing fails if stderr is closed.
        writeln!(std::io::stderr(), "{done} of {all} runs").unwrap_or_default();
    }
}
