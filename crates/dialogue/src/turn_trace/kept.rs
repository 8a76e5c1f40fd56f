//! What of a turn is kept beyond the journal: how much of it, and its sound. Not for where it is kept.

use std::time::Duration;

use bytes::Bytes;
use hearken_audio::pcm;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_ports::role::Keep;
use tokio::time::Instant;

use super::{Entry, TurnTrace, Writer};

/// Longest text of a person or of an answer that is kept, in characters.
const MOST_CHARS: usize = 4_000;
/// Longest sound of a person that is kept of a turn, in samples: a minute.
const MOST_SAMPLES: usize = 60 * SAMPLE_RATE_HZ as usize;
/// Most packets of an answer that are kept of a turn: three minutes of 60 ms.
const MOST_PACKETS: usize = 3_000;

/// Sound of a turn. Times are milliseconds since it began; what was said before has negative ones.
#[derive(Debug, Default)]
pub struct TracedSound {
    /// When the person's sound begins.
    pub heard_from_ms: i64,
    /// What the recogniser was given, mono at 16 kHz.
    pub heard: Vec<i16>,
    /// Packets of Opus of the answer that were sent, and when each is played.
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
    /// Returns the milliseconds from the turn's beginning until this time.
    fn ms(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.began).as_millis();
        i64::try_from(since).unwrap_or(i64::MAX)
    }
}

impl TurnTrace {
    /// Counts what the recogniser is given, and keeps it if sound is kept.
    pub fn heard_sound(&self, samples: &[i16]) {
        if let Some(writer) = &self.writer {
            writer.entry.hear(samples);
        }
        if let Some(entry) = self.keeping_sound() {
            let now_ms = entry.ms(Instant::now());
            entry.facts().sound.hear(samples, now_ms);
        }
    }

    /// Counts a packet of the answer, of this length, that is played at this time, and keeps it if sound is kept.
    pub fn said_packet(&self, opus: &Bytes, plays_at: Instant, lasts: Duration) {
        if let Some(writer) = &self.writer {
            writer.entry.say(lasts);
        }
        if let Some(entry) = self.keeping_sound() {
            let plays_ms = entry.ms(plays_at);
            entry.facts().sound.say(opus, plays_ms);
        }
    }

    /// Returns what is kept of these words.
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
    /// Returns how much is kept of the turn.
    pub(super) fn keep(&self) -> Keep {
        self.entry.keep.unwrap_or_else(|| self.journal.keep())
    }

    /// Returns whether its words are kept, by the journal or beyond it.
    fn keeps_words(&self) -> bool {
        self.journal.keeps_words() || self.keep() != Keep::Off
    }
}
