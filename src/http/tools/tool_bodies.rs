//! Bodies of requests and responses about tool sources, also for the API description. Not for the routes.

use std::collections::BTreeMap;

use hearken_dialogue::tools::{ToolPolicies, ToolPolicy};
use hearken_ports::{ToolContent, ToolOutput};
use hearken_tool_sources::{
    DeviceToolsView, Inventory, Origin, ServerView, SessionToolsView, SourceKind, SourceOfDevice,
    SourceReport, SourceState, SourceUsage, ToolReport,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::words;

/// Tool sources of one agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct SourcesShown {
    /// Sources: the built-in one first, then remote servers including disabled ones, then tool
    /// clients of this instance and of others.
    sources: Vec<SourceShown>,
}

impl SourcesShown {
    /// Renders these sources with the policies of their tools.
    pub(crate) fn new(Inventory { sources }: Inventory, policies: &ToolPolicies) -> Self {
        let shown = |source| SourceShown::new(source, policies);
        Self { sources: sources.into_iter().map(shown).collect() }
    }
}

/// State of a tool source.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SourceState)]
enum SourceStateShown {
    Connecting,
    Ready,
    Failed,
    Disabled,
}

/// Tool source.
#[derive(Serialize, ToSchema)]
struct SourceShown {
    /// Name of the source.
    name: String,
    /// Name of a tool client that it cannot choose, for `off`, `tools_off` and `tools.policy`: `token:` and the serial of its token. Omitted for other sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<String>,
    /// Connection type.
    #[schema(value_type = words::SourceKind)]
    kind: SourceKind,
    /// Origin of the source.
    #[schema(value_type = words::Origin)]
    origin: Origin,
    /// Ids of the devices that may use it; empty for all devices.
    devices: Vec<String>,
    /// State of the source.
    state: SourceStateShown,
    /// Reason of the failure; omitted in other states.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// Version of MCP or LiteMCP; empty while the source is not connected.
    protocol: String,
    /// Number of connections so far.
    connections: u64,
    /// Usage of the source; null if it is not counted by source.
    #[schema(required)]
    usage: Option<UsageOfSource>,
    /// Reason that only a part of its tools is offered to models; omitted if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    warning: Option<String>,
    /// Tools, as of the last successful listing.
    tools: Vec<ToolShown>,
}

impl SourceShown {
    fn new(report: SourceReport, policies: &ToolPolicies) -> Self {
        let group = report.group();
        let key = report.key.as_deref();
        let tool = |tool: ToolReport| {
            let policy = policies.shown(group, key, &report.name, &tool.name);
            ToolShown::new(tool, policy)
        };
        let tools = report.tools.into_iter().map(tool).collect();
        let (state, reason) = match report.state {
            SourceState::Connecting => (SourceStateShown::Connecting, None),
            SourceState::Ready => (SourceStateShown::Ready, None),
            SourceState::Failed(reason) => (SourceStateShown::Failed, Some(reason)),
            SourceState::Disabled => (SourceStateShown::Disabled, None),
        };
        Self {
            name: report.name,
            key: report.key,
            kind: report.kind,
            origin: report.origin,
            devices: report.devices,
            state,
            reason,
            protocol: report.protocol,
            connections: report.connections,
            usage: report.usage.map(UsageOfSource::from),
            warning: report.warning,
            tools,
        }
    }
}

/// Usage of a source since it became known to this instance.
#[derive(Serialize, ToSchema)]
struct UsageOfSource {
    /// Number of calls that ended or were cancelled.
    calls: u64,
    /// Size of tool names and arguments, in bytes.
    bytes_sent: u64,
    /// Size of results, in bytes.
    bytes_received: u64,
    /// Duration of all calls together, in seconds.
    seconds: f64,
}

impl From<SourceUsage> for UsageOfSource {
    fn from(usage: SourceUsage) -> Self {
        let SourceUsage { calls, bytes_sent, bytes_received, seconds } = usage;
        Self { calls, bytes_sent, bytes_received, seconds }
    }
}

/// Tool.
#[derive(Serialize, ToSchema)]
struct ToolShown {
    /// Name of the tool at the source.
    name: String,
    /// Description for the model.
    description: String,
    /// JSON Schema of its arguments.
    #[schema(value_type = Object)]
    parameters: Value,
    /// True if, according to its source, a call may delete or overwrite something.
    destructive: bool,
    /// True if its definition differs from the one that was first seen or last accepted.
    changed: bool,
    /// Hash of its definition, in hexadecimal; to accept exactly this definition.
    definition_hash: String,
    /// Policy from `tools.policy` for calls of the tool by a model; null if no pattern matches.
    #[schema(required, value_type = Option<words::ToolPolicy>)]
    policy: Option<ToolPolicy>,
}

impl ToolShown {
    fn new(report: ToolReport, policy: Option<ToolPolicy>) -> Self {
        let ToolReport { name, description, parameters, destructive, changed, definition_hash } =
            report;
        Self { name, description, parameters, destructive, changed, definition_hash, policy }
    }
}

/// All tool servers.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServersShown {
    /// Tool servers.
    servers: Vec<ServerShown>,
}

impl ServersShown {
    pub(crate) fn new(servers: Vec<ServerView>, policies: &ToolPolicies) -> Self {
        let shown = |server| ServerShown::new(server, policies);
        Self { servers: servers.into_iter().map(shown).collect() }
    }
}

/// Tool server.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerShown {
    #[serde(flatten)]
    source: SourceShown,
    /// False if the server is disabled.
    enabled: bool,
    /// Keys of its `[[tools.servers]]`, with possible secrets masked.
    #[schema(value_type = Object)]
    settings: Value,
}

impl ServerShown {
    pub(crate) fn new(view: ServerView, policies: &ToolPolicies) -> Self {
        let ServerView { source, enabled, settings } = view;
        Self { source: SourceShown::new(source, policies), enabled, settings }
    }
}

/// Settings of a new tool server: the keys of a `[[tools.servers]]`, except `bearer_env` and `bearer_file`.
#[derive(ToSchema)]
#[allow(
    dead_code,
    reason = "describes the body for OpenAPI; it is read as the keys of the section"
)]
pub(crate) struct ToolServerSettings {
    /// Name, unique among the servers; also the name of the source.
    name: String,
    /// False to store the settings without connecting.
    enabled: Option<bool>,
    /// `mcp` if left out.
    protocol: Option<words::ToolProtocol>,
    /// Ids of the devices whose conversations may use its tools; empty for all.
    devices: Option<Vec<String>>,
    /// URL of the server; omitted if `command` is set.
    url: Option<String>,
    /// Program to start as a tool server; omitted if `url` is set.
    command: Option<String>,
    /// Arguments of the program.
    args: Option<Vec<String>>,
    /// Environment variables of the program.
    env: Option<BTreeMap<String, String>>,
    /// Headers of every request.
    headers: Option<BTreeMap<String, String>>,
    /// Bearer token.
    bearer: Option<String>,
    /// Maximum wait for the result of a call, 100 to 600,000 ms.
    timeout_ms: Option<u64>,
    /// Maximum wait for the list of tools after a start, 100 to 600,000 ms.
    start_timeout_ms: Option<u64>,
    /// True to fill in forms that the server requests during a call with the defaults it proposes.
    accept_defaults: Option<bool>,
    /// True to trust the server with its own tools: its results do not cause confirmation questions
    /// for them. Tools that unlock, pay and the like still require confirmation.
    trust: Option<bool>,
}

/// Tool sources of a device.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeviceToolsShown {
    /// Device id.
    device_id: String,
    /// Agent whose tool clients the device uses.
    agent: String,
    /// Names and keys of the disabled sources.
    off: Vec<String>,
    /// All sources.
    sources: Vec<SourceOfDeviceShown>,
}

impl From<DeviceToolsView> for DeviceToolsShown {
    fn from(view: DeviceToolsView) -> Self {
        let DeviceToolsView { device_id, agent, off, sources } = view;
        let sources = sources.into_iter().map(SourceOfDeviceShown::from).collect();
        Self { device_id, agent, off, sources }
    }
}

/// Tool sources of a running session; `off` is that of its device until it is set for the session.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionToolsShown {
    /// Session id.
    session_id: String,
    #[serde(flatten)]
    tools: DeviceToolsShown,
}

impl From<SessionToolsView> for SessionToolsShown {
    fn from(SessionToolsView { session_id, tools }: SessionToolsView) -> Self {
        Self { session_id, tools: tools.into() }
    }
}

/// Tool source and its use by one device.
#[derive(Serialize, ToSchema)]
struct SourceOfDeviceShown {
    /// Name of the source.
    name: String,
    /// Name of a tool client that it cannot choose: `token:` and the serial of its token. Omitted for other sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<String>,
    /// Connection type.
    #[schema(value_type = words::SourceKind)]
    kind: SourceKind,
    /// True if conversations of the device may use its tools.
    on: bool,
}

impl From<SourceOfDevice> for SourceOfDeviceShown {
    fn from(SourceOfDevice { name, key, kind, on }: SourceOfDevice) -> Self {
        Self { name, key, kind, on }
    }
}

/// Result of a tool.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolAnswer {
    /// Parts of the result.
    content: Vec<PartShown>,
    /// True if the tool reports a failure.
    failed: bool,
}

/// Part of a tool's result.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schema(as = ToolAnswerPart)]
enum PartShown {
    Text { text: String },
    Image { base64: String, mime_type: String },
}

impl From<ToolOutput> for ToolAnswer {
    fn from(output: ToolOutput) -> Self {
        let part = |part| match part {
            ToolContent::Text(text) => PartShown::Text { text },
            ToolContent::Image { mime_type, base64 } => PartShown::Image { base64, mime_type },
        };
        Self { content: output.content.into_iter().map(part).collect(), failed: output.failed }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hearken_tool_sources::ToolServer;
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;

    #[test]
    fn a_source_is_shown_as_it_is_reported() {
        let tool = ToolReport {
            name: "light".into(),
            description: "Switches it.".into(),
            parameters: json!({"type": "object"}),
            destructive: false,
            changed: true,
            definition_hash: "0a".into(),
        };
        let patterns = [("home/*".to_owned(), ToolPolicy::Ask)].into();
        let policies = ToolPolicies { patterns, ..ToolPolicies::default() };
        for (state, key) in [
            (SourceState::Connecting, None),
            (SourceState::Ready, Some("token:0123456789ab".to_owned())),
            (SourceState::Failed("gone".into()), None),
            (SourceState::Disabled, None),
        ] {
            let report = SourceReport {
                name: "home".into(),
                key,
                kind: SourceKind::WebSocket,
                origin: Origin::Api,
                devices: vec!["a".into()],
                state,
                protocol: "1.0.0".into(),
                connections: 2,
                usage: Some(SourceUsage::default()),
                warning: Some("part".into()),
                tools: vec![tool.clone()],
            };
            let mut reported = json!(report);
            reported["tools"][0]["policy"] = json!("ask");
            assert_eq!(json!(SourceShown::new(report, &policies)), reported);
        }
    }

    #[test]
    fn the_settings_of_a_server_are_described_whole() {
        let described = json!(ToolServerSettings::schema());
        let described = described["properties"].as_object().unwrap().keys().cloned();
        // Refused over the API.
        let own = ["bearer_env", "bearer_file"].map(str::to_owned);
        let described: BTreeSet<String> = described.chain(own).collect();
        let read = json!(ToolServer::default());
        let read: BTreeSet<String> = read.as_object().unwrap().keys().cloned().collect();
        assert_eq!(described, read);
    }
}
