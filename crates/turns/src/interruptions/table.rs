//! What was found as tables of Markdown, or as JSON. Not for computing it.

use std::time::Duration;

use serde_json::{Value, json as object};

use super::Outcome;
use super::plan::Kind;
use super::score::Found;
use crate::policy::Policy;
use crate::score::percentile;

const HEAD: &str = "| Group | Policy | Over the reply is heard | Conversations | Replies that ended | % | As it should | % | Before anything was heard | Paused and went on | Voice to silence at the socket, ms: p50, p99 | at the loudspeaker | Pause, ms: p50, p99 | Whole sentences said again | Sound said again, s | Sound lost, s | Answers that broke off |\n\
     |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
const VERSIONS_HEAD: &str = "| Firmware | Conversations | Pauses | Replies that ended | Packets lost or cut, of replies that went on | of those that ended | Silences inside sentences | Packets played after the end of their reply |\n\
     |---|---|---|---|---|---|---|---|\n";

/// Returns a table with a row a language, policy and kind, and a row for all true and all false interruptions.
pub fn table(policies: &[Policy], outcomes: &[Outcome]) -> String {
    let mut text = HEAD.to_owned();
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

type OfIt = fn(Kind) -> bool;

/// Sums of several kinds.
fn sums() -> [(&'static str, OfIt); 3] {
    [
        ("**all that should end it**", Kind::ends_reply),
        ("**all that should not**", |kind| !kind.ends_reply()),
        ("**the same without understood televisions**", |kind| {
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
    let [ended, right] = [found.ended, found.right].map(percent);
    format!(
        "| {group} | {policy} | {kind} | {} | {} | {ended:.1} | {} | {right:.1} | {} | {} | {sent} | {heard} | {pauses} | {} | {:.1} | {:.1} | {} |\n",
        found.conversations,
        found.ended,
        found.right,
        found.early,
        found.resumed,
        found.again,
        found.heard_twice.as_secs_f64(),
        found.unheard.as_secs_f64(),
        found.broken,
    )
}

fn both(times: &[Duration]) -> String {
    let at =
        |share| percentile(times, share).map_or_else(|| "-".into(), |t| t.as_millis().to_string());
    format!("{}, {}", at(0.5), at(0.99))
}

/// Returns a table with a row a policy and version of the firmware.
pub fn versions_table(outcome: &Outcome) -> String {
    let mut text = VERSIONS_HEAD.to_owned();
    for (version, found) in &outcome.versions {
        text.push_str(&format!(
            "| {version} | {} | {} | {} | {} | {} | {} | {} |\n",
            found.conversations,
            found.pauses,
            found.ended,
            found.lost,
            found.lost_at_end,
            found.gaps,
            found.stale,
        ));
    }
    text
}

/// Returns what was found as JSON.
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
