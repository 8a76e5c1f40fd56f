//! Contract of all stores for devices, and stores that fail.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use hearken_base::Secret;
use hearken_ports::store::{
    Activation, ClientRule, CodeRequest, DeviceReport, DeviceStore, MAX_CODES,
    MAX_CODES_PER_ADDRESS, MAX_REVOCATIONS, MAX_STRANGERS, StoreError, StoreErrorKind,
};
use hearken_proto::ids::DeviceId;
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::at;
use hearken_test_support::places::Place;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::backup::restore;
use super::{HOUR, on_every_store, open};

on_every_store!(
    devices_follow_the_contract,
    hostile_texts_are_stored_literally,
    codes_are_limited_and_shared_fairly,
    tokens_end_with_their_device,
    revocations_are_limited,
    invented_devices_only_displace_each_other
);

fn id(name: &str) -> DeviceId {
    DeviceId::new(name)
}

fn of(device: &str, client: &str) -> DeviceReport {
    DeviceReport {
        device_id: id(device),
        client_id: Secret::new(client),
        address: "here".into(),
        board: "board".into(),
        chip: "esp32s3".into(),
        serial_number: String::new(),
        firmware_version: "2.0.0".into(),
    }
}

/// Requests the code of this device and client, from a fixed address.
async fn asked(
    store: &SqlStore,
    device_id: &DeviceId,
    client: &str,
    now: Timestamp,
) -> Result<Activation, StoreError> {
    let client_id = &Secret::new(client);
    let request = CodeRequest { device_id, client_id, address: "here" };
    store.activation(request, HOUR, now).await
}

async fn devices_follow_the_contract(place: Arc<Place>) {
    let store = open(&place);
    reports(&store).await;
    pages(&store).await;
    bindings(&store).await;
    confirmed(&store).await;
    codes_expire(&store).await;
    keys(&store).await;
    store.close().await;
    let error = store.device(&id("a")).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
}

/// PostgreSQL has no NUL in its texts. Quotes, percent signs and backslashes have no special
/// meaning.
async fn hostile_texts_are_stored_literally(place: Arc<Place>) {
    let store = open(&place);
    for text in ["a\0b", "'; DROP TABLE devices; --", "%_\\", "\u{10ffff}\u{0}", "名\r\n\t"] {
        assert_eq!(store.device(&id(text)).await.unwrap(), None);
        let reported = store.report(&of(text, text), ClientRule::Latest, at(0)).await.unwrap();
        let kept = text.replace('\0', "\u{fffd}");
        assert_eq!(reported.device_id.as_str(), kept);
        let named = store.rename(&id(text), text).await.unwrap().unwrap();
        assert_eq!(named.name, kept);
        assert!(store.forget(&id(text), at(12)).await.unwrap());
    }
}

async fn reports(store: &SqlStore) {
    assert_eq!(store.device(&id("a")).await.unwrap(), None);
    assert_eq!(store.seen(&id("a"), at(0)).await.unwrap(), None);
    let first = store.report(&of("a", "c1"), ClientRule::Latest, at(1)).await.unwrap();
    assert_eq!((first.first_seen, first.last_seen, first.bound), (at(1), at(1), false));
    assert_eq!(first.firmware_version, "2.0.0");
    let quiet = DeviceReport {
        firmware_version: "2.1.0".into(),
        board: String::new(),
        chip: String::new(),
        serial_number: "sn".into(),
        ..of("a", "c2")
    };
    let again = store.report(&quiet, ClientRule::Latest, at(2)).await.unwrap();
    assert_eq!((again.first_seen, again.last_seen), (at(1), at(2)));
    assert_eq!((again.client_id.expose(), again.board.as_str()), ("c2", "board"));
    assert_eq!((again.serial_number.as_str(), again.firmware_version.as_str()), ("sn", "2.1.0"));
    assert_eq!(store.device(&id("a")).await.unwrap(), Some(again));
    let seen = store.seen(&id("a"), at(3)).await.unwrap().unwrap();
    assert_eq!(seen.last_seen, at(3));
}

async fn pages(store: &SqlStore) {
    for device in ["d", "b", "c"] {
        store.report(&of(device, "x"), ClientRule::Latest, at(4)).await.unwrap();
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
    let activation = asked(store, &id("b"), "x", at(5)).await.unwrap();
    let code = activation.code.clone().unwrap();
    assert_eq!((code.len(), activation.expires), (6, at(5) + SignedDuration::from_hours(1)));
    let again = asked(store, &id("b"), "x", at(6)).await.unwrap();
    assert_eq!(again, activation, "the code is unchanged while it is valid");
    let other = asked(store, &id("b"), "y", at(6)).await.unwrap();
    assert_ne!(other.code, activation.code, "another client gets another code");
    assert_eq!(
        store.waiting(&id("b"), &Secret::new("x"), at(7)).await.unwrap(),
        Some(activation.clone())
    );
    assert_eq!(store.waiting(&id("b"), &Secret::new("z"), at(7)).await.unwrap(), None);

    let others = async |client: &str, now| {
        store.is_wanted_by_others(&id("b"), &Secret::new(client), now).await.unwrap()
    };
    for client in ["x", "y", "z"] {
        assert!(others(client, at(7)).await, "{client}");
        let late = activation.expires + SignedDuration::from_hours(1);
        assert!(!others(client, late).await, "{client}: they have expired");
    }
    let wrong = if code == "123456" { "654321" } else { "123456" };
    assert_eq!(store.bind(wrong, None, at(8)).await.unwrap(), None);
    let bound = store.bind(&code, Some("lamp"), at(8)).await.unwrap().unwrap();
    assert_eq!((bound.name.as_str(), bound.bound), ("lamp", true));
    assert_eq!(bound.client_id, Secret::new("x"));
    assert_eq!(store.bind(&code, None, at(8)).await.unwrap(), None, "a code works once");
    let late = other.code.unwrap();
    assert_eq!(store.bind(&late, None, at(8)).await.unwrap(), None, "the device is bound already");
    assert!(!others("x", at(8)).await, "no code is pending");
    let waited = store.waiting(&id("b"), &Secret::new("x"), at(9)).await.unwrap().unwrap();
    assert_eq!((waited.code, waited.challenge), (None, activation.challenge));

    let thief = store.report(&of("b", "thief"), ClientRule::Latest, at(10)).await.unwrap();
    assert_eq!((thief.client_id.expose(), thief.last_seen), ("x", at(4)));
    let owner = store.report(&of("b", "x"), ClientRule::Latest, at(11)).await.unwrap();
    assert!(owner.bound && owner.last_seen == at(11));

    let named = store.rename(&id("b"), "kitchen").await.unwrap().unwrap();
    assert_eq!(named.name, "kitchen");
    assert_eq!(store.rename(&id("none"), "x").await.unwrap(), None);
    assert!(store.forget(&id("b"), at(12)).await.unwrap());
    assert!(!store.forget(&id("b"), at(12)).await.unwrap());
    assert_eq!(store.waiting(&id("b"), &Secret::new("x"), at(12)).await.unwrap(), None);
    assert!(!store.report(&of("b", "x"), ClientRule::Latest, at(13)).await.unwrap().bound);
}

async fn confirmed(store: &SqlStore) {
    let confirm = async |device: &str, client: &str| {
        store.confirm(&id(device), &Secret::new(client), at(14)).await.unwrap()
    };
    let known = store.report(&of("e", "x"), ClientRule::First, at(13)).await.unwrap();
    assert!(!known.bound && !known.needs_review);
    assert_eq!(confirm("e", "y").await, None, "the device belongs to another client");
    let bound = confirm("e", "x").await.unwrap();
    assert!(bound.bound && bound.last_seen == at(13));
    // A bound device without a client does not take the client of a later report.
    let made = confirm("f", "").await.unwrap();
    assert!(made.bound && made.first_seen == at(14));
    let reported = store.report(&of("f", "x"), ClientRule::First, at(15)).await.unwrap();
    assert_eq!((reported.client_id.expose(), reported.bound), ("", true), "its client stays");
    for device in ["e", "f"] {
        assert!(store.forget(&id(device), at(16)).await.unwrap());
    }
}

async fn codes_expire(store: &SqlStore) {
    let activation = asked(store, &id("c"), "x", at(20)).await.unwrap();
    let code = activation.code.clone().unwrap();
    let over = activation.expires;
    assert_eq!(store.bind(&code, None, over).await.unwrap(), None, "it has expired");
    assert_eq!(store.waiting(&id("c"), &Secret::new("x"), over).await.unwrap(), None);
    let next = asked(store, &id("c"), "x", over).await.unwrap();
    assert_ne!(next.challenge, activation.challenge);
    let bound = store.bind(&next.code.unwrap(), None, over).await.unwrap().unwrap();
    assert_eq!((bound.name.as_str(), bound.bound), ("", true), "no name is set or removed");
}

async fn keys(store: &SqlStore) {
    assert_eq!(store.key("sn").await.unwrap(), None);
    store.provision("sn", &[1; 32]).await.unwrap();
    store.provision("sn", &[2; 32]).await.unwrap();
    assert_eq!(store.key("sn").await.unwrap(), Some(vec![2; 32]));
    assert!(store.unprovision("sn").await.unwrap());
    assert!(!store.unprovision("sn").await.unwrap());
}

/// An address with too many codes loses its own; the total is limited so that codes cannot be
/// guessed.
async fn codes_are_limited_and_shared_fairly(place: Arc<Place>) {
    let store = open(&place);
    let share = MAX_CODES_PER_ADDRESS;
    let most = MAX_CODES;
    restore(&store, waiting(most, |n| n / share).as_bytes(), false).await.unwrap();
    let codes = async |address: u32| {
        let mut there = 0;
        for n in address * share..(address + 1) * share {
            let client = Secret::new("x");
            let waits = store.waiting(&id(&format!("d{n}")), &client, at(1)).await.unwrap();
            there += u32::from(waits.is_some());
        }
        there
    };
    let honest = asked(&store, &id("honest"), "x", at(1)).await.unwrap();
    assert_eq!(honest.code.unwrap().len(), 6, "a new address gets a code although all are in use");
    let left: u32 = { codes(0).await + codes(1).await };
    assert_eq!(left, 2 * share - 1, "one code of an address with the most was deleted");
    let known = asked(&store, &id("d4999"), "x", at(1)).await.unwrap();
    assert_eq!(known.code.as_deref(), Some("004999"), "a code that is pending stays valid");
    let full = 5;
    for n in 0..3 {
        let device_id = &id(&format!("more{n}"));
        let client_id = &Secret::new("x");
        let request = CodeRequest { device_id, client_id, address: "5" };
        store.activation(request, HOUR, at(2)).await.unwrap();
    }
    assert_eq!(codes(full).await, share - 3, "an address loses its own oldest codes");
    let honest = store.waiting(&id("honest"), &Secret::new("x"), at(3)).await.unwrap();
    assert!(honest.is_some_and(|waits| waits.code.is_some()));
}

/// Builds a backup of a store with this many pending codes, each valid for an hour, from the
/// addresses that `address` returns.
fn waiting(devices: u32, address: impl Fn(u32) -> u32) -> String {
    let row = |n| {
        let device = format!("d{n}");
        let code = format!("{n:06}");
        json!({
            "device_id": device, "client_id": "x", "code": code, "challenge": "c",
            "expires_ms": at(3_600).as_millisecond(), "address": address(n).to_string(),
        })
    };
    backup_of("activations", (0..devices).map(row))
}

/// Builds a backup with these rows of one table.
pub(super) fn backup_of(table: &str, rows: impl Iterator<Item = Value>) -> String {
    let header = json!({
        "format": "hearken-store", "version": 1, "schema": 17, "made_at": at(0), "tables": [table],
    });
    let rows: Vec<Value> = rows.map(|row| json!({"table": table, "row": row})).collect();
    let mut counts = json!({});
    for name in [
        "devices",
        "activations",
        "revocations",
        "provisioning",
        "tool_servers",
        "tool_pins",
        "tool_tokens",
        "sessions",
        "chat_sessions",
        "chat_people",
        "chat_messages",
        "chat_turns",
        "chat_snapshots",
        "chat_snapshot_messages",
        "chat_snapshot_turns",
        "chat_pending_events",
        "museum_sessions",
        "persons",
        "person_voices",
        "person_memories",
        "history",
        "history_sounds",
        "roles",
        "role_versions",
        "daily_usage",
        "settings",
        "audit",
    ] {
        counts[name] = json!(if name == table { rows.len() } else { 0 });
    }
    let lines = [header].into_iter().chain(rows).chain([json!({"end": counts})]);
    lines.map(|line| format!("{line}\n")).collect()
}

async fn tokens_end_with_their_device(place: Arc<Place>) {
    let store = open(&place);
    let held = async |device: &str| {
        let holder = store.token_holder(&id(device)).await.unwrap();
        (holder.client_id.map(|client| client.expose().to_owned()), holder.revoked_until)
    };
    assert_eq!(held("a").await, (None, None));
    store.report(&of("a", ""), ClientRule::First, at(1)).await.unwrap();
    store.report(&of("a", "x"), ClientRule::First, at(2)).await.unwrap();
    assert_eq!(held("a").await, (Some("x".into()), None), "a device without a client gets one");
    let other = store.report(&of("a", "y"), ClientRule::First, at(3)).await.unwrap();
    assert_eq!((other.client_id.expose(), other.last_seen), ("x", at(2)), "and it is unchanged");
    let waits = asked(&store, &id("a"), "y", at(4)).await.unwrap().code.unwrap();
    let bound = store.bind(&waits, None, at(5)).await.unwrap().unwrap();
    assert!(bound.bound);
    assert_eq!(held("a").await, (Some("y".into()), Some(at(5))));
    assert!(store.forget(&id("a"), at(6)).await.unwrap());
    assert_eq!(held("a").await, (None, Some(at(6))));
    assert!(!store.forget(&id("b"), at(7)).await.unwrap());
    assert_eq!(held("b").await, (None, None));
    let same = asked(&store, &id("c"), "x", at(8)).await.unwrap().code.unwrap();
    store.report(&of("c", "x"), ClientRule::Latest, at(8)).await.unwrap();
    store.bind(&same, None, at(9)).await.unwrap();
    assert_eq!(held("c").await, (Some("x".into()), None), "its own tokens stay valid");
}

/// The newest are stored: tokens expire, so those of the oldest matter least.
async fn revocations_are_limited(place: Arc<Place>) {
    let store = open(&place);
    let until = |n: u32| at(i64::from(n)).as_millisecond();
    let row = |n: u32| json!({"device_id": format!("d{n}"), "until_ms": until(n)});
    let rows = (0..MAX_REVOCATIONS).map(row);
    restore(&store, backup_of("revocations", rows).as_bytes(), false).await.unwrap();
    let last = i64::from(MAX_REVOCATIONS);
    for n in 0..3 {
        let more = of(&format!("more{n}"), "x");
        store.report(&more, ClientRule::Latest, at(last)).await.unwrap();
        assert!(store.forget(&more.device_id, at(last + n)).await.unwrap());
    }
    for (device, revoked) in [("d0", false), ("d2", false), ("d3", true), ("more0", true)] {
        let holder = store.token_holder(&id(device)).await.unwrap();
        assert_eq!(holder.revoked_until.is_some(), revoked, "{device}");
    }
}

/// A client that invents devices does not remove those of others.
async fn invented_devices_only_displace_each_other(place: Arc<Place>) {
    let store = open(&place);
    let invented = MAX_STRANGERS - 1;
    restore(&store, strangers(invented).as_bytes(), false).await.unwrap();
    store.report(&of("honest", "x"), ClientRule::First, at(0)).await.unwrap();
    for n in 0..3 {
        let more = DeviceReport { address: "there".into(), ..of(&format!("more{n}"), "x") };
        store.report(&more, ClientRule::First, at(100_000 + n)).await.unwrap();
    }
    assert!(store.device(&id("honest")).await.unwrap().is_some(), "although it was seen first");
    for (device, stays) in [("d0", false), ("d2", false), ("d3", true)] {
        assert_eq!(store.device(&id(device)).await.unwrap().is_some(), stays, "{device}");
    }
}

/// Builds a backup of a store with this many devices of one address, seen in sequence.
fn strangers(devices: u32) -> String {
    let row = |n: u32| {
        let seen = at(i64::from(n) + 1).as_millisecond();
        json!({
            "device_id": format!("d{n}"), "client_id": "x", "name": "", "board": "", "chip": "",
            "serial_number": "", "firmware_version": "", "first_seen_ms": seen,
            "last_seen_ms": seen, "bound": 0, "tools_off": "[]", "agent": "default",
            "system_prompt": "", "role_id": "", "address": "there",
        })
    };
    backup_of("devices", (0..devices).map(row))
}

#[tokio::test]
async fn a_file_survives_its_server_and_can_be_shared() {
    let folder = tempfile::tempdir().unwrap();
    let one = hearken_store::open(&Secret::default(), folder.path()).unwrap();
    let known = one.report(&of("a", "x"), ClientRule::Latest, at(0)).await.unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "it contains keys: {:?}", entry.file_name());
    }
    let url = format!("sqlite://{}", folder.path().join("hearken.db").display());
    let other = hearken_store::open(&Secret::new(url), "/nowhere".as_ref()).unwrap();
    assert_eq!(other.device(&id("a")).await.unwrap(), Some(known));
    let device = id("a");
    let (a, b) =
        tokio::join!(asked(&one, &device, "x", at(1)), asked(&other, &device, "x", at(1)),);
    assert_eq!(a.unwrap().code, b.unwrap().code, "one device has one code");
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn an_unusable_store_reports_the_reason_and_is_retried() {
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
    assert_eq!(store.device(&id("a")).await.unwrap(), None, "it is usable again");
}

#[tokio::test]
async fn errors_of_an_unreachable_server_omit_its_password() {
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
    store.report(&of("a", "x"), ClientRule::Latest, at(0)).await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let mut other: sqlx::SqliteConnection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let begun = std::time::Instant::now();
    let error = store.report(&of("a", "x"), ClientRule::Latest, at(1)).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(store.device(&id("a")).await.unwrap().is_some(), "others can read");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    store.report(&of("a", "x"), ClientRule::Latest, at(2)).await.expect("it is unlocked again");
}
