//! From a device's frames to an utterance's sound. Not for recognising it.

use bytes::Bytes;
use divan::{Bencher, black_box};
use hearken_actors::audio::ear::Ear;
use hearken_actors::audio::endpointer::{Endpoint, Endpointer};
use hearken_actors::audio::opus::Decoder;
use hearken_actors::audio::pcm;
use hearken_actors::audio::voicing::{FRAME_SAMPLES, Voicing};
use hearken_actors::settings::HearingSettings;
use hearken_actors::testkit::sound;
use hearken_proto::device::{AudioPacket, Framing};
use std::time::Duration;
use tokio::sync::mpsc;

use crate::{Round, SPEECH};

/// The whole way of a packet, as VadActor goes it.
pub(crate) struct Uplink {
    ear: Ear,
    pre_roll: Duration,
    audio: mpsc::Sender<Vec<i16>>,
    recogniser: mpsc::Receiver<Vec<i16>>,
    open: bool,
}

impl Uplink {
    pub(crate) fn new() -> Self {
        let settings = HearingSettings::default();
        let (audio, recogniser) = mpsc::channel(128);
        Self {
            pre_roll: settings.pre_roll,
            ear: Ear::new(settings),
            audio,
            recogniser,
            open: false,
        }
    }

    /// Returns how many samples the recogniser got.
    pub(crate) fn packet(&mut self, opus: &[u8]) -> usize {
        self.ear.decode(opus).unwrap();
        while let Some((frame, endpoint)) = self.ear.judge() {
            match endpoint {
                Some(Endpoint::Started { ago }) => {
                    self.open = true;
                    self.audio.try_send(self.ear.last(ago + self.pre_roll)).unwrap();
                }
                _ if self.open => self.audio.try_send(frame).unwrap(),
                _ => {}
            }
            self.open &= endpoint != Some(Endpoint::Ended);
        }
        let mut samples = 0;
        while let Ok(piece) = self.recogniser.try_recv() {
            samples += black_box(&piece).len();
        }
        samples
    }
}

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
    let mut voicing = Voicing::new(settings.aggressiveness, settings.min_rms, settings.over_noise);
    let mut endpointer = Endpointer::new(settings.endpointer);
    bencher.bench_local(|| {
        endpointer.hear(voicing.is_voice(frames.next()), Duration::from_millis(20))
    });
}

#[divan::bench]
fn whole_of_60_ms(bencher: Bencher) {
    let mut packets = Round::new(SPEECH.iter().cloned());
    let mut uplink = Uplink::new();
    bencher.bench_local(|| uplink.packet(packets.next()));
}
