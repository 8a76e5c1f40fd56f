//! The programs of others that the tests talk to, and how they are started. Not for assertions.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hearken::config::env::{EnvVars as _, ProcessEnv, for_children};
use hearken_actors::ports::{ToolCall, ToolContent, ToolError, ToolOutput, ToolSource};
use hearken_tool_sources::{
    Builtin, BuiltinSettings, Endpoint, Environment, Servers, SourceState, Sources, ToolServer,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The most memory that this process has had so far, in bytes; tests run in a process each.
pub(crate) fn peak_memory_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// The agent of the tests.
pub(crate) const AGENT: &str = "default";
/// Longest wait for a peer: interpreters start slowly on a busy machine.
const PEER_WITHIN: Duration = Duration::from_secs(90);

/// Where the peers are installed.
pub(crate) struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// None, with the reason printed, where they are not installed.
    pub(crate) fn installed() -> Option<Self> {
        let cache = ProcessEnv.get("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(ProcessEnv.get("HOME")?).join(".cache")));
        let folder = cache.unwrap_or_default().join("hearken/peers");
        if folder.join(".state").exists() {
            return Some(Self { folder });
        }
        eprintln!("skipped: no peers in {}, run scripts/peers", folder.display());
        None
    }

    /// As [`Peers::installed`], where the conformance suite is there too.
    pub(crate) fn with_conformance() -> Option<Self> {
        Self::with("@modelcontextprotocol/conformance")
    }

    /// As [`Peers::installed`], where this package of Node is there too.
    pub(crate) fn with(package: &str) -> Option<Self> {
        let peers = Self::installed()?;
        if peers.packages().join("node_modules").join(package).exists() {
            return Some(peers);
        }
        eprintln!("skipped: no {package} in {}, run scripts/peers", peers.folder.display());
        None
    }

    /// The folder that has Node's packages in its `node_modules`.
    pub(crate) fn packages(&self) -> PathBuf {
        self.folder.join("node")
    }

    /// The Node among the packages, newer than the machine's.
    pub(crate) fn node(&self) -> PathBuf {
        self.packages().join("node_modules/node/bin/node")
    }

    /// A program of the Python packages.
    pub(crate) fn python(&self, program: &str) -> String {
        self.folder.join("python/bin").join(program).to_str().unwrap().to_owned()
    }

    /// A program of those that check us.
    pub(crate) fn checker(&self, program: &str) -> PathBuf {
        self.folder.join("checks/bin").join(program)
    }

    /// `server.py` with these arguments.
    pub(crate) fn pages(&self, arguments: &[&str]) -> (String, Vec<String>) {
        (self.python("python"), script("server.py", arguments))
    }

    /// `legacy.py` with these arguments.
    pub(crate) fn legacy(&self, arguments: &[&str]) -> (String, Vec<String>) {
        let python = self.folder.join("old-python/bin/python");
        (python.to_str().unwrap().to_owned(), script("legacy.py", arguments))
    }

    /// The reference server of the protocol's authors, over `stdio` or `streamableHttp`.
    pub(crate) fn everything(&self, transport: &str) -> (String, Vec<String>) {
        let script = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let script = self.folder.join(script).to_str().unwrap().to_owned();
        ("node".into(), vec![script, transport.into()])
    }
}

/// A script of this folder with these arguments; Python leaves nothing behind beside it.
fn script(name: &str, arguments: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tools/peers").join(name);
    let mut all = vec!["-B".to_owned(), script.to_str().unwrap().to_owned()];
    all.extend(arguments.iter().map(|a| (*a).to_owned()));
    all
}

/// A peer that listens on a port of its own; killed when dropped.
pub(crate) struct Listening {
    pub(crate) port: u16,
    child: Child,
}

impl Listening {
    /// Starts the program on this port, told as its last argument and as `PORT`.
    pub(crate) fn start((program, arguments): (String, Vec<String>), port: u16) -> Self {
        let child = Command::new(program)
            .args(arguments)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { port, child }
    }

    /// Waits until it listens, so that nobody is put off by a slow start.
    pub(crate) async fn up(&self) {
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        let waiting = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                ticks.tick().await;
            }
        };
        tokio::time::timeout(PEER_WITHIN, waiting).await.expect("the peer listens");
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may be dead already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What `serve` gives every child.
pub(crate) fn environment() -> Environment {
    for_children(&ProcessEnv)
}

/// A server's settings: a child.
pub(crate) fn child(name: &str, (command, args): (String, Vec<String>)) -> ToolServer {
    let start_timeout_ms = 60_000;
    ToolServer { name: name.into(), command, args, start_timeout_ms, ..ToolServer::default() }
}

/// A server's settings: an address.
pub(crate) fn address(name: &str, url: String) -> ToolServer {
    ToolServer { name: name.into(), url, ..ToolServer::default() }
}

/// The sources of these servers, and what ends them.
pub(crate) fn sources(servers: &[ToolServer]) -> (Sources, CancellationToken) {
    let process = CancellationToken::new();
    let remotes = Servers::start(servers, &environment(), &process).unwrap();
    let none = BuiltinSettings { enabled: Vec::new(), ..BuiltinSettings::default() };
    let builtin = Builtin::new(&none, &jiff::tz::TimeZone::UTC).unwrap();
    (Sources::new(builtin, remotes, Endpoint::new(Duration::from_secs(10))), process)
}

/// Waits until all of an agent's sources are as wanted.
pub(crate) async fn until(sources: &Sources, what: &str, wanted: impl Fn(&SourceState) -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let waiting = async {
        while !sources.inventory(AGENT).sources.iter().all(|s| wanted(&s.state)) {
            ticks.tick().await;
        }
    };
    if tokio::time::timeout(PEER_WITHIN, waiting).await.is_err() {
        panic!("never {what}: {:#?}", states(sources));
    }
}

/// Waits until all of an agent's sources are ready.
pub(crate) async fn ready(sources: &Sources) {
    until(sources, "ready", |state| *state == SourceState::Ready).await;
}

/// Where each source stands.
pub(crate) fn states(sources: &Sources) -> Vec<(String, SourceState)> {
    let all = sources.inventory(AGENT).sources;
    all.into_iter().map(|s| (s.name, s.state)).collect()
}

/// One source by its name.
pub(crate) fn source(sources: &Sources, name: &str) -> Arc<dyn ToolSource> {
    sources.named(AGENT, name).unwrap_or_else(|| panic!("no {name}: {:?}", states(sources)))
}

/// Calls a tool.
pub(crate) async fn call(
    source: &Arc<dyn ToolSource>,
    tool: &str,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    let Value::Object(arguments) = arguments else { panic!("an object") };
    source.call(ToolCall { id: "1".into(), name: tool.into(), arguments }).await
}

/// The words of a tool's answer.
pub(crate) fn words(output: &Result<ToolOutput, ToolError>) -> &str {
    match output.as_ref().map(|o| o.content.as_slice()) {
        Ok([ToolContent::Text(text)]) => text,
        other => panic!("not one text: {other:?}"),
    }
}

/// What `echo` of `server.py` answers.
pub(crate) async fn echo(source: &Arc<dyn ToolSource>, text: &str) -> Result<String, ToolError> {
    let answer = call(source, "echo", json!({"text": text})).await;
    answer.map(|output| words(&Ok(output)).to_owned())
}
