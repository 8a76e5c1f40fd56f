//! Stores of earlier and of later versions, and servers that create their tables concurrently.

use std::path::Path;
use std::sync::Arc;

use hearken_ports::store::{DeviceStore as _, StoreErrorKind, ToolStore as _};
use hearken_ports::{ChatStore as _, KnownRequest, StorageUsage};
use hearken_proto::ids::{DeviceId, SessionId};
use hearken_store::SqlStore;
use hearken_test_support::places::Place;
use sqlx::SqlSafeStr as _;
use sqlx::any::AnyPoolOptions;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::{on_every_store, open};

on_every_store!(many_servers_start_at_once, a_store_of_a_later_version_is_refused);

async fn many_servers_start_at_once(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    // With the time limits of a server's upgrade, which are minutes: on a slow machine eight of
    // them take seconds.
    let starts = (0..8).map(|_| {
        let store = SqlStore::patient(&place.url, Path::new("")).unwrap();
        tokio::spawn(async move {
            store.bring_up_to_date().await.unwrap();
            store.device(&DeviceId::new("a")).await
        })
    });
    for start in futures_util::future::join_all(starts.collect::<Vec<_>>()).await {
        assert_eq!(start.unwrap().unwrap(), None);
    }
}

async fn a_store_of_a_later_version_is_refused(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    let store = open(&place);
    assert_eq!(store.device(&DeviceId::new("a")).await.unwrap(), None);
    let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 SELECT 9999, 'later', success, checksum, 0 FROM _sqlx_migrations WHERE version = 6";
    let pool = AnyPoolOptions::new().connect(&place.url).await.unwrap();
    sqlx::query(later).execute(&pool).await.unwrap();
    pool.close().await;
    let error = open(&place).device(&DeviceId::new("a")).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Later);
    let why = std::error::Error::source(&error).unwrap().to_string();
    for word in ["has version 9999", "up to 17", "the program that upgraded it", "hearken"] {
        assert!(why.contains(word), "{word}: {why}");
    }
}

/// Creates a file of the first version, with a device.
async fn first_version(file: &Path) {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let sql = include_str!("../../migrations/sqlite/0001_devices.sql").into_sql_str();
    let first = Migration::new(1, "devices".into(), MigrationType::Simple, sql, false);
    Migrator::with_migrations(vec![first]).run(&pool).await.unwrap();
    let device = "INSERT INTO devices (device_id, client_id, name, first_seen_ms, last_seen_ms) \
                  VALUES ('a', 'c', 'kitchen', 1, 2)";
    sqlx::query(device).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn a_file_of_the_first_version_is_upgraded_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hearken.db");
    first_version(&file).await;
    let store = SqlStore::file(&file).unwrap();
    let device = store.device(&DeviceId::new("a")).await.unwrap().unwrap();
    assert_eq!((device.name.as_str(), device.agent.as_str()), ("kitchen", "default"));
    assert_eq!(device.system_prompt, "");
    assert!(device.tools_off.is_empty() && store.tool_servers().await.unwrap().is_empty());
    store.close().await;
}

/// Creates a file of the sixth version, with a session that has a named request and a snapshot.
async fn sixth_version(file: &Path) {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let folder = Path::new("migrations/sqlite");
    let mut steps = Migrator::new(folder).await.unwrap();
    steps.migrations.to_mut().retain(|step| step.version <= 6);
    steps.run(&pool).await.unwrap();
    for row in [
        "INSERT INTO chat_sessions VALUES ('s', 'n', 'c', 'c', 'active', 5, '[]', 0, NULL, 3, 1, 1, 1)",
        "INSERT INTO chat_messages VALUES ('s', 1, '{\"名\":1}')",
        "INSERT INTO chat_turns VALUES ('s', 'k', 'yes')",
        "INSERT INTO chat_snapshots VALUES ('p', 's', 'before', 0, NULL, 2)",
    ] {
        sqlx::query(row).execute(&pool).await.unwrap();
    }
    pool.close().await;
}

#[tokio::test]
async fn requests_that_were_answered_before_stay_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hearken.db");
    sixth_version(&file).await;
    let store = SqlStore::file(&file).unwrap();
    let session = SessionId::new("s");
    let answered = KnownRequest { hash: String::new(), answer: Some("yes".into()) };
    assert_eq!(store.request(&session, "k").await.unwrap(), Some(answered.clone()));
    let owner = store.owner(&session).await.unwrap();
    let stored = StorageUsage { sessions: 1, bytes: 9 + 512 };
    assert_eq!((owner.as_deref(), store.usage("").await.unwrap()), (Some(""), stored));
    let time = jiff::Timestamp::UNIX_EPOCH;
    assert!(store.restore_snapshot(&session, "p", 4, time, None).await.unwrap().is_some());
    assert_eq!(store.request(&session, "k").await.unwrap(), Some(answered), "not done twice");
    store.close().await;
}
