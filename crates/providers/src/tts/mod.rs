//! Implementations of the synthesiser's port, one wire per file, and the cache in front of them.
//! Not for choosing between them: that is [`super::tts()`].

pub mod cache;
pub mod listenai;
pub mod openai;
mod sound;

pub use cache::CachedTts;

use std::ops::RangeInclusive;

/// Sample rates that a synthesiser may answer with; anything else is a broken message.
pub(super) const SAMPLE_RATES_HZ: RangeInclusive<u32> = 8_000..=48_000;

/// s16le bytes as samples; a last odd byte is left out.
fn samples(bytes: &[u8]) -> std::sync::Arc<[i16]> {
    bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}
