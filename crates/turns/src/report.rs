//! Scores as tables of Markdown, or as JSON. Not for computing them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::policy::Policy;
use crate::score::{Groups, OperatingPoints, Tally, operating_points};

/// Returns the tables: a row a policy and group, and the best points of each curve.
pub fn tables(policies: &[Policy], scores: &[Groups]) -> String {
    let mut text = String::from(
        "| Group | Policy | Cut-offs of holds | % | Ends | Mean wait, ms | p50 | p90 | No answer | In speech |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for group in groups(scores) {
        for (policy, scores) in policies.iter().zip(scores) {
            let Some(tally) = scores.get(group) else { continue };
            row(&mut text, group, policy, tally);
        }
    }
    text.push_str(
        "\n| Group | Curve | % cut off at 300 ms | at 600 ms | Mean wait at 5 % cut off, ms | at 10 % |\n\
         |---|---|---|---|---|---|\n",
    );
    for group in groups(scores) {
        for (curve, points) in curves(policies, scores, group) {
            let OperatingPoints { cut_at_wait, wait_at_cut } = points;
            let [cut_300, cut_600] = cut_at_wait.map(percent);
            let [wait_5, wait_10] = wait_at_cut.map(millis);
            // Writing to a string never fails.
            writeln!(text, "| {group} | {curve} | {cut_300} | {cut_600} | {wait_5} | {wait_10} |")
                .unwrap_or_default();
        }
    }
    text
}

fn row(text: &mut String, group: &str, policy: &Policy, tally: &Tally) {
    let [mean, p50, p90] = [tally.mean_wait(), tally.wait_at(0.5), tally.wait_at(0.9)].map(millis);
    writeln!(
        text,
        "| {group} | {} | {} of {} | {} | {} | {mean} | {p50} | {p90} | {} | {} |",
        policy.name,
        tally.cut,
        tally.holds,
        percent(tally.cut_rate()),
        tally.waits.len() + tally.missed,
        tally.missed,
        tally.in_speech,
    )
    .unwrap_or_default();
}

/// Returns the same as JSON.
pub fn json(policies: &[Policy], scores: &[Groups]) -> Value {
    let ms = |time: Option<Duration>| time.map(|t| t.as_millis());
    let rows = policies.iter().zip(scores).flat_map(|(policy, groups)| {
        groups.iter().map(move |(group, tally)| {
            json!({
                "group": group,
                "curve": policy.curve,
                "policy": policy.name,
                "holds": tally.holds,
                "cut_off": tally.cut,
                "ends": tally.waits.len() + tally.missed,
                "no_answer": tally.missed,
                "in_speech": tally.in_speech,
                "mean_wait_ms": ms(tally.mean_wait()),
                "p50_wait_ms": ms(tally.wait_at(0.5)),
                "p90_wait_ms": ms(tally.wait_at(0.9)),
            })
        })
    });
    Value::Array(rows.collect())
}

fn groups(scores: &[Groups]) -> impl Iterator<Item = &String> {
    let all: BTreeMap<&String, ()> =
        scores.iter().flat_map(Groups::keys).map(|g| (g, ())).collect();
    all.into_keys()
}

fn curves<'a>(
    policies: &'a [Policy],
    scores: &'a [Groups],
    group: &'a str,
) -> Vec<(&'a str, OperatingPoints)> {
    let mut names: Vec<&str> = policies.iter().map(|p| p.curve.as_str()).collect();
    names.dedup();
    let points = |curve: &'a str| {
        let of_curve = policies.iter().zip(scores).filter(move |(p, _)| p.curve == curve);
        operating_points(of_curve.filter_map(|(_, groups)| groups.get(group)))
    };
    names.into_iter().map(|curve| (curve, points(curve))).collect()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.1}", share * 100.0))
}

fn millis(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".into(), |time| time.as_millis().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    #[test]
    fn a_table_has_a_row_a_policy_and_group_and_the_best_points_of_curves() {
        let policies = policy::parse("hearing.silence_ms=500|700").unwrap();
        let tally = |cut, wait| {
            let waits = vec![Duration::from_millis(wait)];
            Groups::from([("zh".to_owned(), Tally { holds: 20, cut, waits, ..Tally::default() })])
        };
        let scores = [tally(3, 540), tally(1, 740)];
        let text = tables(&policies, &scores);
        assert!(text.contains(
            "| zh | hearing.silence_ms=500 | 3 of 20 | 15.0 | 1 | 540 | 540 | 540 | 0 | 0 |"
        ));
        assert!(text.contains("| zh | hearing.silence_ms=500|700 | - | 15.0 | 740 | 740 |"));
        let json = json(&policies, &scores);
        assert_eq!((&json[1]["cut_off"], &json[1]["mean_wait_ms"]), (&1.into(), &740.into()));
    }
}
