//! Shared helpers of the tests of several crates: stubs of vendors, third-party servers and
//! programs, scripted engines. A dev-dependency only. Not for assertions, nor for helpers that need
//! the whole server, which are in `tests/it/support`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say why they skip"
)]

pub mod chat_rows;
#[cfg(feature = "engines")]
pub mod engines;
pub mod fault_proxy;
pub mod health;
#[cfg(feature = "observed")]
pub mod observed;
pub mod own_mounts;
pub mod peers;
#[cfg(feature = "postgres")]
pub mod places;
pub mod redis;
pub mod scripted_server;
pub mod socket;
#[cfg(feature = "engines")]
pub mod speech;
#[cfg(feature = "tool-sources")]
pub mod tool_sources;
pub mod vendors;
pub mod worlds;

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// Top folder of the checkout of the running test: cargo runs a test in the folder of its package.
/// It is not known at compile time, as checkouts share their builds.
pub fn repository() -> PathBuf {
    let package = std::env::current_dir().unwrap();
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap().to_owned()
}

/// Timeout for events that must occur. Only a test that fails waits this long, and other work may
/// hold the machine's cores for half a minute.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until there is an answer, for at most [`PATIENCE`].
pub async fn eventually<T, F>(what: &str, ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    eventually_within(PATIENCE, what, ask).await
}

/// The same with this time limit.
pub async fn eventually_within<T, F>(time: Duration, what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let asking = async {
        loop {
            ticks.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(time, asking).await;
    answer.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// An environment variable of the process; `None` if it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// A port without a listener, which no other test gets until this process has ended: requests to a
/// server that has ended must not reach the server of another test.
pub fn free_port() -> u16 {
    // Below the range of ephemeral ports.
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static CLAIMED: Mutex<Vec<File>> = Mutex::new(Vec::new());

    let folder = std::env::temp_dir().join("hearken-test-ports");
    std::fs::create_dir_all(&folder).unwrap();
    let mut claimed = CLAIMED.lock().unwrap();
    let begin = std::process::id().wrapping_mul(31);
    for n in 0..COUNT {
        let port = (FIRST + begin.wrapping_add(n) % COUNT) as u16;
        let Ok(claim) = File::create(folder.join(port.to_string())) else { continue };
        if claim.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            claimed.push(claim);
            return port;
        }
    }
    panic!("no port from {FIRST} on is free");
}
