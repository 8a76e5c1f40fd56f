//! Connect, hello, speak, disconnect, many times, against the whole server on real sockets: nothing
//! may accumulate. Devices drop their connection in every phase without a close frame, as firmware
//! does.
//!
//! `scripts/long cycles` runs 10,000 cycles. Memory, open files and threads of this process are
//! measured, with the server and its vendors in it. A task that outlives its connection occupies
//! memory; [`MOST_GROWTH_KIB`] over 10,000 cycles is less than half a KiB each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _, future::join_all};
use hearken::config::{EnvVars as _, ProcessEnv};
use hearken_audio::sound;
use hearken_test_support::eventually;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, http::HeaderValue};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::app::{TestServer, Vendors};

const HELLO: &str = r#"{"type":"hello","version":1,"transport":"websocket"}"#;
const LISTEN: &str = r#"{"type":"listen","state":"start","mode":"auto"}"#;
/// Number of concurrent devices.
const AT_ONCE: usize = 16;
/// Number of cycles of the short run; `HEARKEN_CYCLES` sets another.
const FEW: usize = 480;
/// After this many cycles the buffers have their final size.
const WARM_UP: usize = 320;
const MOST_GROWTH_KIB: usize = 4 * 1_024;
/// Threads of pools, which start when there is much to do. A leak is one for each cycle.
const FEW_THREADS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(20);

type Socket = WebSocketStream<TcpStream>;

/// The phase in which a device drops its connection.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Connected,
    Greeted,
    Listening,
    Speaking,
    Recognised,
    Announced,
    Heard,
    Answered,
}

const PHASES: [Phase; 8] = [
    Phase::Connected,
    Phase::Greeted,
    Phase::Listening,
    Phase::Speaking,
    Phase::Recognised,
    Phase::Announced,
    Phase::Heard,
    Phase::Answered,
];

async fn connect(server: &TestServer, device: usize) -> Socket {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let mut request = server.device_url().into_client_request().unwrap();
    let id = HeaderValue::from_str(&format!("02:00:00:00:00:{device:02x}")).unwrap();
    request.headers_mut().insert("device-id", id);
    client_async(request, stream).await.unwrap().0
}

/// Reads until a text frame contains this text, or until an audio frame for `None`.
async fn until(socket: &mut Socket, wanted: Option<&str>) {
    let found = timeout(PATIENCE, async {
        loop {
            match socket.next().await.expect("the connection is open").unwrap() {
                Message::Text(text) if wanted.is_some_and(|w| text.contains(w)) => return,
                Message::Binary(_) if wanted.is_none() => return,
                _ => {}
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("never came: {wanted:?}"));
}

/// One cycle, cut in this phase.
async fn cycle(server: &TestServer, device: usize, phase: Phase, speech: &[Bytes]) {
    let mut socket = connect(server, device).await;
    let reached = |wanted: Phase| phase as usize > wanted as usize;
    if !reached(Phase::Connected) {
        return;
    }
    socket.send(Message::text(HELLO)).await.unwrap();
    until(&mut socket, Some("hello")).await;
    if !reached(Phase::Greeted) {
        return;
    }
    socket.send(Message::text(LISTEN)).await.unwrap();
    if !reached(Phase::Listening) {
        return;
    }
    let part = if reached(Phase::Speaking) { speech.len() } else { speech.len() / 2 };
    for packet in &speech[..part] {
        socket.send(Message::Binary(packet.clone())).await.unwrap();
    }
    if !reached(Phase::Speaking) {
        return;
    }
    let signs = [Some("stt"), Some("start"), None, Some("stop")];
    let phases = [Phase::Recognised, Phase::Announced, Phase::Heard, Phase::Answered];
    for (sign, place) in signs.into_iter().zip(phases) {
        until(&mut socket, sign).await;
        if !reached(place) {
            return;
        }
    }
}

/// Resource usage of this process: resident memory in KiB, open files, threads.
#[derive(Debug, Clone, Copy)]
struct Use {
    kib: usize,
    files: usize,
    threads: usize,
}

impl Use {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let number = |name: &str| {
            let line = status.lines().find(|l| l.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        Self { kib: number("VmRSS:"), files, threads: number("Threads:") }
    }
}

/// Number of connections that the server counts.
async fn connections(server: &TestServer) -> u32 {
    server.metric("hearken_connections").await as u32
}

/// Runs this many cycles, several concurrently; afterwards no connection is left.
async fn cycles(server: &TestServer, vendors: &Vendors, count: usize) {
    let speech: Vec<Bytes> = [sound::voice(480), sound::silence(600)].concat();
    let next = AtomicUsize::new(0);
    join_all((0..AT_ONCE).map(|device| {
        let next = &next;
        let speech = &speech;
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                cycle(server, device, PHASES[number % PHASES.len()], speech).await;
                vendors.forget_texts();
            }
        }
    }))
    .await;
    eventually("an empty server", async || (connections(server).await == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connection_cycles_leak_no_memory_files_or_threads() {
    let count = ProcessEnv.get("HEARKEN_CYCLES").map_or(FEW, |n| n.parse().unwrap());
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.speaking.start_guard = Duration::from_millis(20);
        config.speaking.stop_margin = Duration::from_millis(20);
        config.server.max_connections = AT_ONCE * 2;
        // A slot that is not released would be missed.
        config.admission.max_turns = AT_ONCE * 2;
    })
    .await;
    cycles(&server, &vendors, WARM_UP).await;
    let before = Use::now();
    let begun = Instant::now();
    cycles(&server, &vendors, count).await;
    // The number of idle connections to vendors may vary.
    let after = Use::now();
    eprintln!("{count} cycles in {:?}: {before:?}, then {after:?}", begun.elapsed());
    assert!(after.kib < before.kib + MOST_GROWTH_KIB, "memory grows: {before:?}, {after:?}");
    assert!(after.files <= before.files + AT_ONCE, "files stay open: {before:?}, {after:?}");
    assert!(after.threads < before.threads + FEW_THREADS, "threads stay: {before:?}, {after:?}");
    // All slots were released.
    let all = join_all((0..AT_ONCE * 2).map(|device| connect(&server, device))).await;
    assert_eq!(all.len(), AT_ONCE * 2);
    drop(all);
    server.stop().await;
}
