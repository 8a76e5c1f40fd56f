//! What the tests of several crates stand on: stubs of vendors, servers and programs of others,
//! scripted engines. A dev-dependency only, never a dependency. Not for assertions, nor for what
//! needs the whole server, which is in `tests/it/support`.
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

/// Returns the top folder of the checkout whose test this is: cargo begins a test in the folder of its package. When a test is
/// compiled this is not known, for checkouts share what is built.
pub fn repository() -> PathBuf {
    let package = std::env::current_dir().unwrap();
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap().to_owned()
}

/// Longest wait for what is sure to come, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Asks again and again until there is an answer, at most [`PATIENCE`].
pub async fn eventually<T, F>(what: &str, ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    eventually_within(PATIENCE, what, ask).await
}

/// The same within this time.
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

/// A variable of the process's environment; none where it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// A port where nobody listens, and which no other test gets until this process has ended: what a
/// test sends to a server that has gone must not reach the server of another test.
pub fn free_port() -> u16 {
    // Below the ports that the system gives to whoever asks for any.
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
