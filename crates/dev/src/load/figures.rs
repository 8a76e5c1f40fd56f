//! Measurements of a load run, over all devices. Not for judging them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use hearken_virtual_device::observer::Packets;
use serde::Serialize;

/// Measurements, shared by all devices.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// Number of currently connected devices.
    pub connected: usize,
    /// Number of connections that the server closed.
    pub closed: usize,
    /// Number of turns that were answered completely.
    pub turns: usize,
    /// Number of answers that the user interrupted.
    pub interrupted: usize,
    /// Number of turns that were refused because the server is busy.
    pub busy: usize,
    /// Number of turns without an answer long after the end of speech, at the end of the run.
    pub unanswered: usize,
    /// Number of answers that started before the end of speech; their times are not counted.
    pub early: usize,
    /// Number of answers with an audible underrun.
    pub stalled: usize,
    /// Number of calls of devices' tools.
    pub tool_calls: usize,
    /// Number of errors, by description.
    pub errors: BTreeMap<String, usize>,
    /// Counts of packets, as seen by the devices.
    pub packets: Packets,
    /// Number of paced packets that arrived over 5 ms later than the packet before plus its length.
    pub late_at_wire: usize,
    /// Number of packets whose distance to the packet before was measured.
    pub paced: usize,
    /// Lateness of these packets.
    pub lateness: Distribution,
    /// Time from the end of speech to the transcript.
    pub transcript: Distribution,
    /// Time from the end of speech to `tts start`.
    pub tts_start: Distribution,
    /// Time from the end of speech to the first packet.
    pub first_audio: Distribution,
    /// Time from the end of speech to the message that the server is busy.
    pub busy_told: Distribution,
    /// Time from opening a connection to its refusal with 503.
    pub refused: Distribution,
    /// Time from an interruption to `tts stop`.
    pub stop: Distribution,
    /// Delay with which this program itself woke up from its own timers.
    pub own_lateness: Distribution,
}

/// Distribution of times, in microseconds up to ten minutes.
#[derive(Debug, Clone)]
pub struct Distribution(Histogram<u64>);

impl Default for Distribution {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, 600_000_000, 3);
        Self(histogram.expect("the bounds are in order"))
    }
}

impl Distribution {
    pub(super) fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us);
    }

    /// Returns the quantile `part` (0.0 to 1.0) in milliseconds; `None` if there are no values.
    pub fn ms(&self, part: f64) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "ten minutes in microseconds fit")]
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(part) as f64 / 1_000.0)
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the whole histogram in HdrHistogram's own encoding (V2, deflated, base64), for its
    /// tools.
    fn encoded(&self) -> Option<String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).ok()?;
        (!self.0.is_empty()).then(|| STANDARD.encode(bytes))
    }
}

/// Summary for serialisation: times in milliseconds; the encoded histogram is in microseconds.
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

impl Serialize for Distribution {
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

/// Measurements of a run in progress. Clones share them.
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
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    #[test]
    fn a_distribution_has_quantiles_and_can_be_decoded() {
        let mut spread = Distribution::default();
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
