//! Text clients of the LLM gateway: its table of the configuration, to the actors' settings. Not
//! for what the values may be, which is checked with the rest.

use std::time::Duration;

use hearken_actors::gateway::{ClientToolSettings, GatewaySettings};
use hearken_base::Secret;
use serde::{Deserialize, Serialize};

use super::{Config, ms};

/// Text clients of the LLM gateway, `ws://HOST:9400/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// Text clients are let in.
    pub enabled: bool,
    /// What they show as a bearer token, or as `token` in the URL; empty lets everybody in.
    pub token: Secret,
    /// Connections at once; one more is closed with 1013.
    pub max_connections: usize,
    /// How often a connection is pinged.
    pub ping_interval_ms: u64,
    /// A connection that sends nothing at all for this long is closed.
    pub ping_timeout_ms: u64,
    /// A session that nobody used for this long is over.
    pub session_timeout_ms: u64,
    /// Messages that a session remembers.
    pub max_messages: usize,
    /// How the model is to behave.
    pub system_prompt: String,
    /// 0.0 to 1.0, until a client chooses.
    pub temperature: f64,
    /// Longest answer in tokens, until a client chooses.
    pub max_tokens: u32,
    /// The model is told what was said before, until a client chooses.
    pub enable_context: bool,
    /// The model may call the server's tools.
    pub mcp_enabled: bool,
    /// Clients may register tools.
    pub client_tools_enabled: bool,
    /// Most tools of one connection.
    pub client_tools_max_count: usize,
    /// Longest wait for the result of a client's tool.
    pub client_tool_timeout_ms: u64,
    /// Calls of one connection whose results are waited for at once.
    pub client_tool_result_queue_size: usize,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        let g = GatewaySettings::default();
        Self {
            enabled: true,
            token: Secret::default(),
            max_connections: 100,
            ping_interval_ms: ms(g.ping_every),
            ping_timeout_ms: ms(g.dead_after),
            session_timeout_ms: ms(g.session_idle),
            max_messages: g.max_messages,
            system_prompt: g.system_prompt,
            temperature: g.temperature,
            max_tokens: g.max_tokens,
            enable_context: g.enable_context,
            mcp_enabled: g.server_tools,
            client_tools_enabled: g.client_tools.enabled,
            client_tools_max_count: g.client_tools.max_count,
            client_tool_timeout_ms: ms(g.client_tools.timeout),
            client_tool_result_queue_size: g.client_tools.at_once,
        }
    }
}

impl Config {
    /// What the text clients' actors need of the configuration.
    pub fn text_clients(&self) -> GatewaySettings {
        let g = &self.gateway;
        GatewaySettings {
            ping_every: Duration::from_millis(g.ping_interval_ms),
            dead_after: Duration::from_millis(g.ping_timeout_ms),
            session_idle: Duration::from_millis(g.session_timeout_ms),
            max_messages: g.max_messages,
            system_prompt: g.system_prompt.clone(),
            temperature: g.temperature,
            max_tokens: g.max_tokens,
            enable_context: g.enable_context,
            server_tools: g.mcp_enabled,
            client_tools: ClientToolSettings {
                enabled: g.client_tools_enabled,
                max_count: g.client_tools_max_count,
                timeout: Duration::from_millis(g.client_tool_timeout_ms),
                at_once: g.client_tool_result_queue_size,
            },
            tools: self.tools.settings(),
            ..GatewaySettings::default()
        }
    }
}
