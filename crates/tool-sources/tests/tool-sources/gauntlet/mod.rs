//! The gauntlet: every adapter of a tool server, behind a proxy that injects each kind of fault
//! into its connections. A call ends within its time limit and never runs twice; the log and the
//! metrics report it; the next call succeeds; nothing is left behind. Not for the errors of single
//! adapters.

mod services;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use hearken_dialogue::tools::calls::EndedCall;
use hearken_dialogue::tools::{Offer, ToolSettings, Toolbox};
use hearken_ports::{ToolError, ToolRequest, ToolSource};
use hearken_test_support::fault_proxy::rows::{self, Expected, Row, Wire};
use hearken_test_support::fault_proxy::{Event, Fault, FaultProxy, Tls};
use hearken_test_support::observed::observed;
use hearken_test_support::peers::{Listening, Peers, peak_memory_bytes};
use hearken_test_support::tool_sources::{
    AGENT, address, call, child, litemcp_address, litemcp_program, ready, source, sources, states,
    until,
};
use hearken_test_support::{eventually, eventually_within, free_port};
use hearken_tool_sources::{SourceKind, SourceState, Sources, ToolProtocol, ToolServer};
use serde_json::json;

use self::services::{FILLED, Service, Speaks};

/// Time limit of a call, and of an attempt to connect.
const TIMEOUT_MS: u64 = 2_500;
/// Time limit of a call in these tests: its own, plus the delays of a busy machine.
const WITHIN: Duration = Duration::from_millis(TIMEOUT_MS + 8_000);
/// Number of concurrent faults: each has a server and programs of its own.
const AT_ONCE: usize = 6;
/// Time limit for stopping all parts of a source.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for replacing a silent connection after a call: the wait for a list of tools, the end
/// of the old connection, and the pause before the new one.
const NOTICED_WITHIN: Duration = Duration::from_secs(12);
/// Maximum memory for all faults together, with the servers in this process, in bytes.
const MOST_MEMORY: usize = 300 << 20;
/// Program that connects its standard streams to this port; it ends with the connection.
const BRIDGE: &str = "exec 3<>/dev/tcp/127.0.0.1/$0; (cat <&3; kill $$) & exec cat >&3";

/// Client of a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adapter {
    McpHttp,
    McpProgram,
    LiteMcpHttp,
    LiteMcpSocket,
    LiteMcpProgram,
}

/// Server behind an adapter.
enum Behind {
    Real(Listening),
    Ours(Service),
}

impl Behind {
    fn port(&self) -> u16 {
        match self {
            Self::Real(listening) => listening.port,
            Self::Ours(service) => service.address.port(),
        }
    }
}

impl Adapter {
    fn wire(self) -> Wire {
        match self {
            Self::McpHttp | Self::LiteMcpHttp => Wire::Http,
            Self::LiteMcpSocket => Wire::Socket,
            Self::McpProgram | Self::LiteMcpProgram => Wire::Lines,
        }
    }

    /// Starts the server. Returns none if third-party programs are not installed.
    async fn server(self) -> Option<Behind> {
        let speaks = match self {
            Self::McpHttp => {
                let peers = Peers::installed()?;
                let server = Listening::paged(&peers, Peers::pages, "10", free_port());
                server.up().await;
                return Some(Behind::Real(server));
            }
            Self::McpProgram => Speaks::McpLines,
            Self::LiteMcpHttp => Speaks::LiteMcpHttp,
            Self::LiteMcpSocket => Speaks::LiteMcpSocket,
            Self::LiteMcpProgram => Speaks::LiteMcpLines,
        };
        Some(Behind::Ours(Service::start(speaks).await))
    }

    /// Returns the adapter of a protocol over a kind of connection that this server opens, if there
    /// is one.
    fn of(protocol: ToolProtocol, kind: SourceKind) -> Option<Self> {
        match (protocol, kind) {
            (ToolProtocol::Mcp, SourceKind::Http) => Some(Self::McpHttp),
            (ToolProtocol::Mcp, SourceKind::Stdio) => Some(Self::McpProgram),
            (ToolProtocol::LiteMcp, SourceKind::Http) => Some(Self::LiteMcpHttp),
            (ToolProtocol::LiteMcp, SourceKind::WebSocket) => Some(Self::LiteMcpSocket),
            (ToolProtocol::LiteMcp, SourceKind::Stdio) => Some(Self::LiteMcpProgram),
            (ToolProtocol::Mcp, SourceKind::WebSocket)
            | (_, SourceKind::Endpoint | SourceKind::Builtin) => None,
        }
    }

    /// Returns settings of a server of this name that lead through the proxy; `secure` is `s` for
    /// TLS.
    fn settings(self, name: &str, proxy: &FaultProxy, secure: &str) -> ToolServer {
        let port = proxy.port().to_string();
        let bridge = ["-c", BRIDGE, &port];
        let at = |scheme: &str| format!("{scheme}{secure}://127.0.0.1:{port}/mcp");
        let server = match self {
            Self::McpHttp => address(name, at("http")),
            Self::McpProgram => child(name, ("bash".into(), bridge.map(str::to_owned).to_vec())),
            Self::LiteMcpHttp => litemcp_address(name, at("http")),
            Self::LiteMcpSocket => litemcp_address(name, at("ws")),
            Self::LiteMcpProgram => litemcp_program(name, "bash", &bridge),
        };
        ToolServer { timeout_ms: TIMEOUT_MS, start_timeout_ms: TIMEOUT_MS, ..server }
    }

    /// Returns the number of bytes received on a connection after which the answer to a call has
    /// started.
    fn in_the_midst(self) -> usize {
        match self {
            Self::McpHttp => 450,
            Self::McpProgram => 500,
            Self::LiteMcpHttp => 300,
            Self::LiteMcpSocket => 500,
            Self::LiteMcpProgram => 350,
        }
    }
}

/// Returns the outcome of a call as a word of the table, and the number of calls of the tool so
/// far.
fn outcome(ended: &EndedCall, key: &str) -> (Expected, u32) {
    if ended.failure.is_some() {
        return (Expected::Failed, 0);
    }
    let parts: Vec<&str> = ended.text.split(' ').collect();
    let count = parts.get(1).and_then(|count| count.parse().ok());
    match (parts.as_slice(), count) {
        ([name, _, filled], Some(count))
            if *name == key && *filled == "x".repeat(FILLED).as_str() =>
        {
            (Expected::Answered, count)
        }
        _ => (Expected::Damaged, 0),
    }
}

/// A tool as a conversation calls it.
struct Tool {
    toolbox: Toolbox,
    offer: Arc<Offer>,
}

impl Tool {
    fn of(source: Arc<dyn ToolSource>) -> Self {
        let others = Arc::new(move || vec![Arc::clone(&source)]);
        let toolbox = Toolbox::new(Vec::new(), others, ToolSettings::default());
        let offer = toolbox.offer();
        Self { toolbox, offer }
    }

    /// Calls the tool `count` with this key.
    async fn count(&self, key: &str) -> EndedCall {
        let name = self.offer.resolve_name("count").unwrap().to_owned();
        let arguments = json!({ "key": key }).to_string();
        let request = ToolRequest { id: "1".into(), name, arguments, ..ToolRequest::default() };
        let until = tokio::time::Instant::now() + 2 * WITHIN;
        let mut calls = self.toolbox.begin(&self.offer, &[request], "", until);
        calls.next().await;
        calls.end(false).swap_remove(0)
    }
}

/// Reports whether the log and the metrics contain this outcome of a call to the source of this
/// name.
fn is_told(source: &str, hurt: Expected) -> bool {
    let source = (format!("\"source\":\"{source}\""), format!("name=\"{source}\""));
    let ends = |end: &str| {
        observed().counts("hearken_tool_calls_total", &[&source.1, &format!("end=\"{end}\"")])
    };
    let failed = ends("failed") + ends("unavailable") + ends("timeout");
    let logged = |well: &str| observed().tells(&["a tool was called", &source.0, well]);
    match hurt {
        Expected::Failed => failed >= 1.0 && ends("answered") == 2.0 && logged("\"well\":false"),
        _ => failed == 0.0 && ends("answered") == 3.0 && logged("\"well\":true"),
    }
}

/// Sets a fault. Then waits until the old connections are gone, unless they are silent, and the
/// source has noticed: it has no connection, or already another one.
async fn hurt_by(fault: Fault, adapter: Adapter, proxy: &FaultProxy, all: &Sources) {
    let frozen = matches!(fault, Fault::Frozen);
    let before = all.inventory(AGENT).sources[0].connections;
    proxy.set_and_end(fault).await;
    let noticed = async || {
        let seen = &all.inventory(AGENT).sources[0];
        (seen.state != SourceState::Ready || seen.connections > before).then_some(())
    };
    if !frozen && adapter.wire() != Wire::Http {
        eventually_within(NOTICED_WITHIN, "the end of the old connection", noticed).await;
    }
}

/// Makes calls during a fault, and afterwards. Prints a row of the table; returns an error if a
/// check fails.
async fn meets(adapter: Adapter, port: u16, number: usize, row: Row) -> Result<(), String> {
    let Row { name, fault, expected } = row;
    let proxy = FaultProxy::before(&format!("http://127.0.0.1:{port}")).await;
    let server = format!("row{number}");
    let settings = adapter.settings(&server, &proxy, "");
    let (all, process) = sources(std::slice::from_ref(&settings));
    ready(&all).await;
    let tool = Tool::of(source(&all, &server));
    let key = name.replace(' ', "-");
    let count = async || {
        let begun = Instant::now();
        let ended = tool.count(&key).await;
        (outcome(&ended, &key), begun.elapsed(), ended)
    };
    let kind = all.inventory(AGENT).sources[0].kind;
    assert_eq!(Adapter::of(settings.protocol, kind), Some(adapter));
    let (before, ..) = count().await;
    let nothing_to_hit = matches!(fault, Fault::Frozen) && proxy.open() == 0;
    let is_corrupted = matches!(fault, Fault::At(_, Event::Corrupt));
    hurt_by(fault, adapter, &proxy, &all).await;
    let ((hurt, _), took, answer) = count().await;
    let was_hit = proxy.hit() > 0 || nothing_to_hit;
    hurt_by(Fault::None, adapter, &proxy, &all).await;
    if adapter.wire() != Wire::Http {
        ready(&all).await;
    }
    let ((after, calls), took_after, answer_after) = count().await;
    eprintln!(
        "| {adapter:?} | {name} | {hurt:?} | {} ms | {after:?} | {} ms",
        took.as_millis(),
        took_after.as_millis()
    );
    let state = states(&all).swap_remove(0).1;
    let told = is_told(&server, hurt);
    let stopping = Instant::now();
    process.cancel();
    all.stop().await;
    let stopped = stopping.elapsed();
    drop((tool, all));
    proxy.until_closed().await;
    // An answer on a program's standard output with a corrupted byte may still be readable.
    let is_read = adapter == Adapter::McpProgram && is_corrupted && hurt == Expected::Answered;
    let good = before == (Expected::Answered, 1)
        && was_hit
        && (is_read || expected.contains(&hurt))
        && (after, (2..=3).contains(&calls)) == (Expected::Answered, true)
        && took.max(took_after) < WITHIN
        && stopped < STOPPED_WITHIN
        && told;
    if good {
        return Ok(());
    }
    Err(format!(
        "{name}: {before:?}, hit {was_hit}, {hurt:?} in {took:?} ({:?}), then {after:?} in \
         {took_after:?} ({:?}), {state:?}, told {told}, stopped in {stopped:?}",
        answer.failure, answer_after.failure,
    ))
}

/// Injects each fault into the adapter, with a successful call before and after each.
async fn runs(adapter: Adapter) {
    let Some(behind) = adapter.server().await else { return };
    observed();
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let memory = peak_memory_bytes();
    let programs = children();
    let rows = rows::all(adapter.wire(), adapter.in_the_midst());
    let numbered = rows.into_iter().enumerate();
    let meeting = numbered.map(|(number, row)| meets(adapter, behind.port(), number, row));
    let met: Vec<_> = stream::iter(meeting).buffer_unordered(AT_ONCE).collect().await;
    let wrong: Vec<String> = met.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{adapter:?}:\n{}", wrong.join("\n"));
    let needed = peak_memory_bytes() - memory;
    eprintln!("{adapter:?}: {} KiB for all faults", needed >> 10);
    assert!(needed < MOST_MEMORY, "{needed} bytes");
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let ended = async || (alive() <= tasks).then_some(());
    eventually("the end of every task", ended).await;
    assert_eq!(children(), programs, "no program is left");
}

/// Returns the process ids of this process's children.
fn children() -> BTreeSet<u32> {
    let ours = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").unwrap();
    let ids = all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // After the name in brackets: the state, and the parent's id.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split(' ').nth(2));
        parent.is_some_and(|parent| parent == ours)
    };
    ids.filter(is_ours).collect()
}

/// Checks that a connection that falls silent while the server is up, as after a cable was pulled,
/// is replaced: one call fails, and soon there is another connection.
async fn silence_is_noticed(adapter: Adapter) {
    let behind = adapter.server().await.unwrap();
    let proxy = FaultProxy::before(&format!("http://127.0.0.1:{}", behind.port())).await;
    let (all, process) = sources(&[adapter.settings("t", &proxy, "")]);
    ready(&all).await;
    let source = source(&all, "t");
    let tool = Tool::of(Arc::clone(&source));
    let count = async || tool.count("k").await;
    assert_eq!(outcome(&count().await, "k"), (Expected::Answered, 1));
    proxy.set(Fault::Frozen);
    let begun = Instant::now();
    let late = Err(ToolError::Timeout(Duration::from_millis(TIMEOUT_MS)));
    assert_eq!(call(&source, "count", json!({"key": "k"})).await, late);
    let reconnected = async || (all.inventory(AGENT).sources[0].connections == 2).then_some(());
    eventually_within(NOTICED_WITHIN, "another connection", reconnected).await;
    eprintln!("{adapter:?}: another connection after {:?}", begun.elapsed());
    assert_eq!(outcome(&count().await, "k"), (Expected::Answered, 2));
    process.cancel();
    all.stop().await;
}

#[tokio::test]
async fn a_connection_that_is_silent_is_replaced() {
    let all = [Adapter::McpProgram, Adapter::LiteMcpSocket, Adapter::LiteMcpProgram];
    join_all(all.map(silence_is_noticed)).await;
}

/// Lets the TLS handshake fail in each way, and checks that each attempt returns an error soon.
async fn runs_tls(adapter: Adapter) {
    let proxy = FaultProxy::before("http://127.0.0.1:9").await;
    for how in Tls::ALL {
        proxy.set(Fault::Tls(how));
        let begun = Instant::now();
        let (all, _process) = sources(&[adapter.settings("t", &proxy, "s")]);
        until(&all, "failed", |state| matches!(state, SourceState::Failed(_))).await;
        let answer = call(&source(&all, "t"), "count", json!({"key": "k"})).await;
        let took = begun.elapsed();
        eprintln!("| {adapter:?} | TLS {how:?} | {answer:?} | {} ms", took.as_millis());
        assert!(matches!(answer, Err(ToolError::Unavailable(_))), "{how:?}: {answer:?}");
        assert!(took < Duration::from_millis(2 * TIMEOUT_MS) && proxy.hit() > 0, "{how:?}");
        all.stop().await;
    }
}

macro_rules! gauntlet {
    ($($name:ident: $adapter:ident;)+) => {$(
        #[tokio::test]
        async fn $name() {
            runs(Adapter::$adapter).await;
        }
    )+};
}

gauntlet! {
    mcp_over_http: McpHttp;
    mcp_as_a_program: McpProgram;
    litemcp_over_http: LiteMcpHttp;
    litemcp_over_a_socket: LiteMcpSocket;
    litemcp_as_a_program: LiteMcpProgram;
}

#[tokio::test]
async fn tls() {
    for adapter in [Adapter::McpHttp, Adapter::LiteMcpHttp, Adapter::LiteMcpSocket] {
        runs_tls(adapter).await;
    }
}
