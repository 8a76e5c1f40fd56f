//! A server with little memory (`ulimit -v`): it serves all clients within the documented limit. If
//! it gets no more memory at all, it ends and is restarted by its supervisor, or it continues. For
//! the memory that clients may use, see `strangers`.
//!
//! `HEARKEN_MEMORY_MIB` sets another limit, to find the smallest one that works.

use std::time::Duration;

use hearken_test_support::variable;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio_util::sync::CancellationToken;

use super::clients::{PATIENCE, Speaker, TextClient};
use super::{USUAL, vendors};
use crate::cluster::load::Load;
use crate::support::process::ServerProcess;

/// The limit that `docs/operate.md` recommends.
const MIB: u64 = 1_536;
const SESSIONS: usize = 10;
const MESSAGES: usize = 10;
/// Time for which a server without memory is left alone.
const STARVED: Duration = Duration::from_secs(5);

fn limited() -> Option<u64> {
    let mib = variable("HEARKEN_MEMORY_MIB").map_or(MIB, |mib| mib.parse().unwrap());
    Some(mib << 10)
}

/// Limits the address space of a running server.
fn limit(server: &ServerProcess, kib: Option<u64>) {
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    let limit = Rlimit { current: kib.map(|kib| kib << 10), maximum: None };
    prlimit(pid, Resource::As, limit).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_within_the_documented_memory_limit_serves_all_clients() {
    let vendors = vendors().await;
    let mut env = USUAL.to_vec();
    // Each thread reserves address space.
    env.extend([("HEARKEN__SERVER__WORKERS", "2"), ("HEARKEN__SERVER__AUDIO_THREADS", "2")]);
    let server = ServerProcess::within(&vendors, &env, limited()).await;
    let load = Load::at(server.http_url("/api/sessions"), SESSIONS).await;
    let mut text = TextClient::new(server.socket_url("/"));
    let mut speaker = Speaker::new(server.socket_url("/xiaozhi/v1/"), None);
    let end = CancellationToken::new();
    let chatting = async {
        let seen = load.talk(0, MESSAGES).await;
        end.cancel();
        seen
    };
    let (seen, (), ()) = tokio::join!(chatting, text.talk(&end), speaker.talk(&end));
    assert!(seen.is_served(), "{:?}", seen.statuses);
    load.check(&server.http_url(""), MESSAGES).await;
    assert!(speaker.turn().await);
    eprintln!("at most {} KiB of address space", server.status_kib("VmPeak:"));
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_ends_or_continues() {
    let vendors = vendors().await;
    let port = hearken_test_support::free_port().to_string();
    let mut env = USUAL.to_vec();
    env.push(("CLOUD_PORT", &port));
    let mut server = ServerProcess::start(&vendors, &env).await;
    let load = Load::at(server.http_url("/api/sessions"), 4 * SESSIONS).await;
    load.talk(0, 1).await;
    limit(&server, Some(server.status_kib("VmSize:")));
    let supervising = async {
        match tokio::time::timeout(STARVED, server.ended()).await {
            Ok(status) => {
                server.start_again().await;
                format!("it ended: {status}")
            }
            Err(_) => {
                limit(&server, None);
                "it continued".to_owned()
            }
        }
    };
    let (seen, what) = tokio::join!(load.talk(1, MESSAGES), supervising);
    eprintln!("{what}; {:?}, longest {:.1?}", seen.statuses, seen.percentile(100));
    assert!(seen.percentile(100) < STARVED + PATIENCE, "{:?}", seen.percentile(100));
    load.check(&server.http_url(""), 1 + MESSAGES).await;
    let healthy = reqwest::get(server.http_url("/healthz")).await.unwrap();
    assert_eq!(healthy.status(), 200);
}
