//! Strangers with all attacks at once, while ordinary devices have turns: seconds in the tests,
//! minutes by `scripts/long strangers`. Memory stays flat, and no turn is lost. For the cost of a
//! single input, see the parent module.

use std::process::Output;
use std::sync::atomic::AtomicUsize;

use tokio::process::Command;

use super::*;
use crate::support::process::dev_program;

/// Number of concurrent attacks.
const AT_ONCE: usize = 4;
/// Duration of one attack.
const EACH: Duration = Duration::from_secs(3);
/// Duration of the short run; `HEARKEN_SOAK_MINUTES` sets another.
const SHORT: Duration = Duration::from_secs(20);
/// Number of devices that have turns meanwhile.
const DEVICES: &str = "5";
/// Maximum growth of memory from the second fifth of a long run to its last, in KiB. In the first
/// fifth, the working memory of the attacks is allocated.
pub(crate) const MOST_GROWTH_KIB: u64 = 48 << 10;
/// Maximum memory left after a long run, in KiB: sessions of text clients stay in memory, with a
/// limit of 64 MiB.
const MOST_KEPT_AFTER_ALL_KIB: u64 = 96 << 10;

/// Measurements of the server in one of five parts of the run.
#[derive(Default, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) least_kib: u64,
    pub(crate) most_kib: u64,
    pub(crate) open_files: usize,
    pub(crate) stall: Duration,
}

/// Lowers the priority of the strangers' threads, as they represent another machine.
fn of_another_machine() {
    rustix::process::nice(19).ok();
}

/// Runs one attack after the other until `until`, from this one on.
async fn strangers(server: SocketAddr, first: usize, until: Instant, acts: &AtomicUsize) {
    let all: Vec<Attack> =
        over_http::ATTACKS.iter().chain(over_sockets::ATTACKS).copied().collect();
    let mut next = first * all.len() / AT_ONCE;
    while Instant::now() < until {
        acts.fetch_add(attack(server, all[next % all.len()], EACH).await, Ordering::Relaxed);
        next += 1;
    }
}

/// Runs ordinary devices from 2 s on until shortly before the end.
async fn devices(server: &ServerProcess, length: Duration) -> Output {
    let recording = hearken_test_support::repository().join("fixtures/audio/en_amiable.jsonl");
    Command::new(dev_program())
        .arg("load")
        .arg(recording)
        .args(["--json", "--devices", DEVICES, "--ramp", "1"])
        .args(["--url", &format!("ws://{}/xiaozhi/v1/", server.address)])
        .args(["--pid", &server.pid().to_string()])
        .args(["--for", &length.as_secs().saturating_sub(8).to_string()])
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

/// Samples the server until the end, in five parts of equal length.
pub(crate) async fn watched(server: &ServerProcess, length: Duration) -> [Part; 5] {
    let mut parts = [Part { least_kib: u64::MAX, ..Part::default() }; 5];
    for part in &mut parts {
        let until = tokio::time::Instant::now() + length / 5;
        let probe = HealthProbe::start(server);
        while tokio::time::Instant::now() < until {
            let kib = server.resident_kib();
            part.least_kib = part.least_kib.min(kib);
            part.most_kib = part.most_kib.max(kib);
            part.open_files = part.open_files.max(server.open_files());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        part.stall = probe.end();
    }
    parts
}

#[actix_web::test]
async fn concurrent_attacks_fail_no_turn_of_ordinary_devices() {
    let vendors = Vendors::start().await;
    let server = open_server(&vendors).await;
    ordinary_turn(server.address).await;
    let before_kib = server.resident_kib();
    let minutes = variable("HEARKEN_SOAK_MINUTES").and_then(|m| m.parse().ok());
    let length = minutes.map_or(SHORT, |minutes: u64| Duration::from_secs(60 * minutes));
    let until = Instant::now() + length;
    let address = server.address;
    let acts = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..AT_ONCE)
        .map(|first| {
            let acts = Arc::clone(&acts);
            std::thread::spawn(move || {
                of_another_machine();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(strangers(address, first, until, &acts));
            })
        })
        .collect();
    let (loaded, parts) = tokio::join!(devices(&server, length), watched(&server, length));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let told = String::from_utf8_lossy(&loaded.stdout).into_owned();
    let figures: Value = serde_json::from_str(&told).unwrap_or_default();
    eprintln!("{} acts; devices: {}", acts.load(Ordering::Relaxed), figures["figures"]);
    for part in parts {
        let Part { least_kib, most_kib, open_files, stall } = part;
        eprintln!("| {least_kib} | {most_kib} | {open_files} | {} |", stall.as_millis());
    }
    assert!(loaded.status.success(), "{told}{}", String::from_utf8_lossy(&loaded.stderr));
    assert!(!server.log().contains("panicked"), "a request panicked");
    ordinary_turn(server.address).await;
    if minutes.is_some() {
        let kept = settled(&server, before_kib).await;
        eprintln!("{kept} KiB left at the end");
        let grown = parts[4].least_kib.saturating_sub(parts[1].least_kib);
        assert!(grown <= MOST_GROWTH_KIB, "memory grew by {grown} KiB");
        assert!(kept <= MOST_KEPT_AFTER_ALL_KIB, "{kept} KiB are left");
        let stall = parts.iter().map(|part| part.stall).max().unwrap_or_default();
        assert!(stall <= LONGEST_STALL, "a request waited for {stall:?}");
    }
}
