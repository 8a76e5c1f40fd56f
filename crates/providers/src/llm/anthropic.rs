//! Anthropic's Messages API, streamed. Not for prompts or the use of the answer; its JSON is in
//! `messages_json`.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hearken_outbound::SettingError;
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::answering::pieces;
use super::base::Base;
use super::clock::Clock;
use super::extra;
use super::fields::ModelFindings;
use super::messages_json::{self, AnswerAssembler, PROVIDER};
use crate::service_health::Probe;
use crate::settings::LlmSettings;

/// API version in requests.
const VERSION: &str = "2023-06-01";

/// Language model behind Anthropic's API. It has no prefetch: the API caches a prompt only on
/// request, at a price.
pub struct AnthropicLlm {
    base: Arc<Base>,
    settings: Arc<LlmSettings>,
}

impl AnthropicLlm {
    /// Creates a client of the API at `base`, with or without its `/v1`, without connecting yet.
    /// `known` holds the properties of its model.
    ///
    /// # Errors
    /// The HTTP client cannot be set up, or the key cannot be sent in a header.
    pub(super) fn new(
        base: &Url,
        settings: LlmSettings,
        known: Arc<ModelFindings>,
    ) -> Result<Self, SettingError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static(VERSION),
        );
        if !settings.api_key.is_empty() {
            let allowed = "visible characters, on one line";
            let mut key = HeaderValue::from_str(settings.api_key.expose())
                .map_err(|_| SettingError::value("llm.api_key", &settings.api_key, allowed))?;
            key.set_sensitive(true);
            headers.insert(HeaderName::from_static("x-api-key"), key);
        }
        let path = base.path().trim_end_matches('/').trim_end_matches("/v1");
        let path = format!("{path}/v1/messages");
        let base = Base::new(PROVIDER, base, &path, headers, &settings, known)?;
        Ok(Self { base: Arc::new(base), settings: Arc::new(settings) })
    }
}

impl Probe for AnthropicLlm {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        self.base.probe().boxed()
    }
}

impl Llm for AnthropicLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let settings = Arc::clone(&self.settings);
        // A prompt without a maximum length gets the one of the settings.
        let max_tokens =
            if prompt.max_tokens == 0 { settings.max_tokens } else { prompt.max_tokens };
        let identity = self.base.known.identity();
        let mut order = messages_json::order(identity, &settings.model, max_tokens, &prompt);
        extra::add(&mut order, &settings.extra);
        messages_json::think_only_from_the_start(&mut order);
        pieces::<AnswerAssembler>(Arc::clone(&self.base), order, &prompt, move || {
            Clock::start(&settings)
        })
    }
}
