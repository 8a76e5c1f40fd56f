//! Complete paths as multiples of their floor, measured in alternation, so that other load on the
//! machine slows both. Not for single steps.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hearken_actors::testkit::paths::{Downlink, Uplink};
use hearken_audio::SpeakingSettings;

use crate::floor::{self, Hearing, Speaking};
use crate::{SPEECH, downlink, speaking};

const ROUNDS: usize = 31;

/// Prints the ratios.
pub(crate) fn print() {
    let packets = SPEECH.len();
    let mut bare = Hearing::new();
    let mut ours = Uplink::default();
    let times = in_turns(
        || SPEECH.iter().map(|packet| bare.packet(packet)).sum(),
        || SPEECH.iter().map(|packet| ours.packet(packet)).sum(),
    );
    show("uplink, 60 ms (libopus decode, 3 of libfvad)", &times, packets, 1.5);
    let frames = floor::frames();
    let pieces = downlink::pieces();
    for complexity in [speaking().complexity, 0] {
        let settings = SpeakingSettings { complexity, ..speaking() };
        let mut bare = Speaking::new(complexity);
        let mut ours = Downlink::new(&settings, 22_050);
        let times = in_turns(
            || frames.iter().map(|frame| bare.packet(frame)).sum(),
            || pieces.iter().map(|piece| ours.samples(piece)).sum(),
        );
        let name = format!("downlink, 60 ms (libopus encode, complexity {complexity})");
        show(&name, &times, frames.len(), 1.3);
    }
}

/// Measures both functions alternately.
fn in_turns(
    mut floor: impl FnMut() -> usize,
    mut whole: impl FnMut() -> usize,
) -> Vec<(Duration, Duration)> {
    let time = |work: &mut dyn FnMut() -> usize| {
        let begun = Instant::now();
        black_box(work());
        begun.elapsed()
    };
    (0..ROUNDS).map(|_| (time(&mut floor), time(&mut whole))).collect()
}

fn show(name: &str, times: &[(Duration, Duration)], packets: usize, target: f64) {
    let median = |of: &dyn Fn(&(Duration, Duration)) -> f64| {
        let mut all: Vec<f64> = times.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / packets as f64;
    println!(
        "{name}: floor {:.1} us, whole {:.1} us, ratio {:.2} (target {target})",
        median(&|t| micros(t.0)),
        median(&|t| micros(t.1)),
        median(&|t| t.1.as_secs_f64() / t.0.as_secs_f64()),
    );
}
