//! Cost of each step of the hot paths: `cargo bench -p hearken-actors --bench hot`. Each step is
//! accompanied by its floor, which is the cost of libopus and libfvad alone on the same sound; at
//! the end, the complete paths are measured in alternation with their floors and printed as ratios.
//! Name a bench to run it alone. Not for sockets, nor for many concurrent devices.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for people")]

mod creation;
mod downlink;
mod floor;
mod ratios;
mod turn;
mod uplink;
mod words;

use std::sync::LazyLock;

use bytes::Bytes;
use hearken_audio::resample::Resampler;
use hearken_audio::{SpeakingSettings, sound};

/// Number of samples per step: packets differ.
const SAMPLES: u32 = 400;

/// Real speech with its pauses, some of it in noise, each followed by a second of silence.
static SPEECH: LazyLock<Vec<Bytes>> = LazyLock::new(|| {
    let names = ["en_sorrow_with_pauses", "zh_trade_stalls_noisy", "en_go_forward"];
    names.iter().flat_map(|name| [sound::recorded(name), sound::silence(1_000)].concat()).collect()
});

/// Returns the same speech as samples of a synthesiser, at this rate.
fn synthesised(rate_hz: u32) -> Vec<i16> {
    let mut out = Vec::new();
    let mut resampler = Resampler::new(16_000, rate_hz).unwrap();
    resampler.process(&sound::decoded(&SPEECH), &mut out);
    resampler.finish(&mut out);
    out
}

/// Returns the default settings for speaking.
fn speaking() -> SpeakingSettings {
    SpeakingSettings::default().for_rate(Some(22_050))
}

/// Endless iterator over some items.
struct Round<T> {
    things: Vec<T>,
    next: usize,
}

impl<T> Round<T> {
    fn new(things: impl IntoIterator<Item = T>) -> Self {
        Self { things: things.into_iter().collect(), next: 0 }
    }

    fn next(&mut self) -> &T {
        self.next = if self.next + 1 < self.things.len() { self.next + 1 } else { 0 };
        &self.things[self.next]
    }
}

fn main() {
    divan::Divan::default().sample_count(SAMPLES).config_with_args().main();
    // `cargo test` only requests a list of them, and a named bench must run alone.
    if !std::env::args().skip(1).any(|arg| arg != "--bench") {
        ratios::print();
    }
}
