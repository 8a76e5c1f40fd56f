//! The WebSocket of a session: chapter 5.2. Not for what happens in the session.

use futures_util::SinkExt as _;
use hearken_test_support::socket::{Socket, frame};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{SOON, Table};

/// A watcher of a session.
pub(super) struct Watcher {
    socket: Socket,
}

impl Watcher {
    pub(super) async fn connect(table: &Table, id: &str, query: &str) -> Self {
        let url = format!("ws://{}/api/sessions/{id}/ws{query}", table.server.address);
        Self { socket: connect_async(url).await.unwrap().0 }
    }

    /// The next message, or the code of the close frame.
    pub(super) async fn frame(&mut self) -> Result<Value, Option<u16>> {
        frame(&mut self.socket, SOON).await
    }

    pub(super) async fn next(&mut self) -> Value {
        self.frame().await.expect("the socket lives")
    }

    /// Reads events up to the one of this type about this message.
    pub(super) async fn until(&mut self, kind: &str, message: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let told = self.next().await;
            assert_eq!(told["type"], "event", "{told}");
            let event = told["event"].clone();
            let last = event["type"] == kind && event["data"]["message"] == message;
            events.push(event);
            if last {
                return events;
            }
        }
    }

    async fn send(&mut self, text: &str) -> Value {
        self.socket.send(Message::text(text)).await.unwrap();
        self.next().await
    }
}

const ROLL: &str = r#"call roll_dice {"dice": "1d20"}"#;

#[actix_web::test]
async fn events_have_the_documents_shape() {
    let table = Table::start().await;
    let session = table.session().await;
    let mut watcher = Watcher::connect(&table, &session.id, "").await;
    let connected = json!({"type": "connected", "session_id": session.id, "complete": true});
    assert_eq!(watcher.next().await, connected);
    session.say(ROLL).await;
    let told = watcher.next().await;
    let event = &told["event"];
    assert_eq!((&told["type"], &event["type"]), (&json!("event"), &json!("dice.rolled")));
    assert!(event["data"].is_object() && event["id"].as_str().unwrap().len() == 36);
    assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(watcher.next().await["event"]["data"]["message"], ROLL);
    for (part, kind) in [("/archive", "session.archived"), ("/restore", "session.restored")] {
        session.post(part, Value::Null).await;
        assert_eq!(watcher.next().await["event"]["type"], kind);
    }
    table.server.stop().await;
    assert_eq!(watcher.frame().await, Err(Some(1001)), "the server stops");
}

#[actix_web::test]
async fn a_watcher_chooses_what_to_see() {
    let table = Table::start().await;
    let session = table.session().await;
    let mut dice = Watcher::connect(&table, &session.id, "?types=dice.rolled").await;
    let mut chat = Watcher::connect(&table, &session.id, "").await;
    dice.next().await;
    chat.next().await;
    let told = chat.send(r#"{"type": "subscribe", "types": ["chat.*"]}"#).await;
    assert_eq!(told, json!({"type": "subscribed", "types": ["chat.*"]}));
    assert_eq!(chat.send(r#"{"type": "ping"}"#).await, json!({"type": "pong"}));
    for wrong in ["{", "[]", r#"{"type": "x"}"#, r#"{"type": "subscribe", "types": [""]}"#] {
        let told = chat.send(wrong).await;
        assert_eq!(told["error"]["code"], "INVALID_REQUEST", "{wrong}");
    }
    session.say(ROLL).await;
    session.say("end").await;
    assert_eq!(chat.until("chat.answered", "end").await.len(), 2);
    session.say(ROLL).await;
    for _ in 0..2 {
        assert_eq!(dice.next().await["event"]["type"], "dice.rolled");
    }
    table.server.stop().await;
}

#[actix_web::test]
async fn a_watcher_that_reconnects_continues_after_its_last_event() {
    let table = Table::start().await;
    let session = table.session().await;
    let mut watcher = Watcher::connect(&table, &session.id, "").await;
    watcher.next().await;
    session.say("one").await;
    let last = watcher.until("chat.answered", "one").await[0]["id"].as_str().unwrap().to_owned();
    drop(watcher);
    session.say(ROLL).await;
    session.say("two").await;
    let back = format!("?last_event_id={last}");
    let mut watcher = Watcher::connect(&table, &session.id, &back).await;
    assert_eq!(watcher.next().await["complete"], true);
    session.say("three").await;
    let events = watcher.until("chat.answered", "three").await;
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["dice.rolled", "chat.answered", "chat.answered", "chat.answered"]);
    let mut lost = Watcher::connect(&table, &session.id, "?last_event_id=nothing").await;
    assert_eq!(lost.next().await["complete"], false, "the missed events are not known");
    assert_eq!(lost.until("chat.answered", "one").await.len(), 1, "but stored events are sent");
    table.server.stop().await;
}

#[actix_web::test]
async fn the_number_of_watchers_is_limited() {
    let table = Table::with(|config| config.chat.max_watchers = 1).await;
    let session = table.session().await;
    let mut first = Watcher::connect(&table, &session.id, "").await;
    first.next().await;
    let url = format!("ws://{}/api/sessions/{}/ws", table.server.address, session.id);
    let Err(Error::Http(refused)) = connect_async(url).await else { panic!("no room") };
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    table.server.stop().await;
}
