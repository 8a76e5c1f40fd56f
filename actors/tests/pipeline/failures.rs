//! Providers that fail, in every way: an apology, `tts stop`, and the next turn works.

use std::sync::Arc;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_dialogue::turn_rate::TurnRates;
use hearken_ports::ProviderErrorKind as Kind;
use hearken_ports::role::RoleSettings;
use hearken_socket::testkit::Received;
use tokio::time::Instant;

use crate::{
    freeze, listening, listening_with, ms, next_turn_works, shown, speak, start, transcripts,
};

const SORRY: &str = "Sorry, something went wrong. Please try again.";

async fn apologises(mut pipeline: TestPipeline, shows: &[&str], audible: bool) {
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), shows);
    let spoken = pipeline.names().iter().any(|n| n == "audio");
    assert_eq!(spoken, audible, "{:?}", pipeline.names());
    let faces = pipeline.log.iter().filter(|down| down.what.name() == "llm").count();
    assert_eq!(faces, 1, "an apology has an emotion: {:?}", pipeline.names());
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_20_a_recogniser_that_fails_is_apologised_for() {
    for act in [
        AsrAct::Refuse,
        AsrAct::Reset,
        AsrAct::Fail(Kind::Timeout, ms(30_000)),
        AsrAct::Fail(Kind::Protocol, ms(10)),
        AsrAct::Fail(Kind::Unauthorized, ms(10)),
    ] {
        let pipeline = listening("auto").await;
        pipeline.script.hears(act);
        // No words were recognised, so the language is the deployment's.
        apologises(pipeline, &["抱歉，我这边出了点问题，请再说一遍。"], true).await;
    }
}

#[actix::test]
async fn check_20_a_model_that_fails_before_the_first_word_is_apologised_for() {
    for act in [
        LlmAct::Fail(Kind::Unavailable, ms(0)),
        LlmAct::Fail(Kind::Timeout, ms(30_000)),
        LlmAct::Fail(Kind::RateLimited, ms(10)),
        LlmAct::Write(vec![], ms(10)),
        LlmAct::Write(vec!["…", "**", "\n---\n"], ms(10)),
        LlmAct::Break("", Kind::Protocol),
    ] {
        let pipeline = listening("auto").await;
        pipeline.script.thinks(act);
        apologises(pipeline, &[SORRY], true).await;
    }
}

#[actix::test]
async fn a_model_that_breaks_off_is_apologised_for_after_its_words() {
    let pipeline = listening("auto").await;
    pipeline.script.thinks(LlmAct::Break("First this. Then th", Kind::Unavailable));
    apologises(pipeline, &["First this.", "Then th", SORRY], true).await;
}

#[actix::test]
async fn check_20_a_synthesiser_that_fails_once_is_apologised_for_aloud() {
    for act in [
        TtsAct::Fail(Kind::Unavailable, ms(0)),
        TtsAct::Fail(Kind::Timeout, ms(30_000)),
        TtsAct::Fail(Kind::Protocol, ms(10)),
        TtsAct::Break(Kind::Unavailable),
    ] {
        let pipeline = listening("auto").await;
        pipeline.script.says(act);
        apologises(pipeline, &["Good day.", SORRY], true).await;
    }
}

#[actix::test]
async fn check_20_a_synthesiser_that_is_down_is_apologised_for_on_the_display() {
    let pipeline = listening("auto").await;
    pipeline.script.says(TtsAct::Fail(Kind::Unavailable, ms(0)));
    pipeline.script.says(TtsAct::Fail(Kind::Unavailable, ms(0)));
    apologises(pipeline, &["Good day.", SORRY], false).await;
}

/// Gives the device a role with this voice.
fn in_voice(pipeline: &TestPipeline, voice: &str) {
    let settings = RoleSettings { voice: voice.into(), ..RoleSettings::default() };
    let role = AssignedRole { settings, ..AssignedRole::default() };
    let style = &pipeline.script.style;
    style.lock().expect("no test panics while it holds it").role = Some(Arc::new(role));
}

/// Returns the voices and sentences that the synthesiser got since the last call.
fn requests(pipeline: &TestPipeline) -> Vec<(String, String)> {
    let mut voices = pipeline.script.voices.lock().expect("no test panics while it holds them");
    let mut lines = pipeline.script.lines.lock().expect("no test panics while it holds them");
    let voices = voices.drain(..).map(|voice| voice.to_string());
    voices.zip(lines.drain(..).map(|(_, line)| line)).collect()
}

fn request(voice: &str, line: &str) -> (String, String) {
    (voice.into(), line.into())
}

#[actix::test]
async fn a_voice_that_fails_in_any_way_is_replaced_by_the_configured_one_for_a_while() {
    for kind in [Kind::Fault, Kind::Unauthorized, Kind::Unavailable, Kind::BadRequest] {
        let mut pipeline = listening("auto").await;
        in_voice(&pipeline, "nova");
        pipeline.script.says(TtsAct::Fail(kind, ms(10)));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(shown(&pipeline), ["Good day."], "{kind}");
        assert!(pipeline.names().iter().any(|name| name == "audio"), "{kind}");
        assert_eq!(requests(&pipeline), [request("nova", "Good day."), request("", "Good day.")]);
        next_turn_works(&mut pipeline).await;
        assert_eq!(requests(&pipeline), [request("", "Good day.")], "it is not tried each time");
        pipeline.pass(ms(30_000)).await;
        next_turn_works(&mut pipeline).await;
        assert_eq!(requests(&pipeline), [request("nova", "Good day.")], "it is tried again");
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn the_apology_of_a_role_with_a_voice_is_that_of_the_configured_voice_if_synthesis_fails() {
    for kind in [Kind::Unavailable, Kind::Timeout] {
        let pipeline = listening("auto").await;
        in_voice(&pipeline, "nova");
        pipeline.script.says(TtsAct::Fail(kind, ms(10)));
        if kind != Kind::Timeout {
            pipeline.script.says(TtsAct::Fail(kind, ms(10)));
        }
        // The script speaks the apology, as the cache does while the synthesiser is down.
        let script = Arc::clone(&pipeline.script);
        apologises(pipeline, &["Good day.", SORRY], true).await;
        let voices = script.voices.lock().unwrap().clone();
        let lines = script.lines.lock().unwrap().iter().map(|(_, line)| line.clone()).collect();
        let asked: Vec<(Arc<str>, String)> = voices.into_iter().zip::<Vec<String>>(lines).collect();
        let again = (kind != Kind::Timeout).then_some(("", "Good day."));
        // The wait after a timeout is not doubled.
        let expected = [("nova", "Good day.")].into_iter().chain(again);
        let expected = expected.chain([("", SORRY), ("", "Good day.")]);
        assert!(asked.iter().map(|(voice, line)| (&**voice, &**line)).eq(expected), "{asked:?}");
    }
}

#[actix::test]
async fn a_fixed_phrase_in_a_voice_that_fails_is_spoken_in_the_configured_one() {
    for kind in [Kind::Unavailable, Kind::Timeout] {
        let mut pipeline = listening("auto").await;
        in_voice(&pipeline, "nova");
        pipeline.script.says(TtsAct::Fail(kind, ms(10)));
        pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
        pipeline.until("tts/stop").await;
        let greeting = shown(&pipeline).remove(0);
        assert_eq!(requests(&pipeline), [request("nova", &greeting), request("", &greeting)]);
        assert!(pipeline.names().iter().any(|name| name == "audio"));
        pipeline.forget();
        pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
        pipeline.until("tts/stop").await;
        assert_eq!(shown(&pipeline), [greeting]);
        assert_eq!(requests(&pipeline), [], "its packets are cached in the configured voice");
        pipeline.hang_up().await;
    }
}

/// The person hears the rest of the answer, and only that is remembered.
#[actix::test]
async fn a_sentence_that_the_synthesiser_refuses_is_skipped() {
    for (acts, shows, remembered) in [
        ([None, Some(TtsAct::Fail(Kind::BadRequest, ms(10))), None], 3, "One is here. Three."),
        ([Some(TtsAct::Fail(Kind::Timeout, ms(9_000))), None, None], 3, "Two is there. Three."),
        ([None, None, Some(TtsAct::Break(Kind::Protocol))], 3, "One is here. Two is there. Thr"),
    ] {
        let mut pipeline = listening("auto").await;
        pipeline.script.thinks(LlmAct::Write(vec!["One is here. Two is there. Three."], ms(10)));
        let sound = TtsAct::Audio { length: ms(900), first: ms(80), each: ms(5) };
        for act in acts {
            pipeline.script.says(act.unwrap_or(sound.clone()));
        }
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(shown(&pipeline).len(), shows, "{:?}", shown(&pipeline));
        let ends = pipeline.names().iter().filter(|n| *n == "tts/sentence_end").count();
        assert_eq!(ends, shows, "each sentence that is shown has its end");
        next_turn_works(&mut pipeline).await;
        let told = pipeline.script.last_prompt();
        let answer = told[2].strip_prefix("Assistant: ").unwrap();
        assert!(answer.starts_with(remembered.trim_end_matches(" Thr")), "{answer}");
        assert!(!answer.contains("Three.") || remembered.contains("Three."), "{answer}");
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn after_two_refused_sentences_the_synthesiser_gets_only_an_apology() {
    let mut pipeline = listening("auto").await;
    pipeline
        .script
        .thinks(LlmAct::Write(vec!["One. ", "Two. ", "Three. ", "Four. ", "Five."], ms(300)));
    let sound = TtsAct::Audio { length: ms(900), first: ms(80), each: ms(5) };
    pipeline.script.says(sound);
    pipeline.script.says(TtsAct::Fail(Kind::Unavailable, ms(10)));
    pipeline.script.says(TtsAct::Fail(Kind::Unavailable, ms(10)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["One.", "Two.", "Three.", SORRY]);
    next_turn_works(&mut pipeline).await;
    assert_eq!(pipeline.script.last_prompt()[2], "Assistant: One.");
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_answer_of_only_emoji_shows_an_emotion() {
    for (written, emotion) in [("😊", "happy"), (" 🎉🎉 ", "happy"), ("🦖", "neutral")] {
        let mut pipeline = listening("auto").await;
        pipeline.script.thinks(LlmAct::Write(vec![written], ms(10)));
        speak(&pipeline).await;
        pipeline.until("llm").await;
        pipeline.pass(ms(5_000)).await;
        assert_eq!(pipeline.names(), ["stt", "llm"], "{written}");
        let Received::Text(face) = &pipeline.log[1].what else { panic!("no face") };
        assert_eq!(face["emotion"], emotion);
        next_turn_works(&mut pipeline).await;
        assert_eq!(pipeline.script.last_prompt()[1..], ["User: hello there"]);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_synthesiser_that_panics_ends_the_connection() {
    let mut pipeline = listening("auto").await;
    pipeline.script.says(TtsAct::Panic);
    speak(&pipeline).await;
    pipeline.pass(ms(3_000)).await;
    let ended = |name: &String| name.starts_with("closed") || name == "gone";
    assert!(pipeline.names().iter().any(ended), "{:?}", pipeline.names());
    pipeline.hang_up().await;
}

#[actix::test]
async fn slow_providers_are_awaited() {
    let pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("hello there", ms(20_000)));
    pipeline.script.thinks(LlmAct::Write(vec!["Slow but ", "sure."], ms(10_000)));
    pipeline.script.says(TtsAct::Audio { length: ms(600), first: ms(20_000), each: ms(300) });
    apologises(pipeline, &["Slow but sure."], true).await;
}

#[actix::test]
async fn check_23_garbage_from_the_device_is_ignored() {
    let mut pipeline = listening("auto").await;
    for text in [
        "",
        "{",
        "[]",
        "{\"type\":7}",
        r#"{"type":"listen","state":"later"}"#,
        r#"{"type":"mcp","payload":"x"}"#,
    ] {
        pipeline.text(text);
    }
    for bytes in [&[][..], &[0xff; 3][..], &[1][..], &[0x55; 900][..]] {
        pipeline.packet(bytes::Bytes::copy_from_slice(bytes));
    }
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_turn_over_the_limit_gets_the_busy_phrase_at_once() {
    let admission = AdmissionSettings { max_turns: 1, ..AdmissionSettings::default() };
    let settings = PipelineSettings { admission, ..PipelineSettings::default() };
    let busy = [settings.phrases.busy.zh.clone()];
    let mut pipeline = listening_with(settings, "manual").await;
    let somebody_else = pipeline.admission().try_acquire().expect("no turn is running");
    pipeline.stream(sound::voice(600)).await;
    let ended = Instant::now();
    pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    pipeline.until("tts/start").await;
    assert!(ended.elapsed() < ms(100), "{:?}", ended.elapsed());
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), busy);
    pipeline.forget();
    pipeline.text(r#"{"type":"listen","state":"detect","text":"几点了"}"#);
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), busy);
    assert!(pipeline.script.prompts.lock().unwrap().is_empty(), "the model was asked");
    drop(somebody_else);
    for _ in 0..3 {
        next_turn_works(&mut pipeline).await;
    }
    assert!(pipeline.admission().try_acquire().is_some(), "a turn that is over holds no permit");
    pipeline.hang_up().await;
}

/// Returns a listening device with at most two turns a minute, and this many utterances a minute of
/// its address.
async fn limited(turns_per_address: u32) -> TestPipeline {
    freeze();
    let limits = AdmissionSettings {
        turns_per_minute: 2,
        turns_per_address,
        ..AdmissionSettings::default()
    };
    let rates = TurnRates::new(&limits);
    let mut pipeline = TestPipeline::connect_at(PipelineSettings::default(), rates);
    pipeline.greet(1).await;
    start(&pipeline, "auto");
    pipeline.forget();
    pipeline
}

#[actix::test]
async fn a_person_in_danger_is_answered_though_turns_come_too_fast() {
    let mut pipeline = limited(600).await;
    let urgent = "My baby is choking!";
    let detected = format!(r#"{{"type":"listen","state":"detect","text":"{urgent}"}}"#);
    let busy = [PipelineSettings::default().phrases.busy.en];
    for _ in 0..2 {
        next_turn_works(&mut pipeline).await;
    }
    pipeline.script.urgent.lock().unwrap().push(urgent);
    // Spoken and typed words are judged alike, and count in one rate.
    for number in 0..6 {
        pipeline.forget();
        if number % 2 == 0 {
            start(&pipeline, "auto");
            pipeline.script.hears(AsrAct::Text(urgent, ms(10)));
            speak(&pipeline).await;
        } else {
            pipeline.text(&detected);
        }
        pipeline.until("tts/stop").await;
        assert_eq!(shown(&pipeline), ["Good day."], "{number}");
        assert_eq!(transcripts(&pipeline), [urgent], "{number}");
    }
    // A client that repeats it is refused, until some of the minute is over.
    let mut refused = 0;
    for _ in 0..20 {
        pipeline.forget();
        pipeline.text(&detected);
        pipeline.until("tts/stop").await;
        refused += usize::from(shown(&pipeline) == busy);
    }
    assert!(refused > 0);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_person_in_danger_is_answered_by_a_busy_server() {
    let settings = PipelineSettings {
        admission: AdmissionSettings { max_turns: 1, ..AdmissionSettings::default() },
        ..PipelineSettings::default()
    };
    let mut pipeline = listening_with(settings, "manual").await;
    let somebody_else = pipeline.admission().try_acquire().expect("no turn is running");
    pipeline.script.urgent.lock().unwrap().push("厨房着火了");
    for (words, expected) in [("厨房着火了", true), ("几点了", false)] {
        pipeline.forget();
        pipeline.text(&format!(r#"{{"type":"listen","state":"detect","text":"{words}"}}"#));
        pipeline.until("tts/stop").await;
        assert_eq!(shown(&pipeline) == ["Good day."], expected, "{words}");
    }
    drop(somebody_else);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn noise_uses_up_no_turns_of_a_device_and_is_never_answered() {
    let mut pipeline = limited(60).await;
    let busy = [PipelineSettings::default().phrases.busy.en];
    for _ in 0..5 {
        pipeline.script.hears(AsrAct::Text("。", ms(10)));
        speak(&pipeline).await;
        pipeline.pass(ms(500)).await;
    }
    assert_eq!(pipeline.names(), [""; 0]);
    for _ in 0..2 {
        next_turn_works(&mut pipeline).await;
    }
    pipeline.forget();
    start(&pipeline, "auto");
    pipeline.script.hears(AsrAct::Text("。", ms(10)));
    speak(&pipeline).await;
    pipeline.pass(ms(500)).await;
    assert_eq!(pipeline.names(), [""; 0], "the device has no turn left, and noise needs none");
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), busy, "words are answered");
    assert_eq!(pipeline.script.prompts.lock().unwrap().len(), 2);
    pipeline.hang_up().await;
}

#[actix::test]
async fn utterances_beyond_the_rate_of_their_address_are_neither_recognised_nor_answered() {
    let mut pipeline = limited(3).await;
    for _ in 0..6 {
        pipeline.script.hears(AsrAct::Text("", ms(10)));
        speak(&pipeline).await;
        pipeline.pass(ms(500)).await;
    }
    assert_eq!(pipeline.names(), [""; 0]);
    assert_eq!(pipeline.script.utterances.lock().unwrap().len(), 3);
    let turns = pipeline.turn_journal().last(9);
    let refused = turns.iter().filter(|turn| turn.outcome.is_some_and(|o| o.name() == "refused"));
    assert_eq!(refused.count(), 3, "{turns:?}");
    pipeline.pass(ms(60_000)).await;
    pipeline.script.asr.lock().unwrap().clear();
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}
