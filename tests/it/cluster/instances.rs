//! Real instances of the program behind a real nginx, on loopback ports. Not for the requests to them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearken::config::env::{EnvVars as _, ProcessEnv};
use hearken_test_support::free_port;
use hearken_test_support::redis::Redis;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::app::Vendors;

/// The signing secret of all instances.
pub(super) const SECRET: &str = "a secret of all instances";
/// Number of instances, as in `deploy/`.
pub(super) const INSTANCES: usize = 3;
/// File with the addresses of the instances, in the folder of `nginx.conf`.
const INSTANCES_FILE: &str = "nginx-instances.conf";
/// Time limit for the start of a program.
pub(super) const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A child process, killed when dropped.
pub(super) struct Program(Child);

impl Program {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).unwrap();
        let command = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// One instance.
pub(super) struct Instance {
    pub(super) port: u16,
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
    program: Option<Program>,
}

impl Instance {
    fn new(vendors: &Vendors, database: &str, redis: &Redis) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let environment = vec![
            ("HEARKEN__SERVER__HOST", "127.0.0.1".into()),
            ("HEARKEN__SERVER__PORT", port.to_string()),
            ("HEARKEN__SERVER__WORKERS", "2".into()),
            ("HEARKEN__SERVER__DATA_DIR", folder.path().display().to_string()),
            ("DATABASE_URL", database.to_owned()),
            ("REDIS_URL", redis.url()),
            ("HEARKEN__AUTH__SECRET", SECRET.into()),
            // Clients come through a proxy; access is tested elsewhere.
            ("HEARKEN__AUTH__REQUIRED", "never".into()),
            ("HEARKEN__OTA__TRUST_PROXY", "true".into()),
            ("HEARKEN__HTTP__REQUESTS_PER_MINUTE", "0".into()),
            ("HEARKEN__EMBEDDED__ENABLED", "false".into()),
            ("HEARKEN__INSTANT__MODE", "off".into()),
            ("HEARKEN__TOOLS__BUILTIN__ENABLED", String::new()),
            ("ASR_URL", vendors.asr.url()),
            ("TTS_URL", vendors.tts.url()),
            ("LLM_BASE_URL", vendors.llm.url()),
        ];
        Self { port, folder, environment, program: None }
    }

    /// Starts the instance, also after it was killed.
    pub(super) fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearken"));
        command.arg("serve").env_clear().current_dir(self.folder.path());
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        self.program = Some(Program::start(&mut command, &self.log_file()));
    }

    /// Does what `kill -9` does.
    pub(super) fn kill(&mut self) {
        self.program = None;
    }

    /// Asks it to stop as a service manager does, and waits until it has ended.
    pub(super) async fn terminate(&mut self) -> Duration {
        let mut program = self.program.take().expect("it runs");
        let begun = Instant::now();
        let pid = program.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        tokio::task::spawn_blocking(move || program.0.wait().unwrap()).await.unwrap();
        begun.elapsed()
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    /// The log since its last start.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(super) fn socket(&self, path: &str) -> String {
        format!("ws://127.0.0.1:{}{path}", self.port)
    }

    /// Its health; null while it does not answer.
    pub(super) async fn health(&self) -> Value {
        let answer = reqwest::get(self.url("/healthz")).await;
        match answer {
            Ok(answer) => answer.json().await.unwrap_or_default(),
            Err(_) => Value::Null,
        }
    }

    /// Waits until it serves and reports this state of Redis.
    pub(super) async fn until(&self, redis: &str) {
        let begun = Instant::now();
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        loop {
            ticks.tick().await;
            let health = self.health().await;
            if health["status"] == "ok" && health["redis"] == redis {
                return;
            }
            assert!(begun.elapsed() < STARTS_WITHIN, "redis is not {redis}: {}", self.log());
        }
    }
}

/// Three instances behind nginx, with the services that they share.
pub(super) struct Instances {
    pub(super) all: Vec<Instance>,
    pub(super) redis: Redis,
    pub(super) port: u16,
    pub(super) vendors: Vendors,
    _nginx: Program,
    nginx_folder: TempDir,
}

impl Instances {
    /// Starts the instances on this database and waits until they are ready.
    pub(super) async fn start(vendors: Vendors, database: &str) -> Self {
        Self::with(vendors, database, &[]).await
    }

    /// The same, with further environment variables.
    pub(super) async fn with(
        vendors: Vendors,
        database: &str,
        more: &[(&'static str, String)],
    ) -> Self {
        hearken_outbound::tls::choose_provider();
        let redis = Redis::start().await;
        let mut all: Vec<Instance> =
            (0..INSTANCES).map(|_| Instance::new(&vendors, database, &redis)).collect();
        for instance in &mut all {
            instance.environment.extend_from_slice(more);
            instance.start();
        }
        for instance in &all {
            instance.until("ok").await;
        }
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<u16> = all.iter().map(|instance| instance.port).collect();
        let nginx = nginx(port, &ports, folder.path(), &[]);
        let cluster = Self { all, redis, port, vendors, _nginx: nginx, nginx_folder: folder };
        let begun = Instant::now();
        while reqwest::get(cluster.url("/healthz")).await.is_err() {
            tokio::task::yield_now().await;
            assert!(begun.elapsed() < STARTS_WITHIN, "nginx: {}", cluster.nginx_log());
        }
        cluster
    }

    /// The URL of a path through nginx.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(super) fn nginx_log(&self) -> String {
        std::fs::read_to_string(self.nginx_folder.path().join("log")).unwrap_or_default()
    }
}

/// Returns the file of `deploy/` with the instances, with these addresses. nginx of the distribution
/// may be too old for names that are resolved later, and there is no name server of Docker.
fn addresses(shipped: &Path, instances: &[u16]) -> String {
    let mut file = std::fs::read_to_string(shipped.join(INSTANCES_FILE)).unwrap();
    for (n, instance) in instances.iter().enumerate() {
        let name = format!("server hearken-{}:9400 resolve ", n + 1);
        assert!(file.contains(&name), "deploy/{INSTANCES_FILE}: no `{name}`");
        file = file.replace(&name, &format!("server 127.0.0.1:{instance} "));
    }
    let lines = file.lines().filter(|line| !line.starts_with("resolver"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Starts nginx with the configuration of `deploy/`, with these addresses and changes.
pub(super) fn nginx(
    port: u16,
    instances: &[u16],
    folder: &Path,
    changes: &[(&str, &str)],
) -> Program {
    let shipped = hearken_test_support::repository().join("deploy");
    std::fs::write(folder.join(INSTANCES_FILE), addresses(&shipped, instances)).unwrap();
    let mut config = std::fs::read_to_string(shipped.join("nginx.conf")).unwrap();
    let mut change = |from: &str, to: String| {
        assert!(config.contains(from), "deploy/nginx.conf: no `{from}`");
        config = config.replace(from, &to);
    };
    change("listen 80;", format!("listen 127.0.0.1:{port};"));
    change("worker_processes auto;", "worker_processes 1;".into());
    for (from, to) in changes {
        change(from, (*to).to_owned());
    }
    let here = folder.display();
    change("/run/hearken-nginx.sock", format!("{here}/socket"));
    // Debian's modules are loaded from the folder of `-p`.
    symlink("/usr/lib/nginx/modules", folder.join("modules")).unwrap();
    let places: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("{what}_temp_path {here}/{what};\n"))
        .collect();
    change("http {", format!("http {{\n{places}"));
    let file = folder.join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let path = format!("{}:/usr/sbin:/sbin", ProcessEnv.get("PATH").unwrap_or_default());
    let mut command = Command::new("nginx");
    command.env("PATH", path).arg("-p").arg(folder).arg("-c").arg(&file);
    command.args([
        "-e",
        "stderr",
        "-g",
        &format!("daemon off; master_process off; pid {here}/pid;"),
    ]);
    Program::start(&mut command, &folder.join("log"))
}
