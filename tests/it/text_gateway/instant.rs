//! Answers by rule for text clients: no model is asked, calls run as the model's do, and people in
//! danger get a reply in every mode. Not for the rules, which are in their crates.

use hearken::config::InstantMode;
use serde_json::json;

use super::{TextClient, answering, asked, echo, kinds};
use crate::support::app::{TestServer, Vendors};

async fn server(mode: InstantMode) -> (Vendors, TestServer) {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |config| {
        config.instant.mode = mode;
        config.instant.country = "US".into();
    })
    .await;
    (vendors, server)
}

#[actix_web::test]
async fn a_command_calls_the_clients_tool_without_the_model() {
    let (vendors, server) = server(InstantMode::Always).await;
    let mut client = TextClient::connect(&server).await;
    let level = json!({"type": "integer", "minimum": 0, "maximum": 100});
    let loudness = json!({
        "name": "speaker.loudness",
        "description": "Sets the volume of the loudspeaker.",
        "parameters": {"type": "object", "properties": {"level": level}, "required": ["level"]},
    });
    client.send(json!({"type": "register_tools", "tools": [loudness]})).await;
    assert_eq!(client.next().await["type"], "tools_registered");
    client.send(json!({"type": "text_input", "text": "set the volume to thirty five"})).await;
    let told = [client.next().await, client.next().await, client.next().await];
    assert_eq!(kinds(&told), ["processing", "waiting_for_tools", "tool_callback"]);
    assert_eq!(told[2]["tool_name"], "speaker.loudness");
    assert_eq!(told[2]["arguments"], json!({"level": 35}));
    let call_id = &told[2]["call_id"];
    let result =
        json!({"type": "tool_result", "call_id": call_id, "success": true, "result": true});
    client.send(result).await;
    let last = client.next().await;
    assert!(last["content"].as_str().unwrap().contains("35"), "{last}");
    assert!(asked(&vendors).is_empty(), "no model is asked");
    assert!(server.metric("hearken_rule_answers_total{rule=\"volume\"}").await >= 1.0);
    server.stop().await;
}

#[actix_web::test]
async fn a_configured_model_answers_text_clients_by_default() {
    let (vendors, server) = server(InstantMode::Auto).await;
    let mut client = TextClient::connect(&server).await;
    assert_eq!(client.answer("what time is it").await, "You said what time is it");
    assert_eq!(asked(&vendors).len(), 1);
    server.stop().await;
}

#[actix_web::test]
async fn a_person_in_danger_gets_a_reply_in_every_mode() {
    let (vendors, server) = server(InstantMode::Off).await;
    let mut client = TextClient::connect(&server).await;
    let reply = client.answer("my baby has swallowed a button battery").await;
    assert!(reply.replace([' ', '-'], "").contains("911"), "{reply}");
    assert!(asked(&vendors).is_empty());
    server.stop().await;
}
