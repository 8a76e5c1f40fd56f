//! What a stranger may cost: every public route and socket is driven with its worst input, against
//! the program in a process of its own, and what that keeps in memory and on disk and how long it
//! holds a worker is measured. SECURITY.md has the table. Not for what is answered.

mod mutations;
mod over_http;
mod over_sockets;
pub(crate) mod soak;
mod stranger;

use std::any::Any;
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use hearken_test_support::variable;
use serde_json::{Value, json};

use self::stranger::{Stranger, read, send_all};
use crate::support::app::{REPLY, Vendors};
use crate::support::process::ServerProcess;

/// What an act leaves open, such as a socket, until its attack has ended.
type Held = Option<Box<dyn Any + Send>>;

/// A worst input.
#[derive(Clone, Copy)]
struct Attack {
    /// Where it is sent.
    route: &'static str,
    /// What is sent.
    input: &'static str,
    /// One act of it, which is repeated.
    act: fn(Stranger) -> BoxFuture<'static, Held>,
}

impl Attack {
    const fn new(
        route: &'static str,
        input: &'static str,
        act: fn(Stranger) -> BoxFuture<'static, Held>,
    ) -> Self {
        Self { route, input, act }
    }
}

/// Makes an act of its steps.
fn act(future: impl Future<Output = Held> + Send + 'static) -> BoxFuture<'static, Held> {
    Box::pin(future)
}

/// What an attack cost.
struct Cost {
    acts: usize,
    /// Resident memory while it went on, and after it, above that of before; KiB.
    peak_kib: u64,
    kept_kib: u64,
    /// Growth of the data folder and the log, KiB.
    disk_kib: u64,
    /// Longest time to an answer of `/healthz`, without waits for a core.
    stall: Duration,
}

/// Strangers at once, each at an address of its own.
const STRANGERS: usize = 8;
/// Most things held open by each.
const MOST_HELD: usize = 100;
/// Duration of each attack, unless the environment says another, in milliseconds.
const ATTACK_MS: u64 = 1_000;
/// Most memory during an attack: a hundred text clients may send a message of 1 MiB each, and each of
/// the 700 others that are refused 128 KiB, in buffers of actix-http that double as they grow. And
/// kept after it: allocators keep what they will use again.
const MOST_PEAK_KIB: u64 = 512 << 10;
const MOST_KEPT_KIB: u64 = 20 << 10;
/// Most growth on disk by an attack; the log takes a part.
const MOST_DISK_KIB: u64 = 48 << 10;
/// Longest wait for memory to be given back.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);
/// Longest wait for `/healthz`, of the optimised program and of the one of this build, which takes up to twenty times as long.
/// Most of it are 200 requests that one connection sends at once: a machine of half the speed takes twice as long for them.
const LONGEST_STALL: Duration = Duration::from_millis(200);
const LONGEST_STALL_UNOPTIMISED: Duration = Duration::from_secs(2);

/// Schemas that are expensive to compile or to check.
fn worst_schemas() -> Vec<Value> {
    let pattern =
        |pattern: &str| json!({"type": "object", "properties": {"a": {"pattern": pattern}}});
    let properties = |count: usize, one: &dyn Fn(usize) -> Value| {
        let all: serde_json::Map<_, _> = (0..count).map(|n| (format!("p{n}"), one(n))).collect();
        json!({"type": "object", "properties": all})
    };
    let doubled = |levels: usize| {
        let level = |n: usize| {
            let next = json!({"$ref": format!("#/$defs/l{}", n + 1)});
            (format!("l{n}"), json!({"allOf": [next, next]}))
        };
        let mut all: serde_json::Map<_, _> = (0..levels).map(level).collect();
        all.insert(format!("l{levels}"), json!({"type": "string"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": all})
    };
    let mut nested = json!({"type": "string"});
    for _ in 0..60 {
        nested = json!({"type": "object", "properties": {"a": nested}});
    }
    vec![
        pattern("((a{0,100}){0,100}){0,100}"),
        properties(400, &|n| json!({"pattern": format!("\\w{{{}}}\\p{{L}}{{500}}", 900 + n)})),
        pattern("(a+)+$"),
        doubled(28),
        nested,
        json!({"type": "object", "properties": {"a": {"$ref": "http://203.0.113.9/schema"}}}),
        properties(2_000, &|n| json!({"enum": [n, n.to_string()], "description": "d".repeat(10)})),
    ]
}

/// How long each thread of a process, and the calling one, had work and waited for a core until now. Nothing where the kernel does
/// not count it.
struct WaitsForCores {
    threads: HashMap<PathBuf, Duration>,
    own: Duration,
}

impl WaitsForCores {
    /// Second figure of schedstat (proc(5)): nanoseconds in a run queue.
    fn read(file: &Path) -> Duration {
        let told = std::fs::read_to_string(file).unwrap_or_default();
        let ns = told.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
        Duration::from_nanos(ns.unwrap_or_default())
    }

    fn of(pid: u32) -> Self {
        let folders =
            std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads = folders.map(|folder| folder.path().join("schedstat"));
        Self {
            threads: threads.map(|file| (file.clone(), Self::read(&file))).collect(),
            own: Self::read(Path::new("/proc/thread-self/schedstat")),
        }
    }

    /// The longest that one of the threads has waited since then, and the calling one.
    fn since(&self, before: &Self) -> Duration {
        let waited = self.threads.iter().map(|(file, wait)| {
            wait.saturating_sub(before.threads.get(file).copied().unwrap_or_default())
        });
        waited.max().unwrap_or_default() + self.own.saturating_sub(before.own)
    }
}

/// Measures the longest time to an answer of `/healthz`, from a thread of its own. Waits for a core are the machine's, not the
/// server's: on a busy one they may take longer than all the rest.
struct HealthProbe {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Duration>,
}

impl HealthProbe {
    fn start(server: &ServerProcess) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let address = server.address;
        let pid = server.pid();
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !stopping.load(Ordering::Relaxed) {
                let before = WaitsForCores::of(pid);
                let took = answered(address);
                longest = longest.max(took.saturating_sub(WaitsForCores::of(pid).since(&before)));
                std::thread::park_timeout(Duration::from_millis(5));
            }
            longest
        });
        Self { stop, thread }
    }

    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the health is answered")
    }
}

/// Asks for the health on a connection of its own, and returns how long that took.
fn answered(server: SocketAddr) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(server).expect("the server accepts");
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the health is answered");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    begun.elapsed()
}

/// Repeats an act from several addresses for some time, and holds what it leaves open until the
/// end. Returns the number of acts.
async fn attack(server: SocketAddr, attack: Attack, length: Duration) -> usize {
    let until = tokio::time::Instant::now() + length;
    let one = |number: usize| async move {
        let stranger = Stranger::new(server, number);
        let mut held = Vec::new();
        let mut acts = 0;
        while tokio::time::Instant::now() < until && held.len() < MOST_HELD {
            acts += 1;
            let act = tokio::time::timeout_at(until, (attack.act)(stranger.clone()));
            held.extend(act.await.ok().flatten());
        }
        tokio::time::sleep_until(until).await;
        (acts, held)
    };
    let all = join_all((0..STRANGERS).map(one)).await;
    all.iter().map(|(acts, _)| acts).sum()
}

/// Talks as an ordinary text client and an application do, and is answered. The first time, what all
/// share is loaded, such as the tokenizer.
async fn ordinary_turn(server: SocketAddr) {
    let client = Stranger::new(server, 60_000);
    let id = over_http::chat_session(&client).await.expect("an application makes a session");
    let message = json!({"message": "hello", "player_id": "p"}).to_string();
    let path = format!("/api/sessions/{id}/chat");
    let (status, told) = client.ask(reqwest::Method::POST, &path, &[], message).await;
    assert_eq!(status, 200, "{told}");
    let mut socket = client.open("/", &[]).await.expect("an ordinary client connects");
    let request = json!({"type": "text_input", "text": "hello"}).to_string();
    send_all(&mut socket, [tokio_tungstenite::tungstenite::Message::text(request)]).await;
    let texts = read(&mut socket, 10).await;
    assert!(texts.iter().any(|text| text.contains(REPLY[1])), "{texts:?}");
}

/// Waits until memory has fallen to what is kept: connections end, what was theirs is freed, and the
/// allocator gives it back within ten seconds.
async fn settled(server: &ServerProcess, before: u64) -> u64 {
    let until = Instant::now() + SETTLED_WITHIN;
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let mut least = u64::MAX;
    while least > before + MOST_KEPT_KIB && Instant::now() < until {
        ticks.tick().await;
        least = least.min(server.resident_kib());
    }
    least.saturating_sub(before)
}

async fn measured(server: &ServerProcess, one: Attack, length: Duration) -> Cost {
    let before = server.resident_kib();
    let disk = server.disk_kib();
    server.forget_peak();
    let probe = HealthProbe::start(server);
    let acts = attack(server.address, one, length).await;
    let stall = probe.end();
    let peak_kib = server.peak_kib().saturating_sub(before);
    ordinary_turn(server.address).await;
    let kept_kib = settled(server, before).await;
    Cost { acts, peak_kib, kept_kib, disk_kib: server.disk_kib().saturating_sub(disk), stall }
}

/// A server that strangers reach: every face is open, and devices get tokens by booting.
async fn open_server(vendors: &Vendors) -> ServerProcess {
    let env = [
        ("HEARKEN__OTA__TRUST_PROXY", "true"),
        ("HEARKEN__GATEWAY__OPEN_TO_ALL", "true"),
        ("HEARKEN__CHAT__OPEN_TO_ALL", "true"),
        ("HEARKEN__MUSEUM__OPEN_TO_ALL", "true"),
        ("HEARKEN__AUTH__REQUIRED", "always"),
        ("HEARKEN__TOOLS__BUILTIN__ENABLED", "get_current_time"),
    ];
    ServerProcess::start(vendors, &env).await
}

#[actix_web::test]
async fn what_the_worst_input_of_each_route_costs_has_a_bound() {
    let vendors = Vendors::start().await;
    let server = open_server(&vendors).await;
    let length = variable("HEARKEN_ATTACK_MS").and_then(|ms| ms.parse().ok()).unwrap_or(ATTACK_MS);
    for _ in 0..3 {
        ordinary_turn(server.address).await;
    }
    let longest_stall = match variable("HEARKEN_PROGRAM") {
        Some(_) => LONGEST_STALL,
        None => LONGEST_STALL_UNOPTIMISED,
    };
    let mut failed = Vec::new();
    for one in over_http::ATTACKS.iter().chain(over_sockets::ATTACKS) {
        let cost = measured(&server, *one, Duration::from_millis(length)).await;
        let row = format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            one.route,
            one.input,
            cost.acts,
            cost.peak_kib,
            cost.kept_kib,
            cost.disk_kib,
            cost.stall.as_millis()
        );
        eprintln!("{row}");
        let bounded = cost.peak_kib <= MOST_PEAK_KIB
            && cost.kept_kib <= MOST_KEPT_KIB
            && cost.disk_kib <= MOST_DISK_KIB
            && cost.stall <= longest_stall;
        if !bounded || cost.acts == 0 {
            failed.push(row);
        }
    }
    assert!(
        failed.is_empty(),
        "over its bounds (acts, KiB at most, kept, disk, ms):\n{}",
        failed.join("\n")
    );
}
