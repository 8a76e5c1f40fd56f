//! Calls that need confirmation: a tool's result misleads the model, the server asks, and the
//! person's next words decide. Not for the words themselves, nor for patterns of policies.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::time::Duration;

use hearken_actors::messages::DeviceOrder;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_dialogue::testkit::answering::{Called, sources};
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_dialogue::tools::held_call::{HELD, NOT_AGREED};
use hearken_dialogue::tools::{ToolPolicies, ToolPolicy};
use hearken_dialogue::usage::{UsageMeter, UsageSettings};
use hearken_ports::usage::Used;
use hearken_ports::{Prompt, Role};
use hearken_proto::ids::DeviceId;
use jiff::civil::date;

use crate::{abort, freeze, ms, next_turn_works, shown, speak, start};

const PHOTO: (&str, &str) = ("self_camera_take_photo", r#"{"question":"who is there?"}"#);
const NEWS: (&str, &str) = ("read_news", "{}");
const DELETE: (&str, &str) = ("delete_file", r#"{"name":"a.txt"}"#);
const MAY_I: &str = "May I use the camera?";

struct Talk {
    pipeline: TestPipeline,
    called: Called,
}

impl Talk {
    async fn begin() -> Self {
        Self::with(PipelineSettings::default()).await
    }

    async fn with(settings: PipelineSettings) -> Self {
        freeze();
        let called = Called::default();
        let mut pipeline = TestPipeline::connect_with(settings, sources(&called));
        pipeline.greet(1).await;
        Self { pipeline, called }
    }

    /// The person says this, and the whole answer is played.
    async fn says(&mut self, words: &'static str) -> Vec<String> {
        self.pipeline.forget();
        start(&self.pipeline, "auto");
        self.pipeline.script.hears(AsrAct::Text(words, ms(10)));
        speak(&self.pipeline).await;
        self.pipeline.until("tts/stop").await;
        self.is_legal();
        shown(&self.pipeline)
    }

    /// The model makes these calls, one per round, before it answers the next words.
    fn calls(&self, calls: &[(&'static str, &'static str)]) {
        for call in calls {
            self.pipeline.script.thinks(LlmAct::Call("", vec![*call]));
        }
    }

    /// A result of the news makes the model want the camera: the person is asked.
    async fn asked() -> Self {
        let mut talk = Self::begin().await;
        talk.calls(&[NEWS, PHOTO]);
        assert_eq!(talk.says("What is the news?").await, [MAY_I]);
        assert_eq!(talk.called(), ["read_news {}"]);
        talk
    }

    fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }

    fn photos(&self) -> usize {
        self.called().iter().filter(|call| call.starts_with("self.camera")).count()
    }

    fn prompt(&self) -> Prompt {
        self.pipeline.script.prompts.lock().unwrap().last().unwrap().clone()
    }

    /// The last result that the model received.
    fn result(&self) -> String {
        let prompt = self.prompt();
        let result = prompt.messages.iter().rfind(|message| message.role == Role::Tool);
        result.map(|message| message.content.clone()).unwrap_or_default()
    }

    /// Panics if a model API would refuse the last prompt.
    fn is_legal(&self) {
        let mut ids = std::collections::HashSet::new();
        let prompt = self.prompt();
        let mut messages = prompt.messages.iter();
        while let Some(message) = messages.next() {
            assert_ne!(message.role, Role::Tool, "a result without its call");
            for call in &message.calls {
                assert!(ids.insert(call.id.clone()), "{call:?}");
                assert_eq!(messages.next().expect("a call without a result").answers, call.id);
            }
        }
    }

    /// Ten further turns work without using a camera.
    async fn goes_on(mut self) {
        let before = self.photos();
        for _ in 0..10 {
            next_turn_works(&mut self.pipeline).await;
            self.is_legal();
        }
        assert_eq!(self.photos(), before);
        self.pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_call_suggested_by_a_result_needs_consent_and_consent_takes_one_photo() {
    let mut talk = Talk::asked().await;
    assert_eq!(talk.says("Yes, please.").await, ["Good day."]);
    let photo = r#"self.camera.take_photo {"question":"who is there?"}"#;
    assert_eq!(talk.called(), ["read_news {}", photo]);
    let told: Vec<String> = talk.pipeline.script.last_prompt().split_off(5);
    assert_eq!(
        told,
        [
            format!("Tool: {HELD}"),
            format!("Assistant: {MAY_I}"),
            "User: Yes, please.".into(),
            "Assistant: ".into(),
            "Tool: a thief".into(),
        ]
    );
    assert_eq!(talk.says("Yes.").await, ["Good day."]);
    assert_eq!(talk.photos(), 1, "one confirmation allows one call");
    talk.goes_on().await;
}

#[actix::test]
async fn a_question_about_words_without_letters_is_in_the_language_of_the_conversation() {
    let mut talk = Talk::begin().await;
    talk.says("Good morning.").await;
    talk.calls(&[NEWS, PHOTO]);
    assert_eq!(talk.says("911").await, [MAY_I]);
    talk.says("Yes.").await;
    assert_eq!(talk.photos(), 1);
    talk.goes_on().await;
}

#[actix::test]
async fn anything_but_consent_drops_the_call_and_the_model_gets_an_error() {
    for words in ["No.", "What time is it?", "Yes, but not now.", "Okay, no."] {
        let mut talk = Talk::asked().await;
        assert_eq!(talk.says(words).await, ["Good day."]);
        assert_eq!((talk.photos(), talk.result().as_str()), (0, NOT_AGREED), "{words}");
        assert_eq!(talk.says("Yes.").await, ["Good day."]);
        assert_eq!(talk.photos(), 0, "{words}");
        talk.goes_on().await;
    }
}

#[actix::test]
async fn a_person_in_danger_is_answered_and_the_call_is_dropped() {
    for words in ["My baby is choking!", "宝宝噎住了！", "Yes, please, my dad collapsed."] {
        let mut talk = Talk::asked().await;
        talk.pipeline.script.urgent.lock().unwrap().push(words);
        talk.pipeline.script.thinks(LlmAct::Write(vec!["Call an ambulance."], ms(1)));
        assert_eq!(talk.says(words).await, ["Call an ambulance."]);
        let read = talk.pipeline.script.last_prompt().pop().unwrap();
        assert_eq!(read, format!("User: {words}"), "nothing is behind the words");
        assert_eq!(talk.says("Yes.").await, ["Good day."]);
        assert_eq!((talk.photos(), talk.result().as_str()), (0, NOT_AGREED), "{words}");
        talk.goes_on().await;
    }
}

#[actix::test]
async fn consent_after_a_minute_is_too_late() {
    for (seconds, photos) in [(50, 1), (60, 0)] {
        let mut talk = Talk::asked().await;
        talk.pipeline.pass(Duration::from_secs(seconds)).await;
        talk.says("Yes.").await;
        assert_eq!(talk.photos(), photos, "{seconds} s");
        talk.goes_on().await;
    }
}

#[actix::test]
async fn the_time_limit_for_consent_starts_when_the_question_was_heard() {
    let mut talk = Talk::begin().await;
    talk.calls(&[NEWS, PHOTO]);
    talk.pipeline.script.says(TtsAct::Audio { length: ms(70_000), first: ms(50), each: ms(1) });
    assert_eq!(talk.says("What is the news?").await, [MAY_I]);
    talk.says("Yes.").await;
    assert_eq!(talk.photos(), 1);
    talk.goes_on().await;
}

#[actix::test]
async fn the_model_is_informed_if_the_question_was_not_heard_completely() {
    let mut talk = Talk::asked().await;
    talk.pipeline.forget();
    let order = DeviceOrder::Say("Dinner is ready.".into());
    talk.pipeline.device_registry().order(&DeviceId::new("pipeline"), order).unwrap();
    talk.pipeline.until("tts/stop").await;
    talk.says("What time is it?").await;
    let told = talk.pipeline.script.last_prompt().join("\n");
    assert!(!told.contains(HELD) && told.contains("was made and its result was lost"), "{told}");
    talk.goes_on().await;
}

#[actix::test]
async fn a_question_that_was_cut_or_not_heard_is_not_confirmed_by_later_words() {
    for event in ["abort", "silence"] {
        let mut talk = Talk::begin().await;
        talk.calls(&[NEWS, PHOTO]);
        if event == "silence" {
            let kind = hearken_ports::ProviderErrorKind::Unavailable;
            talk.pipeline.script.says(TtsAct::Fail(kind, ms(10)));
        }
        start(&talk.pipeline, "auto");
        talk.pipeline.script.hears(AsrAct::Text("What is the news?", ms(10)));
        speak(&talk.pipeline).await;
        if event == "abort" {
            talk.pipeline.until("tts/sentence_start").await;
            abort(&talk.pipeline);
        }
        talk.pipeline.pass(ms(10_000)).await;
        talk.says("Yes.").await;
        assert_eq!(talk.photos(), 0, "{event}");
        talk.goes_on().await;
    }
}

#[actix::test]
async fn messages_spoken_meanwhile_drop_the_pending_call() {
    let mut talk = Talk::asked().await;
    talk.pipeline.forget();
    let order = DeviceOrder::Say("Dinner is ready. Say yes if you come.".into());
    talk.pipeline.device_registry().order(&DeviceId::new("pipeline"), order).unwrap();
    talk.pipeline.until("tts/stop").await;
    talk.says("Yes.").await;
    assert_eq!(talk.photos(), 0);
    talk.goes_on().await;
}

#[actix::test]
async fn a_camera_that_the_person_requests_is_used_at_once() {
    let mut talk = Talk::begin().await;
    talk.calls(&[("tell_time", "{}"), PHOTO, PHOTO]);
    assert_eq!(talk.says("What do you see?").await, ["Good day."]);
    assert_eq!(talk.photos(), 2, "neither the clock nor the camera itself needs consent");
    talk.calls(&[DELETE]);
    assert_eq!(
        talk.says("把它删掉").await,
        ["可以删除文件，", "name a点txt吗？"],
        "a picture needs consent"
    );
    assert_eq!(talk.says("可以的，谢谢").await, ["Good day."]);
    assert_eq!(talk.called().last().unwrap(), r#"delete_file {"name":"a.txt"}"#);
    talk.goes_on().await;
}

#[actix::test]
async fn a_result_of_an_earlier_turn_also_requires_consent() {
    let mut talk = Talk::begin().await;
    talk.calls(&[NEWS]);
    assert_eq!(talk.says("What is the news?").await, ["Good day."]);
    talk.calls(&[PHOTO]);
    assert_eq!(talk.says("Thank you.").await, [MAY_I]);
    assert_eq!(talk.photos(), 0);
    talk.goes_on().await;
}

#[actix::test]
async fn a_result_requires_consent_while_an_answer_made_from_it_is_remembered() {
    // Ten messages are remembered: the news with their results until the fifth turn, whose answer
    // is remembered until the tenth.
    for (turns_between, photos) in [(3, 0), (4, 0), (8, 0), (9, 1)] {
        let mut talk = Talk::begin().await;
        talk.calls(&[NEWS]);
        assert_eq!(talk.says("What is the news?").await, ["Good day."]);
        for _ in 0..turns_between {
            assert_eq!(talk.says("Thank you.").await, ["Good day."]);
        }
        talk.calls(&[PHOTO]);
        let said = talk.says("Well.").await;
        assert_eq!(talk.photos(), photos, "{turns_between}: {said:?}");
        talk.goes_on().await;
    }
}

#[actix::test]
async fn one_call_of_a_round_is_pending_and_the_others_run() {
    let mut talk = Talk::begin().await;
    talk.calls(&[NEWS]);
    talk.pipeline.script.thinks(LlmAct::Call("", vec![PHOTO, ("tell_time", "{}"), DELETE]));
    assert_eq!(talk.says("What is the news?").await, [MAY_I]);
    assert_eq!(talk.called(), ["read_news {}", "tell_time {}"]);
    talk.says("Sure.").await;
    assert_eq!((talk.photos(), talk.called().len()), (1, 3));
    let told = talk.pipeline.script.last_prompt().join("\n");
    assert!(told.contains("asked about another call now"), "{told}");
    talk.goes_on().await;
}

#[actix::test]
async fn configured_policies_apply_whatever_was_read() {
    let mut settings = PipelineSettings::default();
    let patterns = [
        ("board/*", ToolPolicy::Allow),
        ("press/delete_file", ToolPolicy::Never),
        ("clock/tell_time", ToolPolicy::Ask),
    ];
    let patterns = patterns.map(|(pattern, policy)| (pattern.to_owned(), policy)).into();
    settings.tools.policies = ToolPolicies { patterns, ..ToolPolicies::default() }.into();
    let mut talk = Talk::with(settings).await;
    talk.calls(&[NEWS, PHOTO, DELETE]);
    assert_eq!(talk.says("What is the news?").await, ["Good day."]);
    assert_eq!((talk.called().len(), talk.photos()), (2, 1));
    assert_eq!(talk.result(), "error: there is no tool `delete_file`");
    let offered: Vec<String> = talk.prompt().tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["self_camera_take_photo", "tell_time", "read_news"]);
    talk.calls(&[("tell_time", "{}")]);
    assert_eq!(talk.says("What time is it?").await, ["May I do something?"]);
    assert_eq!(talk.says("Yes.").await, ["Good day."]);
    assert_eq!(talk.called().last().unwrap(), "tell_time {}");
    talk.goes_on().await;
}

#[actix::test]
async fn invalid_arguments_are_reported_to_the_model_without_a_question() {
    let mut talk = Talk::begin().await;
    talk.calls(&[NEWS, ("self_camera_take_photo", r#"{"question": 1}"#)]);
    assert_eq!(talk.says("What is the news?").await, ["Good day."]);
    assert!(talk.result().starts_with("error: the arguments are wrong"), "{}", talk.result());
    talk.pipeline.hang_up().await;
}

#[actix::test]
async fn a_pending_call_is_listed_and_can_be_dropped_by_an_administrator() {
    let mut talk = Talk::asked().await;
    let calls = talk.pipeline.turn_journal().waiting().clone();
    let [(call, left)] = calls.all().try_into().unwrap();
    assert_eq!((call.kind, call.client.as_str()), ("voice", "pipeline"));
    assert_eq!((call.tool.as_str(), call.source.as_str()), ("self.camera.take_photo", "board"));
    assert_eq!((call.question.as_str(), call.arguments.as_str()), (MAY_I, PHOTO.1));
    assert!((ms(40_000)..=ms(60_000)).contains(&left), "{left:?}");
    assert!(
        !calls.drop_call("another") && calls.drop_call("pipeline") && !calls.drop_call("pipeline")
    );
    assert_eq!(calls.all(), []);
    talk.says("Yes.").await;
    assert_eq!((talk.photos(), talk.result().as_str()), (0, NOT_AGREED));

    // A call that is confirmed is no longer pending; one without an answer expires after a minute.
    talk.calls(&[NEWS, PHOTO]);
    talk.says("What is the news?").await;
    assert_eq!(calls.all().len(), 1);
    talk.says("Yes.").await;
    assert_eq!((talk.photos(), calls.all()), (1, vec![]));
    talk.calls(&[NEWS, PHOTO]);
    talk.says("What is the news?").await;
    talk.pipeline.pass(ms(61_000)).await;
    assert_eq!(calls.all(), []);
    assert!(!calls.drop_call("pipeline"));
}

#[actix::test]
async fn a_turn_that_a_limit_refuses_does_not_answer_a_question() {
    let mut talk = Talk::asked().await;
    let limits = UsageSettings { total_tokens: 1, ..UsageSettings::default() };
    let meter = UsageMeter::new(limits, || date(2026, 11, 1));
    meter.count("text", "", "", &Used { prompt_tokens: 1, ..Used::default() });
    talk.pipeline.turn_journal().count_with(meter.clone());
    assert_eq!(talk.says("No, never.").await.len(), 1);
    meter.settings().set(UsageSettings::default());
    talk.says("Yes.").await;
    assert_eq!(talk.photos(), 0, "the person had refused");
}
