//! Backups: their content, restoring them into either kind of database, invalid files, and checks.

use std::sync::Arc;

use hearken_base::Secret;
use hearken_ports::store::{
    ClientRule, CodeRequest, DeviceReport, DeviceStore, HistoryStore as _, KeptServer, MuseumStore,
    RoleStore as _, SettingsStore as _, ToolStore as _, ToolTokenStore as _, UsageStore as _,
};
use hearken_ports::{
    ChatStore, KeptSession, KeptTurn, PersonStore as _, SessionStore as _, StoreOutcome,
};
use hearken_proto::chat::{ChatStatus, Role, Snapshot};
use hearken_proto::ids::{DeviceId, SessionId};
use hearken_store::{BackupError, SqlStore};
use hearken_test_support::chat_rows::{at, key, message, session, turn};
use hearken_test_support::places::{Place, on};
use proptest::prelude::*;
use serde_json::json;
use sqlx::AssertSqlSafe;
use sqlx::any::AnyPoolOptions;

use super::settings::entry;
use super::{
    HOUR, history, museum, on_every_store, open, pending_events, people, roles, tools, usage,
};

on_every_store!(
    a_backup_restores_every_table,
    a_restore_replaces_content_only_when_requested,
    invalid_backups_change_nothing,
    a_backup_is_consistent_while_others_write,
    a_check_finds_inconsistent_rows,
    a_missing_store_is_not_backed_up,
);

/// Fills every table, with an empty value in every column that may be empty.
async fn fill(store: &SqlStore) {
    let id = DeviceId::new("d1 名");
    for device in [&id, &DeviceId::new("d2")] {
        let report = DeviceReport {
            device_id: device.clone(),
            client_id: Secret::new("c"),
            address: "here".into(),
            board: "b\\n\"'".into(),
            chip: String::new(),
            serial_number: "sn".into(),
            firmware_version: "2".into(),
        };
        store.report(&report, ClientRule::Latest, at(1)).await.unwrap();
        let device_id = device;
        let client_id = &Secret::new("c");
        let request = CodeRequest { device_id, client_id, address: "here" };
        let code = store.activation(request, HOUR, at(1)).await.unwrap().code.unwrap();
        if *device == id {
            store.bind(&code, Some("lamp"), at(2)).await.unwrap().unwrap();
        }
    }
    let gone = DeviceId::new("d3");
    let report = DeviceReport {
        device_id: gone.clone(),
        client_id: Secret::new("c"),
        address: String::new(),
        board: String::new(),
        chip: String::new(),
        serial_number: String::new(),
        firmware_version: String::new(),
    };
    store.report(&report, ClientRule::First, at(1)).await.unwrap();
    assert!(DeviceStore::forget(store, &gone, at(2)).await.unwrap());
    store.set_tools_off(&id, &["x".into()]).await.unwrap();
    store.provision("sn", &[0, 255, 1]).await.unwrap();
    let settings = Some(Secret::new("{\"token\":\"hidden\"}"));
    let server = KeptServer { name: "one".into(), settings, enabled: true };
    assert!(store.add_tool_server(&server).await.unwrap());
    store.switch_configured_server("two", false).await.unwrap();
    let last_used = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_790_000_000_123);
    let kept = KeptSession { id: SessionId::new("t"), state: "{}".into(), last_used };
    store.keep(&kept, None).await.unwrap();
    MuseumStore::create(store, &museum::session("m", 1, 100), "here").await.unwrap();
    let change = [("llm.model".to_owned(), Some(json!("m\u{0}")))];
    store.change(&change, &entry("config", json!({"n": 1.5}))).await.unwrap();
    store.note(&entry("login", json!(null))).await.unwrap();
    store.add_person(&people::person("p1", "名 o'Neil")).await.unwrap();
    store.add_turn(&history::turn(1, "d1"), &history::sounds(&[0, 255])).await.unwrap();
    let role = roles::role("r1", "a\u{0}b 名");
    store.add_role(&role).await.unwrap();
    store.change_role("r1", 1, "other", &role.settings, at(3)).await.unwrap();
    store.set_role(&id, "r1").await.unwrap();
    store.add_usage("b1", &[usage::row(1, "d1", 7)], at(0)).await.unwrap();
    store.add_tool_token(&tools::token("aa", 4)).await.unwrap();
    store.revoke_tool_token("aa", at(5)).await.unwrap();
    talk(store).await;
}

async fn talk(store: &SqlStore) {
    for name in ["s1", "s2", "s3"] {
        ChatStore::create(store, &session(name), "here").await.unwrap();
    }
    let mut first = turn("s1", 0, 7, &["what is \0 that?", "A lamp \u{1f4a1}.\u{2028}"]);
    (first.key, first.answer, first.state_version) = (Some(key("k")), "{}".into(), Some(4));
    first.messages.push(message(Role::Tool, "9"));
    first.event = Some(pending_events::event("s1", "not published yet"));
    store.keep_turn(&first).await.unwrap();
    let snapshot = Snapshot {
        id: "snap".into(),
        session_id: SessionId::new("s1"),
        name: "before".into(),
        message_count: 0,
        state_version: None,
        created_at: at(9),
    };
    store.keep_snapshot(&snapshot, 7).await.unwrap().unwrap();
    // Enough rows that a restore needs several inserts.
    for round in 0..100 {
        store.keep_turn(&turn("s2", round * 2, 1, &["q", "r"])).await.unwrap();
    }
    let active = [ChatStatus::Active];
    store
        .set_status(&SessionId::new("s3"), &active, ChatStatus::Deleted, at(5), None)
        .await
        .unwrap();
}

pub(super) async fn backup(store: &SqlStore) -> Vec<u8> {
    let mut out = Vec::new();
    let counts = store.back_up(&mut out, at(0), &mut |_, _| ()).await.unwrap();
    let lines = out.iter().filter(|b| **b == b'\n').count();
    assert_eq!(u64::try_from(lines).unwrap(), counts.values().sum::<u64>() + 2);
    out
}

pub(super) async fn restore(
    store: &SqlStore,
    backup: &[u8],
    replace: bool,
) -> Result<u64, BackupError> {
    let mut backup = backup;
    let counts = store.restore(&mut backup, replace, &mut |_, _| ()).await?;
    Ok(counts.values().sum())
}

async fn faults(store: &SqlStore) -> Vec<String> {
    store.check(&mut |_, _| ()).await.unwrap().faults
}

async fn a_backup_restores_every_table(place: Arc<Place>) {
    let store = open(&place);
    fill(&store).await;
    let first = backup(&store).await;
    let everywhere = [Some(Place::file()), Place::postgres().await, Some(Place::memory())];
    for other in everywhere {
        let first = first.clone();
        on(other, |other| async move {
            let other = open(&other);
            let rows = restore(&other, &first, false).await.unwrap();
            assert_eq!(rows, 250);
            let again = backup(&other).await;
            assert_eq!(String::from_utf8(again).unwrap(), String::from_utf8(first).unwrap());
            assert_eq!(faults(&other).await, [""; 0]);
            goes_on(&other).await;
        })
        .await;
    }
}

/// Checks that a restored store can be used.
async fn goes_on(store: &SqlStore) {
    let before = store.audit(None, 1).await.unwrap()[0].number;
    store.note(&entry("more", json!(null))).await.unwrap();
    assert_eq!(store.audit(None, 1).await.unwrap()[0].number, before + 1);
    assert_eq!(store.keep_turn(&turn("s1", 3, 6, &["x"])).await.unwrap(), StoreOutcome::Overtaken);
    let event = Some(pending_events::event("s1", "later"));
    let next = KeptTurn { event, ..turn("s1", 3, 7, &["x"]) };
    assert_eq!(store.keep_turn(&next).await.unwrap(), StoreOutcome::Kept);
    let events = store.pending_events(None, 9).await.unwrap();
    let events: Vec<&str> = events.iter().map(|pending| pending.event.id.as_str()).collect();
    assert_eq!(events, ["not published yet", "later"]);
    let snapshot =
        store.restore_snapshot(&SessionId::new("s1"), "snap", 8, at(50), None).await.unwrap();
    assert_eq!(snapshot.unwrap().message_count, 3);
    assert_eq!(store.key("sn").await.unwrap(), Some(vec![0, 255, 1]));
}

async fn a_restore_replaces_content_only_when_requested(place: Arc<Place>) {
    let store = open(&place);
    let other = Place::memory();
    fill(&store).await;
    let other = open(&other);
    ChatStore::create(&other, &session("other"), "").await.unwrap();
    let small = backup(&other).await;
    let before = backup(&store).await;
    let refused = restore(&store, &small, false).await.unwrap_err().to_string();
    assert!(refused.contains("2 devices") && refused.contains("--replace"), "{refused}");
    assert_eq!(backup(&store).await, before);
    restore(&store, &small, true).await.unwrap();
    assert_eq!(backup(&store).await, small);
}

/// Damaged backups, each with part of the expected error.
fn spoiled(backup: &str) -> Vec<(String, &'static str)> {
    let lines: Vec<&str> = backup.lines().collect();
    let without = |what: &str| {
        let rest: Vec<&str> = lines.iter().copied().filter(|l| !l.contains(what)).collect();
        rest.join("\n") + "\n"
    };
    let twice = |what: &str| {
        let line = lines.iter().find(|l| l.contains(what)).unwrap();
        backup.replacen(line, &format!("{line}\n{line}"), 1)
    };
    let changed = |from: &str, to: &str| {
        assert!(backup.contains(from), "{from}");
        backup.replacen(from, to, 1)
    };
    vec![
        (String::new(), "line 1: this is no backup"),
        ("hello\n".into(), "line 1: this is no backup"),
        ("SQLite format 3\0".into(), "line 1: this is no backup"),
        ("{}\n".into(), "line 1: this is no backup"),
        (changed("\"version\":1", "\"version\":2"), "line 1: the backup's format has version 2"),
        (
            changed("\"schema\":17", "\"schema\":18"),
            "line 1: the backup is of a store of version 18",
        ),
        (changed("\"audit\"", "\"other\""), "line 1: there is no table `other`"),
        (without("\"end\""), "line 251: the file ends too early"),
        (backup[..backup.len() - 1].into(), "line 252: the line has no end"),
        (backup[..backup.len() / 2].into(), "the line has no end"),
        (without("\"table\":\"audit\""), "rows are missing"),
        (format!("{backup}{{}}\n"), "line 253: there is data after the end"),
        (
            changed("\"bound\":1", "\"bound\":\"1\""),
            "`bound` of a row of `devices` must be a whole number",
        ),
        (
            changed("\"bound\":1,", ""),
            "line 2: `bound` of a row of `devices` must be a whole number",
        ),
        (changed("\"bound\":1", "\"bond\":1"), "line 2: table `devices` has no column `bond`"),
        (changed("\"AP8B\"", "\"?\""), "must be a base64 string"),
        (changed("\"table\":\"sessions\"", "\"table\":\"users\""), "there is no table `users`"),
        (changed("\"row\":{\"address\"", "\"line\":{\"agent\""), "line 2: not a row: "),
        (changed("{\"table\":\"sessions\"", "{\"table\":sessions\""), "not JSON: "),
        (twice("\"table\":\"sessions\""), "the store refuses the rows of `sessions`"),
        (
            changed("\"snapshot_id\":\"snap\"", "\"snapshot_id\":\"gone\""),
            "the store refuses the rows of `chat_snapshot_messages`",
        ),
    ]
}

async fn invalid_backups_change_nothing(place: Arc<Place>) {
    let store = open(&place);
    fill(&store).await;
    let before = backup(&store).await;
    let text = String::from_utf8(before.clone()).unwrap();
    for (spoiled, wanted) in spoiled(&text) {
        let told = restore(&store, spoiled.as_bytes(), true).await.unwrap_err();
        assert!(matches!(told, BackupError::Line(..)), "{told:?}");
        assert!(told.to_string().contains(wanted), "{wanted}: {told}");
    }
    assert_eq!(backup(&store).await, before);
}

async fn a_backup_is_consistent_while_others_write(place: Arc<Place>) {
    let store = Arc::new(open(&place));
    ChatStore::create(&*store, &session("a"), "").await.unwrap();
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for round in 0..150 {
                let key = Some(key(&round.to_string()));
                let turn = KeptTurn { key, ..turn("a", round * 2, 1, &["q", "r"]) };
                assert_eq!(store.keep_turn(&turn).await.unwrap(), StoreOutcome::Kept);
            }
        }
    });
    let mut last = 0;
    while !writing.is_finished() {
        let backup = backup(&store).await;
        let copy = SqlStore::at("sqlite::memory:").unwrap();
        restore(&copy, &backup, false).await.unwrap();
        assert_eq!(faults(&copy).await, [""; 0]);
        let session = ChatStore::session(&copy, &SessionId::new("a")).await.unwrap().unwrap();
        assert!(session.message_count >= last && session.message_count % 2 == 0);
        last = session.message_count;
    }
    writing.await.unwrap();
}

/// Damages to a store that `fill` has filled, each with part of the fault that a check reports.
const DAMAGES: [(&str, &str); 9] = [
    (
        "UPDATE chat_messages SET message = '{' WHERE session_id = 's1' AND number = 2",
        "chat_messages, the row of \"s1\": message is not the JSON",
    ),
    (
        "UPDATE devices SET tools_off = '{}' WHERE device_id = 'd2'",
        "devices, the row of \"d2\": tools_off is not the JSON",
    ),
    (
        "UPDATE chat_sessions SET status = 'lost' WHERE session_id = 's3'",
        "chat_sessions, the row of \"s3\": status is invalid: lost",
    ),
    (
        "UPDATE settings SET value = 'x'",
        "settings, the row of \"llm.model\": value is not the JSON",
    ),
    (
        "UPDATE audit SET at_ms = 9223372036854775807 WHERE number = 2",
        "audit, the row of 2: at_ms is not a valid time",
    ),
    (
        "DELETE FROM chat_messages WHERE session_id = 's2' AND number = 17",
        "s2 should have 200 messages and has 199",
    ),
    (
        "UPDATE chat_snapshots SET message_count = 4",
        "snap should have 4 messages and has 3, the last of number 3",
    ),
    (
        "UPDATE person_memories SET memory = '{\"dream\":\"x\"}' WHERE kind = 'fact'",
        "person_memories, the row of \"p1\": memory is not the JSON",
    ),
    (
        "UPDATE person_voices SET voice = SUBSTR(voice, 1, 3)",
        "person_voices, the row of \"p1\": voice is invalid",
    ),
];

async fn a_check_finds_inconsistent_rows(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    let store = open(&place);
    fill(&store).await;
    assert_eq!(faults(&store).await, [""; 0]);
    let pool = AnyPoolOptions::new().max_connections(1).connect(&place.url).await.unwrap();
    for (damage, wanted) in DAMAGES {
        let changed = sqlx::query(AssertSqlSafe(damage)).execute(&pool).await.unwrap();
        assert_eq!(changed.rows_affected(), 1, "{damage}");
        let found = faults(&store).await;
        assert!(found.iter().any(|fault| fault.contains(wanted)), "{wanted}: {found:?}");
    }
    assert_eq!(faults(&store).await.len(), 9, "no other faults");
    if place.url.starts_with("sqlite") {
        sqlx::raw_sql("PRAGMA foreign_keys = OFF").execute(&pool).await.unwrap();
        let damage = "DELETE FROM chat_sessions WHERE session_id = 's2'";
        sqlx::query(damage).execute(&pool).await.unwrap();
        let found = faults(&store).await;
        let wanted = "chat_messages: 199 rows of s2, which is not in chat_sessions";
        assert!(found.iter().any(|fault| fault.contains(wanted)), "{found:?}");
    }
    pool.close().await;
}

async fn a_missing_store_is_not_backed_up(place: Arc<Place>) {
    let store = open(&place);
    let told = store.back_up(&mut Vec::new(), at(0), &mut |_, _| ()).await.unwrap_err();
    assert!(matches!(told, BackupError::Missing), "{told:?}");
    let told = store.check(&mut |_, _| ()).await.unwrap_err();
    assert!(matches!(told, BackupError::Missing), "{told:?}");
    assert!(!place.folder.path().join("new").exists(), "nothing is created");
    assert_eq!(store.version().await.unwrap(), None);
    store.bring_up_to_date().await.unwrap();
    assert_eq!(store.version().await.unwrap(), Some(17));
    assert_eq!(backup(&store).await.iter().filter(|b| **b == b'\n').count(), 2);
}

/// However a file was damaged, it is restored completely or not at all, and nothing panics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_backup_is_restored_completely_or_not_at_all() {
    let store = SqlStore::at("sqlite::memory:").unwrap();
    fill(&store).await;
    let good = backup(&store).await;
    let runtime = tokio::runtime::Handle::current();
    let trying = tokio::task::spawn_blocking(move || {
        let config = ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() };
        let place = 0..good.len();
        proptest!(config, |(at in place, byte: u8, cut: bool)| {
            let mut bad = good.clone();
            bad[at] = byte;
            if cut {
                bad.truncate(at);
            }
            runtime.block_on(async {
                if restore(&store, &bad, true).await.is_err() {
                    assert_eq!(backup(&store).await, good);
                } else {
                    restore(&store, &good, true).await.unwrap();
                }
            });
        });
    });
    trying.await.unwrap();
}
