//! What a watcher saw of one virtual device, and what a person beside it heard. Not for printing
//! nor for judging.

use std::time::Duration;

use bytes::Bytes;

use super::events::{Fact, ToolUse};
use super::observer::{Aftermath, Aftermaths, Observer};
pub use super::observer::{Packets, What, loss_name};

/// Everything that one device did and met, in the order of time.
#[derive(Debug, Default)]
pub struct Report {
    entries: Vec<Entry>,
    /// When the person had finished speaking, where known.
    pub speech_end: Option<Duration>,
}

/// One thing and when it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since the device was switched on.
    pub at: Duration,
    /// The thing.
    pub what: What,
}

/// How long each stage took, counted from the end of the person's speech.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Stages {
    /// Transcript shown, ms.
    pub stt_ms: Option<u64>,
    /// `tts start`, ms.
    pub tts_start_ms: Option<u64>,
    /// First sentence announced, ms.
    pub sentence_start_ms: Option<u64>,
    /// First packet received, ms.
    pub first_audio_ms: Option<u64>,
    /// First packet played, ms.
    pub first_heard_ms: Option<u64>,
    /// `tts stop`, ms.
    pub tts_stop_ms: Option<u64>,
}

impl Report {
    /// Adds one thing.
    pub fn add(&mut self, at: Duration, what: What) {
        // Playback facts are found a little after they were so.
        let place = self.entries.partition_point(|e| e.at <= at);
        self.entries.insert(place, Entry { at, what });
    }

    /// All things, in the order of time.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// All facts, in the order of time.
    pub fn facts(&self) -> impl Iterator<Item = (Duration, &Fact)> {
        self.entries.iter().filter_map(|e| match &e.what {
            What::Noticed(fact) => Some((e.at, fact)),
            What::Sent(_) | What::SentAudio | What::SpokenOver => None,
        })
    }

    /// Times and texts of all messages of this kind (`stt`, `tts stop`).
    pub fn messages(&self, wanted: &str) -> impl Iterator<Item = (Duration, &str)> {
        self.facts().filter_map(move |(at, fact)| match fact {
            Fact::Message { kind, text } if kind == wanted => {
                Some((at, text.as_deref().unwrap_or_default()))
            }
            _ => None,
        })
    }

    /// The packets that were played: when, what, and how long.
    pub fn heard(&self) -> impl Iterator<Item = (Duration, &Bytes, Duration)> {
        self.facts().filter_map(|(at, fact)| match fact {
            Fact::PacketPlayed { opus, length } => Some((at, opus, *length)),
            _ => None,
        })
    }

    /// Length of all packets that were played, without silences between them.
    pub fn audio_length(&self) -> Duration {
        self.heard().map(|(_, _, length)| length).sum()
    }

    /// Silences inside speech because a packet came late: when, and how long.
    pub fn gaps(&self) -> impl Iterator<Item = (Duration, Duration)> {
        self.facts().filter_map(|(at, fact)| match fact {
            Fact::Gap { length } => Some((at, *length)),
            _ => None,
        })
    }

    /// All transcripts, joined.
    pub fn transcript(&self) -> String {
        join(self.messages("stt").map(|(_, text)| text))
    }

    /// All sentences announced, joined.
    pub fn reply(&self) -> String {
        join(self.messages("tts sentence_start").map(|(_, text)| text))
    }

    /// Counts of packets.
    pub fn packets(&self) -> Packets {
        let mut packets = Packets::default();
        for entry in &self.entries {
            packets.count(&entry.what);
        }
        packets
    }

    /// Calls of the device's tools, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolUse> {
        self.facts().filter_map(|(_, fact)| match fact {
            Fact::ToolCalled(call) => Some(call),
            _ => None,
        })
    }

    /// What came of each interruption.
    pub fn interruptions(&self) -> Vec<Aftermath> {
        let mut following = Aftermaths::default();
        let over = self.entries.iter().filter_map(|e| following.saw(e.at, &e.what));
        let mut all: Vec<_> = over.collect();
        all.extend(following.end());
        all
    }

    /// Latencies of the answer to the person's last words. Empty where the end of their speech is
    /// not known.
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
    fn saw(&mut self, at: Duration, what: What) {
        self.add(at, what);
    }
}
