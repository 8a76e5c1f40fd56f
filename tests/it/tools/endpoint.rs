//! Scripted tool clients that dial in: tokens, names, reconnection and faults.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_base::Secret;
use hearken_dialogue::tools::ToolPolicy;
use hearken_proto::device::ListenMode;
use hearken_test_support::{PATIENCE, eventually};
use hearken_tool_sources::AgentTokens;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{SECRET, called, endpoint_url, known, listed, token, until_ready};
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Answers of a tool client to a message.
type Answers = Arc<dyn Fn(&Value) -> Vec<String> + Send + Sync>;

/// A tool client that acts as a server of this name with the tools `say`, `wait`, `never`, `fail`,
/// `odd` and `forecast`; disconnects when dropped.
pub(super) struct ToolClient {
    task: JoinHandle<()>,
    /// Notified when `wait` is called.
    waiting: Arc<Notify>,
}

impl ToolClient {
    async fn dial(server: &TestServer, name: &str) -> Self {
        Self::dial_for(server, name, &token()).await
    }

    async fn dial_for(server: &TestServer, name: &str, token: &str) -> Self {
        let name = name.to_owned();
        Self::answering(server, token, Arc::new(move |asked| answers(asked, &name))).await
    }

    /// A tool client with other answers.
    pub(super) async fn answering(server: &TestServer, token: &str, answers: Answers) -> Self {
        let (socket, _) = connect_async(endpoint_url(server, token)).await.unwrap();
        let waiting = Arc::new(Notify::new());
        let task = tokio::spawn(answer_all(socket, answers, Arc::clone(&waiting)));
        Self { task, waiting }
    }
}

impl Drop for ToolClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers until the socket closes.
async fn answer_all(mut socket: Socket, answers: Answers, waiting: Arc<Notify>) {
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let asked: Value = serde_json::from_str(&text).unwrap();
        if asked["params"]["name"] == "wait" {
            waiting.notify_one();
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        if asked["params"]["name"] == "never" {
            continue;
        }
        for answer in answers(&asked) {
            // Bridges send a trailing newline.
            let line = Message::text(format!("{answer}\n"));
            if socket.send(line).await.is_err() {
                return;
            }
        }
    }
}

/// Answers of a server of this name to a message.
pub(super) fn answers(asked: &Value, name: &str) -> Vec<String> {
    let result = |result: Value| {
        vec![json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string()]
    };
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    match asked["method"].as_str().unwrap_or_default() {
        "initialize" => {
            assert_eq!(asked["params"]["protocolVersion"], "2024-11-05");
            let mut early = vec![
                json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string(),
            ];
            let own =
                result(json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": "1"}}));
            early.splice(0..0, own);
            early
        }
        // Some clients end the list with an empty cursor.
        "tools/list" => {
            let mut tools = ["say", "wait", "never", "fail", "odd"].map(tool).to_vec();
            let city = json!({"type": "object", "properties": {"city": {"type": "string"}}});
            tools.push(json!({"name": "forecast", "inputSchema": city}));
            result(json!({"nextCursor": "", "tools": tools}))
        }
        "tools/call" => match asked["params"]["name"].as_str().unwrap() {
            "fail" => {
                vec![format!(
                    "{{\"id\":{},\"error\":{{\"message\":\"no such luck\"}}}}",
                    asked["id"]
                )]
            }
            "odd" => vec!["no JSON".into(), format!("{{\"id\":{},\"result\":7}}", asked["id"])],
            _ => {
                let arguments = &asked["params"]["arguments"];
                let given = arguments.get("text").unwrap_or(&arguments["city"]);
                let text = format!("{name}: {given}");
                result(json!({"content": [{"type": "text", "text": text}]}))
            }
        },
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn only_clients_with_a_valid_token_may_dial_in() {
    let vendors = Vendors::start().await;
    let (revoked, serial) = AgentTokens::new(&Secret::new(SECRET), &[]).mint("default").unwrap();
    let server = TestServer::start(&vendors, |config| {
        known(config);
        config.tools.revoked_tokens = vec![serial];
    })
    .await;
    let other = AgentTokens::new(&Secret::new("another secret"), &[]).mint("default").unwrap().0;
    for (token, says) in [
        ("", "the token is missing"),
        ("x", "the token is malformed"),
        (other.as_str(), "the token is forged"),
        (revoked.as_str(), "the token was revoked"),
    ] {
        let refused = connect_async(endpoint_url(&server, token)).await;
        let Err(Error::Http(answer)) = refused else { panic!("{token}: accepted") };
        let body = String::from_utf8(answer.body().clone().unwrap()).unwrap();
        assert_eq!(answer.status(), 401, "{body}");
        assert!(body.contains(says), "{body}");
    }
    let plain = reqwest::get(server.http_url(&format!("/mcp_endpoint/mcp?token={}", token())));
    assert_eq!(plain.await.unwrap().status(), 400);
    let health = reqwest::get(server.http_url("/mcp_endpoint/health")).await.unwrap();
    let health: Value = health.json().await.unwrap();
    assert_eq!(health, json!({"status": "ok", "tool_clients": 0, "agents": 0}));
    server.stop().await;
}

#[tokio::test]
async fn tool_clients_of_the_same_name_are_distinct_and_can_reconnect() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, known).await;
    let first = ToolClient::dial(&server, "calc").await;
    until_ready(&server, &["calc"]).await;
    let _second = ToolClient::dial(&server, "calc").await;
    let all = until_ready(&server, &["calc", "calc-2"]).await;
    assert_eq!(all[1]["kind"], "endpoint");
    assert_eq!(all[1]["tools"].as_array().unwrap().len(), 6);
    let said = called(&server, "calc", "say", json!({"text": "好"})).await;
    assert_eq!(said, (200, "calc: \"好\"".into()));
    // One disconnects during calls of both, and reconnects.
    let wait = async |name: &str| called(&server, name, "wait", json!({"text": 1})).await;
    let leaving = async {
        first.waiting.notified().await;
        drop(first);
    };
    let (left, waited, ()) = tokio::join!(wait("calc"), wait("calc-2"), leaving);
    assert_eq!(waited, (200, "calc: 1".into()));
    assert!(left.0 == 503 && left.1.contains("the connection was lost"), "{left:?}");
    until_ready(&server, &["calc-2"]).await;
    let (status, told) = called(&server, "calc", "say", json!({})).await;
    assert_eq!(status, 404, "{told}");
    let _back = ToolClient::dial(&server, "calc").await;
    until_ready(&server, &["calc-2", "calc"]).await;
    assert_eq!(called(&server, "calc", "say", json!({"text": 2})).await, (200, "calc: 2".into()));
    server.stop().await;
}

#[tokio::test]
async fn what_is_forbidden_for_a_token_holds_under_every_name_of_its_client() {
    let (token, serial) = AgentTokens::new(&Secret::new(SECRET), &[]).mint("default").unwrap();
    let key = format!("token:{serial}");
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        known(config);
        config.server.data_dir = folder.path().to_owned();
        config.tools.policy = [(format!("{key}/say"), ToolPolicy::Never)].into();
    })
    .await;
    let device = "02:00:00:00:bb:02";
    let client = reqwest::Client::new();
    let ota = client.post(server.http_url("/xiaozhi/ota/")).header("Device-Id", device);
    let ota = ota.header("Client-Id", "c").body("{}").send().await.unwrap();
    assert_eq!(ota.status(), 200);
    let path = server.http_url(&format!("/api/devices/{device}/tools"));
    let put = client.put(&path).json(&json!({"off": [key]})).send().await.unwrap();
    assert_eq!(put.status(), 200);
    for name in ["calc", "renamed"] {
        let dialled = ToolClient::dial_for(&server, name, &token).await;
        let shown = until_ready(&server, &[name]).await;
        assert_eq!(shown[0]["key"], key);
        assert_eq!(shown[0]["tools"][0]["name"], "say");
        assert_eq!(shown[0]["tools"][0]["policy"], "never");
        let of_device: Value = reqwest::get(&path).await.unwrap().json().await.unwrap();
        let expected = json!([{"name": name, "key": key, "kind": "endpoint", "on": false}]);
        assert_eq!(of_device["sources"], expected);
        drop(dialled);
        let gone = || async { listed(&server).await.is_empty().then_some(()) };
        eventually("the tool client is gone", gone).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_call_ends_with_any_answer_of_a_tool_client() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        known(config);
        config.tools.endpoint_timeout = Duration::from_secs(2);
    })
    .await;
    let client = ToolClient::dial(&server, "calc").await;
    until_ready(&server, &["calc"]).await;
    let call = async |tool: &str| called(&server, "calc", tool, json!({"text": 1})).await;
    for (tool, status, says) in [
        ("fail", 503, "no such luck"),
        // A bare value is the text of the result.
        ("odd", 200, "7"),
        ("never", 503, "did not answer within 2 s"),
        ("none", 404, "there is no tool `none`"),
    ] {
        let (answered, told) = call(tool).await;
        assert!(answered == status && told.contains(says), "{tool}: {answered} {told}");
    }
    drop(client);
    let gone = || async { listed(&server).await.is_empty().then_some(()) };
    eventually("the tool client is gone", gone).await;
    server.stop().await;
}

#[tokio::test]
async fn a_flooding_or_silent_tool_client_is_disconnected() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, known).await;
    let (mut socket, _) = connect_async(endpoint_url(&server, &token())).await.unwrap();
    let large = Message::text("x".repeat(5 << 20));
    // The server closes before it has read all of it.
    socket.send(large).await.ok();
    let closed = async { while let Some(Ok(_)) = socket.next().await {} };
    tokio::time::timeout(PATIENCE, closed).await.expect("the connection is closed");
    let (mut quiet, _) = connect_async(endpoint_url(&server, &token())).await.unwrap();
    let hello = quiet.next().await.unwrap().unwrap();
    assert!(hello.into_text().unwrap().contains("\"initialize\""));
    assert!(listed(&server).await.is_empty(), "it is not listed before it answers");
    let took = server.stop().await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn a_conversation_uses_the_tools_of_a_new_tool_client() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, known).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    // It connects during the conversation.
    let _client = ToolClient::dial(&server, "weather").await;
    until_ready(&server, &["weather"]).await;
    person.say(&SPEECH).await;
    assert!(!person.answer().await.sentences.is_empty());
    let asked = vendors.llm.seen().texts;
    let told = asked.iter().any(|body| body.contains("\"tool\"") && body.contains("weather: "));
    assert!(told, "{asked:#?}");
    let metrics = reqwest::get(server.http_url("/metrics")).await.unwrap().text().await.unwrap();
    for counted in [
        "hearken_tool_calls_total{source=\"endpoint\",end=\"answered\"} 1\n",
        "hearken_tool_call_seconds_count{source=\"endpoint\"} 1\n",
        // Without the name that the tool client chose.
        "hearken_tool_bytes_total{source=\"endpoint\",direction=\"sent\"} ",
        "hearken_tool_bytes_total{source=\"endpoint\",direction=\"received\"} ",
    ] {
        assert!(metrics.contains(counted), "{metrics}");
    }
    drop(person);
    server.stop().await;
}

#[tokio::test]
async fn a_device_has_the_tool_clients_of_its_agent() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, known).await;
    let (kitchen, serial) = AgentTokens::new(&Secret::new(SECRET), &[]).mint("kitchen").unwrap();
    let _theirs = ToolClient::dial(&server, "attic").await;
    let _ours = ToolClient::dial_for(&server, "stove", &kitchen).await;
    until_ready(&server, &["attic"]).await;
    let kitchens = || async {
        let all = reqwest::get(server.http_url("/api/tools?agent=kitchen")).await.unwrap();
        let all: Value = all.json().await.unwrap();
        (all["sources"][0]["state"] == "ready").then_some(())
    };
    eventually("the kitchen's tool client is ready", kitchens).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    let devices = reqwest::get(server.http_url("/api/devices")).await.unwrap();
    let devices: Value = devices.json().await.unwrap();
    let id = devices["devices"][0]["device_id"].as_str().unwrap();
    let client = reqwest::Client::new();
    let ota = client.post(server.http_url("/xiaozhi/ota/")).json(&json!({}));
    let ota = ota.header("Device-Id", id).header("Client-Id", "c").send().await.unwrap();
    assert_eq!(ota.status(), 200);
    let one = server.http_url(&format!("/api/devices/{id}"));
    let mut said = async || {
        vendors.forget_texts();
        person.say(&SPEECH).await;
        assert!(!person.answer().await.sentences.is_empty());
        vendors.llm.seen().texts.join(" ")
    };
    let first = said().await;
    assert!(first.contains("attic: ") && !first.contains("stove: "), "{first}");
    let assigned = client.patch(&one).json(&json!({"agent": "kitchen"})).send().await.unwrap();
    let status = assigned.status();
    let shown = assigned.json::<Value>().await.unwrap();
    assert_eq!((status.as_u16(), &shown["agent"]), (200, &json!("kitchen")));
    let tools: Value = reqwest::get(format!("{one}/tools")).await.unwrap().json().await.unwrap();
    let key = format!("token:{serial}");
    let expected = json!([{"name": "stove", "key": key, "kind": "endpoint", "on": true}]);
    assert_eq!(tools["sources"], expected);
    let then = said().await;
    assert!(then.contains("stove: "), "{then}");
    for wrong in [json!({}), json!({"agent": ""}), json!({"agent": "字".repeat(22)})] {
        let refused = client.patch(&one).json(&wrong).send().await.unwrap();
        assert_eq!(refused.status(), 400, "{wrong}");
    }
    server.stop().await;
}
