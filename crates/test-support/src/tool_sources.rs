//! Tool servers in tests: their settings, their sources, and calls. Not for the programs, which are
//! in `peers`.

use std::sync::Arc;
use std::time::Duration;

use hearken_ports::{ToolCall, ToolContent, ToolError, ToolOutput, ToolSource};
use hearken_tool_sources::{
    Builtin, BuiltinSettings, Endpoint, Environment, Servers, SourceState, Sources, ToolProtocol,
    ToolServer,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peers::PEER_WITHIN;
use crate::variable;

/// Agent of the tests.
pub const AGENT: &str = "default";

/// Environment variables that `hearken serve` passes to every program that it starts.
pub fn environment() -> Environment {
    let given = |name: &str| Some((name.to_owned(), variable(name)?));
    ["PATH", "HOME", "LANG"].into_iter().filter_map(given).collect()
}

/// Settings of a server as a child process.
pub fn child(name: &str, program: (String, Vec<String>)) -> ToolServer {
    let (command, args) = program;
    let start_timeout_ms = 60_000;
    ToolServer { name: name.into(), command, args, start_timeout_ms, ..ToolServer::default() }
}

/// Settings of a remote server.
pub fn address(name: &str, url: String) -> ToolServer {
    ToolServer { name: name.into(), url, ..ToolServer::default() }
}

/// Settings of a remote LiteMCP tool.
pub fn litemcp_address(name: &str, url: String) -> ToolServer {
    let protocol = ToolProtocol::LiteMcp;
    ToolServer { name: name.into(), protocol, url, ..ToolServer::default() }
}

/// Settings of a LiteMCP tool as a program.
pub fn litemcp_program(name: &str, command: &str, args: &[&str]) -> ToolServer {
    let args = args.iter().map(|a| (*a).to_owned()).collect();
    let protocol = ToolProtocol::LiteMcp;
    let command = command.to_owned();
    ToolServer { name: name.into(), protocol, command, args, ..ToolServer::default() }
}

/// The sources of these servers, and the token that stops them.
pub fn sources(servers: &[ToolServer]) -> (Sources, CancellationToken) {
    let process = CancellationToken::new();
    let remotes = Servers::start(servers, &environment(), &process).unwrap();
    let none = BuiltinSettings { enabled: Vec::new(), ..BuiltinSettings::default() };
    let builtin = Builtin::new(&none, &jiff::tz::TimeZone::UTC).unwrap();
    (Sources::new(builtin, remotes, Endpoint::new(Duration::from_secs(10))), process)
}

/// Waits until all of an agent's sources are in a wanted state.
pub async fn until(sources: &Sources, what: &str, wanted: impl Fn(&SourceState) -> bool) {
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
pub async fn ready(sources: &Sources) {
    until(sources, "ready", |state| *state == SourceState::Ready).await;
}

/// The state of each source.
pub fn states(sources: &Sources) -> Vec<(String, SourceState)> {
    let all = sources.inventory(AGENT).sources;
    all.into_iter().map(|s| (s.name, s.state)).collect()
}

/// One source by its name.
pub fn source(sources: &Sources, name: &str) -> Arc<dyn ToolSource> {
    sources.named(AGENT, name).unwrap_or_else(|| panic!("no {name}: {:?}", states(sources)))
}

/// Calls a tool.
pub async fn call(
    source: &Arc<dyn ToolSource>,
    tool: &str,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    let Value::Object(arguments) = arguments else { panic!("an object") };
    source.call(ToolCall { id: "1".into(), name: tool.into(), arguments }).await
}

/// The text of a tool's result.
pub fn words(output: &Result<ToolOutput, ToolError>) -> &str {
    match output.as_ref().map(|o| o.content.as_slice()) {
        Ok([ToolContent::Text(text)]) => text,
        other => panic!("not one text: {other:?}"),
    }
}

/// The result of `echo` of `server.py`.
pub async fn echo(source: &Arc<dyn ToolSource>, text: &str) -> Result<String, ToolError> {
    let answer = call(source, "echo", json!({"text": text})).await;
    answer.map(|output| words(&Ok(output)).to_owned())
}
