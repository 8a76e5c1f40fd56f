//! Voices, a recogniser and a synthesiser that identify people by pitch: the speaker, or the
//! listener of an answer, can be determined from the sound alone. Not for checking the results.

use std::f32::consts::TAU;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_audio::opus::{Decoder, Encoder};
use hearken_audio::pcm;
use hearken_ports::{
    Asr, AsrStream, Line, Pcm, ProviderError, ProviderErrorKind, Transcript, Tts, UtteranceSpec,
};
use tokio::time::sleep;

use crate::judge::{FIRST_DEVICE, Judge};
use crate::life::Life;
use crate::model::PROVIDER_TIMEOUT;
use crate::plan::DEVICES;

const RATE_HZ: u32 = 16_000;
/// Number of samples in a packet of 60 ms.
const PACKET: usize = 960;
/// Pitches of people, and of answers to them.
const VOICES: [f32; DEVICES] = [150.0, 190.0, 230.0];
const ANSWERS: [f32; DEVICES] = [400.0, 520.0, 640.0];
/// Pitch of sentences for any listener: apologies.
const ANYBODY: f32 = 1_000.0;
/// Maximum share of other pitches in a sound.
const MOST_OF_OTHERS: f32 = 0.1;

/// Packets of a person's voice, 720 ms long, or of silence.
pub(crate) fn packets(device: Option<usize>) -> &'static [Bytes] {
    static PACKETS: [OnceLock<Vec<Bytes>>; DEVICES + 1] = [const { OnceLock::new() }; DEVICES + 1];
    PACKETS[device.unwrap_or(DEVICES)].get_or_init(|| encoded(device))
}

/// Encodes all of them in advance.
pub(crate) fn encode_all() {
    for device in (0..DEVICES).map(Some).chain([None]) {
        packets(device);
    }
}

fn encoded(device: Option<usize>) -> Vec<Bytes> {
    let length = 12 * PACKET;
    let mut sound = vec![0_i16; length];
    for times in device.map_or(&[][..], |_| &[1.0_f32, 2.0, 3.0, 6.0][..]) {
        let pitch = device.map_or(0.0, |device| VOICES[device]);
        for (sample, tone) in sound.iter_mut().zip(pcm::tone(times * pitch, length, RATE_HZ)) {
            *sample = sample.saturating_add(tone / 2);
        }
    }
    let mut encoder = Encoder::new(RATE_HZ, 24_000, 0).expect("libopus runs at its own rates");
    let packets = sound.chunks_exact(PACKET).map(|packet| encoder.encode(packet));
    packets.map(|packet| packet.expect("60 ms are a legal frame")).collect()
}

/// Power of a pitch in a sound. Its phase restarts with each sentence and packet, so each packet is
/// measured separately.
fn power(sound: &[i16], pitch: f32) -> f32 {
    sound.chunks(PACKET).map(|packet| power_of_packet(packet, pitch)).sum()
}

/// The same of one packet (Goertzel's algorithm).
fn power_of_packet(sound: &[i16], pitch: f32) -> f32 {
    let turn = 2.0 * (TAU * pitch / RATE_HZ as f32).cos();
    let mut last = 0.0_f32;
    let mut before = 0.0_f32;
    for sample in sound {
        (last, before) = (f32::from(*sample) / 32_768.0 + turn * last - before, last);
    }
    last * last + before * before - turn * last * before
}

/// The loudest of these pitches, if any is audible.
fn loudest(sound: &[i16], pitches: &[f32]) -> Option<usize> {
    let powers = pitches.iter().map(|pitch| power(sound, *pitch));
    let (place, most) = powers.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (most > 1.0).then_some(place)
}

/// The sound of an answer at a device.
pub(crate) struct Listener {
    decoder: Decoder,
    sound: Vec<i16>,
}

impl Listener {
    pub(crate) fn new() -> Self {
        let decoder = Decoder::new(RATE_HZ).expect("libopus runs at its own rates");
        Self { decoder, sound: Vec::new() }
    }

    /// Processes a packet. Returns false if it is not valid Opus.
    pub(crate) fn hears(&mut self, packet: &[u8]) -> bool {
        self.decoder.decode(packet, &mut self.sound).is_ok()
    }

    /// Whether the whole sound is for this device or for any listener.
    pub(crate) fn is_for(&self, device: usize) -> bool {
        let powers = ANSWERS.map(|pitch| power(&self.sound, pitch));
        let own = powers[device] + power(&self.sound, ANYBODY);
        let others = powers.iter().sum::<f32>() - powers[device];
        others <= MOST_OF_OTHERS * (own + others)
    }
}

/// Outcome of a request to a service.
async fn fails(judge: &Judge) -> Result<(), ProviderError> {
    let (fails, hangs) = judge.model_fails();
    match judge.throw(0, 1_000) as u32 {
        thrown if thrown < fails => {
            Err(ProviderError::new("scripted", ProviderErrorKind::Unavailable))
        }
        thrown if thrown < fails + hangs => {
            sleep(PROVIDER_TIMEOUT).await;
            Err(ProviderError::new("scripted", ProviderErrorKind::Timeout))
        }
        _ => Ok(()),
    }
}

/// The recogniser of an instance.
pub(crate) struct Recogniser {
    pub(crate) judge: Judge,
    pub(crate) life: Life,
}

struct Utterance {
    judge: Judge,
    life: Life,
    sound: Vec<i16>,
}

#[async_trait]
impl Asr for Recogniser {
    async fn open(&self, _: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let Self { judge, life } = self;
        let opening = async {
            sleep(judge.pause(1, 50)).await;
            fails(judge).await
        };
        life.within(opening).await?;
        let judge = judge.clone();
        let life = life.clone();
        Ok(Box::new(Utterance { judge, life, sound: Vec::new() }))
    }
}

#[async_trait]
impl AsrStream for Utterance {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        self.sound.extend_from_slice(pcm);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
        let Self { judge, life, sound } = *self;
        let recognising = async {
            sleep(judge.pause(50, 1_500)).await;
            fails(&judge).await?;
            let device = loudest(&sound, &VOICES.map(|pitch| 2.0 * pitch));
            Ok(Transcript { text: judge.heard(device) })
        };
        life.within(recognising).await
    }
}

/// The synthesiser of an instance.
pub(crate) struct Synthesiser {
    pub(crate) judge: Judge,
    pub(crate) life: Life,
}

impl Tts for Synthesiser {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let names =
            |device: &usize| line.text.contains(&(usize::from(FIRST_DEVICE) + device).to_string());
        let pitch = (0..DEVICES).find(names).map_or(ANYBODY, |device| ANSWERS[device]);
        let judge = self.judge.clone();
        let sound = stream::unfold(0, move |pieces| {
            let judge = judge.clone();
            async move {
                if pieces == 3 {
                    return None;
                }
                sleep(judge.pause(5, 400)).await;
                let piece = fails(&judge).await.map(|()| Pcm {
                    samples: Arc::from(pcm::tone(pitch, 2 * PACKET, RATE_HZ)),
                    sample_rate_hz: RATE_HZ,
                });
                let next = if piece.is_ok() { pieces + 1 } else { 3 };
                Some((piece, next))
            }
        });
        self.life.within_stream(sound.boxed())
    }
}

/// Duration of a packet.
pub(crate) const PACKET_TIME: Duration = Duration::from_millis(60);
