//! Latency that the server adds to a request of a text client: `cargo bench --bench text_gateway`.
//! Runs the whole server in this process, with a language model that answers at once. The time of a
//! request is measured from sending `text_input` to reading `llm_response`, without the time that
//! the model's stub spent on it. It includes sockets and HTTP, the queue under concurrent requests,
//! both rounds of a request that calls the client's tool, and storing the session before each
//! answer. Clients and stub share the machine with the server. Not for the latency of models.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for people")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use hdrhistogram::Histogram;
use hearken::app;
use hearken::config::Config;
use hearken_base::Secret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use tokio_util::sync::CancellationToken;

/// The client's tool.
const TOOL: &str = "get_battery";
/// The reply of the model, in the pieces of its stream.
const PIECES: [&str; 6] =
    ["The battery ", "is at ", "eighty-five ", "percent", ". It is ", "fine."];
/// A URL without a listener.
const NOBODY: &str = "ws://127.0.0.1:9";
/// Timeout for all waits.
const WITHIN: Duration = Duration::from_secs(30);

/// Number of concurrent clients and their pace; one row of the table for each kind of session
/// store, without and with a tool.
struct Load {
    name: &'static str,
    clients: u32,
    /// Interval between the requests of a client; the server reads at most 100 frames a second from each.
    every: Duration,
    /// Delay between the starts of two clients.
    apart: Duration,
    warming_requests: u64,
    requests: u64,
}

const LOADS: [Load; 3] = [
    Load {
        name: "1 connection",
        clients: 1,
        every: Duration::from_millis(25),
        apart: Duration::ZERO,
        warming_requests: 50,
        requests: 1_000,
    },
    Load {
        name: "100, one at a time",
        clients: 100,
        every: Duration::from_secs(1),
        apart: Duration::from_millis(10),
        warming_requests: 2,
        requests: 10,
    },
    Load {
        name: "100, all at once",
        clients: 100,
        every: Duration::from_secs(1),
        apart: Duration::ZERO,
        warming_requests: 2,
        requests: 10,
    },
];

/// Number of model calls for each request, and the time that the stub spent on them.
type Spent = Arc<Mutex<HashMap<u64, (u32, Duration)>>>;

/// The language model, in a thread of its own; ends with the process.
struct Model {
    address: SocketAddr,
    spent: Spent,
}

impl Model {
    fn start() -> Self {
        let spent = Spent::default();
        let (tell, told) = mpsc::channel();
        let notes = Arc::clone(&spent);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    stream.set_nodelay(true).unwrap();
                    connections.spawn(answer_all(stream, Arc::clone(&notes)));
                }
            });
        });
        Self { address: told.recv().unwrap(), spent }
    }

    /// Time spent on each of this many requests. Waits until the last one is recorded, which
    /// happens just after its last byte is written.
    async fn spent(&self, requests: u64, rounds: u32) -> HashMap<u64, Duration> {
        let begun = Instant::now();
        loop {
            let spent = self.spent.lock().unwrap().clone();
            if spent.len() as u64 == requests && spent.values().all(|(n, _)| *n == rounds) {
                self.spent.lock().unwrap().clear();
                return spent.into_iter().map(|(number, (_, time))| (number, time)).collect();
            }
            assert!(begun.elapsed() < WITHIN, "{} requests of {requests}", spent.len());
            tokio::task::yield_now().await;
        }
    }
}

/// Answers the requests of one connection in sequence, until it is closed.
async fn answer_all(mut stream: TcpStream, notes: Spent) {
    let mut bytes = Vec::new();
    while let Some(body) = read_body(&mut stream, &mut bytes).await {
        let received = Instant::now();
        let asked: Value = serde_json::from_slice(&body).unwrap();
        if stream.write_all(&reply(&asked)).await.is_err() {
            return;
        }
        let time = received.elapsed();
        let mut notes = notes.lock().unwrap();
        let (rounds, spent) = notes.entry(number_of(&asked)).or_default();
        *rounds += 1;
        *spent += time;
    }
}

/// The body of the next HTTP request; further bytes stay in `bytes`.
async fn read_body(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = std::str::from_utf8(&bytes[..end]).unwrap().to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let whole = end + 4 + length.unwrap().trim().parse::<usize>().unwrap();
            if bytes.len() >= whole {
                let rest = bytes.split_off(whole);
                let request = std::mem::replace(bytes, rest);
                return Some(request[end + 4..].to_vec());
            }
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// The number that a client put into its request.
fn number_of(asked: &Value) -> u64 {
    let messages = asked["messages"].as_array().unwrap();
    let last = messages.iter().rfind(|message| message["role"] == "user").unwrap();
    last["content"].as_str().unwrap().parse().unwrap()
}

/// A complete streamed answer: a call of the client's tool if that is offered and was not called
/// yet, otherwise text.
fn reply(asked: &Value) -> Vec<u8> {
    let messages = asked["messages"].as_array().unwrap();
    let called = messages.last().unwrap()["role"] == "tool";
    let mut tools = asked["tools"].as_array().into_iter().flatten();
    let (deltas, reason) = if !called && tools.any(|tool| tool["function"]["name"] == TOOL) {
        let function = json!({"name": TOOL, "arguments": "{}"});
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
        (vec![json!({"tool_calls": [call]})], "tool_calls")
    } else {
        (PIECES.map(|piece| json!({"content": piece})).to_vec(), "stop")
    };
    let mut answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n"
        .to_vec();
    let mut event = |event: &str| {
        let event = format!("data: {event}\n\n");
        answer.extend(format!("{:x}\r\n{event}\r\n", event.len()).bytes());
    };
    let mut chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": "stub", "choices": [choice]});
        event(&chunk.to_string());
    };
    chunk(json!({"role": "assistant", "content": ""}), None);
    for delta in deltas {
        chunk(delta, None);
    }
    chunk(json!({}), Some(reason));
    event("[DONE]");
    answer.extend(b"0\r\n\r\n");
    answer
}

/// Where sessions are stored.
#[derive(Clone, Copy)]
enum Store {
    Memory,
    Disk,
}

/// The server, in threads of its own.
struct Server {
    address: SocketAddr,
    process: CancellationToken,
    ended: mpsc::Receiver<()>,
    /// Its data, deleted with the server.
    _kept: tempfile::TempDir,
}

impl Server {
    fn start(model: SocketAddr, store: Store) -> Self {
        // On the disk of the build, as the temporary folder of a machine may be in memory.
        let kept = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut config = Config::default();
        config.server.host = "127.0.0.1".into();
        config.server.port = 0;
        config.server.data_dir = kept.path().to_owned();
        config.embedded.enabled = false;
        config.asr.url = NOBODY.into();
        config.tts.url = NOBODY.into();
        config.llm.base_url = format!("http://{model}/v1");
        if let Store::Memory = store {
            config.store.url = Secret::new("sqlite::memory:");
        }
        let process = CancellationToken::new();
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let token = process.clone();
        std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let running = app::start(&config, Vec::new(), token).unwrap();
                tell.send(running.address).unwrap();
                running.serve().await.unwrap();
            });
            end.send(()).unwrap();
        });
        Self { address: told.recv().unwrap(), process, ended, _kept: kept }
    }

    fn stop(self) {
        self.process.cancel();
        self.ended.recv_timeout(WITHIN).unwrap();
    }
}

/// A text client.
struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    /// Connects and waits for its session; registers its tool if `tool` is set.
    async fn connect(server: SocketAddr, tool: bool) -> Self {
        let url = format!("ws://{server}/");
        let (socket, _) = connect_async_with_config(url, None, true).await.unwrap();
        let mut client = Self(socket);
        assert_eq!(client.next().await["status"], "connected");
        if tool {
            let parameters = json!({"type": "object", "properties": {}});
            let tool = json!({"name": TOOL, "description": "Charge.", "parameters": parameters});
            client.send(json!({"type": "register_tools", "tools": [tool]})).await;
            assert_eq!(client.next().await["count"], 1);
        }
        client
    }

    async fn send(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        loop {
            let frame = tokio::time::timeout(WITHIN, self.0.next()).await.unwrap();
            if let Message::Text(text) = frame.unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Sends one request; returns the time to its answer, and the number of tool calls.
    async fn ask(&mut self, number: u64) -> (Duration, usize) {
        let begun = Instant::now();
        self.send(json!({"type": "text_input", "text": number.to_string()})).await;
        loop {
            let told = self.next().await;
            match told["type"].as_str().unwrap() {
                "status" => {}
                "tool_callback" => {
                    let result = json!({"level": 85});
                    let call_id = &told["call_id"];
                    let success = true;
                    self.send(json!({"type": "tool_result", "call_id": call_id, "result": result,
                        "success": success}))
                        .await;
                }
                "llm_response" => {
                    let took = begun.elapsed();
                    assert_eq!(told["content"], PIECES.concat());
                    let calls = told["tool_calls"].as_array().unwrap();
                    return (took, calls.iter().filter(|call| call["success"] == true).count());
                }
                _ => panic!("{told}"),
            }
        }
    }
}

/// Runs the clients of a load against a new server, and prints the added latency.
async fn measure(model: &Model, load: &Load, store: Store, tool: bool) {
    let server = Server::start(model.address, store);
    let mut clients = Vec::new();
    for _ in 0..load.clients {
        clients.push(Client::connect(server.address, tool).await);
    }
    let each = load.warming_requests + load.requests;
    let begin = tokio::time::Instant::now() + Duration::from_millis(100);
    let every = load.every;
    let apart = load.apart;
    let mut asking = JoinSet::new();
    for (n, mut client) in (0..).zip(clients) {
        asking.spawn(async move {
            let mut ticks = tokio::time::interval_at(begin + apart * n, every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut took = Vec::new();
            for number in 0..each {
                ticks.tick().await;
                let number = u64::from(n) * each + number;
                let (time, calls) = client.ask(number).await;
                assert_eq!(calls, usize::from(tool));
                took.push((number, time));
            }
            (took, client)
        });
    }
    let (took, clients): (Vec<_>, Vec<_>) = asking.join_all().await.into_iter().unzip();
    let spent = model.spent(u64::from(load.clients) * each, if tool { 2 } else { 1 }).await;
    let mut added = Histogram::<u64>::new(3).unwrap();
    for (number, time) in took.into_iter().flatten() {
        if number % each >= load.warming_requests {
            let time = time.saturating_sub(spent[&number]);
            added.record(u64::try_from(time.as_nanos()).unwrap()).unwrap();
        }
    }
    drop(clients);
    server.stop();
    let ms = |quantile| added.value_at_quantile(quantile) as f64 / 1e6;
    let kept = match store {
        Store::Memory => "memory",
        Store::Disk => "disk",
    };
    let tools = if tool { "one" } else { "none" };
    println!(
        "{:<17} {tools:<5} {kept:<7} {:>8} {:>9.2} {:>9.2} {:>9.2}",
        load.name,
        added.len(),
        ms(0.5),
        ms(0.99),
        ms(1.0)
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // reqwest requires a TLS provider, even without TLS.
    hearken_outbound::tls::choose_provider();
    let model = Model::start();
    println!("milliseconds that the server adds to a request");
    println!(
        "{:<17} {:<5} {:<7} {:>8} {:>9} {:>9} {:>9}",
        "", "tools", "kept", "requests", "p50", "p99", "most"
    );
    for load in &LOADS {
        for tool in [false, true] {
            for store in [Store::Memory, Store::Disk] {
                measure(&model, load, store, tool).await;
            }
        }
    }
}
