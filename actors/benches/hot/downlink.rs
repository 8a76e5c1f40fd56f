//! From a synthesiser's samples to a device's frames. Not for producing the samples.

use std::time::Duration;

use divan::{Bencher, black_box};
use hearken_actors::testkit::paths::Downlink;
use hearken_audio::opus::Encoder;
use hearken_audio::playout::Playout;
use hearken_audio::resample::Resampler;
use hearken_proto::device::{AudioPacket, Framing};

use crate::{Round, SPEECH, floor, speaking, synthesised};

/// Returns pieces of 60 ms from a synthesiser of 22,050 Hz.
pub(crate) fn pieces() -> Vec<Vec<i16>> {
    synthesised(22_050).chunks_exact(1_323).map(<[i16]>::to_vec).collect()
}

#[divan::bench(args = [16_000, 22_050, 24_000])]
fn resampling_of_60_ms(bencher: Bencher, from_hz: u32) {
    let sound = synthesised(from_hz);
    let mut pieces = Round::new(sound.chunks_exact(from_hz as usize * 60 / 1_000));
    let mut resampler = Resampler::new(from_hz, 24_000).unwrap();
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        resampler.process(pieces.next(), &mut out);
    });
}

#[divan::bench(args = [0, 2, 3, 5, 8, 10])]
fn encoding_of_60_ms(bencher: Bencher, complexity: u8) {
    let mut frames = Round::new(floor::frames());
    let mut encoder = Encoder::new(24_000, speaking().bitrate_bps, complexity).unwrap();
    bencher.bench_local(|| encoder.encode(frames.next()));
}

#[divan::bench(args = [1, 2, 3])]
fn framing_is_written(bencher: Bencher, version: u32) {
    let framing = Framing::from_version(version);
    let packet = |opus: &bytes::Bytes| AudioPacket { opus: opus.clone(), timestamp_ms: 1 };
    let mut packets = Round::new(SPEECH.iter().map(packet));
    bencher.bench_local(|| framing.encode(packets.next()));
}

#[divan::bench]
fn pacing_of_a_packet(bencher: Bencher) {
    let mut playout = Playout::new(Duration::from_millis(60), 3);
    playout.sentence_started(Duration::ZERO);
    let mut now = Duration::ZERO;
    bencher.bench_local(|| {
        now = playout.due(now);
        let late = playout.sent(black_box(now));
        (late, playout.heard(now))
    });
}

#[divan::bench]
fn whole_of_60_ms(bencher: Bencher) {
    let mut pieces = Round::new(pieces());
    let mut downlink = Downlink::new(&speaking(), 22_050);
    bencher.bench_local(|| downlink.samples(pieces.next()));
}
