//! Our server with unusual or greedy clients, and clients without a token.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hearken::auth::Tokens;
use hearken::config::AuthRequired;
use hearken_base::Secret;
use hearken_test_support::vendors::{gone, read_request};
use hearken_test_support::{PATIENCE, eventually};
use jiff::Timestamp;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{ADMIN, OwnServer, SECRET};
use crate::support::app::{TestServer, Vendors};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn dial(server: &OwnServer, tool: &str) -> Socket {
    connect_async(server.url("ws", tool)).await.unwrap().0
}

async fn say(socket: &mut Socket, message: Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

fn question(id: i64, kind: &str, content: Value) -> Value {
    json!({"version": [1, 0, 0], "id": id, "type": kind, "data": content})
}

fn subtract(id: i64, arguments: Value) -> Value {
    question(id, "call", json!({"version": [1, 0, 0], "tool": "subtract", "arguments": arguments}))
}

/// The next answer; the close code if the socket has closed.
async fn hear(socket: &mut Socket) -> Result<Value, Option<u16>> {
    let next = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|f| f.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("an answer")
}

/// Id, text and failure flag of a result.
fn said(answer: &Value) -> (i64, &str, bool) {
    assert_eq!((&answer["version"], &answer["type"]), (&json!([1, 0, 0]), &json!("result")));
    let response = &answer["data"]["response"];
    let text = response["content"][0]["data"].as_str().unwrap();
    (answer["id"].as_i64().unwrap(), text, response["error"].as_bool().unwrap())
}

#[tokio::test]
async fn the_conversation_of_the_document_works() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let mut socket = dial(&server, "subtract").await;
    say(&mut socket, question(1, "get", json!({}))).await;
    let parameter = |name: &str| json!({"name": name, "type": "number", "description": "A number", "example": "2"});
    let parameters = json!([parameter("b"), parameter("a"), {"name": "note", "type": "string"}]);
    let told = json!({"version": [1, 0, 0], "name": "subtract", "description": "Does subtract",
        "parameters": parameters});
    assert_eq!(hear(&mut socket).await, Ok(question(1, "info", told.clone())));
    say(&mut socket, subtract(2, json!(["2", "5"]))).await;
    let result = json!({
        "version": [1, 0, 0],
        "params": {"b": "2", "a": "5"},
        "response": {"content": [{"type": "text", "data": "3"}], "error": false},
    });
    assert_eq!(hear(&mut socket).await, Ok(question(2, "result", result)));
    let bare: Value =
        reqwest::get(server.url("http", "subtract")).await.unwrap().json().await.unwrap();
    assert_eq!(bare, told);
}

#[tokio::test]
async fn non_requests_are_ignored_and_invalid_calls_get_a_reason() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let mut socket = dial(&server, "subtract").await;
    for noise in ["", "hello", "[]", "{}", "{\"version\":[1,0,0],\"id\":\"1\",\"type\":\"get\"}"] {
        socket.send(Message::text(noise)).await.unwrap();
    }
    say(&mut socket, question(1, "put", json!({}))).await;
    say(&mut socket, question(1, "result", json!({"response": {}}))).await;
    say(&mut socket, question(1, "info", json!({"name": "subtract"}))).await;
    say(&mut socket, subtract(1, json!(["1", "1"]))).await;
    // The id is in use: no answer, whatever the content.
    say(&mut socket, subtract(1, json!(["2", "5"]))).await;
    say(&mut socket, question(1, "get", json!({}))).await;
    let other = question(2, "call", json!({"tool": "say 好"}));
    let mut newer = subtract(3, json!(["2", "5"]));
    newer["version"] = json!([2, 0, 0]);
    let nameless = question(4, "call", json!({"arguments": []}));
    let many = subtract(5, json!(["1", "2", "3", "4"]));
    let few = subtract(6, json!([]));
    let words = subtract(7, json!(["1", "two"]));
    socket.send(Message::binary(subtract(8, json!([1, 2])).to_string())).await.unwrap();
    for message in [other, newer, nameless, many, few, words] {
        say(&mut socket, message).await;
    }
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(hear(&mut socket).await.unwrap());
    }
    let mut told: Vec<(i64, &str, bool)> = answers.iter().map(said).collect();
    told.sort_unstable();
    for ((id, text, failed), (number, says)) in told.into_iter().zip([
        (1, "0"),
        (2, "there is no tool `say 好`"),
        (3, "the call is of LiteMCP 2.0.0, and this is 1.0.0"),
        (4, "`data.tool` is missing"),
        (5, "there are 4, and the tool takes 3"),
        (6, "\"b\" is a required property"),
        (7, "\"two\" is not of type \"number\""),
        (8, "1"),
    ]) {
        assert_eq!((id, failed), (number, !matches!(number, 1 | 8)), "{text}");
        assert!(text.contains(says), "{id}: {text}");
    }
    // Another connection has separate ids; a newer client reads our version from the answer.
    let mut second = dial(&server, "subtract").await;
    let mut newer = question(1, "get", Value::Null);
    newer["version"] = json!({"major": 2, "minor": 1, "patch": 0});
    say(&mut second, newer).await;
    let info = hear(&mut second).await.unwrap();
    assert_eq!((&info["version"], &info["type"]), (&json!([1, 0, 0]), &json!("info")));
}

#[tokio::test]
async fn calls_run_concurrently_and_end_with_their_socket() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let mut socket = dial(&server, "waits").await;
    let wait = |id| question(id, "call", json!({"tool": "waits"}));
    say(&mut socket, wait(1)).await;
    say(&mut socket, wait(2)).await;
    say(&mut socket, question(3, "get", json!({}))).await;
    assert_eq!(hear(&mut socket).await.unwrap()["id"], 3, "answered meanwhile");
    let begun = || async { (server.marks.count("begun") == 2).then_some(()) };
    eventually("both calls run", begun).await;
    assert_eq!(server.marks.count("ended"), 0);
    drop(socket);
    let ended = || async { (server.marks.count("ended") == 2).then_some(()) };
    tokio::time::timeout(Duration::from_secs(1), eventually("both ended", ended))
        .await
        .expect("before their timeout");
}

#[tokio::test]
async fn a_client_with_too_many_calls_or_too_long_messages_is_closed() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let mut greedy = dial(&server, "waits").await;
    for id in 0..200 {
        let wait = question(id, "call", json!({"tool": "waits"})).to_string();
        // The server may close the connection before all are sent.
        greedy.feed(Message::text(wait)).await.ok();
    }
    greedy.flush().await.ok();
    assert_eq!(hear(&mut greedy).await, Err(Some(1013)));
    assert!(server.marks.count("begun") <= 8);
    let mut long = dial(&server, "subtract").await;
    long.send(Message::text("x".repeat((1 << 20) + 1))).await.ok();
    assert_eq!(hear(&mut long).await, Err(Some(1009)));
}

/// A hundred messages of almost the maximum size: 90 MiB if all were buffered.
#[tokio::test]
async fn large_messages_wait_in_the_socket_until_others_are_answered() {
    const MESSAGES: i64 = 100;
    let server = OwnServer::start(AuthRequired::Never).await;
    let (mut asking, mut answers) = dial(&server, "subtract").await.split();
    let asks = async {
        for id in 0..MESSAGES {
            let call = subtract(id, json!(["x".repeat(900_000), "1"])).to_string();
            asking.send(Message::text(call)).await.unwrap();
        }
    };
    let heard = async {
        let mut answered = 0;
        while answered < MESSAGES {
            let message = answers.next().await.unwrap().unwrap();
            assert!(!message.is_close(), "closed after {answered}");
            answered += i64::from(message.is_text());
        }
    };
    tokio::join!(asks, heard);
}

#[tokio::test]
async fn http_statuses_report_the_outcome_of_a_call() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let client = reqwest::Client::new();
    let post = |at: &str, body: String| client.post(server.url("http", at)).body(body);
    let call = |tool: &str, arguments: Value| {
        json!({"version": [1, 0, 0], "tool": tool, "arguments": arguments}).to_string()
    };
    let newer = json!({"version": [2, 0, 0], "tool": "subtract"}).to_string();
    for (at, body, status, says) in [
        ("subtract", call("subtract", json!(["2", "5"])), 200, "3"),
        ("say%20%E5%A5%BD", call("say 好", json!(["hi"])), 200, "hi"),
        ("subtract", call("subtract", json!(["2"])), 400, "\"a\" is a required property"),
        ("subtract", call("other", json!(["2"])), 404, "there is no tool `other`"),
        ("fail", call("fail", json!([])), 502, "the tool failed: no rain"),
        ("waits", call("waits", json!([])), 504, "the tool did not answer"),
        ("none", call("none", json!([])), 404, "there is no tool of this name"),
        ("subtract", "hello".into(), 400, "the body is not JSON: expected value"),
        ("subtract", newer, 400, "the call is of LiteMCP 2.0.0"),
        ("subtract", "x".repeat((1 << 20) + 1), 413, ""),
    ] {
        let answer = post(at, body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{says}");
        let answer: Value = answer.json().await.unwrap();
        let response = &answer["response"];
        let text = response["content"][0]["data"].as_str().or(answer["error"]["message"].as_str());
        assert!(text.unwrap().contains(says), "{answer}");
        assert!(response.is_null() || response["error"] == (status != 200), "{answer}");
    }
}

#[tokio::test]
async fn tool_requests_need_the_admin_token_or_a_device_token() {
    let server = OwnServer::start(AuthRequired::Always).await;
    let id = "02:00:00:00:00:01";
    let tokens = Tokens::new(&Secret::new(SECRET), Duration::from_secs(60));
    let device = format!("Bearer {}", tokens.mint(id, "c", Timestamp::now()).unwrap());
    let admin = format!("Bearer {ADMIN}");
    let device = device.as_str();
    let admin = admin.as_str();
    let of_device = [("Device-Id", id), ("Client-Id", "c")];
    for (headers, status) in [
        (&[][..], 403),
        (&[("Authorization", "Bearer wrong")], 403),
        (&[("Authorization", device)], 403),
        (&[("Authorization", device), ("Device-Id", "02:00:00:00:00:02")], 403),
        (&[("Authorization", admin)], 200),
        (&[("Authentication", admin)], 200),
        (&[("Authentication", "Bearer wrong"), ("Authorization", admin)], 200),
        (&[("Authentication", device), of_device[0], of_device[1]], 200),
    ] {
        let client = reqwest::Client::new();
        let with = |mut request: RequestBuilder| {
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request
        };
        for method in [Method::GET, Method::POST] {
            let body = json!({"tool": "subtract", "arguments": ["1", "1"]}).to_string();
            let request = client.request(method, server.url("http", "subtract")).body(body);
            assert_eq!(with(request).send().await.unwrap().status(), status, "{headers:?}");
        }
        let mut handshake = server.url("ws", "subtract").into_client_request().unwrap();
        for (name, value) in headers {
            handshake.headers_mut().insert(*name, value.parse().unwrap());
        }
        match connect_async(handshake).await {
            Ok(_) => assert_eq!(status, 200, "{headers:?}"),
            Err(Error::Http(refused)) => assert_eq!(refused.status(), status, "{headers:?}"),
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_call_over_http_ends_when_its_client_leaves() {
    let vendors = Vendors::start().await;
    let world = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let locator = format!("http://{}/", world.local_addr().unwrap());
    let server = TestServer::start(&vendors, |config| {
        config.tools.builtin.enabled = vec!["get_location".into()];
        config.tools.builtin.location_url = locator;
        config.tools.builtin.timeout_ms = 60_000;
    })
    .await;
    let call = json!({"version": [1, 0, 0], "tool": "get_location"}).to_string();
    let call = reqwest::Client::new().post(server.http_url("/litemcp/get_location")).body(call);
    let mut asked = tokio::select! {
        answer = call.send() => panic!("{answer:?}"),
        asked = world.accept() => asked.unwrap().0,
    };
    let request = read_request(&mut asked).await;
    let ended = request.is_none() || gone(&mut asked, Duration::from_secs(10)).await;
    assert!(ended, "the tool still runs without a client");
    server.stop().await;
}
