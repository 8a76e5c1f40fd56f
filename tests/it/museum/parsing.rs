//! Processing of users' messages: answers, calls that are returned, failures, memory.

use hearken_test_support::vendors::{Behaviour, OpenAiChat};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Visit, samples};

const PARSE: &str = "/api/agent/parse";

/// Echoes a message, or makes a requested call.
fn echo(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    if asked.starts_with("error: ") {
        "**I cannot** do that. 😀".into()
    } else {
        format!("You said: {asked}")
    }
}

#[tokio::test]
async fn without_functions_answers_are_plain_text() {
    let llm = OpenAiChat::start(Behaviour::Normal, "**蟠龙盖罍**是青铜器。😀").await;
    let visit = Visit::start(llm, |_| {}).await;
    let id = visit.register(json!([])).await;
    let body = json!({
        "user_input": "介绍一下蟠龙盖罍", "client_type": "pet", "spirit_id": "dragon\nspirit",
        "scene_type": "study",
    });
    let (status, told) = visit.ask(Method::POST, PARSE, &id, body).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(
        told,
        json!({"code": 200, "msg": "success", "data": {
            "artifact_id": null, "artifact_name": null, "operation": null,
            "operation_params": {}, "keywords": [], "tips": null,
            "response": "蟠龙盖罍是青铜器。",
        }})
    );
    let asked = visit.asked().pop().unwrap();
    assert!(asked.get("tools").is_none_or(Value::is_null), "{asked}");
    let system = asked["messages"][0]["content"].as_str().unwrap();
    for told in ["study", "dragon spirit", "pet"] {
        assert!(system.contains(told), "{told}: {system}");
    }
    assert!(!system.contains('{'), "{system}");
}

#[tokio::test]
async fn a_call_is_returned_to_the_client_and_not_executed() {
    let visit = Visit::start(OpenAiChat::answering(echo).await, |_| {}).await;
    let mut functions = samples();
    functions.as_array_mut().unwrap().push(json!({
        "name": "show", "description": "shows an artifact", "parameters": {"type": "object"},
    }));
    let id = visit.register(functions).await;
    let (status, told) = visit.parse(&id, "call move_to_position {\"x\": 100, \"y\": 200}").await;
    let data = &told["data"];
    assert_eq!((status, &data["operation"]), (200, &json!("move_to_position")), "{told}");
    assert_eq!(data["operation_params"], json!({"x": 100, "y": 200}));
    assert_eq!(data["keywords"], json!([]));
    assert!(!data["response"].as_str().unwrap().is_empty(), "{told}");
    let all = "{\"artifact_id\": \"a-7\", \"artifact_name\": \"罍\", \"keywords\": [\"k\"], \"tips\": \"t\"}";
    let (_, told) = visit.parse(&id, &format!("call show {all}")).await;
    let data = &told["data"];
    assert_eq!((&data["artifact_id"], &data["artifact_name"]), (&json!("a-7"), &json!("罍")));
    assert_eq!((&data["keywords"], &data["tips"]), (&json!(["k"]), &json!("t")));
    let (_, told) = visit.parse(&id, "how are you").await;
    assert_eq!(
        (&told["data"]["operation"], &told["data"]["response"]),
        (&Value::Null, &json!("You said: how are you"))
    );
    // The prompt contains the calls in the usual form: each has a result.
    let asked = visit.asked().pop().unwrap();
    let messages = asked["messages"].as_array().unwrap();
    let calls = messages.iter().filter(|m| m["tool_calls"].is_array()).count();
    let results = messages.iter().filter(|m| m["role"] == "tool").count();
    assert_eq!((calls, results), (2, 2), "{asked}");
    assert_eq!(asked["tools"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_invalid_call_is_retried_and_then_answered_with_text() {
    let visit = Visit::start(OpenAiChat::answering(echo).await, |_| {}).await;
    let id = visit.register(samples()).await;
    for wrong in
        ["call move_to_position {\"x\": \"far\"}", "call dance {}", "call move_to_position {"]
    {
        let (status, told) = visit.parse(&id, wrong).await;
        assert_eq!((status, &told["data"]["operation"]), (200, &Value::Null), "{wrong}: {told}");
        assert_eq!(told["data"]["response"], "I cannot do that.", "{told}");
    }
    let asked = visit.asked();
    let told = asked[1]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(told["role"], "tool");
    assert!(told["content"].as_str().unwrap().contains("required"), "{told}");
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_field() {
    let visit = Visit::usual().await;
    let id = visit.register(json!([])).await;
    for (body, field) in [
        (json!({}), "user_input"),
        (json!({"user_input": ""}), "user_input"),
        (json!({"user_input": "  "}), "user_input"),
        (json!({"user_input": "字".repeat(2_001)}), "user_input"),
        (json!({"user_input": ["a"]}), "user_input"),
        (json!({"user_input": "a", "scene_type": "home"}), "scene_type"),
        (json!({"user_input": "a", "scene_type": 1}), "scene_type"),
        (json!({"user_input": "a", "spirit_id": 1}), "spirit_id"),
        (json!("a"), "body"),
    ] {
        let (status, told) = visit.ask(Method::POST, PARSE, &id, body.clone()).await;
        assert_eq!((status, &told["code"]), (422, &json!(422)), "{body} {told}");
        assert!(told["detail"].as_str().unwrap().contains(field), "{body} {told}");
    }
    let longest = json!({"user_input": "字".repeat(2_000), "spirit_id": null, "scene_type": ""});
    assert_eq!(visit.ask(Method::POST, PARSE, &id, longest).await.0, 200);
    assert_eq!(visit.asked().len(), 1, "the model saw nothing of the others");
}

#[tokio::test]
async fn a_model_failure_is_reported_in_the_envelope_and_not_remembered() {
    let llm = OpenAiChat::start(Behaviour::HttpStatus(400, None), "").await;
    let visit = Visit::start(llm, |_| {}).await;
    let id = visit.register(json!([])).await;
    let (status, told) = visit.parse(&id, "hi").await;
    assert_eq!((status, &told["code"], &told["data"]), (500, &json!(500), &Value::Null), "{told}");
    assert_eq!(told["msg"], told["detail"]);
    assert!(told["msg"].as_str().unwrap().contains("LLM_ERROR"), "{told}");
    visit.vendors.llm.set(Behaviour::Normal);
    visit.vendors.forget_texts();
    assert_eq!(visit.ask(Method::POST, "/api/session/heartbeat", &id, json!({})).await.0, 200);
    let (status, told) = visit.parse(&id, "again").await;
    assert_eq!(status, 500, "an empty answer is a failure too: {told}");
    let asked = visit.asked();
    assert_eq!(asked[0]["messages"].as_array().unwrap().len(), 2, "failures are not remembered");
}

#[tokio::test]
async fn ten_messages_are_remembered() {
    let visit = Visit::start(OpenAiChat::answering(echo).await, |config| {
        config.museum.requests_per_minute = 0;
    })
    .await;
    let id = visit.register(json!([])).await;
    for n in 0..8 {
        assert_eq!(visit.parse(&id, &format!("number {n}")).await.0, 200);
    }
    let asked = visit.asked().pop().unwrap();
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1 + 10 + 1, "{asked}");
    assert_eq!(messages[1]["content"], "number 2");
}

#[tokio::test]
async fn only_identical_questions_are_answered_from_the_cache() {
    let visit = Visit::start(OpenAiChat::answering(echo).await, |_| {}).await;
    let one = visit.register(json!([])).await;
    let other = visit.register(json!([])).await;
    let able = visit.register(samples()).await;
    assert_eq!(visit.parse(&one, "same").await, visit.parse(&other, "same").await);
    assert_eq!(visit.asked().len(), 1, "the second answer came from the cache");
    visit.parse(&one, "same").await;
    assert_eq!(visit.asked().len(), 2, "with another history it is another question");
    visit.parse(&able, "same").await;
    assert_eq!(visit.asked().len(), 3, "and with functions");
    let scene = json!({"user_input": "same", "client_type": "web", "scene_type": "study"});
    let third = visit.register(json!([])).await;
    visit.ask(Method::POST, PARSE, &third, scene).await;
    assert_eq!(visit.asked().len(), 4, "or in another scene");
}

#[tokio::test]
async fn requests_of_one_session_are_answered_in_sequence() {
    let visit = Visit::start(OpenAiChat::answering(echo).await, |_| {}).await;
    let id = visit.register(json!([])).await;
    let all = ["a", "b", "c", "d"].map(|said| visit.parse(&id, said));
    for (status, told) in futures_util::future::join_all(all).await {
        assert_eq!(status, 200, "{told}");
    }
    let mut lengths: Vec<usize> =
        visit.asked().iter().map(|asked| asked["messages"].as_array().unwrap().len()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [2, 4, 6, 8], "each prompt has the earlier turns");
}

#[tokio::test]
async fn a_person_in_danger_is_answered_beyond_the_daily_limit_and_without_the_model() {
    let llm = OpenAiChat::start(Behaviour::Normal, "Good day.").await;
    let visit = Visit::start(llm, |config| config.usage.total_tokens = 1).await;
    let id = visit.register(samples()).await;
    let (status, told) = visit.parse(&id, "hello").await;
    assert_eq!((status, &told["data"]["response"]), (200, &json!("Good day.")), "{told}");
    let (status, told) = visit.parse(&id, "hello again").await;
    assert_eq!(status, 429, "{told}");
    let (status, told) = visit.parse(&id, "My baby is not breathing!").await;
    let data = &told["data"];
    assert_eq!((status, &data["operation"]), (200, &Value::Null), "{told}");
    let said = data["response"].as_str().unwrap();
    assert!(!said.is_empty() && said != "Good day.", "{told}");
    assert_eq!(visit.asked().len(), 1, "the model is asked for the first words only");
}
