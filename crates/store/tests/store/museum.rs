//! Contract of all stores for museum clients' sessions.

use std::sync::Arc;

use hearken_ports::StoreOutcome;
use hearken_ports::store::{MuseumSession, MuseumStore};
use hearken_proto::ids::SessionId;
use hearken_test_support::chat_rows::at;
use hearken_test_support::places::Place;
use serde_json::{Value, json};

use super::{on_every_store, open};

on_every_store!(
    museum_sessions_live_and_expire,
    messages_replace_only_those_that_they_continue,
    concurrent_messages_replace_none_of_each_other,
    concurrent_uses_are_all_counted,
);

fn id(name: &str) -> SessionId {
    SessionId::new(name)
}

pub(super) fn session(name: &str, last_used: i64, expires: i64) -> MuseumSession {
    MuseumSession {
        id: id(name),
        metadata: json!({"client_type": "spirit\u{0}", "n": 1.5, "名": null}),
        functions: vec![json!({"name": "show", "parameters": {"type": "object"}})],
        history: Vec::new(),
        created_at: at(0),
        last_used_at: at(last_used),
        expires_at: at(expires),
        requests: 0,
    }
}

async fn museum_sessions_live_and_expire(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.find(&id("a")).await.unwrap(), None);
    for (name, last_used, expires) in [("a", 1, 100), ("b", 2, 50), ("c", 2, 60)] {
        MuseumStore::create(&store, &session(name, last_used, expires), "here").await.unwrap();
    }
    assert_eq!(store.find(&id("a")).await.unwrap(), Some(session("a", 1, 100)));
    assert!(MuseumStore::create(&store, &session("a", 1, 100), "here").await.is_err());
    assert!(store.touch(&id("a"), at(200), at(99)).await.unwrap());
    assert!(!store.touch(&id("b"), at(200), at(50)).await.unwrap(), "it has expired");
    assert!(!store.touch(&id("none"), at(200), at(50)).await.unwrap());
    assert_eq!(store.count_at("here", at(49)).await.unwrap(), 3);
    assert_eq!(store.count_at("here", at(60)).await.unwrap(), 1, "expired sessions do not count");
    assert_eq!(store.count_at("there", at(49)).await.unwrap(), 0);
    let history = [json!({"role": "user", "content": "what is this?"})];
    let kept = store.keep_history(&id("a"), &[], &history, at(120)).await.unwrap();
    assert_eq!(kept, StoreOutcome::Kept);
    let now = store.find(&id("a")).await.unwrap().unwrap();
    assert_eq!((now.requests, now.last_used_at, now.expires_at), (1, at(120), at(200)));
    assert_eq!(now.history, history);
    let (listed, _) = store.list(at(49), 0, 1).await.unwrap();
    assert_eq!((listed[0].functions, listed[0].messages), (1, 1));
    assert_eq!(listed[0].metadata, now.metadata);
    let names_at = async |now, offset, limit| {
        let (page, total) = store.list(at(now), offset, limit).await.unwrap();
        let names: String = page.iter().map(|s| s.id.as_str()).collect();
        (names, total)
    };
    let names = async |offset, limit| names_at(49, offset, limit).await;
    assert_eq!(names(0, 9).await, ("abc".into(), 3));
    assert_eq!(names_at(50, 0, 9).await, ("ac".into(), 2), "expired sessions do not count");
    assert!(store.extend(&id("b"), at(50), at(2)).await.unwrap());
    assert!(!store.extend(&id("none"), at(50), at(2)).await.unwrap());
    assert_eq!(names(1, 1).await, ("b".into(), 3));
    assert_eq!(names(5, 1).await, (String::new(), 3));
    assert_eq!(store.remove_expired(at(49), 9).await.unwrap(), 0);
    assert_eq!(store.remove_expired(at(70), 1).await.unwrap(), 1);
    assert_eq!(names(0, 9).await, ("ac".into(), 2), "the one that expired first is removed");
    assert_eq!(store.remove_expired(at(70), 9).await.unwrap(), 1);
    assert!(store.remove(&id("a")).await.unwrap());
    assert!(!store.remove(&id("a")).await.unwrap());
    assert_eq!(names(0, 9).await, (String::new(), 0));
}

async fn messages_replace_only_those_that_they_continue(place: Arc<Place>) {
    let store = open(&place);
    MuseumStore::create(&store, &session("a", 1, 100), "here").await.unwrap();
    let said = |text: &str| vec![json!({"role": "user", "content": text, "calls": []})];
    let keep = async |name: &str, former: &[Value], history: &[Value]| {
        store.keep_history(&id(name), former, history, at(9)).await.unwrap()
    };
    let one = said("one\u{0} 一");
    let other = said("other");
    assert_eq!(keep("none", &[], &one).await, StoreOutcome::Closed);
    assert_eq!(keep("a", &other, &one).await, StoreOutcome::Overtaken);
    assert_eq!(keep("a", &[], &one).await, StoreOutcome::Kept);
    assert_eq!(keep("a", &[], &other).await, StoreOutcome::Overtaken);
    assert_eq!(store.find(&id("a")).await.unwrap().unwrap().history, one);
    assert_eq!(keep("a", &one, &other).await, StoreOutcome::Kept);
    assert_eq!(keep("a", &other, &[]).await, StoreOutcome::Kept);
    assert_eq!(store.find(&id("a")).await.unwrap().unwrap().history, Vec::<Value>::new());
    store.remove(&id("a")).await.unwrap();
    assert_eq!(keep("a", &[], &one).await, StoreOutcome::Closed);
}

async fn concurrent_messages_replace_none_of_each_other(place: Arc<Place>) {
    let store = Arc::new(open(&place));
    MuseumStore::create(&*store, &session("a", 1, 100), "here").await.unwrap();
    let writers = (0..6).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                let former = store.find(&id("a")).await.unwrap().unwrap().history;
                let history = [former.clone(), vec![json!(n)]].concat();
                let kept = store.keep_history(&id("a"), &former, &history, at(9)).await.unwrap();
                if kept == StoreOutcome::Kept {
                    return;
                }
            }
        })
    });
    for written in futures_util::future::join_all(writers).await {
        written.unwrap();
    }
    let mut history = store.find(&id("a")).await.unwrap().unwrap().history;
    history.sort_by_key(Value::as_i64);
    assert_eq!(history, (0..6).map(|n| json!(n)).collect::<Vec<_>>());
}

async fn concurrent_uses_are_all_counted(place: Arc<Place>) {
    let store = Arc::new(open(&place));
    MuseumStore::create(&*store, &session("a", 1, 100), "here").await.unwrap();
    let uses = (0..20).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.touch(&id("a"), at(200), at(9)).await })
    });
    for touched in futures_util::future::join_all(uses).await {
        assert!(touched.unwrap().unwrap());
    }
    assert_eq!(store.find(&id("a")).await.unwrap().unwrap().requests, 20);
}
