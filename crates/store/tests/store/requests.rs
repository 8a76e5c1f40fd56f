//! Contract of all stores for requests with keys: answered once, known until a snapshot from before
//! them is restored. Not for messages.

use std::sync::Arc;

use hearken_ports::{ChatStore as _, KeptTurn, KnownRequest, RequestKey, StoreOutcome};
use hearken_proto::chat::{ChatStatus, Snapshot};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{at, id, key, session, turn};
use hearken_test_support::places::Place;

use super::chat::said;
use super::{on_every_store, open};

on_every_store!(
    a_request_is_answered_once,
    a_started_request_is_known_before_its_answer,
    requests_are_restored_with_their_dialogue,
    the_last_fence_is_that_of_any_session,
    the_last_requests_of_a_session_are_known,
);

/// Builds a turn of a request with this key.
fn named(session: &str, after: i64, name: &str, answer: &str) -> KeptTurn {
    let key = Some(key(name));
    let answer = answer.into();
    KeptTurn { key, answer, ..turn(session, after, 0, &["q", "r"]) }
}

async fn known(store: &SqlStore, session: &str, name: &str) -> Option<KnownRequest> {
    store.request(&id(session), name).await.unwrap()
}

async fn answer(store: &SqlStore, session: &str, name: &str) -> Option<String> {
    known(store, session, name).await?.answer
}

async fn a_request_is_answered_once(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    store.create(&session("b"), "").await.unwrap();
    assert_eq!(known(&store, "a", "k").await, None);
    assert_eq!(store.keep_turn(&named("a", 0, "k", "one")).await.unwrap(), StoreOutcome::Kept);
    assert_eq!(store.keep_turn(&named("a", 2, "k", "two")).await.unwrap(), StoreOutcome::Overtaken);
    assert_eq!(said(&store, "a").await.len(), 2, "nothing of the second is stored");
    let first = KnownRequest { hash: "h".into(), answer: Some("one".into()) };
    assert_eq!(known(&store, "a", "k").await, Some(first));
    assert_eq!(store.keep_turn(&named("a", 2, "K\0", "three")).await.unwrap(), StoreOutcome::Kept);
    assert_eq!(answer(&store, "a", "K\0").await, Some("three".into()));
    assert_eq!(known(&store, "b", "k").await, None, "keys belong to a session");
    assert_eq!(store.keep_turn(&named("b", 0, "k", "four")).await.unwrap(), StoreOutcome::Kept);
}

async fn the_last_fence_is_that_of_any_session(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.last_fence().await.unwrap(), 0);
    for (name, fence) in [("a", 7), ("b", 9), ("c", 8)] {
        store.create(&session(name), "").await.unwrap();
        let begun = store.begin_request(&id(name), &key("k"), fence).await.unwrap();
        assert_eq!(begun, StoreOutcome::Kept);
    }
    assert_eq!(store.last_fence().await.unwrap(), 9);
}

async fn a_started_request_is_known_before_its_answer(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    let begin =
        async |key: &RequestKey, fence| store.begin_request(&id("a"), key, fence).await.unwrap();
    let under = |fence, name| KeptTurn { fence, ..named("a", 0, name, "one") };
    let begun = KnownRequest { hash: "h".into(), answer: None };
    assert_eq!(begin(&key("k"), 5).await, StoreOutcome::Kept);
    assert_eq!(known(&store, "a", "k").await, Some(begun));
    assert_eq!(begin(&key("other"), 4).await, StoreOutcome::Overtaken, "it was locked later");
    assert_eq!(known(&store, "a", "other").await, None);
    assert_eq!(store.keep_turn(&under(6, "k")).await.unwrap(), StoreOutcome::Overtaken);
    let other = RequestKey { hash: "another".into(), ..key("k") };
    let asks_other = KeptTurn { key: Some(other), ..under(5, "k") };
    assert_eq!(store.keep_turn(&asks_other).await.unwrap(), StoreOutcome::Overtaken);
    assert_eq!(store.keep_turn(&under(5, "k")).await.unwrap(), StoreOutcome::Kept);
    assert_eq!(answer(&store, "a", "k").await, Some("one".into()));
    assert_eq!(begin(&key("k"), 6).await, StoreOutcome::Overtaken, "it is already answered");

    assert_eq!(begin(&key("failed"), 7).await, StoreOutcome::Kept);
    store.forget_request(&id("a"), "failed", 6).await.unwrap();
    assert!(known(&store, "a", "failed").await.is_some(), "it belongs to another lock");
    store.forget_request(&id("a"), "failed", 7).await.unwrap();
    assert_eq!(known(&store, "a", "failed").await, None);
    store.forget_request(&id("a"), "k", 5).await.unwrap();
    assert_eq!(answer(&store, "a", "k").await, Some("one".into()), "an answer is not removed");

    store
        .set_status(&id("a"), &[ChatStatus::Active], ChatStatus::Archived, at(9), None)
        .await
        .unwrap();
    assert_eq!(begin(&key("late"), 8).await, StoreOutcome::Closed);
    let nowhere = store.begin_request(&id("none"), &key("k"), 8).await.unwrap();
    assert_eq!(nowhere, StoreOutcome::Closed);
}

async fn requests_are_restored_with_their_dialogue(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    let snapshot = async |name: &str| {
        let new = Snapshot {
            id: name.into(),
            session_id: id("a"),
            name: name.into(),
            message_count: 0,
            state_version: None,
            created_at: at(1),
        };
        store.keep_snapshot(&new, 0).await.unwrap().unwrap();
    };
    let back = async |name: &str| {
        store.restore_snapshot(&id("a"), name, 0, at(9), None).await.unwrap().unwrap();
    };
    store.keep_turn(&named("a", 0, "early", "1")).await.unwrap();
    snapshot("first").await;
    store.keep_turn(&named("a", 2, "late", "2")).await.unwrap();
    store.begin_request(&id("a"), &key("begun"), 0).await.unwrap();
    snapshot("second").await;
    back("first").await;
    assert_eq!(answer(&store, "a", "early").await, Some("1".into()));
    assert_eq!(known(&store, "a", "late").await, None, "its turn was removed");
    assert_eq!(known(&store, "a", "begun").await, None);
    assert_eq!(store.keep_turn(&named("a", 2, "late", "3")).await.unwrap(), StoreOutcome::Kept);
    back("second").await;
    assert_eq!(answer(&store, "a", "late").await, Some("2".into()), "its turn was restored");
    assert!(known(&store, "a", "begun").await.is_some());
}

async fn the_last_requests_of_a_session_are_known(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    store.create(&session("b"), "").await.unwrap();
    store.keep_turn(&named("b", 0, "0", "other")).await.unwrap();
    for n in 0..260 {
        let turn = KeptTurn { fence: n, ..named("a", n * 2, &n.to_string(), "x") };
        assert_eq!(store.keep_turn(&turn).await.unwrap(), StoreOutcome::Kept);
    }
    assert_eq!(known(&store, "a", "3").await, None);
    for name in ["4", "100", "259"] {
        assert_eq!(answer(&store, "a", name).await, Some("x".into()), "{name}");
    }
    assert_eq!(answer(&store, "b", "0").await, Some("other".into()));
}
