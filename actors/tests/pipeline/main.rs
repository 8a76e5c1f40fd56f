//! One device's complete pipeline in virtual time, on scripted ports. Not for real engines or
//! sockets.

mod afterwards;
mod checks;
mod consent;
mod daily_limits;
mod danger;
mod device_tools;
mod echo;
mod failures;
mod ignored_voices;
mod interruptions;
mod machine;
mod names;
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

/// Returns a greeted device in this mode with an open microphone.
pub(crate) async fn listening(mode: &str) -> TestPipeline {
    listening_with(PipelineSettings::default(), mode).await
}

pub(crate) async fn listening_with(settings: PipelineSettings, mode: &str) -> TestPipeline {
    freeze();
    let mut pipeline = TestPipeline::greeted(settings, 1).await;
    start(&pipeline, mode);
    pipeline.forget();
    pipeline
}

pub(crate) fn start(pipeline: &TestPipeline, mode: &str) {
    pipeline.text(&format!(r#"{{"type":"listen","state":"start","mode":"{mode}"}}"#));
}

pub(crate) fn abort(pipeline: &TestPipeline) {
    pipeline.text(r#"{"type":"abort"}"#);
}

/// A person says something for a second, and is silent long enough to be answered.
pub(crate) async fn speak(pipeline: &TestPipeline) {
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(900)).await;
}

/// A complete further turn works, which proves that nothing is stuck.
pub(crate) async fn next_turn_works(pipeline: &mut TestPipeline) {
    pipeline.forget();
    start(pipeline, "auto");
    speak(pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(
        pipeline.names(),
        ["stt", "llm", "tts/start", "tts/sentence_start", "audio", "tts/sentence_end", "tts/stop"]
    );
}

/// Returns the last message of each prompt that the model got.
pub(crate) fn prompts(pipeline: &TestPipeline) -> Vec<String> {
    let prompts = pipeline.script.prompts.lock().expect("no test panics while it holds them");
    let last = prompts.iter().filter_map(|prompt| prompt.messages.last());
    last.map(|message| message.content.clone()).collect()
}

/// Returns the texts of the displayed sentences.
pub(crate) fn shown(pipeline: &TestPipeline) -> Vec<String> {
    let starts = pipeline.log.iter().filter(|d| d.what.name() == "tts/sentence_start");
    starts.map(|d| d.what.text().to_owned()).collect()
}

/// Returns the transcripts that were sent.
pub(crate) fn transcripts(pipeline: &TestPipeline) -> Vec<String> {
    let told = pipeline.log.iter().filter(|down| down.what.name() == "stt");
    told.map(|down| down.what.text().to_owned()).collect()
}

/// Returns the arrival time of each audio packet.
pub(crate) fn audio_times(pipeline: &TestPipeline) -> Vec<Duration> {
    pipeline.log.iter().filter(|d| matches!(d.what, Received::Audio(_))).map(|d| d.at).collect()
}
