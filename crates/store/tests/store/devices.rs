//! What every store promises of devices, and stores that fail.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use hearken_base::Secret;
use hearken_proto::ids::DeviceId;
use hearken_store::{DeviceReport, DeviceStore, SqlStore, StoreErrorKind};
use hearken_test_support::chat_rows::at;
use hearken_test_support::places::Place;
use jiff::SignedDuration;
use serde_json::json;

use super::backup::restore;
use super::{HOUR, on_every_store, open};

on_every_store!(devices_keep_the_contract, hostile_texts_are_kept_or_found_nowhere, codes_are_few);

fn id(name: &str) -> DeviceId {
    DeviceId::new(name)
}

fn of(device: &str, client: &str) -> DeviceReport {
    DeviceReport {
        device_id: id(device),
        client_id: client.into(),
        board: "board".into(),
        chip: "esp32s3".into(),
        serial_number: String::new(),
        firmware_version: "2.0.0".into(),
    }
}

async fn devices_keep_the_contract(place: Arc<Place>) {
    let store = open(&place);
    reports(&store).await;
    pages(&store).await;
    bindings(&store).await;
    codes_expire(&store).await;
    keys(&store).await;
    store.close().await;
    let error = store.device(&id("a")).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
}

/// PostgreSQL has no NUL in its texts, and quotes, percents and backslashes mean nothing anywhere.
async fn hostile_texts_are_kept_or_found_nowhere(place: Arc<Place>) {
    let store = open(&place);
    for text in ["a\0b", "'; DROP TABLE devices; --", "%_\\", "\u{10ffff}\u{0}", "名\r\n\t"] {
        assert_eq!(store.device(&id(text)).await.unwrap(), None);
        let reported = store.report(&of(text, text), at(0)).await.unwrap();
        let kept = text.replace('\0', "\u{fffd}");
        assert_eq!(reported.device_id.as_str(), kept);
        let named = store.rename(&id(text), text).await.unwrap().unwrap();
        assert_eq!(named.name, kept);
        assert!(store.forget(&id(text)).await.unwrap());
    }
}

async fn reports(store: &SqlStore) {
    assert_eq!(store.device(&id("a")).await.unwrap(), None);
    assert_eq!(store.seen(&id("a"), at(0)).await.unwrap(), None);
    let first = store.report(&of("a", "c1"), at(1)).await.unwrap();
    assert_eq!((first.first_seen, first.last_seen, first.bound), (at(1), at(1), false));
    assert_eq!(first.firmware_version, "2.0.0");
    let quiet = DeviceReport {
        firmware_version: "2.1.0".into(),
        board: String::new(),
        chip: String::new(),
        serial_number: "sn".into(),
        ..of("a", "c2")
    };
    let again = store.report(&quiet, at(2)).await.unwrap();
    assert_eq!((again.first_seen, again.last_seen), (at(1), at(2)));
    assert_eq!((again.client_id.as_str(), again.board.as_str()), ("c2", "board"));
    assert_eq!((again.serial_number.as_str(), again.firmware_version.as_str()), ("sn", "2.1.0"));
    assert_eq!(store.device(&id("a")).await.unwrap(), Some(again));
    let seen = store.seen(&id("a"), at(3)).await.unwrap().unwrap();
    assert_eq!(seen.last_seen, at(3));
}

async fn pages(store: &SqlStore) {
    for device in ["d", "b", "c"] {
        store.report(&of(device, "x"), at(4)).await.unwrap();
    }
    let names = async |after: &str, limit| {
        let page = store.devices(after, limit).await.unwrap();
        let names: Vec<String> = page.devices.iter().map(|d| d.device_id.to_string()).collect();
        (names.join(""), page.more)
    };
    assert_eq!(names("", 10).await, ("abcd".into(), false));
    assert_eq!(names("", 4).await, ("abcd".into(), false));
    assert_eq!(names("", 3).await, ("abc".into(), true));
    assert_eq!(names("b", 1).await, ("c".into(), true));
    assert_eq!(names("d", 1).await, (String::new(), false));
}

async fn bindings(store: &SqlStore) {
    let activation = store.activation(&id("b"), "x", HOUR, at(5)).await.unwrap();
    let code = activation.code.clone().unwrap();
    assert_eq!((code.len(), activation.expires), (6, at(5) + SignedDuration::from_hours(1)));
    let again = store.activation(&id("b"), "x", HOUR, at(6)).await.unwrap();
    assert_eq!(again, activation, "the code stays while it is good");
    let other = store.activation(&id("b"), "y", HOUR, at(6)).await.unwrap();
    assert_ne!(other.code, activation.code, "another client has another code");
    assert_eq!(store.waiting(&id("b"), "x", at(7)).await.unwrap(), Some(activation.clone()));
    assert_eq!(store.waiting(&id("b"), "z", at(7)).await.unwrap(), None);

    let wrong = if code == "123456" { "654321" } else { "123456" };
    assert_eq!(store.bind(wrong, None, at(8)).await.unwrap(), None);
    let bound = store.bind(&code, Some("lamp"), at(8)).await.unwrap().unwrap();
    assert_eq!((bound.name.as_str(), bound.bound), ("lamp", true));
    assert!(bound.is_bound_as("x") && !bound.is_bound_as("y"));
    assert_eq!(store.bind(&code, None, at(8)).await.unwrap(), None, "a code is good once");
    let late = other.code.unwrap();
    assert_eq!(store.bind(&late, None, at(8)).await.unwrap(), None, "the device is bound already");
    let waited = store.waiting(&id("b"), "x", at(9)).await.unwrap().unwrap();
    assert_eq!((waited.code, waited.challenge), (None, activation.challenge));

    let thief = store.report(&of("b", "thief"), at(10)).await.unwrap();
    assert_eq!((thief.client_id.as_str(), thief.last_seen), ("x", at(4)));
    let owner = store.report(&of("b", "x"), at(11)).await.unwrap();
    assert!(owner.is_bound_as("x") && owner.last_seen == at(11));

    let named = store.rename(&id("b"), "kitchen").await.unwrap().unwrap();
    assert_eq!(named.name, "kitchen");
    assert_eq!(store.rename(&id("none"), "x").await.unwrap(), None);
    assert!(store.forget(&id("b")).await.unwrap());
    assert!(!store.forget(&id("b")).await.unwrap());
    assert_eq!(store.waiting(&id("b"), "x", at(12)).await.unwrap(), None);
    assert!(!store.report(&of("b", "x"), at(13)).await.unwrap().bound);
}

async fn codes_expire(store: &SqlStore) {
    let activation = store.activation(&id("c"), "x", HOUR, at(20)).await.unwrap();
    let code = activation.code.clone().unwrap();
    let over = activation.expires;
    assert_eq!(store.bind(&code, None, over).await.unwrap(), None, "it has expired");
    assert_eq!(store.waiting(&id("c"), "x", over).await.unwrap(), None);
    let next = store.activation(&id("c"), "x", HOUR, over).await.unwrap();
    assert_ne!(next.challenge, activation.challenge);
    let bound = store.bind(&next.code.unwrap(), None, over).await.unwrap().unwrap();
    assert_eq!((bound.name.as_str(), bound.bound), ("", true), "no name is given, none is taken");
}

async fn keys(store: &SqlStore) {
    assert_eq!(store.key("sn").await.unwrap(), None);
    store.provision("sn", &[1; 32]).await.unwrap();
    store.provision("sn", &[2; 32]).await.unwrap();
    assert_eq!(store.key("sn").await.unwrap(), Some(vec![2; 32]));
    assert!(store.unprovision("sn").await.unwrap());
    assert!(!store.unprovision("sn").await.unwrap());
}

/// No more codes wait than may be guessed at.
async fn codes_are_few(place: Arc<Place>) {
    let store = open(&place);
    let limit = hearken_store::MAX_CODES;
    restore(&store, waiting(limit - 1).as_bytes(), false).await.unwrap();
    let last = store.activation(&id("last"), "x", HOUR, at(0)).await.unwrap().code.unwrap();
    assert_eq!(last.len(), 6);
    let error = store.activation(&id("more"), "x", HOUR, at(0)).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Full);
    let known = store.activation(&id("d0"), "x", HOUR, at(0)).await.unwrap();
    assert_eq!(known.code.as_deref(), Some("000000"), "who waits already goes on");
    store.activation(&id("more"), "x", HOUR, at(3_600)).await.expect("codes make room in time");
}

/// A backup of a store in which so many devices wait for an hour.
fn waiting(devices: u32) -> String {
    let header = json!({
        "format": "hearken-store", "version": 1, "schema": 8, "made_at": at(0),
        "tables": ["activations"],
    });
    let row = |n| {
        let (device, code) = (format!("d{n}"), format!("{n:06}"));
        let row = json!({
            "device_id": device, "client_id": "x", "code": code, "challenge": "c",
            "expires_ms": at(3_600).as_millisecond(),
        });
        json!({"table": "activations", "row": row})
    };
    let mut counts = json!({"activations": devices});
    for table in [
        "devices",
        "provisioning",
        "tool_servers",
        "tool_pins",
        "sessions",
        "chat_sessions",
        "chat_people",
        "chat_messages",
        "chat_turns",
        "chat_snapshots",
        "chat_snapshot_messages",
        "chat_snapshot_turns",
        "museum_sessions",
        "settings",
        "audit",
    ] {
        counts[table] = json!(0);
    }
    let lines = [header].into_iter().chain((0..devices).map(row)).chain([json!({"end": counts})]);
    lines.map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn a_file_outlives_its_server_and_may_be_shared() {
    let folder = tempfile::tempdir().unwrap();
    let one = hearken_store::open(&Secret::default(), folder.path()).unwrap();
    let known = one.report(&of("a", "x"), at(0)).await.unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "it holds keys: {:?}", entry.file_name());
    }
    let url = format!("sqlite://{}", folder.path().join("hearken.db").display());
    let other = hearken_store::open(&Secret::new(url), "/nowhere".as_ref()).unwrap();
    assert_eq!(other.device(&id("a")).await.unwrap(), Some(known));
    let device = id("a");
    let (a, b) = tokio::join!(
        one.activation(&device, "x", HOUR, at(1)),
        other.activation(&device, "x", HOUR, at(1)),
    );
    assert_eq!(a.unwrap().code, b.unwrap().code, "one device has one code");
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_used_says_so_and_is_tried_again() {
    for url in ["mysql://localhost/x", "hearken.db", "sqlite://x?mode=sideways"] {
        let error = hearken_store::open(&Secret::new(url), "/".as_ref()).err().expect(url);
        assert!(error.to_string().contains("`store.url`"), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hearken.db");
    std::fs::write(&file, "this is no database, and it is long enough to be seen as such").unwrap();
    let store = SqlStore::file(&file).unwrap();
    let error = store.device(&id("a")).await.unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("file is not a database"), "{why}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(store.device(&id("a")).await.unwrap(), None, "it is there again");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_without_its_password() {
    // A port that nobody listens on: bound, and given back.
    let port = hearken_test_support::free_port();
    let store = SqlStore::at(&format!("postgres://u:hidden@127.0.0.1:{port}/d")).unwrap();
    let error = store.device(&id("a")).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("refused"), "{why}");
}

#[tokio::test]
async fn a_locked_file_ends_a_call_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hearken.db");
    let store = SqlStore::file(&file).unwrap();
    store.report(&of("a", "x"), at(0)).await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let mut other: sqlx::SqliteConnection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let begun = std::time::Instant::now();
    let error = store.report(&of("a", "x"), at(1)).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(store.device(&id("a")).await.unwrap().is_some(), "others go on reading");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    store.report(&of("a", "x"), at(2)).await.expect("it is free again");
}
