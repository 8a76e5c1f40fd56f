//! Chapter 6: memory of sessions, its owners and its duration.

use std::time::Duration;

use hearken_test_support::vendors::Behaviour;
use serde_json::json;

use super::{TextClient, answering, asked, echo, echoing};
use crate::support::app::TestServer;

async fn with_context(server: &TestServer) -> TextClient {
    let mut client = TextClient::connect(server).await;
    client.send(json!({"type": "configure", "enable_context": true})).await;
    client
}

async fn resume(client: &mut TextClient, session: &str) -> serde_json::Value {
    client.send(json!({"type": "start_session", "session_id": session})).await;
    client.next().await
}

#[actix_web::test]
async fn earlier_messages_are_in_prompts_only_if_context_is_enabled() {
    let (vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    client.answer("one").await;
    client.answer("two").await;
    client.send(json!({"type": "configure", "enable_context": true})).await;
    client.answer("three").await;
    let lengths: Vec<usize> =
        asked(&vendors).iter().map(|b| b["messages"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [2, 2, 6]);
    for n in 0..8 {
        client.answer(&format!("and {n}")).await;
    }
    let bodies = asked(&vendors);
    let last = bodies[bodies.len() - 1]["messages"].as_array().unwrap();
    assert_eq!(last.len(), 1 + 10 + 1, "ten messages are remembered");
    assert_eq!(last[1]["role"], "user");
    server.stop().await;
}

#[actix_web::test]
async fn a_session_can_be_resumed_after_a_restart() {
    let vendors = answering(echo).await;
    let mut config = vendors.config();
    config.gateway.session_idle = Duration::from_secs(60);
    let server = TestServer::of(config.clone(), Vec::new()).await;
    let mut client = TextClient::connect(&server).await;
    client.answer("my name is Ann").await;
    client.send(json!({"type": "configure", "system_prompt": "Be brief."})).await;
    client.answer("it rains").await;
    let session = client.session.clone();
    server.stop().await;
    let server = TestServer::of(config, Vec::new()).await;
    let mut client = with_context(&server).await;
    let told = resume(&mut client, &session).await;
    assert_eq!(
        (&told["status"], &told["data"]["session_id"]),
        (&json!("connected"), &json!(session))
    );
    client.answer("and my name?").await;
    let bodies = asked(&vendors);
    let told = bodies[bodies.len() - 1]["messages"].to_string();
    assert!(told.contains("my name is Ann") && told.contains("it rains"), "{told}");
    assert!(told.contains("Be brief."), "{told}");
    // A request may also name the session by its id.
    let mut other = with_context(&server).await;
    other.send(json!({"type": "text_input", "text": "hi", "session_id": session})).await;
    assert_eq!(other.until_done().await.len(), 2);
    let bodies = asked(&vendors);
    assert!(bodies[bodies.len() - 1]["messages"].to_string().contains("my name is Ann"));
    server.stop().await;
}

#[actix_web::test]
async fn a_language_and_a_role_last_for_the_session() {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |config| {
        config.tools.builtin.enabled =
            vec!["set_response_language".into(), "enter_roleplay_mode".into()];
    })
    .await;
    let mut client = TextClient::connect(&server).await;
    client.ask(r#"call set_response_language {"language": "de"}"#).await;
    client.ask(r#"call enter_roleplay_mode {"character": "Sherlock Holmes"}"#).await;
    vendors.forget_texts();
    let mut other = TextClient::connect(&server).await;
    resume(&mut other, &client.session.clone()).await;
    for client in [&mut client, &mut other] {
        client.answer("hello").await;
    }
    TextClient::connect(&server).await.answer("hello").await;
    let systems: Vec<bool> = asked(&vendors)
        .iter()
        .map(|body| {
            let system = body["messages"][0]["content"].as_str().unwrap();
            system.contains("German") && system.contains("Sherlock Holmes")
        })
        .collect();
    assert_eq!(systems, [true, true, false]);
    server.stop().await;
}

#[actix_web::test]
async fn an_ended_session_cannot_be_resumed() {
    let (_vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    client.answer("hi").await;
    let ended = client.session.clone();
    client.send(json!({"type": "end_session"})).await;
    let told = client.next().await;
    assert_eq!(
        (&told["status"], &told["data"]["ended_session_id"]),
        (&json!("idle"), &json!(ended))
    );
    let next = told["data"]["session_id"].as_str().unwrap().to_owned();
    assert_ne!(next, ended);
    assert_eq!(resume(&mut client, &ended).await["code"], "SESSION_ERROR");
    // A request with the id of the ended session is refused; one without an id uses the new session.
    client.send(json!({"type": "text_input", "text": "hi", "session_id": ended})).await;
    assert_eq!(client.next().await["code"], "SESSION_ERROR");
    client.send(json!({"type": "text_input", "text": "hi", "session_id": next})).await;
    assert_eq!(client.until_done().await.len(), 2);
    assert_eq!(client.answer("hi").await, "You said hi");
    server.stop().await;
}

#[actix_web::test]
async fn two_connections_on_one_session_take_turns() {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut first = with_context(&server).await;
    first.answer("zero").await;
    let mut second = with_context(&server).await;
    resume(&mut second, &first.session.clone()).await;
    vendors.llm.set(Behaviour::Slow);
    vendors.forget_texts();
    first.send(json!({"type": "text_input", "text": "one"})).await;
    vendors.llm.until(|seen| seen.texts.len() >= 2).await;
    second.send(json!({"type": "text_input", "text": "two"})).await;
    let (told, other) = tokio::join!(first.until_done(), second.until_done());
    assert_eq!(told[told.len() - 1]["content"], "You said one");
    assert_eq!(other[other.len() - 1]["content"], "You said two");
    let bodies = asked(&vendors);
    let last = bodies[1]["messages"].to_string();
    assert!(last.contains("You said one"), "the second was asked after the first: {last}");
    server.stop().await;
}

#[actix_web::test]
async fn overlapping_requests_are_answered_in_order_and_the_twelfth_is_refused() {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut client = TextClient::connect(&server).await;
    vendors.llm.set(Behaviour::Slow);
    for n in 0..12 {
        client.send(json!({"type": "text_input", "text": n.to_string()})).await;
    }
    let mut ends = Vec::new();
    while ends.len() < 12 {
        let told = client.until_done().await;
        let last = &told[told.len() - 1];
        ends.push(last["content"].as_str().or(last["code"].as_str()).unwrap().to_owned());
    }
    assert_eq!(ends[0], "SESSION_ERROR");
    let answers: Vec<String> = (0..11).map(|n| format!("You said {n}")).collect();
    assert_eq!(ends[1..], answers);
    server.stop().await;
}

#[actix_web::test]
async fn an_unreadable_store_gives_internal_error() {
    let vendors = answering(echo).await;
    let mut config = vendors.config();
    std::fs::create_dir_all(&config.server.data_dir).unwrap();
    let file = config.server.data_dir.join("broken.db");
    std::fs::write(&file, "this is no database, and long enough to be read as one".repeat(40))
        .unwrap();
    config.store.url = hearken_base::Secret::new(format!("sqlite://{}", file.display()));
    let server = TestServer::of(config, Vec::new()).await;
    let mut client = TextClient::connect(&server).await;
    assert_eq!(resume(&mut client, "another").await["code"], "INTERNAL_ERROR");
    assert_eq!(client.answer("hi").await, "You said hi");
    server.stop().await;
}
