//! What the server sent and what the device did with it, each with its time. Not for judging it.

use std::collections::VecDeque;
use std::time::Duration;

use hearken_audio::opus::Decoder;
use hearken_audio::pcm;
use hearken_virtual_device::events::{Fact, Loss};
use hearken_virtual_device::observer::{Observation, Observer};
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use crate::manifest::Stretch;

/// Which packet of which sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tag {
    /// Number of the reply, from 1 on.
    pub reply: usize,
    /// Place of the sentence in the reply; behind the last for any other.
    pub sentence: usize,
    /// Place of the packet in the sentence.
    pub packet: usize,
}

/// Something that the server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// `tts start`.
    Start,
    /// `sentence_start`, with the words.
    Sentence(String),
    /// A packet of sound.
    Packet(Tag),
    /// `tts stop`.
    Stop,
    /// What was understood.
    Transcript(String),
}

/// A packet that the loudspeaker played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Played {
    /// When it began.
    pub at: Duration,
    /// How much of it was played.
    pub length: Duration,
    /// Which it was.
    pub tag: Tag,
}

/// What came of a conversation. Times are from its beginning.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// When the person asked.
    pub asked: Stretch,
    /// When the voice over the reply was heard.
    pub over: Option<Stretch>,
    /// What the server sent.
    pub sent: Vec<(Duration, Sent)>,
    /// What the loudspeaker played.
    pub played: Vec<Played>,
    /// Packets that were not played, or not to their ends.
    pub lost: Vec<(Duration, Loss, Tag)>,
    /// Silences in which the device waited for this packet.
    pub gaps: Vec<(Duration, Duration, Tag)>,
    /// When `tts stop` came to the device.
    pub stopped: Vec<Duration>,
    /// When each packet of the microphone was complete, and when it came to the server.
    pub heard: Vec<(Duration, Duration)>,
    /// What the microphone recorded, where that is kept.
    pub recorded: Vec<i16>,
    /// What the loudspeaker played, where that is kept.
    pub sound: Vec<i16>,
}

/// Log of one device: its observer.
pub(super) struct Log {
    pub(super) seen: Seen,
    /// Packet that comes to the device now.
    pub(super) arriving: Tag,
    /// True until the device has dealt with it.
    fresh: bool,
    waiting: VecDeque<Tag>,
    playing: Tag,
    /// Decodes what is played, where that is needed.
    decoder: Option<Decoder>,
}

impl Log {
    /// Creates a log; `decodes` if what is played is needed as sound.
    pub(super) fn new(decodes: bool) -> Self {
        let decoder = || Decoder::new(UPLINK_RATE_HZ).expect("libopus runs at its own rates");
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

    /// The device has dealt with a packet.
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
        // What does not decode is silent.
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
