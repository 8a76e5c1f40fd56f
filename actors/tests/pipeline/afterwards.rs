//! Prompts after a turn that failed, was refused or was cut: they contain nothing of it, unless the
//! person went on speaking while the model was thinking. Not for the visible effects of the cut
//! itself.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_ports::{ProviderErrorKind as Kind, Tool, ToolCall, ToolError, ToolOutput, ToolSource};
use serde_json::{Map, Value, json};

use crate::{abort, freeze, listening, ms, shown, speak, start};

const STORY: &str = "Tell a story.";

/// A person has asked for a story, and the model thinks for a long time.
async fn thinking() -> TestPipeline {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text(STORY, ms(10)));
    pipeline.script.thinks(LlmAct::Write(vec!["Too late."], ms(30_000)));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    pipeline.pass(ms(500)).await;
    pipeline
}

fn prompts(pipeline: &TestPipeline) -> usize {
    pipeline.script.prompts.lock().unwrap().len()
}

/// The next question is asked without earlier words.
async fn nothing_is_left(pipeline: &mut TestPipeline, event: &str) {
    pipeline.forget();
    start(pipeline, "auto");
    pipeline.script.hears(AsrAct::Text("What day is it?", ms(10)));
    speak(pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: What day is it?"], "after {event}");
    assert_eq!(shown(pipeline), ["Good day."], "after {event}");
}

/// Noise without recognised words is not answered.
async fn noise_is_not_answered(pipeline: &mut TestPipeline, event: &str) {
    pipeline.forget();
    start(pipeline, "auto");
    pipeline.script.hears(AsrAct::Text("", ms(10)));
    let asked = prompts(pipeline);
    speak(pipeline).await;
    pipeline.pass(ms(5_000)).await;
    assert_eq!((pipeline.names(), prompts(pipeline)), (vec![], asked), "after {event}");
}

async fn cut(pipeline: &mut TestPipeline, event: &str) {
    match event {
        "an abort" => abort(pipeline),
        "a wake word" => {
            pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
            pipeline.until("tts/stop").await;
        }
        "a short press" => {
            start(pipeline, "manual");
            pipeline.stream(sound::voice(120)).await;
            pipeline.text(r#"{"type":"listen","state":"stop"}"#);
        }
        other => panic!("{other}?"),
    }
    pipeline.pass(ms(1_000)).await;
}

#[actix::test]
async fn a_request_that_was_cut_while_the_model_was_thinking_does_not_come_back() {
    for event in ["an abort", "a wake word", "a short press"] {
        let mut pipeline = thinking().await;
        cut(&mut pipeline, event).await;
        noise_is_not_answered(&mut pipeline, event).await;
        nothing_is_left(&mut pipeline, event).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_request_that_was_cut_when_its_answer_started_does_not_come_back() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text(STORY, ms(10)));
    speak(&pipeline).await;
    pipeline.until("tts/start").await;
    abort(&pipeline);
    pipeline.until("tts/stop").await;
    noise_is_not_answered(&mut pipeline, "an abort").await;
    nothing_is_left(&mut pipeline, "an abort").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_abort_in_the_second_half_of_a_request_drops_the_first_too() {
    for slow in [10, 6_000] {
        let mut pipeline = listening("auto").await;
        pipeline.script.hears(AsrAct::Text("Call my", ms(slow)));
        pipeline.script.thinks(LlmAct::Write(vec!["Too late."], ms(30_000)));
        speak(&pipeline).await;
        pipeline.pass(ms(300)).await;
        pipeline.stream(sound::voice(900)).await;
        abort(&pipeline);
        pipeline.pass(ms(10_000)).await;
        pipeline.script.llm.lock().unwrap().clear();
        pipeline.script.asr.lock().unwrap().clear();
        noise_is_not_answered(&mut pipeline, "an abort").await;
        nothing_is_left(&mut pipeline, "an abort").await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_that_go_on_just_as_the_answer_starts_get_one_answer_to_both_parts() {
    let mut began_unheard = 0;
    for delay in (0..400).step_by(10) {
        let mut pipeline = listening("realtime").await;
        pipeline.script.hears(AsrAct::Text("Tell me", ms(10)));
        pipeline.script.hears(AsrAct::Text("about cats.", ms(10)));
        pipeline.script.thinks(LlmAct::Write(vec!["Tell you what?"], ms(885)));
        speak(&pipeline).await;
        pipeline.until("stt").await;
        pipeline.forget();
        pipeline.pass(ms(delay)).await;
        speak(&pipeline).await;
        pipeline.until("stt").await;
        let names = pipeline.names();
        pipeline.until("tts/stop").await;
        let joined = pipeline.script.last_prompt()[1..] == ["User: Tell me about cats."];
        assert_eq!(joined, !names.contains(&"audio".into()), "{delay}: {names:?}");
        began_unheard += usize::from(joined && names.contains(&"tts/start".into()));
        pipeline.hang_up().await;
    }
    assert!(began_unheard > 0, "no delay hit the start of the answer");
}

#[actix::test]
async fn words_of_a_failed_turn_are_not_joined_to_the_next() {
    for act in [
        LlmAct::Fail(Kind::BadRequest, ms(10)),
        LlmAct::Fail(Kind::Unavailable, ms(10)),
        LlmAct::Fail(Kind::Timeout, ms(30_000)),
        LlmAct::Fail(Kind::Fault, ms(10)),
        LlmAct::Break("", Kind::Protocol),
        LlmAct::Break("Once upon a time", Kind::BadRequest),
        LlmAct::Write(vec![], ms(10)),
    ] {
        let mut pipeline = listening("auto").await;
        pipeline.script.hears(AsrAct::Text(STORY, ms(10)));
        pipeline.script.thinks(act.clone());
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        nothing_is_left(&mut pipeline, &format!("{act:?}")).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_whose_answer_could_not_be_spoken_are_not_joined_to_the_next() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text(STORY, ms(10)));
    for _ in 0..3 {
        pipeline.script.says(TtsAct::Fail(Kind::Unavailable, ms(10)));
    }
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    pipeline.script.tts.lock().unwrap().clear();
    nothing_is_left(&mut pipeline, "a dead voice").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn words_before_an_unrecognised_second_half_are_not_joined_to_the_next() {
    let mut pipeline = thinking().await;
    pipeline.script.hears(AsrAct::Fail(Kind::Timeout, ms(10)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    nothing_is_left(&mut pipeline, "a recogniser that failed").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_dialogue_that_the_model_refuses_twice_restarts() {
    let mut pipeline = listening("auto").await;
    for (act, answer) in [
        (None, "Good day."),
        (Some(Kind::BadRequest), "Sorry, something went wrong. Please try again."),
        (Some(Kind::BadRequest), "Sorry, something went wrong. Please try again."),
    ] {
        pipeline.forget();
        start(&pipeline, "auto");
        if let Some(kind) = act {
            pipeline.script.thinks(LlmAct::Fail(kind, ms(10)));
        }
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(shown(&pipeline), [answer]);
    }
    assert_eq!(pipeline.script.last_prompt().len(), 4, "one refusal only removes its own turn");
    nothing_is_left(&mut pipeline, "two refusals").await;
    pipeline.hang_up().await;
}

/// A loudspeaker with one tool, whose name no model API accepts.
struct Speaker;

impl ToolSource for Speaker {
    fn name(&self) -> &str {
        "speaker"
    }

    fn tools(&self) -> Arc<[Tool]> {
        [Tool {
            name: "self.audio_speaker.set_volume".into(),
            description: "Sets the volume.".into(),
            parameters: json!({"type": "object"}),
            finishes: false,
            destructive: false,
        }]
        .into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move { Ok(ToolOutput::text(format!("set\0 by {}", call.name))) })
    }
}

async fn with_speaker() -> TestPipeline {
    freeze();
    let mut pipeline =
        TestPipeline::connect_with(PipelineSettings::default(), vec![Arc::new(Speaker)]);
    pipeline.greet(1).await;
    start(&pipeline, "auto");
    pipeline.forget();
    pipeline
}

/// Panics if an OpenAI-compatible API would refuse the prompt.
fn is_legal(pipeline: &TestPipeline) {
    let prompt = pipeline.script.prompts.lock().unwrap().last().unwrap().clone();
    let mut ids = std::collections::HashSet::new();
    for message in &prompt.messages {
        assert!(!message.content.contains('\0'), "{message:?}");
        for call in &message.calls {
            let name_is_legal = call.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            assert!((1..=64).contains(&call.name.len()) && name_is_legal, "{call:?}");
            assert!(!call.id.is_empty() && ids.insert(call.id.clone()), "{call:?}");
            serde_json::from_str::<Map<String, Value>>(&call.arguments).expect("an object");
        }
    }
}

#[actix::test]
async fn a_call_by_the_tools_own_name_reaches_it_and_later_prompts_are_valid() {
    let mut pipeline = with_speaker().await;
    for (name, arguments, result) in [
        (
            "self.audio_speaker.set_volume",
            r#"{"volume": 40}"#,
            "set by self.audio_speaker.set_volume",
        ),
        ("Self_Audio_Speaker_Set_Volume", "", "set by self.audio_speaker.set_volume"),
        ("", "{}", "error: there is no tool `tool_811c9dc5`"),
        ("self audio?", "{", "error: there is no tool `self_audio_`"),
        (
            "self_audio_speaker_set_volume",
            "[40]",
            "error: the arguments are wrong: they are not a JSON object",
        ),
    ] {
        start(&pipeline, "auto");
        pipeline.script.thinks(LlmAct::Call("", vec![(name, arguments)]));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(
            pipeline.script.last_prompt().last().unwrap(),
            &format!("Tool: {result}"),
            "{name}"
        );
        is_legal(&pipeline);
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        is_legal(&pipeline);
    }
    pipeline.hang_up().await;
}

#[actix::test]
async fn of_a_turn_whose_tool_result_is_refused_only_the_call_is_remembered() {
    let mut pipeline = with_speaker().await;
    pipeline.script.hears(AsrAct::Text(STORY, ms(10)));
    let call = ("self_audio_speaker_set_volume", "{}");
    pipeline.script.thinks(LlmAct::Call("Well.", vec![call]));
    pipeline.script.thinks(LlmAct::Fail(Kind::BadRequest, ms(10)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    pipeline.forget();
    start(&pipeline, "auto");
    pipeline.script.hears(AsrAct::Text("What day is it?", ms(10)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    // The call was made: only its name is left, so that it is not made again.
    let note = "Assistant: I have called self_audio_speaker_set_volume, and could not answer.";
    let asked = format!("User: {STORY}");
    assert_eq!(pipeline.script.last_prompt()[1..], [&asked, note, "User: What day is it?"]);
    is_legal(&pipeline);
    pipeline.hang_up().await;
}

#[actix::test]
async fn the_model_knows_the_calls_of_a_turn_that_failed_after_them() {
    for kind in [Kind::Unavailable, Kind::Timeout, Kind::Fault] {
        let mut pipeline = with_speaker().await;
        pipeline.script.hears(AsrAct::Text(STORY, ms(10)));
        let call = ("self_audio_speaker_set_volume", "{}");
        pipeline.script.thinks(LlmAct::Call("", vec![call]));
        pipeline.script.thinks(LlmAct::Fail(kind, ms(10)));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        start(&pipeline, "auto");
        pipeline.script.hears(AsrAct::Text("Again.", ms(10)));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        let told = pipeline.script.last_prompt();
        assert_eq!(told.len(), 5, "{told:?}");
        assert_eq!((told[1].clone(), &*told[4]), (format!("User: {STORY}"), "User: Again."));
        assert!(told[3].starts_with("Tool: the call was made"), "{told:?}");
        is_legal(&pipeline);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn noise_that_is_recognised_as_punctuation_is_not_answered() {
    for noise in ["。", ".", "…", "？！", "—", "🎵", " 、 "] {
        let mut pipeline = listening("auto").await;
        pipeline.script.hears(AsrAct::Text(noise, ms(10)));
        speak(&pipeline).await;
        pipeline.pass(ms(5_000)).await;
        assert_eq!((pipeline.names(), prompts(&pipeline)), (vec![], 0), "{noise}");
        nothing_is_left(&mut pipeline, noise).await;
        pipeline.hang_up().await;
    }
    let mut pipeline = listening("auto").await;
    for words in ["8", "да", "ねえ"] {
        start(&pipeline, "auto");
        pipeline.script.hears(AsrAct::Text(words, ms(10)));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(pipeline.script.last_prompt().last().unwrap(), &format!("User: {words}"));
    }
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_limited_number_of_wake_words_is_greeted() {
    let mut pipeline = listening("auto").await;
    let wake = r#"{"type":"listen","state":"detect","text":"hi esp"}"#;
    for _ in 0..40 {
        pipeline.text(wake);
        pipeline.pass(ms(100)).await;
    }
    assert_eq!(pipeline.names().iter().filter(|name| *name == "stt").count(), 30);
    pipeline.pass(ms(60_000)).await;
    pipeline.forget();
    pipeline.text(wake);
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["我在。"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_greeting_is_in_the_language_of_the_person_and_not_of_the_wake_word() {
    let mut pipeline = listening("auto").await;
    for (words, greeting) in [("", "我在。"), ("What is it?", "I'm here."), ("几点了", "我在。")]
    {
        if !words.is_empty() {
            start(&pipeline, "auto");
            pipeline.script.hears(AsrAct::Text(words, ms(10)));
            speak(&pipeline).await;
            pipeline.until("tts/stop").await;
        }
        for wake in ["hi esp", "你好，小智"] {
            pipeline.forget();
            pipeline.text(&json!({"type": "listen", "state": "detect", "text": wake}).to_string());
            pipeline.until("tts/stop").await;
            assert_eq!(shown(&pipeline), [greeting], "{wake} after {words:?}");
        }
    }
    pipeline.hang_up().await;
}
