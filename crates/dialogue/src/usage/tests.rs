//! Tests of usage counts and of their limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI8, Ordering};

use hearken_ports::role::RoleSettings;
use hearken_ports::{ChatMessage, LlmDelta, ProviderError, ProviderErrorKind, Role, Usage};
use jiff::civil::date;

use super::*;
use crate::testkit::ScriptedLlm;

fn meter(settings: UsageSettings) -> (UsageMeter, Arc<AtomicI8>) {
    let day = Arc::new(AtomicI8::new(1));
    let today = Arc::clone(&day);
    let meter = UsageMeter::new(settings, move || date(2026, 11, today.load(Ordering::Relaxed)));
    (meter, day)
}

fn tokens(tokens: u64) -> Used {
    Used { turns: 1, prompt_tokens: tokens, ..Used::default() }
}

fn role(daily_tokens: u64) -> AssignedRole {
    let settings = RoleSettings { daily_tokens: Some(daily_tokens), ..RoleSettings::default() };
    AssignedRole { role_id: "kids".into(), settings, ..AssignedRole::default() }
}

#[test]
fn each_limit_is_reached_by_its_own_sum_until_the_day_ends() {
    let settings =
        UsageSettings { device_tokens: 100, total_tokens: 300, ..UsageSettings::default() };
    let (meter, day) = meter(settings);
    let reached = |device: &str, role: Option<&AssignedRole>| {
        meter.reached(device, role).map(|reached| reached.of)
    };
    meter.count("voice", "a", "", &tokens(99));
    assert_eq!(reached("a", None), None);
    meter.count("voice", "a", "", &tokens(1));
    assert_eq!(reached("a", None), Some(LimitOf::Device));
    assert_eq!(reached("b", None), None);
    assert_eq!(reached("", None), None, "limits of devices are for devices");
    meter.count("voice", "b", "kids", &tokens(50));
    assert_eq!(reached("c", Some(&role(51))), None);
    assert_eq!(reached("c", Some(&role(50))), Some(LimitOf::Role));
    meter.count("text", "", "", &tokens(150));
    assert_eq!(reached("", None), Some(LimitOf::Total));
    day.store(2, Ordering::Relaxed);
    assert_eq!(reached("a", Some(&role(50))), None);
    assert_eq!(reached("a", Some(&role(0))), Some(LimitOf::Role), "0 of a role permits nothing");
}

#[test]
fn speech_costs_by_the_hour_and_by_the_character() {
    let settings = UsageSettings {
        asr_price_per_hour: 3.6,
        tts_price_per_million_chars: 10.0,
        total_cost: 0.02,
        ..UsageSettings::default()
    };
    let (meter, _) = meter(settings);
    let used = Used { heard_ms: 5_000, said_chars: 1_000, cost_nano: 4_999_999, ..Used::default() };
    meter.count("voice", "a", "", &used);
    assert_eq!(meter.reached("a", None), None);
    meter.count("voice", "a", "", &Used { cost_nano: 1, ..Used::default() });
    let reached = meter.reached("a", None);
    assert_eq!(reached, Some(LimitReached { of: LimitOf::Total, limit: Limited::Cost }));
    let [(_, sum)] = meter.take_unsaved().rows.try_into().unwrap();
    assert_eq!(sum.cost_nano, 5_000_000 + 10_000_000 + 5_000_000);
}

#[test]
fn unsaved_usage_counts_in_addition_to_usage_stored_by_other_instances() {
    let (meter, _) = meter(UsageSettings { total_tokens: 30, ..UsageSettings::default() });
    meter.count("voice", "a", "", &tokens(10));
    let rows = meter.take_unsaved();
    assert_eq!((rows.rows.len(), meter.take_unsaved()), (1, UnsavedUsage::default()));
    meter.count("voice", "a", "", &tokens(15));
    let key = |kind: &str, day| UsageKey {
        day: date(2026, 11, day),
        kind: kind.into(),
        client: String::new(),
        role_id: String::new(),
    };
    meter.set_stored(
        date(2026, 11, 1),
        &[(key("text", 1), tokens(14)), (key("text", 2), tokens(99))],
    );
    assert_eq!(meter.reached("", None), None);
    meter.count("text", "", "", &tokens(1));
    assert!(meter.reached("", None).is_some());
    let mut rows = meter.take_unsaved().rows;
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    let sums: Vec<_> = rows.iter().map(|(key, used)| (&*key.kind, used.prompt_tokens)).collect();
    assert_eq!(sums, [("text", 1), ("voice", 15)]);
}

#[test]
fn usage_of_excess_devices_counts_without_their_names() {
    let (meter, _) = meter(UsageSettings::default());
    let crowd = MAX_CLIENTS + 500;
    for number in 0..crowd {
        meter.count("voice", &number.to_string(), "", &tokens(1));
    }
    let rows = meter.take_unsaved().rows;
    assert_eq!(rows.len(), MAX_CLIENTS + 1);
    let sum: u64 = rows.iter().map(|(_, used)| used.turns).sum();
    assert_eq!(sum, u64::try_from(crowd).unwrap());
}

#[test]
fn usage_of_an_account_counts_from_when_its_request_began() {
    let (meter, _) = meter(UsageSettings::default());
    let began: Timestamp = "2026-11-01T08:00:00Z".parse().unwrap();
    let account = UsageAccount::new(meter.clone(), "voice", "a", None, began);
    account.count(&Usage { prompt_tokens: 7, ..Usage::default() });
    let unsaved = meter.take_unsaved();
    assert_eq!((unsaved.rows.len(), unsaved.since), (1, Some(began)));
}

#[test]
fn unreported_usage_is_estimated_and_implausible_usage_is_bounded() {
    let llm = ScriptedLlm(Arc::default());
    let prompt = Prompt {
        messages: vec![ChatMessage::new(Role::User, "现在几点了 o'clock")],
        ..Prompt::default()
    };
    let counted = |deltas: &[Result<LlmDelta, ProviderError>]| {
        let sum = Arc::new(Mutex::new(Used::default()));
        let adds = Arc::clone(&sum);
        let mut usage = ModelUsage::new(&prompt, &llm, move |usage| {
            adds.lock().unwrap().add(&(*usage).into());
        });
        for delta in deltas {
            usage.read(delta);
        }
        drop(usage);
        let used = *sum.lock().unwrap();
        (used.prompt_tokens, used.completion_tokens)
    };
    let finished = |usage| Ok(LlmDelta::Finished { truncated: false, usage });
    let told = |tokens| Some(Usage { prompt_tokens: tokens, completion_tokens: 1, cost_nano: 0 });
    let text = || Ok(LlmDelta::Text("It is ten.".into()));
    let failed = || Err(ProviderError::new("m", ProviderErrorKind::Timeout));
    assert_eq!(counted(&[text(), finished(told(9))]), (9, 1));
    assert_eq!(counted(&[text(), finished(Some(Usage::default()))]), (7, 3));
    assert_eq!(counted(&[text(), finished(None)]), (7, 3));
    assert_eq!(counted(&[text()]), (7, 3), "it was cut");
    assert_eq!(counted(&[failed()]), (0, 0));
    assert_eq!(counted(&[text(), failed()]), (7, 3));
    assert_eq!(counted(&[finished(told(u64::MAX))]), (100_000_000, 1));
}
