//! Packets of the phrases that are a whole answer, encoded once: what everybody hears again and
//! again, most of all when there is no time to encode it. Not for what the model says, nor for
//! phrases within an answer, whose packets go on from those before.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::dialogue::{Phrase, Phrases};

/// The packets of each phrase, by its text and their rate. Clones share. It holds as much as there
/// are phrases.
#[derive(Clone)]
pub struct PhraseAudioCache {
    fixed: Arc<HashSet<String>>,
    packets: Arc<Mutex<Packets>>,
}

/// By text and rate.
type Packets = HashMap<(String, u32), Arc<[Bytes]>>;

impl PhraseAudioCache {
    /// None of these has been spoken yet.
    pub fn new(phrases: &Phrases) -> Self {
        let Phrases { greeting, apology, farewell, busy, .. } = phrases;
        let whole = [greeting, apology, farewell, busy].into_iter().flat_map(Phrase::all);
        Self { fixed: Arc::new(whole.collect()), packets: Arc::default() }
    }

    /// It is one of the phrases.
    pub(super) fn is_fixed(&self, text: &str) -> bool {
        self.fixed.contains(text)
    }

    /// The packets of this phrase at this rate, where it was spoken before.
    pub(super) fn packets(&self, text: &str, rate_hz: u32) -> Option<Arc<[Bytes]>> {
        let packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        packets.get(&(text.to_owned(), rate_hz)).cloned()
    }

    /// Keeps the packets of a phrase that was spoken to its end.
    pub(super) fn keep(&self, text: &str, rate_hz: u32, packets: Vec<Bytes>) {
        let mut kept = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert((text.to_owned(), rate_hz), packets.into());
    }
}
