//! Observer of one device that measures response times and the pacing of packets. Not for the
//! behaviour of the device.

use std::sync::Arc;
use std::time::Duration;

use hearken_virtual_device::events::Fact;
use hearken_virtual_device::observer::{Observation, Observer};
use tokio::time::Instant;

use super::figures::Shared;

/// Delay beyond the expected arrival, one packet length after the previous packet, above which a
/// packet is late at the wire; the device may still have audio to play.
const LATE: Duration = Duration::from_millis(5);
/// Number of first packets of a reply, which are sent at once.
const BURST: u32 = 5;
/// Minimum length of an audible gap. A packet that arrives just when the queue runs empty causes a
/// shorter one.
const GAP: Duration = Duration::from_millis(5);
/// Wait for the first audio after which a turn counts as unanswered at the end of the run.
const LONG: Duration = Duration::from_secs(10);

/// Observer of one device.
#[derive(Debug)]
pub(super) struct LoadObserver {
    shared: Shared,
    /// Phrases of the server that mean that it is busy.
    busy_words: Arc<[String]>,
    connected: bool,
    /// Time at which the user had finished speaking; taken by the first packet.
    spoken: Option<Duration>,
    /// The same on the clock of this program.
    asked: Instant,
    /// True between `tts start` and `tts stop`.
    replying: bool,
    /// True until the first sentence of a reply.
    begins: bool,
    /// Number of replies whose playback has started.
    pub(super) replies: usize,
    /// Number of replies that have ended.
    pub(super) answers: usize,
    /// True if the last reply said that the server is busy.
    pub(super) busy: bool,
    waits_for_transcript: bool,
    tts_start: Option<Duration>,
    interrupted_at: Option<Duration>,
    stalled: bool,
    last_packet: Option<(Duration, u32)>,
    packet: Duration,
}

impl LoadObserver {
    pub(super) fn new(shared: Shared, busy_words: Arc<[String]>) -> Self {
        Self {
            shared,
            busy_words,
            connected: false,
            spoken: None,
            asked: Instant::now(),
            replying: false,
            begins: false,
            replies: 0,
            answers: 0,
            busy: false,
            waits_for_transcript: false,
            tts_start: None,
            interrupted_at: None,
            stalled: false,
            last_packet: None,
            packet: Duration::from_millis(60),
        }
    }

    /// Records that the user has finished speaking at this time.
    pub(super) fn speech_ended(&mut self, at: Duration) {
        if self.replying {
            self.shared.lock().early += 1;
            (self.spoken, self.waits_for_transcript) = (None, false);
            self.replies += 1;
            return;
        }
        (self.spoken, self.asked) = (Some(at), Instant::now());
        self.waits_for_transcript = true;
        self.tts_start = None;
    }

    /// Records that the user interrupts at this time.
    pub(super) fn interrupts(&mut self, at: Duration) {
        self.interrupted_at = Some(at);
    }

    /// Records that the socket was closed.
    pub(super) fn disconnected(&mut self) {
        (self.replying, self.begins) = (false, false);
        (self.spoken, self.tts_start, self.interrupted_at) = (None, None, None);
        if std::mem::take(&mut self.connected) {
            let mut figures = self.shared.lock();
            figures.connected -= 1;
            figures.closed += 1;
        }
    }

    fn message(&mut self, at: Duration, kind: &str, text: Option<&str>) {
        let since = self.spoken.map(|spoken| at.saturating_sub(spoken));
        match (kind, since) {
            ("stt", Some(since)) if self.waits_for_transcript => {
                self.waits_for_transcript = false;
                self.shared.lock().transcript.add(since);
            }
            ("tts start", since) => {
                (self.replying, self.begins, self.tts_start) = (true, true, since);
                (self.busy, self.stalled) = (false, false);
            }
            ("tts sentence_start", _) => self.sentence(text.unwrap_or_default()),
            ("tts stop", _) => {
                self.answers += 1;
                self.replying = false;
                if let Some(since) = self.interrupted_at.take() {
                    self.shared.lock().stop.add(at.saturating_sub(since));
                }
            }
            _ => {}
        }
        if kind.starts_with("tts") {
            self.last_packet = None;
        }
    }

    /// Decides by the first sentence whether this is an answer.
    fn sentence(&mut self, text: &str) {
        if !std::mem::take(&mut self.begins) {
            return;
        }
        self.busy = self.busy_words.iter().any(|words| words == text);
        let mut figures = self.shared.lock();
        if self.busy {
            self.spoken = None;
            figures.busy += 1;
        }
        if let Some(started) = self.tts_start.take() {
            let times = if self.busy { &mut figures.busy_told } else { &mut figures.tts_start };
            times.add(started);
        }
    }

    /// Measures a packet. After the first few, each is due one packet length after the one before.
    fn packet(&mut self, at: Duration) {
        let mut figures = self.shared.lock();
        if let Some(spoken) = self.spoken.take() {
            figures.first_audio.add(at.saturating_sub(spoken));
            self.replies += 1;
        }
        let count = self.last_packet.map_or(1, |(_, n)| n + 1);
        if let Some((last, n)) = self.last_packet
            && n >= BURST
        {
            let late = at.saturating_sub(last).saturating_sub(self.packet);
            figures.paced += 1;
            figures.lateness.add(late);
            figures.late_at_wire += usize::from(late > LATE);
        }
        self.last_packet = Some((at, count));
    }
}

impl Drop for LoadObserver {
    /// Counts the turn in progress at the end of the run.
    fn drop(&mut self) {
        if self.connected && self.spoken.is_some() && self.asked.elapsed() > LONG {
            self.shared.lock().unanswered += 1;
        }
    }
}

impl Observer for LoadObserver {
    fn observe(&mut self, at: Duration, what: Observation) {
        self.shared.lock().packets.count(&what);
        let Observation::Noticed(fact) = what else { return };
        match fact {
            Fact::Hello(audio) => {
                self.packet = Duration::from_millis(audio.frame_duration.into());
                if !std::mem::replace(&mut self.connected, true) {
                    self.shared.lock().connected += 1;
                }
            }
            Fact::Message { kind, text } => self.message(at, &kind, text.as_deref()),
            Fact::PacketReceived => self.packet(at),
            Fact::Gap { length } if length > GAP && !std::mem::replace(&mut self.stalled, true) => {
                self.shared.lock().stalled += 1;
            }
            Fact::HelloMissing => self.shared.error("no hello from the server"),
            Fact::ToolCalled(_) => self.shared.lock().tool_calls += 1,
            Fact::Offence(offence) => self.shared.error(offence),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn observer() -> (Shared, LoadObserver) {
        let shared = Shared::default();
        (shared.clone(), LoadObserver::new(shared, vec!["I'm busy.".to_owned()].into()))
    }

    fn hears(observer: &mut LoadObserver, ms: u64, kind: &str, text: &str) {
        let fact = Fact::Message { kind: kind.into(), text: Some(text.into()) };
        observer.observe(at(ms), Observation::Noticed(fact));
    }

    fn greeted(observer: &mut LoadObserver) {
        let audio = hearken_proto::device::AudioParams::opus(24_000, 60);
        observer.observe(at(0), Observation::Noticed(Fact::Hello(audio)));
    }

    #[test]
    fn an_answer_is_timed_from_the_end_of_speech_and_busy_phrases_are_no_answers() {
        let (shared, mut observer) = observer();
        observer.speech_ended(at(1_000));
        hears(&mut observer, 1_005, "stt", "what was said");
        hears(&mut observer, 1_010, "tts start", "");
        hears(&mut observer, 1_011, "tts sentence_start", "Well.");
        observer.observe(at(1_110), Observation::Noticed(Fact::PacketReceived));
        hears(&mut observer, 2_000, "tts stop", "");
        observer.speech_ended(at(3_000));
        hears(&mut observer, 3_002, "tts start", "");
        hears(&mut observer, 3_002, "tts sentence_start", "I'm busy.");
        let figures = shared.lock();
        let ms = |spread: &super::super::Distribution| spread.ms(1.0).map(f64::round);
        assert_eq!((figures.turns, figures.busy, figures.early), (0, 1, 0));
        assert_eq!(ms(&figures.transcript), Some(5.0));
        assert_eq!((ms(&figures.tts_start), ms(&figures.first_audio)), (Some(10.0), Some(110.0)));
        assert_eq!(ms(&figures.busy_told), Some(2.0));
    }

    #[test]
    fn an_answer_that_starts_before_the_end_of_speech_is_not_timed() {
        let (shared, mut observer) = observer();
        hears(&mut observer, 500, "tts start", "");
        hears(&mut observer, 501, "tts sentence_start", "Well.");
        observer.observe(at(600), Observation::Noticed(Fact::PacketReceived));
        observer.speech_ended(at(1_000));
        observer.observe(at(1_010), Observation::Noticed(Fact::PacketReceived));
        hears(&mut observer, 1_500, "tts stop", "");
        assert!(!observer.busy);
        hears(&mut observer, 1_600, "tts start", "");
        hears(&mut observer, 1_601, "tts sentence_start", "I'm busy.");
        observer.speech_ended(at(2_000));
        assert!(observer.busy, "the busy phrase came before the end of speech");
        let figures = shared.lock();
        assert_eq!((figures.early, figures.first_audio.count()), (2, 0));
        assert_eq!((figures.busy, figures.busy_told.count()), (1, 0));
    }

    #[test]
    fn an_answer_ends_with_its_connection() {
        let (shared, mut observer) = observer();
        greeted(&mut observer);
        observer.speech_ended(at(0));
        hears(&mut observer, 10, "tts start", "");
        observer.disconnected();
        greeted(&mut observer);
        observer.speech_ended(at(1_000));
        observer.observe(at(1_100), Observation::Noticed(Fact::PacketReceived));
        let figures = shared.lock();
        assert_eq!((figures.early, figures.first_audio.count(), figures.closed), (0, 1, 1));
    }

    #[test]
    fn inaudible_gaps_are_not_stalls_and_a_stalled_answer_counts_once() {
        let (shared, mut observer) = observer();
        for length in [GAP, GAP + at(1), at(200)] {
            observer.observe(at(0), Observation::Noticed(Fact::Gap { length }));
            assert_eq!(shared.lock().stalled, usize::from(length > GAP));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_waits_long_at_the_end_of_the_run_counts_as_unanswered() {
        for (waits, answered, unanswered) in
            [(LONG, false, 0), (LONG + at(1), false, 1), (LONG * 2, true, 0)]
        {
            let (shared, mut observer) = observer();
            greeted(&mut observer);
            observer.speech_ended(at(0));
            if answered {
                observer.observe(at(100), Observation::Noticed(Fact::PacketReceived));
            }
            tokio::time::advance(waits).await;
            drop(observer);
            assert_eq!(shared.lock().unanswered, unanswered, "{waits:?} {answered}");
        }
    }

    #[test]
    fn a_missing_hello_is_an_error() {
        let (shared, mut observer) = observer();
        observer.observe(at(10_000), Observation::Noticed(Fact::HelloMissing));
        assert_eq!(shared.lock().errors["no hello from the server"], 1);
    }
}
