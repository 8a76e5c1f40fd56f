//! Settings of chat sessions. Defaults are those of the orchestrator's document, chapters 2, 4 and
//! 8. Not for the bounds of values.

use std::time::Duration;

use hearken_base::{Secret, days, ms};
use hearken_dialogue::tools::ToolSettings;
use serde::{Deserialize, Serialize};

/// Default instructions in the order of the document, 2.2.2: the role, the rules, the scene, the
/// tools, the workflow.
const SYSTEM_PROMPT: &str = "你是一位经验丰富的龙与地下城（D&D 5e）地下城主（DM），为玩家主持战役“{session_name}”。

核心规则：
- 骰子：一切不确定的结果都由工具掷骰决定，绝不自己编造点数；d20 加调整值不低于难度等级即成功。
- 战斗：按先攻顺序轮流行动，攻击检定不低于目标护甲等级才命中，生命值降到 0 即倒地。
- 优势与劣势：掷两次 d20，优势取高，劣势取低，二者同时出现则互相抵消。

当前场景：
{state}

可用工具：
{tools}

工作流程：先理解玩家想做什么；凡是会改变世界的事，先调用工具，再按工具的结果叙述；需要玩家自己投骰时，明确说出投什么骰；用玩家的语言，简洁生动地叙述，不要提到工具本身。

现在的时间：{current_time}";

/// Section `[chat]`: chat sessions of applications.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatSettings {
    /// True to accept applications.
    pub enabled: bool,
    /// Bearer token of applications, which may also be `token` in the URL; empty to accept
    /// everybody near.
    pub token: Secret,
    /// True to accept clients of every network without a token. Otherwise only those on this
    /// machine and in its private networks need none.
    pub open_to_all: bool,
    /// Instructions for the model; `{session_name}`, `{state}`, `{tools}` and `{current_time}` are
    /// filled in.
    pub system_prompt: String,
    /// Maximum number of rounds of calls in a turn; a further one ends it with an error.
    pub max_iterations: usize,
    /// Number of messages of a session that are read for a turn.
    #[serde(rename = "message_history_size")]
    pub history: u32,
    /// Maximum length of the prompt, in tokens; older exchanges are removed.
    pub token_budget: usize,
    /// Id or name of the role in which all of them are answered; empty for none.
    pub role: String,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Sampling temperature, 0.0 to 1.0.
    pub temperature: f64,
    /// Longest wait for a turn of the same session in progress.
    #[serde(rename = "lock_wait_ms", with = "ms")]
    pub lock_wait: Duration,
    /// Longest time for a message, whatever it has begun; not a key.
    #[serde(skip)]
    pub turn_limit: Duration,
    /// Maximum number of watchers; a further one is refused with 503.
    pub max_watchers: usize,
    /// Interval of pings to a watcher.
    #[serde(rename = "ping_interval_ms", with = "ms")]
    pub ping_every: Duration,
    /// Time without any data after which a watcher is disconnected.
    #[serde(rename = "pong_timeout_ms", with = "ms")]
    pub dead_after: Duration,
    /// Time after which deleted sessions are purged.
    #[serde(rename = "purge_after_days", with = "days")]
    pub purge_after: Duration,
    /// Time without use after which a session is deleted; zero to keep it.
    #[serde(rename = "retention_days", with = "days")]
    pub retention: Duration,
    /// Most sessions that clients at one address create without a token.
    pub max_sessions_per_address: u64,
    /// Most bytes that these sessions store.
    pub max_bytes_per_address: u64,
    /// Interval at which deleted sessions are purged; not a key.
    #[serde(skip)]
    pub purge_every: Duration,
    /// True if the model may call the server's other tools too.
    pub server_tools: bool,
    /// Settings for offering and calling tools; their keys are in `[tools]`.
    #[serde(skip)]
    pub tools: ToolSettings,
}

impl Default for ChatSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            token: Secret::default(),
            open_to_all: false,
            system_prompt: SYSTEM_PROMPT.into(),
            max_iterations: 10,
            history: 50,
            token_budget: 6_000,
            role: String::new(),
            max_tokens: 4_096,
            temperature: 0.7,
            lock_wait: Duration::from_secs(30),
            turn_limit: Duration::from_secs(600),
            max_watchers: 1_000,
            ping_every: Duration::from_secs(30),
            dead_after: Duration::from_secs(60),
            purge_after: Duration::from_secs(30 * 86_400),
            retention: Duration::from_secs(365 * 86_400),
            max_sessions_per_address: 1_000,
            max_bytes_per_address: 64 << 20,
            purge_every: Duration::from_secs(3_600),
            server_tools: true,
            tools: ToolSettings::default(),
        }
    }
}
