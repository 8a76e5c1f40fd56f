//! Settings of the gateway. Defaults are those of its document, chapters 8 and 12. Not for the
//! bounds of values.

use std::time::Duration;

use hearken_base::{Secret, ms};
use hearken_dialogue::tools::ToolSettings;
use schemars::JsonSchema;
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextGatewaySettings {
    /// Accept text clients.
    pub enabled: bool,
    /// Token that clients send as `Authorization: Bearer TOKEN` or `?token=TOKEN`, at least
    /// 16 characters long. Empty admits all clients on this machine and in its private
    /// networks (RFC 1918, link-local and unique local addresses), but no forwarded
    /// requests.
    pub token: Secret,
    /// Admit clients from all networks and through proxies without a token, if `token` is
    /// empty. The service is then open to every client that reaches the port.
    pub open_to_all: bool,
    /// Maximum number of concurrent connections; further ones are closed with code 1013.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_connections: usize,
    /// Interval of pings on a connection.
    #[serde(rename = "ping_interval_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 3_600_000))]
    pub ping_every: Duration,
    /// Time without any data from the client, not even a pong, after which a connection is
    /// closed. Must not be less than `ping_interval_ms`.
    #[serde(rename = "ping_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 86_400_000))]
    pub dead_after: Duration,
    /// Time without use after which a session ends.
    #[serde(rename = "session_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 2_592_000_000_u64))]
    pub session_idle: Duration,
    /// Interval at which ended sessions are removed; not a key.
    #[serde(skip)]
    pub sweep_every: Duration,
    /// Maximum number of messages that a session remembers, counting those of both sides,
    /// tool calls and tool results.
    #[schemars(range(min = 2, max = 1_000))]
    pub max_messages: usize,
    /// System prompt. `{current_time}` is replaced by the local date and time.
    pub system_prompt: String,
    /// Sampling temperature, unless a client requests another.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub temperature: f64,
    /// Id or name of the role in which all text clients are answered (see `docs/roles.md`);
    /// empty for none. Instructions, limits and memory that a client requests take
    /// precedence. If no such role exists, the clients have none of the server's tools.
    pub role: String,
    /// Maximum length of an answer, unless a client requests another.
    #[schemars(range(min = 1, max = 2_048))]
    pub max_tokens: u32,
    /// Include earlier messages of the session in the prompt, unless a client requests
    /// otherwise. `false` treats each question independently.
    pub enable_context: bool,
    /// Allow the model to call the server's tools.
    #[serde(rename = "mcp_enabled")]
    pub server_tools: bool,
    /// Allow clients to register tools.
    pub client_tools_enabled: bool,
    /// Maximum number of tools that one connection can register.
    #[schemars(range(max = 128))]
    pub client_tools_max_count: usize,
    /// Maximum wait for the result of a client's tool.
    #[serde(rename = "client_tool_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 100, max = 600_000))]
    pub client_tool_timeout: Duration,
    /// Maximum number of calls of one connection that are waiting for a result at the same
    /// time. Further calls are queued.
    #[schemars(range(min = 1, max = 1_000))]
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
