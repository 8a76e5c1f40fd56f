//! Synthesisers behind the `Tts` port, one protocol per file, and the cache in front of them. Not
//! for choosing between them: that is [`super::tts()`].

pub mod cache;
pub mod listenai;
pub mod openai;
mod sound;

pub use cache::CachedTts;

use std::ops::RangeInclusive;

/// Accepted sample rates of a synthesiser. Any other rate is a protocol violation.
pub(super) const SAMPLE_RATES_HZ: RangeInclusive<u32> = 8_000..=48_000;

/// Converts s16le bytes to samples. An odd last byte is dropped.
fn samples(bytes: &[u8]) -> std::sync::Arc<[i16]> {
    bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}
