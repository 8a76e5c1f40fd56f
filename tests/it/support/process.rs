//! The program as a process of its own, its log in a file, and what it takes of the machine. Not for
//! commands that end by themselves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use hearken_test_support::{eventually, variable};
use tokio::process::{Child, Command};

use super::app::Vendors;

/// The program to run: the one of this build, or the optimised one that `scripts/strangers` names.
pub(crate) fn program() -> String {
    variable("HEARKEN_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_hearken").to_owned())
}

/// A running `hearken serve` on this machine before stub vendors.
pub(crate) struct ServerProcess {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: tempfile::TempDir,
}

impl ServerProcess {
    /// Starts it with these variables, and waits until it listens.
    pub(crate) async fn start(vendors: &Vendors, env: &[(&str, &str)]) -> Self {
        hearken_base::tls::choose_provider();
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("server.log");
        let child = Command::new(program())
            .arg("serve")
            .current_dir(folder.path())
            .env("CLOUD_HOST", "127.0.0.1")
            .env("CLOUD_PORT", "0")
            .env("ASR_URL", vendors.asr.url())
            .env("LLM_BASE_URL", vendors.llm.url())
            .env("TTS_URL", vendors.tts.url())
            .env("HEARKEN__SERVER__DATA_DIR", folder.path().join("data"))
            .env("HEARKEN__EMBEDDED__ENABLED", "false")
            .env("HEARKEN__LOG__FORMAT", "json")
            // They ask the world.
            .env("HEARKEN__TOOLS__BUILTIN__ENABLED", "")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let address = eventually("the address in the log", async || {
            let text = std::fs::read_to_string(&log).unwrap();
            let at = text.find(r#""address":"127.0.0.1:"#)? + r#""address":""#.len();
            text[at..].split('"').next()?.parse().ok()
        })
        .await;
        Self { address, child, folder }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the server runs")
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.pid()))
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Its resident memory now, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// Its most resident memory since [`Self::forget_peak`], in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// Begins a new peak (proc_pid_clear_refs(5): 5 resets it).
    pub(crate) fn forget_peak(&self) {
        std::fs::write(self.proc("clear_refs"), "5").unwrap();
    }

    /// The number of its open files and sockets.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).expect("the server runs").count()
    }

    /// What it has on disk, its log included, in KiB.
    pub(crate) fn disk_kib(&self) -> u64 {
        fn size(path: &Path) -> u64 {
            let Ok(entries) = std::fs::read_dir(path) else {
                return std::fs::metadata(path).map_or(0, |file| file.len());
            };
            entries.flatten().map(|entry| size(&entry.path())).sum()
        }
        size(self.folder.path()) / 1_024
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap()
    }
}
