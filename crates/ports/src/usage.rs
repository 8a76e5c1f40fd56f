//! What turns use of models, recognisers and synthesisers, and the limits of a day. Not for who counts it.

use jiff::civil::Date;
use serde::Serialize;

use crate::Usage;

/// Most tokens of one answer, and its highest cost: a million units.
const MOST_TOKENS: u64 = 100_000_000;
const MOST_NANO: u64 = 1_000_000_000_000_000;
/// Parts of one unit of the currency in which costs are counted.
pub const NANO: f64 = 1e9;

/// What was used, by one turn or by many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Turns.
    pub turns: u64,
    /// Those of them that a limit refused.
    pub refused: u64,
    /// Tokens that models read.
    pub prompt_tokens: u64,
    /// Tokens that they wrote.
    pub completion_tokens: u64,
    /// Length of what recognisers were given, in milliseconds.
    pub heard_ms: u64,
    /// Length of the speech that was sent, in milliseconds.
    pub said_ms: u64,
    /// Characters that were given to the synthesiser.
    pub said_chars: u64,
    /// Cost, in billionths of the currency.
    pub cost_nano: u64,
}

impl Used {
    /// Adds what others used.
    pub fn add(&mut self, other: &Self) {
        let Self {
            turns,
            refused,
            prompt_tokens,
            completion_tokens,
            heard_ms,
            said_ms,
            said_chars,
            cost_nano,
        } = self;
        for (sum, more) in [
            (turns, other.turns),
            (refused, other.refused),
            (prompt_tokens, other.prompt_tokens),
            (completion_tokens, other.completion_tokens),
            (heard_ms, other.heard_ms),
            (said_ms, other.said_ms),
            (said_chars, other.said_chars),
            (cost_nano, other.cost_nano),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the cost in units of the currency.
    #[allow(clippy::cast_precision_loss, reason = "nobody sees the last billionth of a fortune")]
    pub fn cost(&self) -> f64 {
        self.cost_nano as f64 / NANO
    }
}

impl From<Usage> for Used {
    /// A provider's slip is not believed: no answer has that many tokens.
    fn from(Usage { prompt_tokens, completion_tokens, cost_nano }: Usage) -> Self {
        Self {
            prompt_tokens: prompt_tokens.min(MOST_TOKENS),
            completion_tokens: completion_tokens.min(MOST_TOKENS),
            cost_nano: cost_nano.min(MOST_NANO),
            ..Self::default()
        }
    }
}

/// Returns a cost in billionths of the currency.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub fn nano(cost: f64) -> u64 {
    (cost * NANO).round() as u64
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limited {
    /// Tokens read and written.
    Tokens,
    /// Seconds of speech, heard and said.
    Seconds,
    /// Money.
    Cost,
}

impl Limited {
    fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Seconds => "seconds of speech",
            Self::Cost => "money",
        }
    }
}

/// Whose limit is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitOf {
    /// One device.
    Device,
    /// All that have a role, together.
    Role,
    /// Everybody together.
    Total,
}

impl LimitOf {
    fn name(self) -> &'static str {
        match self {
            Self::Device => "this device",
            Self::Role => "its role",
            Self::Total => "all clients",
        }
    }
}

/// A limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing is left today of the {} for {}", limit.name(), of.name())]
pub struct LimitReached {
    /// Whose.
    pub of: LimitOf,
    /// Of what.
    pub limit: Limited,
}

/// Most that may be used in a day; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DailyLimits {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Seconds of speech.
    pub seconds: Option<u64>,
    /// Cost, in units of the currency.
    pub cost: Option<f64>,
}

impl DailyLimits {
    /// Returns the first limit that is reached.
    pub fn reached(&self, used: &Used) -> Option<Limited> {
        let tokens = used.prompt_tokens.saturating_add(used.completion_tokens);
        let seconds = used.heard_ms.saturating_add(used.said_ms) / 1_000;
        if self.tokens.is_some_and(|most| tokens >= most) {
            Some(Limited::Tokens)
        } else if self.seconds.is_some_and(|most| seconds >= most) {
            Some(Limited::Seconds)
        } else {
            self.cost.is_some_and(|most| used.cost() >= most).then_some(Limited::Cost)
        }
    }
}

/// Who used something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageKey {
    /// Local day of the server.
    pub day: Date,
    /// Kind of the client: `voice`, `text`, `chat`, `museum`.
    pub kind: String,
    /// Id of the device; empty for other clients.
    pub client: String,
    /// Id of the role; empty for none.
    pub role_id: String,
}
