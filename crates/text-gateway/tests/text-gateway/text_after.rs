//! Ten ordinary turns after any event at a text client go as if the event had not happened. In
//! virtual time. Not for the messages about the events themselves.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use hearken_dialogue::testkit::ten_turns::{Conversation, TurnSeen, assert_undisturbed, ten_turns};
use hearken_ports::{ChatMessage, Role};
use serde_json::{Value, json};

use crate::text_sessions::world::{IDLE, Instances, SHORT_IDLE};
use crate::text_uses::Client;
use crate::{freeze, ms};

/// A client and its server.
struct Talk {
    instances: Instances,
    client: Client,
}

impl Conversation for Talk {
    async fn turn(&mut self, n: usize) -> TurnSeen {
        self.instances.model.asked.lock().unwrap().clear();
        let kind = ["plain", "server", "client"][n % 3];
        self.client.say(&format!("turn {n} {kind}"));
        let mut seen = TurnSeen::default();
        loop {
            let (name, message) = self.client.next().await;
            match name.as_str() {
                "llm_response" => {
                    seen.answer = message["content"].as_str().unwrap().to_owned();
                    break;
                }
                "tool_callback" => {
                    let call = &message["call_id"];
                    self.client
                        .send(&json!({"type": "tool_result", "call_id": call, "success": true}));
                    seen.events.push(format!("{name} {}", message["tool_name"]));
                }
                "llm_delta" => seen.events.push(format!("{name} {}", message["content"])),
                "tool_call" => seen.events.push(format!("{name} {}", message["result"])),
                // Only sent if the event ended the session; all else is unchanged.
                "status/connected" => {}
                _ => seen.events.push(name),
            }
        }
        let asked = self.instances.model.asked.lock().unwrap();
        seen.prompts = asked.iter().map(|(_, prompt)| nameless(prompt.clone())).collect();
        let rows = self.instances.store.rows.lock().unwrap();
        let last = rows.values().max_by_key(|row| row.last_used).unwrap();
        let state: Value = serde_json::from_str(&last.state).unwrap();
        let messages: Vec<ChatMessage> = serde_json::from_value(state["messages"].clone()).unwrap();
        let own = messages.iter().rposition(|m| m.content == format!("turn {n} {kind}")).unwrap();
        let lines = nameless(messages[own..].to_vec());
        seen.rows = lines.iter().map(|m| format!("{:?} {}", m.role, m.content)).collect();
        seen
    }
}

/// Removes the ids of calls, which are numbered across runs.
fn nameless(mut messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    for message in &mut messages {
        message.answers = String::new();
        message.calls.iter_mut().for_each(|call| call.id = String::new());
    }
    messages
}

async fn talk() -> Talk {
    let instances = Instances::start(1);
    let client = Client::connect(&instances, 0).await;
    Talk { instances, client }
}

/// Asks a question that is cancelled after this time.
async fn cancelled(talk: &mut Talk, kind: &str, after: u64) {
    talk.client.say(&format!("odd {kind}"));
    tokio::time::sleep(ms(after)).await;
    talk.client.send(&json!({"type": "cancel"}));
    talk.client.until("llm_response").await;
}

async fn failed(talk: &mut Talk, kind: &str) {
    talk.client.say(&format!("odd {kind}"));
    while talk.client.next().await.0 != "error" {}
}

async fn happens(talk: &mut Talk, event: &str) {
    let sessions = talk.instances.services[0].sessions.clone();
    let session = talk.client.session.clone();
    match event {
        "a failure of the model" => failed(talk, "fail").await,
        "a message that the model refuses" => failed(talk, "refused").await,
        "a model that is too late" => failed(talk, "late").await,
        "a model that breaks off" => failed(talk, "break").await,
        "a model without words" => failed(talk, "silent").await,
        "a client's tool that is too late" => failed(talk, "client").await,
        "a server's tool that is too late" => failed(talk, "hang").await,
        "a cancelled request" => cancelled(talk, "slow", 100).await,
        "a request cancelled while it is written" => cancelled(talk, "hesitant", 100).await,
        "a request cancelled while a client's tool runs" => cancelled(talk, "client", 100).await,
        "a request cancelled while a server's tool runs" => cancelled(talk, "server", 100).await,
        "a sweep" => {
            tokio::time::sleep(IDLE + Duration::from_secs(1)).await;
            sessions.sweep().await.unwrap();
        }
        "an end by another connection" => {
            let mut other = Client::connect(&talk.instances, 0).await;
            other.resume(&session).await;
            other.send(&json!({"type": "end_session"}));
            other.until("status/idle").await;
        }
        "a reconnect" => {
            talk.client.socket.drop_connection();
            talk.client = Client::connect(&talk.instances, 0).await;
            talk.client.resume(&session).await;
        }
        "a client that left in mid-turn" => {
            talk.client.say("odd slow");
            tokio::time::sleep(ms(500)).await;
            happens_reconnect(talk, &session).await;
        }
        "a client that left while a tool ran" => {
            talk.client.say("odd server");
            tokio::time::sleep(ms(500)).await;
            happens_reconnect(talk, &session).await;
        }
        "other settings" => {
            let service = &talk.instances.services[0];
            service.sessions.idle().set(SHORT_IDLE);
            let mut settings = (*service.settings.get()).clone();
            settings.temperature = 0.1;
            service.settings.set(settings);
        }
        "a failure of the store" => {
            talk.instances.store.fails.store(true, Ordering::Relaxed);
            failed(talk, "fail").await;
            sessions.sweep().await.unwrap_err();
            talk.instances.store.fails.store(false, Ordering::Relaxed);
        }
        other => panic!("unknown event {other}"),
    }
}

async fn happens_reconnect(talk: &mut Talk, session: &str) {
    talk.client.socket.drop_connection();
    talk.client = Client::connect(&talk.instances, 0).await;
    talk.client.resume(session).await;
}

#[actix::test]
async fn ten_turns_after_any_event_are_undisturbed() {
    freeze();
    let undisturbed = ten_turns(&mut talk().await).await;
    for event in [
        "a failure of the model",
        "a message that the model refuses",
        "a model that is too late",
        "a model that breaks off",
        "a model without words",
        "a cancelled request",
        "a sweep",
        "an end by another connection",
        "a reconnect",
        "a client that left in mid-turn",
        "other settings",
        "a failure of the store",
    ] {
        let mut talk = talk().await;
        happens(&mut talk, event).await;
        assert_undisturbed(event, &undisturbed, &ten_turns(&mut talk).await, &[]);
    }
}

#[actix::test]
async fn ten_turns_after_an_event_continue_from_its_legitimate_memory() {
    freeze();
    let undisturbed = ten_turns(&mut talk().await).await;
    for (event, kind) in [
        ("a client's tool that is too late", "client"),
        ("a server's tool that is too late", "hang"),
        ("a request cancelled while it is written", "hesitant"),
        ("a request cancelled while a client's tool runs", "client"),
        ("a request cancelled while a server's tool runs", "server"),
        ("a client that left while a tool ran", "server"),
    ] {
        let mut talk = talk().await;
        happens(&mut talk, event).await;
        let after = ten_turns(&mut talk).await;
        let first = &after[0].prompts[0];
        let left = first[..first.len() - 1].to_vec();
        assert_eq!(left[0], ChatMessage::new(Role::User, format!("odd {kind}")), "after {event}");
        assert_undisturbed(event, &undisturbed, &after, &left);
    }
}
