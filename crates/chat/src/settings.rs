//! Settings of chat sessions. Defaults are those of the orchestrator's document, chapters 2, 4 and
//! 8. Not for the bounds of values.

use std::time::Duration;

use hearken_base::{Secret, days, ms};
use hearken_dialogue::tools::ToolSettings;
use schemars::JsonSchema;
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChatSettings {
    /// Accept applications.
    pub enabled: bool,
    /// Token that applications send as `Authorization: Bearer TOKEN` or `?token=TOKEN`, at
    /// least 16 characters long. Empty admits all clients on this machine and in its
    /// private networks (RFC 1918, link-local and unique local addresses), but no forwarded
    /// requests.
    pub token: Secret,
    /// Admit clients from all networks and through proxies without a token, if `token` is
    /// empty. The service is then open to every client that reaches the port.
    pub open_to_all: bool,
    /// System prompt. `{session_name}`, `{state}`, `{tools}` and `{current_time}` are
    /// replaced. `{state}` is marked as data, has at most 8,000 characters, and counts as an
    /// untrusted result for tools of other sources than the state server.
    pub system_prompt: String,
    /// Maximum number of rounds of tool calls in a turn; a further round ends it with
    /// `MAX_ITERATIONS_EXCEEDED`.
    #[schemars(range(min = 1, max = 100))]
    pub max_iterations: usize,
    /// Number of messages of the session that are read for a turn. `token_budget` may
    /// reduce them further.
    #[serde(rename = "message_history_size")]
    #[schemars(range(min = 1, max = 1_000))]
    pub history: u32,
    /// Maximum length of the prompt, counted with the tokeniser of OpenAI's newer models.
    /// Older exchanges are omitted from a longer one. Together with `max_tokens`, it should
    /// fit the model: a model that refuses a prompt is asked again without earlier messages.
    #[schemars(range(min = 100, max = 10_000_000))]
    pub token_budget: usize,
    /// Id or name of the role in which all chat sessions are answered (see
    /// `docs/roles.md`); empty for none. Its instructions replace `system_prompt`. If no
    /// such role exists, the sessions have none of the server's tools.
    pub role: String,
    /// Maximum length of an answer.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: u32,
    /// Sampling temperature.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub temperature: f64,
    /// Maximum wait for another turn of the same session that is in progress.
    #[serde(rename = "lock_wait_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 600_000))]
    pub lock_wait: Duration,
    /// Longest time for a message, whatever it has begun; not a key.
    #[serde(skip)]
    pub turn_limit: Duration,
    /// Maximum number of concurrent watchers of sessions (`/api/sessions/ID/ws`); further
    /// ones get 503.
    #[schemars(range(max = 1_000_000))]
    pub max_watchers: usize,
    /// Interval of pings to a watcher.
    #[serde(rename = "ping_interval_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 3_600_000))]
    pub ping_every: Duration,
    /// Time without any data from a watcher after which it is disconnected. Must not be
    /// less than `ping_interval_ms`.
    #[serde(rename = "pong_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 86_400_000))]
    pub dead_after: Duration,
    /// Time after which deleted sessions are removed from the database. Until then, they
    /// can be restored.
    #[serde(rename = "purge_after_days", with = "days")]
    #[schemars(with = "u64", range(min = 1, max = 36_500))]
    pub purge_after: Duration,
    /// Time without use after which a session is deleted, as with `DELETE`. `0` never
    /// deletes sessions.
    #[serde(rename = "retention_days", with = "days")]
    #[schemars(with = "u64", range(max = 36_500))]
    pub retention: Duration,
    /// Maximum number of sessions of the clients at one address that send no token. All
    /// clients on this machine count as one address.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_sessions_per_address: u64,
    /// Maximum size of the messages and snapshots of all sessions of one address, for
    /// clients that send no token.
    #[schemars(range(min = 1_048_576, max = 1_125_899_906_842_624_u64))]
    pub max_bytes_per_address: u64,
    /// Interval at which deleted sessions are purged; not a key.
    #[serde(skip)]
    pub purge_every: Duration,
    /// Allow the model to call the server's other tools, in addition to those of the state
    /// server.
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
