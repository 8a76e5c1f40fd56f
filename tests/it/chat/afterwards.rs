//! Ten ordinary turns of a session after an odd event: requests, answers, events and stored
//! messages equal those of a session without it. Of the odd event itself, only the end is checked.

use std::path::Path;
use std::time::Duration;

use hearken::config::Config;
use hearken_base::Secret;
use hearken_dialogue::testkit::ten_turns::{Conversation, TurnSeen, assert_undisturbed, ten_turns};
use hearken_ports::{ChatMessage, Role};
use hearken_test_support::eventually;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use reqwest::Method;
use serde_json::{Value, json};

use super::events::Watcher;
use super::{SOON, Session, Table, answer, code};
use crate::support::app::{TestServer, Vendors};
use crate::support::slow_worlds::{AnswerStyle, SlowWorlds};

/// Timeout of the model and of the state server in these tests.
const PATIENCE_MS: u64 = 2_500;
const ADMIN: &str = "the admin token of the tests";

const OPEN: &str = r#"call open_door {"door_id": "gate"}"#;
const OPENED: [&str; 4] = [
    "user: call open_door {\"door_id\": \"gate\"}",
    "assistant: ",
    "tool: {",
    "assistant: You said {",
];

/// Echoes the message; calls a tool again and again after "insist".
fn reply(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    match &*asked {
        "insist" => "call list_characters {}".into(),
        told if told.starts_with("{\"characters\"") => "call list_characters {}".into(),
        _ if asked.starts_with("call ") => String::new(),
        _ => format!("You said {asked}"),
    }
}

/// A server of chat sessions, and its state server.
struct ChatServer {
    table: Table,
    worlds: SlowWorlds,
}

impl ChatServer {
    async fn start() -> Self {
        let worlds = SlowWorlds::start(Duration::from_millis(5)).await;
        let vendors = Vendors::of(
            ListenAiAsr::start(Behaviour::Normal, "").await,
            OpenAiChat::answering(reply).await,
            ListenAiTts::start(Behaviour::Normal).await,
        );
        let url = worlds.url.clone();
        let tweak = |config: &mut Config| {
            config.state.url = url;
            config.state.timeout_ms = PATIENCE_MS;
            config.llm.timeout_ms = PATIENCE_MS;
            config.llm.retry_within_ms = 1;
            config.auth.admin_token = Secret::new(ADMIN);
        };
        let table = Table::of(vendors, tweak).await;
        Self { table, worlds }
    }

    /// Stops the server and starts another one on this data folder.
    async fn restarted(self, folder: &Path, tweak: impl FnOnce(&mut Config)) -> Self {
        let Self { table: Table { server, vendors, _worlds, .. }, worlds } = self;
        server.stop().await;
        let server = TestServer::start(&vendors, |config| {
            config.server.data_dir = folder.to_owned();
            config.state.url = worlds.url.clone();
            tweak(config);
        })
        .await;
        let http = reqwest::Client::builder().timeout(SOON).build().unwrap();
        Self { table: Table { server, vendors, _worlds, http }, worlds }
    }

    /// Sends the message, which must fail with this status and code.
    async fn fails(&self, session: &Session<'_>, message: &str, wanted: (u16, &str)) {
        let told = code(session.post("/chat", json!({ "message": message })).await);
        assert_eq!((told.0, told.1.as_str()), wanted, "{message}");
    }
}

/// A client that talks in a session and watches it.
struct Talk<'a> {
    chat: &'a ChatServer,
    session: &'a Session<'a>,
    watcher: Watcher,
    /// Number of messages before the first turn.
    before: usize,
}

impl<'a> Talk<'a> {
    async fn new(chat: &'a ChatServer, session: &'a Session<'a>) -> Self {
        let mut watcher = Watcher::connect(&chat.table, &session.id, "").await;
        assert_eq!(watcher.next().await["type"], "connected");
        Self { chat, session, watcher, before: messages(session).await.len() }
    }

    /// The prompts after the first `from` requests to the model.
    fn prompts(&self, from: usize) -> Vec<Vec<ChatMessage>> {
        let texts = self.chat.table.vendors.llm.seen().texts;
        let bodies = texts[from..].iter().filter_map(|text| serde_json::from_str(text).ok());
        let prompt = |body: Value| {
            let all = body["messages"].as_array().unwrap()[1..].iter();
            all.map(shown).collect()
        };
        bodies.map(prompt).collect()
    }
}

async fn messages(session: &Session<'_>) -> Vec<Value> {
    let (status, told) = session.get("/messages?limit=200").await;
    assert_eq!(status, 200, "{told}");
    told["messages"].as_array().unwrap().clone()
}

/// A message without the ids of its calls.
fn shown(message: &Value) -> ChatMessage {
    let content = message["content"].as_str().unwrap_or_default();
    let role = serde_json::from_value(message["role"].clone()).unwrap();
    let mut calls = String::new();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        calls.push_str(&format!(" calls {}", call["function"]));
    }
    ChatMessage::new(role, format!("{content}{calls}"))
}

impl Conversation for Talk<'_> {
    async fn turn(&mut self, n: usize) -> TurnSeen {
        let message = match n % 3 {
            1 => format!(r#"call open_door {{"door_id": "door {n}"}}"#),
            _ => format!("question {n}"),
        };
        let from = self.chat.table.vendors.llm.seen().texts.len();
        let told = self.session.say(&message).await;
        let events = self.watcher.until("chat.answered", &message).await;
        let event = |event: &Value| format!("{}: {}", event["type"], event["data"]);
        let rows = messages(self.session).await;
        TurnSeen {
            prompts: self.prompts(from),
            answer: format!(
                "{}, {}, {}, {}",
                told["response"], told["state_changes"], told["requires_roll"], told["turn_info"]
            ),
            events: events.iter().map(event).collect(),
            rows: rows[self.before..].iter().map(|row| format!("{:?}", shown(row))).collect(),
        }
    }
}

/// Plays ten turns in a session after an odd event that left these messages.
async fn undisturbed(
    event: &str,
    chat: &ChatServer,
    session: &Session<'_>,
    plain: &[TurnSeen],
    remains: &[&str],
) {
    let said = session.said().await;
    let fits = said.len() == remains.len()
        && said.iter().zip(remains).all(|(said, want)| said.starts_with(want));
    assert!(fits, "after {event} there are {said:?}, not {remains:?}");
    let mut left: Vec<ChatMessage> = messages(session).await.iter().map(shown).collect();
    if left.last().is_some_and(|last| last.role == Role::Tool) {
        // Some models refuse words behind a result: the adapter sends an acknowledgement between.
        left.push(ChatMessage::new(Role::Assistant, "OK."));
    }
    let after = ten_turns(&mut Talk::new(chat, session).await).await;
    assert_undisturbed(event, plain, &after, &left);
}

async fn plain(chat: &ChatServer) -> Vec<TurnSeen> {
    let session = chat.table.session().await;
    ten_turns(&mut Talk::new(chat, &session).await).await
}

#[actix_web::test]
async fn ten_turns_are_normal_after_a_model_failure() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    let llm = &chat.table.vendors.llm;
    for behaviour in [
        Behaviour::HttpStatus(500, None),
        Behaviour::HttpStatus(400, None),
        Behaviour::HttpStatus(429, None),
        Behaviour::Garbage,
        Behaviour::ResetMidStream,
        Behaviour::Empty,
        Behaviour::Thinking,
        Behaviour::Silent,
    ] {
        let session = chat.table.session().await;
        llm.set(behaviour);
        chat.fails(&session, "a longer question", (503, "LLM_UNAVAILABLE")).await;
        llm.set(Behaviour::Normal);
        undisturbed(&format!("{behaviour:?}"), &chat, &session, &plain, &[]).await;
    }
    let session = chat.table.session().await;
    llm.set(Behaviour::Insistent);
    chat.fails(&session, "insist", (500, "MAX_ITERATIONS_EXCEEDED")).await;
    llm.set(Behaviour::Normal);
    undisturbed("too many rounds", &chat, &session, &plain, &[]).await;
    chat.table.server.stop().await;
}

#[actix_web::test]
async fn ten_turns_are_normal_after_a_model_failure_after_a_tool_call() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    let llm = &chat.table.vendors.llm;
    // An empty text after a call that succeeded counts as an answer.
    let failed = (503, "LLM_UNAVAILABLE");
    let silent: &[&str] = &OPENED[..3];
    for (behaviour, told, remains) in [
        (Behaviour::HttpStatus(500, None), failed, &[][..]),
        (Behaviour::Empty, (200, ""), silent),
        (Behaviour::Thinking, (200, ""), silent),
        (Behaviour::Silent, failed, &[]),
    ] {
        let session = chat.table.session().await;
        let asked = llm.seen().requests;
        let failing = async {
            // The state server is slow, so the next request to the model is the one with the tool's result.
            llm.until(|seen| seen.requests > asked).await;
            llm.set(behaviour);
        };
        tokio::join!(chat.fails(&session, OPEN, told), failing);
        llm.set(Behaviour::Normal);
        let event = format!("{behaviour:?} after a tool call");
        undisturbed(&event, &chat, &session, &plain, remains).await;
    }
    chat.table.server.stop().await;
}

#[actix_web::test]
async fn ten_turns_are_normal_after_a_tool_or_state_server_failure() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    let nobody = r#"call update_hp {"character_id": "nobody", "change": 1}"#;
    for wrong in [nobody, "call no_such_tool {}", r#"call open_door {"door_id": 5}"#] {
        let session = chat.table.session().await;
        session.say(wrong).await;
        let user = format!("user: {wrong}");
        let remains = [&*user, "assistant: ", "tool: error", "assistant: You said error"];
        undisturbed(wrong, &chat, &session, &plain, &remains).await;
    }
    let session = chat.table.session().await;
    chat.worlds.set(AnswerStyle::Dropped);
    chat.fails(&session, OPEN, (502, "MCP_SERVER_ERROR")).await;
    chat.worlds.set(AnswerStyle::Normal);
    undisturbed("an unreachable state server", &chat, &session, &plain, &[]).await;
    let session = chat.table.session().await;
    chat.worlds.set(AnswerStyle::Conflicts);
    chat.fails(&session, OPEN, (409, "VERSION_CONFLICT")).await;
    chat.worlds.set(AnswerStyle::Normal);
    undisturbed("an outdated version, twice", &chat, &session, &plain, &[]).await;
    let session = chat.table.session().await;
    chat.worlds.set(AnswerStyle::Silent);
    session.say(OPEN).await;
    chat.worlds.set(AnswerStyle::Normal);
    let late = [OPENED[0], OPENED[1], "tool: error", "assistant: You said error"];
    undisturbed("a slow state server", &chat, &session, &plain, &late).await;
    chat.table.server.stop().await;
}

#[actix_web::test]
async fn ten_turns_are_normal_after_a_client_left() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    let llm = &chat.table.vendors.llm;
    for (key, stream) in [("plain", false), ("streamed", true)] {
        let session = chat.table.session().await;
        let mut watcher = Watcher::connect(&chat.table, &session.id, "").await;
        watcher.next().await;
        let asked = llm.seen().requests;
        let url = session.path("/chat");
        let said = json!({"message": OPEN, "stream": stream});
        let asking = chat.table.request(Method::POST, &url).header("Idempotency-Key", key);
        let asking = asking.json(&said).send();
        // Resolves when the state server is called.
        let called = async {
            llm.until(|seen| seen.requests > asked).await;
            chat.worlds.until(chat.worlds.moments() + 1).await;
        };
        tokio::select! {
            biased;
            () = called => {}
            answered = asking => panic!("it should have left before: {answered:?}"),
        }
        // The turn completes, and watchers receive its events.
        watcher.until("chat.answered", OPEN).await;
        undisturbed(&format!("a client that left, {key}"), &chat, &session, &plain, &OPENED).await;
    }
    chat.table.server.stop().await;
}

#[actix_web::test]
async fn ten_turns_are_normal_after_a_session_is_restored() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    for (event, method, part) in
        [("archive", Method::POST, "/archive"), ("delete", Method::DELETE, "")]
    {
        let session = chat.table.session().await;
        session.say(OPEN).await;
        assert_eq!(chat.table.ask(method, &session.path(part), None).await.0, 200);
        let refused = session.post("/chat", json!({"message": "hi"})).await.0;
        assert!(refused == 409 || refused == 404, "{refused}");
        assert_eq!(session.post("/restore", Value::Null).await.0, 200);
        undisturbed(&format!("{event} and restore"), &chat, &session, &plain, &OPENED).await;
    }
    let session = chat.table.session().await;
    session.say(OPEN).await;
    let (_, snapshot) = session.post("/snapshots", Value::Null).await;
    session.say("this will not have been said").await;
    session.say(r#"call open_door {"door_id": "another"}"#).await;
    let back = format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap());
    assert_eq!(session.post(&back, Value::Null).await.0, 200);
    undisturbed("a rollback", &chat, &session, &plain, &OPENED).await;
    // A snapshot of an archived session cannot be restored.
    session.post("/archive", Value::Null).await;
    assert_eq!(code(session.post(&back, Value::Null).await), (409, "CONFLICT".into()));
    chat.table.server.stop().await;
}

#[actix_web::test]
async fn ten_turns_are_normal_after_settings_changed_and_changed_back() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    let session = chat.table.session().await;
    let who = json!({"username": "admin", "password": ADMIN});
    let (_, told) = chat.table.post("/api/admin/login", who).await;
    let token = told["access_token"].as_str().unwrap();
    let change = async |wanted: Value| {
        let asked = chat.table.request(Method::PUT, "/api/admin/config").bearer_auth(token);
        let (status, told) = answer(asked.json(&wanted)).await;
        assert_eq!(status, 200, "{told}");
    };
    change(json!({"chat": {"system_prompt": "You are a dragon.", "max_tokens": 55}})).await;
    session.say(OPEN).await;
    change(json!({"chat": {"system_prompt": null, "max_tokens": null}})).await;
    undisturbed("other settings", &chat, &session, &plain, &OPENED).await;
    chat.table.server.stop().await;
}

#[actix_web::test]
async fn ten_turns_are_normal_after_a_server_restart() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    let folder = chat.table.vendors.config().server.data_dir;
    let chat = chat.restarted(&folder, |_| {}).await;
    let id = {
        let session = chat.table.session().await;
        session.say(OPEN).await;
        session.id
    };
    let chat = chat.restarted(&folder, |_| {}).await;
    let session = Session { table: &chat.table, id };
    undisturbed("a server restart", &chat, &session, &plain, &OPENED).await;
    chat.table.server.stop().await;
}

#[actix_web::test]
async fn ten_turns_are_normal_after_a_purge() {
    let chat = ChatServer::start().await;
    let plain = plain(&chat).await;
    let folder = chat.table.vendors.config().server.data_dir;
    let chat = chat.restarted(&folder, |_| {}).await;
    let make = async || {
        let session = chat.table.session().await;
        session.say(OPEN).await;
        session.id
    };
    let gone = make().await;
    let neighbour = make().await;
    let back = make().await;
    for id in [&gone, &back] {
        let deleted = chat.table.ask(Method::DELETE, &format!("/api/sessions/{id}"), None).await;
        assert_eq!(deleted.0, 200);
    }
    let restored = chat.table.post(&format!("/api/sessions/{back}/restore"), Value::Null).await;
    assert_eq!(restored.0, 200);
    // The server purges at its start.
    let chat = chat.restarted(&folder, |config| config.chat.purge_after = Duration::ZERO).await;
    eventually("it is purged", || async {
        let (_, told) = chat.table.get("/api/sessions?status=deleted").await;
        (told["total"] == 0).then_some(())
    })
    .await;
    let session = |id| Session { table: &chat.table, id };
    for part in ["/chat", "/restore", "/snapshots"] {
        let told = session(gone.clone()).post(part, json!({"message": "hello"})).await;
        assert_eq!(code(told), (404, "SESSION_NOT_FOUND".into()), "{part}");
    }
    assert!(!chat.worlds.knows(&gone) && chat.worlds.knows(&neighbour));
    let neighbours = [("neighbour", session(neighbour)), ("restored", session(back))];
    for (which, session) in neighbours {
        let event = format!("a purge, in a {which} session");
        undisturbed(&event, &chat, &session, &plain, &OPENED).await;
    }
    // A new session of the same person.
    let fresh = chat.table.session().await;
    undisturbed("a purge, in a new session", &chat, &fresh, &plain, &[]).await;
    let (_, told) = chat.table.get("/api/sessions?user_id=user-123").await;
    assert_eq!(told["total"], 3, "{told}");
    chat.table.server.stop().await;
}
