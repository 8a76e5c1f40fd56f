//! Metrics of turns by their stages: what people wait for. Not for how stages are noted.

use metrics::{Unit, describe_histogram, histogram};

use crate::turn_trace::TracedTurn;

/// Names of the histograms of turns, in seconds.
pub const TURN_SECONDS: [&str; 2] = [WAIT, STAGE];

const WAIT: &str = "hearken_turn_wait_seconds";
const STAGE: &str = "hearken_turn_stage_seconds";

/// Records a turn that has ended.
pub(crate) fn record_turn(turn: &TracedTurn) {
    let kind = turn.kind.name();
    if let (Some(wait), Some(outcome)) = (turn.wait(), turn.outcome) {
        histogram!(WAIT, "kind" => kind, "outcome" => outcome.name()).record(wait);
    }
    for span in &turn.spans {
        let length = span.end.unwrap_or(span.start).saturating_sub(span.start);
        histogram!(STAGE, "kind" => kind, "stage" => span.stage.name()).record(length);
    }
}

pub(super) fn describe() {
    let wait = "time from the end of speech, or from the request, to the first packet or words, by kind and outcome";
    describe_histogram!(WAIT, Unit::Seconds, wait);
    describe_histogram!(STAGE, Unit::Seconds, "time of a stage of a turn, by kind and stage");
}
