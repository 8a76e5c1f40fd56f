//! Renders the results as tables of Markdown, or as JSON. Computing them is elsewhere.

use std::time::Duration;

use serde_json::{Value, json as object};

use super::Outcome;
use super::plan::Kind;
use super::score::Found;
use crate::policy::Policy;
use crate::score::percentile;

const HEAD: [&str; 18] = [
    "Group",
    "Policy",
    "Sound over the reply",
    "Conversations",
    "Replies that ended",
    "%",
    "Correct",
    "%",
    "Ended or paused before the sound",
    "Paused and resumed",
    "Voice to silence at the socket, ms: p50, p99",
    "% within 200 ms",
    "at the loudspeaker, ms",
    "Pause, ms: p50, p99",
    "Whole sentences repeated",
    "Audio repeated, s",
    "Audio lost, s",
    "Answers that broke off",
];
const VERSIONS_HEAD: [&str; 8] = [
    "Firmware",
    "Conversations",
    "Pauses",
    "Replies that ended",
    "Packets lost or cut, of replies that continued",
    "of replies that ended",
    "Underruns inside sentences",
    "Packets played after the end of their reply",
];

fn line(cells: &[impl AsRef<str>]) -> String {
    cells.iter().fold("|".to_owned(), |line, cell| line + " " + cell.as_ref() + " |") + "\n"
}

fn head(cells: &[&str]) -> String {
    line(cells) + "|" + &"---|".repeat(cells.len()) + "\n"
}

/// Returns a table with a row per language, policy and kind, and a row for all true and all false
/// interruptions.
pub fn table(policies: &[Policy], outcomes: &[Outcome]) -> String {
    let mut text = head(&HEAD);
    for (policy, outcome) in policies.iter().zip(outcomes) {
        for (group, kinds) in &outcome.found {
            for kind in Kind::ALL {
                let Some(found) = kinds.get(kind.name()) else { continue };
                text.push_str(&row(group, &policy.name, kind.name(), found));
            }
        }
        for (name, of_it) in sums() {
            let found = sum(outcome, of_it);
            text.push_str(&row("all", &policy.name, name, &found));
        }
    }
    text
}

/// Target for the time from voice to silence.
const SOON: Duration = Duration::from_millis(200);

type OfIt = fn(Kind) -> bool;

/// Names and kinds of the summary rows.
fn sums() -> [(&'static str, OfIt); 3] {
    [
        ("**all that should end the reply**", Kind::ends_reply),
        ("**all that should not**", |kind| !kind.ends_reply()),
        ("**all that should not, without understood televisions**", |kind| {
            !kind.ends_reply() && kind != Kind::UnderstoodTelevision
        }),
    ]
}

fn sum(outcome: &Outcome, of_it: OfIt) -> Found {
    let mut all = Found::default();
    let kinds = Kind::ALL.into_iter().filter(|kind| of_it(*kind));
    for found in kinds.flat_map(|k| outcome.found.values().filter_map(move |g| g.get(k.name()))) {
        all.conversations += found.conversations;
        all.without_reply += found.without_reply;
        all.ended += found.ended;
        all.right += found.right;
        all.early += found.early;
        all.resumed += found.resumed;
        all.to_silence_sent.extend_from_slice(&found.to_silence_sent);
        all.to_silence_heard.extend_from_slice(&found.to_silence_heard);
        all.pauses.extend_from_slice(&found.pauses);
        all.broken += found.broken;
        all.again += found.again;
        all.heard_twice += found.heard_twice;
        all.unheard += found.unheard;
    }
    all.sort();
    all
}

fn row(group: &str, policy: &str, kind: &str, found: &Found) -> String {
    let [sent, heard, pauses] =
        [&found.to_silence_sent, &found.to_silence_heard, &found.pauses].map(|times| both(times));
    let percent = |count: usize| count as f64 * 100.0 / found.conversations.max(1) as f64;
    let soon = found.to_silence_sent.iter().filter(|time| **time <= SOON).count();
    let soon = soon as f64 * 100.0 / found.to_silence_sent.len().max(1) as f64;
    let [ended, right] = [found.ended, found.right].map(percent);
    let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
    line(&[
        group.to_owned(),
        policy.to_owned(),
        kind.to_owned(),
        found.conversations.to_string(),
        found.ended.to_string(),
        format!("{ended:.1}"),
        found.right.to_string(),
        format!("{right:.1}"),
        found.early.to_string(),
        found.resumed.to_string(),
        sent,
        format!("{soon:.1}"),
        heard,
        pauses,
        found.again.to_string(),
        seconds(found.heard_twice),
        seconds(found.unheard),
        found.broken.to_string(),
    ])
}

fn both(times: &[Duration]) -> String {
    let at =
        |share| percentile(times, share).map_or_else(|| "-".into(), |t| t.as_millis().to_string());
    format!("{}, {}", at(0.5), at(0.99))
}

/// Returns a table with a row per firmware version.
pub fn versions_table(outcome: &Outcome) -> String {
    let mut text = head(&VERSIONS_HEAD);
    for (version, found) in &outcome.versions {
        let counts = [
            found.conversations,
            found.pauses,
            found.ended,
            found.lost,
            found.lost_at_end,
            found.gaps,
            found.stale,
        ];
        let counts = counts.iter().map(ToString::to_string);
        text.push_str(&line(&std::iter::once(version.clone()).chain(counts).collect::<Vec<_>>()));
    }
    text
}

/// Returns the results as JSON.
pub fn json(policies: &[Policy], outcomes: &[Outcome]) -> Value {
    let ms = |times: &[Duration], share| percentile(times, share).map(|time| time.as_millis());
    let rows = policies.iter().zip(outcomes).flat_map(|(policy, outcome)| {
        outcome.found.iter().flat_map(move |(group, kinds)| {
            kinds.iter().map(move |(kind, found)| {
                object!({
                    "group": group,
                    "policy": policy.name,
                    "over": kind,
                    "conversations": found.conversations,
                    "without_reply": found.without_reply,
                    "ended": found.ended,
                    "right": found.right,
                    "wrong": found.wrong,
                    "early": found.early,
                    "resumed": found.resumed,
                    "p50_to_silence_sent_ms": ms(&found.to_silence_sent, 0.5),
                    "p99_to_silence_sent_ms": ms(&found.to_silence_sent, 0.99),
                    "p50_to_silence_heard_ms": ms(&found.to_silence_heard, 0.5),
                    "p99_to_silence_heard_ms": ms(&found.to_silence_heard, 0.99),
                    "p50_pause_ms": ms(&found.pauses, 0.5),
                    "p99_pause_ms": ms(&found.pauses, 0.99),
                    "answers_broken_off": found.broken,
                    "whole_sentences_again": found.again,
                    "said_again_s": found.heard_twice.as_secs_f64(),
                    "lost_s": found.unheard.as_secs_f64(),
                })
            })
        })
    });
    Value::Array(rows.collect())
}
