//! Sessions of text clients in use: they are not swept, each exists once, and the effects of its
//! turns are stored even if its clients leave. In virtual time, on one instance and on several that
//! share a store. Not for random sequences: see `text_sessions`.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_http::ws::Message;
use hearken_base::slots::Slots;
use hearken_ports::{ChatMessage, Role};
use hearken_proto::ids::SessionId;
use hearken_socket::testkit::{MemorySocket, Received};
use hearken_text_gateway::text_client::TextClientActor;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::text_sessions::world::{IDLE, Instances};
use crate::{freeze, ms};

/// Maximum wait for anything, in virtual time.
const PATIENCE: Duration = Duration::from_secs(400);

/// One text client, which requests context and streaming.
pub(crate) struct Client {
    pub(crate) socket: MemorySocket,
    pub(crate) session: String,
}

impl Client {
    /// Connects to this instance, and registers two tools.
    pub(crate) async fn connect(instances: &Instances, instance: usize) -> Self {
        freeze();
        let slot = Slots::new(1, 1).take(None).unwrap();
        let service = instances.services[instance].clone();
        let actor = TextClientActor::new(service, Some(slot), CancellationToken::new());
        let mut client = Self { socket: MemorySocket::open(actor, true), session: String::new() };
        client.send(&json!({"type": "configure", "enable_context": true, "stream": true}));
        let tool =
            |name| json!({"name": name, "description": "d", "parameters": {"type": "object"}});
        client.send(&json!({"type": "register_tools", "tools": [tool("lamp"), tool("radio")]}));
        client.session = id_of(&client.until("status/connected").await);
        client.until("tools_registered").await;
        client
    }

    pub(crate) fn send(&self, message: &Value) {
        self.socket.send(Message::Text(message.to_string().into()));
    }

    pub(crate) fn say(&self, text: &str) {
        self.send(&json!({"type": "text_input", "text": text}));
    }

    fn say_in(&self, session: &str, text: &str) {
        self.send(&json!({"type": "text_input", "text": text, "session_id": session}));
    }

    pub(crate) async fn resume(&mut self, session: &str) {
        self.send(&json!({"type": "start_session", "session_id": session}));
        assert_eq!(id_of(&self.until("status/connected").await), session);
    }

    pub(crate) async fn next(&mut self) -> (String, Value) {
        let down = self.socket.next_by(Instant::now() + PATIENCE).await.expect("a message arrives");
        let name = down.what.name();
        match down.what {
            Received::Text(message) => (name, message),
            _ => (name, Value::Null),
        }
    }

    /// Returns the next message of this name; fails if the request ends otherwise.
    pub(crate) async fn until(&mut self, wanted: &str) -> Value {
        loop {
            let (name, message) = self.next().await;
            if name == wanted {
                return message;
            }
            assert!(
                name != "error" && name != "llm_response",
                "{name} instead of {wanted}: {message}"
            );
        }
    }

    pub(crate) async fn ask(&mut self, text: &str) -> String {
        self.say(text);
        self.until("llm_response").await["content"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn id_of(message: &Value) -> String {
    message["data"]["session_id"].as_str().unwrap().to_owned()
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Returns the model's last prompt, as roles and contents.
fn last_prompt(instances: &Instances) -> Vec<String> {
    let asked = instances.model.asked.lock().unwrap();
    let (_, prompt) = asked.last().unwrap();
    prompt.iter().map(|m| format!("{:?}: {}", m.role, m.content)).collect()
}

fn row(instances: &Instances, session: &str) -> Option<Vec<ChatMessage>> {
    let rows = instances.store.rows.lock().unwrap();
    let row = rows.get(&SessionId::new(session))?;
    let state: Value = serde_json::from_str(&row.state).unwrap();
    Some(serde_json::from_value(state["messages"].clone()).unwrap())
}

#[actix::test]
async fn a_sweep_during_a_long_turn_does_not_duplicate_the_session() {
    freeze();
    let instances = Instances::start(1);
    let mut first = Client::connect(&instances, 0).await;
    let mut second = Client::connect(&instances, 0).await;
    first.ask("my name is Ann plain").await;
    let session = first.session.clone();
    first.say("think slower");
    first.until("status/processing").await;
    seconds(IDLE.as_secs() + 5).await;
    instances.services[0].sessions.sweep().await.unwrap();
    second.say_in(&session, "and my name plain");
    first.until("llm_response").await;
    second.until("llm_response").await;
    let prompt = last_prompt(&instances);
    assert!(prompt.contains(&"User: my name is Ann plain".into()), "{prompt:?}");
    assert!(prompt.contains(&"User: think slower".into()), "two sessions of one id: {prompt:?}");
    assert_eq!(row(&instances, &session).unwrap().len(), 6);
}

#[actix::test]
async fn requests_count_as_uses_on_arrival_and_on_failure() {
    freeze();
    let instances = Instances::start(1);
    let mut first = Client::connect(&instances, 0).await;
    let mut second = Client::connect(&instances, 0).await;
    first.ask("one plain").await;
    for n in 0..3 {
        seconds(IDLE.as_secs() - 10).await;
        first.say(&format!("q{n} fail"));
        assert_eq!(first.until_error().await["code"], "LLM_ERROR");
    }
    instances.services[0].sessions.sweep().await.unwrap();
    second.resume(&first.session).await;
    assert!(row(&instances, &first.session).is_some(), "the uses were reported to the store");
}

impl Client {
    async fn until_error(&mut self) -> Value {
        loop {
            let (name, message) = self.next().await;
            assert_ne!(name, "llm_response", "{message}");
            if name == "error" {
                return message;
            }
        }
    }
}

#[actix::test]
async fn the_next_turn_knows_all_calls_of_a_round_that_a_late_tool_ended() {
    freeze();
    let late = |seconds| format!("Tool: error: the tool did not answer within {seconds} s");
    let not_reached = "Tool: error: not called, because another call did not end in time";
    for (kind, code, results) in [
        ("mixed", "TOOL_RESULT_TIMEOUT", [late(30), "Tool: on".into(), late(30)]),
        ("stuck", "TOOL_EXECUTION_FAILED", ["Tool: on".into(), late(10), not_reached.into()]),
    ] {
        for has_context in [true, false] {
            let instances = Instances::start(1);
            let mut client = Client::connect(&instances, 0).await;
            client.ask("one plain").await;
            client.send(&json!({"type": "configure", "enable_context": has_context}));
            client.say(&format!("two {kind}"));
            assert_eq!(client.until_error().await["code"], code, "{kind}");
            client.send(&json!({"type": "configure", "enable_context": true}));
            client.ask("three plain").await;
            let asked = format!("User: two {kind}");
            let turn = [asked, "Assistant: ".into()].into_iter().chain(results.clone());
            let prompt = last_prompt(&instances);
            assert_eq!(prompt[2..7], turn.collect::<Vec<_>>(), "{kind}, {has_context}");
        }
    }
}

#[actix::test]
async fn other_instances_do_not_remove_a_session_in_use() {
    freeze();
    let instances = Instances::start(2);
    let mut here = Client::connect(&instances, 0).await;
    here.ask("one plain").await;
    // Resuming a session is a use that all instances see.
    seconds(IDLE.as_secs() - 5).await;
    let session = here.session.clone();
    here.resume(&session).await;
    seconds(10).await;
    instances.services[1].sessions.sweep().await.unwrap();
    here.say_in(&session, "two plain");
    here.until("llm_response").await;
    // So is a turn that takes longer than the idle time, and the wait for it.
    here.say("three slower");
    let mut there = Client::connect(&instances, 1).await;
    there.say_in(&session, "four slower");
    let mut third = Client::connect(&instances, 1).await;
    third.say_in(&session, "five plain");
    for _ in 0..4 {
        seconds(IDLE.as_secs() - 5).await;
        instances.services[1].sessions.sweep().await.unwrap();
        instances.services[0].sessions.sweep().await.unwrap();
    }
    for client in [&mut here, &mut there, &mut third] {
        client.until("llm_response").await;
    }
    let turns = row(&instances, &session).unwrap().len() / 2;
    assert_eq!(turns, 5, "each was asked after the others");
}

#[actix::test]
async fn the_report_of_a_use_does_not_outdate_the_copy_that_its_turn_read() {
    freeze();
    let instances = Instances::start(2);
    let mut client = Client::connect(&instances, 0).await;
    client.ask("one plain").await;
    for n in 0..3 {
        seconds(IDLE.as_secs() / 3 + 1).await;
        client.ask(&format!("q{n} plain")).await;
    }
    assert_eq!(instances.store.overtaken.load(Ordering::Relaxed), 0);
    assert_eq!(row(&instances, &client.session).unwrap().len(), 8);
}

#[actix::test]
async fn a_session_in_use_stays_in_memory() {
    freeze();
    let instances = Instances::start(1);
    let sessions = &instances.services[0].sessions;
    let used = sessions.begin();
    let idle: Vec<SessionId> = (0..12_000).map(|_| sessions.begin().id().clone()).collect();
    let left = idle.iter().filter(|id| sessions.find_in_memory(id).is_some()).count();
    assert!(left < 10_000, "memory is bounded: {left}");
    let found = sessions.find(used.id()).await.unwrap();
    assert!(Arc::ptr_eq(found.session(), used.session()));
}

#[actix::test]
async fn a_session_ended_during_a_turn_is_removed_and_the_next_one_is_announced() {
    freeze();
    for there in [0, 1] {
        let instances = Instances::start(1 + there);
        let mut first = Client::connect(&instances, 0).await;
        let mut other = Client::connect(&instances, there).await;
        first.ask("one plain").await;
        let session = first.session.clone();
        first.say("two slow");
        first.until("status/processing").await;
        other.resume(&session).await;
        other.send(&json!({"type": "end_session"}));
        assert_eq!(other.until("status/idle").await["data"]["ended_session_id"], json!(session));
        first.until("llm_response").await;
        assert_eq!(row(&instances, &session), None, "it was stored again");
        other.say_in(&session, "three plain");
        assert_eq!(other.until_error().await["code"], "SESSION_ERROR");
        first.say("four plain");
        let next = id_of(&first.until("status/connected").await);
        assert_ne!(next, session);
        first.until("llm_response").await;
        assert_eq!(last_prompt(&instances), ["User: four plain"]);
        assert_eq!(row(&instances, &next).unwrap().len(), 2);
    }
}

#[actix::test]
async fn a_new_session_is_announced_after_an_expiry() {
    freeze();
    let instances = Instances::start(1);
    let mut client = Client::connect(&instances, 0).await;
    client.ask("one plain").await;
    seconds(IDLE.as_secs() + 1).await;
    client.send(&json!({"type": "configure", "system_prompt": "Be brief."}));
    let next = id_of(&client.until("status/connected").await);
    assert_ne!(next, client.session);
    client.say_in(&next, "two plain");
    client.until("llm_response").await;
    assert_eq!(last_prompt(&instances), ["User: two plain"]);
}

#[actix::test]
async fn the_announced_number_of_callbacks_arrives() {
    freeze();
    let instances = Instances::start(1);
    let mut client = Client::connect(&instances, 0).await;
    for (kind, announced) in [("many", 16), ("client", 2)] {
        client.say(&format!("do it {kind}"));
        let told = client.until("status/waiting_for_tools").await;
        assert_eq!(told["data"]["pending_tools"], announced, "{kind}");
        for _ in 0..announced {
            let call = client.until("tool_callback").await["call_id"].clone();
            client.send(&json!({"type": "tool_result", "call_id": call, "success": true}));
        }
        let last = client.until("llm_response").await;
        let calls = last["tool_calls"].as_array().unwrap();
        let well = calls.iter().filter(|call| call["success"] == true).count();
        assert_eq!(well, announced, "{last}");
        if kind == "many" {
            let codes = ["INVALID_TOOL_PARAMETERS", "TOOL_NOT_FOUND", "TOOL_EXECUTION_FAILED"];
            let count = |code| calls.iter().filter(|call| call["code"] == code).count();
            assert_eq!(codes.map(count), [2, 1, 2], "{last}");
        }
    }
}

#[actix::test]
async fn a_cancelled_request_has_failed_calls_and_its_words_do_not_join_the_next() {
    freeze();
    let instances = Instances::start(1);
    let mut client = Client::connect(&instances, 0).await;
    client.say("switch all off slow");
    client.until("status/processing").await;
    client.send(&json!({"type": "cancel"}));
    assert_eq!(client.until("llm_response").await["cancelled"], true);
    client.ask("hello plain").await;
    assert_eq!(last_prompt(&instances), ["User: hello plain"]);
    for (kind, sources) in [("client", ["client", "client"]), ("server", ["world", "world"])] {
        client.say(&format!("do it {kind}"));
        tokio::time::sleep(ms(1_000)).await;
        client.send(&json!({"type": "cancel"}));
        let last = client.until("llm_response").await;
        for call in last["tool_calls"].as_array().unwrap() {
            assert_eq!(
                (&call["success"], sources.contains(&call["source"].as_str().unwrap())),
                (&json!(false), true),
                "{last}"
            );
            assert!(call["code"].is_string() && call["error"].is_string(), "{last}");
        }
    }
}

/// Cuts off a turn after a time or a number of messages, reconnects, and returns whether the
/// session remembers the turn, the number of completed calls, and whether it has their results.
async fn cut_off(kind: &str, instances: usize, after: Cut) -> (bool, u64, bool) {
    let all = Instances::start(instances);
    let mut first = Client::connect(&all, 0).await;
    first.ask("one plain").await;
    let session = first.session.clone();
    first.say(&format!("do it {kind}"));
    match after {
        Cut::Time(time) => tokio::time::sleep(time).await,
        Cut::Messages(count) => {
            for _ in 0..count {
                first.next().await;
            }
        }
    }
    first.socket.drop_connection();
    let mut next = Client::connect(&all, instances - 1).await;
    next.resume(&session).await;
    next.ask("and now plain").await;
    let prompt = last_prompt(&all);
    let remembers = prompt.contains(&format!("User: do it {kind}"));
    let turned_on = all.turned_on.load(Ordering::Relaxed);
    assert_eq!(prompt[..2], ["User: one plain", "Assistant: To one plain."], "{prompt:?}");
    assert_eq!(prompt[prompt.len() - 1], "User: and now plain");
    let results = prompt.contains(&"Tool: on".into());
    (remembers, turned_on, results)
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    Time(Duration),
    Messages(usize),
}

#[actix::test]
async fn started_calls_finish_after_the_client_leaves_and_are_remembered() {
    freeze();
    let times = (0..104).map(|n| Cut::Time(ms(n * 50)));
    let messages = (0..5).map(Cut::Messages);
    for cut in times.chain(messages) {
        for instances in [1, 2] {
            let (remembers, turned_on, results) = cut_off("server", instances, cut).await;
            let begun = !matches!(cut, Cut::Time(Duration::ZERO) | Cut::Messages(0 | 1));
            assert_eq!(
                (remembers, turned_on, results),
                (begun, u64::from(begun), begun),
                "{cut:?}"
            );
        }
    }
    for cut in [Cut::Time(ms(0)), Cut::Time(ms(5)), Cut::Messages(1)] {
        assert_eq!(cut_off("plain", 1, cut).await, (false, 0, false), "no call started: {cut:?}");
    }
    // A client's own calls end with it, and the session remembers that they were made.
    let (remembers, turned_on, _) = cut_off("mixed", 1, Cut::Time(ms(6_000))).await;
    assert_eq!((remembers, turned_on), (true, 1));
}

#[actix::test]
async fn remembered_calls_have_results_after_the_client_left() {
    freeze();
    let instances = Instances::start(1);
    let mut first = Client::connect(&instances, 0).await;
    first.say("do it mixed");
    first.until("tool_callback").await;
    first.socket.drop_connection();
    let session = first.session.clone();
    let mut next = Client::connect(&instances, 0).await;
    next.resume(&session).await;
    next.ask("and now plain").await;
    let asked = instances.model.asked.lock().unwrap();
    let (_, prompt) = asked.last().unwrap();
    let roles: Vec<Role> = prompt.iter().map(|m| m.role).collect();
    use Role::{Assistant, Tool, User};
    assert_eq!(roles, [User, Assistant, Tool, Tool, Tool, User]);
    assert_eq!(prompt[3].content, "on");
    assert!(prompt[2].content.contains("the client has left"), "{prompt:?}");
}
