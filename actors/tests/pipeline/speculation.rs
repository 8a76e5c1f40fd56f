//! Speculative answers in a pause: held back until the person has finished, dropped without a trace if
//! they go on. Not for the length of the silence.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::admission::cores;
use hearken_dialogue::testkit::answering::sources;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_ports::{ProviderErrorKind as Kind, ToolSource};
use tokio::time::Instant;

use crate::device_tools::{HELLO, VOLUME, answer, asked_for, initialized, offered, tool};
use crate::{
    abort, audio_times, listening, listening_with, ms, next_turn_works, prompts, shown, start,
    transcripts,
};

/// Latencies of cloud services: 250 ms for the transcript, 350 to the first words, 150 to the first
/// sound.
fn upstreams(pipeline: &TestPipeline, words: &'static str, reply: &'static str) {
    pipeline.script.hears(AsrAct::Text(words, ms(250)));
    pipeline.script.thinks(LlmAct::Write(vec![reply], ms(350)));
    let length = ms(900);
    let first = ms(150);
    let each = ms(5);
    pipeline.script.says(TtsAct::Audio { length, first, each });
}

fn tries(tries: u32) -> PipelineSettings {
    let mut settings = PipelineSettings::default();
    settings.speculation.tries = tries;
    settings
}

/// Says something, is silent, and returns the times from the end of the voice to the transcript and
/// the first audio.
async fn answered(pipeline: &mut TestPipeline) -> (Duration, Duration) {
    pipeline.stream(sound::voice(1_000)).await;
    let silent = pipeline.now();
    pipeline.stream(sound::silence(1_200)).await;
    pipeline.until("tts/stop").await;
    let told = pipeline.log.iter().find(|down| down.what.name() == "stt").unwrap();
    (told.at - silent, audio_times(pipeline)[0] - silent)
}

/// A pause that is long enough for a speculation, and too short to end the turn.
async fn pause(pipeline: &TestPipeline) {
    pipeline.stream(sound::silence(540)).await;
}

#[actix::test]
async fn recognition_model_and_synthesis_work_during_the_silence() {
    let mut seen = Vec::new();
    for tries in [3, 0] {
        let mut pipeline = listening_with(self::tries(tries), "auto").await;
        upstreams(&pipeline, "Is it noon?", "Yes, it is.");
        seen.push(answered(&mut pipeline).await);
        assert_eq!(prompts(&pipeline), ["Is it noon?"]);
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
    let [(told, first), (told_later, first_later)] = seen[..] else { panic!("{seen:?}") };
    // The silence of 700 ms is detected at most one packet later; from 300 ms on, all three work.
    assert!(told < ms(790), "{told:?}");
    assert!(first < ms(1_060 + 90), "{first:?}");
    assert!(
        (ms(249)..ms(253)).contains(&(told_later - told)),
        "{told_later:?} without, {told:?} with"
    );
    assert!(first_later - first >= ms(350), "{first_later:?} without, {first:?} with");
}

#[actix::test]
async fn nothing_of_a_speculation_is_sent_before_the_person_has_finished() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("Is it noon?", ms(0)));
    pipeline.script.thinks(LlmAct::Write(vec!["😀 Yes. ", "It is. "], ms(1)));
    let began = pipeline.now();
    pipeline.stream(sound::voice(1_000)).await;
    pause(&pipeline).await;
    pipeline.pass(ms(0)).await;
    assert_eq!(pipeline.names(), [""; 0]);
    assert_eq!(prompts(&pipeline), ["Is it noon?"]);
    assert_eq!(pipeline.script.lines.lock().unwrap().len(), 2, "it is synthesised meanwhile");
    assert!(pipeline.script.lines.lock().unwrap()[0].0.elapsed() > ms(100));
    pipeline.stream(sound::silence(600)).await;
    pipeline.until("tts/stop").await;
    let [llm, start] = ["llm", "tts/start"]
        .map(|name| pipeline.log.iter().find(|down| down.what.name() == name).unwrap().at - began);
    assert!(llm > ms(1_600) && start - llm < ms(5), "{llm:?} {start:?}");
    assert_eq!(shown(&pipeline), ["Yes.", "It is."]);
    next_turn_works(&mut pipeline).await;
    assert_eq!(
        pipeline.script.last_prompt()[1..],
        ["User: Is it noon?", "Assistant: Yes. It is.", "User: hello there"]
    );
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_person_who_goes_on_gets_one_answer_and_the_speculation_leaves_no_trace() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("Tell me", ms(10)));
    pipeline.script.hears(AsrAct::Text("Tell me about cats.", ms(10)));
    pipeline.script.thinks(LlmAct::Write(vec!["Tell you what? ", "Well. "], ms(1)));
    pipeline.script.thinks(LlmAct::Write(vec!["Cats purr."], ms(1)));
    pipeline.stream(sound::voice(1_000)).await;
    pause(&pipeline).await;
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(1_200)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(prompts(&pipeline), ["Tell me", "Tell me about cats."]);
    assert_eq!(shown(&pipeline), ["Cats purr."]);
    assert_eq!(transcripts(&pipeline), ["Tell me about cats."]);
    // The recogniser was given all of it the second time.
    let utterances = pipeline.script.utterances.lock().unwrap().clone();
    let [first, all] = utterances[..] else { panic!("{utterances:?}") };
    assert!(first > 18_000 && all > first + 20_000, "{utterances:?}");
    next_turn_works(&mut pipeline).await;
    assert_eq!(
        pipeline.script.last_prompt()[1..],
        ["User: Tell me about cats.", "Assistant: Cats purr.", "User: hello there"]
    );
    pipeline.hang_up().await;
}

#[actix::test]
async fn speculations_are_limited_in_number_and_by_the_length_of_the_utterance() {
    for (longest, expected) in [(10_000, 3), (2_500, 1)] {
        let mut settings = PipelineSettings::default();
        settings.speculation.max_speech = ms(longest);
        let mut pipeline = listening_with(settings, "auto").await;
        for _ in 0..5 {
            pipeline.stream(sound::voice(900)).await;
            pause(&pipeline).await;
        }
        pipeline.stream(sound::silence(600)).await;
        pipeline.until("tts/stop").await;
        // The last one is the answer, unless no speculation was left for it.
        assert_eq!(prompts(&pipeline).len(), expected + 1, "{longest}");
        let utterances = pipeline.script.utterances.lock().unwrap().clone();
        assert!(utterances.last().unwrap() / 16 > 6_000, "all was recognised: {utterances:?}");
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn tools_are_called_only_when_the_person_has_finished() {
    for goes_on in [false, true] {
        let called = Arc::default();
        crate::freeze();
        let tools: Vec<Arc<dyn ToolSource>> = sources(&called);
        let mut pipeline = TestPipeline::connect_with(PipelineSettings::default(), tools);
        pipeline.greet(1).await;
        start(&pipeline, "auto");
        pipeline.script.hears(AsrAct::Text("What time", ms(10)));
        pipeline.script.thinks(LlmAct::Call("", vec![("tell_time", "{}")]));
        pipeline.stream(sound::voice(1_000)).await;
        pause(&pipeline).await;
        assert_eq!(prompts(&pipeline), ["What time"]);
        assert_eq!(called.lock().unwrap().len(), 0, "not while they may go on");
        if goes_on {
            pipeline.stream(sound::voice(600)).await;
        }
        pipeline.stream(sound::silence(1_200)).await;
        pipeline.until("tts/stop").await;
        assert_eq!(called.lock().unwrap().len(), usize::from(!goes_on));
        assert_eq!(shown(&pipeline), ["Good day."]);
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn no_speculative_answer_starts_while_a_call_is_pending_confirmation() {
    let called: Arc<Mutex<Vec<String>>> = Arc::default();
    crate::freeze();
    let mut pipeline = TestPipeline::connect_with(PipelineSettings::default(), sources(&called));
    pipeline.greet(1).await;
    start(&pipeline, "auto");
    pipeline.script.thinks(LlmAct::Call("", vec![("read_news", "{}")]));
    pipeline
        .script
        .thinks(LlmAct::Call("", vec![("self_camera_take_photo", r#"{"question":"who?"}"#)]));
    crate::speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(called.lock().unwrap().len(), 1, "the person is asked before the second");
    start(&pipeline, "auto");
    pipeline.script.hears(AsrAct::Text("Yes", ms(0)));
    let asked = prompts(&pipeline).len();
    pipeline.stream(sound::voice(1_000)).await;
    pause(&pipeline).await;
    assert_eq!((prompts(&pipeline).len(), called.lock().unwrap().len()), (asked, 1));
    pipeline.stream(sound::silence(600)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(called.lock().unwrap().len(), 2);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_service_that_fails_in_a_pause_is_asked_once() {
    for (asr, llm) in [
        (AsrAct::Fail(Kind::Unavailable, ms(10)), None),
        (AsrAct::Fail(Kind::Timeout, ms(1_000)), None),
        (AsrAct::Text("hello", ms(0)), Some(LlmAct::Fail(Kind::Unavailable, ms(10)))),
        (AsrAct::Text("hello", ms(0)), Some(LlmAct::Fail(Kind::Timeout, ms(1_000)))),
    ] {
        let mut pipeline = listening("auto").await;
        let failing = format!("{asr:?}, {llm:?}");
        let asks = usize::from(llm.is_some());
        pipeline.script.hears(asr);
        pipeline.script.llm.lock().unwrap().extend(llm);
        pipeline.stream(sound::voice(1_000)).await;
        let silent = pipeline.now();
        pipeline.stream(sound::silence(1_200)).await;
        pipeline.until("tts/stop").await;
        let first = audio_times(&pipeline)[0] - silent;
        assert!(first < ms(1_700), "{failing}: {first:?}");
        let apology = if asks > 0 { "Sorry, something" } else { "抱歉" };
        assert!(shown(&pipeline)[0].contains(apology), "{failing}: {:?}", shown(&pipeline));
        assert_eq!(prompts(&pipeline).len(), asks, "{failing}");
        for _ in 0..10 {
            next_turn_works(&mut pipeline).await;
        }
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_failed_speculation_is_dropped_when_the_person_goes_on() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Fail(Kind::Unavailable, ms(10)));
    pipeline.script.hears(AsrAct::Text("Tell me about", ms(10)));
    pipeline.script.thinks(LlmAct::Fail(Kind::Unavailable, ms(10)));
    pipeline.script.hears(AsrAct::Text("Tell me about cats.", ms(10)));
    for _ in 0..3 {
        pipeline.stream(sound::voice(900)).await;
        pause(&pipeline).await;
    }
    pipeline.stream(sound::silence(600)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(prompts(&pipeline), ["Tell me about", "Tell me about cats."]);
    assert_eq!(shown(&pipeline), ["Good day."]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_aborted_turn_ends_with_its_speculation() {
    for wait in [100, 5_000] {
        let mut pipeline = listening("auto").await;
        pipeline.script.hears(AsrAct::Text("Tell me a story.", ms(10)));
        pipeline.script.thinks(LlmAct::Write(vec!["Once. ", "Upon. "], ms(wait)));
        pipeline.stream(sound::voice(1_000)).await;
        pause(&pipeline).await;
        assert_eq!(prompts(&pipeline), ["Tell me a story."]);
        abort(&pipeline);
        pipeline.until("tts/stop").await;
        pipeline.pass(ms(10_000)).await;
        assert_eq!(pipeline.names(), ["tts/stop"]);
        next_turn_works(&mut pipeline).await;
        assert_eq!(pipeline.script.last_prompt()[1..], ["User: hello there"]);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_speculation_ends_with_its_connection() {
    let pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("Tell me a story.", ms(10)));
    pipeline.script.thinks(LlmAct::Write(vec!["Once. "], ms(60_000)));
    pipeline.stream(sound::voice(1_000)).await;
    pause(&pipeline).await;
    assert_eq!(prompts(&pipeline), ["Tell me a story."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn no_speculative_answer_starts_under_load_or_with_expensive_tokens() {
    for dear in [false, true] {
        let mut settings = PipelineSettings::default();
        settings.speculation.max_price_per_million = if dear { -1.0 } else { 5.0 };
        let mut pipeline = listening_with(settings, "auto").await;
        let begun = Instant::now();
        let all_cores = move || begun.elapsed() * u32::try_from(cores()).unwrap_or(1);
        let loaded =
            (!dear).then(|| actix::spawn(pipeline.admission().clone().govern(all_cores, Vec::new)));
        pipeline.pass(ms(2_000)).await;
        pipeline.stream(sound::voice(1_000)).await;
        pause(&pipeline).await;
        assert_eq!(prompts(&pipeline), [""; 0]);
        pipeline.stream(sound::silence(600)).await;
        pipeline.until("tts/stop").await;
        assert_eq!(prompts(&pipeline).len(), 1);
        if let Some(loaded) = loaded {
            loaded.abort();
        }
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn at_the_limit_of_turns_no_speculative_answer_starts_and_a_dropped_one_frees_its_permit() {
    let mut settings = PipelineSettings::default();
    settings.admission.max_turns = 1;
    let mut pipeline = listening_with(settings, "auto").await;
    let mut other = pipeline.again();
    other.greet(1).await;
    start(&other, "auto");
    // Both pause; the second one finds no free permit.
    pipeline.stream(sound::voice(1_000)).await;
    pause(&pipeline).await;
    other.stream(sound::voice(1_000)).await;
    pause(&other).await;
    assert_eq!(prompts(&pipeline).len(), 1);
    pipeline.lose();
    other.stream(sound::silence(600)).await;
    other.until("tts/stop").await;
    assert_eq!(shown(&other), ["Good day."]);
    other.hang_up().await;
}

/// Recogniser with partial transcripts, which lag by 100 ms, and 250 ms for the transcript.
const STREAMING: AsrAct = AsrAct::Streaming { lag: ms(100), finish: ms(250) };

#[actix::test]
async fn partial_transcripts_are_answered_sooner() {
    let mut seen = Vec::new();
    for act in [AsrAct::Text("Is it noon?", ms(250)), STREAMING] {
        let mut pipeline = listening_with(tries(3), "auto").await;
        pipeline.script.hears(act);
        pipeline.script.thinks(LlmAct::Write(vec!["Yes, it is."], ms(350)));
        let length = ms(900);
        let first = ms(150);
        let each = ms(5);
        pipeline.script.says(TtsAct::Audio { length, first, each });
        let (told, first) = answered(&mut pipeline).await;
        assert_eq!(prompts(&pipeline).len(), 1, "the same words are answered once");
        seen.push((told, first));
        next_turn_works(&mut pipeline).await;
        // The dialogue remembers what the device was shown.
        let remembered =
            pipeline.script.prompts.lock().unwrap().last().unwrap().messages[1].content.clone();
        let whole = remembered == "Is it noon?" || remembered.starts_with("Word ");
        assert!(whole && remembered.ends_with(['?', '.']), "{remembered}");
        pipeline.hang_up().await;
    }
    let [(_, plain), (_, streaming)] = seen[..] else { panic!("{seen:?}") };
    assert!(plain - streaming > ms(100), "{seen:?}");
}

#[actix::test]
async fn an_incomplete_partial_transcript_is_answered_again() {
    let mut pipeline = listening_with(tries(3), "auto").await;
    // In the pause, the words of the last 500 ms are unknown.
    pipeline.script.hears(AsrAct::Streaming { lag: ms(500), finish: ms(100) });
    let (_, first) = answered(&mut pipeline).await;
    let asked = prompts(&pipeline);
    assert!(asked.len() == 2 && asked[0] != asked[1] && first > ms(600), "{asked:?} {first:?}");
    let told = pipeline.log.iter().find(|down| down.what.name() == "stt").unwrap();
    assert_eq!(told.what.text(), asked[1]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_speculation_with_other_tools_than_the_current_ones_is_not_used() {
    crate::freeze();
    let mut pipeline = TestPipeline::connect(PipelineSettings::default());
    pipeline.text(HELLO);
    initialized(&mut pipeline).await;
    let list = asked_for(&mut pipeline, "tools/list").await;
    start(&pipeline, "auto");
    pipeline.stream(sound::voice(1_000)).await;
    pause(&pipeline).await;
    assert_eq!(
        (prompts(&pipeline).len(), offered(&pipeline)),
        (1, Vec::new()),
        "a speculative answer starts"
    );
    answer(&pipeline, &list, serde_json::json!({"tools": [tool(VOLUME)]}));
    pipeline.stream(sound::silence(600)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(offered(&pipeline), ["self_audio_speaker_set_volume"]);
    assert_eq!(
        pipeline.script.reading.load(Ordering::Relaxed),
        0,
        "no prefetch runs during the reply"
    );
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_dropped_speculation_does_not_change_the_language() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("Is it noon?", ms(0)));
    pipeline.stream(sound::voice(1_000)).await;
    pause(&pipeline).await;
    assert_eq!(prompts(&pipeline), ["Is it noon?"]);
    abort(&pipeline);
    pipeline.until("tts/stop").await;
    pipeline.text(r#"{"type":"listen","state":"detect","text":"你好，小智"}"#);
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["我在。"]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}
