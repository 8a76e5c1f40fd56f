//! Section `[tools]`. Its keys belong to two crates, and serde's `flatten` would lose the line of
//! an error in the file. For that reason they are defined here, and those of the dialogue are passed
//! on. Not for the bounds of values.

use std::collections::BTreeMap;
use std::time::Duration;

use hearken_base::ms;
use hearken_dialogue::Phrases;
use hearken_dialogue::tools::{
    ConsentSettings, Introduction, ToolPolicies, ToolPolicy, ToolSettings,
};
use hearken_tool_sources::{BuiltinSettings, ToolServer};
use serde::{Deserialize, Serialize};

/// Section `[tools]`: offering and calling of tools, and their servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Maximum number of rounds of calls in a turn; then the model must answer.
    pub max_rounds: usize,
    /// Maximum number of tools offered to the model.
    pub max_tools: usize,
    /// Longest time for all calls of a turn together.
    #[serde(rename = "turn_total_ms", with = "ms")]
    pub turn_total: Duration,
    /// Longest wait for an answer of a device.
    #[serde(rename = "device_timeout_ms", with = "ms")]
    pub device_timeout: Duration,
    /// True to request devices' tools meant for people too.
    pub user_tools: bool,
    /// Client name for devices' MCP servers.
    pub mcp_server_name: String,
    /// Requested version of MCP for devices.
    pub mcp_protocol_version: String,
    /// Longest result for the model, in bytes; the rest is cut.
    pub max_result_bytes: usize,
    /// Silence during a tool call before the first filler phrase.
    #[serde(rename = "filler_after_ms", with = "ms")]
    pub filler_after: Duration,
    /// Silence before a further filler phrase.
    #[serde(rename = "filler_again_ms", with = "ms")]
    pub filler_again: Duration,
    /// Longest wait for an answer of a connected tool client.
    #[serde(rename = "endpoint_timeout_ms", with = "ms")]
    pub endpoint_timeout: Duration,
    /// Serials of revoked tokens of tool clients.
    pub revoked_tokens: Vec<String>,
    /// True to allow adding programs as tool servers over the API, with the admin token.
    pub allow_commands_over_api: bool,
    /// Policies by `SOURCE/TOOL`, or by the beginning of it followed by `*`.
    pub policy: BTreeMap<String, ToolPolicy>,
    /// Policy of tools whose definition has changed and was not accepted.
    pub changed_definitions: ToolPolicy,
    /// Words and phrases of the person that agree to a call.
    pub consent_words: Vec<String>,
    /// Built-in tools.
    pub builtin: BuiltinSettings,
    /// Remote MCP servers and LiteMCP tools.
    pub servers: Vec<ToolServer>,
}

impl ToolsConfig {
    /// Returns the settings of the dialogue, which asks the person in these phrases.
    pub(super) fn settings(&self, phrases: &Phrases) -> ToolSettings {
        // The keys are handed on one by one: serde's `flatten` forgets lines and unknown keys. Decision 0043.
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
            policies: self.policies().into(),
            consent: ConsentSettings {
                camera: phrases.ask_camera.clone(),
                tool: phrases.ask_tool.clone(),
                words: self.consent_words.clone(),
            },
        }
    }

    /// Returns the policies of tools.
    pub fn policies(&self) -> ToolPolicies {
        ToolPolicies { patterns: self.policy.clone(), changed: self.changed_definitions }
    }
}

impl Default for ToolsConfig {
    fn default() -> Self {
        let t = ToolSettings::default();
        let policies = ToolPolicies::default();
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
            policy: policies.patterns,
            changed_definitions: policies.changed,
            consent_words: t.consent.words,
            builtin: BuiltinSettings::default(),
            servers: Vec::new(),
        }
    }
}
