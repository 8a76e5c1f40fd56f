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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[tools]`: offering and calling of tools, and their servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Maximum number of rounds of tool calls in a turn; then the model must answer with
    /// the results it has.
    #[schemars(range(min = 1, max = 100))]
    pub max_rounds: usize,
    /// Maximum number of tools offered to the model. OpenAI accepts 128.
    #[schemars(range(min = 1, max = 128))]
    pub max_tools: usize,
    /// Maximum time for all tool calls of a turn together.
    #[serde(rename = "turn_total_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 3_600_000))]
    pub turn_total: Duration,
    /// Maximum wait for a response to a tool call by a device. A camera takes up to 30 s.
    #[serde(rename = "device_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 600_000))]
    pub device_timeout: Duration,
    /// Also request the tools of devices that are intended for people, such as a restart.
    pub user_tools: bool,
    /// Name with which this server introduces itself to the MCP servers of devices.
    pub mcp_server_name: String,
    /// MCP version requested from devices. Firmware supports `2024-11-05`.
    #[schemars(extend("enum" = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]))]
    pub mcp_protocol_version: String,
    /// Maximum size of a tool result for the model; the rest is truncated. Larger results
    /// cost more input tokens.
    #[schemars(range(min = 256, max = 1_048_576))]
    pub max_result_bytes: usize,
    /// Duration of a tool call after which the phrase `filler` is spoken.
    #[serde(rename = "filler_after_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 100, max = 60_000))]
    pub filler_after: Duration,
    /// Further silence after which the phrase `filler_again` is spoken. The time to prepare
    /// the phrase adds to it, so use less than `4000`.
    #[serde(rename = "filler_again_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 500, max = 60_000))]
    pub filler_again: Duration,
    /// Maximum wait for the result of a tool client that is connected to
    /// `/mcp_endpoint/mcp/`.
    #[serde(rename = "endpoint_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 100, max = 600_000))]
    pub endpoint_timeout: Duration,
    /// Serials of tool client tokens to reject, in addition to those revoked at run time.
    pub revoked_tokens: Vec<String>,
    /// Allow adding programs as tool servers over the API. This lets every user with the
    /// admin token run any program on this machine.
    pub allow_commands_over_api: bool,
    /// Policy per tool: `allow` calls it immediately, `ask` asks the user first, `never`
    /// does not offer it to the model, as in `{ "files/delete" = "never", "files/*" =
    /// "ask", "device/self.camera.take_photo" = "allow" }`. Names are those of `hearken
    /// tools list`, optionally with a trailing `*`; the most specific entry wins. A tool client
    /// that connects by itself chooses its name, so an entry with that name can only be
    /// stricter; entries of all such clients are under `endpoint`, those of the clients with one
    /// token under `token:SERIAL`, and the stricter one applies. A tool without an entry is
    /// called immediately, unless it is a camera or risky (marked as destructive, for example)
    /// and the model has read untrusted content. Results of other tools are untrusted, except
    /// those of the device's own and built-in tools.
    pub policy: BTreeMap<String, ToolPolicy>,
    /// Policy for tools whose definition differs from the one first seen, until `hearken
    /// tools accept` accepts it. `allow` calls them immediately, `ask` asks the user first,
    /// `never` does not offer them.
    pub changed_definitions: ToolPolicy,
    /// Words and phrases that confirm a tool call, at most 200. The user's next words count
    /// as consent if they consist only of these, optionally with a courtesy, a device's name
    /// or the act itself ("Yes, open it."). A question mark never confirms.
    #[schemars(length(max = 200))]
    pub consent_words: Vec<String>,
    /// Built-in tools, and the external services they use.
    pub builtin: BuiltinSettings,
    /// Remote MCP servers and LiteMCP tools. Add one `[[tools.servers]]` table per server
    /// at the end of the file, with either `url` or `command`.
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
        let patterns = self.policy.clone();
        ToolPolicies { patterns, changed: self.changed_definitions, awaits_store: false }
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
