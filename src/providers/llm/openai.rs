//! The OpenAI chat API, streamed, through async-openai, at any compatible base. Not for prompts
//! or for what is done with the answer.
//!
//! - async-openai would repeat failed requests by itself; here it makes one attempt, since when to
//!   repeat is decided in [`super::super::retry`].
//! - Compatible bases leave out or add fields, so its answer types are replaced by tolerant ones.
//! - async-openai reads the body into an unbounded channel, so the body itself is bounded here.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::StatusCode;
use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use async_openai::types::stream::StreamResponse;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use hearken_actors::ports::{Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind, Usage};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;
use url::Url;

use super::answering::{Answering, pieces};
use super::chat_json::{self, Pieces};
use super::clock::Clock;
use super::extra::Extra;
use crate::providers::ProviderConfigError;
use crate::providers::http;
use crate::providers::settings::{LlmSettings, ms};

const PROVIDER: &str = "openai-llm";

/// Longest body of an answer: a hundred times what a spoken answer needs.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Longest wait for what an answer cost once it is complete. It comes right behind the end; a base
/// that was asked for it, tells nothing and keeps the connection open delays the end by this.
const USAGE_WAIT: Duration = Duration::from_millis(250);

/// A language model behind an OpenAI-compatible base.
pub struct OpenAiLlm {
    call: Arc<Call>,
}

/// What one request needs.
struct Call {
    client: Client<OpenAIConfig>,
    settings: LlmSettings,
    /// `stream_options`, which some bases refuse.
    usage: Extra,
}

impl OpenAiLlm {
    /// A client of the base `base`; nothing is connected yet.
    ///
    /// # Errors
    /// The HTTP client cannot be set up, or the key cannot be a header.
    pub fn new(base: &Url, settings: LlmSettings) -> Result<Self, ProviderConfigError> {
        let client = http::client(base, ms(settings.connect_timeout_ms))
            .map_err(|e| ProviderConfigError::client("llm.base_url", e))?;
        // Set explicitly: left alone, async-openai takes all four from its own environment names.
        let config = OpenAIConfig::new()
            .with_api_base(base.as_str().trim_end_matches('/'))
            .with_api_key(settings.api_key.expose())
            .with_org_id("")
            .with_project_id("");
        let client = Client::with_config(config).with_http_service(OneAttempt { client });
        let usage = Extra::new(settings.usage);
        Ok(Self { call: Arc::new(Call { client, settings, usage }) })
    }
}

impl Llm for OpenAiLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let call = Arc::clone(&self.call);
        pieces(async move { Answer::begin(call, &prompt).await })
    }

    fn read_ahead(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        let call = Arc::clone(&self.call);
        Box::pin(async move {
            if call.settings.read_ahead
                && let Err(error) = read_ahead(&call, &opening).await
            {
                tracing::debug!(%error, "the prompt could not be read ahead");
            }
        })
    }
}

/// Has the base answer by one token, when it has nothing better to do.
async fn read_ahead(call: &Call, opening: &Prompt) -> Result<(), ProviderError> {
    let mut order = chat_json::order(&call.settings.model, 1, opening);
    order["service_tier"] = "flex".into();
    let answer = async {
        let mut chunks = call.client.chat().create_stream_byot::<Value, Value>(order).await?;
        while chunks.try_next().await?.is_some() {}
        Ok(())
    };
    let answer = timeout(ms(call.settings.timeout_ms), Box::pin(answer));
    answer
        .await
        .map_err(|_| http::timed_out(PROVIDER, "no answer within its deadline"))?
        .map_err(failure)
}

/// An answer being read. Dropping it closes the request.
struct Answer {
    chunks: StreamResponse<Value>,
    clock: Clock,
    /// It is to end with what it cost.
    counted: bool,
    pieces: Pieces,
}

impl Answering for Answer {
    async fn next(&mut self) -> Result<LlmDelta, ProviderError> {
        loop {
            if let Some(delta) = self.pieces.ready.pop_front() {
                self.clock.begun();
                return Ok(delta);
            }
            if let Some(truncated) = self.pieces.finish {
                let usage = self.usage().await;
                return Ok(LlmDelta::Finished { truncated, usage });
            }
            let (by, missing) = self.clock.next_by();
            let chunk = timeout_at(by, self.chunks.next())
                .await
                .map_err(|_| http::timed_out(PROVIDER, missing))?
                .ok_or_else(|| {
                    let why = "the answer broke off without a finish reason";
                    ProviderError::because(PROVIDER, ProviderErrorKind::Unavailable, why)
                })?
                .map_err(failure)?;
            self.read(&chunk)?;
        }
    }
}

impl Answer {
    async fn begin(call: Arc<Call>, prompt: &Prompt) -> Result<Self, ProviderError> {
        let clock = Clock::start(&call.settings);
        // A prompt that leaves its longest length open gets the settings' one.
        let max_tokens =
            if prompt.max_tokens == 0 { call.settings.max_tokens } else { prompt.max_tokens };
        let order = chat_json::order(&call.settings.model, max_tokens, prompt);
        let counted = call.usage.is_wanted();
        let begun = if counted {
            begin_counted(&call, order, &clock).await
        } else {
            ask(&call, order, &clock).await.map(|chunks| (chunks, false))
        };
        let (chunks, counted) = begun.map_err(failure)?;
        Ok(Self { chunks, clock, counted, pieces: Pieces::default() })
    }

    /// What the answer cost; its chunk comes after the finish reason, before the stream's end.
    async fn usage(&mut self) -> Option<Usage> {
        let by = Instant::now() + USAGE_WAIT;
        while self.counted && self.pieces.usage.is_none() {
            // The answer is whole: what goes wrong behind it harms nobody.
            let Ok(Some(Ok(chunk))) = timeout_at(by, self.chunks.next()).await else { break };
            self.read(&chunk).ok()?;
        }
        self.pieces.usage
    }

    fn read(&mut self, chunk: &Value) -> Result<(), ProviderError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(told(error));
        }
        self.pieces.read(chunk).map_err(|_| violated("a piece is no chat chunk"))
    }
}

/// Asks for an answer that ends with what it cost; a base that does not know how is asked for one
/// without, now and from then on.
async fn begin_counted(
    call: &Call,
    order: Value,
    clock: &Clock,
) -> Result<(StreamResponse<Value>, bool), OpenAIError> {
    let error = match ask(call, chat_json::with_usage(order.clone()), clock).await {
        Ok(chunks) => {
            call.usage.is_taken();
            return Ok((chunks, true));
        }
        Err(error) => error,
    };
    if !call.usage.may_be_why(status(&error)) {
        return Err(error);
    }
    let chunks = ask(call, order, clock).await?;
    call.usage.is_refused();
    tracing::info!("the language model's base does not tell what answers cost");
    Ok((chunks, false))
}

/// Orders an answer.
async fn ask(
    call: &Call,
    order: Value,
    clock: &Clock,
) -> Result<StreamResponse<Value>, OpenAIError> {
    let chat = call.client.chat();
    let order = chat.create_stream_byot::<Value, Value>(order);
    let (by, missing) = clock.next_by();
    match timeout_at(by, Box::pin(order)).await {
        Ok(answer) => answer,
        Err(_) => Err(OpenAIError::Boxed(Box::new(Refused {
            status: StatusCode::REQUEST_TIMEOUT,
            error: http::timed_out(PROVIDER, missing),
        }))),
    }
}

/// An answer with a status other than success, or none in time.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct Refused {
    status: StatusCode,
    error: ProviderError,
}

fn status(error: &OpenAIError) -> Option<StatusCode> {
    let OpenAIError::Boxed(error) = error else { return None };
    error.downcast_ref::<Refused>().map(|refused| refused.status)
}

/// What an error of async-openai means.
fn failure(error: OpenAIError) -> ProviderError {
    match error {
        OpenAIError::Boxed(error) => match error.downcast::<Refused>() {
            Ok(refused) => refused.error,
            Err(other) => ProviderError::because(PROVIDER, ProviderErrorKind::Unavailable, other),
        },
        OpenAIError::Reqwest(error) => http::transport(PROVIDER, error),
        OpenAIError::StreamError(_) => {
            let why = "the answer broke off";
            ProviderError::because(PROVIDER, ProviderErrorKind::Unavailable, why)
        }
        OpenAIError::InvalidArgument(_) => {
            ProviderError::because(PROVIDER, ProviderErrorKind::BadRequest, "invalid request")
        }
        // Its text may hold what was said.
        _ => violated("a piece of the answer is not JSON"),
    }
}

/// An error told in the midst of the stream.
fn told(error: &Value) -> ProviderError {
    let body = json!({ "error": error }).to_string();
    let why = match http::error_code(body.as_bytes()) {
        Some(code) => format!("the answer ended with an error, code {code}"),
        None => "the answer ended with an error".into(),
    };
    ProviderError::because(PROVIDER, ProviderErrorKind::Unavailable, why)
}

fn violated(what: &'static str) -> ProviderError {
    ProviderError::because(PROVIDER, ProviderErrorKind::Protocol, what)
}

/// Makes each request once; a status other than success becomes a [`ProviderError`].
#[derive(Clone)]
struct OneAttempt {
    client: reqwest::Client,
}

impl Service<HttpRequestFactory> for OneAttempt {
    type Response = reqwest::Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<reqwest::Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let client = self.client.clone();
        Box::pin(async move {
            let response = client.execute(request.build().await?).await?;
            if response.status().is_success() {
                return Ok(http::bounded(response, MAX_ANSWER_BYTES));
            }
            let status = response.status();
            let error = http::refusal(PROVIDER, response).await;
            Err(OpenAIError::Boxed(Box::new(Refused { status, error })))
        })
    }
}
