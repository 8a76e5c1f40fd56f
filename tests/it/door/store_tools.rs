//! Tool servers and devices' tools in the store, and files of earlier versions.

use std::path::Path;

use hearken::providers::Secret;
use hearken::store::{DeviceReport, DeviceStore as _, KeptServer, SqlStore, ToolStore as _};
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

fn server(name: &str, settings: Option<&str>, enabled: bool) -> KeptServer {
    KeptServer { name: name.into(), settings: settings.map(Secret::new), enabled }
}

#[tokio::test]
async fn tool_servers_are_kept_replaced_and_forgotten() {
    let store = SqlStore::at("sqlite::memory:").unwrap();
    assert_eq!(store.tool_servers().await.unwrap(), []);
    for kept in [server("b", Some("{}"), true), server("a", None, false), server("b", None, false)]
    {
        store.keep_tool_server(&kept).await.unwrap();
    }
    let all = store.tool_servers().await.unwrap();
    assert_eq!(all, [server("a", None, false), server("b", None, false)]);
    assert!(store.forget_tool_server("a").await.unwrap());
    assert!(!store.forget_tool_server("a").await.unwrap());
    assert_eq!(store.tool_servers().await.unwrap().len(), 1);
}

#[tokio::test]
async fn devices_for_which_somebody_chose_are_found() {
    let store = SqlStore::at("sqlite::memory:").unwrap();
    let now = Timestamp::now();
    for device in ["a", "b", "c"] {
        let report = DeviceReport {
            device_id: DeviceId::new(device),
            client_id: "x".into(),
            board: String::new(),
            chip: String::new(),
            serial_number: String::new(),
            firmware_version: String::new(),
        };
        let new = store.report(&report, now).await.unwrap();
        assert_eq!((new.agent.as_str(), new.tools_off.len()), ("default", 0));
    }
    let off = ["x".to_owned(), "名".to_owned()];
    let device = store.set_tools_off(&DeviceId::new("a"), &off).await.unwrap().unwrap();
    assert_eq!(device.tools_off, off);
    let device = store.set_agent(&DeviceId::new("c"), "kitchen").await.unwrap().unwrap();
    assert_eq!(device.agent, "kitchen");
    let device = store.set_system_prompt(&DeviceId::new("b"), "Be kind.").await.unwrap().unwrap();
    assert_eq!(device.system_prompt, "Be kind.");
    assert_eq!(store.set_agent(&DeviceId::new("z"), "kitchen").await.unwrap(), None);
    assert_eq!(store.set_system_prompt(&DeviceId::new("z"), "x").await.unwrap(), None);
    assert_eq!(store.set_tools_off(&DeviceId::new("z"), &off).await.unwrap(), None);
    let found = async || -> Vec<String> {
        let all = store.choosers().await.unwrap();
        all.iter().map(|d| d.device_id.to_string()).collect()
    };
    assert_eq!(found().await, ["a", "b", "c"]);
    store.set_system_prompt(&DeviceId::new("b"), "").await.unwrap();
    store.set_tools_off(&DeviceId::new("a"), &[]).await.unwrap();
    store.set_agent(&DeviceId::new("c"), "default").await.unwrap();
    assert!(found().await.is_empty());
}

/// A file as the first version made it, with a device.
async fn first_version(file: &Path) {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let sql = include_str!("../../../migrations/sqlite/0001_devices.sql").into_sql_str();
    let first = Migration::new(1, "devices".into(), MigrationType::Simple, sql, false);
    Migrator::with_migrations(vec![first]).run(&pool).await.unwrap();
    let device = "INSERT INTO devices (device_id, client_id, name, first_seen_ms, last_seen_ms) \
                  VALUES ('a', 'c', 'kitchen', 1, 2)";
    sqlx::query(device).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn a_file_of_the_first_version_is_used_on() {
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
