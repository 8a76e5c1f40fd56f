//! Text clients in other languages, against the whole server: our own, written from the document's
//! tables; those that the document prints, if it is available; and the message flow of its client
//! in C. Not for every row of the tables.

use std::path::PathBuf;

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_test_support::PATIENCE;
use hearken_test_support::peers::Peers;
use hearken_test_support::vendors::Behaviour;
use serde_json::Value;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::script::{output_of, program, vendors};
use crate::support::app::TestServer;

#[tokio::test]
async fn a_client_in_python_gets_what_the_tables_define() {
    let Some(peers) = Peers::with("ws") else { return };
    let vendors = vendors().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let python = peers.python("python");
    let url = server.gateway_url();
    let said = output_of(python, &[&program("client.py"), &url]).await;
    assert!(said.starts_with("answered: "), "{said}");
    // The prompt of the resumed session contains its earlier messages.
    let asked = vendors.llm.seen().texts.pop().unwrap();
    assert!(asked.contains("我叫小明") && asked.contains("我叫什么名字？"), "{asked}");
    server.stop().await;
}

#[tokio::test]
async fn a_client_in_javascript_streams_and_cancels() {
    let Some(peers) = Peers::with("ws") else { return };
    let vendors = vendors().await;
    vendors.llm.set(Behaviour::Slow);
    let server = TestServer::start(&vendors, |_| {}).await;
    let url = server.gateway_url();
    let said = output_of(peers.node(), &[&program("client.mjs"), &peers.packages(), &url]).await;
    assert!(said.starts_with("answered: "), "{said}");
    server.stop().await;
}

/// Extracts the code below this heading of the document into a file of this name. Prints the reason
/// and returns `None` if the document is not available.
fn documented(heading: &str, language: &str, name: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let document =
        hearken_test_support::repository().join("../shared/seeds/llm-gateway-websocket-api.md");
    let Ok(text) = std::fs::read_to_string(&document) else {
        eprintln!("skipped: the gateway's document is not at {}", document.display());
        return None;
    };
    let (_, chapter) = text.split_once(heading).expect("the document has the chapter");
    let (_, code) = chapter.split_once(&format!("```{language}\n")).expect("the chapter has code");
    let (code, _) = code.split_once("```").expect("the code ends");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, code).unwrap();
    Some((folder, file))
}

/// The output of both clients of the document: two tools, and two questions with answers.
fn assert_documented(said: &str) {
    let answers: Vec<&str> = said.lines().filter_map(|l| l.strip_prefix("Response: ")).collect();
    assert_eq!(answers.len(), 2, "{said}");
    assert!(answers[0].contains("85") && answers[1].contains("50"), "{said}");
    for line in
        ["Registered 2 tools", "Client tool called: get_battery", "Client tool called: set_volume"]
    {
        assert!(said.contains(line), "{said}");
    }
}

#[tokio::test]
async fn the_documents_client_in_python_runs_unmodified() {
    let Some(peers) = Peers::with("ws") else { return };
    let Some((_kept, file)) = documented("### 10.1 ", "python", "client.py") else { return };
    let vendors = vendors().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let python = peers.python("python");
    let url = server.gateway_url();
    assert_documented(&output_of(python, &[&program("documented.py"), &file, &url]).await);
    server.stop().await;
}

#[tokio::test]
async fn the_documents_client_in_javascript_runs_unmodified() {
    let Some(peers) = Peers::with("ws") else { return };
    let Some((_kept, file)) = documented("### 10.2 ", "javascript", "client.mjs") else { return };
    let vendors = vendors().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let packages = peers.packages();
    let url = server.gateway_url();
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 4] =
        [&program("documented.mjs"), &packages, &file, &url];
    assert_documented(&output_of(peers.node(), &arguments).await);
    server.stop().await;
}

/// The string fields that the client in C reads without a check, by type of message.
fn read_blindly(kind: &str) -> &'static [&'static str] {
    match kind {
        "status" => &["/status"],
        "llm_response" => &["/content"],
        "tool_call" => &["/tool_name"],
        "tool_callback" => &["/call_id", "/tool_name"],
        "error" => &["/code", "/message"],
        _ => &[],
    }
}

/// Plays `c_client.jsonl`: what the client sends after each received message, with the whitespace
/// of its library. A question follows every message, so that requests overlap.
#[tokio::test]
async fn the_message_flow_of_the_client_in_c_works() {
    let vendors = vendors().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let (mut socket, _) = connect_async(server.gateway_url()).await.unwrap();
    let mut session_id = String::new();
    let mut call_id = String::new();
    let flow = include_str!("../../../fixtures/gateway/c_client.jsonl");
    for step in flow.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if let Some(text) = step["send"].as_str() {
            let text = text.replace("{{session_id}}", &session_id).replace("{{call_id}}", &call_id);
            socket.send(Message::text(text)).await.unwrap();
            continue;
        }
        let next = tokio::time::timeout(PATIENCE, socket.next()).await;
        let next = next.expect("a message comes").unwrap().unwrap();
        let message: Value = serde_json::from_str(next.to_text().unwrap()).unwrap();
        let kind = message["type"].as_str().unwrap();
        assert_eq!(kind, step["take"], "{message}");
        for (field, value) in step["with"].as_object().into_iter().flatten() {
            assert_eq!(message[field], *value, "{message}");
        }
        for field in read_blindly(kind) {
            assert!(message.pointer(field).is_some_and(Value::is_string), "{field} in {message}");
        }
        if let Some(id) = message["data"]["session_id"].as_str() {
            assert!(id.len() < 64, "it fits into 64 bytes with its terminator: {id}");
            id.clone_into(&mut session_id);
        }
        if let Some(id) = message["call_id"].as_str() {
            id.clone_into(&mut call_id);
        }
    }
    assert!(!session_id.is_empty() && !call_id.is_empty());
    drop(socket);
    server.stop().await;
}
