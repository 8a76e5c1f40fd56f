//! Watchers of chat sessions in virtual time: pings, silence, closed lanes. Not for the content of
//! the messages, which needs no clock.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::time::Duration;

use actix_http::ws::Message;
use hearken_base::slots::Slots;
use hearken_chat::event_stream::{WatchActor, WatchSettings};
use hearken_ports::Watch;
use hearken_proto::chat::{Event, EventData};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_socket::testkit::{MemorySocket, Received};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum wait for anything, in virtual time.
const PATIENCE: Duration = Duration::from_secs(400);

struct Watched {
    socket: MemorySocket,
    events: Option<mpsc::Sender<Event>>,
    slots: Slots,
    process: CancellationToken,
}

fn event(kind: &str) -> Event {
    Event {
        id: kind.into(),
        session_id: SessionId::new("s"),
        kind: kind.into(),
        data: EventData::default(),
        timestamp: "2024-01-01T12:00:00Z".parse().unwrap(),
    }
}

impl Watched {
    fn open(answers_pings: bool, missed: Vec<Event>) -> Self {
        let (sender, events) = mpsc::channel(4);
        let settings = WatchSettings {
            ping_every: Duration::from_secs(30),
            dead_after: Duration::from_secs(60),
        };
        let slots = Slots::new(1, 1);
        let process = CancellationToken::new();
        let watch = Watch { complete: true, missed, events };
        let slot = slots.take(None).unwrap();
        let types = vec!["a.*".to_owned()];
        let stops = process.clone();
        let ended = Box::pin(async move {
            stops.cancelled_owned().await;
            Fault::GoingAway
        });
        let actor = WatchActor::new(SessionId::new("s"), types, watch, settings, slot, ended);
        let socket = MemorySocket::open(actor, answers_pings);
        Self { socket, events: Some(sender), slots, process }
    }

    /// Returns the name of the next message, or the type of an event, with its time in seconds.
    async fn next(&mut self) -> (String, u64) {
        let down = self.socket.next_by(Instant::now() + PATIENCE).await.expect("a message");
        let name = match &down.what {
            Received::Text(json) if json["type"] == "event" => json["event"]["type"].to_string(),
            what => what.name(),
        };
        (name.trim_matches('"').to_owned(), down.at.as_secs())
    }
}

#[actix::test]
async fn missed_events_precede_new_ones() {
    tokio::time::pause();
    let mut watched = Watched::open(true, vec![event("a.1"), event("b.1"), event("a.2")]);
    watched.events.as_ref().unwrap().send(event("a.3")).await.unwrap();
    for name in ["connected", "a.1", "a.2", "a.3"] {
        assert_eq!(watched.next().await.0, name);
    }
}

#[actix::test]
async fn a_silent_watcher_is_closed_after_a_minute_and_releases_its_slot() {
    tokio::time::pause();
    let mut watched = Watched::open(false, Vec::new());
    assert_eq!(watched.next().await.0, "connected");
    assert_eq!(watched.next().await, ("closed 1000".into(), 60));
    assert_eq!(watched.next().await.0, "gone");
    assert_eq!(watched.slots.in_use(), 0);
    assert!(watched.events.unwrap().is_closed(), "publishing does not wait for it");
}

#[actix::test]
async fn a_watcher_that_answers_pings_stays_connected() {
    tokio::time::pause();
    let mut watched = Watched::open(true, Vec::new());
    watched.next().await;
    let long = Duration::from_secs(3_600);
    assert_eq!(watched.socket.next_by(Instant::now() + long).await, None);
    watched.events.as_ref().unwrap().send(event("a.1")).await.unwrap();
    assert_eq!(watched.next().await.0, "a.1");
}

#[actix::test]
async fn a_slow_watcher_gets_the_queued_events_and_is_closed() {
    tokio::time::pause();
    let mut watched = Watched::open(true, Vec::new());
    let events = watched.events.take().unwrap();
    for kind in ["a.1", "a.2"] {
        events.send(event(kind)).await.unwrap();
    }
    drop(events);
    for name in ["connected", "a.1", "a.2", "closed 1013"] {
        assert_eq!(watched.next().await.0, name);
    }
}

#[actix::test]
async fn the_end_of_the_server_is_announced() {
    tokio::time::pause();
    let mut watched = Watched::open(true, Vec::new());
    watched.next().await;
    watched.process.cancel();
    assert_eq!(watched.next().await.0, "closed 1001");
}

#[actix::test]
async fn a_watcher_with_only_invalid_messages_is_closed() {
    tokio::time::pause();
    let mut watched = Watched::open(true, Vec::new());
    watched.next().await;
    for _ in 0..100 {
        watched.socket.send(Message::Text("nonsense".into()));
        assert_eq!(watched.next().await.0, "error");
    }
    watched.socket.send(Message::Binary(bytes::Bytes::from_static(b"nonsense")));
    assert_eq!(watched.next().await.0, "closed 1002");
}
