//! The client of state servers: against our own sample server, and against a misbehaving stub, over
//! real sockets. Not for game rules.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hearken_base::Secret;
use hearken_ports::{StateError, StateServer};
use hearken_proto::ids::SessionId;
use hearken_providers::retry::RetryPolicy;
use hearken_providers::state::{self, HttpStateServer, StateConfig};
use hearken_test_support::scripted_server::{ScriptedServer, answer};
use hearken_test_support::vendors::{gone, nowhere, read_request, respond};
use hearken_test_support::worlds::Worlds;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The real policy, with a hundredth of its times.
const HASTY: RetryPolicy = RetryPolicy {
    waits: &[Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(40)],
    ..RetryPolicy::patient()
};

fn client(url: &str) -> HttpStateServer {
    client_with(url, 10_000)
}

fn client_with(url: &str, timeout_ms: u64) -> HttpStateServer {
    let config = StateConfig { url: url.into(), timeout_ms, ..StateConfig::default() };
    state::http(&config, HASTY).unwrap()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn session() -> SessionId {
    SessionId::random()
}

#[tokio::test]
async fn a_game_is_played_and_restored() {
    let worlds = Worlds::start(7);
    // The base URL may end with a slash.
    let client = client_with(&format!("{}/", worlds.url), 10_000);
    let session = session();
    let tools = client.tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "resolve_attack"));
    assert!(tools.iter().all(|tool| tool.parameters["type"] == "object"));
    let unknown = client.state(&session).await;
    assert_eq!(unknown, Err(StateError::Unknown(format!("there is no session {session}"))));
    client.create(&session, "失落的地牢").await.unwrap();
    client.create(&session, "again").await.unwrap();
    let state = client.state(&session).await.unwrap();
    assert_eq!((&state["name"], &state["version"]), (&json!("失落的地牢"), &json!(1)));
    let call = |tool: &str, arguments: Value, version| {
        client.call(&session, tool, object(arguments), version)
    };
    let goblin = call("create_character", json!({ "name": "goblin", "hp_max": 13 }), Some(1)).await;
    let goblin = goblin.unwrap();
    assert_eq!(goblin.version, Some(2));
    assert_eq!(goblin.result["state_changes"], json!({ "goblin_1": { "hp": 13, "hp_max": 13 } }));
    let hurt = json!({ "character_id": "goblin_1", "change": -13 });
    let conflict = call("update_hp", hurt.clone(), Some(1)).await;
    assert_eq!(conflict, Err(StateError::Conflict(Some(2))));
    let hurt = call("update_hp", hurt, Some(2)).await.unwrap();
    let kinds: Vec<&str> = hurt.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["character.hp_changed", "combat.character_downed"]);
    assert!(hurt.events.iter().all(|event| event.id.is_some()));
    assert_eq!(hurt.events[0].data["hp"], 0);
    let failed = call("end_combat", json!({}), None).await.unwrap();
    assert!(failed.error.unwrap().contains("there is no fight"));
    let refused = call("roll_dice", json!({ "dice": "x" }), None).await;
    assert!(matches!(refused, Err(StateError::Refused(why)) if why.contains("`dice`")));
    let unknown = call("dance", json!({}), None).await;
    assert!(matches!(unknown, Err(StateError::Unknown(why)) if why.contains("`dance`")));
    assert_eq!(client.restore(&session, 2).await, Ok(true));
    assert_eq!(client.restore(&session, 99).await, Ok(false));
    let state = client.state(&session).await.unwrap();
    assert_eq!((&state["version"], &state["characters"][0]["hp"]), (&json!(4), &json!(13)));
    client.delete(&session).await.unwrap();
    client.delete(&session).await.unwrap();
    assert!(matches!(client.state(&session).await, Err(StateError::Unknown(_))));
}

#[tokio::test]
async fn concurrent_calls_all_succeed_and_those_with_an_old_version_are_refused() {
    let worlds = Worlds::start(7);
    let client = client_with(&worlds.url, 10_000);
    let session = session();
    client.create(&session, "w").await.unwrap();
    let opened = |n: usize, version| {
        client.call(&session, "open_door", object(json!({ "door_id": format!("d{n}") })), version)
    };
    let all = futures_util::future::join_all((0..50).map(|n| opened(n, None))).await;
    assert!(all.iter().all(Result::is_ok));
    let state = client.state(&session).await.unwrap();
    let version = state["version"].as_i64();
    assert_eq!((version, state["open_doors"].as_array().unwrap().len()), (Some(51), 50));
    let all = futures_util::future::join_all((50..60).map(|n| opened(n, version))).await;
    let conflicts = all.iter().filter(|o| **o == Err(StateError::Conflict(Some(52)))).count();
    assert_eq!((all.iter().filter(|o| o.is_ok()).count(), conflicts), (1, 9));
}

/// Scripted response of the stub to a request.
#[derive(Clone)]
enum Reply {
    Says(u16, &'static str, Vec<u8>),
    Silent,
    BreaksOff,
}

use Reply::{BreaksOff, Says, Silent};

fn says(status: u16, body: Value) -> Reply {
    Says(status, "", body.to_string().into_bytes())
}

/// A state server with scripted responses, one per request, whose last one repeats.
struct Stub {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Stub {
    async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/game", listener.local_addr().unwrap());
        let replies: Arc<Mutex<VecDeque<Reply>>> =
            Arc::new(Mutex::new(replies.into_iter().collect()));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut visits = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                visits.spawn(visit(stream, Arc::clone(&replies), Arc::clone(&noted)));
            }
        });
        Self { url, seen, task }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn visit(
    mut stream: TcpStream,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let Some(request) = read_request(&mut stream).await else { return };
    let body = String::from_utf8_lossy(&request.body).into_owned();
    seen.lock().unwrap().push(format!("{}\n\n{body}", request.head));
    let reply = {
        let mut replies = replies.lock().unwrap();
        if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
    };
    match reply.expect("the stub has a reply") {
        Says(status, headers, body) => respond(&mut stream, status, headers, &body).await,
        Silent => while !gone(&mut stream, Duration::from_secs(3_600)).await {},
        BreaksOff => {}
    }
}

#[tokio::test]
async fn requests_have_the_documented_format() {
    let stub = Stub::start([says(200, json!({ "result": 1 }))]).await;
    let config =
        StateConfig { url: stub.url.clone(), token: Secret::new("hush"), ..StateConfig::default() };
    let client = state::state_server(&config).unwrap().unwrap();
    let session = SessionId::new("a b");
    let told = client.call(&session, "f", object(json!({ "x": 1 })), Some(5)).await.unwrap();
    assert_eq!((told.result, told.version, told.events.len()), (json!(1), None, 0));
    client.call(&session, "f", Map::new(), None).await.unwrap();
    client.state(&session).await.unwrap();
    client.create(&session, "w").await.unwrap();
    client.delete(&session).await.unwrap();
    assert_eq!(client.restore(&session, 3).await, Ok(true));
    let seen: Vec<(String, Value)> = stub
        .seen()
        .iter()
        .map(|text| {
            assert!(text.to_ascii_lowercase().contains("authorization: bearer hush"), "{text}");
            let (head, body) = text.split_once("\n\n").unwrap();
            let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
            (line.to_owned(), serde_json::from_str(body).unwrap_or_default())
        })
        .collect();
    let call = json!({ "session_id": "a b", "tool_name": "f", "arguments": {} });
    let mut versioned = call.clone();
    versioned["version"] = 5.into();
    versioned["arguments"] = json!({ "x": 1 });
    let expected = [
        ("POST /game/tools/call", versioned),
        ("POST /game/tools/call", call),
        ("GET /game/state?session_id=a+b", Value::Null),
        ("POST /game/state", json!({ "session_id": "a b", "name": "w" })),
        ("DELETE /game/state?session_id=a+b", Value::Null),
        ("POST /game/state/restore", json!({ "session_id": "a b", "version": 3 })),
    ];
    assert_eq!(seen, expected.map(|(line, body)| (line.to_owned(), body)));
}

#[tokio::test]
async fn a_request_that_was_not_carried_out_is_retried() {
    for status in [425, 429, 502, 503] {
        let down = || says(status, json!({}));
        let stub = Stub::start([down(), down(), down(), says(200, json!({ "version": 3 }))]).await;
        let told = client(&stub.url).call(&session(), "f", Map::new(), None).await.unwrap();
        assert_eq!((told.version, stub.seen().len()), (Some(3), 4));
        let stub = Stub::start([down()]).await;
        let told = client(&stub.url).call(&session(), "f", Map::new(), None).await;
        assert_eq!(told, Err(StateError::Failed(format!("status {status}"))));
        assert_eq!(stub.seen().len(), 4);
    }
    let began = Instant::now();
    let none = client(&nowhere("http")).call(&session(), "f", Map::new(), None).await;
    assert!(matches!(none, Err(StateError::Failed(_))), "{none:?}");
    assert!(began.elapsed() >= Duration::from_millis(70), "there are waits between attempts");
}

#[tokio::test]
async fn the_wait_that_the_server_requests_is_respected() {
    for status in [500, 503] {
        let wait = |told| [Says(status, told, Vec::new()), says(200, json!({}))];
        let stub = Stub::start(wait("retry-after-ms: 300\r\n")).await;
        let began = Instant::now();
        client_with(&stub.url, 10_000).state(&session()).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(300), "{status}");
        // The wait exceeds the maximum, or would end after the deadline.
        for (told, timeout_ms) in [("retry-after: 60\r\n", 600_000), ("retry-after: 1\r\n", 300)] {
            let stub = Stub::start(wait(told)).await;
            let told = client_with(&stub.url, timeout_ms).state(&session()).await;
            assert_eq!(told, Err(StateError::Failed(format!("status {status}"))));
            assert_eq!(stub.seen().len(), 1);
        }
    }
}

/// Checks that a wait requested by `Retry-After` in this form is respected.
async fn check_wait(status: u16, told: &str, least: Duration) {
    let refusal = answer(status, &format!("retry-after: {told}\r\n"), b"{}");
    let server = ScriptedServer::start([refusal, answer(200, "", b"{}")]).await;
    let began = Instant::now();
    let state = client_with(&server.url("http", "/game"), 60_000).state(&session()).await;
    assert_eq!((state, server.requests()), (Ok(Map::new()), 2), "{status} {told}");
    assert!(began.elapsed() >= least, "{status} {told}: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_wait_as_a_fraction_or_a_date_is_respected() {
    // Dates have whole seconds; a client that ignores them retries after some milliseconds.
    let date = (Timestamp::now() + 3.seconds()).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let checks = [429, 500, 503].map(|status| {
        let date = date.as_str();
        async move {
            let fraction = check_wait(status, "1.25", Duration::from_millis(1_250));
            tokio::join!(fraction, check_wait(status, date, Duration::from_millis(500)))
        }
    });
    futures_util::future::join_all(checks).await;
}

#[tokio::test]
async fn a_request_that_may_have_been_carried_out_is_retried_only_if_idempotent() {
    let failing = [408, 500, 504, 507, 520].map(|status| says(status, json!({})));
    for reply in failing.into_iter().chain([BreaksOff]) {
        let stub = Stub::start([reply.clone()]).await;
        let client = client_with(&stub.url, 10_000);
        let told = client.call(&session(), "f", Map::new(), None).await;
        match reply {
            Says(408 | 504, ..) => {
                assert_eq!(told, Err(StateError::Timeout(Duration::from_secs(10))));
            }
            Says(status, ..) => {
                assert_eq!(told, Err(StateError::Failed(format!("status {status}"))));
            }
            _ => assert!(matches!(told, Err(StateError::Failed(_))), "{told:?}"),
        }
        assert_eq!(stub.seen().len(), 1);
        assert!(client.restore(&session(), 1).await.is_err());
        assert_eq!(stub.seen().len(), 2);
        // Then all attempts are made, and no more.
        assert!(client.state(&session()).await.is_err());
        assert_eq!(stub.seen().len(), 2 + 4);
        let good = says(200, json!({ "version": 9, "tools": [] }));
        let replies = || [reply.clone(), good.clone()];
        let again = async |replies| {
            let stub = Stub::start(replies).await;
            (client_with(&stub.url, 10_000), stub)
        };
        let (client, _stub) = again(replies()).await;
        assert_eq!(client.state(&session()).await.unwrap()["version"], 9);
        let (client, _stub) = again(replies()).await;
        assert!(client.tools().await.unwrap().is_empty());
        let (client, _stub) = again(replies()).await;
        client.create(&session(), "w").await.unwrap();
        let (client, _stub) = again(replies()).await;
        client.delete(&session()).await.unwrap();
    }
}

#[tokio::test]
async fn all_attempts_together_have_one_deadline() {
    let late = StateError::Timeout(Duration::from_millis(300));
    let good = || says(200, json!({ "tools": [] }));
    let stub = Stub::start([Silent, Silent, Silent, Silent, Silent, Silent, good()]).await;
    let client = client_with(&stub.url, 300);
    assert!(client.timeout() < Duration::from_millis(400), "{:?}", client.timeout());
    let me = session();
    let began = Instant::now();
    assert_eq!(client.tools().await, Err(late.clone()));
    assert_eq!(client.state(&me).await, Err(late.clone()));
    assert_eq!(client.create(&me, "w").await, Err(late.clone()));
    assert_eq!(client.delete(&me).await, Err(late.clone()));
    assert_eq!(client.call(&me, "f", Map::new(), None).await, Err(late.clone()));
    assert_eq!(client.restore(&me, 1).await, Err(late));
    assert_eq!(stub.seen().len(), 6, "a timed-out request is not retried");
    assert!(began.elapsed() >= Duration::from_millis(6 * 300));
    // An attempt has the time that earlier ones left.
    let down = || says(503, json!({}));
    let stub = Stub::start([down(), Silent, good()]).await;
    let told = client_with(&stub.url, 1_000).state(&me).await;
    assert_eq!(told, Err(StateError::Timeout(Duration::from_secs(1))));
    assert_eq!(stub.seen().len(), 2);
    // A wait that would end after the deadline does not start.
    let stub = Stub::start([down()]).await;
    let config = StateConfig { url: stub.url.clone(), timeout_ms: 300, ..StateConfig::default() };
    let told = state::http(&config, RetryPolicy::patient()).unwrap().state(&me).await;
    assert_eq!(told, Err(StateError::Failed("status 503".into())));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn refusals_are_returned_at_once() {
    let conflict = json!({ "error": { "code": "VERSION_CONFLICT" }, "version": 8 });
    for (reply, error) in [
        (says(409, conflict), StateError::Conflict(Some(8))),
        (says(400, json!({ "error": "no" })), StateError::Refused("no".into())),
        (says(404, json!({ "error": { "message": "who" } })), StateError::Unknown("who".into())),
        (says(500, json!({ "error": "oh" })), StateError::Failed("status 500: oh".into())),
    ] {
        let stub = Stub::start([reply]).await;
        assert_eq!(client(&stub.url).call(&session(), "f", Map::new(), None).await, Err(error));
        assert_eq!(stub.seen().len(), 1);
    }
    for garbage in [b"<html>".to_vec(), vec![b' '; 2 << 20], b"[1,2]".to_vec()] {
        let stub = Stub::start([Says(200, "", garbage)]).await;
        let told = client(&stub.url).call(&session(), "f", Map::new(), None).await;
        assert!(matches!(told, Err(StateError::Failed(_))), "{told:?}");
        assert_eq!(stub.seen().len(), 1);
    }
    let stub = Stub::start([says(405, json!({}))]).await;
    assert_eq!(client(&stub.url).restore(&session(), 1).await, Ok(false));
}

#[tokio::test]
async fn requests_beyond_the_limit_wait_for_a_permit() {
    let stub = Stub::start([Silent, says(200, json!({}))]).await;
    let config =
        StateConfig { url: stub.url.clone(), max_connections: 1, ..StateConfig::default() };
    let client = state::http(&config, HASTY).unwrap();
    let me = session();
    let other = session();
    let first = tokio::spawn(client.call(&me, "f", Map::new(), None));
    while stub.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut second = client.state(&other);
    for _ in 0..100 {
        assert!(futures_util::poll!(&mut second).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(stub.seen().len(), 1);
    // The first frees its permit when it is dropped; then the second gets it.
    first.abort();
    second.await.unwrap();
    assert_eq!(stub.seen().len(), 2);
    // A request without a permit in time fails.
    let stub = Stub::start([Silent]).await;
    let config = StateConfig { url: stub.url.clone(), timeout_ms: 300, ..config };
    let client = state::http(&config, HASTY).unwrap();
    let (first, second) =
        tokio::join!(client.call(&me, "f", Map::new(), None), client.state(&other));
    let late = StateError::Timeout(Duration::from_millis(300));
    assert_eq!((first, second), (Err(late.clone()), Err(late)));
}

#[test]
fn invalid_addresses_are_refused() {
    let built = |url: &str, token: &str| {
        let config =
            StateConfig { url: url.into(), token: Secret::new(token), ..StateConfig::default() };
        state::state_server(&config).map(|server| server.is_some()).map_err(|e| e.to_string())
    };
    assert_eq!(built("", ""), Ok(false));
    assert_eq!(built("http://h:9000", ""), Ok(true));
    for wrong in ["h:9000", "ftp://h", "http://h/?x=1", "http://me:hush@h/?x"] {
        let told = built(wrong, "").unwrap_err();
        assert!(told.starts_with("`state.url` is `") && !told.contains("hush"), "{told}");
    }
    assert!(built("http://h", "two\nlines").unwrap_err().starts_with("`state.token` is `***`"));
}
