//! Usage of models, recognisers and synthesisers by turns, and daily limits. Not for accounting.

use jiff::civil::Date;
use serde::Serialize;

use crate::Usage;

/// Maximum plausible tokens and cost of one answer; the cost is a million units.
const MOST_TOKENS: u64 = 100_000_000;
const MOST_NANO: u64 = 1_000_000_000_000_000;
/// Number of parts of one unit of the currency: costs are counted in billionths.
pub const NANO: f64 = 1e9;

/// Usage, by one turn or by many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Number of turns.
    pub turns: u64,
    /// Number of turns that a limit refused.
    pub refused: u64,
    /// Tokens that models read.
    pub prompt_tokens: u64,
    /// Tokens that models wrote.
    pub completion_tokens: u64,
    /// Length of the audio sent to recognisers, in milliseconds.
    pub heard_ms: u64,
    /// Length of the speech sent to clients, in milliseconds.
    pub said_ms: u64,
    /// Number of characters sent to the synthesiser.
    pub said_chars: u64,
    /// Cost, in billionths of the currency.
    pub cost_nano: u64,
}

impl Used {
    /// Adds other usage.
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
    #[allow(clippy::cast_precision_loss, reason = "the last billionths of large sums are noise")]
    pub fn cost(&self) -> f64 {
        self.cost_nano as f64 / NANO
    }
}

impl From<Usage> for Used {
    /// Clamps implausible counts of providers.
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

/// Limited quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limited {
    /// Tokens read and written.
    Tokens,
    /// Seconds of speech, heard and spoken.
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

/// Scope of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitOf {
    /// One device.
    Device,
    /// All clients with a role together.
    Role,
    /// All clients together.
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

/// Error: a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing is left today of the {} for {}", limit.name(), of.name())]
pub struct LimitReached {
    /// Scope of the limit.
    pub of: LimitOf,
    /// Limited quantity.
    pub limit: Limited,
}

/// Maximum usage per day; `None` for no limit.
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

/// Key of a usage row: its day and its user.
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
