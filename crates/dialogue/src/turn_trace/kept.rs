//! Parts of a turn for the history: how much is stored, and its audio. Not for the storage.

use std::time::Duration;

use bytes::Bytes;
use hearken_audio::pcm;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_ports::role::Keep;
use tokio::time::Instant;

use super::{Entry, TurnTrace, Writer};

/// Maximum length of a person's words or of an answer, in characters.
const MOST_CHARS: usize = 4_000;
/// Maximum length of a person's audio in a turn, in samples: a minute.
const MOST_SAMPLES: usize = 60 * SAMPLE_RATE_HZ as usize;
/// Maximum number of stored packets of an answer: three minutes of 60 ms.
const MOST_PACKETS: usize = 3_000;

/// Audio of a turn. Times are milliseconds since its start; negative for audio before it.
#[derive(Debug, Default)]
pub struct TracedSound {
    /// Start of the person's audio.
    pub heard_from_ms: i64,
    /// Input of the recogniser, mono at 16 kHz.
    pub heard: Vec<i16>,
    /// Opus packets of the answer that were sent, with the time at which each is played.
    pub said: Vec<(i64, Bytes)>,
}

impl TracedSound {
    fn hear(&mut self, samples: &[i16], now_ms: i64) {
        if self.heard.is_empty() {
            let length = pcm::duration(samples.len(), SAMPLE_RATE_HZ).as_millis();
            self.heard_from_ms = now_ms.saturating_sub(i64::try_from(length).unwrap_or(i64::MAX));
        }
        let room = MOST_SAMPLES.saturating_sub(self.heard.len());
        self.heard.extend_from_slice(&samples[..samples.len().min(room)]);
    }

    fn say(&mut self, opus: &Bytes, plays_ms: i64) {
        if self.said.len() < MOST_PACKETS {
            self.said.push((plays_ms, opus.clone()));
        }
    }
}

impl Entry {
    /// Returns the milliseconds from the turn's start until this time.
    fn ms(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.began).as_millis();
        i64::try_from(since).unwrap_or(i64::MAX)
    }
}

impl TurnTrace {
    /// Counts the recogniser's input, and stores it if audio is stored.
    pub fn heard_sound(&self, samples: &[i16]) {
        if let Some(writer) = &self.writer {
            writer.entry.hear(samples);
        }
        if let Some(entry) = self.keeping_sound() {
            let now_ms = entry.ms(Instant::now());
            entry.facts().sound.hear(samples, now_ms);
        }
    }

    /// Counts a packet of the answer, of this length, played at this time, and stores it if audio
    /// is stored.
    pub fn said_packet(&self, opus: &Bytes, plays_at: Instant, lasts: Duration) {
        if let Some(writer) = &self.writer {
            writer.entry.say(lasts);
        }
        if let Some(entry) = self.keeping_sound() {
            let plays_ms = entry.ms(plays_at);
            entry.facts().sound.say(opus, plays_ms);
        }
    }

    /// Returns the part of these words that is stored.
    pub(super) fn kept(&self, words: &str) -> Option<String> {
        let keeps = self.writer.as_ref().is_some_and(|writer| writer.keeps_words());
        (keeps && !words.is_empty()).then(|| words.chars().take(MOST_CHARS).collect())
    }

    fn keeping_sound(&self) -> Option<&Entry> {
        let writer = self.writer.as_ref()?;
        (writer.keep() == Keep::Audio).then_some(&*writer.entry)
    }
}

impl Writer {
    /// Returns what the history stores of the turn.
    pub(super) fn keep(&self) -> Keep {
        self.entry.keep.unwrap_or_else(|| self.journal.keep())
    }

    /// Returns whether its words are stored, by the journal or the history.
    fn keeps_words(&self) -> bool {
        self.journal.keeps_words() || self.keep() != Keep::Off
    }
}
