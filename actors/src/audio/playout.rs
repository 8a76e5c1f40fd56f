//! What the device is playing now, reckoned from what was sent and when: the clock that paces
//! packets, and the measure of what a person has heard. Not for sending anything.
//!
//! The device plays packets back to back; one that comes after the buffer ran dry starts at once.
//! Times are on one absolute clock, so that errors of single sleeps do not add up.

use std::time::Duration;

/// The device's playback of one turn.
#[derive(Debug, Clone)]
pub struct Playout {
    packet: Duration,
    lead: u32,
    /// When everything sent so far will have been played.
    end: Duration,
    sentences: Vec<Span>,
}

/// When the audio of one sentence plays.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: Duration,
    end: Duration,
    played_before_gap: Duration,
    complete: bool,
}

/// How much of a turn was heard.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Heard {
    /// This many sentences from the first on, wholly.
    pub whole: usize,
    /// How much audio of the next one was heard.
    pub partial: Duration,
    /// How long that next one is, where all of it was sent.
    pub partial_of: Option<Duration>,
}

impl Heard {
    /// All of it, as everything counts that was written.
    pub const ALL: Self = Self { whole: usize::MAX, partial: Duration::ZERO, partial_of: None };
}

impl Playout {
    /// A silent device. At most `lead` packets are sent ahead of the clock, each `packet` long.
    pub fn new(packet: Duration, lead: u32) -> Self {
        Self { packet, lead: lead.max(1), end: Duration::ZERO, sentences: Vec::new() }
    }

    /// When the next packet may be sent so that, with it, at most `lead` packets wait; not before
    /// `now`.
    pub fn due(&self, now: Duration) -> Duration {
        self.end.saturating_sub(self.packet * (self.lead - 1)).max(now)
    }

    /// When everything sent so far will have been played; never before `now`.
    pub fn end(&self, now: Duration) -> Duration {
        self.end.max(now)
    }

    /// The next sentence's packets follow.
    pub fn sentence_started(&mut self, now: Duration) {
        let start = self.end(now);
        let played_before_gap = Duration::ZERO;
        self.sentences.push(Span { start, end: start, played_before_gap, complete: false });
    }

    /// All packets of the sentence were sent.
    pub fn sentence_complete(&mut self) {
        if let Some(span) = self.sentences.last_mut() {
            span.complete = true;
        }
    }

    /// Packets of a sentence were sent, and more of them are to come.
    pub fn is_within_sentence(&self) -> bool {
        self.sentences
            .last()
            .is_some_and(|s| !s.complete && (s.end > s.start || !s.played_before_gap.is_zero()))
    }

    /// A packet was sent. True where it came too late: the device had fallen silent within a
    /// sentence.
    pub fn sent(&mut self, now: Duration) -> bool {
        let start = self.end(now);
        let gap = start > self.end;
        self.end = start + self.packet;
        let Some(span) = self.sentences.last_mut() else { return false };
        let fresh = span.end == span.start && span.played_before_gap.is_zero();
        if gap && !fresh {
            span.played_before_gap += span.end - span.start;
        }
        if gap || fresh {
            span.start = start;
        }
        span.end = self.end;
        gap && !fresh
    }

    /// How much has been heard by now.
    pub fn heard(&self, now: Duration) -> Heard {
        let whole = self.sentences.iter().take_while(|s| s.complete && s.end <= now).count();
        let Some(span) = self.sentences.get(whole) else {
            return Heard { whole, ..Heard::default() };
        };
        let played = now.min(span.end).saturating_sub(span.start);
        let total = span.played_before_gap + (span.end - span.start);
        Heard {
            whole,
            partial: span.played_before_gap + played,
            partial_of: span.complete.then_some(total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const PACKET: Duration = Duration::from_millis(60);

    /// Sends `count` packets as soon as each is due and returns the times of sending.
    fn send(playout: &mut Playout, from: Duration, count: usize) -> Vec<u128> {
        let mut now = from;
        (0..count)
            .map(|_| {
                now = playout.due(now);
                playout.sent(now);
                now.as_millis()
            })
            .collect()
    }

    #[test]
    fn three_packets_at_once_then_one_each_sixty_milliseconds() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        assert_eq!(send(&mut playout, Duration::ZERO, 6), [0, 0, 0, 60, 120, 180]);
        assert_eq!(playout.end(Duration::ZERO), 360 * MS);
    }

    #[test]
    fn after_a_stall_the_clock_starts_anew_without_a_burst_beyond_the_lead() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        send(&mut playout, Duration::ZERO, 3);
        assert!(playout.sent(1_000 * MS), "the device had run dry");
        assert_eq!(send(&mut playout, 1_000 * MS, 4), [1_000, 1_000, 1_060, 1_120]);
    }

    #[test]
    fn what_was_heard_is_counted_in_sentences_and_a_part() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        send(&mut playout, Duration::ZERO, 5);
        playout.sentence_complete();
        playout.sentence_started(120 * MS);
        send(&mut playout, 180 * MS, 2);
        let heard = |at: u32| playout.heard(at * MS);
        assert_eq!(heard(90), Heard { whole: 0, partial: 90 * MS, partial_of: Some(300 * MS) });
        assert_eq!(heard(330), Heard { whole: 1, partial: 30 * MS, partial_of: None });
        assert_eq!(heard(999), Heard { whole: 1, partial: 120 * MS, partial_of: None });
    }

    #[test]
    fn a_gap_within_a_sentence_is_not_counted_as_heard() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        assert!(!playout.sent(Duration::ZERO));
        assert!(playout.sent(500 * MS));
        assert_eq!(playout.heard(530 * MS).partial, 90 * MS);
    }

    proptest! {
        #[test]
        fn the_lead_is_never_exceeded(steps in prop::collection::vec(0u64..400, 1..100), lead in 1u32..6) {
            let mut playout = Playout::new(PACKET, lead);
            let mut now = Duration::ZERO;
            for step in steps {
                now = playout.due(now + Duration::from_millis(step));
                playout.sent(now);
                prop_assert!(playout.end(now) - now <= PACKET * lead);
            }
        }
    }
}
