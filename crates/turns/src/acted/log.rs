//! Log of what the server sent and the device did, with timestamps. Judging it is elsewhere.

use std::collections::VecDeque;
use std::time::Duration;

use hearken_audio::opus::Decoder;
use hearken_audio::pcm;
use hearken_virtual_device::events::{Fact, Loss};
use hearken_virtual_device::observer::{Observation, Observer};
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use crate::manifest::Stretch;

/// Identifies a packet of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tag {
    /// Number of the reply, from 1.
    pub reply: usize,
    /// Index of the sentence in the reply; the number of sentences for any other sentence.
    pub sentence: usize,
    /// Index of the packet in the sentence.
    pub packet: usize,
}

/// Message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// `tts start`.
    Start,
    /// `sentence_start`, with its text.
    Sentence(String),
    /// Audio packet.
    Packet(Tag),
    /// `tts stop`.
    Stop,
    /// Transcript of what the user said.
    Transcript(String),
}

/// Packet that the loudspeaker played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Played {
    /// Time at which it started.
    pub at: Duration,
    /// Length that was played.
    pub length: Duration,
    /// Identity of the packet.
    pub tag: Tag,
}

/// Log of a conversation. Times count from its start.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Span of the user's question.
    pub asked: Stretch,
    /// Span of the voice over the reply.
    pub over: Option<Stretch>,
    /// Messages of the server.
    pub sent: Vec<(Duration, Sent)>,
    /// Packets that the loudspeaker played.
    pub played: Vec<Played>,
    /// Packets that were lost, or cut before their end.
    pub lost: Vec<(Duration, Loss, Tag)>,
    /// Underruns: start, length, and the packet that ended each.
    pub gaps: Vec<(Duration, Duration, Tag)>,
    /// Times at which `tts stop` reached the device.
    pub stopped: Vec<Duration>,
    /// For each packet of the microphone: time of its completion, and of its arrival at the server.
    pub heard: Vec<(Duration, Duration)>,
    /// Audio of the microphone, if recorded.
    pub recorded: Vec<i16>,
    /// Audio of the loudspeaker, if recorded.
    pub sound: Vec<i16>,
}

/// Observer of one device.
pub(super) struct Log {
    pub(super) seen: Seen,
    /// Tag of the packet that is arriving at the device.
    pub(super) arriving: Tag,
    /// True until the device has processed it.
    fresh: bool,
    waiting: VecDeque<Tag>,
    playing: Tag,
    /// Decoder of the played packets, if the audio is recorded.
    decoder: Option<Decoder>,
}

impl Log {
    /// Creates a log; `decodes` is true if the played audio is recorded.
    pub(super) fn new(decodes: bool) -> Self {
        let decoder = || Decoder::new(UPLINK_RATE_HZ).expect("libopus supports 16 kHz");
        Self {
            seen: Seen::default(),
            arriving: Tag::default(),
            fresh: false,
            waiting: VecDeque::new(),
            playing: Tag::default(),
            decoder: decodes.then(decoder),
        }
    }

    /// Returns when the first packet was played.
    pub(super) fn first_played(&self) -> Option<Duration> {
        self.seen.played.first().map(|played| played.at)
    }

    /// Notes that the device has processed a packet.
    pub(super) fn arrived(&mut self) {
        self.fresh = false;
    }

    fn plays(&mut self, at: Duration, opus: &[u8], length: Duration) {
        self.playing = self.waiting.pop_front().unwrap_or_default();
        self.seen.played.push(Played { at, length, tag: self.playing });
        let Some(decoder) = &mut self.decoder else { return };
        let sound = &mut self.seen.sound;
        let from = pcm::samples_in(at, UPLINK_RATE_HZ).max(sound.len());
        sound.resize(from, 0);
        // Packets that do not decode are silent.
        decoder.decode(opus, sound).unwrap_or_default();
    }

    fn cut(&mut self, at: Duration, unplayed: Duration, loss: Loss) {
        if let Some(last) = self.seen.played.last_mut() {
            last.length = last.length.saturating_sub(unplayed);
        }
        self.seen.sound.truncate(pcm::samples_in(at, UPLINK_RATE_HZ));
        self.seen.lost.push((at, loss, self.playing));
    }

    fn lost(&mut self, at: Duration, loss: Loss) {
        let fresh = std::mem::take(&mut self.fresh);
        let tag = if fresh { self.waiting.pop_back() } else { self.waiting.pop_front() };
        self.seen.lost.push((at, loss, tag.unwrap_or_default()));
    }
}

impl Observer for Log {
    fn observe(&mut self, at: Duration, what: Observation) {
        let Observation::Noticed(fact) = what else { return };
        match fact {
            Fact::PacketReceived => {
                self.waiting.push_back(self.arriving);
                self.fresh = true;
            }
            Fact::PacketPlayed { opus, length } => self.plays(at, &opus, length),
            Fact::PacketLost(loss) => self.lost(at, loss),
            Fact::PacketCut { unplayed, loss } => self.cut(at, unplayed, loss),
            Fact::Gap { length } => self.seen.gaps.push((at, length, self.arriving)),
            Fact::Message { kind, .. } if kind == "tts stop" => self.seen.stopped.push(at),
            _ => {}
        }
    }
}
