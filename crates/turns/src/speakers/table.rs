//! Renders the errors of speaker verification as a table of Markdown. Computing them is elsewhere.

use std::fmt::Write as _;

use super::{Found, Kind};

/// Thresholds in the table.
const THRESHOLDS: [f32; 3] = [0.35, 0.45, 0.55];

/// Returns the table: one row per language, length and kind.
pub fn table(found: &[Found]) -> String {
    let mut text = String::from(
        "| Compared | Group | Speech, s | Persons | Same | Different | Equal error rate, % | At |",
    );
    for threshold in THRESHOLDS {
        // Writing to a string never fails.
        write!(text, " {threshold}: falsely accepted, rejected, % |").unwrap_or_default();
    }
    text.push_str("\n|---|---|---|---|---|---|---|---|---|---|---|\n");
    for found in found {
        row(&mut text, found);
    }
    text
}

fn row(text: &mut String, found: &Found) {
    let Found { group, kind, length, speakers, trials } = found;
    let kind = match kind {
        Kind::Pair => "one with one",
        Kind::Enrolled => "one with three",
    };
    let same = trials.same.len();
    let different = trials.different.len();
    let equal = trials.equal_error_rate().map_or_else(
        || "- | -".to_owned(),
        |(rate, threshold)| format!("{:.2} | {threshold:.2}", rate * 100.0),
    );
    let seconds = length.as_secs_f64();
    write!(text, "| {kind} | {group} | {seconds} | {speakers} | {same} | {different} | {equal} |")
        .unwrap_or_default();
    for threshold in THRESHOLDS {
        let errors = trials.errors_at(threshold).map_or_else(
            || "-".to_owned(),
            |e| format!("{:.2}, {:.2}", e.false_accepts * 100.0, e.false_rejects * 100.0),
        );
        write!(text, " {errors} |").unwrap_or_default();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Trials;
    use super::*;

    #[test]
    fn a_row_has_the_equal_error_rate_and_the_errors_at_each_threshold() {
        let trials = Trials { same: vec![0.9, 0.5], different: vec![0.1, 0.2, 0.3, 0.4] };
        let group = "zh".to_owned();
        let length = Duration::from_millis(1_500);
        let mut found = Found { group, kind: Kind::Pair, length, speakers: 2, trials };
        let text = table(std::slice::from_ref(&found));
        let row = "| one with one | zh | 1.5 | 2 | 2 | 4 | 0.00 | 0.50 | 25.00, 0.00 | 0.00, 0.00 | 0.00, 50.00 |";
        assert!(text.contains(row), "{text}");
        found.trials = Trials::default();
        assert!(table(&[found]).contains("| 0 | 0 | - | - | - | - | - |"));
    }
}
