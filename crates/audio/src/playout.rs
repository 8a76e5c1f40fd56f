//! Model of the device's playback, calculated from the packets sent and their times: the playback
//! clock that paces packets, and the measure of how much a person has heard. Not for sending
//! anything.
//!
//! The device plays packets back to back; one that arrives after the buffer ran dry plays at once.
//! Times are on one absolute clock, so that errors of single sleeps do not add up.

use std::time::Duration;

/// Playback clock of one turn on its device.
// One clock gives the burst, the pace, stalls, `tts stop` and what was heard; timers for packets do not. Decision 0011.
#[derive(Debug, Clone)]
pub struct Playout {
    packet: Duration,
    lead: u32,
    /// Time at which everything sent so far will have been played.
    end: Duration,
    sentences: Vec<Span>,
    /// Number of sentences that count as part of the answer; all if `None`.
    counted: Option<usize>,
    /// Played length of the sentence that will be sent again.
    again: Duration,
}

/// Playback time of one sentence's audio.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: Duration,
    end: Duration,
    played_before_gap: Duration,
    /// Played length from the first time that it was sent.
    again: Duration,
    complete: bool,
    broken: bool,
}

/// Part of a turn that was played.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlayedBack {
    /// Number of sentences played from the first on: completely, except those in `broken`.
    pub whole: usize,
    /// Indexes of these sentences that broke off, each with the played length of its audio.
    pub broken: Vec<(usize, Duration)>,
    /// Played length of the next sentence's audio.
    pub partial: Duration,
    /// Full length of that next sentence, if all of it was sent.
    pub partial_of: Option<Duration>,
}

impl PlayedBack {
    /// Everything, for text output, which counts as heard when it is written.
    pub const ALL: Self =
        Self { whole: usize::MAX, broken: Vec::new(), partial: Duration::ZERO, partial_of: None };

    /// Returns true if all of these sentences were played completely.
    pub fn has_all(&self, sentences: usize) -> bool {
        self.whole >= sentences && self.broken.is_empty()
    }
}

impl Playout {
    /// Creates the clock of a silent device. At most `lead` packets are sent ahead of the clock,
    /// each `packet` long.
    pub fn new(packet: Duration, lead: u32) -> Self {
        Self {
            packet,
            lead: lead.max(1),
            end: Duration::ZERO,
            sentences: Vec::new(),
            counted: None,
            again: Duration::ZERO,
        }
    }

    /// Returns the length of a packet.
    pub fn packet(&self) -> Duration {
        self.packet
    }

    /// Returns the time at which the next packet may be sent so that the device has at most `lead`
    /// packets including it; never before `now`.
    pub fn due(&self, now: Duration) -> Duration {
        self.end.saturating_sub(self.packet * (self.lead - 1)).max(now)
    }

    /// Returns the time at which everything sent so far will have been played; never before `now`.
    pub fn end(&self, now: Duration) -> Duration {
        self.end.max(now)
    }

    /// Records that the next sentence starts and its packets follow.
    pub fn sentence_started(&mut self, now: Duration) {
        let start = self.end(now);
        let played_before_gap = Duration::ZERO;
        let again = std::mem::take(&mut self.again);
        let complete = false;
        let broken = false;
        self.sentences.push(Span { start, end: start, played_before_gap, again, complete, broken });
    }

    /// Records that all sentences but the first `from` will be sent again, from their starts.
    pub fn rewind(&mut self, from: usize, now: Duration) {
        let heard = self.heard(now);
        self.again = if heard.whole == from { heard.partial } else { Duration::ZERO };
        self.sentences.truncate(from);
    }

    /// Records that the sentence is incomplete and gets no further packets.
    pub fn sentence_broken(&mut self) {
        self.sentence_complete();
        if let Some(span) = self.sentences.last_mut() {
            span.broken = true;
        }
    }

    /// Records that sentences from here on do not count as part of the answer.
    pub fn given_up(&mut self) {
        self.counted.get_or_insert(self.sentences.len());
    }

    /// Records that all packets of the sentence were sent.
    pub fn sentence_complete(&mut self) {
        if let Some(span) = self.sentences.last_mut() {
            span.complete = true;
        }
    }

    /// Returns true if packets of the current sentence were sent and more will follow.
    pub fn is_within_sentence(&self) -> bool {
        self.sentences
            .last()
            .is_some_and(|s| !s.complete && (s.end > s.start || !s.played_before_gap.is_zero()))
    }

    /// Records that a packet was sent. Returns true if it came too late: the device had run out of
    /// audio within a sentence (underrun).
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

    /// Returns the part that has been played by `now`.
    pub fn heard(&self, now: Duration) -> PlayedBack {
        // Some counted sentences may be about to be sent again.
        let counted = self.counted.map_or(self.sentences.len(), |n| n.min(self.sentences.len()));
        let spans = &self.sentences[..counted];
        let whole = spans.iter().take_while(|s| s.complete && s.end <= now).count();
        let broken = spans[..whole].iter().enumerate().filter(|(_, s)| s.broken);
        let broken = broken.map(|(i, span)| (i, span.length())).collect();
        let Some(span) = spans.get(whole) else {
            return PlayedBack { whole, broken, partial: self.again, ..PlayedBack::default() };
        };
        let played = now.min(span.end).saturating_sub(span.start);
        PlayedBack {
            whole,
            broken,
            partial: (span.played_before_gap + played).max(span.again),
            partial_of: (span.complete && !span.broken).then(|| span.length()),
        }
    }
}

impl Span {
    /// Returns the length of the sent part of its audio.
    fn length(&self) -> Duration {
        self.played_before_gap + (self.end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    fn after_a_stall_the_clock_restarts_without_exceeding_the_lead() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        send(&mut playout, Duration::ZERO, 3);
        assert!(playout.sent(1_000 * MS), "the device had run dry");
        assert_eq!(send(&mut playout, 1_000 * MS, 4), [1_000, 1_000, 1_060, 1_120]);
    }

    #[test]
    fn heard_audio_is_counted_in_sentences_and_a_part() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        send(&mut playout, Duration::ZERO, 5);
        playout.sentence_complete();
        playout.sentence_started(120 * MS);
        send(&mut playout, 180 * MS, 2);
        let heard = |at: u32| playout.heard(at * MS);
        let partial = 90 * MS;
        let partial_of = Some(300 * MS);
        assert_eq!(heard(90), PlayedBack { partial, partial_of, ..PlayedBack::default() });
        let one = PlayedBack { whole: 1, ..PlayedBack::default() };
        assert_eq!(heard(330), PlayedBack { partial: 30 * MS, ..one.clone() });
        assert_eq!(heard(999), PlayedBack { partial: 120 * MS, ..one });
    }

    #[test]
    fn broken_sentences_are_listed_and_those_after_the_end_do_not_count() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        playout.sentence_broken();
        playout.sentence_started(Duration::ZERO);
        send(&mut playout, Duration::ZERO, 5);
        playout.sentence_complete();
        playout.sentence_started(120 * MS);
        send(&mut playout, 180 * MS, 2);
        playout.sentence_broken();
        playout.given_up();
        playout.sentence_started(300 * MS);
        send(&mut playout, 300 * MS, 5);
        playout.sentence_complete();
        let nothing = (0, Duration::ZERO);
        let heard = playout.heard(330 * MS);
        let two = PlayedBack { whole: 2, broken: vec![nothing], ..PlayedBack::default() };
        assert_eq!(heard, PlayedBack { partial: 30 * MS, ..two });
        let all = playout.heard(2_000 * MS);
        let broken = vec![nothing, (2, 120 * MS)];
        assert_eq!(all, PlayedBack { whole: 3, broken, ..PlayedBack::default() });
    }

    #[test]
    fn a_gap_within_a_sentence_is_not_counted_as_heard() {
        let mut playout = Playout::new(PACKET, 3);
        playout.sentence_started(Duration::ZERO);
        assert!(!playout.sent(Duration::ZERO));
        assert!(playout.sent(500 * MS));
        assert_eq!(playout.heard(530 * MS).partial, 90 * MS);
    }

    #[test]
    fn a_reply_that_was_given_up_may_be_sent_again() {
        let mut playout = Playout::new(PACKET, 3);
        for _ in 0..3 {
            playout.sentence_started(Duration::ZERO);
        }
        send(&mut playout, Duration::ZERO, 3);
        playout.sentence_complete();
        playout.given_up();
        playout.rewind(0, 30 * MS);
        assert_eq!(playout.heard(30 * MS), PlayedBack::default());
        for _ in 0..4 {
            playout.sentence_started(500 * MS);
            send(&mut playout, 500 * MS, 3);
            playout.sentence_complete();
        }
        assert_eq!(playout.heard(9_000 * MS).whole, 3, "the apology is not part of the answer");
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
