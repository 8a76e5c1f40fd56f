//! Cache of the encoded packets of fixed phrases that are a complete answer. People hear them again
//! and again, especially under load. Not for the model's sentences, nor for phrases within an
//! answer: their packets continue the stream of those before.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hearken_dialogue::{Phrase, Phrases};

/// Packets of each phrase, by its text, its voice and their rate. Clones share the cache.
#[derive(Clone)]
pub struct PhraseAudioCache {
    fixed: Arc<HashSet<String>>,
    packets: Arc<Mutex<Packets>>,
}

/// Packets by text, voice and sample rate, in Hz.
type Packets = HashMap<(String, Arc<str>, u32), Arc<[Bytes]>>;

/// Maximum number of cached phrases. Beyond it, the cache is cleared and filled again: there may be
/// many voices.
const MOST_PHRASES: usize = 512;

impl PhraseAudioCache {
    /// Creates an empty cache for those of the phrases that are a complete answer.
    pub fn new(phrases: &Phrases) -> Self {
        // Packets are stored, not samples: refusing a turn then costs a tenth of answering it.
        // Decision 0021.
        let Phrases { greeting, apology, farewell, busy, .. } = phrases;
        let whole = [greeting, apology, farewell, busy].into_iter().flat_map(Phrase::all);
        Self { fixed: Arc::new(whole.collect()), packets: Arc::default() }
    }

    /// Returns true if the text is one of the phrases.
    pub(super) fn is_fixed(&self, text: &str) -> bool {
        self.fixed.contains(text)
    }

    /// Returns the packets of this phrase at this rate, if it was spoken before.
    pub(super) fn packets(
        &self,
        text: &str,
        voice: &Arc<str>,
        rate_hz: u32,
    ) -> Option<Arc<[Bytes]>> {
        let packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        packets.get(&(text.to_owned(), Arc::clone(voice), rate_hz)).cloned()
    }

    /// Stores the packets of a phrase that was spoken to its end.
    pub(super) fn keep(&self, text: &str, voice: &Arc<str>, rate_hz: u32, packets: Vec<Bytes>) {
        let mut cache = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MOST_PHRASES {
            cache.clear();
        }
        cache.insert((text.to_owned(), Arc::clone(voice), rate_hz), packets.into());
    }
}
