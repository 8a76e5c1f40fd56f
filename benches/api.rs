//! Latency of each request of an application: `cargo bench --bench api`. Runs the whole server in
//! this process, with a language model that answers at once, on a SQLite file and, if
//! `HEARKEN_TEST_POSTGRES` names a server (`eval "$(scripts/services start)"`), on PostgreSQL in
//! the same run. Each time is measured from the request to the end of its response. Clients, stub,
//! server and database share the machine. Not for the latency of models.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for people")]

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use futures_util::future::join_all;
use hdrhistogram::Histogram;
use hearken::app;
use hearken::config::Config;
use hearken::config::env::{EnvVars as _, ProcessEnv};
use hearken_base::Secret;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio_util::sync::CancellationToken;

/// A URL without a listener.
const NOBODY: &str = "ws://127.0.0.1:9";
/// Timeout of a request.
const WITHIN: Duration = Duration::from_secs(30);
/// Number of measured requests of each kind, and of warm-up requests before them.
const REQUESTS: usize = 400;
const WARMING: usize = 40;
/// Number of concurrent clients in the second table.
const AT_ONCE: usize = 16;

/// A complete streamed answer of a model.
const ANSWER: &str = concat!(
    r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"stub","choices":[{"index":0,"delta":{"content":"It is fine."},"finish_reason":null}]}"#,
    "\n\n",
    r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"stub","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}"#,
    "\n\ndata: [DONE]\n\n"
);

/// The language model, in a thread of its own; ends with the process.
fn model() -> SocketAddr {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let answer =
                || async { HttpResponse::Ok().content_type("text/event-stream").body(ANSWER) };
            let server = HttpServer::new(move || {
                App::new().route("/v1/chat/completions", web::post().to(answer))
            });
            let server = server.workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
            tell.send(server.addrs()[0]).unwrap();
            server.run().await.unwrap();
        });
    });
    told.recv().unwrap()
}

/// A server on this store, in a thread of its own.
struct Server {
    url: String,
    process: CancellationToken,
    thread: std::thread::JoinHandle<()>,
}

impl Server {
    fn start(model: SocketAddr, store: &str, data_dir: &std::path::Path) -> Self {
        let mut config = Config::default();
        config.server.host = "127.0.0.1".into();
        config.server.port = 0;
        config.server.data_dir = data_dir.to_owned();
        config.embedded.enabled = false;
        config.tools.builtin.enabled.clear();
        config.asr.url = NOBODY.into();
        config.tts.url = NOBODY.into();
        config.llm.base_url = format!("http://{model}/v1");
        config.store.url = Secret::new(store);
        config.http.requests_per_minute = 0;
        config.museum.requests_per_minute = 0;
        config.museum.answers_for = Duration::ZERO;
        let process = CancellationToken::new();
        let token = process.clone();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let running = app::start(&config, Vec::new(), token).unwrap();
                tell.send(running.address).unwrap();
                running.serve().await.unwrap();
            });
        });
        Self { url: format!("http://{}", told.recv().unwrap()), process, thread }
    }

    fn stop(self) {
        self.process.cancel();
        self.thread.join().unwrap();
    }
}

/// A client with a session of each kind.
struct Client {
    http: reqwest::Client,
    url: String,
    session: String,
    museum: String,
}

/// A request: name of the row, method, path and body.
type Request = (&'static str, Method, &'static str, Option<fn(usize) -> Value>);

fn message(n: usize) -> Value {
    json!({"message": format!("and then, number {n}?")})
}

const REQUESTED: [Request; 9] = [
    ("POST /api/sessions", Method::POST, "/api/sessions", Some(|_| new_session())),
    ("GET  /api/sessions", Method::GET, "/api/sessions?user_id=bench", None),
    ("GET  .../{id}", Method::GET, "/api/sessions/{id}", None),
    ("POST .../snapshots", Method::POST, "/api/sessions/{id}/snapshots", Some(|_| json!({}))),
    ("POST .../chat", Method::POST, "/api/sessions/{id}/chat", Some(message)),
    ("GET  .../messages", Method::GET, "/api/sessions/{id}/messages", None),
    ("POST session/heartbeat", Method::POST, "/api/session/heartbeat", Some(|_| json!({}))),
    ("POST agent/parse", Method::POST, "/api/agent/parse", Some(parse)),
    ("GET  /healthz", Method::GET, "/healthz", None),
];

fn new_session() -> Value {
    json!({"name": "bench", "creator_id": "bench"})
}

fn parse(n: usize) -> Value {
    json!({"user_input": format!("what is number {n}?"), "scene_type": "public"})
}

impl Client {
    async fn new(url: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(WITHIN).build().unwrap();
        let mut client =
            Self { http, url: url.into(), session: String::new(), museum: String::new() };
        let made = client.ask(Method::POST, "/api/sessions", Some(new_session())).await;
        client.session = made["session_id"].as_str().unwrap().into();
        let register = json!({"client_metadata": {"client_type": "bench"}, "functions": []});
        let made = client.ask(Method::POST, "/api/session/register", Some(register)).await;
        client.museum = made["session_id"].as_str().unwrap().into();
        client
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}{}", self.url, path.replace("{id}", &self.session));
        let mut request = self.http.request(method, &url);
        if !self.museum.is_empty() {
            request = request.header("session-id", &self.museum);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let body = answer.text().await.unwrap();
        assert!(status.is_success(), "{url}: {status} {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The latencies of this many such requests in sequence.
    async fn times(
        &self,
        method: &Method,
        path: &str,
        body: Option<fn(usize) -> Value>,
        requests: usize,
    ) -> Vec<Duration> {
        let mut times = Vec::with_capacity(requests);
        for n in 0..WARMING + requests {
            let body = body.map(|body| body(n));
            let begun = Instant::now();
            self.ask(method.clone(), path, body).await;
            if n >= WARMING {
                times.push(begun.elapsed());
            }
        }
        times
    }
}

/// p50 and p99 in milliseconds.
fn figures(times: &[Duration]) -> (f64, f64) {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    for time in times {
        histogram.record(u64::try_from(time.as_micros()).unwrap()).unwrap();
    }
    let ms = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
    (ms(0.5), ms(0.99))
}

/// All rows on this store: one client alone, then many concurrently.
async fn measured(url: &str) -> Vec<[(f64, f64); 2]> {
    let clients = join_all((0..AT_ONCE).map(|_| Client::new(url))).await;
    let mut rows = Vec::new();
    for (_, method, path, body) in &REQUESTED {
        let alone = clients[0].times(method, path, *body, REQUESTS).await;
        let each = REQUESTS / AT_ONCE;
        let asking = clients.iter().map(|client| client.times(method, path, *body, each));
        let all = join_all(asking).await;
        rows.push([figures(&alone), figures(&all.concat())]);
    }
    rows
}

/// A separate database on PostgreSQL, if there is one.
async fn postgres() -> Option<(String, String)> {
    let server = ProcessEnv.get("HEARKEN_TEST_POSTGRES")?;
    let name = format!("hearken_bench_{}", uuid::Uuid::new_v4().simple());
    execute(&server, &format!("CREATE DATABASE {name}")).await;
    let mut url = url::Url::parse(&server).unwrap();
    url.set_path(&name);
    Some((url.into(), format!("DROP DATABASE {name} WITH (FORCE)")))
}

async fn execute(server: &str, sql: &str) {
    let mut connection = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
}

fn main() {
    hearken_outbound::tls::choose_provider();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let model = model();
    // On the disk of the build, as the temporary folder of a machine may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut tables = Vec::new();
    let server = Server::start(model, "", folder.path());
    tables.push(("SQLite", runtime.block_on(measured(&server.url))));
    server.stop();
    match runtime.block_on(postgres()) {
        Some((url, drop)) => {
            let server = Server::start(model, &url, folder.path());
            tables.push(("PostgreSQL", runtime.block_on(measured(&server.url))));
            server.stop();
            let at = ProcessEnv.get("HEARKEN_TEST_POSTGRES").unwrap();
            runtime.block_on(execute(&at, &drop));
        }
        None => println!("no PostgreSQL: eval \"$(scripts/services start)\" first"),
    }
    println!(
        "milliseconds, p50 / p99 of {REQUESTS} requests; one client alone, then {AT_ONCE} concurrent ones"
    );
    for (row, (name, ..)) in REQUESTED.iter().enumerate() {
        print!("{name:24}");
        for (store, rows) in &tables {
            let [alone, all] = rows[row];
            print!(
                " | {store:10} {:6.2} / {:6.2}  {:6.1} / {:6.1}",
                alone.0, alone.1, all.0, all.1
            );
        }
        println!();
    }
}
