//! Observers of a virtual device: one that stores everything is [`super::report::Report`], one that
//! only counts is here, for runs of many hours. Not for judging.

use std::collections::BTreeMap;
use std::time::Duration;

use super::events::{DeviceState, Fact, Loss};

/// Observation.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// The device sent this text frame.
    Sent(String),
    /// The device sent a packet of the microphone.
    SentAudio,
    /// The person interrupted by speaking; [`Fact::Aborted`] is any other interruption.
    SpokenOver,
    /// A fact noted by the device.
    Noticed(Fact),
}

/// Receiver of the observations of one device. Times are the caller's, and slightly out of order:
/// playback is noticed shortly after it happened.
pub trait Observer {
    /// Receives one observation with its time.
    fn observe(&mut self, at: Duration, what: Observation);
}

/// Counts of packets.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Packets {
    /// Number of packets sent from the microphone.
    pub sent: usize,
    /// Number of microphone packets that were not sent: the send queue was full.
    pub unsent: usize,
    /// Number of packets received from the server.
    pub received: usize,
    /// Number of packets whose playback started.
    pub played: usize,
    /// Number of packets received after the queue had run empty.
    pub late: usize,
    /// Number of packets cut during playback.
    pub cut: usize,
    /// Number of packets that were never played, by reason.
    pub lost: BTreeMap<&'static str, usize>,
}

impl Packets {
    /// Counts one observation.
    pub fn count(&mut self, what: &Observation) {
        match what {
            Observation::SentAudio => self.sent += 1,
            Observation::Noticed(fact) => match fact {
                Fact::UplinkDropped => self.unsent += 1,
                Fact::PacketReceived => self.received += 1,
                Fact::PacketPlayed { .. } => self.played += 1,
                Fact::Gap { .. } => self.late += 1,
                Fact::PacketCut { .. } => self.cut += 1,
                Fact::PacketLost(loss) => *self.lost.entry(loss_name(*loss)).or_default() += 1,
                _ => {}
            },
            Observation::Sent(_) | Observation::SpokenOver => {}
        }
    }
}

/// Returns the reason as text.
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

/// Consequences of one interruption, until the next `tts start`, the next interruption or the end
/// of the conversation. Includes everything that was in transit at the interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct InterruptionEffects {
    /// Time of the interruption, on the caller's clock.
    pub at: Duration,
    /// Number of packets received between it and `tts stop`.
    pub packets: usize,
    /// Time from the interruption to the last packet.
    pub last_packet: Option<Duration>,
    /// Number of sentences announced after it.
    pub sentences: usize,
    /// Time from the interruption to `tts stop`.
    pub stop: Option<Duration>,
    /// Number of packets received after that `tts stop`, which are stale.
    pub packets_after_stop: usize,
}

/// Tracker of the consequences of interruptions, one at a time.
#[derive(Debug, Clone, Default)]
pub struct InterruptionTracker {
    open: Option<InterruptionEffects>,
}

impl InterruptionTracker {
    /// Processes an observation, and returns the interruption that it completes.
    pub fn observe(&mut self, at: Duration, what: &Observation) -> Option<InterruptionEffects> {
        let fact = match what {
            Observation::SpokenOver => &Fact::Aborted,
            Observation::Noticed(fact) => fact,
            Observation::Sent(_) | Observation::SentAudio => return None,
        };
        if *fact == Fact::Aborted {
            return self.open.replace(InterruptionEffects { at, ..InterruptionEffects::default() });
        }
        let open = self.open.as_mut()?;
        let since = at.saturating_sub(open.at);
        match fact {
            // Disconnected. In manual mode the device is also idle after `tts stop`.
            Fact::State(DeviceState::Idle) if open.stop.is_none() => return self.open.take(),
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

    /// Returns the interruption that is not complete.
    pub fn end(self) -> Option<InterruptionEffects> {
        self.open
    }
}

/// Maximum number of kinds of messages and of offences that are counted separately; further ones
/// are counted together.
const MOST_KINDS: usize = 64;

/// Counters of observations: of constant size for any length of the run.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Counts of packets.
    pub packets: Packets,
    /// Number of packets lost or cut because `tts stop` came too early.
    pub tails_cut: usize,
    /// Total length of silences inside speech.
    pub silent: Duration,
    /// Longest silence inside speech.
    pub longest_gap: Duration,
    /// Total playback time of packets, including the unplayed parts of cut ones.
    pub played: Duration,
    /// Number of messages from the server, by kind (`stt`, `tts start`).
    pub messages: BTreeMap<String, usize>,
    /// Number of messages that would have crashed or confused firmware.
    pub offences: BTreeMap<&'static str, usize>,
    /// Number of interruptions, by abort or by speaking.
    pub interruptions: usize,
    /// Longest time from an interruption to its `tts stop`.
    pub slowest_stop: Duration,
    /// Longest time from an interruption to the last packet after it.
    pub latest_packet: Duration,
    /// Number of packets after the `tts stop` of an interruption.
    pub stale_packets: usize,
    /// Number of interruptions without a `tts stop`.
    pub unanswered: usize,
    aftermaths: InterruptionTracker,
}

impl Observer for Tally {
    fn observe(&mut self, at: Duration, what: Observation) {
        self.packets.count(&what);
        if let Some(over) = self.aftermaths.observe(at, &what) {
            self.close(&over);
        }
        match what {
            Observation::SpokenOver | Observation::Noticed(Fact::Aborted) => {
                self.interruptions += 1
            }
            Observation::Noticed(Fact::PacketLost(Loss::TailCut)) => self.tails_cut += 1,
            Observation::Noticed(Fact::PacketCut { loss: Loss::TailCut, .. }) => {
                self.tails_cut += 1
            }
            Observation::Noticed(Fact::PacketPlayed { length, .. }) => self.played += length,
            Observation::Noticed(Fact::Gap { length }) => {
                self.silent += length;
                self.longest_gap = self.longest_gap.max(length);
            }
            Observation::Noticed(Fact::Message { kind, .. }) => self.message(kind),
            Observation::Noticed(Fact::Offence(offence)) => {
                *self.offences.entry(offence).or_default() += 1;
            }
            Observation::Sent(_) | Observation::SentAudio | Observation::Noticed(_) => {}
        }
    }
}

impl Tally {
    /// Counts the incomplete interruption too. Call it once, at the end.
    pub fn finish(&mut self) {
        if let Some(open) = std::mem::take(&mut self.aftermaths).end() {
            self.close(&open);
        }
    }

    fn close(&mut self, over: &InterruptionEffects) {
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

    fn message(kind: &str) -> Observation {
        Observation::Noticed(Fact::Message { kind: kind.into(), text: None })
    }

    #[test]
    fn effects_of_an_interruption_are_tracked_until_the_next_reply() {
        let received = || Observation::Noticed(Fact::PacketReceived);
        let aborted = || Observation::Noticed(Fact::Aborted);
        let seen = [
            (0, received()),
            (100, aborted()),
            (160, received()),
            (170, message("tts sentence_start")),
            (200, message("tts stop")),
            (260, received()),
            (300, message("tts start")),
            (320, received()),
            (400, Observation::SpokenOver),
            (430, message("stt")),
            (500, aborted()),
            (510, Observation::Noticed(Fact::State(DeviceState::Idle))),
        ];
        let mut report = Report::default();
        let mut tally = Tally::default();
        for (ms, what) in seen {
            report.observe(Duration::from_millis(ms), what.clone());
            tally.observe(Duration::from_millis(ms), what);
        }
        tally.finish();
        let ms = Duration::from_millis;
        let first = InterruptionEffects {
            at: ms(100),
            packets: 1,
            last_packet: Some(ms(160)),
            sentences: 1,
            stop: Some(ms(100)),
            packets_after_stop: 1,
        };
        let nothing = |at| InterruptionEffects { at: ms(at), ..InterruptionEffects::default() };
        assert_eq!(report.interruptions(), [first, nothing(400), nothing(500)]);
        assert_eq!((tally.interruptions, tally.unanswered, tally.stale_packets), (3, 2, 1));
        assert_eq!((tally.slowest_stop, tally.latest_packet), (ms(100), ms(160)));
        assert_eq!(tally.packets, report.packets());
    }

    #[test]
    fn a_tally_does_not_grow() {
        let mut tally = Tally::default();
        for n in 0..10_000 {
            tally.observe(Duration::from_secs(n), message(&format!("kind {n}")));
            tally.observe(Duration::from_secs(n), Observation::SpokenOver);
        }
        assert_eq!(tally.messages.len(), MOST_KINDS + 1);
        assert_eq!(tally.messages.values().sum::<usize>(), 10_000);
    }
}
