//! What the gateway needs to know of a deployment. Defaults are those of its document, chapters 8
//! and 12.

use std::time::Duration;

use crate::tools::ToolSettings;

/// Instructions of the gateway's document, 14.1.
const SYSTEM_PROMPT: &str = "你是一个名为\"听语AI\"的语音助手。请遵循以下准则：

1. 回复简洁明了，适合语音播报
2. 避免使用表情符号、特殊符号（如★☆◆◇●■□等）
3. 不要使用Markdown格式（如**加粗**、*斜体*）
4. 使用自然口语化表达
5. 信息准确，如有不确定请说明

当前时间：{current_time}";

/// How text clients are served.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewaySettings {
    /// A WebSocket Ping is sent this often.
    pub ping_every: Duration,
    /// A peer that sent nothing at all for this long, not even a Pong, is gone.
    pub dead_after: Duration,
    /// A session that nobody used for this long is over.
    pub session_idle: Duration,
    /// How often sessions that are over are cleared away.
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
    pub server_tools: bool,
    /// How clients' own tools are used.
    pub client_tools: ClientToolSettings,
    /// How tools are offered and called.
    pub tools: ToolSettings,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
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
            client_tools: ClientToolSettings::default(),
            tools: ToolSettings::default(),
        }
    }
}

/// Clients' own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientToolSettings {
    /// Clients may register tools.
    pub enabled: bool,
    /// Most tools of one connection.
    pub max_count: usize,
    /// Longest wait for a result.
    pub timeout: Duration,
    /// Calls of one connection whose results are waited for at once; one more waits its turn.
    pub at_once: usize,
}

impl Default for ClientToolSettings {
    fn default() -> Self {
        Self { enabled: true, max_count: 32, timeout: Duration::from_secs(30), at_once: 10 }
    }
}
