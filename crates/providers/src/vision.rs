//! Descriptions of pictures by an OpenAI-compatible vision model. Not for the transport of
//! pictures.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use hearken_base::Secret;
use hearken_outbound::http as wire;
use hearken_outbound::http::Refusal;
use hearken_ports::token_estimate::tokens_of_text;
use hearken_ports::usage::{LimitReached, nano};
use hearken_ports::{Described, ImageDescriber, Picture, ProviderError, ProviderErrorKind, Usage};
use hearken_proto::json::weighed;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use reqwest::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::llm::cost_tracker::Prices;
use crate::llm::fields::{self, ModelFindings};
use crate::llm::{extra, markup, usage, words};

// Beside the other clients of models: tool sources need only its port. Decision 0004.
/// Provider name in errors.
const PROVIDER: &str = "vision";
/// Maximum size of a response body, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Maximum wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of concurrent requests. Further ones wait, within their time limit.
const AT_ONCE: usize = 8;
/// Approximate number of tokens of a picture, if the model does not report its usage.
const PICTURE_TOKENS: u64 = 1_000;

/// Settings of the vision model, for pictures of devices' cameras and of tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VisionSettings {
    /// OpenAI-compatible base URL of the vision model, including its version path. Empty
    /// disables descriptions.
    pub base_url: String,
    /// Name of the vision model.
    pub model: String,
    /// API key, sent as a bearer token. Empty sends none.
    pub api_key: Secret,
    /// Maximum length of a description.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_tokens: u32,
    /// Additional request fields, as for `llm.extra`.
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub extra: toml::Table,
    /// Price of a million input tokens, in the currency of `[usage]`.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub price_per_million_input: f64,
    /// Price of a million output tokens, in the same currency as the input price.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub price_per_million_output: f64,
    /// Maximum time for a whole description. Devices wait 30 s, so use a lower value.
    #[schemars(range(min = 100, max = 600_000))]
    pub timeout_ms: u64,
    /// Upload address for pictures, sent to devices. Empty derives it from the address of
    /// this server.
    pub url: String,
}

impl Default for VisionSettings {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            model: String::new(),
            api_key: Secret::default(),
            max_tokens: 300,
            extra: toml::Table::new(),
            price_per_million_input: 0.0,
            price_per_million_output: 0.0,
            timeout_ms: 25_000,
            url: String::new(),
        }
    }
}

/// Reason that a picture has no description. The text goes to the requesting model.
#[derive(Debug, thiserror::Error)]
pub enum VisionError {
    /// The settings name no model.
    #[error(
        "cannot describe pictures: no vision model is configured; set `vision.base_url` and `vision.model`"
    )]
    NoModel,
    /// A daily limit is reached.
    #[error("today's limit is reached: {0}")]
    LimitReached(#[from] LimitReached),
    /// The model failed.
    #[error("the vision model failed")]
    Failed(#[from] ProviderError),
}

/// Client of the vision model. Clones share the connections.
#[derive(Clone)]
pub struct Vision(Option<VisionModel>);

#[derive(Clone)]
struct VisionModel {
    client: reqwest::Client,
    url: Url,
    authorization: Option<HeaderValue>,
    model: String,
    max_tokens: u32,
    extra: toml::Table,
    prices: Prices,
    known: Arc<ModelFindings>,
    timeout: Duration,
    places: Arc<Semaphore>,
}

impl Vision {
    /// Creates the client of these settings; without a model, a client that always fails.
    ///
    /// # Errors
    /// The settings cannot be used. Names the key.
    pub fn new(settings: &VisionSettings) -> anyhow::Result<Self> {
        use anyhow::Context as _;
        if settings.base_url.is_empty() {
            return Ok(Self(None));
        }
        let base = settings.base_url.trim_end_matches('/');
        let url: Url = format!("{base}/chat/completions").parse().with_context(|| {
            format!("cannot parse `vision.base_url` ({base}): use http(s)://HOST[:PORT]/v1")
        })?;
        anyhow::ensure!(
            matches!(url.scheme(), "http" | "https"),
            "`vision.base_url` must be http:// or https://"
        );
        extra::check("vision.extra", &settings.extra)?;
        let authorization = match settings.api_key.is_empty() {
            true => None,
            false => Some(wire::bearer(&settings.api_key).context("`vision.api_key`")?),
        };
        let known = ModelFindings::new(fields::OPENAI, url.as_str(), &settings.model);
        Ok(Self(Some(VisionModel {
            client: wire::client(&url, CONNECT_WITHIN)
                .context("cannot set up the HTTP client for `vision.base_url`")?,
            url,
            authorization,
            model: settings.model.clone(),
            max_tokens: settings.max_tokens,
            extra: settings.extra.clone(),
            prices: Prices {
                input: settings.price_per_million_input,
                output: settings.price_per_million_output,
            },
            known: Arc::new(known),
            timeout: Duration::from_millis(settings.timeout_ms),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        })))
    }

    /// Returns the model's answer to a question about a picture.
    ///
    /// # Errors
    /// There is no model.
    pub async fn describe(
        &self,
        question: &str,
        mime_type: &str,
        picture: &[u8],
    ) -> Result<Described, VisionError> {
        let eye = self.0.as_ref().ok_or(VisionError::NoModel)?;
        let base64 = STANDARD.encode(picture);
        let picture = Picture { mime_type: mime_type.to_owned(), base64 };
        Ok(eye.describe(question, picture).await)
    }

    /// Returns the image describer for tools' pictures; none if there is no model.
    pub fn describer(&self) -> Option<Arc<dyn ImageDescriber>> {
        Some(Arc::new(self.0.clone()?))
    }
}

impl ImageDescriber for VisionModel {
    fn describe(&self, question: &str, picture: Picture) -> BoxFuture<'static, Described> {
        let eye = self.clone();
        let by = Instant::now() + self.timeout;
        let url = format!("data:{};base64,{}", picture.mime_type, picture.base64);
        let mut body = json!({
            "model": self.model,
            "max_tokens": self.max_tokens,
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": question},
                {"type": "image_url", "image_url": {"url": url}},
            ]}],
        });
        extra::add(&mut body, &self.extra);
        let question = question.to_owned();
        Box::pin(async move { eye.answer(body, &question, by).await })
    }
}

impl VisionModel {
    async fn answer(&self, body: Value, question: &str, by: Instant) -> Described {
        match self.ask(body, by).await {
            Ok(answer) => self.read(&answer, question),
            Err(error) => error.into(),
        }
    }

    /// Reads the words and the usage of an answer.
    fn read(&self, answer: &Value, question: &str) -> Described {
        let written = words(&answer["choices"][0]["message"]["content"]);
        let usage = self.usage(&answer["usage"], question, &written);
        let words = markup::answer(&written).trim().to_owned();
        if words.is_empty() {
            let why = "the answer contains no text";
            let error = ProviderError::because(PROVIDER, ProviderErrorKind::Protocol, why);
            return Described { words: Err(error), usage };
        }
        Described { words: Ok(words), usage }
    }

    /// Returns the usage of an answer with its cost, estimated if the model reports none.
    fn usage(&self, told: &Value, question: &str, written: &str) -> Usage {
        let tells = |usage: &Usage| usage.prompt_tokens > 0 || usage.completion_tokens > 0;
        let used = usage(told).filter(tells).unwrap_or_else(|| Usage {
            prompt_tokens: PICTURE_TOKENS + tokens_of_text(question),
            completion_tokens: tokens_of_text(written),
            ..Usage::default()
        });
        Usage { cost_nano: nano(self.prices.cost(used)), ..used }
    }

    async fn ask(&self, body: Value, by: Instant) -> Result<Value, ProviderError> {
        // The semaphore is never closed: an error here is the deadline's.
        let _place = timeout_at(by, self.places.acquire()).await.map_err(late)?;
        let send = |body: Value| Box::pin(async move { self.send(&body, by).await });
        let response = fields::ask(&self.known, body, send).await?;
        let body = wire::body(PROVIDER, response, MAX_ANSWER_BYTES, by).await?;
        Ok(weighed(&body).unwrap_or_default())
    }

    async fn send(&self, body: &Value, by: Instant) -> Result<Response, Refusal> {
        let mut request = self.client.post(self.url.clone()).json(body);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let response = timeout_at(by, request.send()).await.map_err(late)?;
        let response = response.map_err(|e| wire::transport(PROVIDER, e))?;
        if !response.status().is_success() {
            return Err(wire::refusal_of(PROVIDER, response).await);
        }
        Ok(response)
    }
}

fn late<E>(_: E) -> ProviderError {
    wire::timed_out(PROVIDER, "no answer within the deadline")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> VisionModel {
        let settings = VisionSettings {
            base_url: "http://127.0.0.1:9/v1".into(),
            price_per_million_input: 2.0,
            price_per_million_output: 10.0,
            ..VisionSettings::default()
        };
        Vision::new(&settings).unwrap().0.unwrap()
    }

    #[test]
    fn usage_is_reported_or_estimated_and_has_a_cost() {
        let answer = |content: &str, usage: Value| {
            let message = json!({"content": content});
            json!({"choices": [{"message": message}], "usage": usage})
        };
        for (answer, words, read, written) in [
            (
                answer("a cat", json!({"prompt_tokens": 900, "completion_tokens": 7})),
                "a cat",
                900,
                7,
            ),
            // The question has four letters for each of 2 tokens.
            (answer("a cat", Value::Null), "a cat", 1_002, 2),
            (
                answer("a cat", json!({"prompt_tokens": 0, "completion_tokens": 0})),
                "a cat",
                1_002,
                2,
            ),
            // A model that has thought until its limit has used tokens, too.
            (answer("", json!({"prompt_tokens": 900, "completion_tokens": 300})), "", 900, 300),
        ] {
            let described = model().read(&answer, "see this");
            assert_eq!(described.words.unwrap_or_default(), words, "{answer}");
            let usage = described.usage;
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (read, written), "{answer}");
            assert_eq!(usage.cost_nano, 2_000 * read + 10_000 * written, "{answer}");
        }
    }
}
