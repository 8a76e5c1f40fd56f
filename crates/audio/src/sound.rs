//! Opus packets that sound like voice, or like silence, to the voice detector; and real speech,
//! from the recordings in `fixtures/audio`. Only for tests.

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::recording::{Content, Recording};

use crate::opus::{Decoder, Encoder};
use crate::pcm;
use crate::voice_detector::SAMPLE_RATE_HZ;

/// Length of the packets that firmware sends, in milliseconds.
pub const PACKET_MS: u64 = 60;
/// Samples per second of firmware.
const FIRMWARE_HZ: u32 = 16_000;

/// Returns packets of a buzzing voice of this length, in the format of firmware.
pub fn voice(ms: u64) -> Vec<Bytes> {
    voice_in(ms, FIRMWARE_HZ, PACKET_MS)
}

/// Returns packets of a buzzing voice in another format.
pub fn voice_in(ms: u64, rate_hz: u32, packet_ms: u64) -> Vec<Bytes> {
    let length = samples(ms, rate_hz);
    let mut sound = vec![0_i16; length];
    for harmonic in [150.0, 300.0, 450.0, 900.0] {
        for (s, t) in sound.iter_mut().zip(pcm::tone(harmonic, length, rate_hz)) {
            *s = s.saturating_add(t / 2);
        }
    }
    packets(&sound, rate_hz, packet_ms)
}

/// Returns packets of silence of this length, in the format of firmware.
pub fn silence(ms: u64) -> Vec<Bytes> {
    silence_in(ms, FIRMWARE_HZ, PACKET_MS)
}

/// Returns packets of silence in another format.
pub fn silence_in(ms: u64, rate_hz: u32, packet_ms: u64) -> Vec<Bytes> {
    packets(&vec![0; samples(ms, rate_hz)], rate_hz, packet_ms)
}

/// Returns the packets that a person's device sent in the recording of this name.
///
/// # Panics
/// Panics if there is no such recording.
pub fn recorded(name: &str) -> Vec<Bytes> {
    let package = std::env::current_dir().expect("a working folder");
    let file = format!("fixtures/audio/{name}.jsonl");
    let paths = package.ancestors().map(|folder| folder.join(&file));
    let text = paths.map(std::fs::read_to_string).find_map(Result::ok);
    let text = text.unwrap_or_else(|| panic!("{file} is in no folder above {package:?}"));
    let recording = Recording::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
    let up = recording.frames.into_iter().filter_map(|frame| match frame.content {
        Content::UpAudio(opus) => Some(opus),
        _ => None,
    });
    up.collect()
}

/// Decodes packets to samples, 16 kHz mono.
///
/// # Panics
/// Panics if a packet is not Opus.
pub fn decoded(packets: &[Bytes]) -> Vec<i16> {
    let mut decoder = Decoder::new(SAMPLE_RATE_HZ).expect("libopus runs at its own rates");
    let mut sound = Vec::new();
    for packet in packets {
        decoder.decode(packet, &mut sound).expect("a packet of Opus");
    }
    sound
}

fn samples(ms: u64, rate_hz: u32) -> usize {
    pcm::samples_in(Duration::from_millis(ms), rate_hz)
}

fn packets(sound: &[i16], rate_hz: u32, packet_ms: u64) -> Vec<Bytes> {
    let frame = samples(packet_ms, rate_hz);
    let mut encoder = Encoder::new(rate_hz, 24_000, 0).expect("libopus runs at its own rates");
    sound
        .chunks_exact(frame)
        .map(|f| encoder.encode(f).expect("20, 40 and 60 ms are legal frame lengths"))
        .collect()
}
