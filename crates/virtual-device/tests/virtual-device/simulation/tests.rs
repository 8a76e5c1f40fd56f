//! The short run: every firmware in every mode for some minutes; and deliberately broken servers,
//! to show that each fault would be found.

use std::time::Duration;

use super::plan::{Broken, COMBINATIONS, Plan};
use super::simulate;

/// Duration of each household here.
const SHORT: Duration = Duration::from_secs(90);
const LONG: Duration = Duration::from_secs(4 * 60);

/// Simulates a third of all combinations: those of one mode.
fn live(third: u64) {
    let each = COMBINATIONS / 3;
    let mut replies = 0;
    for seed in third * each..(third + 1) * each {
        let outcome = simulate(Plan::of(seed, SHORT, None), false);
        assert_eq!(outcome.faults, [""; 0], "scripts/simulate --minutes 1.5 --seed {seed}");
        replies += outcome.counts.replies;
    }
    assert!(replies > 3 * each, "too few conversations: {replies} replies");
}

#[test]
fn every_firmware_in_auto_mode_loses_no_audio() {
    live(0);
}

#[test]
fn every_firmware_in_manual_mode_loses_no_audio() {
    live(1);
}

#[test]
fn every_firmware_in_realtime_mode_loses_no_audio() {
    live(2);
}

/// Simulates households of this firmware in auto mode until one has this fault.
fn finds(broken: Broken, place: u64, fault: &str) {
    let mut faults = Vec::new();
    for seed in (0..6).map(|n| n * COMBINATIONS + place) {
        faults = simulate(Plan::of(seed, LONG, Some(broken)), false).faults;
        if faults.iter().any(|f| f.contains(fault)) {
            return;
        }
    }
    panic!("`{}` is not found: {faults:?}", broken.name());
}

#[test]
fn a_lead_of_eight_packets_overflows_the_queue_of_old_firmware() {
    finds(Broken::Lead, 1, "queue full");
}

#[test]
fn a_stop_without_a_margin_cuts_the_tail() {
    finds(Broken::StopMargin, 4, "tail of a reply is cut");
}

#[test]
fn sound_right_after_the_start_is_cleared() {
    finds(Broken::StartGuard, 4, "cleared by tts start");
}

#[test]
fn speech_without_a_prebuffer_stalls_within_sentences() {
    finds(Broken::Prebuffer, 4, "a silence of");
}

#[test]
fn a_seed_always_gives_the_same_timeline() {
    let story = || simulate(Plan::of(80, SHORT, None), true).timeline;
    let anonymous = |line: String| match line.split_once("\"session_id\"") {
        Some((before, _)) => before.to_owned(),
        None => line,
    };
    let stories: [Vec<String>; 2] = [(); 2].map(|()| story().into_iter().map(anonymous).collect());
    assert!(stories[0].len() > 50);
    assert_eq!(stories[0], stories[1]);
}
