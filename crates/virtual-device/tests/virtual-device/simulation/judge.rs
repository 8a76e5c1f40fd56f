//! Invariants, checked against the messages of the server and the reaction of the device. Not for
//! the actions of people, nor for their waiting times, which are in [`super::home`].
//!
//! Every lost packet is a fault, except
//! - packets that the server sent before it could know of the interruption (by button, wake word or
//!   talk button), and packets queued in the device then;
//! - packets discarded because the person spoke over the reply in realtime mode: firmware up to
//!   1.6.6 does so at `tts stop`;
//! - packets in a device whose socket is gone.
//!
//! Every silence within a sentence is a fault, unless its synthesis failed or was slower than
//! [`super::vendors`] models.

use std::collections::VecDeque;
use std::time::Duration;

use actix_http::ws::Frame;
use hearken_virtual_device::firmware::{Fact, Loss};
use hearken_virtual_device::observer::{Observation, Observer, loss_name};

use super::vendors::{Sentence, Shared, lock};

/// Time of voice after which the server ends a reply, with the network and a packet.
const VOICE_REACHES: Duration = Duration::from_millis(1_500);
/// The same if it pauses first: until silence ends the utterance, and the recogniser has answered.
const WORDS_REACH: Duration = Duration::from_secs(4);
/// Time after which a reply pauses for a voice: it has lasted `hearing.barge_in_ms`, and the packet
/// that ends then has arrived.
const PAUSES_WITHIN: Duration = Duration::from_millis(450);
/// A person counts as speaking if their voice was sent within this time.
const SPEAKS_NOW: Duration = Duration::from_millis(100);
/// Firmware needs a turn of its main loop between `tts start` and sound; the server guarantees this time.
const START_TO_SOUND: Duration = Duration::from_millis(20);
/// Maximum number of stored faults of one household.
const MOST_FAULTS: usize = 20;

/// Counters of one household or of many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Number of conversations with the device.
    pub(crate) visits: u64,
    /// Number of `tts stop` received.
    pub(crate) replies: u64,
    /// Number of packets that the server sent.
    pub(crate) packets: u64,
    pub(crate) interruptions: u64,
    pub(crate) walked_away: u64,
    /// From an abort to `tts stop`, at the device.
    pub(crate) longest_stop: Duration,
    /// From the first voice over a reply to its last packet, at the server.
    pub(crate) longest_cut: Duration,
    /// Number of replies that paused and continued.
    pub(crate) resumed: u64,
}

impl Counts {
    /// Adds the counters of another household.
    pub(crate) fn add(&mut self, other: &Self) {
        self.visits += other.visits;
        self.replies += other.replies;
        self.packets += other.packets;
        self.interruptions += other.interruptions;
        self.walked_away += other.walked_away;
        self.longest_stop = self.longest_stop.max(other.longest_stop);
        self.longest_cut = self.longest_cut.max(other.longest_cut);
        self.resumed += other.resumed;
    }
}

/// A packet in transit or in the device.
#[derive(Debug, Clone, Copy)]
struct Sound {
    sent: Duration,
    sentence: Option<Sentence>,
}

/// An interruption by abort, until the next `tts start`.
#[derive(Debug, Clone, Copy, Default)]
struct Abort {
    at: Duration,
    /// Time at which it reached the server.
    known: Option<Duration>,
    /// Time at which `tts stop` reached the device.
    stopped: Option<Duration>,
    /// The talk button was pressed while the device was idle. Firmware sends no abort, and no
    /// response is needed, but the next reply of the server is cancelled.
    tacit: bool,
}

/// State of the server's output on this connection.
#[derive(Debug, Default)]
struct Spoken {
    speaking: bool,
    started: Duration,
    /// The last sentence that started, and whether it has ended.
    sentence: Option<Sentence>,
    any: bool,
    /// A sentence that is repeated after a pause, until its audio arrives.
    again: Option<Sentence>,
    /// Answers up to this one were interrupted.
    stale: u32,
}

/// Checks one household.
#[derive(Debug)]
pub(crate) struct Judge {
    world: WorldRef,
    pub(crate) counts: Counts,
    pub(crate) faults: Vec<String>,
    pub(crate) timeline: Option<Vec<String>>,
    spoken: Spoken,
    /// Packets in the device, oldest first.
    waiting: VecDeque<Sound>,
    /// The packet being handed to the device.
    arriving: Sound,
    fresh: bool,
    /// The sentence that the device has announced.
    announced: Option<Sentence>,
    playing: Option<Sentence>,
    abort: Option<Abort>,
    /// Time at which the person's voice was last sent.
    pub(crate) voiced: Option<Duration>,
    /// The same for any sound, including coughs, which may pause a reply.
    pub(crate) sounded: Option<Duration>,
    /// Time at which the server first received the voice that is to end a reply.
    voice_known: Option<Duration>,
    pub(crate) last_heard_of: Duration,
}

/// A reference to the world, without `Debug` output.
struct WorldRef(Shared);

impl std::fmt::Debug for WorldRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl Judge {
    pub(crate) fn new(world: &Shared, timeline: bool) -> Self {
        Self {
            world: WorldRef(Shared::clone(world)),
            counts: Counts::default(),
            faults: Vec::new(),
            timeline: timeline.then(Vec::new),
            spoken: Spoken::default(),
            waiting: VecDeque::new(),
            arriving: Sound { sent: Duration::ZERO, sentence: None },
            fresh: false,
            announced: None,
            playing: None,
            abort: None,
            voiced: None,
            sounded: None,
            voice_known: None,
            last_heard_of: Duration::ZERO,
        }
    }

    pub(crate) fn fault(&mut self, at: Duration, what: impl AsRef<str>) {
        let what = what.as_ref();
        self.note(at, || format!("FAULT: {what}"));
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(format!("{:.3} s: {what}", at.as_secs_f64()));
        }
    }

    /// Adds a line to the timeline.
    pub(crate) fn note(&mut self, at: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.timeline {
            lines.push(format!("{:10.3} {}", at.as_secs_f64(), line()));
        }
    }

    /// There is a new connection.
    pub(crate) fn connected(&mut self) {
        self.spoken = Spoken::default();
        self.abort = None;
        self.voice_known = None;
    }

    /// An abort has reached the server.
    pub(crate) fn abort_known(&mut self, at: Duration) {
        self.spoken.stale = lock(&self.world.0).answers();
        self.note(at, || "server: receives the abort".into());
        if let Some(abort) = &mut self.abort {
            abort.known.get_or_insert(at);
        }
    }

    /// The person's voice has reached the server, which may have ended its reply meanwhile.
    pub(crate) fn voice_known(&mut self, at: Duration) {
        if self.spoken.speaking {
            self.voice_known.get_or_insert(at);
        }
    }

    /// The talk button is pressed while the server may be about to speak.
    pub(crate) fn interrupted_tacitly(&mut self, at: Duration) {
        self.abort = Some(Abort { at, tacit: true, ..Abort::default() });
    }

    fn spoke_lately(&self, at: Duration) -> bool {
        self.spoke_within(VOICE_REACHES, at)
    }

    fn spoke_within(&self, time: Duration, at: Duration) -> bool {
        self.voiced.is_some_and(|v| at.saturating_sub(v) <= time)
    }

    /// A sentence starts that was announced before: the reply continues after a pause.
    fn begins_again(&mut self, at: Duration, sentence: Sentence) {
        if self.sounded.is_none_or(|sounded| sounded < self.spoken.started) {
            self.fault(at, format!("{sentence:?} is repeated without a reason"));
        }
        self.counts.resumed += 1;
        self.spoken.again = Some(sentence);
    }

    /// The server sends a frame.
    pub(crate) fn server_sends(&mut self, at: Duration, frame: Option<&Frame>) {
        match frame {
            Some(Frame::Text(text)) => {
                self.last_heard_of = at;
                self.server_says(at, text);
            }
            Some(Frame::Binary(_)) => {
                self.last_heard_of = at;
                self.server_sounds(at);
            }
            Some(Frame::Close(reason)) => {
                self.note(at, || format!("server: closes: {reason:?}"));
            }
            None => self.note(at, || "server: disconnects".into()),
            Some(_) => {}
        }
    }

    fn server_says(&mut self, at: Duration, text: &[u8]) {
        let Ok(json) = serde_json::from_slice::<serde_json::Value>(text) else {
            return self.fault(at, "the server sent invalid JSON");
        };
        self.note(at, || format!("server: {json}"));
        let words = json["text"].as_str().unwrap_or_default();
        match (json["type"].as_str(), json["state"].as_str()) {
            (Some("tts"), Some("start")) => {
                self.spoken.speaking = true;
                (self.spoken.started, self.spoken.any) = (at, false);
                (self.spoken.sentence, self.voice_known) = (None, None);
            }
            (Some("tts"), Some("sentence_start")) => {
                let sentence = Sentence::of(words);
                if !self.spoken.speaking {
                    self.fault(at, format!("a sentence outside a reply: {words}"));
                }
                if sentence.is_some_and(|s| s.answer <= self.spoken.stale) {
                    self.fault(at, format!("a sentence of a reply that was interrupted: {words}"));
                }
                if let Some(again) = sentence.filter(|_| sentence == self.spoken.sentence) {
                    self.begins_again(at, again);
                }
                self.voice_known = None;
                self.spoken.any = true;
                self.spoken.sentence = sentence.or(self.spoken.sentence);
                self.announced = sentence;
            }
            (Some("tts"), Some("stop")) => self.server_stops(at),
            _ => {}
        }
    }

    fn server_stops(&mut self, at: Duration) {
        let last = self.spoken.sentence;
        let spoken = std::mem::take(&mut self.spoken.speaking);
        self.voice_known = None;
        if self.abort.is_some_and(|a| a.known.is_some()) {
            return;
        }
        if self.spoke_within(WORDS_REACH, at) {
            self.spoken.stale = last.map_or(self.spoken.stale, |s| s.answer);
            return;
        }
        let whole = last.is_none_or(|last| lock(&self.world.0).may_end_with(last));
        if spoken && !whole {
            self.fault(at, format!("a reply is cut without a reason after {last:?}"));
        }
        if spoken && !self.spoken.any {
            self.fault(at, "a reply without a sentence");
        }
    }

    fn server_sounds(&mut self, at: Duration) {
        self.counts.packets += 1;
        if !self.spoken.speaking {
            self.fault(at, "sound outside a reply");
        } else if at.saturating_sub(self.spoken.started) < START_TO_SOUND {
            self.fault(at, "sound too soon after `tts start`");
        }
        if let Some(known) = self.voice_known.filter(|_| self.spoke_within(SPEAKS_NOW, at)) {
            let cut = at.saturating_sub(known);
            self.counts.longest_cut = self.counts.longest_cut.max(cut);
            if cut > PAUSES_WITHIN {
                self.fault(at, "a reply continues over a person who speaks");
            }
        }
        if self.abort.is_some_and(|a| a.known.is_some_and(|known| at > known))
            && self.spoken.sentence.is_some_and(|s| s.answer <= self.spoken.stale)
        {
            self.fault(at, "sound of a reply that was interrupted");
        }
    }

    /// The device is about to receive a packet that the server sent at this time.
    pub(crate) fn arriving(&mut self, sent: Duration, sentence: Option<Sentence>) {
        self.arriving = Sound { sent, sentence };
    }

    /// The device has processed it.
    pub(crate) fn arrived(&mut self) {
        self.fresh = false;
    }

    /// The sentence of the server's current output.
    pub(crate) fn sentence(&self) -> Option<Sentence> {
        self.announced
    }

    fn lost(&mut self, at: Duration, loss: Loss) {
        let arriving = std::mem::take(&mut self.fresh);
        let sound = if arriving { self.waiting.pop_back() } else { self.waiting.pop_front() };
        let Some(sound) = sound else { return };
        // Packets from before the server could know, and those that the device had to hold back.
        let unknowing = |a: &Abort| a.known.is_none_or(|known| sound.sent <= known);
        let excused = match loss {
            Loss::SocketClosed => true,
            Loss::NotSpeaking | Loss::Interrupted | Loss::ClearedAtStart => {
                self.abort.as_ref().is_some_and(unknowing)
            }
            Loss::TailCut => self.spoke_lately(at) || self.abort.as_ref().is_some_and(unknowing),
            Loss::QueueFull | Loss::TooLong | Loss::Malformed => false,
        };
        if !excused {
            self.fault(at, format!("a packet is lost: {}", loss_name(loss)));
        }
        // The server is not notified that it was not played.
        lock(&self.world.0).sounded.extend(sound.sentence.filter(|_| excused));
    }

    fn noticed(&mut self, at: Duration, fact: &Fact) {
        match fact {
            Fact::PacketReceived => {
                self.waiting.push_back(self.arriving);
                self.fresh = true;
            }
            Fact::PacketLost(loss) => self.lost(at, *loss),
            Fact::PacketCut { loss: Loss::TailCut, .. }
                if !self.spoke_lately(at) && self.abort.is_none() =>
            {
                self.fault(at, "the tail of a reply is cut");
            }
            Fact::PacketPlayed { .. } => {
                self.playing = self.waiting.pop_front().and_then(|s| s.sentence);
                if let Some(sentence) = self.playing {
                    lock(&self.world.0).sounded.insert(sentence);
                }
            }
            Fact::Gap { length } => self.gap(at, *length),
            Fact::Aborted => {
                self.counts.interruptions += 1;
                self.abort = Some(Abort { at, ..Abort::default() });
            }
            Fact::Message { kind, .. } if kind == "tts start" => {
                // A packet in transit is cut as well.
                let sent = self.arriving.sent;
                self.abort = self.abort.filter(|a| a.known.is_none_or(|known| sent <= known));
            }
            Fact::Message { kind, .. } if kind == "tts stop" => self.told_to_stop(at),
            Fact::HelloMissing => self.fault(at, "no hello was received"),
            Fact::UplinkDropped => self.fault(at, "the device could not send"),
            Fact::Offence(offence) => {
                self.fault(at, format!("breaks the firmware's rules: {offence}"))
            }
            _ => {}
        }
    }

    fn told_to_stop(&mut self, at: Duration) {
        self.counts.replies += 1;
        if let Some(abort) = &mut self.abort {
            let took = at - abort.at;
            self.counts.longest_stop = self.counts.longest_stop.max(took);
            abort.stopped.get_or_insert(at);
        }
    }

    /// Playback ran empty; the packet that arrives ends the silence.
    fn gap(&mut self, at: Duration, length: Duration) {
        let Some(sentence) = self.arriving.sentence.filter(|s| self.playing == Some(*s)) else {
            return;
        };
        if self.spoken.again.take() == Some(sentence) {
            return;
        }
        if !lock(&self.world.0).is_troubled(sentence) {
            self.fault(at, format!("a silence of {length:?} within {sentence:?}"));
        }
    }

    /// Time since an abort that has no response yet.
    pub(crate) fn unanswered_abort(&self, now: Duration) -> Option<Duration> {
        let abort = self.abort.filter(|a| a.stopped.is_none() && !a.tacit)?;
        Some(now.saturating_sub(abort.at))
    }

    /// The abort needs no response any more, or was already reported.
    pub(crate) fn forgive_abort(&mut self) {
        self.abort = None;
    }
}

impl Observer for Judge {
    fn observe(&mut self, at: Duration, what: Observation) {
        match &what {
            Observation::Sent(text) => self.note(at, || format!("device: {text}")),
            Observation::SpokenOver => {
                self.counts.interruptions += 1;
                self.note(at, || "person: speaks over the reply".into());
            }
            Observation::SentAudio => {}
            Observation::Noticed(fact) => {
                match fact {
                    Fact::PacketReceived | Fact::PacketPlayed { .. } | Fact::Message { .. } => {}
                    fact => self.note(at, || format!("device: {fact:?}")),
                }
                self.noticed(at, fact);
            }
        }
    }
}
