//! OpenAI's chat API, streamed, at any compatible server. Not for prompts or for the use of the
//! answer; its JSON is in `chat_json`.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hearken_outbound::{SettingError, http as web};
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError};
use http::header::{AUTHORIZATION, HeaderMap};
use tokio::time::Instant;
use url::Url;

use super::answering::pieces;
use super::base::{Base, Deadline};
use super::chat_json::{self, AnswerAssembler, PROVIDER};
use super::clock::Clock;
use super::extra;
use super::fields::ModelFindings;
use crate::service_health::Probe;
use crate::settings::{LlmSettings, ms};

/// Language model at an OpenAI-compatible base URL.
pub struct OpenAiLlm {
    base: Arc<Base>,
    settings: Arc<LlmSettings>,
}

impl OpenAiLlm {
    /// Creates a client of `base` without connecting yet. `known` holds the properties of its
    /// model.
    ///
    /// # Errors
    /// The HTTP client cannot be set up, or the key cannot be sent in a header.
    pub(super) fn new(
        base: &Url,
        settings: LlmSettings,
        known: Arc<ModelFindings>,
    ) -> Result<Self, SettingError> {
        let mut headers = HeaderMap::new();
        if !settings.api_key.is_empty() {
            let allowed = "visible characters, on one line";
            let key = web::bearer(&settings.api_key)
                .map_err(|_| SettingError::value("llm.api_key", &settings.api_key, allowed))?;
            headers.insert(AUTHORIZATION, key);
        }
        let path = format!("{}/chat/completions", base.path().trim_end_matches('/'));
        let base = Base::new(PROVIDER, base, &path, headers, &settings, known)?;
        Ok(Self { base: Arc::new(base), settings: Arc::new(settings) })
    }
}

impl Probe for OpenAiLlm {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        self.base.probe().boxed()
    }
}

impl Llm for OpenAiLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let settings = Arc::clone(&self.settings);
        // A prompt without a maximum length gets the one of the settings.
        let max_tokens =
            if prompt.max_tokens == 0 { settings.max_tokens } else { prompt.max_tokens };
        let identity = self.base.known.identity();
        let mut order = chat_json::order(identity, &settings.model, max_tokens, &prompt);
        if settings.usage {
            order = chat_json::with_usage(order);
        }
        extra::add(&mut order, &settings.extra);
        pieces::<AnswerAssembler>(Arc::clone(&self.base), order, &prompt, move || {
            Clock::start(&settings)
        })
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        let base = Arc::clone(&self.base);
        let settings = Arc::clone(&self.settings);
        Box::pin(async move {
            if settings.prefetch
                && let Err(error) = prefetch(&base, &settings, &opening).await
            {
                tracing::debug!(%error, "cannot prefetch the prompt");
            }
        })
    }
}

/// Prefetches a prompt: requests an answer of one token, at low priority.
async fn prefetch(
    base: &Base,
    settings: &LlmSettings,
    opening: &Prompt,
) -> Result<(), ProviderError> {
    let mut order = chat_json::order(base.known.identity(), &settings.model, 1, opening);
    extra::add(&mut order, &settings.extra);
    order["service_tier"] = "flex".into();
    let by = Instant::now() + ms(settings.timeout_ms);
    let late = Deadline { by, missing: "no answer within its deadline" };
    let order = base.known.without_refused(order);
    let mut events = Box::pin(base.send(&order, late)).await.map_err(|refusal| refusal.error)?;
    while events.next(late).await?.is_some() {}
    Ok(())
}
