//! Runs every policy on every recording, on several threads, and tallies the outcomes. Not for one recording.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hearken_actors::dialogue::phrases::Language;
use hearken_actors::ports::TurnDetector;

use crate::device::{self, Network};
use crate::manifest::Sample;
use crate::policy::Policy;
use crate::score::Groups;
use crate::speech;

/// Longest wait for an answer after the end of a turn.
pub const LONGEST_WAIT: Duration = Duration::from_secs(4);
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// A recording as its device sends it.
pub struct Turn {
    sample: Sample,
    packets: Vec<Bytes>,
    seed: u64,
}

impl Turn {
    /// Language that the server knows from what was said before.
    fn language(&self) -> Language {
        let chinese = self.sample.group.starts_with("zh");
        if chinese { Language::Chinese } else { Language::English }
    }
}

/// Reads the recordings; with `splices`, each a second time with one more pause, in a group of its own.
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

/// Chance of a recording follows from its name, wherever its folder is.
fn seed_of(sample: &Sample) -> u64 {
    let mut hasher = DefaultHasher::new();
    sample.file.file_name().hash(&mut hasher);
    hasher.finish()
}

/// Scores the policies, in their order.
pub fn score(
    policies: &[Policy],
    turns: &[Turn],
    detector: Option<Arc<dyn TurnDetector>>,
    network: Network,
    jobs: usize,
) -> Vec<Groups> {
    let (next, all) = (AtomicUsize::new(0), policies.len() * turns.len());
    let scores = Mutex::new(vec![Groups::new(); policies.len()]);
    let shown = Mutex::new(Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= all {
                        return;
                    }
                    let (policy, turn) = (place / turns.len(), &turns[place % turns.len()]);
                    let arrivals = network.arrivals(turn.packets.len(), turn.seed);
                    let mut settings = policies[policy].settings.clone();
                    settings.dialogue.language = turn.language();
                    let (detector, packets) = (detector.clone(), turn.packets.clone());
                    let answers = device::answers(settings, detector, packets, arrivals);
                    let mut scores = scores.lock().expect("no thread panics with it");
                    let group = turn.sample.group.clone();
                    scores[policy].entry(group).or_default().add(&turn.sample, &answers);
                    drop(scores);
                    progress(&shown, place, all);
                }
            });
        }
    });
    let mut scores = scores.into_inner().expect("no thread panics with it");
    for tally in scores.iter_mut().flat_map(|groups| groups.values_mut()) {
        tally.waits.sort();
    }
    scores
}

fn progress(shown: &Mutex<Instant>, done: usize, all: usize) {
    let mut shown = shown.lock().expect("no thread panics with it");
    if shown.elapsed() >= PROGRESS_EVERY {
        *shown = Instant::now();
        // Nobody may be there to read it.
        writeln!(std::io::stderr(), "{done} of {all} runs").unwrap_or_default();
    }
}
