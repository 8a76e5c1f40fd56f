//! Tests of the stored calls and their outcomes.

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use hearken_ports::{
    ChatMessage, Llm, LlmDelta, Prompt, ProviderErrorKind, Role, ServiceHealth, Usage,
};

use super::*;

struct Model(Vec<Result<LlmDelta, ProviderErrorKind>>);

impl Llm for Model {
    fn reply(&self, _: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let told = self.0.clone().into_iter();
        let failed = |kind| ProviderError::new("model", kind);
        stream::iter(told.map(move |delta| delta.map_err(failed)).collect::<Vec<_>>()).boxed()
    }

    fn health(&self) -> ServiceHealth {
        ServiceHealth::default()
    }
}

fn prompt(words: &str) -> Prompt {
    let messages =
        vec![ChatMessage::new(Role::System, "be kind"), ChatMessage::new(Role::User, words)];
    Prompt { messages, max_tokens: 7, ..Prompt::default() }
}

fn text(text: &str) -> Result<LlmDelta, ProviderErrorKind> {
    Ok(LlmDelta::Text(text.into()))
}

#[tokio::test(start_paused = true)]
async fn requests_and_responses_are_stored_without_secrets() {
    let log = CallLog::new(true);
    let usage = Some(Usage { prompt_tokens: 3, completion_tokens: 2, cost_nano: 0 });
    let end = Ok(LlmDelta::Finished { truncated: false, usage });
    let long = "x".repeat(600);
    let model = log.llm(Arc::new(Model(vec![text("Yes. "), text(&long), end])));
    drop(model.reply(prompt("an unused prompt")));
    assert_eq!(log.last(None, 9), [], "nothing is sent before the reply is polled");
    let key = format!(r#"{{"api_key": "abcdefghijklmnop", "text": "{}"}}"#, "y".repeat(700));
    model.reply(prompt(&key)).collect::<Vec<_>>().await;
    let [call] = log.last(Some(TurnService::Llm), 9).try_into().unwrap();
    assert_eq!((call.number, call.outcome, call.error), (1, CallOutcome::Answered, None));
    let sent = &call.sent;
    assert_eq!((sent.messages, sent.tools, sent.max_tokens), (Some(2), Some(0), Some(7)));
    let told = sent.text.clone().unwrap();
    assert!(told.contains("***") && told.contains("yyy"), "{told}");
    assert!(!told.contains("abcdefghijklmnop") && told.chars().count() == MOST_CHARS, "{told}");
    assert_eq!(kept(&key[..100], true).as_deref(), Some("***"), "truncated JSON");
    let got = call.got.text.unwrap();
    assert!(got.starts_with("Yes. xxx") && got.chars().count() == MOST_CHARS, "{got}");
    assert_eq!((call.got.prompt_tokens, call.got.completion_tokens), (Some(3), Some(2)));
    assert!(call.first.is_some() && call.total.is_some());
}

#[tokio::test(start_paused = true)]
async fn each_outcome_of_a_call_is_recorded() {
    let log = CallLog::new(false);
    let failing = log.llm(Arc::new(Model(vec![text("Yes"), Err(ProviderErrorKind::Timeout)])));
    failing.reply(prompt("a")).collect::<Vec<_>>().await;
    let mut left = failing.reply(prompt("b"));
    left.next().await;
    let running = log.last(None, 1).remove(0);
    assert_eq!((running.number, running.outcome, running.total), (2, CallOutcome::Running, None));
    drop(left);
    let [cancelled, failed] = log.last(None, 9).try_into().unwrap();
    assert_eq!((cancelled.outcome, failed.outcome), (CallOutcome::Cancelled, CallOutcome::Failed));
    assert_eq!((failed.sent.text, failed.got.text), (None, None), "no words are stored");
    assert!(failed.error.unwrap().contains("model"));
    assert_eq!(log.last(Some(TurnService::Tts), 9), []);
}

#[test]
fn only_the_last_calls_of_each_service_are_stored() {
    let log = CallLog::new(true);
    drop(log.begin(TurnService::Asr, CallContent::default()));
    for _ in 0..MOST_CALLS + 5 {
        drop(log.begin(TurnService::Tts, CallContent::default()));
    }
    let all = log.last(None, 1_000);
    assert_eq!(all.len(), MOST_CALLS + 1);
    assert_eq!(all.last().unwrap().service, TurnService::Asr);
    assert_eq!(log.last(Some(TurnService::Tts), 3).len(), 3);
}
