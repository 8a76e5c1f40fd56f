//! Opus packets that sound like voice, or like silence, to the voice detector.

use bytes::Bytes;

use crate::audio::opus::Encoder;
use crate::audio::pcm;

/// Length of a packet: what firmware sends.
pub const PACKET_MS: u64 = 60;
const RATE_HZ: u32 = 16_000;

/// Packets of a buzzing voice, this long.
pub fn voice(ms: u64) -> Vec<Bytes> {
    let length = usize::try_from(ms * u64::from(RATE_HZ) / 1_000).unwrap_or(0);
    let mut sound = vec![0_i16; length];
    for harmonic in [150.0, 300.0, 450.0, 900.0] {
        for (s, t) in sound.iter_mut().zip(pcm::tone(harmonic, length, RATE_HZ)) {
            *s = s.saturating_add(t / 2);
        }
    }
    packets(&sound)
}

/// Packets of nothing, this long.
pub fn silence(ms: u64) -> Vec<Bytes> {
    packets(&vec![0; usize::try_from(ms * u64::from(RATE_HZ) / 1_000).unwrap_or(0)])
}

fn packets(sound: &[i16]) -> Vec<Bytes> {
    let frame = pcm::samples_in(std::time::Duration::from_millis(PACKET_MS), RATE_HZ);
    let mut encoder = Encoder::new(RATE_HZ, 24_000, 0).expect("libopus runs at 16 kHz");
    sound
        .chunks_exact(frame)
        .map(|f| encoder.encode(f).expect("60 ms is a legal frame length"))
        .collect()
}
