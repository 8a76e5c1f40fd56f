//! What language models cost, by who asks them: requests, failures, tokens and money, for people
//! and as metrics. Not for what providers charge, which the settings say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use hearken_actors::metrics;
use hearken_actors::ports::{Llm, LlmDelta, Prompt, ProviderError, Usage};
use serde::Serialize;
use utoipa::ToSchema;

/// What one face's requests came to since the server began.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, ToSchema)]
pub struct LlmFigures {
    /// Answers asked for; one that another model gave in the end counts once.
    pub requests: u64,
    /// Of these, those that failed, before or after their first words.
    pub failures: u64,
    /// Tokens read, as providers tell; an answer that was cut short tells none.
    pub prompt_tokens: u64,
    /// Tokens written, likewise.
    pub completion_tokens: u64,
    /// What these tokens cost, in the prices' currency.
    pub cost: f64,
}

/// The figures of all faces. Clones are the same ledger.
#[derive(Debug, Clone, Default)]
pub struct CostTracker {
    faces: Arc<Mutex<BTreeMap<&'static str, LlmFigures>>>,
}

impl CostTracker {
    /// The figures of every face that has asked, by its name.
    pub fn figures(&self) -> BTreeMap<&'static str, LlmFigures> {
        self.faces().clone()
    }

    fn faces(&self) -> MutexGuard<'_, BTreeMap<&'static str, LlmFigures>> {
        self.faces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, face: &'static str, change: impl FnOnce(&mut LlmFigures)) {
        change(self.faces().entry(face).or_default());
    }
}

/// What a million tokens cost, in any currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prices {
    /// Read.
    pub(super) input: f64,
    /// Written.
    pub(super) output: f64,
}

impl Prices {
    #[allow(clippy::cast_precision_loss, reason = "no answer has 2^52 tokens")]
    fn cost(self, usage: Usage) -> f64 {
        let input = usage.prompt_tokens as f64 * self.input;
        let output = usage.completion_tokens as f64 * self.output;
        (input + output) / 1e6
    }
}

/// One model, whose answers' tokens are counted at its prices.
pub(super) struct Priced {
    pub(super) inner: Arc<dyn Llm>,
    pub(super) prices: Prices,
    pub(super) face: &'static str,
    pub(super) costs: CostTracker,
}

impl Llm for Priced {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let (prices, face, costs) = (self.prices, self.face, self.costs.clone());
        let counted = move |delta: &Result<LlmDelta, ProviderError>| {
            let Ok(LlmDelta::Finished { usage: Some(usage), .. }) = delta else { return };
            let cost = prices.cost(*usage);
            metrics::llm_used(face, usage, cost);
            costs.note(face, |figures| {
                figures.prompt_tokens = figures.prompt_tokens.saturating_add(usage.prompt_tokens);
                figures.completion_tokens =
                    figures.completion_tokens.saturating_add(usage.completion_tokens);
                figures.cost += cost;
            });
        };
        self.inner.reply(prompt).inspect(counted).boxed()
    }

    fn read_ahead(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.read_ahead(opening)
    }
}

/// Whatever answers a face, whose requests are counted.
pub(super) struct Counted {
    pub(super) inner: Arc<dyn Llm>,
    pub(super) face: &'static str,
    pub(super) costs: CostTracker,
}

impl Llm for Counted {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let (face, costs, reply) = (self.face, self.costs.clone(), self.inner.reply(prompt));
        // Nothing is asked for before the reply is polled.
        let asked = {
            let costs = costs.clone();
            futures_util::stream::once(async move {
                costs.note(face, |figures| figures.requests += 1);
                reply
            })
        };
        let counted = move |delta: &Result<LlmDelta, ProviderError>| match delta {
            Ok(LlmDelta::Finished { .. }) => metrics::llm_ended(face, true),
            Ok(_) => {}
            Err(_) => {
                metrics::llm_ended(face, false);
                costs.note(face, |figures| figures.failures += 1);
            }
        };
        asked.flatten().inspect(counted).boxed()
    }

    fn read_ahead(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.read_ahead(opening)
    }
}
