//! Overhead of our host for a tool call, compared with plain rmcp on the same server in the same
//! run: `cargo bench --bench tools`. A server in this process answers at once, over text frames as
//! tool clients that dial in use them, and over Streamable HTTP. Each round calls it
//!
//! - with plain rmcp: its client, and none of our code,
//! - with a source: with state, deadline, cancellation and bounded results,
//! - in a turn: looked up by the model's name, validated with its schema, converted to the model's
//!   text,
//!
//! in sequence, so that disturbances of the machine affect all three alike. Not for the latency of
//! real servers.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for people")]

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use hdrhistogram::Histogram;
use hearken_dialogue::tools::{ToolSettings, Toolbox};
use hearken_ports::{ToolCall, ToolRequest, ToolSource};
use hearken_socket::HeldText;
use hearken_tool_sources::{
    Builtin, BuiltinSettings, DEFAULT_AGENT, Endpoint, Servers, Sources, ToolClientToken,
    ToolServer,
};
use rmcp::model::{CallToolRequestParams, ClientConfig, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const WARMING_CALLS: usize = 1_000;
const CALLS: usize = 10_000;
const TOOL: &str = "self.lamp.set";
/// The name that a model uses.
const OFFERED: &str = "self_lamp_set";
const ARGUMENTS: &str = r#"{"room":"kitchen","brightness":40}"#;
/// The only deadline of direct calls.
const WITHIN: Duration = Duration::from_secs(10);

/// Response of the server; `None` for notifications.
fn answer(asked: &str) -> Option<String> {
    let asked: Value = serde_json::from_str(asked).unwrap();
    let result = match asked["method"].as_str()? {
        "initialize" => json!({"protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "lamp", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": TOOL, "inputSchema": {
            "type": "object", "required": ["room", "brightness"], "properties": {
                "room": {"type": "string"},
                "brightness": {"type": "integer", "minimum": 0, "maximum": 100}}}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "The lamp is on."}]}),
        _ => {
            asked.get("id")?;
            let error = json!({"code": -32601, "message": "no such method"});
            return Some(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}).to_string());
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string())
}

/// The server over frames: sender of requests and receiver of responses.
fn framed_server() -> (mpsc::Sender<String>, mpsc::Receiver<String>) {
    let (ask, mut asked) = mpsc::channel::<String>(32);
    let (tell, told) = mpsc::channel(32);
    tokio::spawn(async move {
        while let Some(text) = asked.recv().await {
            if let Some(text) = answer(&text)
                && tell.send(text).await.is_err()
            {
                return;
            }
        }
    });
    (ask, told)
}

/// The server over HTTP, in a thread of its own; ends with the process.
fn http_server() -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let post = |body: String| async move {
                match answer(&body) {
                    Some(text) => HttpResponse::Ok().content_type("application/json").body(text),
                    None => HttpResponse::Accepted().finish(),
                }
            };
            let app = move || {
                let others = web::route().to(HttpResponse::MethodNotAllowed);
                App::new().route("/mcp", web::post().to(post)).default_service(others)
            };
            let server = HttpServer::new(app).workers(1).bind("127.0.0.1:0").unwrap();
            tell.send(server.addrs()[0]).unwrap();
            server.run().await.unwrap();
        });
    });
    told.recv().unwrap()
}

/// rmcp's client without our code.
struct Bare;

impl ClientHandler for Bare {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::default().with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}

/// Frames for rmcp, without the repairs of our own transport.
struct Frames(mpsc::Sender<String>, mpsc::Receiver<String>);

impl Transport<RoleClient> for Frames {
    type Error = mpsc::error::SendError<String>;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let ask = self.0.clone();
        async move { ask.send(serde_json::to_string(&item).unwrap()).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.1.recv().await.map(|text| serde_json::from_str(&text).unwrap())
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.1.close();
        Ok(())
    }
}

/// The three ways of calling one server.
struct Ways {
    transport: &'static str,
    bare: RunningService<RoleClient, Bare>,
    source: Arc<dyn ToolSource>,
    toolbox: Toolbox,
}

impl Ways {
    async fn to(
        transport: &'static str,
        bare: RunningService<RoleClient, Bare>,
        sources: &Sources,
    ) -> Self {
        let source = loop {
            let named = sources.named(DEFAULT_AGENT, "lamp");
            if let Some(source) = named.filter(|source| !source.tools().is_empty()) {
                break source;
            }
            tokio::task::yield_now().await;
        };
        let toolbox =
            Toolbox::new(vec![Arc::clone(&source)], Arc::new(Vec::new), ToolSettings::default());
        Self { transport, bare, source, toolbox }
    }

    async fn by_rmcp(&self, arguments: &Map<String, Value>) {
        let params = CallToolRequestParams::new(TOOL).with_arguments(arguments.clone());
        let called = tokio::time::timeout(WITHIN, self.bare.call_tool(params));
        assert!(!called.await.unwrap().unwrap().content.is_empty());
    }

    async fn by_source(&self, arguments: &Map<String, Value>) {
        let call = ToolCall { id: "1".into(), name: TOOL.into(), arguments: arguments.clone() };
        assert!(!self.source.call(call).await.unwrap().content.is_empty());
    }

    async fn in_turn(&self) {
        let request = ToolRequest {
            id: "1".into(),
            name: OFFERED.into(),
            arguments: ARGUMENTS.into(),
            ..ToolRequest::default()
        };
        let until = tokio::time::Instant::now() + WITHIN;
        let mut calls = self.toolbox.begin(&self.toolbox.offer(), &[request], "", until);
        while calls.next().await.is_some() {}
        assert_eq!(calls.end(false)[0].text, "The lamp is on.");
    }

    async fn measure(&self) {
        let Value::Object(arguments) = serde_json::from_str(ARGUMENTS).unwrap() else {
            unreachable!("it is an object")
        };
        let mut took: [Histogram<u64>; 3] = std::array::from_fn(|_| Histogram::new(3).unwrap());
        for number in 0..WARMING_CALLS + CALLS {
            let times = [
                timed(self.by_rmcp(&arguments)).await,
                timed(self.by_source(&arguments)).await,
                timed(self.in_turn()).await,
            ];
            if number >= WARMING_CALLS {
                for (took, time) in took.iter_mut().zip(times) {
                    took.record(u64::try_from(time.as_nanos()).unwrap()).unwrap();
                }
            }
        }
        let us = |took: &Histogram<u64>, quantile| took.value_at_quantile(quantile) as f64 / 1e3;
        let p50 = us(&took[0], 0.5);
        let p99 = us(&took[0], 0.99);
        for (way, took) in ["rmcp alone", "a source", "in a turn"].into_iter().zip(&took) {
            let own50 = us(took, 0.5);
            let own99 = us(took, 0.99);
            println!(
                "{:<7} {way:<11} {own50:>9.1} {own99:>9.1} {:>9.1} {:>9.1} {:>7.2} {:>7.2}",
                self.transport,
                own50 - p50,
                own99 - p99,
                own50 / p50,
                own99 / p99,
            );
        }
    }
}

async fn timed(call: impl Future<Output = ()>) -> Duration {
    let begun = Instant::now();
    call.await;
    begun.elapsed()
}

/// Sources with these servers only.
fn sources(servers: &[ToolServer], endpoint: &Endpoint, process: &CancellationToken) -> Sources {
    let remotes = Servers::start(servers, &BTreeMap::new(), process).unwrap();
    let none = BuiltinSettings { enabled: Vec::new(), ..BuiltinSettings::default() };
    let builtin = Builtin::new(&none, &jiff::tz::TimeZone::UTC).expect("no built-in tools");
    Sources::new(builtin, remotes, endpoint.clone())
}

/// Wraps the messages in the type that a socket queues.
fn held(mut told: mpsc::Receiver<String>) -> mpsc::Receiver<HeldText> {
    let (to, from) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(text) = told.recv().await {
            if to.send(HeldText::from(text)).await.is_err() {
                break;
            }
        }
    });
    from
}

async fn over_frames(process: &CancellationToken) -> Ways {
    let (ask, told) = framed_server();
    let bare = Bare.serve(Frames(ask, told)).await.unwrap();
    let endpoint = Endpoint::new(WITHIN);
    let (ask, told) = framed_server();
    let client = ToolClientToken { agent: DEFAULT_AGENT.into(), serial: String::new() };
    let guest = endpoint.admit(&client).unwrap();
    tokio::spawn(guest.serve(held(told), ask));
    Ways::to("frames", bare, &sources(&[], &endpoint, process)).await
}

async fn over_http(process: &CancellationToken) -> Ways {
    let url = format!("http://{}/mcp", http_server());
    let server = ToolServer { name: "lamp".into(), url: url.clone(), ..ToolServer::default() };
    let sources = sources(&[server], &Endpoint::new(WITHIN), process);
    // With keep-alive, as our client; rmcp's own client opens a connection for each call.
    let client = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build().unwrap();
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let bare = Bare.serve(transport).await.unwrap();
    Ways::to("http", bare, &sources).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // reqwest requires a TLS provider, even without TLS.
    hearken_outbound::tls::choose_provider();
    let process = CancellationToken::new();
    println!(
        "microseconds of a call, of {CALLS}; the difference from plain rmcp, and how often it"
    );
    println!(
        "{:<19} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}",
        "", "p50", "p99", "+p50", "+p99", "xp50", "xp99"
    );
    over_frames(&process).await.measure().await;
    over_http(&process).await.measure().await;
    process.cancel();
}
