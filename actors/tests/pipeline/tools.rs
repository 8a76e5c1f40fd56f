//! Tool loop of a turn: rounds, mistakes of the model, slow tools and sounds meanwhile. Not for the
//! tools of a device, which are in `device_tools`.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::phrases::Phrase;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_dialogue::tools::{ToolPolicies, ToolPolicy};
use hearken_ports::{
    Described, ImageDescriber, Picture, ProviderError, ProviderErrorKind, Tool, ToolCall,
    ToolChoice, ToolContent, ToolError, ToolOutput, ToolSource, Usage,
};
use hearken_socket::testkit::Received;
use serde_json::json;
use tokio::time::Instant;

use crate::pauses::{STORY, says, told, words};
use crate::{abort, audio_times, freeze, ms, next_turn_works, shown, speak, start, transcripts};

/// Tool that waits as long as its arguments say, and records started and finished calls.
#[derive(Default)]
struct Waiting {
    begun: Arc<Mutex<Vec<(Instant, String)>>>,
    ended: Arc<Mutex<Vec<String>>>,
}

impl Waiting {
    fn ended(&self) -> Vec<String> {
        self.ended.lock().unwrap().clone()
    }
}

impl ToolSource for Waiting {
    fn name(&self) -> &str {
        "waiting"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let tool = |name: &str, finishes| Tool {
            name: name.into(),
            description: "Waits.".into(),
            parameters: json!({"type": "object", "properties": {"ms": {"type": "integer"}}, "required": ["ms"]}),
            finishes,
            destructive: false,
        };
        [tool("wait.here", false), tool("wait.on", true)].into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let begun = Arc::clone(&self.begun);
        let ended = Arc::clone(&self.ended);
        Box::pin(async move {
            begun.lock().unwrap().push((Instant::now(), call.name.clone()));
            tokio::time::sleep(ms(call.arguments["ms"].as_u64().unwrap())).await;
            ended.lock().unwrap().push(call.name);
            Ok(ToolOutput::text("waited"))
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(300)
    }
}

async fn listening_with(settings: PipelineSettings) -> (TestPipeline, Arc<Waiting>) {
    freeze();
    let source = Arc::new(Waiting::default());
    let mut pipeline = TestPipeline::connect_with(settings, vec![source.clone()]);
    pipeline.greet(1).await;
    start(&pipeline, "auto");
    pipeline.forget();
    (pipeline, source)
}

async fn listening() -> (TestPipeline, Arc<Waiting>) {
    listening_with(PipelineSettings::default()).await
}

fn last_result(pipeline: &TestPipeline) -> String {
    pipeline
        .script
        .last_prompt()
        .iter()
        .rev()
        .find_map(|m| m.strip_prefix("Tool: ").map(str::to_owned))
        .unwrap()
}

#[actix::test]
async fn words_before_a_call_are_spoken_at_once_and_remembered() {
    let (mut pipeline, _) = listening().await;
    pipeline.script.thinks(LlmAct::Call("😊 Let me look", vec![("wait_here", r#"{"ms": 1000}"#)]));
    pipeline.script.thinks(LlmAct::Write(vec!["It is done."], ms(10)));
    speak(&pipeline).await;
    let spoken = pipeline.until("tts/sentence_start").await;
    assert_eq!(spoken.what.text(), "Let me look");
    assert_eq!(pipeline.script.prompts.lock().unwrap().len(), 1, "spoken while the tool runs");
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Let me look", "It is done."]);
    next_turn_works(&mut pipeline).await;
    let prompt = pipeline.script.prompts.lock().unwrap().last().unwrap().clone();
    let told: Vec<&str> = prompt.messages[1..].iter().map(|m| m.content.as_str()).collect();
    assert_eq!(told, ["hello there", "Let me look", "waited", "It is done.", "hello there"]);
    assert_eq!(prompt.messages[2].calls[0].id, prompt.messages[3].answers);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_model_that_says_nothing_after_its_calls_is_not_apologised_for() {
    const SORRY: &str = "Sorry, something went wrong. Please try again.";
    for (said, shows, face) in [
        ("", "Done.", "neutral"),
        ("👌", "Done.", "neutral"),
        ("😊", "Done.", "happy"),
        ("…", "Done.", "neutral"),
    ] {
        let (mut pipeline, _) = listening().await;
        pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 10}"#)]));
        pipeline.script.thinks(LlmAct::Write(vec![said], ms(10)));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(shown(&pipeline), [shows], "{said}");
        let Received::Text(told) = &pipeline.log[1].what else { panic!("no face") };
        if said != "👌" {
            assert_eq!(told["emotion"], face, "{said}");
        }
        next_turn_works(&mut pipeline).await;
        assert_eq!(pipeline.script.last_prompt()[4], "Assistant: Done.");
        pipeline.hang_up().await;
    }
    // A failed call is not reported as done.
    let (mut pipeline, _) = listening().await;
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", "{}")]));
    pipeline.script.thinks(LlmAct::Write(vec![], ms(10)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), [SORRY]);
    pipeline.hang_up().await;
    let mut settings = PipelineSettings::default();
    settings.phrases.done = Phrase::new("", "");
    let (mut pipeline, _) = listening_with(settings).await;
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 10}"#)]));
    pipeline.script.thinks(LlmAct::Write(vec!["😊"], ms(10)));
    speak(&pipeline).await;
    pipeline.pass(ms(5_000)).await;
    assert_eq!(pipeline.names(), ["stt", "llm"], "silence");
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn calls_of_one_round_run_at_the_same_time() {
    let (mut pipeline, source) = listening().await;
    let call = ("wait_here", r#"{"ms": 1000}"#);
    pipeline.script.thinks(LlmAct::Call("", vec![call, call, call]));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    let begun = source.begun.lock().unwrap().clone();
    assert_eq!(begun.len(), 3);
    assert!(begun.iter().all(|(at, _)| *at - begun[0].0 < ms(10)));
    pipeline.hang_up().await;
}

#[actix::test]
async fn mistakes_in_a_call_are_reported_to_the_model_which_may_retry() {
    let (mut pipeline, source) = listening().await;
    for (name, arguments, result) in [
        (
            "wait_here",
            r#"{"ms": "long"}"#,
            r#"error: the arguments are wrong: /ms: "long" is not of type "integer""#,
        ),
        ("wait_here", "{}", r#"error: the arguments are wrong: "ms" is a required property"#),
        ("wait_here", "[1]", "error: the arguments are wrong: they are not a JSON object"),
        (
            "wait_here",
            r#"{"ms": "#,
            "error: the arguments are wrong: they are not JSON: EOF while parsing a value at line 1 column 7",
        ),
        ("wait.there", "{}", "error: there is no tool `wait_there`"),
    ] {
        pipeline.forget();
        start(&pipeline, "auto");
        pipeline.script.thinks(LlmAct::Call("", vec![(name, arguments)]));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(last_result(&pipeline), result);
        assert_eq!(shown(&pipeline), ["Good day."]);
    }
    assert!(source.begun.lock().unwrap().is_empty());
    pipeline.hang_up().await;
}

#[actix::test]
async fn after_ten_rounds_the_tools_are_still_offered_but_may_not_be_called() {
    let (mut pipeline, source) = listening().await;
    for _ in 0..11 {
        pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 1}"#)]));
    }
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(source.ended().len(), 10);
    let prompts = pipeline.script.prompts.lock().unwrap().clone();
    assert_eq!(prompts.len(), 11);
    let offered = |n: usize| (prompts[n].tools.len(), prompts[n].tool_choice);
    assert_eq!([offered(9), offered(10)], [(2, ToolChoice::Auto), (2, ToolChoice::None)]);
    assert_eq!(shown(&pipeline), ["Sorry, something went wrong. Please try again."]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_turn_has_a_time_limit_for_all_its_tools() {
    let mut settings = PipelineSettings::default();
    settings.tools.turn_total = Duration::from_secs(5);
    let (mut pipeline, source) = listening_with(settings).await;
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 100000}"#)]));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(last_result(&pipeline), "error: the tool did not answer within 5 s");
    assert_eq!(pipeline.script.prompts.lock().unwrap()[1].tool_choice, ToolChoice::None);
    assert_eq!(source.ended(), [""; 0]);
    pipeline.hang_up().await;
}

/// Returns every time from `from` to `to` in which a device that plays its packets as they arrive
/// is silent.
fn silences(pipeline: &TestPipeline, from: Duration, to: Duration) -> Vec<Duration> {
    const PACKET: Duration = ms(60);
    let mut quiet_from = from;
    let mut silences = Vec::new();
    for at in audio_times(pipeline).into_iter().filter(|at| *at < to) {
        silences.push(at.saturating_sub(quiet_from));
        quiet_from = quiet_from.max(at) + PACKET;
    }
    silences.push(to.saturating_sub(quiet_from));
    silences
}

#[actix::test]
async fn check_19_a_tool_of_200_s_is_bridged_and_the_connection_stays() {
    let mut settings = PipelineSettings::default();
    settings.tools.turn_total = Duration::from_secs(250);
    let (mut pipeline, _) = listening_with(settings).await;
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 200000}"#)]));
    speak(&pipeline).await;
    let asked = pipeline.until("stt").await.at;
    let bridged = pipeline.until("tts/sentence_start").await;
    assert_eq!(bridged.what.text(), "One moment, please.");
    let after = bridged.at - asked;
    assert!((ms(1_500)..ms(1_700)).contains(&after), "{after:?}");
    pipeline.until("tts/stop").await;
    let said = shown(&pipeline);
    assert_eq!(said.last().unwrap(), "Good day.");
    assert_eq!(said.iter().filter(|s| *s == "One moment, please.").count(), 1);
    assert!(said.iter().filter(|s| *s == "Still working on it.").count() > 30, "{said:?}");
    assert!(pipeline.now() - asked > Duration::from_secs(200));
    let longest = silences(&pipeline, asked, pipeline.now()).into_iter().max().unwrap();
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    assert!(!pipeline.log.iter().any(|d| matches!(d.what, Received::Closed(_))));
    next_turn_works(&mut pipeline).await;
    let told = pipeline.script.last_prompt();
    assert!(!told.iter().any(|m| m.contains("moment")), "fillers are not remembered: {told:?}");
    pipeline.hang_up().await;
}

/// A synthesiser with this delay before its sound.
fn sound(length_ms: u64, first_ms: u64) -> TtsAct {
    TtsAct::Audio { length: ms(length_ms), first: ms(first_ms), each: ms(5) }
}

/// Text of 20 s.
const LONG: &str = "This sentence is as long as a sentence can be that says in very many words that something \
    is looked up, although it is spoken by a voice that takes three seconds for all of it, so that \
    whoever counts its letters instead of its packets takes the silence after it for speech, and \
    says nothing for much too long";

#[actix::test]
async fn no_silence_within_a_tool_of_28_s_is_longer_than_5_s() {
    let fillers = |length_ms, first_ms| vec![sound(length_ms, first_ms); 12];
    let after = |first, rest: Vec<TtsAct>| [vec![first], rest].concat();
    // Sounds before, speaking times of these words and of the phrases, and the minimum silence
    // between the phrases.
    for (name, before, sounds, shortest) in [
        ("fast phrases", "", fillers(300, 10), 2_900),
        ("long phrases", "", fillers(6_000, 80), 2_900),
        ("slow phrases", "", fillers(900, 2_500), 2_500),
        ("phrases in pieces", "", vec![TtsAct::Pieces(vec![(ms(1_000), ms(200)); 5]); 12], 2_900),
        ("a fast voice before", LONG, after(sound(3_000, 80), fillers(900, 80)), 1_500),
        ("a slow voice before", "Well", after(sound(9_000, 80), fillers(900, 80)), 1_500),
        ("late words before", "Well", after(sound(900, 3_000), fillers(900, 80)), 1_500),
    ] {
        let (mut pipeline, source) = listening().await;
        for act in sounds {
            pipeline.script.says(act);
        }
        pipeline.script.thinks(LlmAct::Call(before, vec![("wait_here", r#"{"ms": 28000}"#)]));
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        let epoch = Instant::now() - pipeline.now();
        let from = source.begun.lock().unwrap()[0].0 - epoch;
        let all = silences(&pipeline, from, from + ms(28_000));
        let longest = all.iter().max().unwrap();
        assert!(*longest <= ms(5_000), "{name}: {longest:?}");
        // The first silence is before any speech, and the last one is ended by the tool.
        let between: Vec<&Duration> =
            all[1..all.len() - 1].iter().filter(|s| **s > ms(900)).collect();
        assert!(between.iter().all(|s| **s >= ms(shortest)), "{name}: {between:?}");
        let said = shown(&pipeline);
        let phrases = said.iter().filter(|s| s.contains("moment") || s.contains("Still")).count();
        assert!((3..=9).contains(&phrases), "{name}: {phrases}");
        eprintln!("{name}: {phrases} phrases, {longest:?} at most, {between:?} between");
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_quick_tool_is_not_bridged() {
    let (mut pipeline, _) = listening().await;
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 1400}"#)]));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Good day."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_interruption_cancels_all_calls_except_finishing_ones() {
    let (mut pipeline, source) = listening().await;
    let calls = vec![("wait_here", r#"{"ms": 5000}"#), ("wait_on", r#"{"ms": 5000}"#)];
    pipeline.script.thinks(LlmAct::Call("", calls));
    speak(&pipeline).await;
    pipeline.pass(ms(1_000)).await;
    abort(&pipeline);
    pipeline.pass(Duration::from_secs(10)).await;
    assert_eq!(source.begun.lock().unwrap().len(), 2);
    assert_eq!(source.ended(), ["wait.on"]);
    next_turn_works(&mut pipeline).await;
    let told = pipeline.script.last_prompt();
    assert_eq!(
        told[3],
        "Tool: error: the person interrupted; the call was cancelled, and may have had its effect"
    );
    assert_eq!(told[4], "Tool: the person interrupted; the call goes on without its result");
    pipeline.hang_up().await;
}

#[actix::test]
async fn noise_during_a_finishing_call_does_not_lose_its_result() {
    noise_while_a_call_runs("wait_on").await;
}

#[actix::test]
async fn noise_does_not_cancel_and_repeat_a_call() {
    noise_while_a_call_runs("wait_here").await;
}

async fn noise_while_a_call_runs(tool: &'static str) {
    let (mut pipeline, source) = listening().await;
    pipeline.script.hears(AsrAct::Text("Open the lock.", ms(10)));
    pipeline.script.hears(AsrAct::Text("", ms(10)));
    pipeline.script.thinks(LlmAct::Call("", vec![(tool, r#"{"ms": 5000}"#)]));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    pipeline.pass(ms(1_000)).await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(source.begun.lock().unwrap().len(), 1, "it is not called again");
    assert_eq!(last_result(&pipeline), "waited");
    assert_eq!(shown(&pipeline).last().unwrap(), "Good day.");
    next_turn_works(&mut pipeline).await;
    let told = pipeline.script.last_prompt();
    assert_eq!(
        told[1..5],
        ["User: Open the lock.", "Assistant: ", "Tool: waited", "Assistant: Good day."]
    );
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_running_call_continues_and_is_not_repeated_for_further_words() {
    let (mut pipeline, source) = listening().await;
    pipeline.script.hears(AsrAct::Text("The next song.", ms(10)));
    pipeline.script.hears(AsrAct::Text("Please.", ms(10)));
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 5000}"#)]));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    pipeline.pass(ms(1_000)).await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    let told = pipeline.script.last_prompt();
    assert_eq!(told[1], "User: The next song. Please.");
    assert_eq!(told[3], "Tool: the person interrupted; the call goes on without its result");
    pipeline.pass(Duration::from_secs(10)).await;
    assert_eq!(source.begun.lock().unwrap().len(), 1);
    assert_eq!(source.ended(), ["wait.here"]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn stop_words_over_the_confirmation_of_a_call_are_answered_if_they_may_be_a_command() {
    for (stop, is_command) in [
        ("停！", true),
        ("别放了。", true),
        ("Stop playing.", true),
        ("别说了。", false),
        ("Be quiet.", false),
    ] {
        let (mut pipeline, _) = listening().await;
        start(&pipeline, "realtime");
        pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 10}"#)]));
        pipeline.script.thinks(LlmAct::Write(STORY.to_vec(), ms(10)));
        for _ in STORY {
            pipeline.script.says(TtsAct::Audio { length: ms(2_400), first: ms(50), each: ms(1) });
        }
        speak(&pipeline).await;
        told(&mut pipeline, "tts/sentence_start", 2).await;
        pipeline.stream(sound::silence(1_200)).await;
        says(&mut pipeline, words(stop)).await;
        told(&mut pipeline, "tts/stop", if is_command { 2 } else { 1 }).await;
        pipeline.pass(ms(5_000)).await;
        assert_eq!(transcripts(&pipeline), ["hello there", stop]);
        let said = shown(&pipeline);
        let asked = pipeline.script.last_prompt();
        if is_command {
            assert_eq!(said.last().unwrap(), "Good day.", "{stop}");
            assert_eq!(asked.last().unwrap(), &format!("User: {stop}"));
        } else {
            assert!(said.iter().all(|text| text != "Good day."), "{stop}: {said:?}");
            assert_eq!(asked.last().unwrap(), "Tool: waited", "{stop}");
        }
        pipeline.hang_up().await;
    }
}

const CANCELLED: &str =
    "Tool: error: the person interrupted; the call was cancelled, and may have had its effect";

#[actix::test]
async fn a_stop_word_while_a_call_runs_cancels_it_and_gets_no_answer() {
    for (mode, stop, tool, ended, result) in [
        ("auto", "停！", "wait_here", 0, CANCELLED),
        ("auto", "Stop, please.", "wait_here", 0, CANCELLED),
        ("realtime", "停！", "wait_here", 0, CANCELLED),
        (
            "auto",
            "停！",
            "wait_on",
            1,
            "Tool: the person interrupted; the call goes on without its result",
        ),
    ] {
        let (mut pipeline, source) = listening().await;
        start(&pipeline, mode);
        pipeline.script.hears(AsrAct::Text("Open the garage.", ms(10)));
        pipeline.script.hears(AsrAct::Text(stop, ms(10)));
        pipeline.script.thinks(LlmAct::Call("", vec![(tool, r#"{"ms": 8000}"#)]));
        speak(&pipeline).await;
        pipeline.until("stt").await;
        pipeline.pass(ms(500)).await;
        speak(&pipeline).await;
        pipeline.pass(ms(12_000)).await;
        let case = format!("{mode} {stop} {tool}");
        assert_eq!(pipeline.names(), ["stt", "stt"], "{case}");
        assert_eq!(pipeline.script.prompts.lock().unwrap().len(), 1, "{case}");
        assert_eq!(
            (source.begun.lock().unwrap().len(), source.ended().len()),
            (1, ended),
            "{case}"
        );
        next_turn_works(&mut pipeline).await;
        assert_eq!(
            pipeline.script.last_prompt()[1..],
            ["User: Open the garage.", "Assistant: ", result, "User: hello there"],
            "{case}"
        );
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_stop_word_after_a_call_has_ended_keeps_its_result() {
    let (mut pipeline, source) = listening().await;
    pipeline.script.hears(AsrAct::Text("Open the garage.", ms(10)));
    pipeline.script.hears(AsrAct::Text("Stop!", ms(3_000)));
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 3000}"#)]));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    pipeline.pass(ms(500)).await;
    speak(&pipeline).await;
    pipeline.pass(ms(5_000)).await;
    assert_eq!((pipeline.names().len(), source.ended().len()), (2, 1));
    next_turn_works(&mut pipeline).await;
    assert_eq!(
        pipeline.script.last_prompt()[1..],
        ["User: Open the garage.", "Assistant: ", "Tool: waited", "User: hello there"]
    );
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_abort_while_the_person_goes_on_cancels_the_call_of_the_question() {
    for (tool, ended) in [("wait_here", 0), ("wait_on", 1)] {
        let (mut pipeline, source) = listening().await;
        pipeline.script.hears(AsrAct::Text("Open the garage.", ms(10)));
        pipeline.script.thinks(LlmAct::Call("", vec![(tool, r#"{"ms": 8000}"#)]));
        speak(&pipeline).await;
        pipeline.until("stt").await;
        pipeline.stream(hearken_audio::sound::voice(600)).await;
        abort(&pipeline);
        pipeline.pass(ms(12_000)).await;
        assert_eq!(
            (source.begun.lock().unwrap().len(), source.ended().len()),
            (1, ended),
            "{tool}"
        );
        next_turn_works(&mut pipeline).await;
        assert_eq!(pipeline.script.last_prompt()[1], "User: Open the garage.");
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_after_a_stop_word_are_answered_without_what_it_has_stopped() {
    let (mut pipeline, source) = listening().await;
    pipeline.script.hears(AsrAct::Text("Open the garage.", ms(10)));
    pipeline.script.hears(AsrAct::Text("停！", ms(1_500)));
    pipeline.script.hears(AsrAct::Text("What time is it?", ms(10)));
    pipeline.script.thinks(LlmAct::Call("", vec![("wait_here", r#"{"ms": 20000}"#)]));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    pipeline.pass(ms(500)).await;
    speak(&pipeline).await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(transcripts(&pipeline), ["Open the garage.", "停！", "What time is it?"]);
    assert_eq!(
        pipeline.script.last_prompt()[1..],
        ["User: Open the garage.", "Assistant: ", CANCELLED, "User: What time is it?"]
    );
    pipeline.pass(ms(20_000)).await;
    assert_eq!(source.ended(), [""; 0]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn noise_during_a_confirmed_finishing_call_does_not_lose_its_result() {
    noise_while_an_agreed_call_runs("wait_on").await;
}

#[actix::test]
async fn noise_does_not_cancel_a_confirmed_call_of_any_tool() {
    noise_while_an_agreed_call_runs("wait_here").await;
}

/// The person confirms a call, and noise is heard while it runs. The call is made once, and its
/// result reaches the model.
async fn noise_while_an_agreed_call_runs(tool: &'static str) {
    let mut settings = PipelineSettings::default();
    let patterns = [("waiting/*".to_owned(), ToolPolicy::Ask)].into();
    settings.tools.policies = ToolPolicies { patterns, ..ToolPolicies::default() }.into();
    let (mut pipeline, source) = listening_with(settings).await;
    pipeline.script.hears(AsrAct::Text("Open the lock.", ms(10)));
    pipeline.script.thinks(LlmAct::Call("", vec![(tool, r#"{"ms": 5000}"#)]));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(source.begun.lock().unwrap().len(), 0, "the person is asked first");
    start(&pipeline, "auto");
    pipeline.forget();
    pipeline.script.hears(AsrAct::Text("Yes.", ms(10)));
    pipeline.script.hears(AsrAct::Text("", ms(10)));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    pipeline.pass(ms(1_000)).await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(source.begun.lock().unwrap().len(), 1);
    assert_eq!(last_result(&pipeline), "waited");
    pipeline.hang_up().await;
}

#[actix::test]
async fn the_end_of_a_connection_cancels_all_calls_except_finishing_ones() {
    let (mut pipeline, source) = listening().await;
    let calls = vec![("wait_here", r#"{"ms": 5000}"#), ("wait_on", r#"{"ms": 5000}"#)];
    pipeline.script.thinks(LlmAct::Call("", calls));
    speak(&pipeline).await;
    pipeline.pass(ms(500)).await;
    assert_eq!(source.begun.lock().unwrap().len(), 2);
    pipeline.lose();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(source.ended(), ["wait.on"]);
    pipeline.hang_up().await;
}

/// Answers with a picture at once.
struct Camera;

impl ToolSource for Camera {
    fn name(&self) -> &str {
        "camera"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let name = "look".into();
        let description = "Takes a picture.".into();
        [Tool {
            name,
            description,
            parameters: json!({"type": "object"}),
            finishes: false,
            destructive: false,
        }]
        .into()
    }

    fn call(&self, _: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let picture = ToolContent::Image { mime_type: "image/png".into(), base64: "AA==".into() };
        let content = vec![ToolContent::Text("taken".into()), picture];
        Box::pin(async { Ok(ToolOutput { content, failed: false }) })
    }
}

/// Vision model that needs 3 s to describe a cat the first time, and fails the second time. Records
/// its questions.
#[derive(Default)]
struct Eye(Mutex<Vec<(String, Picture)>>);

impl ImageDescriber for Eye {
    fn describe(&self, question: &str, picture: Picture) -> BoxFuture<'static, Described> {
        let mut asked = self.0.lock().unwrap();
        asked.push((question.to_owned(), picture));
        let first = asked.len() == 1;
        Box::pin(async move {
            tokio::time::sleep(ms(3_000)).await;
            let dead = ProviderError::new("eye", ProviderErrorKind::Unavailable);
            let words = first.then(|| "a cat".to_owned()).ok_or(dead);
            Described { words, usage: Usage::default() }
        })
    }
}

#[actix::test]
async fn a_picture_is_described_by_a_vision_model_if_there_is_one() {
    freeze();
    let eye = Arc::new(Eye::default());
    let describer: Option<Arc<dyn ImageDescriber>> = Some(eye.clone());
    let settings = PipelineSettings::default();
    let mut pipeline =
        TestPipeline::connect_seeing(settings.clone(), vec![Arc::new(Camera)], describer);
    pipeline.greet(1).await;
    let look = async |pipeline: &mut TestPipeline| {
        pipeline.forget();
        start(pipeline, "auto");
        pipeline.script.thinks(LlmAct::Call("", vec![("look", "{}")]));
        speak(pipeline).await;
        pipeline.until("tts/stop").await;
        last_result(pipeline)
    };
    let told = look(&mut pipeline).await;
    assert_eq!(told, "taken\n[a picture, image/png, 0 kB, described by a model that sees: a cat]");
    assert_eq!(shown(&pipeline), ["One moment, please.", "Good day."], "looking is bridged too");
    let told = look(&mut pipeline).await;
    let note =
        "[a picture, image/png, 0 kB, which you cannot see: the vision model failed: unavailable]";
    assert_eq!(told, format!("taken\n{note}"));
    let picture = Picture { mime_type: "image/png".into(), base64: "AA==".into() };
    for (question, seen) in eye.0.lock().unwrap().iter() {
        assert!(question.ends_with("who has asked: hello there") && *seen == picture, "{question}");
    }
    pipeline.script.thinks(LlmAct::Call("", vec![("look", "{}")]));
    start(&pipeline, "auto");
    speak(&pipeline).await;
    pipeline.until("tts/start").await;
    abort(&pipeline);
    pipeline.until("tts/stop").await;
    next_turn_works(&mut pipeline).await;
    let cancelled =
        "Tool: error: the person interrupted; the call was cancelled, and may have had its effect";
    assert!(pipeline.script.last_prompt().iter().any(|told| told == cancelled));
    pipeline.hang_up().await;

    let mut blind = TestPipeline::connect_with(settings, vec![Arc::new(Camera)]);
    blind.greet(1).await;
    let told = look(&mut blind).await;
    assert_eq!(told, "taken\n[a picture, image/png, 0 kB, which you cannot see]");
    blind.hang_up().await;
}
