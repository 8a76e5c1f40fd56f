//! Who watches a virtual device: everything kept ([`super::report::Report`]), or only counted, for
//! runs of many hours. Not for judging.

use std::collections::BTreeMap;
use std::time::Duration;

use super::events::{Fact, Loss, State};

/// A thing that was seen.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The device sent this text frame.
    Sent(String),
    /// The device sent a packet of the microphone.
    SentAudio,
    /// The person interrupted by speaking; [`Fact::Aborted`] tells of other interruptions.
    SpokenOver,
    /// The device noticed something.
    Noticed(Fact),
}

/// Takes what is seen of one device. Times are the caller's, and come a little out of order:
/// playback is found a little after it was so.
pub trait Observer {
    /// One thing and when it was so.
    fn saw(&mut self, at: Duration, what: What);
}

/// Counts of packets.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Packets {
    /// From the microphone.
    pub sent: usize,
    /// From the microphone, never sent: the send queue was full.
    pub unsent: usize,
    /// From the server.
    pub received: usize,
    /// Begun to play.
    pub played: usize,
    /// Came when the loudspeaker had already run dry.
    pub late: usize,
    /// Cut while they played.
    pub cut: usize,
    /// Never played, by reason.
    pub lost: BTreeMap<&'static str, usize>,
}

impl Packets {
    /// Counts one thing.
    pub fn count(&mut self, what: &What) {
        match what {
            What::SentAudio => self.sent += 1,
            What::Noticed(fact) => match fact {
                Fact::UplinkDropped => self.unsent += 1,
                Fact::PacketReceived => self.received += 1,
                Fact::PacketPlayed { .. } => self.played += 1,
                Fact::Gap { .. } => self.late += 1,
                Fact::PacketCut { .. } => self.cut += 1,
                Fact::PacketLost(loss) => *self.lost.entry(loss_name(*loss)).or_default() += 1,
                _ => {}
            },
            What::Sent(_) | What::SpokenOver => {}
        }
    }
}

/// The reason in plain words.
pub fn loss_name(loss: Loss) -> &'static str {
    match loss {
        Loss::NotSpeaking => "not speaking",
        Loss::QueueFull => "queue full",
        Loss::ClearedAtStart => "cleared by tts start",
        Loss::TailCut => "cut by tts stop",
        Loss::Interrupted => "interrupted",
        Loss::TooLong => "longer than announced",
        Loss::Malformed => "malformed",
        Loss::SocketClosed => "socket closed",
    }
}

/// What came of one interruption, until the next `tts start`, the next interruption or the end of
/// the conversation. What was on its way when the person interrupted is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Aftermath {
    /// When the person interrupted, on the caller's clock.
    pub at: Duration,
    /// Packets that came after it and before `tts stop`.
    pub packets: usize,
    /// From the interruption to the last packet of all.
    pub last_packet: Option<Duration>,
    /// Sentences announced after it.
    pub sentences: usize,
    /// From the interruption to `tts stop`.
    pub stop: Option<Duration>,
    /// Packets after that `tts stop`: stale, however they came to be.
    pub packets_after_stop: usize,
}

/// Follows one interruption after the other.
#[derive(Debug, Clone, Default)]
pub struct Aftermaths {
    open: Option<Aftermath>,
}

impl Aftermaths {
    /// Takes the next thing, and gives the interruption that is over with it.
    pub fn saw(&mut self, at: Duration, what: &What) -> Option<Aftermath> {
        let fact = match what {
            What::SpokenOver => &Fact::Aborted,
            What::Noticed(fact) => fact,
            What::Sent(_) | What::SentAudio => return None,
        };
        if *fact == Fact::Aborted {
            return self.open.replace(Aftermath { at, ..Aftermath::default() });
        }
        let open = self.open.as_mut()?;
        let since = at.saturating_sub(open.at);
        match fact {
            // Hung up. In manual mode the device is idle after `tts stop` too.
            Fact::State(State::Idle) if open.stop.is_none() => return self.open.take(),
            Fact::PacketReceived => {
                open.last_packet = Some(since);
                let stopped = open.stop.is_some();
                let packets =
                    if stopped { &mut open.packets_after_stop } else { &mut open.packets };
                *packets += 1;
            }
            Fact::Message { kind, .. } => match kind.as_str() {
                "tts start" => return self.open.take(),
                "tts stop" => open.stop = open.stop.or(Some(since)),
                "tts sentence_start" => open.sentences += 1,
                _ => {}
            },
            _ => {}
        }
        None
    }

    /// The interruption that is not over.
    pub fn end(self) -> Option<Aftermath> {
        self.open
    }
}

/// Kinds of messages and of offences that are told apart; more count as one.
const MOST_KINDS: usize = 64;

/// Counts instead of keeping: as large after a thousand hours as after one.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Counts of packets.
    pub packets: Packets,
    /// Packets lost or cut because `tts stop` came too early.
    pub tails_cut: usize,
    /// Silences inside speech, in all.
    pub silent: Duration,
    /// The longest silence inside speech.
    pub longest_gap: Duration,
    /// How long packets played, cut ones whole.
    pub played: Duration,
    /// Messages from the server by kind (`stt`, `tts start`).
    pub messages: BTreeMap<String, usize>,
    /// Messages that would have crashed or confused firmware.
    pub offences: BTreeMap<&'static str, usize>,
    /// Interruptions by abort or by speaking.
    pub interruptions: usize,
    /// The longest from an interruption to its `tts stop`.
    pub slowest_stop: Duration,
    /// The longest from an interruption to the last packet after it.
    pub latest_packet: Duration,
    /// Packets after the `tts stop` of an interruption.
    pub stale_packets: usize,
    /// Interruptions without a `tts stop`.
    pub unanswered: usize,
    aftermaths: Aftermaths,
}

impl Observer for Tally {
    fn saw(&mut self, at: Duration, what: What) {
        self.packets.count(&what);
        if let Some(over) = self.aftermaths.saw(at, &what) {
            self.close(&over);
        }
        match what {
            What::SpokenOver | What::Noticed(Fact::Aborted) => self.interruptions += 1,
            What::Noticed(Fact::PacketLost(Loss::TailCut)) => self.tails_cut += 1,
            What::Noticed(Fact::PacketCut { loss: Loss::TailCut, .. }) => self.tails_cut += 1,
            What::Noticed(Fact::PacketPlayed { length, .. }) => self.played += length,
            What::Noticed(Fact::Gap { length }) => {
                self.silent += length;
                self.longest_gap = self.longest_gap.max(length);
            }
            What::Noticed(Fact::Message { kind, .. }) => self.message(kind),
            What::Noticed(Fact::Offence(offence)) => {
                *self.offences.entry(offence).or_default() += 1;
            }
            What::Sent(_) | What::SentAudio | What::Noticed(_) => {}
        }
    }
}

impl Tally {
    /// Counts the interruption that is not over, too; to be called once, at the end.
    pub fn finish(&mut self) {
        if let Some(open) = std::mem::take(&mut self.aftermaths).end() {
            self.close(&open);
        }
    }

    fn close(&mut self, over: &Aftermath) {
        match over.stop {
            Some(stop) => self.slowest_stop = self.slowest_stop.max(stop),
            None => self.unanswered += 1,
        }
        self.latest_packet = self.latest_packet.max(over.last_packet.unwrap_or_default());
        self.stale_packets += over.packets_after_stop;
    }

    fn message(&mut self, kind: String) {
        if let Some(count) = self.messages.get_mut(&kind) {
            *count += 1;
        } else {
            let known = self.messages.len() < MOST_KINDS;
            let kind = if known { kind } else { "others".to_owned() };
            *self.messages.entry(kind).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::*;

    fn message(kind: &str) -> What {
        What::Noticed(Fact::Message { kind: kind.into(), text: None })
    }

    #[test]
    fn what_follows_an_interruption_is_told_until_the_next_reply() {
        let received = || What::Noticed(Fact::PacketReceived);
        let aborted = || What::Noticed(Fact::Aborted);
        let seen = [
            (0, received()),
            (100, aborted()),
            (160, received()),
            (170, message("tts sentence_start")),
            (200, message("tts stop")),
            (260, received()),
            (300, message("tts start")),
            (320, received()),
            (400, What::SpokenOver),
            (430, message("stt")),
            (500, aborted()),
            (510, What::Noticed(Fact::State(State::Idle))),
        ];
        let (mut report, mut tally) = (Report::default(), Tally::default());
        for (ms, what) in seen {
            report.saw(Duration::from_millis(ms), what.clone());
            tally.saw(Duration::from_millis(ms), what);
        }
        tally.finish();
        let ms = Duration::from_millis;
        let first = Aftermath {
            at: ms(100),
            packets: 1,
            last_packet: Some(ms(160)),
            sentences: 1,
            stop: Some(ms(100)),
            packets_after_stop: 1,
        };
        let nothing = |at| Aftermath { at: ms(at), ..Aftermath::default() };
        assert_eq!(report.interruptions(), [first, nothing(400), nothing(500)]);
        assert_eq!((tally.interruptions, tally.unanswered, tally.stale_packets), (3, 2, 1));
        assert_eq!((tally.slowest_stop, tally.latest_packet), (ms(100), ms(160)));
        assert_eq!(tally.packets, report.packets());
    }

    #[test]
    fn a_tally_does_not_grow() {
        let mut tally = Tally::default();
        for n in 0..10_000 {
            tally.saw(Duration::from_secs(n), message(&format!("kind {n}")));
            tally.saw(Duration::from_secs(n), What::SpokenOver);
        }
        assert_eq!(tally.messages.len(), MOST_KINDS + 1);
        assert_eq!(tally.messages.values().sum::<usize>(), 10_000);
    }
}
