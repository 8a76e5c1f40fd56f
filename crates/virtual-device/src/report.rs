//! Report of everything that was observed of one virtual device, and of the audio that was played.
//! Not for printing nor for judging.

use std::time::Duration;

use bytes::Bytes;

use super::events::{Fact, ToolUse};
use super::observer::{InterruptionEffects, InterruptionTracker, Observer};
pub use super::observer::{Observation, Packets, loss_name};

/// Observations of one device, ordered by time.
#[derive(Debug, Default)]
pub struct Report {
    entries: Vec<Entry>,
    /// End of the person's speech, if known.
    pub speech_end: Option<Duration>,
}

/// Observation with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since the device was switched on.
    pub at: Duration,
    /// Observation.
    pub what: Observation,
}

/// Latency of each stage, from the end of the person's speech.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Stages {
    /// Until the transcript, in ms.
    pub stt_ms: Option<u64>,
    /// Until `tts start`, in ms.
    pub tts_start_ms: Option<u64>,
    /// Until the first sentence is announced, in ms.
    pub sentence_start_ms: Option<u64>,
    /// Until the first packet is received, in ms.
    pub first_audio_ms: Option<u64>,
    /// Until the first packet is played, in ms.
    pub first_heard_ms: Option<u64>,
    /// Until `tts stop`, in ms.
    pub tts_stop_ms: Option<u64>,
}

impl Report {
    /// Adds one observation.
    pub fn add(&mut self, at: Duration, what: Observation) {
        // Playback facts are noticed a little after they happened.
        let place = self.entries.partition_point(|e| e.at <= at);
        self.entries.insert(place, Entry { at, what });
    }

    /// Returns all observations, ordered by time.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns all facts, ordered by time.
    pub fn facts(&self) -> impl Iterator<Item = (Duration, &Fact)> {
        self.entries.iter().filter_map(|e| match &e.what {
            Observation::Noticed(fact) => Some((e.at, fact)),
            Observation::Sent(_) | Observation::SentAudio | Observation::SpokenOver => None,
        })
    }

    /// Returns the times and texts of all messages of this kind (`stt`, `tts stop`).
    pub fn messages(&self, wanted: &str) -> impl Iterator<Item = (Duration, &str)> {
        self.facts().filter_map(move |(at, fact)| match fact {
            Fact::Message { kind, text } if kind == wanted => {
                Some((at, text.as_deref().unwrap_or_default()))
            }
            _ => None,
        })
    }

    /// Returns the played packets: time, content and length.
    pub fn heard(&self) -> impl Iterator<Item = (Duration, &Bytes, Duration)> {
        self.facts().filter_map(|(at, fact)| match fact {
            Fact::PacketPlayed { opus, length } => Some((at, opus, *length)),
            _ => None,
        })
    }

    /// Returns the total length of the played packets, without silences between them.
    pub fn audio_length(&self) -> Duration {
        self.heard().map(|(_, _, length)| length).sum()
    }

    /// Returns the silences inside speech caused by late packets: time and length.
    pub fn gaps(&self) -> impl Iterator<Item = (Duration, Duration)> {
        self.facts().filter_map(|(at, fact)| match fact {
            Fact::Gap { length } => Some((at, *length)),
            _ => None,
        })
    }

    /// Returns all transcripts, joined.
    pub fn transcript(&self) -> String {
        join(self.messages("stt").map(|(_, text)| text))
    }

    /// Returns all announced sentences, joined.
    pub fn reply(&self) -> String {
        join(self.messages("tts sentence_start").map(|(_, text)| text))
    }

    /// Returns the counts of packets.
    pub fn packets(&self) -> Packets {
        let mut packets = Packets::default();
        for entry in &self.entries {
            packets.count(&entry.what);
        }
        packets
    }

    /// Returns the calls of the device's tools, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolUse> {
        self.facts().filter_map(|(_, fact)| match fact {
            Fact::ToolCalled(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the consequences of each interruption.
    pub fn interruptions(&self) -> Vec<InterruptionEffects> {
        let mut following = InterruptionTracker::default();
        let over = self.entries.iter().filter_map(|e| following.observe(e.at, &e.what));
        let mut all: Vec<_> = over.collect();
        all.extend(following.end());
        all
    }

    /// Returns the latencies of the answer to the person's last words. Empty if the end of their
    /// speech is not known.
    pub fn stages(&self) -> Stages {
        let Some(end) = self.speech_end else { return Stages::default() };
        let since = |at: Duration| u64::try_from((at - end).as_millis()).unwrap_or(u64::MAX);
        let message =
            |kind: &str| self.messages(kind).map(|(at, _)| at).find(|at| *at >= end).map(since);
        let fact = |wanted: fn(&Fact) -> bool| {
            self.facts().find(|(at, fact)| *at >= end && wanted(fact)).map(|(at, _)| since(at))
        };
        Stages {
            stt_ms: message("stt"),
            tts_start_ms: message("tts start"),
            sentence_start_ms: message("tts sentence_start"),
            first_audio_ms: fact(|f| matches!(f, Fact::PacketReceived)),
            first_heard_ms: fact(|f| matches!(f, Fact::PacketPlayed { .. })),
            tts_stop_ms: message("tts stop"),
        }
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" ")
}

impl Observer for Report {
    fn observe(&mut self, at: Duration, what: Observation) {
        self.add(at, what);
    }
}
