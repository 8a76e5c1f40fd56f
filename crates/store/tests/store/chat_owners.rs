//! Contract of all stores for the owners of chat sessions, their usage, and unused sessions.

use std::sync::Arc;

use hearken_ports::{ChatStore, KeptTurn, SessionFilter, StorageUsage};
use hearken_proto::chat::{ChatSession, ChatStatus, Snapshot};
use hearken_test_support::chat_rows::{at, id, key, session, turn};
use hearken_test_support::places::Place;

use super::{on_every_store, open};

on_every_store!(
    sessions_have_owners,
    the_usage_of_an_owner_is_counted,
    answers_that_were_deleted_do_not_count,
    unused_sessions_are_found,
);

async fn sessions_have_owners(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.owner(&id("a")).await.unwrap(), None);
    for (name, owner) in [("a", "ann"), ("b", "bob"), ("c", "ann"), ("d", "")] {
        ChatStore::create(&store, &session(name), owner).await.unwrap();
        assert_eq!(store.owner(&id(name)).await.unwrap().as_deref(), Some(owner));
    }
    let of = async |owner: Option<&str>| {
        let owner = owner.map(str::to_owned);
        let page = store.sessions(&SessionFilter { owner, limit: 9, ..Default::default() }).await;
        let page = page.unwrap();
        let mut names: Vec<String> = page.sessions.iter().map(|s| s.id.to_string()).collect();
        names.sort();
        (names.concat(), page.total)
    };
    assert_eq!(of(Some("ann")).await, ("ac".into(), 2));
    assert_eq!(of(Some("nobody")).await, (String::new(), 0));
    assert_eq!(of(None).await, ("abcd".into(), 4));
    assert_eq!(store.oldest_deleted("ann", 0).await.unwrap(), None);
    for (name, second) in [("c", 1), ("a", 2), ("b", 0)] {
        let active = [ChatStatus::Active];
        store.set_status(&id(name), &active, ChatStatus::Deleted, at(second), None).await.unwrap();
    }
    for (offset, name) in [(0, Some("c")), (1, Some("a")), (2, None)] {
        assert_eq!(store.oldest_deleted("ann", offset).await.unwrap(), name.map(id));
    }
}

async fn the_usage_of_an_owner_is_counted(place: Arc<Place>) {
    let store = open(&place);
    let used = async || store.usage("ann").await.unwrap();
    assert_eq!(used().await, StorageUsage::default());
    for (name, owner) in [("a", "ann"), ("b", "bob")] {
        ChatStore::create(&store, &session(name), owner).await.unwrap();
    }
    let empty = used().await;
    assert!(empty.sessions == 1 && empty.bytes > 0, "name and players: {empty:?}");
    let said = "x".repeat(1_000);
    store.keep_turn(&turn("a", 0, 0, &[&said])).await.unwrap();
    let spoken = used().await.bytes - empty.bytes;
    assert!((1_000..1_500).contains(&spoken), "{spoken}");
    let named = KeptTurn { key: Some(key("k")), answer: said.clone(), ..turn("a", 1, 0, &[&said]) };
    store.keep_turn(&named).await.unwrap();
    let with_answer = used().await.bytes - empty.bytes;
    assert_eq!(with_answer, 2 * spoken + 1_000, "the answer is also stored for repeated requests");
    let snapshot = Snapshot {
        id: "p".into(),
        session_id: id("a"),
        name: "n".into(),
        message_count: 0,
        state_version: None,
        created_at: at(1),
    };
    store.keep_snapshot(&snapshot, 0).await.unwrap().unwrap();
    assert_eq!(used().await.bytes, 2 * (empty.bytes + with_answer) + 512);
    store.keep_turn(&turn("a", 2, 0, &[&said])).await.unwrap();
    store.restore_snapshot(&id("a"), "p", 0, at(2), None).await.unwrap().unwrap();
    assert_eq!(used().await.bytes, 2 * (empty.bytes + with_answer) + 512);
    store
        .set_status(&id("a"), &[ChatStatus::Active], ChatStatus::Deleted, at(3), None)
        .await
        .unwrap();
    assert_eq!(used().await.sessions, 1, "a deleted session still counts");
    store.purge(&id("a")).await.unwrap();
    assert_eq!(used().await, StorageUsage::default());
}

async fn answers_that_were_deleted_do_not_count(place: Arc<Place>) {
    /// Number of answers that a session stores.
    const STORED: i64 = 256;
    let store = open(&place);
    ChatStore::create(&store, &session("a"), "ann").await.unwrap();
    let used = async || store.usage("ann").await.unwrap().bytes;
    let answered = async |number: i64| {
        let named = KeptTurn {
            key: Some(key(&format!("{number:04}"))),
            answer: "x".repeat(1_000),
            ..turn("a", number, number, &["q"])
        };
        store.keep_turn(&named).await.unwrap();
        used().await
    };
    let mut before = answered(0).await;
    for number in 1..STORED + 3 {
        let after = answered(number).await;
        let grown = after - before;
        let is_full = number >= STORED;
        assert_eq!(grown < 1_000, is_full, "answer {number}: {grown} bytes more");
        before = after;
    }
}

async fn unused_sessions_are_found(place: Arc<Place>) {
    let store = open(&place);
    for (name, second) in [("a", 3), ("b", 1), ("c", 2), ("d", 0)] {
        let used = ChatSession { last_access_at: at(second), ..session(name) };
        ChatStore::create(&store, &used, "").await.unwrap();
    }
    store
        .set_status(&id("d"), &[ChatStatus::Active], ChatStatus::Deleted, at(4), None)
        .await
        .unwrap();
    let before = async |second, offset, limit| {
        let ids = store.unused(at(second), offset, limit).await.unwrap();
        ids.iter().map(ToString::to_string).collect::<String>()
    };
    assert_eq!(before(9, 0, 9).await, "bca", "without the deleted one");
    assert_eq!(before(3, 0, 9).await, "bc");
    assert_eq!(before(9, 1, 1).await, "c");
}
