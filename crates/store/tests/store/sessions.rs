//! Contract of all stores for text clients' sessions.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hearken_ports::sessions::MAX_TEXT_SESSIONS;
use hearken_ports::{KeptSession, SessionStore as _, StoreOutcome};
use hearken_proto::ids::SessionId;
use hearken_test_support::places::Place;
use serde_json::json;

use super::backup::restore;
use super::devices::backup_of;
use super::{on_every_store, open};

on_every_store!(sessions_of_text_clients_are_stored_and_deleted, sessions_are_limited);

fn used(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_790_000_000 + seconds)
}

async fn sessions_of_text_clients_are_stored_and_deleted(place: Arc<Place>) {
    let store = open(&place);
    let session = |name: &str, state: &str, seconds| KeptSession {
        id: SessionId::new(name),
        state: state.into(),
        last_used: used(seconds),
    };
    let load = async |name: &str| store.load(&SessionId::new(name)).await.unwrap();
    assert_eq!(load("a").await, None);
    let keep = async |kept: KeptSession, known: Option<u64>| {
        store.keep(&kept, known.map(used)).await.unwrap()
    };
    let named = session("a", "{\"名\":1}", 3);
    let other = session("a", "other", 4);
    assert_eq!(keep(session("a", "{}", 1), None).await, StoreOutcome::Kept);
    assert_eq!(keep(session("b", "{}", 2), None).await, StoreOutcome::Kept);
    assert_eq!(keep(named.clone(), Some(1)).await, StoreOutcome::Kept);
    for known in [None, Some(1), Some(2), Some(4)] {
        assert_eq!(keep(other.clone(), known).await, StoreOutcome::Overtaken, "{known:?}");
    }
    assert_eq!(load("a").await, Some(named));
    assert_eq!(keep(session("b", "[]", 1), Some(2)).await, StoreOutcome::Kept);
    assert!(store.touch(&SessionId::new("b"), used(2)).await.unwrap());
    assert_eq!(load("b").await, Some(session("b", "[]", 2)));
    assert_eq!(keep(session("c", "{}", 2), Some(1)).await, StoreOutcome::Closed, "deleted");
    assert!(!store.touch(&SessionId::new("c"), used(2)).await.unwrap());
    assert_eq!(load("c").await, None);
    assert_eq!(store.forget_unused(used(2)).await.unwrap(), 0);
    assert_eq!(store.forget_unused(used(3)).await.unwrap(), 1);
    assert_eq!(load("b").await, None);
    store.forget(&SessionId::new("a")).await.unwrap();
    store.forget(&SessionId::new("a")).await.expect("there is nothing to delete");
    assert_eq!(load("a").await, None);
}

async fn sessions_are_limited(place: Arc<Place>) {
    let store = open(&place);
    let row = |n: u32| json!({"session_id": format!("s{n}"), "state": "{}", "last_used_ms": n});
    let rows = (0..MAX_TEXT_SESSIONS + 3).map(row);
    restore(&store, backup_of("sessions", rows).as_bytes(), false).await.unwrap();
    assert_eq!(store.forget_unused(UNIX_EPOCH).await.unwrap(), 3);
    assert_eq!(store.forget_unused(UNIX_EPOCH).await.unwrap(), 0);
    for (session, stays) in [("s2", false), ("s3", true)] {
        let kept = store.load(&SessionId::new(session)).await.unwrap();
        assert_eq!(kept.is_some(), stays, "{session}");
    }
}
