//! What a load run measured, over all devices. Not for deciding whether it is good.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::emulator::events::{Fact, State};
use crate::emulator::watch::{Packets, Watch, What};

/// A packet that comes this much later after the one before than it plays for is late at the
/// wire; the device may still have some to play.
const LATE: Duration = Duration::from_millis(5);

/// Everything measured, shared by the devices.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// Devices that are connected now.
    pub connected: usize,
    /// Connections that the server closed.
    pub closed: usize,
    /// Turns that were answered to their end.
    pub turns: usize,
    /// What went wrong, and how often.
    pub errors: BTreeMap<String, usize>,
    /// Packets, as the devices met them.
    pub packets: Packets,
    /// Packets that came over 5 ms late after the one before, of those paced.
    pub late_at_wire: usize,
    /// Packets whose distance to the one before was looked at.
    pub paced: usize,
    /// From the end of speech to the transcript.
    pub transcript: Spread,
    /// From the end of speech to `tts start`.
    pub tts_start: Spread,
    /// From the end of speech to the first packet.
    pub first_audio: Spread,
}

/// A distribution of times, in microseconds up to ten minutes.
#[derive(Debug, Clone)]
pub struct Spread(Histogram<u64>);

impl Default for Spread {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, 600_000_000, 3);
        Self(histogram.expect("the bounds are in order"))
    }
}

impl Spread {
    fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us);
    }

    /// The time that this part (0.0 to 1.0) of all stay within, ms; none where there are none.
    pub fn ms(&self, part: f64) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "ten minutes in microseconds fit")]
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(part) as f64 / 1_000.0)
    }
}

impl Serialize for Spread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = |part| self.ms(part);
        let named = [("p50_ms", at(0.5)), ("p90_ms", at(0.9)), ("p99_ms", at(0.99))];
        BTreeMap::from(named).serialize(serializer)
    }
}

/// The figures of a run, and a way to look at them while it goes on.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Figures>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self, what: &str) {
        *self.lock().errors.entry(what.to_owned()).or_default() += 1;
    }
}

/// Watches one device for the figures.
#[derive(Debug)]
pub(super) struct Meter {
    shared: Shared,
    connected: bool,
    /// When the person had finished speaking; taken by the first packet.
    pub(super) spoken: Option<Duration>,
    /// Answers that came to their end.
    pub(super) answers: usize,
    waits_for_transcript: bool,
    last_packet: Option<(Duration, u32)>,
    packet: Duration,
}

impl Meter {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            shared,
            connected: false,
            spoken: None,
            answers: 0,
            waits_for_transcript: false,
            last_packet: None,
            packet: Duration::from_millis(60),
        }
    }

    /// The person has finished speaking at this time.
    pub(super) fn speech_ended(&mut self, at: Duration) {
        self.spoken = Some(at);
        self.waits_for_transcript = true;
    }

    fn message(&mut self, at: Duration, kind: &str) {
        let since = self.spoken.map(|spoken| at.saturating_sub(spoken));
        match (kind, since) {
            ("stt", Some(since)) if self.waits_for_transcript => {
                self.waits_for_transcript = false;
                self.shared.lock().transcript.add(since);
            }
            ("tts start", Some(since)) => self.shared.lock().tts_start.add(since),
            ("tts stop", _) => self.answers += 1,
            _ => {}
        }
        if kind.starts_with("tts") {
            self.last_packet = None;
        }
    }

    /// The first few packets of a reply come at once; after those each is due one length after
    /// the one before.
    fn packet(&mut self, at: Duration) {
        const BURST: u32 = 5;
        let mut figures = self.shared.lock();
        if let Some(spoken) = self.spoken.take() {
            figures.first_audio.add(at.saturating_sub(spoken));
        }
        let count = self.last_packet.map_or(1, |(_, n)| n + 1);
        if let Some((last, n)) = self.last_packet
            && n >= BURST
        {
            figures.paced += 1;
            let late = at.saturating_sub(last) > self.packet + LATE;
            figures.late_at_wire += usize::from(late);
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
                self.connected = true;
                self.packet = Duration::from_millis(audio.frame_duration.into());
                self.shared.lock().connected += 1;
            }
            Fact::State(State::Idle) if std::mem::take(&mut self.connected) => {
                let mut figures = self.shared.lock();
                figures.connected -= 1;
                figures.closed += 1;
            }
            Fact::Message { kind, .. } => self.message(at, &kind),
            Fact::PacketReceived => self.packet(at),
            Fact::Offence(offence) => self.shared.error(offence),
            _ => {}
        }
    }
}
