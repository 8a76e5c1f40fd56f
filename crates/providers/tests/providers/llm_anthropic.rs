//! The language model's contract, at Anthropic's Messages API.

use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt};
use hearken_base::Secret;
use hearken_ports::{
    ChatMessage, LlmDelta, OfferedTool, Prompt, ProviderError, ProviderErrorKind, Role, Usage,
};
use hearken_providers::{LlmProvider, LlmSettings};
use hearken_test_support::vendors::{AnthropicMessages, Behaviour, nowhere};
use serde_json::{Value, json};

use super::{check_failure, failures};

const REPLY: &str = "你好！今天 it is sunny.";

fn settings(base_url: String) -> LlmSettings {
    LlmSettings {
        provider: LlmProvider::Anthropic,
        base_url,
        model: "claude".into(),
        connect_timeout_ms: 1_000,
        first_token_timeout_ms: 800,
        idle_timeout_ms: 1_000,
        retry_within_ms: 0,
        ..LlmSettings::default()
    }
}

fn prompt(asked: &str) -> Prompt {
    let messages = vec![
        ChatMessage::new(Role::System, "Be brief."),
        ChatMessage::new(Role::User, "你好"),
        ChatMessage::new(Role::Assistant, "Hi."),
        ChatMessage::new(Role::User, asked),
    ];
    Prompt { messages, max_tokens: 40, temperature: 0.5, ..Prompt::default() }
}

async fn hear(settings: &LlmSettings) -> Result<Vec<LlmDelta>, ProviderError> {
    let llm = hearken_providers::llm(settings).expect("the settings are right");
    llm.reply(prompt("Weather?")).try_collect().await
}

fn check_reply(deltas: &[LlmDelta]) {
    let (last, words) = deltas.split_last().unwrap();
    let pieces = u64::try_from(words.len()).unwrap();
    let usage = Some(Usage { prompt_tokens: 12, completion_tokens: pieces, cost_nano: 0 });
    assert_eq!(*last, LlmDelta::Finished { truncated: false, usage });
    assert!(words.len() > 1, "the reply is streamed");
    let text = words.iter().map(|delta| match delta {
        LlmDelta::Text(text) => text.as_str(),
        other => panic!("no text: {other:?}"),
    });
    assert_eq!(text.collect::<String>(), REPLY);
}

#[tokio::test]
async fn a_reply_arrives_in_pieces() {
    let stub = AnthropicMessages::start(Behaviour::Normal, REPLY).await;
    for base in [stub.url(), stub.url() + "/", stub.url() + "/v1", stub.url() + "/v1/"] {
        check_reply(&hear(&settings(base)).await.unwrap());
    }
    stub.set(Behaviour::Slow);
    check_reply(&hear(&settings(stub.url())).await.unwrap());
    stub.set(Behaviour::Empty);
    let nothing = hear(&settings(stub.url())).await.unwrap();
    assert!(matches!(nothing[..], [LlmDelta::Finished { truncated: false, usage: Some(_) }]));
}

#[tokio::test]
async fn the_conversation_is_sent_in_the_format_of_the_api() {
    let stub = AnthropicMessages::start(Behaviour::Normal, REPLY).await;
    let settings = LlmSettings { api_key: Secret::new("sk-ant-1"), ..settings(stub.url()) };
    hear(&settings).await.unwrap();
    let texts = stub.seen().texts;
    let head = texts[0].to_ascii_lowercase();
    assert!(head.starts_with("post /v1/messages "), "{head}");
    for line in ["x-api-key: sk-ant-1", "anthropic-version: 2023-06-01"] {
        assert!(head.contains(line), "{head}");
    }
    let asked: Value = serde_json::from_str(&texts[1]).unwrap();
    let said = |role: &str, text: &str| json!({ "role": role, "content": [{ "type": "text", "text": text }] });
    let expected = json!({
        "model": "claude", "stream": true, "max_tokens": 40, "temperature": 0.5,
        "system": "Be brief.",
        "messages": [said("user", "你好"), said("assistant", "Hi."), said("user", "Weather?")],
    });
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn tools_are_called_in_parallel_and_their_results_sent() {
    let stub = AnthropicMessages::start(Behaviour::Normal, REPLY).await;
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let tool = |name: &str| OfferedTool {
        name: name.into(),
        description: "Tells the weather.".into(),
        parameters: parameters.clone(),
    };
    let mut asked =
        Prompt { tools: [tool("today"), tool("tomorrow")].into(), ..prompt("Weather?") };
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    let deltas: Vec<LlmDelta> = llm.reply(asked.clone()).try_collect().await.unwrap();
    let calls: Vec<_> = deltas
        .iter()
        .filter_map(|delta| match delta {
            LlmDelta::Call(call) => Some(call.clone()),
            _ => None,
        })
        .collect();
    let told: Vec<_> =
        calls.iter().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect();
    let arguments = r#"{"city": "柏林"}"#;
    assert_eq!(told, [("toolu_0", "today", arguments), ("toolu_1", "tomorrow", arguments)]);
    assert_eq!(deltas.iter().filter(|delta| **delta == LlmDelta::Calling).count(), 1);
    asked.messages.push(ChatMessage::calling("", calls));
    asked.messages.push(ChatMessage::result("toolu_0", "22 °C"));
    asked.messages.push(ChatMessage::result("toolu_1", "23 °C"));
    check_reply(&llm.reply(asked).try_collect::<Vec<_>>().await.unwrap());
    let sent: Value = serde_json::from_str(&stub.seen().texts[3]).unwrap();
    assert_eq!(sent["tools"][1]["input_schema"], parameters);
    assert_eq!(sent["tool_choice"], json!({ "type": "auto" }));
    let called = |n: usize, name: &str| {
        json!({
            "type": "tool_use", "id": format!("toolu_{n}"), "name": name, "input": { "city": "柏林" },
        })
    };
    let result = |n: usize, content: &str| {
        json!({
            "type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": content,
        })
    };
    let expected = json!([
        { "role": "assistant", "content": [called(0, "today"), called(1, "tomorrow")] },
        { "role": "user", "content": [result(0, "22 °C"), result(1, "23 °C")] },
    ]);
    assert_eq!(json!(sent["messages"].as_array().unwrap()[3..]), expected);
}

#[tokio::test]
async fn each_failure_has_its_kind_and_one_attempt() {
    let stub = AnthropicMessages::start(Behaviour::Normal, REPLY).await;
    let own = [
        (Behaviour::HttpStatus(529, None), ProviderErrorKind::Unavailable, None),
        (Behaviour::HttpStatus(500, None), ProviderErrorKind::Fault, None),
    ];
    for (behaviour, kind, retry_after_s) in failures().into_iter().chain(own) {
        stub.set(behaviour);
        let began = Instant::now();
        let before = stub.seen().connections;
        let outcome = hear(&settings(stub.url())).await;
        check_failure(began, outcome, behaviour, kind, retry_after_s);
        assert_eq!(stub.seen().connections, before + 1, "{behaviour:?}");
    }
    stub.set(Behaviour::Slow);
    let late = ProviderErrorKind::Timeout;
    let standing = LlmSettings { idle_timeout_ms: 30, ..settings(stub.url()) };
    check_failure(Instant::now(), hear(&standing).await, Behaviour::Slow, late, None);
    let short = LlmSettings { timeout_ms: 250, ..settings(stub.url()) };
    check_failure(Instant::now(), hear(&short).await, Behaviour::Slow, late, None);
    let began = Instant::now();
    let outcome = hear(&settings(nowhere("http"))).await;
    check_failure(began, outcome, Behaviour::Refuse, ProviderErrorKind::Unavailable, None);
}

#[tokio::test]
async fn an_error_within_the_answer_has_its_kind() {
    let stub = AnthropicMessages::start(Behaviour::Normal, REPLY).await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    for (asked, kind) in [
        ("error overloaded_error", ProviderErrorKind::Unavailable),
        ("error rate_limit_error", ProviderErrorKind::RateLimited),
        ("error api_error", ProviderErrorKind::Fault),
    ] {
        let told: Vec<_> = llm.reply(prompt(asked)).collect().await;
        let [Ok(LlmDelta::Text(_)), Err(error)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(error.kind, kind);
        assert!(!error.to_string().contains("as you said"), "{error}");
    }
}

#[tokio::test]
async fn a_model_that_refuses_a_temperature_is_probed_once() {
    let stub = AnthropicMessages::start(Behaviour::Old, REPLY).await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    for requests in [2, 3] {
        check_reply(&llm.reply(prompt("Weather?")).try_collect::<Vec<_>>().await.unwrap());
        assert_eq!(stub.seen().requests, requests);
    }
    // If every request is refused, at most two are sent.
    stub.set(Behaviour::HttpStatus(400, None));
    let told = hear(&settings(stub.url())).await.unwrap_err();
    assert_eq!((told.kind, stub.seen().requests), (ProviderErrorKind::BadRequest, 5));
}

#[tokio::test]
async fn a_dropped_reply_ends_its_request() {
    for behaviour in [Behaviour::Slow, Behaviour::Silent] {
        let stub = AnthropicMessages::start(behaviour, REPLY).await;
        let settings = LlmSettings { first_token_timeout_ms: 60_000, ..settings(stub.url()) };
        let mut reply = hearken_providers::llm(&settings).unwrap().reply(prompt("Weather?"));
        tokio::select! {
            delta = reply.next() => assert_eq!(behaviour, Behaviour::Slow, "{delta:?}"),
            _ = stub.until(|seen| behaviour == Behaviour::Silent && seen.requests == 1) => {}
        }
        drop(reply);
        stub.until(|seen| seen.closed == 1).await;
    }
}

#[test]
fn the_embedded_model_is_not_used_for_anthropic() {
    let embedded = LlmSettings { provider: LlmProvider::Anthropic, ..LlmSettings::default() };
    let told = hearken_providers::llm(&embedded).err().unwrap().to_string();
    assert!(told.starts_with("`llm.base_url` is `http://127.0.0.1:9401/v1`"), "{told}");
    assert!(told.contains("https://api.anthropic.com"), "{told}");
}
