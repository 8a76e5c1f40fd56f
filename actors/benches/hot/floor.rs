//! The floor: libopus and libfvad called directly, on the same sound as the server's own paths. The
//! only bench that uses `audiopus` and `webrtc_vad`. Not for our own code.

use audiopus::coder::{Decoder, Encoder};
use audiopus::{Application, Bitrate, Channels, SampleRate, Signal};
use bytes::Bytes;
use divan::{Bencher, black_box};
use hearken_audio::sound;
use webrtc_vad::{Vad, VadMode};

use crate::{Round, SPEECH, speaking, synthesised};

const MAX_DECODED: usize = 1_920;

/// Floor of the uplink.
pub(crate) struct Hearing {
    decoder: Decoder,
    vad: Vad,
    sound: [i16; MAX_DECODED],
}

impl Hearing {
    pub(crate) fn new() -> Self {
        let decoder = Decoder::new(SampleRate::Hz16000, Channels::Mono).unwrap();
        let rate = webrtc_vad::SampleRate::Rate16kHz;
        let vad = Vad::new_with_rate_and_mode(rate, VadMode::Aggressive);
        Self { decoder, vad, sound: [0; MAX_DECODED] }
    }

    fn decode(&mut self, packet: &[u8]) -> usize {
        self.decoder.decode(Some(packet), &mut self.sound[..], false).unwrap()
    }

    /// Decodes one packet and classifies each 20 ms of it.
    pub(crate) fn packet(&mut self, packet: &[u8]) -> usize {
        let samples = self.decode(packet);
        let frames = self.sound[..samples].chunks_exact(320);
        frames.filter(|frame| self.vad.is_voice_segment(frame) == Ok(true)).count()
    }
}

/// Floor of the downlink.
pub(crate) struct Speaking {
    encoder: Encoder,
    packet: [u8; 4_000],
}

impl Speaking {
    pub(crate) fn new(complexity: u8) -> Self {
        let rate = SampleRate::Hz24000;
        let channels = Channels::Mono;
        let mut encoder = Encoder::new(rate, channels, Application::Voip).unwrap();
        encoder.set_bitrate(Bitrate::BitsPerSecond(speaking().bitrate_bps)).unwrap();
        encoder.set_complexity(complexity).unwrap();
        encoder.set_signal(Signal::Voice).unwrap();
        Self { encoder, packet: [0; 4_000] }
    }

    pub(crate) fn packet(&mut self, frame: &[i16]) -> usize {
        self.encoder.encode(frame, &mut self.packet).unwrap()
    }
}

/// Returns frames of 60 ms at 24 kHz.
pub(crate) fn frames() -> Vec<Vec<i16>> {
    synthesised(24_000).chunks_exact(1_440).map(<[i16]>::to_vec).collect()
}

#[divan::bench]
fn libopus_decodes_60_ms(bencher: Bencher) {
    let mut packets = Round::new(SPEECH.iter().cloned());
    let mut hearing = Hearing::new();
    bencher.bench_local(|| hearing.decode(packets.next()));
}

#[divan::bench]
fn libopus_decodes_an_empty_packet(bencher: Bencher) {
    let mut hearing = Hearing::new();
    let mut packets: Round<Bytes> = Round::new(sound::recorded("en_go_forward"));
    hearing.decode(packets.next());
    bencher.bench_local(|| {
        let lost: Option<&[u8]> = None;
        hearing.decoder.decode(lost, &mut hearing.sound[..960], false).unwrap()
    });
}

#[divan::bench]
fn libfvad_judges_20_ms(bencher: Bencher) {
    let sound = sound::decoded(&SPEECH);
    let mut frames = Round::new(sound.chunks_exact(320));
    let mut hearing = Hearing::new();
    bencher.bench_local(|| hearing.vad.is_voice_segment(black_box(frames.next())));
}

#[divan::bench]
fn uplink_of_60_ms(bencher: Bencher) {
    let mut packets = Round::new(SPEECH.iter().cloned());
    let mut hearing = Hearing::new();
    bencher.bench_local(|| hearing.packet(packets.next()));
}

#[divan::bench(args = [0, 2, 3, 5, 8, 10])]
fn libopus_encodes_60_ms(bencher: Bencher, complexity: u8) {
    let mut frames = Round::new(frames());
    let mut speaking = Speaking::new(complexity);
    bencher.bench_local(|| speaking.packet(frames.next()));
}
