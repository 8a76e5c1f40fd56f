//! Renders scores as tables of Markdown, or as JSON. Computing them is elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::echo::conditions::Condition;
use crate::echo::{Echo, Remedy};
use crate::latency::Latency;
use crate::policy::Policy;
use crate::score::{Groups, OperatingPoints, Tally, mean, operating_points, percentile};

/// Returns the tables of scores: one row per policy and group, and the best points of each curve.
pub fn tables(policies: &[Policy], scores: &[Groups<Tally>]) -> String {
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

/// Returns the table of latencies: one row per policy and group.
pub fn latency_table(policies: &[Policy], latencies: &[Groups<Latency>]) -> String {
    let mut text = String::from(
        "| Group | Policy | Turns | First sound after the end of speech: p50, ms | mean | p90 | Recognitions a turn | Prompts a turn |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for group in groups(latencies) {
        for (policy, latencies) in policies.iter().zip(latencies) {
            let Some(latency) = latencies.get(group) else { continue };
            let times = &latency.first_audio;
            let [p50, mean, p90] =
                [percentile(times, 0.5), mean(times), percentile(times, 0.9)].map(millis);
            let calls = latency.calls_per_turn().map(|calls| calls.map(|c| format!("{c:.2}")));
            let [recognised, asked] = calls.unwrap_or_else(|| ["-".into(), "-".into()]);
            writeln!(
                text,
                "| {group} | {} | {} | {p50} | {mean} | {p90} | {recognised} | {asked} |",
                policy.name,
                times.len(),
            )
            .unwrap_or_default();
        }
    }
    text
}

/// Returns the latencies as JSON.
pub fn latency_json(policies: &[Policy], latencies: &[Groups<Latency>]) -> Value {
    let rows = policies.iter().zip(latencies).flat_map(|(policy, groups)| {
        groups.iter().map(move |(group, latency)| {
            let times = &latency.first_audio;
            let ms = |time: Option<Duration>| time.map(|t| t.as_millis());
            json!({
                "group": group,
                "policy": policy.name,
                "turns": times.len(),
                "left_out": latency.left_out,
                "p50_first_audio_ms": ms(percentile(times, 0.5)),
                "mean_first_audio_ms": ms(mean(times)),
                "p90_first_audio_ms": ms(percentile(times, 0.9)),
                "recognitions": latency.recognised,
                "prompts": latency.asked,
            })
        })
    });
    Value::Array(rows.collect())
}

/// Returns the scores as JSON.
pub fn json(policies: &[Policy], scores: &[Groups<Tally>]) -> Value {
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

/// Header of the echo table.
pub const ECHO_HEAD: &str = "| Condition | Person over echo, dB | Remedy | Reduction (ERLE), dB | False starts an hour | Persons heard | % |\n\
     |---|---|---|---|---|---|---|";

/// Returns a row of the echo table.
pub fn echo_row(condition: &Condition, level_db: f64, remedy: Remedy, echo: &Echo) -> String {
    let hours = echo.alone.as_secs_f64() / 3_600.0;
    let an_hour = echo.false_starts as f64 / hours.max(f64::EPSILON);
    let share = echo.heard as f64 / (echo.speakers.max(1)) as f64;
    format!(
        "| {} | {level_db:.0} | {} | {:.1} | {an_hour:.1} | {} of {} | {:.1} |",
        condition.name,
        remedy.name(),
        echo.erle_db(),
        echo.heard,
        echo.speakers,
        share * 100.0,
    )
}

fn groups<T>(scores: &[Groups<T>]) -> impl Iterator<Item = &String> {
    let all: BTreeMap<&String, ()> =
        scores.iter().flat_map(Groups::keys).map(|g| (g, ())).collect();
    all.into_keys()
}

fn curves<'a>(
    policies: &'a [Policy],
    scores: &'a [Groups<Tally>],
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
    fn the_table_has_a_row_per_policy_and_group_and_the_best_points_of_curves() {
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
