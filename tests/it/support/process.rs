//! The program as a separate process, with its log in a file, and its resource usage. Not for
//! commands that end by themselves.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hearken_test_support::{eventually_within, variable};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::app::Vendors;

/// The program to run: that of this build, or the optimised one that `scripts/long` sets.
pub(crate) fn program() -> String {
    variable("HEARKEN_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_hearken").to_owned())
}

/// `hearken-dev`, the load generator: next to the server of this build, or the one that `scripts/long` sets.
pub(crate) fn dev_program() -> PathBuf {
    let beside = || Path::new(env!("CARGO_BIN_EXE_hearken")).with_file_name("hearken-dev");
    variable("HEARKEN_DEV").map_or_else(beside, PathBuf::from)
}

/// Time limit for the program to listen, on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Starts the program in this folder; its log is appended to.
fn spawn(folder: &Path, environment: &[(String, String)], memory_kib: Option<u64>) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("server.log")).unwrap();
    let mut command = match memory_kib {
        None => Command::new(program()),
        Some(kib) => {
            let mut shell = Command::new("/bin/sh");
            shell
                .args(["-c", "ulimit -v \"$0\" && exec \"$@\""])
                .arg(kib.to_string())
                .arg(program());
            shell
        }
    };
    command
        .arg("serve")
        .current_dir(folder)
        .env("CLOUD_HOST", "127.0.0.1")
        .env("CLOUD_PORT", "0")
        .env("HEARKEN__EMBEDDED__ENABLED", "false")
        .env("HEARKEN__INSTANT__MODE", "off")
        .env("HEARKEN__LOG__FORMAT", "json")
        // These tools send requests to the Internet.
        .env("HEARKEN__TOOLS__BUILTIN__ENABLED", "")
        // A turn ends by silence, whichever models this machine has.
        .env("HEARKEN__TURN_DETECTION__MODEL", "")
        // No filler phrases on a slow machine: replies must be the same everywhere.
        .env("HEARKEN__TOOLS__FILLER_AFTER_MS", "60000")
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// A running `hearken serve` on this machine with stub vendors. It may be killed and started again
/// in the same folder.
pub(crate) struct ServerProcess {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: tempfile::TempDir,
    environment: Vec<(String, String)>,
    memory_kib: Option<u64>,
}

impl ServerProcess {
    /// Starts it with these environment variables and waits until it listens.
    pub(crate) async fn start(vendors: &Vendors, env: &[(&str, &str)]) -> Self {
        Self::within(vendors, env, None).await
    }

    /// The same, with this address space limit in KiB (`ulimit -v`).
    pub(crate) async fn within(
        vendors: &Vendors,
        env: &[(&str, &str)],
        memory_kib: Option<u64>,
    ) -> Self {
        hearken_outbound::tls::choose_provider();
        let folder = tempfile::tempdir().unwrap();
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let urls = [
            ("ASR_URL", vendors.asr.url()),
            ("LLM_BASE_URL", vendors.llm.url()),
            ("TTS_URL", vendors.tts.url()),
            ("HEARKEN__SERVER__DATA_DIR", folder.path().join("data").display().to_string()),
            ("TMPDIR", folder.path().join("tmp").display().to_string()),
        ];
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let usual = urls.map(|(name, value)| (name.to_owned(), value));
        let environment: Vec<_> = usual.into_iter().chain(env.iter().map(text)).collect();
        let child = spawn(folder.path(), &environment, memory_kib);
        let address = ([127, 0, 0, 1], 0).into();
        let mut server = Self { address, child, folder, environment, memory_kib };
        server.address = server.listens_at(0).await;
        server
    }

    /// Waits for the address in the log after this offset.
    async fn listens_at(&self, behind: usize) -> SocketAddr {
        eventually_within(STARTS_WITHIN, "the address in the log", async || {
            let text = self.log();
            let at = text[behind..].find(r#""address":"127.0.0.1:"#)?;
            text[behind + at + r#""address":""#.len()..].split('"').next()?.parse().ok()
        })
        .await
    }

    /// Does what `kill -9` does.
    pub(crate) async fn kill(&mut self) {
        self.child.start_kill().expect("the server is running");
        self.child.wait().await.unwrap();
    }

    /// Stops it as a service manager does; returns how long that took.
    pub(crate) async fn terminate(&mut self) -> Duration {
        let begun = Instant::now();
        let pid = Pid::from_raw(self.pid().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        begun.elapsed()
    }

    /// Starts it again after it has ended, and waits until it listens.
    pub(crate) async fn start_again(&mut self) {
        let behind = self.log().len();
        self.child = spawn(self.folder.path(), &self.environment, self.memory_kib);
        self.address = self.listens_at(behind).await;
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        self.child.wait().await.unwrap()
    }

    /// A folder that is deleted with it: `data` has its data, unless the environment sets another
    /// place, and `tmp` its temporary files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// HTTP URL of a path.
    pub(crate) fn http_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// WebSocket URL of a path.
    pub(crate) fn socket_url(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the server is running")
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.pid()))
    }

    /// A field of proc_pid_status(5), in KiB.
    pub(crate) fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).expect("the server is running");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Its current resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// Its peak resident memory since [`Self::forget_peak`], in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// Resets the peak (proc_pid_clear_refs(5): 5 resets it).
    pub(crate) fn forget_peak(&self) {
        std::fs::write(self.proc("clear_refs"), "5").unwrap();
    }

    /// The number of its open files and sockets.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).expect("the server is running").count()
    }

    /// The CPU time of all its threads since its start (proc_pid_stat(5): fields 14 and 15, in
    /// hundredths of a second).
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(self.proc("stat")).expect("the server is running");
        // The name before them may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Its disk usage, including the log, in KiB.
    pub(crate) fn disk_kib(&self) -> u64 {
        fn size(path: &Path) -> u64 {
            let Ok(entries) = std::fs::read_dir(path) else {
                return std::fs::metadata(path).map_or(0, |file| file.len());
            };
            entries.flatten().map(|entry| size(&entry.path())).sum()
        }
        size(self.folder.path()) / 1_024
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap()
    }
}
