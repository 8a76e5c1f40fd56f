//! Chapters 3 to 5 and 11: the replies to each message of a client.

use futures_util::SinkExt as _;
use hearken_test_support::vendors::Behaviour;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{TextClient, answering, asked, echoing, kinds};
use crate::support::app::{REPLY, TestServer, Vendors};

/// ISO 8601 with milliseconds and `Z`: `2025-02-21T10:30:00.000Z`.
fn is_timestamp(value: &Value) -> bool {
    let shape: String = value
        .as_str()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "0000-00-00T00:00:00.000Z"
}

#[actix_web::test]
async fn a_question_is_answered_with_every_field_of_the_document() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut client = TextClient::connect(&server).await;
    assert!(client.session.len() < 64);
    let told = client.ask("你好").await;
    assert_eq!(kinds(&told), ["processing", "llm_response"]);
    assert_eq!(told[0]["data"]["message"], "正在处理您的请求...");
    let answer = told[1].as_object().unwrap();
    let fields: Vec<&str> = answer.keys().map(String::as_str).collect();
    assert_eq!(fields, ["content", "is_final", "timestamp", "tool_calls", "type"]);
    assert_eq!(answer["content"], REPLY.join(" "));
    assert_eq!((&answer["is_final"], &answer["tool_calls"]), (&json!(true), &json!([])));
    assert!(told.iter().all(|m| is_timestamp(&m["timestamp"])), "{told:?}");
    server.stop().await;
}

/// Invalid messages, each with the code and a part of its error.
const WRONG: [(&str, &str, &str); 14] = [
    ("{", "INVALID_MESSAGE", "not JSON"),
    ("[1]", "INVALID_MESSAGE", "must be a JSON object, not an array"),
    (r#"{"text": "hi"}"#, "INVALID_MESSAGE", "`type` is required"),
    (r#"{"type": "dance"}"#, "UNKNOWN_MESSAGE_TYPE", "dance"),
    (r#"{"type": "cancel"}"#, "UNKNOWN_MESSAGE_TYPE", "cancel"),
    (r#"{"type": "text_input"}"#, "INVALID_MESSAGE", "`text` is required"),
    (r#"{"type": "text_input", "text": ""}"#, "INVALID_MESSAGE", "Text cannot be empty"),
    (r#"{"type": "text_input", "text": "hi", "session_id": "none"}"#, "SESSION_ERROR", "none"),
    (r#"{"type": "start_session", "session_id": "none"}"#, "SESSION_ERROR", "none"),
    (r#"{"type": "configure", "temperature": 1.5}"#, "INVALID_MESSAGE", "temperature"),
    (r#"{"type": "configure", "max_tokens": 2049}"#, "INVALID_MESSAGE", "max_tokens"),
    (r#"{"type": "register_tools", "tools": "all"}"#, "INVALID_MESSAGE", "tools"),
    (r#"{"type": "tool_result", "success": true}"#, "INVALID_MESSAGE", "call_id"),
    (
        r#"{"type": "tool_result", "call_id": "x", "success": true}"#,
        "INVALID_MESSAGE",
        "Invalid or expired call_id: x",
    ),
];

#[actix_web::test]
async fn invalid_messages_get_an_error_and_keep_the_connection_open() {
    let (_vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    for (message, code, says) in WRONG {
        client.send_text(message).await;
        let told = client.next().await;
        assert_eq!((&told["type"], &told["code"]), (&json!("error"), &json!(code)), "{message}");
        assert!(told["message"].as_str().unwrap().contains(says), "{message}: {told}");
        assert!(told["details"].is_string() && is_timestamp(&told["timestamp"]), "{told}");
    }
    client.socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(client.next().await["code"], "INVALID_MESSAGE");
    assert_eq!(client.answer("still there").await, "You said still there");
    server.stop().await;
}

#[actix_web::test]
async fn model_failures_have_their_error_codes() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.llm.timeout_ms = 2_000;
        config.llm.retry_within_ms = 100;
    })
    .await;
    let mut client = TextClient::connect(&server).await;
    for (behaviour, code) in [
        (Behaviour::Silent, "TIMEOUT"),
        (Behaviour::Refuse, "LLM_ERROR"),
        (Behaviour::HttpStatus(400, None), "LLM_ERROR"),
        (Behaviour::HttpStatus(404, None), "LLM_ERROR"),
        (Behaviour::Garbage, "LLM_ERROR"),
        (Behaviour::ResetMidStream, "LLM_ERROR"),
        (Behaviour::Empty, "LLM_ERROR"),
    ] {
        vendors.llm.set(behaviour);
        let told = client.ask("hi").await;
        assert_eq!(kinds(&told), ["processing", "error"], "{behaviour:?}");
        assert_eq!(told[1]["code"], code, "{behaviour:?}: {told:?}");
        assert!(!told[1].to_string().contains("127.0.0.1"), "{told:?}");
    }
    vendors.llm.set(Behaviour::Normal);
    assert_eq!(client.answer("hi").await, REPLY.join(" "));
    server.stop().await;
}

#[actix_web::test]
async fn configured_values_reach_the_model_and_get_no_reply() {
    let (vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    let mut other = TextClient::connect(&server).await;
    client.answer("as it is").await;
    client
        .send(json!({"type": "configure", "temperature": 0.25, "max_tokens": 64.0, "enable_context": true}))
        .await;
    client.is_quiet().await;
    client.answer("changed").await;
    client.send(json!({"type": "configure", "temperature": null, "max_tokens": 65})).await;
    client.answer("once more").await;
    other.answer("another").await;
    let settings: Vec<_> = asked(&vendors)
        .iter()
        .map(|body| {
            let tokens = body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64());
            let temperature = (body["temperature"].as_f64().unwrap() * 100.0).round();
            (temperature, tokens.unwrap(), body["messages"].as_array().unwrap().len())
        })
        .collect();
    assert_eq!(settings, [(70.0, 2048, 2), (25.0, 64, 4), (25.0, 65, 6), (70.0, 2048, 2)]);
    server.stop().await;
}

#[actix_web::test]
async fn prompts_contain_the_instructions_and_the_time() {
    let (vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    client.answer("one").await;
    client.send(json!({"type": "configure", "system_prompt": "You are a pirate."})).await;
    client.answer("two").await;
    client.send(json!({"type": "configure", "system_prompt": ""})).await;
    client.answer("three").await;
    let systems: Vec<String> = asked(&vendors)
        .iter()
        .map(|body| body["messages"][0]["content"].as_str().unwrap().to_owned())
        .collect();
    let year = jiff::Zoned::now().year().to_string();
    for told in [&systems[0], &systems[2]] {
        assert!(told.starts_with("你是一个名为\"听语AI\"的语音助手。"), "{told}");
        assert!(told.contains(&format!("当前时间：{year}")), "{told}");
    }
    assert_eq!(systems[1], "You are a pirate.");
    server.stop().await;
}

#[actix_web::test]
async fn answers_are_plain_text() {
    let vendors =
        answering(|_| "# 好的😊\n\n**重点**：今天★*晴*，25°C，[详情](https://a.b/c)".into());
    let vendors = vendors.await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut client = TextClient::connect(&server).await;
    assert_eq!(client.answer("天气").await, "好的\n\n重点：今天晴，25°C，详情");
    server.stop().await;
}

#[actix_web::test]
async fn streamed_pieces_add_up_to_the_answer_and_can_be_cancelled() {
    let vendors = answering(|asked| match asked {
        b"long" => "**word** by word, ".repeat(2_000),
        _ => "**One** and *two*, 三😀。".into(),
    })
    .await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut client = TextClient::connect(&server).await;
    client.send(json!({"type": "configure", "stream": true})).await;
    let mut told = client.ask("short").await;
    let last = told.pop().unwrap();
    let pieces: String = told
        .iter()
        .filter(|m| m["type"] == "llm_delta")
        .map(|m| m["content"].as_str().unwrap())
        .collect();
    assert!(kinds(&told).iter().filter(|k| **k == "llm_delta").count() > 1, "{told:?}");
    assert_eq!((last["content"].as_str(), last.get("cancelled")), (Some(&*pieces), None));
    assert_eq!(pieces, "One and two, 三。");
    vendors.llm.set(Behaviour::Slow);
    client.send(json!({"type": "text_input", "text": "long"})).await;
    while client.next().await["type"] != "llm_delta" {}
    client.send(json!({"type": "cancel"})).await;
    let told = client.until_done().await;
    let last = &told[told.len() - 1];
    assert_eq!((&last["type"], &last["cancelled"]), (&json!("llm_response"), &json!(true)));
    assert!(last["content"].as_str().unwrap().len() < 10_000);
    vendors.llm.until(|seen| seen.closed == seen.connections).await;
    vendors.llm.set(Behaviour::Normal);
    assert_eq!(client.answer("short").await, "One and two, 三。");
    server.stop().await;
}
