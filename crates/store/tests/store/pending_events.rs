//! Contract of all stores for events of chat sessions that are to be published.

use std::sync::Arc;

use hearken_ports::store::DeviceStore as _;
use hearken_ports::{ChatStore as _, KeptTurn, StoreOutcome};
use hearken_proto::chat::{ChatStatus, Event, EventData, Snapshot};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{at, id, session, turn};
use hearken_test_support::places::Place;
use serde_json::json;

use super::{on_every_store, open};

on_every_store!(
    events_are_stored_only_together_with_their_change,
    events_are_read_in_order_and_removed,
);

pub(super) fn event(session: &str, name: &str) -> Event {
    let data = json!({"said": "名'\u{0} \"1e999\"", "at": 0.7});
    Event {
        id: name.into(),
        session_id: id(session),
        kind: "chat.answered".into(),
        data: EventData::from(data.as_object().unwrap()),
        timestamp: at(3),
    }
}

/// Returns the names of the stored events of a session, or of all sessions.
async fn pending(store: &SqlStore, session: Option<&str>) -> Vec<String> {
    let events = store.pending_events(session.map(id).as_ref(), 100).await.unwrap();
    assert!(events.is_sorted_by_key(|event| event.number));
    events.into_iter().map(|pending| pending.event.id).collect()
}

fn told(session: &str, after: i64, fence: i64, name: &str) -> KeptTurn {
    KeptTurn { event: Some(event(session, name)), ..turn(session, after, fence, &["q", "a"]) }
}

async fn events_are_stored_only_together_with_their_change(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    assert_eq!(store.keep_turn(&told("a", 0, 5, "one")).await.unwrap(), StoreOutcome::Kept);
    let overtaken = [told("a", 0, 6, "late"), told("a", 2, 4, "old lock")];
    for turn in overtaken {
        assert_eq!(store.keep_turn(&turn).await.unwrap(), StoreOutcome::Overtaken);
    }
    assert_eq!(pending(&store, Some("a")).await, ["one"]);
    let read = store.pending_events(None, 1).await.unwrap().remove(0).event;
    assert_eq!(
        read.data.parse().unwrap()["at"].to_string(),
        "0.7",
        "numbers are stored as written"
    );
    let from = [ChatStatus::Archived];
    let status = async |from: &[ChatStatus], to, name| {
        let event = event("a", name);
        store.set_status(&id("a"), from, to, at(4), Some(&event)).await.unwrap().is_some()
    };
    assert!(!status(&from, ChatStatus::Active, "no change").await);
    assert!(status(&[ChatStatus::Active], ChatStatus::Archived, "two").await);
    assert!(status(&from, ChatStatus::Active, "three").await);
    let snapshot = Snapshot {
        id: "p".into(),
        session_id: id("a"),
        name: "p".into(),
        message_count: 2,
        state_version: None,
        created_at: at(5),
    };
    store.keep_snapshot(&snapshot, 6).await.unwrap().unwrap();
    let back = async |fence, name| {
        let event = event("a", name);
        store.restore_snapshot(&id("a"), "p", fence, at(6), Some(&event)).await.unwrap().is_some()
    };
    assert!(!back(4, "old lock").await && back(7, "four").await);
    assert_eq!(pending(&store, Some("a")).await, ["one", "two", "three", "four"]);
    assert!(status(&[ChatStatus::Active], ChatStatus::Deleted, "five").await);
    assert!(store.purge(&id("a")).await.unwrap());
    assert!(pending(&store, None).await.is_empty(), "a purged session has no watchers");
}

async fn events_are_read_in_order_and_removed(place: Arc<Place>) {
    let store = open(&place);
    for name in ["a", "b"] {
        store.create(&session(name), "").await.unwrap();
    }
    for (n, name) in ["a", "b", "a", "b", "a"].into_iter().enumerate() {
        let after = i64::try_from(n / 2 * 2).unwrap();
        let kept = store.keep_turn(&told(name, after, 1, &n.to_string())).await.unwrap();
        assert_eq!(kept, StoreOutcome::Kept);
    }
    assert_eq!(pending(&store, Some("a")).await, ["0", "2", "4"]);
    assert_eq!(pending(&store, Some("none")).await, [""; 0]);
    let all = store.pending_events(None, 2).await.unwrap();
    let numbers: Vec<i64> = all.iter().map(|pending| pending.number).collect();
    store.remove_events(&numbers).await.unwrap();
    store.remove_events(&numbers).await.expect("they are already removed");
    store.remove_events(&[]).await.unwrap();
    assert_eq!(pending(&store, None).await, ["2", "3", "4"]);
    if place.is_shared() {
        store.close().await;
        assert_eq!(pending(&open(&place), Some("a")).await, ["2", "4"], "another server sees them");
    }
}
