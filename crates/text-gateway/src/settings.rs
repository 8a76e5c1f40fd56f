//! Settings of the gateway. Defaults are those of its document, chapters 8 and 12. Not for the
//! bounds of values.

use std::time::Duration;

use hearken_base::{Secret, ms};
use hearken_dialogue::tools::ToolSettings;
use serde::{Deserialize, Serialize};

/// Default instructions: those of the gateway's document, 14.1.
const SYSTEM_PROMPT: &str = "你是一个名为\"听语AI\"的语音助手。请遵循以下准则：

1. 回复简洁明了，适合语音播报
2. 避免使用表情符号、特殊符号（如★☆◆◇●■□等）
3. 不要使用Markdown格式（如**加粗**、*斜体*）
4. 使用自然口语化表达
5. 信息准确，如有不确定请说明

当前时间：{current_time}";

/// Section `[gateway]`: text clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextGatewaySettings {
    /// True to accept text clients.
    pub enabled: bool,
    /// Bearer token of clients, which may also be `token` in the URL; empty to accept
    /// everybody near.
    pub token: Secret,
    /// True to accept clients of every network without a token. Otherwise only those on this
    /// machine and in its private networks need none.
    pub open_to_all: bool,
    /// Maximum number of connections; a further one is closed with 1013.
    pub max_connections: usize,
    /// Interval of WebSocket pings.
    #[serde(rename = "ping_interval_ms", with = "ms")]
    pub ping_every: Duration,
    /// Time without any data, not even a Pong, after which a connection is closed.
    #[serde(rename = "ping_timeout_ms", with = "ms")]
    pub dead_after: Duration,
    /// Time without use after which a session ends.
    #[serde(rename = "session_timeout_ms", with = "ms")]
    pub session_idle: Duration,
    /// Interval at which ended sessions are removed; not a key.
    #[serde(skip)]
    pub sweep_every: Duration,
    /// Maximum number of messages that a session remembers: of both sides, and the calls and
    /// results of tools.
    pub max_messages: usize,
    /// Instructions for the model; `{current_time}` is replaced by the local date and time.
    pub system_prompt: String,
    /// Default sampling temperature, 0.0 to 1.0.
    pub temperature: f64,
    /// Id or name of the role in which all of them are answered; empty for none.
    pub role: String,
    /// Default maximum length of an answer, in tokens.
    pub max_tokens: u32,
    /// Default of whether prompts include earlier messages.
    pub enable_context: bool,
    /// True if the model may call tools of the server.
    #[serde(rename = "mcp_enabled")]
    pub server_tools: bool,
    /// True if clients may register tools.
    pub client_tools_enabled: bool,
    /// Maximum number of tools of one connection.
    pub client_tools_max_count: usize,
    /// Longest wait for the result of a client's tool.
    #[serde(rename = "client_tool_timeout_ms", with = "ms")]
    pub client_tool_timeout: Duration,
    /// Maximum number of calls of one connection that wait for a result at once; further calls
    /// wait.
    pub client_tool_result_queue_size: usize,
    /// Settings for offering and calling tools; their keys are in `[tools]`.
    #[serde(skip)]
    pub tools: ToolSettings,
}

impl Default for TextGatewaySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            token: Secret::default(),
            open_to_all: false,
            max_connections: 100,
            ping_every: Duration::from_secs(30),
            dead_after: Duration::from_secs(300),
            session_idle: Duration::from_secs(3_600),
            sweep_every: Duration::from_secs(60),
            max_messages: 10,
            system_prompt: SYSTEM_PROMPT.into(),
            temperature: 0.7,
            role: String::new(),
            max_tokens: hearken_proto::text_gateway::MAX_TOKENS,
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
