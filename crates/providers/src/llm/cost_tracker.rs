//! Usage and cost of language models by frontend: requests, failures, tokens and cost, for the API
//! and as metrics. Not for the prices, which the settings contain.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use hearken_ports::usage::nano;
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError, ServiceHealth, Usage};
use serde::Serialize;
use utoipa::ToSchema;

use super::model_metrics;

/// Name of the frontend of devices.
pub const DEVICE_FRONTEND: &str = "device";

/// Totals of one frontend's requests since the start of the server.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, ToSchema)]
pub struct LlmFigures {
    /// Number of requested answers. One that a fallback model gave counts once.
    pub requests: u64,
    /// Number of requests that failed, before or after their first words.
    pub failures: u64,
    /// Prompt tokens, as reported by providers. A cancelled answer reports none.
    pub prompt_tokens: u64,
    /// Completion tokens, as reported by providers. A cancelled answer reports none.
    pub completion_tokens: u64,
    /// Cost of these tokens, in the currency of the prices.
    pub cost: f64,
}

/// Totals of all frontends. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct CostTracker {
    frontends: Arc<Mutex<BTreeMap<&'static str, LlmFigures>>>,
}

impl CostTracker {
    /// Returns the totals of every frontend that has sent a request, by its name.
    pub fn figures(&self) -> BTreeMap<&'static str, LlmFigures> {
        self.frontends().clone()
    }

    fn frontends(&self) -> MutexGuard<'_, BTreeMap<&'static str, LlmFigures>> {
        self.frontends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, frontend: &'static str, change: impl FnOnce(&mut LlmFigures)) {
        change(self.frontends().entry(frontend).or_default());
    }
}

/// Price of a million tokens, in any currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prices {
    /// Price of prompt tokens.
    pub(crate) input: f64,
    /// Price of completion tokens.
    pub(crate) output: f64,
}

impl Prices {
    /// Returns the cost of these tokens, in the currency of the prices.
    #[allow(clippy::cast_precision_loss, reason = "no answer has 2^52 tokens")]
    pub(crate) fn cost(self, usage: Usage) -> f64 {
        let input = usage.prompt_tokens as f64 * self.input;
        let output = usage.completion_tokens as f64 * self.output;
        (input + output) / 1e6
    }
}

/// Language model whose answers' tokens are counted at its prices.
pub(super) struct PricedLlm {
    pub(super) inner: Arc<dyn Llm>,
    pub(super) prices: Prices,
    pub(super) frontend: &'static str,
    pub(super) costs: CostTracker,
}

impl Llm for PricedLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let prices = self.prices;
        let frontend = self.frontend;
        let costs = self.costs.clone();
        let counted = move |mut delta: Result<LlmDelta, ProviderError>| {
            let Ok(LlmDelta::Finished { usage: Some(usage), .. }) = &mut delta else {
                return delta;
            };
            let cost = prices.cost(*usage);
            usage.cost_nano = nano(cost);
            model_metrics::used(frontend, usage, cost);
            costs.note(frontend, |figures| {
                figures.prompt_tokens = figures.prompt_tokens.saturating_add(usage.prompt_tokens);
                figures.completion_tokens =
                    figures.completion_tokens.saturating_add(usage.completion_tokens);
                figures.cost += cost;
            });
            delta
        };
        self.inner.reply(prompt).map(counted).boxed()
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.prefetch(opening)
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }

    fn price_per_million(&self) -> f64 {
        self.prices.input.max(self.prices.output)
    }
}

/// Language model whose requests are counted for one frontend.
pub(super) struct CountingLlm {
    pub(super) inner: Arc<dyn Llm>,
    pub(super) frontend: &'static str,
    pub(super) costs: CostTracker,
}

impl Llm for CountingLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let frontend = self.frontend;
        let costs = self.costs.clone();
        let reply = self.inner.reply(prompt);
        // The request starts when the reply is polled.
        let asked = {
            let costs = costs.clone();
            futures_util::stream::once(async move {
                costs.note(frontend, |figures| figures.requests += 1);
                reply
            })
        };
        let counted = move |delta: &Result<LlmDelta, ProviderError>| match delta {
            Ok(LlmDelta::Finished { .. }) => model_metrics::ended(frontend, true),
            Ok(_) => {}
            Err(_) => {
                model_metrics::ended(frontend, false);
                costs.note(frontend, |figures| figures.failures += 1);
            }
        };
        asked.flatten().inspect(counted).boxed()
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.prefetch(opening)
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }

    fn price_per_million(&self) -> f64 {
        self.inner.price_per_million()
    }
}
