//! From a device's frames to an utterance's sound. Not for recognition.

use std::time::Duration;

use bytes::Bytes;
use divan::{Bencher, black_box};
use hearken_actors::testkit::paths::Uplink;
use hearken_audio::endpointer::Endpointer;
use hearken_audio::opus::Decoder;
use hearken_audio::voice_detector::{FRAME_SAMPLES, VoiceDetector};
use hearken_audio::{HearingSettings, pcm, sound};
use hearken_proto::device::{AudioPacket, Framing};

use crate::{Round, SPEECH};

#[divan::bench(args = [1, 2, 3])]
fn framing_is_read(bencher: Bencher, version: u32) {
    let framing = Framing::from_version(version);
    let packet =
        |opus: &Bytes| framing.encode(&AudioPacket { opus: opus.clone(), timestamp_ms: 1 });
    let mut messages = Round::new(SPEECH.iter().map(packet));
    bencher.bench_local(|| framing.decode(messages.next()));
}

#[divan::bench]
fn decoding_of_60_ms(bencher: Bencher) {
    let mut packets = Round::new(SPEECH.iter().cloned());
    let mut decoder = Decoder::new(16_000).unwrap();
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        decoder.decode(packets.next(), &mut out)
    });
}

#[divan::bench]
fn loudness_of_20_ms(bencher: Bencher) {
    let sound = sound::decoded(&SPEECH);
    let mut frames = Round::new(sound.chunks_exact(FRAME_SAMPLES));
    bencher.bench_local(|| pcm::rms(black_box(frames.next())));
}

#[divan::bench]
fn judging_of_20_ms(bencher: Bencher) {
    let sound = sound::decoded(&SPEECH);
    let mut frames = Round::new(sound.chunks_exact(FRAME_SAMPLES));
    let settings = HearingSettings::default();
    let mut voicing =
        VoiceDetector::new(settings.aggressiveness, settings.min_rms, settings.over_noise);
    let mut endpointer = Endpointer::new(&settings);
    bencher.bench_local(|| {
        endpointer.push(voicing.is_voice(frames.next()), Duration::from_millis(20))
    });
}

#[divan::bench]
fn whole_of_60_ms(bencher: Bencher) {
    let mut packets = Round::new(SPEECH.iter().cloned());
    let mut uplink = Uplink::default();
    bencher.bench_local(|| uplink.packet(packets.next()));
}
