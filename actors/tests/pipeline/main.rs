//! One device's whole ring in virtual time, on scripted ports. Not for real engines or sockets.

mod afterwards;
mod checks;
mod consent;
mod daily_limits;
mod device_tools;
mod echo;
mod failures;
mod interruptions;
mod machine;
mod numbers;
mod orders;
mod pauses;
mod pauses_in_a_row;
mod speakers;
mod speculation;
mod tools;
mod turn_detection;
mod turn_trace;
mod turns;
mod words_so_far;

use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_socket::testkit::Received;

pub(crate) use hearken_dialogue::testkit::{freeze, ms};

/// A greeted device in this mode whose microphone is open.
pub(crate) async fn listening(mode: &str) -> TestPipeline {
    listening_with(PipelineSettings::default(), mode).await
}

pub(crate) async fn listening_with(settings: PipelineSettings, mode: &str) -> TestPipeline {
    freeze();
    let mut ring = TestPipeline::greeted(settings, 1).await;
    start(&ring, mode);
    ring.forget();
    ring
}

pub(crate) fn start(ring: &TestPipeline, mode: &str) {
    ring.text(&format!(r#"{{"type":"listen","state":"start","mode":"{mode}"}}"#));
}

pub(crate) fn abort(ring: &TestPipeline) {
    ring.text(r#"{"type":"abort"}"#);
}

/// A person says something for a second, and is silent long enough to be answered.
pub(crate) async fn speak(ring: &TestPipeline) {
    ring.stream(sound::voice(1_000)).await;
    ring.stream(sound::silence(900)).await;
}

/// A whole further turn works: the proof that nothing is stuck.
pub(crate) async fn next_turn_works(ring: &mut TestPipeline) {
    ring.forget();
    start(ring, "auto");
    speak(ring).await;
    ring.until("tts/stop").await;
    assert_eq!(
        ring.names(),
        ["stt", "llm", "tts/start", "tts/sentence_start", "audio", "tts/sentence_end", "tts/stop"]
    );
}

/// Last message of each prompt that the model got.
pub(crate) fn prompts(ring: &TestPipeline) -> Vec<String> {
    let prompts = ring.script.prompts.lock().expect("no test panics while it holds them");
    let last = prompts.iter().filter_map(|prompt| prompt.messages.last());
    last.map(|message| message.content.clone()).collect()
}

/// Texts of the sentences shown.
pub(crate) fn shown(ring: &TestPipeline) -> Vec<String> {
    let starts = ring.log.iter().filter(|d| d.what.name() == "tts/sentence_start");
    starts.map(|d| d.what.text().to_owned()).collect()
}

/// Transcripts that were told.
pub(crate) fn transcripts(ring: &TestPipeline) -> Vec<String> {
    let told = ring.log.iter().filter(|down| down.what.name() == "stt");
    told.map(|down| down.what.text().to_owned()).collect()
}

/// When each audio packet came.
pub(crate) fn audio_times(ring: &TestPipeline) -> Vec<Duration> {
    ring.log.iter().filter(|d| matches!(d.what, Received::Audio(_))).map(|d| d.at).collect()
}
