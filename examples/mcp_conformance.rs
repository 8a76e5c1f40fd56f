//! The client under test of the official conformance suite of MCP: our own host, from the settings
//! of a remote server to the calls of a turn, runs the scenario. `scripts/conformance` starts it
//! through the suite, which passes the scenario in the environment and the URL of its server as the
//! last argument. The suite does the checks.
#![allow(clippy::print_stderr, reason = "a tool for people, and the suite shows its output")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hearken::config::env::{EnvVars as _, ProcessEnv, for_tool_servers};
use hearken_dialogue::tools::{ToolSettings, Toolbox};
use hearken_ports::{OfferedTool, ToolCall, ToolRequest, ToolSource};
use hearken_tool_sources::{
    Builtin, BuiltinSettings, DEFAULT_AGENT, Endpoint, Servers, SourceState, Sources, ToolServer,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;

/// Name of the suite's server among our sources.
const SERVER: &str = "suite";
/// Timeout for the suite's server, which already listens.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for all calls.
const CALLS_WITHIN: Duration = Duration::from_secs(20);
/// The tool that receives the schema of the other one.
const SCHEMA_ECHO: &str = "json_schema_echo";

/// Data of a scenario in addition to its name.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Context {
    /// Calls to make exactly as given.
    tool_calls: Vec<Told>,
}

/// One of these calls.
#[derive(Deserialize)]
struct Told {
    name: String,
    arguments: Map<String, Value>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().next_back().unwrap_or_default();
    let context: Context = match ProcessEnv.get("MCP_CONFORMANCE_CONTEXT") {
        Some(told) => serde_json::from_str(&told)?,
        None => Context::default(),
    };
    let server = ToolServer {
        name: SERVER.into(),
        url,
        accept_defaults: true,
        timeout_ms: 15_000,
        ..ToolServer::default()
    };
    let process = CancellationToken::new();
    let remotes = Servers::start(&[server], &for_tool_servers(&ProcessEnv), &process)?;
    let none = BuiltinSettings { enabled: Vec::new(), ..BuiltinSettings::default() };
    let sources = Sources::new(
        Builtin::new(&none, &jiff::tz::TimeZone::UTC)?,
        remotes,
        Endpoint::new(CALLS_WITHIN),
    );
    let served = serve(&sources, &context).await;
    sources.stop().await;
    served
}

/// Waits for the server, and makes the given calls, or else one call of each tool.
async fn serve(sources: &Sources, context: &Context) -> Result<(), Box<dyn Error>> {
    timeout(READY_WITHIN, ready(sources))
        .await
        .map_err(|_| "the server did not become ready")??;
    let source = sources.named(DEFAULT_AGENT, SERVER).ok_or("the server is not listed")?;
    for call in &context.tool_calls {
        let call =
            ToolCall { id: "1".into(), name: call.name.clone(), arguments: call.arguments.clone() };
        let name = call.name.clone();
        let answer = source.call(call).await;
        eprintln!("{name}: {answer:?}");
    }
    if context.tool_calls.is_empty() {
        call_each(source).await;
    }
    Ok(())
}

/// Waits until the server's tools are listed; fails if the connection failed.
async fn ready(sources: &Sources) -> Result<(), String> {
    let mut ticks = interval(Duration::from_millis(5));
    loop {
        ticks.tick().await;
        match sources.inventory(DEFAULT_AGENT).sources.first().map(|s| &s.state) {
            Some(SourceState::Ready) => return Ok(()),
            Some(SourceState::Failed(reason)) => return Err(reason.clone()),
            Some(SourceState::Disabled) => return Err("it is disabled".into()),
            Some(SourceState::Connecting) | None => {}
        }
    }
}

/// Calls every tool once, as a turn of a conversation does. Some calls are meant to fail.
async fn call_each(source: Arc<dyn ToolSource>) {
    let toolbox = Toolbox::new(vec![source], Arc::new(Vec::new), ToolSettings::default());
    let offer = toolbox.offer();
    let requests: Vec<ToolRequest> = offer
        .tools()
        .iter()
        .enumerate()
        .map(|(number, tool)| ToolRequest {
            id: number.to_string(),
            name: tool.name.clone(),
            arguments: arguments(tool, offer.tools()).to_string(),
            ..ToolRequest::default()
        })
        .collect();
    let mut calls = toolbox.begin(&offer, &requests, "", Instant::now() + CALLS_WITHIN);
    while calls.next().await.is_some() {}
    for (request, result) in requests.iter().zip(calls.end(false)) {
        eprintln!("{}({}): {}", request.name, request.arguments, result.text);
    }
}

/// Arguments that fit the tool's schema.
fn arguments(tool: &OfferedTool, all: &[OfferedTool]) -> Value {
    if tool.name == SCHEMA_ECHO {
        let schema = all.iter().find(|t| t.name != SCHEMA_ECHO).map(|t| &t.parameters);
        return json!({"schema": schema});
    }
    let fields = tool.parameters["properties"].as_object();
    let fields = fields.into_iter().flatten();
    let filled = fields.filter_map(|(name, field)| Some((name.clone(), example(field)?)));
    filled.collect::<Map<_, _>>().into()
}

/// An example value for a field; `None` if its schema is a reference.
fn example(field: &Value) -> Option<Value> {
    if let Some(first) = field["enum"].get(0) {
        return Some(first.clone());
    }
    match field["type"].as_str()? {
        "number" | "integer" => Some(7.into()),
        "boolean" => Some(true.into()),
        "object" => Some(json!({})),
        "array" => Some(json!([])),
        _ => Some("text".into()),
    }
}
