//! Section `[tools]`. Its keys belong to two crates, and serde's `flatten` would lose the line of an
//! error in the file: so they stand here together, and the actors' ones are handed on. Not for the
//! bounds of values.

use std::time::Duration;

use hearken_actors::settings::ms;
use hearken_actors::tools::{Introduction, ToolSettings};
use hearken_tool_sources::{BuiltinSettings, ToolServer};
use serde::{Deserialize, Serialize};

/// Section `[tools]`: how tools are offered to the model and called, and where they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Rounds of calls in a turn; then the model must answer.
    pub max_rounds: usize,
    /// Most tools offered to the model.
    pub max_tools: usize,
    /// Longest time for all calls of a turn together.
    #[serde(rename = "turn_total_ms", with = "ms")]
    pub turn_total: Duration,
    /// Longest wait for an answer of a device.
    #[serde(rename = "device_timeout_ms", with = "ms")]
    pub device_timeout: Duration,
    /// Asks devices for the tools meant for people too.
    pub user_tools: bool,
    /// The name by which we greet devices' MCP servers.
    pub mcp_server_name: String,
    /// The version of MCP in which we greet them.
    pub mcp_protocol_version: String,
    /// Longest result given to the model, in bytes; what is beyond is cut.
    pub max_result_bytes: usize,
    /// Silence during a call before the first filler phrase.
    #[serde(rename = "filler_after_ms", with = "ms")]
    pub filler_after: Duration,
    /// Silence after which another phrase follows.
    #[serde(rename = "filler_again_ms", with = "ms")]
    pub filler_again: Duration,
    /// Longest wait for an answer of a tool client that dialled in.
    #[serde(rename = "endpoint_timeout_ms", with = "ms")]
    pub endpoint_timeout: Duration,
    /// Serials of the tool clients' tokens that are no longer good.
    pub revoked_tokens: Vec<String>,
    /// Lets programs be added as tool servers over the API too, with the admin token.
    pub allow_commands_over_api: bool,
    /// Tools of this server itself.
    pub builtin: BuiltinSettings,
    /// Remote MCP servers and LiteMCP tools.
    pub servers: Vec<ToolServer>,
}

impl ToolsConfig {
    /// Returns the keys that the actors need.
    pub(super) fn settings(&self) -> ToolSettings {
        ToolSettings {
            max_rounds: self.max_rounds,
            max_tools: self.max_tools,
            turn_total: self.turn_total,
            device_timeout: self.device_timeout,
            user_tools: self.user_tools,
            introduction: Introduction {
                name: self.mcp_server_name.clone(),
                protocol_version: self.mcp_protocol_version.clone(),
            },
            max_result_bytes: self.max_result_bytes,
            filler_after: self.filler_after,
            filler_again: self.filler_again,
        }
    }
}

impl Default for ToolsConfig {
    fn default() -> Self {
        let t = ToolSettings::default();
        Self {
            max_rounds: t.max_rounds,
            max_tools: t.max_tools,
            turn_total: t.turn_total,
            device_timeout: t.device_timeout,
            user_tools: t.user_tools,
            mcp_server_name: t.introduction.name,
            mcp_protocol_version: t.introduction.protocol_version,
            max_result_bytes: t.max_result_bytes,
            filler_after: t.filler_after,
            filler_again: t.filler_again,
            endpoint_timeout: Duration::from_secs(10),
            revoked_tokens: Vec::new(),
            allow_commands_over_api: false,
            builtin: BuiltinSettings::default(),
            servers: Vec::new(),
        }
    }
}
