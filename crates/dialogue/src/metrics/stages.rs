//! Metrics of turns: their stages, the wait for the answer, and the firmware of the device. Not for
//! how stages are recorded.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Label, Unit, counter, describe_counter, describe_histogram, histogram};
use uuid::Uuid;

use super::{actor_metrics, exemplars};
use crate::turn_trace::traced_turn::TracedTurn;
use crate::turn_trace::vocabulary::{ClientKind, Outcome};

/// Names of the histograms of turns, in seconds.
pub const TURN_SECONDS: [&str; 2] = [WAIT, STAGE];

const WAIT: &str = "hearken_turn_wait_seconds";
const STAGE: &str = "hearken_turn_stage_seconds";
const DEVICE_TURNS: &str = "hearken_device_turns_total";

/// Maximum number of firmware versions with a label of their own: devices may send any version.
const MOST_VERSIONS: usize = 32;
/// Maximum length of a firmware version with a label of its own, in bytes.
const LONGEST_VERSION: usize = 32;

/// Records a turn that has ended.
pub fn record_turn(turn: &TracedTurn) {
    let kind = Label::from_static_parts("kind", turn.kind.name());
    if let Some(outcome) = turn.outcome {
        actor_metrics().turns.count(outcome);
        record_outcome(turn, kind.clone(), outcome);
    }
    for span in &turn.spans {
        let length = span.end.unwrap_or(span.start).saturating_sub(span.start);
        let stage = Label::from_static_parts("stage", span.stage.name());
        record(STAGE, vec![kind.clone(), stage], turn.id, length);
    }
}

/// Records the outcome of a turn, and the wait for its answer.
fn record_outcome(turn: &TracedTurn, kind: Label, outcome: Outcome) {
    let outcome = Label::from_static_parts("outcome", outcome.name());
    let mut labels = vec![kind, outcome.clone()];
    if turn.kind == ClientKind::Voice {
        let firmware = Label::new("firmware", firmware_label(turn.firmware.as_deref()));
        labels.push(firmware.clone());
        counter!(DEVICE_TURNS, vec![firmware, outcome]).increment(1);
    }
    if let Some(wait) = turn.wait() {
        record(WAIT, labels, turn.id, wait);
    }
}

fn record(name: &'static str, labels: Vec<Label>, turn_id: Uuid, measured: Duration) {
    exemplars::note(name, &labels, turn_id, measured);
    histogram!(name, labels).record(measured);
}

/// Returns the label of a firmware version: `unknown` for none, `other` for an unusual one or one
/// above the limit.
fn firmware_label(version: Option<&str>) -> String {
    static KNOWN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let Some(version) = version.filter(|version| !version.is_empty()) else {
        return "unknown".into();
    };
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let has_label = known.contains(version)
        || version.len() <= LONGEST_VERSION
            && version.chars().all(is_usual)
            && known.len() < MOST_VERSIONS
            && known.insert(version.to_owned());
    if has_label { version.to_owned() } else { "other".into() }
}

pub(super) fn describe() {
    let wait = "time from the end of speech, or from the request, to the first packet or words, by kind, outcome and firmware of the device";
    describe_histogram!(WAIT, Unit::Seconds, wait);
    describe_histogram!(STAGE, Unit::Seconds, "time of a stage of a turn, by kind and stage");
    let turns = "turns of devices, by outcome and version of firmware";
    describe_counter!(DEVICE_TURNS, Unit::Count, turns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firmware_version_has_its_own_label_unless_it_is_unusual_or_above_the_limit() {
        assert_eq!(firmware_label(None), "unknown");
        assert_eq!(firmware_label(Some("")), "unknown");
        assert_eq!(firmware_label(Some("2.0.4")), "2.0.4");
        for unusual in ["2.0\"} 1", "二", &"1".repeat(LONGEST_VERSION + 1)] {
            assert_eq!(firmware_label(Some(unusual)), "other");
        }
        for number in 1..MOST_VERSIONS {
            let version = format!("1.0.{number}");
            assert_eq!(firmware_label(Some(&version)), version);
        }
        assert_eq!(firmware_label(Some("9.9.9")), "other");
        assert_eq!(firmware_label(Some("2.0.4")), "2.0.4");
    }
}
