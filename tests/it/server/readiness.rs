//! `/readyz` while dependencies fail and come back: the store as a SQLite file and on a PostgreSQL of
//! the test's own, Redis, and the services of a turn.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use hearken::config::Config;
use hearken_base::Secret;
use hearken_proto::device::ListenMode;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts};
use hearken_test_support::{eventually_within, free_port};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::PATIENCE;
use super::person::Person;
use super::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

/// What the server says of its readiness: the status, and the answer.
async fn ask(server: &TestServer) -> (u16, Value) {
    let answer = reqwest::get(server.http_url("/readyz")).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// Waits until the server says so: what it found out of the store is a second old.
async fn until(server: &TestServer, status: u16, said: &str) -> Value {
    eventually_within(PATIENCE, said, async || {
        let (code, answer) = ask(server).await;
        (code == status && answer["status"] == said).then_some(answer)
    })
    .await
}

async fn server(tweak: impl FnOnce(&mut Config)) -> (TestServer, Vendors) {
    let vendors = Vendors::start().await;
    (TestServer::start(&vendors, tweak).await, vendors)
}

#[tokio::test]
async fn a_server_with_all_it_depends_on_is_ready() {
    let (server, _vendors) = server(|_| {}).await;
    let all = json!({"store": "ready", "asr": "ready", "llm": "ready", "tts": "ready"});
    assert_eq!(ask(&server).await, (200, json!({"status": "ready", "dependencies": all})));
    server.stop().await;
}

#[tokio::test]
async fn a_store_whose_file_is_gone_or_locked_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let url = format!("sqlite://{}", file.display());
    let (server, _vendors) = server(|config| config.store.url = Secret::new(&url)).await;
    until(&server, 200, "ready").await;
    let aside = folder.path().join("b.db");
    std::fs::rename(&file, &aside).unwrap();
    let told = until(&server, 503, "down").await;
    assert_eq!(told["dependencies"]["store"], "down", "{told}");
    // The server lives all the same, and need not be restarted.
    let alive = reqwest::get(server.http_url("/healthz")).await.unwrap();
    assert_eq!(alive.status().as_u16(), 200);
    std::fs::rename(&aside, &file).unwrap();
    until(&server, 200, "ready").await;

    let other = sqlx::any::AnyPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    until(&server, 503, "down").await;
    lock.rollback().await.unwrap();
    until(&server, 200, "ready").await;
    server.stop().await;
}

/// Programs of the newest PostgreSQL that is installed.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|v| v.path()).max_by_key(|path| number(path))?;
    let programs = newest.join("bin");
    programs.join("initdb").exists().then_some(programs)
}

/// A PostgreSQL of the test's own, which it may stop.
struct Postgres {
    programs: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

impl Postgres {
    /// None where PostgreSQL is not installed.
    async fn start() -> Option<Self> {
        let Some(programs) = postgres_programs() else {
            eprintln!("skipped: no PostgreSQL, see scripts/services");
            return None;
        };
        // Its user must find it: PostgreSQL refuses to run as root.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut postgres = Self { programs, folder, port: free_port(), process: None };
        if rustix::process::geteuid().is_root() {
            let mut chown = Command::new("chown");
            let owned = chown.arg("postgres").arg(postgres.folder.path()).status().await;
            assert!(owned.unwrap().success());
        }
        let mut made = postgres.program("initdb");
        made.args(["--username=hearken", "--auth=trust", "--encoding=UTF8", "--no-sync"]);
        let made = made.arg("-D").arg(postgres.data()).output().await.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        postgres.run().await;
        Some(postgres)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                "--pdeathsig=KILL",
            ]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    async fn run(&mut self) {
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        self.process = Some(command.stderr(Stdio::null()).spawn().unwrap());
        eventually_within(PATIENCE, "PostgreSQL listens", async || {
            TcpStream::connect(("127.0.0.1", self.port)).await.ok()
        })
        .await;
    }

    /// Ends it at once: its connections break.
    async fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        let id = process.id().unwrap().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status().await.unwrap();
        assert!(told.success());
        process.wait().await.unwrap();
    }

    fn url(&self) -> String {
        format!("postgres://hearken@127.0.0.1:{}/postgres", self.port)
    }
}

#[tokio::test]
async fn a_postgresql_that_is_stopped_is_told_and_comes_back() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let url = postgres.url();
    let (server, _vendors) = server(|config| config.store.url = Secret::new(&url)).await;
    until(&server, 200, "ready").await;
    postgres.stop().await;
    let told = until(&server, 503, "down").await;
    assert_eq!(told["dependencies"]["store"], "down", "{told}");
    assert_eq!(told["dependencies"]["asr"], "ready", "{told}");
    assert!(!told.to_string().contains("postgres"), "strangers may ask: {told}");
    postgres.run().await;
    until(&server, 200, "ready").await;
    server.stop().await;
    postgres.stop().await;
}

#[tokio::test]
async fn without_redis_or_a_service_the_server_goes_on() {
    let asr = ListenAiAsr::start(Behaviour::Refuse, "").await;
    let vendors = Vendors::with(asr, ListenAiTts::start(Behaviour::Normal).await).await;
    let server = TestServer::start(&vendors, |config| {
        config.redis.url = Secret::new(format!("redis://127.0.0.1:{}", free_port()));
    })
    .await;
    let told = until(&server, 200, "degraded").await;
    assert_eq!(told["dependencies"]["redis"], "down", "{told}");
    assert_eq!(told["dependencies"]["asr"], "ready", "nobody has asked it yet: {told}");
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    eventually_within(Duration::from_secs(20), "the recogniser is down", async || {
        let (status, answer) = ask(&server).await;
        (status == 200 && answer["dependencies"]["asr"] == "down").then_some(())
    })
    .await;
    drop(person);
    server.stop().await;
}
