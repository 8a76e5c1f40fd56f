//! Stores of other versions, and stores that cannot be found: `hearken serve` upgrades a store of
//! 0.1.0 and continues with it, and refuses a later one with a clear error. Every row of an
//! upgraded store is tested in its crate.

use std::path::Path;

use hearken_test_support::eventually;
use serde_json::{Value, json};
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyPool, AssertSqlSafe};

use crate::support::app::Vendors;
use crate::support::command::{hearken, hearken_with};
use crate::support::process::ServerProcess;

const ADMIN: &str = "an-admin-token-of-a-test-of-upgrades";
const WORLD: &str = "/api/sessions/0b9bd1a4-5b5e-4d0c-9a3c-6a6a0c1de001";
const CAVE: &str = "7c1f9c8e-0000-4000-8000-00000000ca5e";

async fn pool(folder: &Path) -> AnyPool {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}?mode=rwc", folder.join("hearken.db").display());
    AnyPoolOptions::new().max_connections(1).connect(&url).await.unwrap()
}

async fn execute(folder: &Path, statements: &str) {
    let pool = pool(folder).await;
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&pool).await.unwrap();
    pool.close().await;
}

/// Writes a store of 0.1.0 into a data folder.
async fn of_0_1_0(folder: &Path) {
    let fixture = hearken_test_support::repository().join("fixtures/store/0.1.0.sqlite.sql");
    execute(folder, &std::fs::read_to_string(fixture).unwrap()).await;
}

/// Settings of a server without engines, which this build lacks.
const ALONE: [(&str, &str); 2] = [("HEARKEN__EMBEDDED__ENABLED", "false"), ("CLOUD_PORT", "0")];

/// A client with the admin token.
struct Client {
    http: reqwest::Client,
    base: String,
}

impl Client {
    async fn get(&self, path: &str) -> Value {
        let asked = self.http.get(format!("{}{path}", self.base)).bearer_auth(ADMIN);
        let answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.json().await.unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let asked = self.http.post(format!("{}{path}", self.base)).bearer_auth(ADMIN);
        let answer = asked.json(&body).send().await.unwrap();
        let status = answer.status();
        let body: Value = answer.json().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }
}

#[tokio::test]
async fn a_server_continues_with_a_store_of_0_1_0() {
    let folder = tempfile::tempdir().unwrap();
    of_0_1_0(folder.path()).await;
    let vendors = Vendors::start().await;
    let env = [
        ("HEARKEN__SERVER__DATA_DIR", folder.path().to_str().unwrap()),
        ("HEARKEN__AUTH__ADMIN_TOKEN", ADMIN),
        // Its sessions have not been used for a long time.
        ("HEARKEN__CHAT__RETENTION_DAYS", "36500"),
    ];
    let server = ServerProcess::start(&vendors, &env).await;
    let client =
        Client { http: reqwest::Client::new(), base: format!("http://{}", server.address) };
    assert_eq!(client.get("/readyz").await["dependencies"]["store"], "ready");
    assert_eq!(client.get("/api/sessions").await["total"], 3, "all but the deleted one");
    let messages = client.get(&format!("{WORLD}/messages")).await;
    assert_eq!(messages["messages"][0]["content"], "我要用长剑攻击地精！");
    let answer = client.post(&format!("{WORLD}/chat"), json!({"message": "继续"})).await;
    assert!(!answer["response"].as_str().unwrap().is_empty());
    assert_eq!(client.get(&format!("{WORLD}/messages")).await["total"], 9);
    client.post(&format!("{WORLD}/snapshots/{CAVE}/restore"), json!({})).await;
    assert_eq!(client.get(&format!("{WORLD}/messages")).await["total"], 5);
    let devices = client.get("/api/devices").await;
    assert_eq!(devices["devices"][0]["name"], "客厅的音箱");
    let servers = client.get("/api/tools/servers").await.to_string();
    assert!(servers.contains("books") && !servers.contains("kept-as-bearer"), "{servers}");
}

#[tokio::test]
async fn a_store_of_a_later_version_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    assert_eq!(hearken(data, &["store", "migrate"]).await.0, Some(0));
    execute(data, "UPDATE _sqlx_migrations SET version = 18 WHERE version = 17").await;
    let file = data.join("hearken.db").display().to_string();
    let out = folder.path().join("out").display().to_string();
    for command in
        [&["serve"][..], &["store", "migrate"], &["store", "check"], &["store", "backup", &out]]
    {
        let (code, _, told) = hearken_with(data, &ALONE, command).await;
        assert_eq!(code, Some(2), "{command:?}: {told}");
        for word in [
            "the store is of a later version of this program",
            &file,
            "version 18",
            "up to 17",
            "use the program that upgraded it",
            "restore a backup",
        ] {
            assert!(told.contains(word), "{command:?}: {word}: {told}");
        }
    }
}

#[tokio::test]
async fn a_failed_upgrade_is_reported_and_the_next_start_works() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    of_0_1_0(data).await;
    execute(data, "CREATE TABLE chat_pending_events (somebody TEXT)").await;
    let file = data.join("hearken.db").display().to_string();
    for command in [&["serve"][..], &["store", "migrate"]] {
        let (code, _, told) = hearken_with(data, &ALONE, command).await;
        assert_eq!(code, Some(2), "{command:?}: {told}");
        for word in [
            "the store cannot be upgraded, and is as it was before",
            &file,
            "migration 10 failed",
            "table chat_pending_events already exists",
            "version 7, to be version 17",
            "remove the cause",
        ] {
            assert!(told.contains(word), "{command:?}: {word}: {told}");
        }
    }
    execute(data, "DROP TABLE chat_pending_events").await;
    let (code, told, _) = hearken(data, &["store", "migrate"]).await;
    assert_eq!((code, told.as_str()), (Some(0), "upgraded from version 7 to 17\n"));
}

#[tokio::test]
async fn unresolvable_host_names_are_logged_and_the_server_continues() {
    let vendors = Vendors::start().await;
    let env = [
        ("DATABASE_URL", "postgres://hearken:hidden-word@postgres.hearken.invalid/hearken"),
        ("REDIS_URL", "redis://:hidden-word@redis.hearken.invalid:6379"),
    ];
    let server = ServerProcess::start(&vendors, &env).await;
    for name in ["postgres.hearken.invalid", "redis.hearken.invalid"] {
        eventually(name, async || server.log().contains(name).then_some(())).await;
    }
    let ask = async |path: &str| {
        let answer = reqwest::get(format!("http://{}{path}", server.address)).await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (status, health) = ask("/healthz").await;
    assert_eq!((status, &health["redis"]), (200, &json!("lost")));
    let (status, ready) = ask("/readyz").await;
    assert_eq!((status, &ready["dependencies"]["store"]), (503, &json!("down")));
    assert!(!server.log().contains("hidden-word"), "no password is logged");
}

#[tokio::test]
async fn redis_over_tls_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "[redis]\nurl = \"rediss://:hidden-word@redis.example:6379\"\n").unwrap();
    let args = ["serve", "--config", file.to_str().unwrap()];
    let (code, _, told) = hearken(folder.path(), &args).await;
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("redis.url") && told.contains("TLS"), "{told}");
    assert!(!told.contains("hidden-word"), "{told}");
}
