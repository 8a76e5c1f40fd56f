//! A separate Redis for a test, which can be stopped and started again. Not for its content.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{free_port, variable};

/// Set by `scripts/services`: this machine has what tests of several instances need.
const SERVICES: &str = "HEARKEN_TEST_REDIS";

/// Whether there is a Redis for tests; prints a note if there is none.
pub fn there_is(what: &str) -> bool {
    let there = variable(SERVICES).is_some();
    if !there {
        eprintln!("skipped {what}: no {SERVICES}; eval \"$(scripts/services start)\" first");
    }
    there
}

/// A Redis without persistence; stopped when dropped.
pub struct Redis {
    /// Its port on 127.0.0.1.
    pub port: u16,
    process: Option<Child>,
}

impl Redis {
    /// Starts a Redis and waits until it listens.
    pub async fn start() -> Self {
        let mut redis = Self { port: free_port(), process: None };
        redis.begin().await;
        redis
    }

    /// Starts it again, empty.
    pub async fn begin(&mut self) {
        let port = self.port.to_string();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server can be started");
        self.process = Some(process);
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        let answers = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                ticks.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), answers).await.expect("redis starts");
    }

    /// Kills it, as a power failure would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Suspends or resumes it.
    pub fn signal(&self, name: &str) {
        let pid = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
