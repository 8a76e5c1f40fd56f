//! Words that are known during speech: sent to clients that request them, and a reason to wait
//! longer if they are unfinished. Clients that send nothing during silence. Not for speculative answers
//! with these words.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::testkit::{AsrAct, LlmAct};
use hearken_socket::testkit::{Down, Received};

use crate::{freeze, listening_with, ms, next_turn_works, prompts};

fn tries(tries: u32) -> PipelineSettings {
    let mut settings = PipelineSettings::default();
    settings.speculation.tries = tries;
    settings
}

/// Connects a listening client that does or does not request partial transcripts.
async fn asking(asks: bool, tries: u32) -> TestPipeline {
    freeze();
    let mut pipeline = TestPipeline::connect(self::tries(tries));
    pipeline.greet_with(1, &format!(r#"{{"partial_stt":{asks}}}"#)).await;
    pipeline.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
    pipeline.forget();
    pipeline
}

/// Returns each transcript that was sent, with false for a partial one.
fn told(pipeline: &TestPipeline) -> Vec<(String, bool)> {
    let transcripts = pipeline.log.iter().filter(|down| down.what.name() == "stt");
    transcripts.map(|down| (down.what.text().to_owned(), is_final(down))).collect()
}

fn is_final(down: &Down) -> bool {
    let Received::Text(json) = &down.what else { return false };
    json.get("is_final").is_none_or(|flag| flag.as_bool().unwrap())
}

#[actix::test]
async fn only_clients_that_request_partial_transcripts_get_them() {
    for asks in [true, false] {
        let mut pipeline = asking(asks, 3).await;
        for _ in 0..2 {
            pipeline.forget();
            pipeline.script.hears(AsrAct::Partials(&["Turn", "Turn on", "Turn on the light."]));
            pipeline.stream(sound::voice(1_600)).await;
            pipeline.stream(sound::silence(1_000)).await;
            pipeline.until("tts/stop").await;
            let partials =
                ["Turn", "Turn on", "Turn on the light."].map(|words| (words.into(), false));
            let mut expected = if asks { partials.to_vec() } else { Vec::new() };
            expected.push(("Turn on the light.".into(), true));
            assert_eq!(told(&pipeline), expected);
            pipeline.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
        }
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_recognised_in_a_pause_are_sent_as_partial_transcript() {
    let mut pipeline = asking(true, 3).await;
    pipeline.script.hears(AsrAct::Text("I want", ms(50)));
    pipeline.script.hears(AsrAct::Text("I want tea.", ms(50)));
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(500)).await;
    pipeline.stream(sound::voice(600)).await;
    pipeline.stream(sound::silence(1_000)).await;
    pipeline.until("tts/stop").await;
    let expected = [("I want", false), ("I want tea.", false), ("I want tea.", true)];
    assert_eq!(told(&pipeline), expected.map(|(words, whole)| (words.to_owned(), whole)));
    pipeline.hang_up().await;
}

/// Says something, is silent, and returns the silence that ended the turn.
async fn waited(pipeline: &mut TestPipeline) -> Duration {
    pipeline.stream(sound::voice(1_000)).await;
    let silent = pipeline.now();
    pipeline.stream(sound::silence(1_500)).await;
    pipeline.until("tts/stop").await;
    let last = |down: &&Down| down.what.name() == "stt" && is_final(down);
    pipeline.log.iter().find(last).unwrap().at - silent
}

#[actix::test]
async fn unfinished_words_extend_the_silence_that_ends_a_turn() {
    let partly = |words| AsrAct::Partials(words);
    let cases = [
        (partly(&["I", "I like it"]), 0, 700),
        (partly(&["I", "I like it because"]), 0, 1_000),
        // Some of the words may arrive during the silence.
        (partly(&["I", "I like the", "I like the cat."]), 0, 700),
        // Words that a recogniser returns in a pause count as well.
        (AsrAct::Text("然后。", ms(100)), 3, 1_000),
        (AsrAct::Text("现在几点？", ms(100)), 3, 700),
        // Words that arrive after the end of the turn change nothing.
        (AsrAct::Text("然后。", ms(0)), 0, 700),
    ];
    for (act, tries, window) in cases {
        let mut pipeline = listening_with(self::tries(tries), "auto").await;
        let case = format!("{act:?}");
        pipeline.script.hears(act);
        let waited = waited(&mut pipeline).await;
        assert!(waited.as_millis().abs_diff(window) <= 90, "{case}: {waited:?}");
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn speech_after_unfinished_words_is_part_of_the_same_turn() {
    let mut pipeline = listening_with(tries(0), "auto").await;
    pipeline.script.hears(AsrAct::Partials(&["Because", "Because of", "Because of you."]));
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(840)).await;
    pipeline.stream(sound::voice(600)).await;
    pipeline.stream(sound::silence(1_200)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(prompts(&pipeline), ["Because of you."]);
    pipeline.hang_up().await;
}

/// Says something and sends nothing during the silence. Returns the times of transcript and prompt
/// after the last packet.
async fn silent_client(pipeline: &mut TestPipeline) -> (Duration, Duration) {
    pipeline.forget();
    pipeline.stream(sound::voice(1_000)).await;
    let silent = pipeline.now();
    let before = prompts(pipeline).len();
    let deadline = silent + ms(5_000);
    while prompts(pipeline).len() == before && pipeline.now() < deadline {
        pipeline.pass(ms(10)).await;
    }
    let asked = pipeline.now() - silent;
    pipeline.until("tts/stop").await;
    let told = pipeline.log.iter().find(|down| down.what.name() == "stt").unwrap().at - silent;
    pipeline.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
    (told, asked)
}

#[actix::test]
async fn speculative_answers_also_start_for_clients_that_send_nothing_during_silence() {
    let mut pipeline = listening_with(tries(3), "auto").await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        pipeline.script.hears(AsrAct::Text("Is it noon?", ms(50)));
        pipeline.script.thinks(LlmAct::Write(vec!["Yes."], ms(100)));
        seen.push(silent_client(&mut pipeline).await);
    }
    // The server knows that the client sends nothing only after it has done so.
    let [(told, asked), second, third] = seen[..] else { panic!("{seen:?}") };
    assert!((680..800).contains(&told.as_millis()) && asked >= told, "{seen:?}");
    for (told, asked) in [second, third] {
        assert!((640..760).contains(&told.as_millis()), "{seen:?}");
        assert!((150..300).contains(&asked.as_millis()), "{seen:?}");
    }
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_late_packet_does_not_count_as_silence() {
    let mut pipeline = listening_with(tries(3), "auto").await;
    // Now the server knows that the client sends nothing during silence.
    silent_client(&mut pipeline).await;
    pipeline.forget();
    pipeline.script.hears(AsrAct::Text("Is it noon?", ms(50)));
    let before = prompts(&pipeline).len();
    for packet in sound::voice(1_800) {
        pipeline.packet(packet);
        pipeline.pass(ms(140)).await;
    }
    assert_eq!(prompts(&pipeline).len(), before, "no speculative answer started");
    pipeline.stream(sound::silence(1_000)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(prompts(&pipeline)[before..], ["Is it noon?"]);
    pipeline.hang_up().await;
}
