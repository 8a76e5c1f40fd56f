//! Cache of spoken sentences, in front of any synthesiser. Not on disk: it ends with the process.
//!
//! - Only complete sentences are stored. A hit returns the same pieces.
//! - Beyond the limit in bytes, the least recently used entries are dropped. Warmed phrases do not
//!   count towards the limit and stay; they have limits of their own.
//! - Two concurrent requests for the same text both go to the synthesiser; one result is stored.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use hearken_ports::{Line, Pcm, ProviderError, ServiceHealth, Tts};

/// Approximate size of an entry besides its audio and text, in bytes.
const ENTRY_BYTES: usize = 128;
/// Approximate size of a piece besides its samples, in bytes: a sentence may have millions of pieces
/// of one sample.
const PIECE_BYTES: usize = size_of::<Pcm>() + 32;

/// Maximum length of a warmed phrase's audio, in seconds.
const MAX_PHRASE_SECONDS: u64 = 30;
/// Maximum size of a warmed phrase's audio, in bytes: 30 s at 48 kHz.
const MAX_PHRASE_BYTES: usize = 30 * 48_000 * 2;
/// Maximum size of all warmed phrases, in bytes.
const MAX_PINNED_BYTES: usize = 64 << 20;

/// Synthesiser with a cache.
pub struct CachedTts {
    inner: Arc<dyn Tts>,
    memory: Arc<Mutex<Memory>>,
}

impl CachedTts {
    /// Wraps `inner` with a cache of at most `max_bytes` of audio.
    pub fn new(inner: Arc<dyn Tts>, max_bytes: usize) -> Self {
        let memory = Memory { max_bytes, ..Memory::default() };
        Self { inner, memory: Arc::new(Mutex::new(memory)) }
    }

    /// Synthesises phrases into the cache permanently: they can be spoken even if the synthesiser
    /// is down. Phrases in the cache cost nothing: repeated calls are cheap. If the audio of a
    /// phrase is too long, this logs a warning, and the phrase is synthesised on use.
    ///
    /// # Errors
    /// Returns the first failure of the synthesiser. The other phrases are still tried.
    pub async fn warm(&self, phrases: &[String]) -> Result<(), ProviderError> {
        let mut failed = None;
        for phrase in phrases {
            let text: Arc<str> = phrase.as_str().into();
            if lock(&self.memory).needs_no_warming(&text) {
                continue;
            }
            match self.synthesise(text.clone()).await {
                Ok(Some(pieces)) => {
                    let mut memory = lock(&self.memory);
                    pieces.iter().for_each(|pcm| memory.note_rate(pcm));
                    // A fixed phrase is never evicted: the apology must be heard when the synthesiser is dead.
                    // Decision 0021.
                    memory.store(text, pieces.into(), true);
                }
                Ok(None) => {
                    tracing::warn!(
                        phrase = %text,
                        max_seconds = MAX_PHRASE_SECONDS,
                        "a fixed phrase is not cached, because its audio is too long: check the voice, or shorten the phrase"
                    );
                    lock(&self.memory).refused.insert(text);
                }
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Synthesises a phrase. Returns none if its audio is too long to store.
    async fn synthesise(&self, text: Arc<str>) -> Result<Option<Vec<Pcm>>, ProviderError> {
        let room = MAX_PINNED_BYTES.saturating_sub(lock(&self.memory).pinned_bytes);
        let mut spoken = self.inner.speak(Line::new(text));
        let mut pieces = Vec::new();
        let mut bytes = 0;
        let mut ms = 0;
        while let Some(pcm) = spoken.try_next().await? {
            bytes += size(&pcm);
            ms += pcm.samples.len() as u64 * 1_000 / u64::from(pcm.sample_rate_hz.max(1));
            if bytes > MAX_PHRASE_BYTES.min(room) || ms > MAX_PHRASE_SECONDS * 1_000 {
                return Ok(None);
            }
            pieces.push(pcm);
        }
        Ok(Some(pieces))
    }
}

/// Returns the approximate memory of a piece, in bytes.
fn size(pcm: &Pcm) -> usize {
    size_of_val(&*pcm.samples) + PIECE_BYTES
}

/// Returns the cache key of a sentence: its text, and the voice if it differs from the configured
/// one.
fn key(line: &Line) -> Arc<str> {
    if line.voice.is_empty() {
        return Arc::clone(&line.text);
    }
    format!("{}\u{0}{}", line.voice, line.text).into()
}

impl Tts for CachedTts {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let key = key(&line);
        if let Some(pieces) = lock(&self.memory).recall(&key) {
            let count = pieces.len();
            return stream::iter((0..count).map(move |at| Ok(pieces[at].clone()))).boxed();
        }
        let recording = Recording {
            text: key,
            spoken: self.inner.speak(line),
            pieces: Some(Vec::new()),
            bytes: 0,
            memory: self.memory.clone(),
        };
        stream::try_unfold(recording, |mut recording| async move {
            match recording.spoken.try_next().await? {
                Some(pcm) => {
                    recording.add(&pcm);
                    Ok(Some((pcm, recording)))
                }
                None => {
                    recording.store();
                    Ok(None)
                }
            }
        })
        .boxed()
    }

    fn sample_rate_hz(&self) -> Option<u32> {
        lock(&self.memory).rate_hz
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }
}

/// Sentence that is passed on and recorded for the cache.
struct Recording {
    text: Arc<str>,
    spoken: BoxStream<'static, Result<Pcm, ProviderError>>,
    /// Pieces so far; none once they exceed the cache.
    pieces: Option<Vec<Pcm>>,
    bytes: usize,
    memory: Arc<Mutex<Memory>>,
}

impl Recording {
    fn add(&mut self, pcm: &Pcm) {
        self.bytes += size(pcm);
        let mut memory = lock(&self.memory);
        memory.note_rate(pcm);
        if self.bytes > memory.max_bytes {
            self.pieces = None;
        }
        if let Some(pieces) = &mut self.pieces {
            pieces.push(pcm.clone());
        }
    }

    fn store(&mut self) {
        if let Some(pieces) = self.pieces.take() {
            lock(&self.memory).store(self.text.clone(), pieces.into(), false);
        }
    }
}

#[derive(Default)]
struct Memory {
    max_bytes: usize,
    /// Highest sample rate of all audio so far.
    rate_hz: Option<u32>,
    /// Size of all entries that are not pinned.
    bytes: usize,
    /// Size of all pinned entries.
    pinned_bytes: usize,
    /// Phrases that are too long to store.
    refused: HashSet<Arc<str>>,
    /// Number of uses, to find the least recently used entries.
    clock: u64,
    entries: HashMap<Arc<str>, Entry>,
}

struct Entry {
    pieces: Arc<[Pcm]>,
    bytes: usize,
    used: u64,
    pinned: bool,
}

impl Memory {
    fn note_rate(&mut self, pcm: &Pcm) {
        self.rate_hz = self.rate_hz.max(Some(pcm.sample_rate_hz));
    }

    fn recall(&mut self, text: &str) -> Option<Arc<[Pcm]>> {
        self.clock += 1;
        let entry = self.entries.get_mut(text)?;
        entry.used = self.clock;
        Some(entry.pieces.clone())
    }

    /// Pins the entry of this text, if there is one. Returns false if the text is to be
    /// synthesised.
    fn needs_no_warming(&mut self, text: &str) -> bool {
        let Some(entry) = self.entries.get_mut(text) else { return self.refused.contains(text) };
        if !entry.pinned && self.pinned_bytes + entry.bytes <= MAX_PINNED_BYTES {
            entry.pinned = true;
            self.bytes -= entry.bytes;
            self.pinned_bytes += entry.bytes;
        }
        true
    }

    fn store(&mut self, text: Arc<str>, pieces: Arc<[Pcm]>, pinned: bool) {
        let audio: usize = pieces.iter().map(size).sum();
        let bytes = audio + text.len() + ENTRY_BYTES;
        if pieces.is_empty() || (bytes > self.max_bytes && !pinned) {
            return;
        }
        self.clock += 1;
        let before = self.entries.get(&text);
        let pinned = pinned || before.is_some_and(|entry| entry.pinned);
        if let Some(entry) = before {
            let used = if entry.pinned { &mut self.pinned_bytes } else { &mut self.bytes };
            *used -= entry.bytes;
        }
        let used = if pinned { &mut self.pinned_bytes } else { &mut self.bytes };
        *used += bytes;
        self.entries.insert(text, Entry { pieces, bytes, used: self.clock, pinned });
        while self.bytes > self.max_bytes && self.forget_oldest() {}
    }

    fn forget_oldest(&mut self) -> bool {
        let loose = self.entries.iter().filter(|(_, entry)| !entry.pinned);
        let Some(oldest) = loose.min_by_key(|(_, entry)| entry.used).map(|(text, _)| text.clone())
        else {
            return false;
        };
        if let Some(entry) = self.entries.remove(&oldest) {
            self.bytes -= entry.bytes;
        }
        true
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hearken_ports::ProviderErrorKind;

    use super::*;

    /// Synthesiser of two pieces of 100 samples. Texts with `!` fail after the first.
    #[derive(Default)]
    struct Counting {
        asked: AtomicUsize,
    }

    impl Tts for Counting {
        fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let piece =
                |value: i16| Pcm { samples: vec![value; 100].into(), sample_rate_hz: 16_000 };
            let last = if line.text.contains('!') {
                Err(ProviderError::new("counting", ProviderErrorKind::Unavailable))
            } else {
                Ok(piece(2))
            };
            stream::iter([Ok(piece(1)), last]).boxed()
        }
    }

    /// Size of a sentence of [`Counting`] with a text of one byte.
    const SENTENCE_BYTES: usize = 2 * (200 + PIECE_BYTES) + 1 + ENTRY_BYTES;

    /// Creates a cache for this many entries with a text of one byte.
    fn cache(entries: usize) -> (Arc<Counting>, CachedTts) {
        let counting = Arc::new(Counting::default());
        (counting.clone(), CachedTts::new(counting, entries * SENTENCE_BYTES))
    }

    async fn hear(cache: &CachedTts, text: &str) -> Vec<Result<Pcm, ProviderErrorKind>> {
        let line = Line::new(text);
        cache.speak(line).map(|piece| piece.map_err(|e| e.kind)).collect().await
    }

    #[tokio::test]
    async fn a_repeated_sentence_is_served_from_the_cache() {
        let (counting, cache) = cache(2);
        let first = hear(&cache, "a").await;
        assert_eq!(first.len(), 2);
        assert_eq!(hear(&cache, "a").await, first);
        assert_eq!(counting.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn broken_and_abandoned_sentences_are_not_stored() {
        let (counting, cache) = cache(2);
        assert_eq!(hear(&cache, "!").await.last(), Some(&Err(ProviderErrorKind::Unavailable)));
        assert_eq!(hear(&cache, "!").await.len(), 2);
        assert_eq!(counting.asked.load(Ordering::SeqCst), 2);
        let mut abandoned = cache.speak(Line::new("b"));
        assert!(abandoned.next().await.is_some());
        drop(abandoned);
        assert_eq!(hear(&cache, "b").await.len(), 2);
        assert_eq!(counting.asked.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn the_least_recently_used_entry_is_evicted_and_warmed_phrases_stay() {
        let (counting, cache) = cache(2);
        cache.warm(&["w".into()]).await.unwrap();
        for text in ["a", "b", "a", "c"] {
            hear(&cache, text).await;
        }
        assert_eq!(counting.asked.load(Ordering::SeqCst), 4);
        for text in ["w", "a", "c"] {
            hear(&cache, text).await;
        }
        assert_eq!(counting.asked.load(Ordering::SeqCst), 4, "w, a and c are cached");
        hear(&cache, "b").await;
        assert_eq!(counting.asked.load(Ordering::SeqCst), 5, "b was evicted");
    }

    #[tokio::test]
    async fn warming_returns_a_failure_and_still_tries_the_rest() {
        let (counting, cache) = cache(0);
        let phrases = ["!".to_owned(), "w".to_owned()];
        assert!(cache.warm(&phrases).await.is_err());
        assert_eq!(hear(&cache, "w").await.len(), 2);
        assert_eq!(counting.asked.load(Ordering::SeqCst), 2);
        assert!(cache.warm(&phrases).await.is_err());
        assert_eq!(counting.asked.load(Ordering::SeqCst), 3, "only the failed one is tried again");
    }

    /// Synthesiser that never ends.
    struct Endless(AtomicUsize);

    impl Tts for Endless {
        fn speak(&self, _: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let second = Pcm { samples: vec![0; 16_000].into(), sample_rate_hz: 16_000 };
            stream::repeat_with(move || Ok(second.clone())).boxed()
        }
    }

    #[tokio::test]
    async fn a_phrase_that_is_too_long_is_not_stored_and_not_retried() {
        let endless = Arc::new(Endless(AtomicUsize::new(0)));
        let cache = CachedTts::new(endless.clone(), 1 << 20);
        for _ in 0..2 {
            cache.warm(&["w".into()]).await.unwrap();
        }
        assert_eq!(endless.0.load(Ordering::SeqCst), 1);
        assert_eq!(lock(&cache.memory).pinned_bytes, 0);
        let mut spoken = cache.speak(Line::new("w"));
        assert!(spoken.next().await.is_some(), "it is synthesised on use");
    }

    #[tokio::test]
    async fn warmed_phrases_are_bounded_together() {
        let cache = CachedTts::new(Arc::new(Counting::default()), 0);
        lock(&cache.memory).pinned_bytes = MAX_PINNED_BYTES - 2_000;
        let phrases: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        cache.warm(&phrases).await.unwrap();
        let memory = lock(&cache.memory);
        assert!(memory.pinned_bytes <= MAX_PINNED_BYTES);
        assert_eq!(memory.entries.len() + memory.refused.len(), 9);
        assert!(!memory.entries.is_empty() && !memory.refused.is_empty());
    }

    #[tokio::test]
    async fn two_concurrent_requests_are_both_served() {
        let (_, cache) = cache(2);
        let (one, two) = tokio::join!(hear(&cache, "a"), hear(&cache, "a"));
        assert_eq!(one, two);
        assert_eq!(lock(&cache.memory).bytes, SENTENCE_BYTES);
    }

    /// Synthesiser of a hundred pieces of one sample.
    struct Splinters(AtomicUsize);

    impl Tts for Splinters {
        fn speak(&self, _: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let piece = || Pcm { samples: [1].into(), sample_rate_hz: 16_000 };
            stream::iter((0..100).map(move |_| Ok(piece()))).boxed()
        }
    }

    #[tokio::test]
    async fn each_piece_counts_with_its_overhead() {
        let splinters = Arc::new(Splinters(AtomicUsize::new(0)));
        let cache = CachedTts::new(splinters.clone(), 1_000);
        for _ in 0..2 {
            assert_eq!(hear(&cache, "a").await.len(), 100);
        }
        assert_eq!(splinters.0.load(Ordering::SeqCst), 2, "it is larger than the cache");
        assert_eq!(lock(&cache.memory).bytes, 0);
    }
}
