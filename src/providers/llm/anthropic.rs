//! Anthropic's Messages API, streamed. Not for prompts or for what is done with the answer; its
//! JSON is in `messages_json`.
//!
//! Newer models refuse a temperature with status 400: it is left out once a request was answered
//! only without it.

use std::sync::Arc;

use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use hearken_actors::ports::{Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind};
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout_at;
use url::Url;

use super::answering::{Answering, pieces};
use super::clock::Clock;
use super::extra::Extra;
use super::messages_json::{self, Broken, Pieces};
use crate::providers::ProviderConfigError;
use crate::providers::http as web;
use crate::providers::settings::{LlmSettings, ms};

const PROVIDER: &str = "anthropic-llm";

/// The version of the API that is spoken.
const VERSION: &str = "2023-06-01";

/// Longest body of an answer: a hundred times what a spoken answer needs.
const MAX_ANSWER_BYTES: usize = 4 << 20;

type Events = BoxStream<'static, Result<Event, EventStreamError<reqwest::Error>>>;

/// A language model behind Anthropic's API.
pub struct AnthropicLlm {
    call: Arc<Call>,
}

/// What one request needs.
struct Call {
    client: reqwest::Client,
    url: Url,
    settings: LlmSettings,
    temperature: Extra,
}

impl AnthropicLlm {
    /// A client of the API at `base`, with or without its `/v1`; nothing is connected yet.
    ///
    /// # Errors
    /// The HTTP client cannot be set up, or the key cannot be a header.
    pub fn new(base: &Url, settings: LlmSettings) -> Result<Self, ProviderConfigError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static(VERSION),
        );
        if !settings.api_key.is_empty() {
            let allowed = "visible characters, on one line";
            let mut key = HeaderValue::from_str(settings.api_key.expose()).map_err(|_| {
                ProviderConfigError::value("llm.api_key", &settings.api_key, allowed)
            })?;
            key.set_sensitive(true);
            headers.insert(HeaderName::from_static("x-api-key"), key);
        }
        let client = web::builder(base, ms(settings.connect_timeout_ms))
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers)
            .build()
            .map_err(|e| ProviderConfigError::client("llm.base_url", e))?;
        let mut url = base.clone();
        let path = base.path().trim_end_matches('/').trim_end_matches("/v1");
        url.set_path(&format!("{path}/v1/messages"));
        let temperature = Extra::new(true);
        Ok(Self { call: Arc::new(Call { client, url, settings, temperature }) })
    }
}

impl Llm for AnthropicLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let call = Arc::clone(&self.call);
        pieces(async move { Answer::begin(&call, &prompt).await })
    }

    /// Nothing: the API keeps what it has read only where it is told so, and is paid for it.
    fn read_ahead(&self, _opening: Prompt) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// An answer being read. Dropping it closes the request.
struct Answer {
    events: Events,
    clock: Clock,
    pieces: Pieces,
}

impl Answering for Answer {
    async fn next(&mut self) -> Result<LlmDelta, ProviderError> {
        loop {
            if let Some(delta) = self.pieces.ready.pop_front() {
                self.clock.begun();
                return Ok(delta);
            }
            let (by, missing) = self.clock.next_by();
            let event = timeout_at(by, self.events.next())
                .await
                .map_err(|_| web::timed_out(PROVIDER, missing))?
                .ok_or_else(|| broken_off("the answer broke off without a stop reason"))?
                .map_err(unreadable)?;
            self.pieces.read(&event.data).map_err(failure)?;
        }
    }
}

impl Answer {
    async fn begin(call: &Call, prompt: &Prompt) -> Result<Self, ProviderError> {
        let clock = Clock::start(&call.settings);
        // A prompt that leaves its longest length open gets the settings' one.
        let max_tokens =
            if prompt.max_tokens == 0 { call.settings.max_tokens } else { prompt.max_tokens };
        let order = messages_json::order(&call.settings.model, max_tokens, prompt);
        let response = call.ask_warmly(order, prompt.temperature, &clock).await?;
        let response = web::bounded(response, MAX_ANSWER_BYTES);
        let events = response.bytes_stream().eventsource().boxed();
        Ok(Self { events, clock, pieces: Pieces::default() })
    }
}

impl Call {
    /// Orders an answer at this temperature; a model that takes none is asked without, now and
    /// from then on.
    async fn ask_warmly(
        &self,
        order: Value,
        temperature: f64,
        clock: &Clock,
    ) -> Result<Response, ProviderError> {
        if !self.temperature.is_wanted() {
            return self.ask(&order, clock).await.map_err(|(_, error)| error);
        }
        let warm = messages_json::with_temperature(order.clone(), temperature);
        let (status, error) = match self.ask(&warm, clock).await {
            Ok(response) => {
                self.temperature.is_taken();
                return Ok(response);
            }
            Err(refused) => refused,
        };
        if !self.temperature.may_be_why(status) {
            return Err(error);
        }
        let response = self.ask(&order, clock).await.map_err(|(_, error)| error)?;
        self.temperature.is_refused();
        tracing::info!("the language model takes no temperature");
        Ok(response)
    }

    async fn ask(
        &self,
        order: &Value,
        clock: &Clock,
    ) -> Result<Response, (Option<StatusCode>, ProviderError)> {
        let (by, missing) = clock.next_by();
        let request = self.client.post(self.url.clone()).json(order).send();
        let response = timeout_at(by, request)
            .await
            .map_err(|_| (None, web::timed_out(PROVIDER, missing)))?
            .map_err(|error| (None, web::transport(PROVIDER, error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err((Some(status), web::refusal(PROVIDER, response).await))
    }
}

fn broken_off(why: &'static str) -> ProviderError {
    ProviderError::because(PROVIDER, ProviderErrorKind::Unavailable, why)
}

/// What it means that the stream of events failed.
fn unreadable(error: EventStreamError<reqwest::Error>) -> ProviderError {
    match error {
        EventStreamError::Transport(_) => broken_off("the answer broke off"),
        // Its text may hold what was said.
        EventStreamError::Utf8(_) | EventStreamError::Parser(_) => {
            violated("the answer is no stream of events")
        }
    }
}

fn failure(broken: Broken) -> ProviderError {
    match broken {
        Broken::Protocol => violated("an event of the answer cannot be read"),
        Broken::Told(kind, word) => {
            let why = format!("the answer ended with an error, code {word}");
            ProviderError::because(PROVIDER, kind, why)
        }
        Broken::Declined => {
            let why = "the model declined to answer";
            ProviderError::because(PROVIDER, ProviderErrorKind::BadRequest, why)
        }
    }
}

fn violated(what: &'static str) -> ProviderError {
    ProviderError::because(PROVIDER, ProviderErrorKind::Protocol, what)
}
