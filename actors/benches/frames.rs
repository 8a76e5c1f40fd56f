//! Runs a hot path a given number of times and nothing else, for `scripts/instructions` to count
//! under callgrind: `frames uplink|downlink ROUNDS`. Prints the number of packets of 60 ms in a
//! round. Without arguments, as `cargo bench` runs it, it does nothing. Not for times.
#![allow(clippy::print_stdout, reason = "the script reads it")]

use std::hint::black_box;

use hearken_actors::testkit::paths::{Downlink, Uplink};
use hearken_audio::resample::Resampler;
use hearken_audio::{SpeakingSettings, sound};

/// Usual sample rate of synthesisers.
const SYNTHESISED_HZ: u32 = 22_050;
/// Samples in 60 ms at that rate.
const PIECE: usize = 1_323;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["uplink" | "downlink", rounds] = words[..] else { return };
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let speech = [sound::recorded("en_go_forward_noisy"), sound::silence(1_000)].concat();
    let packets = match words[0] {
        "uplink" => {
            let mut uplink = Uplink::default();
            for packet in (0..rounds).flat_map(|_| &speech) {
                black_box(uplink.packet(packet));
            }
            speech.len()
        }
        _ => {
            let sound = synthesised(&sound::decoded(&speech));
            let settings = SpeakingSettings::default().for_rate(Some(SYNTHESISED_HZ));
            let mut downlink = Downlink::new(&settings, SYNTHESISED_HZ);
            for piece in (0..rounds).flat_map(|_| sound.chunks_exact(PIECE)) {
                black_box(downlink.samples(piece));
            }
            sound.len() / PIECE
        }
    };
    println!("{packets}");
}

fn synthesised(sound: &[i16]) -> Vec<i16> {
    let mut out = Vec::new();
    let mut resampler = Resampler::new(16_000, SYNTHESISED_HZ).expect("rates that go together");
    resampler.process(sound, &mut out);
    resampler.finish(&mut out);
    out
}
