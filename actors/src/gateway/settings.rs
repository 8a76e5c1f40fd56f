//! What the gateway needs to know of a deployment. Defaults are those of its document, chapters 8
//! and 12.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings::{Secret, ms};
use crate::tools::ToolSettings;

/// Instructions of the gateway's document, 14.1.
const SYSTEM_PROMPT: &str = "你是一个名为\"听语AI\"的语音助手。请遵循以下准则：

1. 回复简洁明了，适合语音播报
2. 避免使用表情符号、特殊符号（如★☆◆◇●■□等）
3. 不要使用Markdown格式（如**加粗**、*斜体*）
4. 使用自然口语化表达
5. 信息准确，如有不确定请说明

当前时间：{current_time}";

/// Section `[gateway]`: how text clients are served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewaySettings {
    /// Lets text clients in.
    pub enabled: bool,
    /// Bearer token of clients, which may also stand as `token` in the URL; empty lets everybody
    /// in.
    pub token: Secret,
    /// Most connections at once; one more is closed with 1013.
    pub max_connections: usize,
    /// Sends a WebSocket Ping this often.
    #[serde(rename = "ping_interval_ms", with = "ms")]
    pub ping_every: Duration,
    /// Closes a connection that sent nothing at all for this long, not even a Pong.
    #[serde(rename = "ping_timeout_ms", with = "ms")]
    pub dead_after: Duration,
    /// Ends a session that nobody used for this long.
    #[serde(rename = "session_timeout_ms", with = "ms")]
    pub session_idle: Duration,
    /// Clears ended sessions away this often; no key.
    #[serde(skip)]
    pub sweep_every: Duration,
    /// Messages that a session remembers: of both sides, and the tools' calls and results.
    pub max_messages: usize,
    /// Tells the model how to behave; `{current_time}` is the local date and time.
    pub system_prompt: String,
    /// Before a client chooses: 0.0 to 1.0.
    pub temperature: f64,
    /// Before a client chooses: longest answer, in tokens.
    pub max_tokens: u32,
    /// Before a client chooses: the model is told what was said before.
    pub enable_context: bool,
    /// The model may call tools of the server.
    #[serde(rename = "mcp_enabled")]
    pub server_tools: bool,
    /// Clients may register tools.
    pub client_tools_enabled: bool,
    /// Most tools of one connection.
    pub client_tools_max_count: usize,
    /// Longest wait for the result of a client's tool.
    #[serde(rename = "client_tool_timeout_ms", with = "ms")]
    pub client_tool_timeout: Duration,
    /// Calls of one connection whose results are waited for at once; one more waits its turn.
    pub client_tool_result_queue_size: usize,
    /// How tools are offered and called; the keys stand in `[tools]`.
    #[serde(skip)]
    pub tools: ToolSettings,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            token: Secret::default(),
            max_connections: 100,
            ping_every: Duration::from_secs(30),
            dead_after: Duration::from_secs(300),
            session_idle: Duration::from_secs(3_600),
            sweep_every: Duration::from_secs(60),
            max_messages: 10,
            system_prompt: SYSTEM_PROMPT.into(),
            temperature: 0.7,
            max_tokens: hearken_proto::gateway::MAX_TOKENS,
            enable_context: false,
            server_tools: true,
            client_tools_enabled: true,
            client_tools_max_count: 32,
            client_tool_timeout: Duration::from_secs(30),
            client_tool_result_queue_size: 10,
            tools: ToolSettings::default(),
        }
    }
}
