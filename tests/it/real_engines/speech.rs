//! `hearken-engines speech` as a separate process on free ports. Not for its requests.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use tokio::process::{Child, Command};

use super::server::{LOADING, LOOK_EVERY, free_ports, health_of};

/// A running speech service with one thread.
pub(super) struct Speech {
    child: Child,
    pub(super) asr_port: u16,
    tts_port: u16,
    page_port: u16,
}

impl Speech {
    /// Starts the service, which becomes ready later.
    pub(super) fn start(engines: &Path) -> Self {
        let [asr_port, asr_page, tts_port, tts_page] = free_ports();
        let local = |port: u16| format!("127.0.0.1:{port}");
        let child = Command::new(engines)
            .args(["speech", "--threads", "1"])
            .args(["--asr-listen", &local(asr_port), "--asr-page", &local(asr_page)])
            .args(["--tts-listen", &local(tts_port), "--tts-page", &local(tts_page)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { child, asr_port, tts_port, page_port: asr_page }
    }

    /// Waits until its models are loaded.
    pub(super) async fn ready(&self) {
        let start = Instant::now();
        while health_of(self.page_port).await["status"] != "ok" {
            assert!(start.elapsed() < LOADING, "the speech service is not ready");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(super) fn asr_url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.asr_port)
    }

    pub(super) fn tts_url(&self) -> String {
        format!("ws://127.0.0.1:{}/tts", self.tts_port)
    }

    /// Its resident memory in MiB.
    pub(super) fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) / 1_024
    }

    /// `kill -9`.
    pub(super) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}
