//! Metrics in the OpenMetrics text format, which supports exemplars: converted from Prometheus's
//! text format, which the recorder renders. Not for counting.
//!
//! Source: <https://prometheus.io/docs/specs/om/open_metrics_spec/>

use std::collections::{HashMap, HashSet};

use hearken_dialogue::metrics::SECONDS_BOUNDS;
use hearken_dialogue::metrics::exemplars::{Buckets, Exemplar, Exemplars, Labels};

use crate::turn_json::trace_id;

/// Suffix of the samples of counters; the names of their families lack it.
const TOTAL: &str = "_total";
const BUCKET: &str = "_bucket";

/// Renders metrics as OpenMetrics; each bucket of a turn's duration has the trace of its last turn as exemplar.
pub fn open_metrics(text: &str, exemplars: &Exemplars) -> String {
    // The recorder cannot render OpenMetrics, and Prometheus accepts exemplars in no other text
    // format. Decision 0076.
    let counters: HashSet<&str> = text.lines().filter_map(counter_of).collect();
    let mut rendered = String::with_capacity(text.len() * 5 / 4);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(comment) => rendered.push_str(&metadata(comment, &counters)),
            None => {
                rendered.push_str(line);
                if let Some(exemplar) = exemplar_of(line, exemplars) {
                    push_exemplar(&mut rendered, exemplar);
                }
            }
        }
        rendered.push('\n');
    }
    rendered.push_str("# EOF\n");
    rendered
}

/// Returns the name of the counter that this line declares.
fn counter_of(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.strip_suffix(" counter")
}

/// Renders a comment about a family: `HELP` or `TYPE`, the name, and the text.
fn metadata(comment: &str, counters: &HashSet<&str>) -> String {
    let mut words = comment.splitn(3, ' ');
    let [what, name, said] = [(); 3].map(|()| words.next().unwrap_or_default());
    let family = match name.strip_suffix(TOTAL) {
        Some(family) if counters.contains(name) => family,
        _ => name,
    };
    let said = if said == "untyped" { "unknown" } else { said };
    format!("# {what} {family} {said}")
}

/// Returns the exemplar of a sample, if it is a bucket that has one.
fn exemplar_of(line: &str, exemplars: &Exemplars) -> Option<Exemplar> {
    let (name, rest) = line.split_once('{')?;
    let name = name.strip_suffix(BUCKET)?;
    let mut labels = labels(rest.rsplit_once('}')?.0)?;
    let at = labels.iter().position(|(label, _)| label == "le")?;
    let (_, bound) = labels.remove(at);
    labels.sort();
    // Shortens the lifetime of the map's keys to that of this line.
    let exemplars: &HashMap<(&str, Labels), Buckets> = exemplars;
    let buckets = exemplars.get(&(name, labels))?;
    let bucket = match bound.parse() {
        Ok(bound) if bound != f64::INFINITY => {
            SECONDS_BOUNDS.iter().position(|known| known.total_cmp(&bound).is_eq())?
        }
        _ => SECONDS_BOUNDS.len(),
    };
    buckets[bucket]
}

/// Parses `name="value",name="value"`.
fn labels(mut text: &str) -> Option<Labels> {
    let mut labels = Labels::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let mut escaped = false;
        let end = rest.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        let (value, rest) = rest.split_at(end);
        labels.push((name.to_owned(), value.to_owned()));
        text = rest[1..].trim_start_matches(',');
    }
    Some(labels)
}

fn push_exemplar(rendered: &mut String, exemplar: Exemplar) {
    let Exemplar { turn_id, seconds, at } = exemplar;
    let millis = at.as_millisecond();
    let whole = millis.div_euclid(1_000);
    let part = millis.rem_euclid(1_000);
    let id = trace_id(&turn_id);
    let exemplar = format!(" # {{trace_id=\"{id}\"}} {seconds} {whole}.{part:03}");
    rendered.push_str(&exemplar);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use jiff::Timestamp;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const TEXT: &str = r#"# HELP hearken_turns_total turns, by outcome
# TYPE hearken_turns_total counter
hearken_turns_total{end="completed"} 3

# TYPE hearken_total gauge
hearken_total 2

# TYPE odd untyped
odd{name="a\"}b\\",le="1"} 1

# HELP hearken_turn_wait_seconds wait
# TYPE hearken_turn_wait_seconds histogram
hearken_turn_wait_seconds_bucket{outcome="answered",kind="voice",le="0.5"} 0
hearken_turn_wait_seconds_bucket{outcome="answered",kind="voice",le="0.75"} 1
hearken_turn_wait_seconds_bucket{outcome="answered",kind="voice",le="+Inf"} 2
hearken_turn_wait_seconds_sum{outcome="answered",kind="voice"} 40.6
hearken_turn_wait_seconds_count{outcome="answered",kind="voice"} 2
"#;

    fn exemplars() -> Exemplars {
        let at = Timestamp::from_millisecond(1_700_000_000_045).unwrap();
        let turn_id = Uuid::from_u128(0xab);
        let mut buckets = Buckets::default();
        buckets[10] = Some(Exemplar { turn_id, seconds: 0.6, at });
        buckets[18] = Some(Exemplar { turn_id, seconds: 40.0, at });
        let labels = [("kind", "voice"), ("outcome", "answered")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Exemplars::from([(("hearken_turn_wait_seconds", labels), buckets)])
    }

    #[test]
    fn counters_lose_their_suffix_and_buckets_have_exemplars() {
        let expected = r#"# HELP hearken_turns turns, by outcome
# TYPE hearken_turns counter
hearken_turns_total{end="completed"} 3
# TYPE hearken_total gauge
hearken_total 2
# TYPE odd unknown
odd{name="a\"}b\\",le="1"} 1
# HELP hearken_turn_wait_seconds wait
# TYPE hearken_turn_wait_seconds histogram
hearken_turn_wait_seconds_bucket{outcome="answered",kind="voice",le="0.5"} 0
hearken_turn_wait_seconds_bucket{outcome="answered",kind="voice",le="0.75"} 1 # {trace_id="000000000000000000000000000000ab"} 0.6 1700000000.045
hearken_turn_wait_seconds_bucket{outcome="answered",kind="voice",le="+Inf"} 2 # {trace_id="000000000000000000000000000000ab"} 40 1700000000.045
hearken_turn_wait_seconds_sum{outcome="answered",kind="voice"} 40.6
hearken_turn_wait_seconds_count{outcome="answered",kind="voice"} 2
# EOF
"#;
        assert_eq!(open_metrics(TEXT, &exemplars()), expected);
    }

    #[test]
    fn label_values_end_at_the_first_unescaped_quotation_mark() {
        let read = labels(r#"a="x\"y",b="\\",c="}""#).unwrap();
        let expected = [("a", r#"x\"y"#), ("b", r"\\"), ("c", "}")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    proptest! {
        #[test]
        fn any_text_is_rendered(text in ".{0,200}") {
            prop_assert!(open_metrics(&text, &exemplars()).ends_with("# EOF\n"));
        }
    }
}
