//! What every store promises of run-time settings and the audit.

use std::sync::Arc;

use hearken_ports::store::{AuditEntry, MAX_AUDIT_ENTRIES, SettingsStore as _};
use hearken_test_support::chat_rows::at;
use hearken_test_support::places::Place;
use serde_json::{Value, json};

use super::backup::restore;
use super::devices::backup_of;
use super::{on_every_store, open};

on_every_store!(
    settings_are_changed_and_noted_together,
    a_value_is_replaced_where_nobody_has_changed_it,
    the_audit_is_read_from_the_latest_back,
    the_audit_keeps_what_fits,
    changes_at_once_are_all_noted,
);

pub(super) fn entry(what: &str, details: Value) -> AuditEntry {
    AuditEntry { number: 0, at: at(1), who: "admin".into(), what: what.into(), details }
}

async fn settings_are_changed_and_noted_together(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.settings().await.unwrap(), []);
    let changes = [
        ("llm.temperature".to_owned(), Some(json!(0.25))),
        ("llm.model".to_owned(), Some(json!("a\u{0}名\""))),
        ("llm.unknown".to_owned(), None),
    ];
    store.change(&changes, &entry("config", json!({"n": 1}))).await.unwrap();
    let settings = [changes[1].clone(), changes[0].clone()].map(|(k, v)| (k, v.unwrap()));
    assert_eq!(store.settings().await.unwrap(), settings);
    let again = [("llm.temperature".to_owned(), None), ("llm.model".to_owned(), Some(json!({})))];
    store.change(&again, &entry("config", json!({"n": 2}))).await.unwrap();
    assert_eq!(store.settings().await.unwrap(), [("llm.model".to_owned(), json!({}))]);
    let noted = store.audit(None, 9).await.unwrap();
    let details: Vec<&Value> = noted.iter().map(|e| &e.details).collect();
    assert_eq!(details, [&json!({"n": 2}), &json!({"n": 1})]);
}

async fn a_value_is_replaced_where_nobody_has_changed_it(place: Arc<Place>) {
    let store = open(&place);
    let was = json!({"right": "view", "n": 1.50, "名": "a\u{0}"});
    let next = json!({"right": "admin"});
    let replace = async |was: &Value, what: &str| {
        store.replace("account", Some(was), &next, &entry(what, Value::Null)).await.unwrap()
    };
    assert!(!replace(&was, "nothing is there").await);
    store.change(&[("account".to_owned(), Some(was))], &entry("added", json!(1))).await.unwrap();
    let read = store.setting("account").await.unwrap().unwrap();
    assert!(replace(&read, "replaced").await);
    assert_eq!(store.setting("account").await.unwrap(), Some(next.clone()));
    assert!(!replace(&read, "it was changed").await);
    store.change(&[("account".to_owned(), None)], &entry("deleted", json!(1))).await.unwrap();
    assert!(!replace(&next, "it was deleted").await);
    assert_eq!(store.setting("account").await.unwrap(), None);
    let add = async |value: &Value| {
        store.replace("other", None, value, &entry("added", json!(2))).await.unwrap()
    };
    assert!(add(&json!(1)).await && !add(&json!(2)).await);
    assert_eq!(store.setting("other").await.unwrap(), Some(json!(1)));
    let noted = store.audit(None, 9).await.unwrap();
    let noted: Vec<&str> = noted.iter().map(|entry| entry.what.as_str()).collect();
    assert_eq!(noted, ["added", "deleted", "replaced", "added"]);
}

async fn the_audit_is_read_from_the_latest_back(place: Arc<Place>) {
    let store = open(&place);
    for n in 0..5 {
        store.note(&entry(&n.to_string(), Value::Null)).await.unwrap();
    }
    let page = async |before, limit| store.audit(before, limit).await.unwrap();
    let all = page(None, 9).await;
    let words: String = all.iter().map(|e| e.what.as_str()).collect();
    assert_eq!(words, "43210");
    assert!(all.windows(2).all(|two| two[0].number > two[1].number));
    assert_eq!(all[0], AuditEntry { number: all[0].number, ..entry("4", Value::Null) });
    assert_eq!(page(Some(all[1].number), 2).await, all[2..4]);
    assert!(page(Some(all[4].number), 2).await.is_empty() && page(None, 0).await.is_empty());
}

async fn the_audit_keeps_what_fits(place: Arc<Place>) {
    let store = open(&place);
    // The next entry is one after which the log is cut.
    let rows = [1, 2, MAX_AUDIT_ENTRIES - 1].map(
        |number| json!({"number": number, "at_ms": 0, "who": "w", "what": "x", "details": "{}"}),
    );
    restore(&store, backup_of("audit", rows.into_iter()).as_bytes(), false).await.unwrap();
    store.note(&entry("config", Value::Null)).await.unwrap();
    let numbers = store.audit(None, 9).await.unwrap().into_iter().map(|entry| entry.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [MAX_AUDIT_ENTRIES, MAX_AUDIT_ENTRIES - 1, 2, 1]);
}

async fn changes_at_once_are_all_noted(place: Arc<Place>) {
    let store = Arc::new(open(&place));
    let changes = (0..20).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let change = [("key".to_owned(), Some(json!(n)))];
            store.change(&change, &entry("config", json!(n))).await
        })
    });
    for changed in futures_util::future::join_all(changes).await {
        changed.unwrap().unwrap();
    }
    assert_eq!(store.audit(None, 99).await.unwrap().len(), 20);
    assert_eq!(store.settings().await.unwrap().len(), 1);
}
