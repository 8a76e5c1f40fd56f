//! Cache of synthesised phrases, limited in bytes; the least recently used are removed first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Cache key: two phrases with equal keys sound equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PhraseKey {
    /// Name of the voice.
    pub voice: Arc<str>,
    /// Text of the phrase.
    pub text: Arc<str>,
    /// Speaking rate in thousandths.
    pub speed_permille: u32,
}

/// Cache of synthesised phrases.
#[derive(Debug)]
pub struct PhraseCache {
    limit_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    phrases: HashMap<PhraseKey, (u64, Arc<[i16]>)>,
    by_age: BTreeMap<u64, PhraseKey>,
    bytes: usize,
    clock: u64,
}

impl PhraseCache {
    /// Creates an empty cache of at most `limit_bytes`; zero turns it off.
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, inner: Mutex::default() }
    }

    /// Returns the phrase's audio, if it is cached.
    pub fn get(&self, key: &PhraseKey) -> Option<Arc<[i16]>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let now = inner.clock;
        let (age, pcm) = inner.phrases.get_mut(key)?;
        let before = std::mem::replace(age, now);
        let pcm = Arc::clone(pcm);
        if let Some(key) = inner.by_age.remove(&before) {
            inner.by_age.insert(now, key);
        }
        Some(pcm)
    }

    /// Stores a phrase, unless it is larger than a quarter of the cache.
    pub fn put(&self, key: PhraseKey, pcm: Arc<[i16]>) {
        if cost(&key, &pcm) > self.limit_bytes / 4 {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.remove(&key);
        inner.clock += 1;
        let now = inner.clock;
        inner.bytes += cost(&key, &pcm);
        inner.by_age.insert(now, key.clone());
        inner.phrases.insert(key, (now, pcm));
        while inner.bytes > self.limit_bytes {
            let Some((_, oldest)) = inner.by_age.pop_first() else { break };
            inner.remove(&oldest);
        }
    }
}

impl Inner {
    fn remove(&mut self, key: &PhraseKey) {
        if let Some((age, pcm)) = self.phrases.remove(key) {
            self.by_age.remove(&age);
            self.bytes -= cost(key, &pcm);
        }
    }
}

fn cost(key: &PhraseKey, pcm: &[i16]) -> usize {
    size_of_val(pcm) + 2 * key.text.len() + 128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> PhraseKey {
        PhraseKey { voice: "v".into(), text: text.into(), speed_permille: 1000 }
    }

    #[test]
    fn the_least_recently_used_phrase_is_removed_first() {
        let cache = PhraseCache::new(4_000);
        let pcm: Arc<[i16]> = vec![1; 400].into();
        for name in ["a", "b", "c", "d"] {
            cache.put(key(name), Arc::clone(&pcm));
        }
        assert!(cache.get(&key("a")).is_some());
        cache.put(key("e"), Arc::clone(&pcm));
        assert!(cache.get(&key("b")).is_none());
        assert!(cache.get(&key("a")).is_some());
        assert_eq!(cache.get(&PhraseKey { speed_permille: 900, ..key("a") }), None);
        cache.put(key("huge"), vec![0; 600].into());
        assert!(cache.get(&key("huge")).is_none());
    }

    #[test]
    fn storing_a_phrase_twice_does_not_grow_the_cache() {
        let cache = PhraseCache::new(4_000);
        for length in [100, 300, 200] {
            cache.put(key("a"), vec![0; length].into());
        }
        assert_eq!(cache.get(&key("a")).map(|p| p.len()), Some(200));
        assert_eq!(cache.inner.lock().unwrap().bytes, cost(&key("a"), &[0; 200]));
    }
}
