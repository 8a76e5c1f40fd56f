//! Exemplars: for each bucket of the turn histograms, the trace of the most recent turn in it. In
//! memory, bounded by the labels of these histograms. Not for their export.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use metrics::Label;
use uuid::Uuid;

use super::SECONDS_BOUNDS;

/// The turn that represents a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// Id of the turn, which is also its trace id.
    pub turn_id: Uuid,
    /// Measured value, in seconds.
    pub seconds: f64,
    /// End of the turn.
    pub at: Timestamp,
}

/// Exemplars of one series, one for each bucket; the last bucket has no upper bound.
pub type Buckets = [Option<Exemplar>; SECONDS_BOUNDS.len() + 1];

/// Labels of a series with their values, sorted by name.
pub type Labels = Vec<(String, String)>;

/// Exemplars by the name of the histogram and the labels of the series.
pub type Exemplars = HashMap<(&'static str, Labels), Buckets>;

// The recorder of the crate `metrics` has no exemplars. Decision 0076.
static EXEMPLARS: LazyLock<Mutex<Exemplars>> = LazyLock::new(Mutex::default);

/// Records the turn as the exemplar of its bucket in a series of the histogram `name`.
pub(super) fn note(name: &'static str, labels: &[Label], turn_id: Uuid, measured: Duration) {
    let seconds = measured.as_secs_f64();
    let bucket = SECONDS_BOUNDS.partition_point(|bound| *bound < seconds);
    let mut labels: Labels =
        labels.iter().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
    labels.sort();
    let mut exemplars = EXEMPLARS.lock().unwrap_or_else(PoisonError::into_inner);
    let buckets = exemplars.entry((name, labels)).or_default();
    buckets[bucket] = Some(Exemplar { turn_id, seconds, at: Timestamp::now() });
}

/// Returns all current exemplars.
pub fn exemplars() -> Exemplars {
    EXEMPLARS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
