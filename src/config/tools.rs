//! How tools are offered and called, and where they are: its table of the configuration, to and from the actors'
//! settings. Not for what the values may be, which is checked with the rest.

use std::time::Duration;

use hearken_actors::tools::{Introduction, ToolSettings};
use hearken_tool_sources::{BuiltinSettings, ToolServer};
use serde::{Deserialize, Serialize};

use super::ms;

/// How tools are offered to the model and called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Rounds of calls in a turn; then the model must answer.
    pub max_rounds: usize,
    /// Most tools offered to the model.
    pub max_tools: usize,
    /// All calls of a turn end within this time.
    pub turn_total_ms: u64,
    /// Longest wait for an answer of a device.
    pub device_timeout_ms: u64,
    /// Devices are asked for the tools meant for people too.
    pub user_tools: bool,
    /// The name by which we greet devices' MCP servers.
    pub mcp_server_name: String,
    /// The version of MCP in which we greet them.
    pub mcp_protocol_version: String,
    /// Longest result given to the model; what is beyond is cut.
    pub max_result_bytes: usize,
    /// A tool that takes longer is bridged by a phrase.
    pub filler_after_ms: u64,
    /// Silence after which another phrase follows.
    pub filler_again_ms: u64,
    /// Longest wait for an answer of a tool client that dialled in.
    pub endpoint_timeout_ms: u64,
    /// Serials of the tool clients' tokens that are no longer good.
    pub revoked_tokens: Vec<String>,
    /// Programs may be added as tool servers over the API too, with the admin token.
    pub allow_commands_over_api: bool,
    /// Tools of this server itself.
    pub builtin: BuiltinSettings,
    /// Remote MCP servers and LiteMCP tools.
    pub servers: Vec<ToolServer>,
}

impl ToolsConfig {
    pub(super) fn settings(&self) -> ToolSettings {
        ToolSettings {
            max_rounds: self.max_rounds,
            max_tools: self.max_tools,
            turn_total: Duration::from_millis(self.turn_total_ms),
            device_timeout: Duration::from_millis(self.device_timeout_ms),
            user_tools: self.user_tools,
            introduction: Introduction {
                name: self.mcp_server_name.clone(),
                protocol_version: self.mcp_protocol_version.clone(),
            },
            max_result_bytes: self.max_result_bytes,
            filler_after: Duration::from_millis(self.filler_after_ms),
            filler_again: Duration::from_millis(self.filler_again_ms),
        }
    }
}

impl Default for ToolsConfig {
    fn default() -> Self {
        let t = ToolSettings::default();
        Self {
            max_rounds: t.max_rounds,
            max_tools: t.max_tools,
            turn_total_ms: ms(t.turn_total),
            device_timeout_ms: ms(t.device_timeout),
            user_tools: t.user_tools,
            mcp_server_name: t.introduction.name,
            mcp_protocol_version: t.introduction.protocol_version,
            max_result_bytes: t.max_result_bytes,
            filler_after_ms: ms(t.filler_after),
            filler_again_ms: ms(t.filler_again),
            endpoint_timeout_ms: 10_000,
            revoked_tokens: Vec::new(),
            allow_commands_over_api: false,
            builtin: BuiltinSettings::default(),
            servers: Vec::new(),
        }
    }
}
