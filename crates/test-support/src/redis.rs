//! A Redis of a test's own, which can be stopped and started again. Not for what is kept in it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{free_port, variable};

/// Set by `scripts/services`: this machine has what tests of several instances need.
const SERVICES: &str = "HEARKEN_TEST_REDIS";

/// Whether there is a Redis to test with; says so where there is none.
pub fn there_is(what: &str) -> bool {
    let there = variable(SERVICES).is_some();
    if !there {
        eprintln!("skipped {what}: no {SERVICES}; eval \"$(scripts/services start)\" first");
    }
    there
}

/// A Redis that keeps nothing on disk; ended when dropped.
pub struct Redis {
    /// Its port on 127.0.0.1.
    pub port: u16,
    process: Option<Child>,
}

impl Redis {
    /// One that answers.
    pub async fn start() -> Self {
        let mut redis = Self { port: free_port(), process: None };
        redis.begin().await;
        redis
    }

    /// Starts it again where it was stopped, empty.
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

    /// Ends it as if its machine had lost power.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Lets it hang, or go on.
    pub fn signal(&self, name: &str) {
        let pid = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
