//! What a load run measured, over all devices. Not for deciding whether it is good.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::Serialize;

use crate::observer::Packets;

/// Everything measured, shared by the devices.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// Devices that are connected now.
    pub connected: usize,
    /// Connections that the server closed.
    pub closed: usize,
    /// Turns that were answered to their end.
    pub turns: usize,
    /// Answers that the person interrupted.
    pub interrupted: usize,
    /// Turns that were told that the server is busy.
    pub busy: usize,
    /// Turns whose answer had not begun long after the person had finished, when the run ended.
    pub unanswered: usize,
    /// Answers that began before the person had finished; their times are not counted.
    pub early: usize,
    /// Answers in which the loudspeaker ran dry, for long enough to be heard.
    pub stalled: usize,
    /// Calls of devices' tools.
    pub tool_calls: usize,
    /// What went wrong, and how often.
    pub errors: BTreeMap<String, usize>,
    /// Packets, as the devices met them.
    pub packets: Packets,
    /// Packets that came over 5 ms late after the one before, of those paced.
    pub late_at_wire: usize,
    /// Packets whose distance to the one before was looked at.
    pub paced: usize,
    /// How late these were.
    pub lateness: Spread,
    /// From the end of speech to the transcript.
    pub transcript: Spread,
    /// From the end of speech to `tts start`.
    pub tts_start: Spread,
    /// From the end of speech to the first packet.
    pub first_audio: Spread,
    /// From the end of speech to being told that the server is busy.
    pub busy_told: Spread,
    /// From opening a connection to being refused with 503.
    pub refused: Spread,
    /// From an interruption to `tts stop`.
    pub stop: Spread,
    /// How late this program itself woke up, at moments of its own choice.
    pub own_lateness: Spread,
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
    pub(super) fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us);
    }

    /// The time that this part (0.0 to 1.0) of all stay within, ms; none where there are none.
    pub fn ms(&self, part: f64) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "ten minutes in microseconds fit")]
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(part) as f64 / 1_000.0)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The whole histogram in HdrHistogram's own encoding (V2, deflated, base64), for its tools.
    fn encoded(&self) -> Option<String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).ok()?;
        (!self.0.is_empty()).then(|| STANDARD.encode(bytes))
    }
}

/// Times in milliseconds; the encoded histogram is in microseconds.
#[derive(Serialize)]
struct Shown {
    count: u64,
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    p999_ms: Option<f64>,
    max_ms: Option<f64>,
    hdr_us: Option<String>,
}

impl Serialize for Spread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = Shown {
            count: self.count(),
            p50_ms: self.ms(0.5),
            p90_ms: self.ms(0.9),
            p99_ms: self.ms(0.99),
            p999_ms: self.ms(0.999),
            max_ms: self.ms(1.0),
            hdr_us: self.encoded(),
        };
        shown.serialize(serializer)
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

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn a_spread_tells_its_parts_and_can_be_read_back() {
        let mut spread = Spread::default();
        assert_eq!((spread.ms(0.5), spread.encoded()), (None, None));
        for ms in 1..=1_000 {
            spread.add(Duration::from_millis(ms));
        }
        let p99 = spread.ms(0.99).unwrap();
        assert!((989.0..992.0).contains(&p99), "{p99}");
        let bytes = STANDARD.decode(spread.encoded().unwrap()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!(read, spread.0);
    }
}
