//! Counts the usage of one response of the model, estimated if the provider does not report it. Not
//! for the usage of a turn or a day.

use hearken_ports::token_estimate::{tokens_of_json, tokens_of_text};
use hearken_ports::usage::nano;
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError, Usage};

/// Receiver of the usage of one response.
type Counter = Box<dyn Fn(&Usage) + Send + Sync>;

/// Usage of one response. It is counted on drop, wherever the response ends.
pub struct ModelUsage {
    count: Counter,
    estimated: Usage,
    /// Price of a million tokens; the higher one of prompt and completion.
    price: f64,
    /// Usage reported by the provider.
    told: Option<Usage>,
    /// True once the model has responded: a request that was queued until its client left was never
    /// sent.
    answered: bool,
    /// True if a rule answered, and no model.
    by_rule: bool,
}

impl ModelUsage {
    /// Starts to count for this prompt to this model; `count` receives the sum at the end.
    pub fn new(
        prompt: &Prompt,
        llm: &dyn Llm,
        count: impl Fn(&Usage) + Send + Sync + 'static,
    ) -> Self {
        let texts = prompt.messages.iter().map(|message| tokens_of_text(&message.content));
        let tools = prompt.tools.iter().map(|tool| {
            tokens_of_text(&tool.name)
                .saturating_add(tokens_of_text(&tool.description))
                .saturating_add(tokens_of_json(&tool.parameters))
        });
        let prompt_tokens = texts.chain(tools).fold(0, u64::saturating_add);
        let estimated = Usage { prompt_tokens, ..Usage::default() };
        let count = Box::new(count);
        let price = llm.price_per_million();
        Self { count, estimated, price, told: None, answered: false, by_rule: false }
    }

    /// Reads a piece of the response. Returns the size of its content, in bytes.
    pub fn read(&mut self, delta: &Result<LlmDelta, ProviderError>) -> usize {
        self.answered |= delta.is_ok();
        let said = match delta {
            Ok(LlmDelta::Text(text)) => [text.as_str(), ""],
            Ok(LlmDelta::Call(call)) => [call.name.as_str(), call.arguments.as_str()],
            Ok(LlmDelta::Finished { usage, .. }) => {
                // Some providers report two zeros instead of nothing.
                let tells = |usage: &Usage| usage.prompt_tokens > 0 || usage.completion_tokens > 0;
                self.told = usage.filter(tells);
                return 0;
            }
            Ok(LlmDelta::Rule(_)) => {
                self.by_rule = true;
                return 0;
            }
            Ok(LlmDelta::Calling) | Err(_) => return 0,
        };
        self.estimated.completion_tokens +=
            said.iter().map(|said| tokens_of_text(said)).sum::<u64>();
        said.iter().map(|said| said.len()).sum()
    }
}

impl Drop for ModelUsage {
    #[allow(clippy::cast_precision_loss, reason = "no answer has 2^52 tokens")]
    fn drop(&mut self) {
        // A request that failed or was abandoned before its first word costs nothing, nor does a rule.
        if !self.answered || self.by_rule {
            return;
        }
        let Usage { prompt_tokens, completion_tokens, .. } = self.estimated;
        let cost = prompt_tokens.saturating_add(completion_tokens) as f64 / 1e6 * self.price;
        let estimated = Usage { cost_nano: nano(cost), ..self.estimated };
        (self.count)(&self.told.unwrap_or(estimated));
    }
}
