//! Watches one device for the figures: when what it waited for came, and how evenly packets did.
//! Not for what the device does.

use std::sync::Arc;
use std::time::Duration;

use super::figures::Shared;
use crate::emulator::events::Fact;
use crate::emulator::watch::{Watch, What};

/// A packet that comes this much later after the one before than it plays for is late at the
/// wire; the device may still have some to play.
const LATE: Duration = Duration::from_millis(5);
/// The first few packets of a reply come at once.
const BURST: u32 = 5;

/// Watches one device.
#[derive(Debug)]
pub(super) struct Meter {
    shared: Shared,
    /// What the server says where it has no time.
    busy_words: Arc<[String]>,
    connected: bool,
    /// When the person had finished speaking; taken by the first packet.
    spoken: Option<Duration>,
    /// Replies that have begun to sound.
    pub(super) replies: usize,
    /// Replies that came to their end.
    pub(super) answers: usize,
    /// The last reply told that the server is busy.
    pub(super) busy: bool,
    waits_for_transcript: bool,
    tts_start: Option<Duration>,
    interrupted_at: Option<Duration>,
    stalled: bool,
    last_packet: Option<(Duration, u32)>,
    packet: Duration,
}

impl Meter {
    pub(super) fn new(shared: Shared, busy_words: Arc<[String]>) -> Self {
        Self {
            shared,
            busy_words,
            connected: false,
            spoken: None,
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

    /// The person has finished speaking at this time.
    pub(super) fn speech_ended(&mut self, at: Duration) {
        self.spoken = Some(at);
        self.waits_for_transcript = true;
        (self.tts_start, self.busy, self.stalled) = (None, false, false);
    }

    /// The person interrupts at this time.
    pub(super) fn interrupts(&mut self, at: Duration) {
        self.interrupted_at = Some(at);
    }

    /// The socket is gone.
    pub(super) fn disconnected(&mut self) {
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
            ("tts start", Some(since)) => self.tts_start = Some(since),
            ("tts sentence_start", _) => self.sentence(text.unwrap_or_default()),
            ("tts stop", _) => {
                self.answers += 1;
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

    /// The first sentence tells whether this is an answer.
    fn sentence(&mut self, text: &str) {
        let Some(started) = self.tts_start.take() else { return };
        let mut figures = self.shared.lock();
        self.busy = self.busy_words.iter().any(|words| words == text);
        if self.busy {
            self.spoken = None;
            figures.busy += 1;
            figures.busy_told.add(started);
        } else {
            figures.tts_start.add(started);
        }
    }

    /// After the first few each packet is due one length after the one before.
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

impl Watch for Meter {
    fn saw(&mut self, at: Duration, what: What) {
        self.shared.lock().packets.count(&what);
        let What::Noticed(fact) = what else { return };
        match fact {
            Fact::Hello(audio) => {
                self.packet = Duration::from_millis(audio.frame_duration.into());
                if !std::mem::replace(&mut self.connected, true) {
                    self.shared.lock().connected += 1;
                }
            }
            Fact::Message { kind, text } => self.message(at, &kind, text.as_deref()),
            Fact::PacketReceived => self.packet(at),
            Fact::Gap { .. } if !std::mem::replace(&mut self.stalled, true) => {
                self.shared.lock().stalled += 1;
            }
            Fact::ToolCalled(_) => self.shared.lock().tool_calls += 1,
            Fact::Offence(offence) => self.shared.error(offence),
            _ => {}
        }
    }
}
