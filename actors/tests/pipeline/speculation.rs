//! Answers attempted in a pause: held until the person has finished, dropped without a trace if they go on. Not for how
//! long a silence must last.

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

/// What services of the Internet take: 250 ms for the transcript, 350 to the first words, 150 to the first sound.
fn upstreams(ring: &TestPipeline, words: &'static str, reply: &'static str) {
    ring.script.hears(AsrAct::Text(words, ms(250)));
    ring.script.thinks(LlmAct::Write(vec![reply], ms(350)));
    let length = ms(900);
    let first = ms(150);
    let each = ms(5);
    ring.script.says(TtsAct::Audio { length, first, each });
}

fn tries(tries: u32) -> PipelineSettings {
    let mut settings = PipelineSettings::default();
    settings.speculation.tries = tries;
    settings
}

/// Says something, is silent, and returns the times from the end of the voice to the transcript and the first audio.
async fn answered(ring: &mut TestPipeline) -> (Duration, Duration) {
    ring.stream(sound::voice(1_000)).await;
    let silent = ring.now();
    ring.stream(sound::silence(1_200)).await;
    ring.until("tts/stop").await;
    let told = ring.log.iter().find(|down| down.what.name() == "stt").unwrap();
    (told.at - silent, audio_times(ring)[0] - silent)
}

/// A pause that is long enough for an attempt, and too short to end the turn.
async fn pause(ring: &TestPipeline) {
    ring.stream(sound::silence(540)).await;
}

#[actix::test]
async fn recognition_model_and_synthesis_work_while_the_silence_lasts() {
    let mut seen = Vec::new();
    for tries in [3, 0] {
        let mut ring = listening_with(self::tries(tries), "auto").await;
        upstreams(&ring, "Is it noon?", "Yes, it is.");
        seen.push(answered(&mut ring).await);
        assert_eq!(prompts(&ring), ["Is it noon?"]);
        next_turn_works(&mut ring).await;
        ring.hang_up().await;
    }
    let [(told, first), (told_later, first_later)] = seen[..] else { panic!("{seen:?}") };
    // The silence of 700 ms is noticed a packet later at most; from 300 ms on, all three work.
    assert!(told < ms(790), "{told:?}");
    assert!(first < ms(1_060 + 90), "{first:?}");
    assert!(
        (ms(249)..ms(253)).contains(&(told_later - told)),
        "{told_later:?} without, {told:?} with"
    );
    assert!(first_later - first >= ms(350), "{first_later:?} without, {first:?} with");
}

#[actix::test]
async fn nothing_of_an_attempt_is_sent_before_the_person_has_finished() {
    let mut ring = listening("auto").await;
    ring.script.hears(AsrAct::Text("Is it noon?", ms(0)));
    ring.script.thinks(LlmAct::Write(vec!["😀 Yes. ", "It is. "], ms(1)));
    let began = ring.now();
    ring.stream(sound::voice(1_000)).await;
    pause(&ring).await;
    ring.pass(ms(0)).await;
    assert_eq!(ring.names(), [""; 0]);
    assert_eq!(prompts(&ring), ["Is it noon?"]);
    assert_eq!(ring.script.lines.lock().unwrap().len(), 2, "it is synthesised meanwhile");
    assert!(ring.script.lines.lock().unwrap()[0].0.elapsed() > ms(100));
    ring.stream(sound::silence(600)).await;
    ring.until("tts/stop").await;
    let [llm, start] = ["llm", "tts/start"]
        .map(|name| ring.log.iter().find(|down| down.what.name() == name).unwrap().at - began);
    assert!(llm > ms(1_600) && start - llm < ms(5), "{llm:?} {start:?}");
    assert_eq!(shown(&ring), ["Yes.", "It is."]);
    next_turn_works(&mut ring).await;
    assert_eq!(
        ring.script.last_prompt()[1..],
        ["User: Is it noon?", "Assistant: Yes. It is.", "User: hello there"]
    );
    ring.hang_up().await;
}

#[actix::test]
async fn who_goes_on_is_answered_to_all_they_said_and_the_attempt_leaves_no_trace() {
    let mut ring = listening("auto").await;
    ring.script.hears(AsrAct::Text("Tell me", ms(10)));
    ring.script.hears(AsrAct::Text("Tell me about cats.", ms(10)));
    ring.script.thinks(LlmAct::Write(vec!["Tell you what? ", "Well. "], ms(1)));
    ring.script.thinks(LlmAct::Write(vec!["Cats purr."], ms(1)));
    ring.stream(sound::voice(1_000)).await;
    pause(&ring).await;
    ring.stream(sound::voice(1_000)).await;
    ring.stream(sound::silence(1_200)).await;
    ring.until("tts/stop").await;
    assert_eq!(prompts(&ring), ["Tell me", "Tell me about cats."]);
    assert_eq!(shown(&ring), ["Cats purr."]);
    assert_eq!(transcripts(&ring), ["Tell me about cats."]);
    // The recogniser was given all of it the second time.
    let utterances = ring.script.utterances.lock().unwrap().clone();
    let [first, all] = utterances[..] else { panic!("{utterances:?}") };
    assert!(first > 18_000 && all > first + 20_000, "{utterances:?}");
    next_turn_works(&mut ring).await;
    assert_eq!(
        ring.script.last_prompt()[1..],
        ["User: Tell me about cats.", "Assistant: Cats purr.", "User: hello there"]
    );
    ring.hang_up().await;
}

#[actix::test]
async fn no_more_attempts_are_made_than_allowed_and_none_of_long_utterances() {
    for (longest, expected) in [(10_000, 3), (2_500, 1)] {
        let mut settings = PipelineSettings::default();
        settings.speculation.max_speech = ms(longest);
        let mut ring = listening_with(settings, "auto").await;
        for _ in 0..5 {
            ring.stream(sound::voice(900)).await;
            pause(&ring).await;
        }
        ring.stream(sound::silence(600)).await;
        ring.until("tts/stop").await;
        // The last one is the answer, unless no attempt was left for it.
        assert_eq!(prompts(&ring).len(), expected + 1, "{longest}");
        let utterances = ring.script.utterances.lock().unwrap().clone();
        assert!(utterances.last().unwrap() / 16 > 6_000, "all was recognised: {utterances:?}");
        next_turn_works(&mut ring).await;
        ring.hang_up().await;
    }
}

#[actix::test]
async fn tools_are_called_when_the_person_has_finished_and_only_then() {
    for goes_on in [false, true] {
        let called = Arc::default();
        crate::freeze();
        let tools: Vec<Arc<dyn ToolSource>> = sources(&called);
        let mut ring = TestPipeline::connect_with(PipelineSettings::default(), tools);
        ring.greet(1).await;
        start(&ring, "auto");
        ring.script.hears(AsrAct::Text("What time", ms(10)));
        ring.script.thinks(LlmAct::Call("", vec![("tell_time", "{}")]));
        ring.stream(sound::voice(1_000)).await;
        pause(&ring).await;
        assert_eq!(prompts(&ring), ["What time"]);
        assert_eq!(called.lock().unwrap().len(), 0, "not while they may go on");
        if goes_on {
            ring.stream(sound::voice(600)).await;
        }
        ring.stream(sound::silence(1_200)).await;
        ring.until("tts/stop").await;
        assert_eq!(called.lock().unwrap().len(), usize::from(!goes_on));
        assert_eq!(shown(&ring), ["Good day."]);
        next_turn_works(&mut ring).await;
        ring.hang_up().await;
    }
}

#[actix::test]
async fn while_a_call_waits_for_a_yes_nothing_is_attempted() {
    let called: Arc<Mutex<Vec<String>>> = Arc::default();
    crate::freeze();
    let mut ring = TestPipeline::connect_with(PipelineSettings::default(), sources(&called));
    ring.greet(1).await;
    start(&ring, "auto");
    ring.script.thinks(LlmAct::Call("", vec![("read_news", "{}")]));
    ring.script
        .thinks(LlmAct::Call("", vec![("self_camera_take_photo", r#"{"question":"who?"}"#)]));
    crate::speak(&ring).await;
    ring.until("tts/stop").await;
    assert_eq!(called.lock().unwrap().len(), 1, "the person is asked before the second");
    start(&ring, "auto");
    ring.script.hears(AsrAct::Text("Yes", ms(0)));
    let asked = prompts(&ring).len();
    ring.stream(sound::voice(1_000)).await;
    pause(&ring).await;
    assert_eq!((prompts(&ring).len(), called.lock().unwrap().len()), (asked, 1));
    ring.stream(sound::silence(600)).await;
    ring.until("tts/stop").await;
    assert_eq!(called.lock().unwrap().len(), 2);
    ring.hang_up().await;
}

#[actix::test]
async fn a_service_that_fails_in_a_pause_fails_once() {
    for (asr, llm) in [
        (AsrAct::Fail(Kind::Unavailable, ms(10)), None),
        (AsrAct::Fail(Kind::Timeout, ms(1_000)), None),
        (AsrAct::Text("hello", ms(0)), Some(LlmAct::Fail(Kind::Unavailable, ms(10)))),
        (AsrAct::Text("hello", ms(0)), Some(LlmAct::Fail(Kind::Timeout, ms(1_000)))),
    ] {
        let mut ring = listening("auto").await;
        let failing = format!("{asr:?}, {llm:?}");
        let asks = usize::from(llm.is_some());
        ring.script.hears(asr);
        ring.script.llm.lock().unwrap().extend(llm);
        ring.stream(sound::voice(1_000)).await;
        let silent = ring.now();
        ring.stream(sound::silence(1_200)).await;
        ring.until("tts/stop").await;
        let first = audio_times(&ring)[0] - silent;
        assert!(first < ms(1_700), "{failing}: {first:?}");
        let apology = if asks > 0 { "Sorry, something" } else { "抱歉" };
        assert!(shown(&ring)[0].contains(apology), "{failing}: {:?}", shown(&ring));
        assert_eq!(prompts(&ring).len(), asks, "{failing}");
        for _ in 0..10 {
            next_turn_works(&mut ring).await;
        }
        ring.hang_up().await;
    }
}

#[actix::test]
async fn an_attempt_that_failed_is_forgotten_when_the_person_goes_on() {
    let mut ring = listening("auto").await;
    ring.script.hears(AsrAct::Fail(Kind::Unavailable, ms(10)));
    ring.script.hears(AsrAct::Text("Tell me about", ms(10)));
    ring.script.thinks(LlmAct::Fail(Kind::Unavailable, ms(10)));
    ring.script.hears(AsrAct::Text("Tell me about cats.", ms(10)));
    for _ in 0..3 {
        ring.stream(sound::voice(900)).await;
        pause(&ring).await;
    }
    ring.stream(sound::silence(600)).await;
    ring.until("tts/stop").await;
    assert_eq!(prompts(&ring), ["Tell me about", "Tell me about cats."]);
    assert_eq!(shown(&ring), ["Good day."]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn a_turn_that_is_aborted_in_a_pause_ends_with_its_attempt() {
    for wait in [100, 5_000] {
        let mut ring = listening("auto").await;
        ring.script.hears(AsrAct::Text("Tell me a story.", ms(10)));
        ring.script.thinks(LlmAct::Write(vec!["Once. ", "Upon. "], ms(wait)));
        ring.stream(sound::voice(1_000)).await;
        pause(&ring).await;
        assert_eq!(prompts(&ring), ["Tell me a story."]);
        abort(&ring);
        ring.until("tts/stop").await;
        ring.pass(ms(10_000)).await;
        assert_eq!(ring.names(), ["tts/stop"]);
        next_turn_works(&mut ring).await;
        assert_eq!(ring.script.last_prompt()[1..], ["User: hello there"]);
        ring.hang_up().await;
    }
}

#[actix::test]
async fn an_attempt_ends_with_its_connection() {
    let ring = listening("auto").await;
    ring.script.hears(AsrAct::Text("Tell me a story.", ms(10)));
    ring.script.thinks(LlmAct::Write(vec!["Once. "], ms(60_000)));
    ring.stream(sound::voice(1_000)).await;
    pause(&ring).await;
    assert_eq!(prompts(&ring), ["Tell me a story."]);
    ring.hang_up().await;
}

#[actix::test]
async fn under_load_and_where_tokens_are_dear_nothing_is_attempted() {
    for dear in [false, true] {
        let mut settings = PipelineSettings::default();
        settings.speculation.max_price_per_million = if dear { -1.0 } else { 5.0 };
        let mut ring = listening_with(settings, "auto").await;
        let begun = Instant::now();
        let all_cores = move || begun.elapsed() * u32::try_from(cores()).unwrap_or(1);
        let loaded =
            (!dear).then(|| actix::spawn(ring.admission().clone().govern(all_cores, Vec::new)));
        ring.pass(ms(2_000)).await;
        ring.stream(sound::voice(1_000)).await;
        pause(&ring).await;
        assert_eq!(prompts(&ring), [""; 0]);
        ring.stream(sound::silence(600)).await;
        ring.until("tts/stop").await;
        assert_eq!(prompts(&ring).len(), 1);
        if let Some(loaded) = loaded {
            loaded.abort();
        }
        ring.hang_up().await;
    }
}

#[actix::test]
async fn at_the_limit_of_turns_nothing_is_attempted_and_an_attempt_frees_its_place() {
    let mut settings = PipelineSettings::default();
    settings.admission.max_turns = 1;
    let mut ring = listening_with(settings, "auto").await;
    let mut other = ring.again();
    other.greet(1).await;
    start(&other, "auto");
    // Both pause; the second one finds the only place taken.
    ring.stream(sound::voice(1_000)).await;
    pause(&ring).await;
    other.stream(sound::voice(1_000)).await;
    pause(&other).await;
    assert_eq!(prompts(&ring).len(), 1);
    ring.lose();
    other.stream(sound::silence(600)).await;
    other.until("tts/stop").await;
    assert_eq!(shown(&other), ["Good day."]);
    other.hang_up().await;
}

/// A recogniser that tells words while it listens, as of 100 ms ago, and takes 250 ms for the transcript.
const STREAMING: AsrAct = AsrAct::Streaming { lag: ms(100), finish: ms(250) };

#[actix::test]
async fn words_that_are_known_before_the_transcript_are_answered_sooner() {
    let mut seen = Vec::new();
    for act in [AsrAct::Text("Is it noon?", ms(250)), STREAMING] {
        let mut ring = listening_with(tries(3), "auto").await;
        ring.script.hears(act);
        ring.script.thinks(LlmAct::Write(vec!["Yes, it is."], ms(350)));
        let length = ms(900);
        let first = ms(150);
        let each = ms(5);
        ring.script.says(TtsAct::Audio { length, first, each });
        let (told, first) = answered(&mut ring).await;
        assert_eq!(prompts(&ring).len(), 1, "the same words are answered once");
        seen.push((told, first));
        next_turn_works(&mut ring).await;
        // The dialogue remembers what the device was shown.
        let remembered =
            ring.script.prompts.lock().unwrap().last().unwrap().messages[1].content.clone();
        let whole = remembered == "Is it noon?" || remembered.starts_with("Word ");
        assert!(whole && remembered.ends_with(['?', '.']), "{remembered}");
        ring.hang_up().await;
    }
    let [(_, plain), (_, streaming)] = seen[..] else { panic!("{seen:?}") };
    assert!(plain - streaming > ms(100), "{seen:?}");
}

#[actix::test]
async fn words_that_were_not_all_are_answered_anew() {
    let mut ring = listening_with(tries(3), "auto").await;
    // Of what was said in the last 500 ms nothing is known in the pause.
    ring.script.hears(AsrAct::Streaming { lag: ms(500), finish: ms(100) });
    let (_, first) = answered(&mut ring).await;
    let asked = prompts(&ring);
    assert!(asked.len() == 2 && asked[0] != asked[1] && first > ms(600), "{asked:?} {first:?}");
    let told = ring.log.iter().find(|down| down.what.name() == "stt").unwrap();
    assert_eq!(told.what.text(), asked[1]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn an_attempt_with_other_tools_than_the_model_has_now_is_not_used() {
    crate::freeze();
    let mut ring = TestPipeline::connect(PipelineSettings::default());
    ring.text(HELLO);
    initialized(&mut ring).await;
    let list = asked_for(&mut ring, "tools/list").await;
    start(&ring, "auto");
    ring.stream(sound::voice(1_000)).await;
    pause(&ring).await;
    assert_eq!((prompts(&ring).len(), offered(&ring)), (1, Vec::new()), "it is attempted");
    answer(&ring, &list, serde_json::json!({"tools": [tool(VOLUME)]}));
    ring.stream(sound::silence(600)).await;
    ring.until("tts/stop").await;
    assert_eq!(offered(&ring), ["self_audio_speaker_set_volume"]);
    assert_eq!(ring.script.reading.load(Ordering::Relaxed), 0, "nothing is read beside the reply");
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn an_attempt_that_is_dropped_leaves_the_language_as_it_was() {
    let mut ring = listening("auto").await;
    ring.script.hears(AsrAct::Text("Is it noon?", ms(0)));
    ring.stream(sound::voice(1_000)).await;
    pause(&ring).await;
    assert_eq!(prompts(&ring), ["Is it noon?"]);
    abort(&ring);
    ring.until("tts/stop").await;
    ring.text(r#"{"type":"listen","state":"detect","text":"你好，小智"}"#);
    ring.until("tts/stop").await;
    assert_eq!(shown(&ring), ["我在。"]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}
