//! Daily limits: clients that reach one get a polite notice and nothing else is spent; the next day
//! they are answered again. Not for sums, nor for their storage.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI8, Ordering};

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::testkit::{AsrAct, LlmAct};
use hearken_dialogue::turn_trace::Outcome;
use hearken_dialogue::usage::{UsageMeter, UsageSettings};
use hearken_ports::role::RoleSettings;
use hearken_ports::usage::Used;
use jiff::civil::date;

use crate::{freeze, listening_with, ms, next_turn_works, prompts, shown, speak, start};

/// Returns a listening device at a server with these limits, and the day of the month there.
async fn limited(usage: UsageSettings) -> (TestPipeline, UsageMeter, Arc<AtomicI8>) {
    let mut settings = PipelineSettings::default();
    settings.dialogue.language = hearken_base::language::Language::English;
    let pipeline = listening_with(settings, "auto").await;
    let day = Arc::new(AtomicI8::new(1));
    let today = Arc::clone(&day);
    let meter = UsageMeter::new(usage, move || date(2026, 11, today.load(Ordering::Relaxed)));
    pipeline.turn_journal().count_with(meter.clone());
    pipeline.script.hears(AsrAct::Text("Is it noon?", ms(0)));
    (pipeline, meter, day)
}

/// Speaks, and returns what was said in return.
async fn said(pipeline: &mut TestPipeline) -> Vec<String> {
    pipeline.forget();
    start(pipeline, "auto");
    speak(pipeline).await;
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(1)).await;
    let last = pipeline.turn_journal().last(1).pop().unwrap();
    vec![last.said.unwrap_or_default(), last.outcome.unwrap().name().to_owned()]
}

#[actix::test]
async fn a_limit_refuses_politely_until_the_day_ends_and_leaves_no_trace() {
    let usage = UsageSettings { device_tokens: 1, ..UsageSettings::default() };
    let (mut pipeline, meter, day) = limited(usage).await;
    pipeline.script.thinks(LlmAct::Write(vec!["Yes, it is."], ms(1)));
    assert_eq!(said(&mut pipeline).await, ["Yes, it is.", "answered"]);
    let asked = prompts(&pipeline).len();
    for _ in 0..3 {
        let told = said(&mut pipeline).await;
        assert_eq!(told, ["That was all for today. Let's talk again tomorrow.", "refused"]);
    }
    assert_eq!(prompts(&pipeline).len(), asked, "the model is not asked");
    assert_eq!(meter.used_today().refused, 3);
    day.store(2, Ordering::Relaxed);
    meter.settings().set(UsageSettings::default());
    for _ in 0..10 {
        next_turn_works(&mut pipeline).await;
    }
    let prompt = pipeline.script.last_prompt().join("\n");
    assert!(!prompt.contains("all for today"), "{prompt}");
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_person_in_danger_is_answered_above_every_limit() {
    let usage = UsageSettings { device_tokens: 1, ..UsageSettings::default() };
    let (mut pipeline, meter, _) = limited(usage).await;
    assert_eq!(said(&mut pipeline).await[1], "answered");
    assert_eq!(said(&mut pipeline).await[1], "refused");
    pipeline.script.urgent.lock().unwrap().push("Is it noon?");
    for _ in 0..3 {
        pipeline.script.hears(AsrAct::Text("Is it noon?", ms(0)));
        assert_eq!(said(&mut pipeline).await, ["Good day.", "answered"]);
    }
    pipeline.script.urgent.lock().unwrap().clear();
    assert_eq!(said(&mut pipeline).await[1], "refused", "other words are refused as before");
    assert_eq!(meter.used_today().refused, 2);
    pipeline.hang_up().await;
}

#[actix::test]
async fn the_limit_of_a_role_applies_from_the_next_turn() {
    let (mut pipeline, meter, _) = limited(UsageSettings::default()).await;
    let settings = RoleSettings { daily_seconds: Some(0), ..RoleSettings::default() };
    let role = AssignedRole { role_id: "kids".into(), settings, ..AssignedRole::default() };
    pipeline.script.style.lock().unwrap().role = Some(Arc::new(role));
    assert_eq!(said(&mut pipeline).await[1], "refused");
    pipeline.script.style.lock().unwrap().role = None;
    pipeline.script.thinks(LlmAct::Write(vec!["Yes, it is."], ms(1)));
    assert_eq!(said(&mut pipeline).await[1], "answered");
    let mut rows = meter.take_unsaved().rows;
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    let roles: Vec<_> = rows.iter().map(|(key, used)| (&*key.role_id, used.turns)).collect();
    assert_eq!(roles, [("", 1), ("kids", 1)]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_turn_counts_its_speech_and_its_tokens() {
    let (mut pipeline, meter, _) = limited(UsageSettings::default()).await;
    pipeline.script.thinks(LlmAct::Write(vec!["Yes, it is."], ms(1)));
    assert_eq!(said(&mut pipeline).await[1], "answered");
    let used = meter.used_today();
    assert_eq!((used.turns, used.refused), (1, 0));
    assert!((1_000..2_500).contains(&used.heard_ms), "{used:?}");
    assert!((500..3_000).contains(&used.said_ms), "{used:?}");
    assert_eq!(used.said_chars, 11);
    // The scripted provider reports no tokens: they are estimated.
    assert!(used.prompt_tokens > 10 && used.completion_tokens >= 3, "{used:?}");
    pipeline.hang_up().await;
}

#[actix::test]
async fn dropped_speculations_are_counted_and_silence_is_not() {
    let (mut pipeline, meter, _) = limited(UsageSettings::default()).await;
    pipeline.script.hears(AsrAct::Text("", ms(0)));
    pipeline.stream(sound::silence(1_200)).await;
    assert_eq!(meter.used_today(), Used::default());
    pipeline.script.hears(AsrAct::Text("Is it", ms(0)));
    pipeline.script.thinks(LlmAct::Write(vec!["What is it that you mean?"], ms(1)));
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(540)).await;
    pipeline.script.hears(AsrAct::Text("Is it noon?", ms(0)));
    pipeline.script.thinks(LlmAct::Write(vec!["Yes."], ms(1)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(1)).await;
    let turn = pipeline.turn_journal().last(1).pop().unwrap();
    assert_eq!(turn.outcome, Some(Outcome::Answered));
    let both = meter.used_today();
    assert!(both.completion_tokens > 6, "both answers count: {both:?}");
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_empty_phrase_is_silence() {
    freeze();
    let mut settings = PipelineSettings::default();
    (settings.phrases.limit.zh, settings.phrases.limit.en) = (String::new(), String::new());
    let mut pipeline = listening_with(settings, "auto").await;
    let limits = UsageSettings { total_tokens: 1, ..UsageSettings::default() };
    let meter = UsageMeter::new(limits, || date(2026, 11, 1));
    meter.count("text", "", "", &Used { prompt_tokens: 1, ..Used::default() });
    pipeline.turn_journal().count_with(meter.clone());
    pipeline.script.hears(AsrAct::Text("Is it noon?", ms(0)));
    start(&pipeline, "auto");
    speak(&pipeline).await;
    pipeline.pass(ms(3_000)).await;
    assert_eq!(shown(&pipeline), [""; 0]);
    meter.settings().set(UsageSettings::default());
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}
