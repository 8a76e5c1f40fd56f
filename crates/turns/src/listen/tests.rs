//! Samples of synthetic voices.

use hearken_audio::pcm;

use super::*;
use crate::interruptions::tests::{conditions, voices};

/// Writes a sample; returns both sides of its audio, and its timeline.
fn written(situation: Situation) -> ([Vec<i16>; 2], Vec<serde_json::Value>) {
    let folder = tempfile::tempdir().unwrap();
    let settings = PipelineSettings::default();
    let shown = show(situation, &voices("zh"), &[], &settings, &conditions()).unwrap();
    let written = shown.write(folder.path(), "sample").unwrap();
    assert!(written.shown, "{situation:?}: {}", written.found);
    let samples: Vec<i16> =
        hound::WavReader::open(&written.file).unwrap().samples().map(Result::unwrap).collect();
    let side = |side| samples.iter().skip(side).step_by(2).copied().collect();
    let json = fs::read_to_string(folder.path().join("sample.json")).unwrap();
    let lines = fs::read_to_string(folder.path().join("sample.txt")).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(lines.lines().count(), events.len());
    ([side(0), side(1)], events)
}

/// Returns the time of the first event that starts with this text, from this time on.
fn at(events: &[serde_json::Value], what: &str, after: u64) -> u64 {
    let found = events.iter().find(|event| {
        let told = event["what"].as_str().is_some_and(|told| told.starts_with(what));
        told && event["at_ms"].as_u64() >= Some(after)
    });
    found.unwrap_or_else(|| panic!("{what}: {events:#?}"))["at_ms"].as_u64().unwrap()
}

fn level(sound: &[i16], from_ms: u64, length_ms: u64) -> f64 {
    let [from, to] = [from_ms, from_ms + length_ms].map(|ms| samples_in(Duration::from_millis(ms)));
    pcm::rms(&sound[from..to])
}

#[test]
fn the_sample_of_a_true_interruption_ends_the_reply() {
    let ([person, device], events) = written(Situation::Interruption);
    let voice = at(&events, "starts to speak over", 0);
    assert!(level(&person, voice, 500) > 500.0 && level(&device, voice - 300, 200) > 500.0);
    assert!(level(&device, voice + 400, 300) < 1.0);
    let paused = at(&events, "paused the reply", voice);
    let stop = at(&events, "sends tts stop", paused);
    let again = at(&events, "starts to play", at(&events, "sends stt", stop));
    assert!(level(&device, again + 100, 500) > 500.0);
}

#[test]
fn the_sample_of_a_resumed_reply_repeats_the_sentence() {
    let (_, events) = written(Situation::Resume);
    let paused = at(&events, "paused the reply", 0);
    let resumed = at(&events, "the reply goes on", paused);
    let said = |event: &&serde_json::Value| {
        event["what"].as_str().is_some_and(|what| what.starts_with("sends sentence"))
    };
    let before = |event: &&serde_json::Value| event["at_ms"].as_u64() < Some(resumed);
    let said: (Vec<_>, Vec<_>) = events.iter().filter(said).partition(before);
    assert_eq!(said.0.last().unwrap()["what"], said.1[0]["what"]);
}
