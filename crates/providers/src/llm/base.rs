//! HTTP client of one model at one base URL: requests and streams of events. Not for the content of
//! either.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use hearken_outbound::http::Refusal;
use hearken_outbound::{SettingError, http as web};
use hearken_ports::{ProviderError, ProviderErrorKind};
use http::header::HeaderMap;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::event_reader::{EventReader, LineTooLong};
use super::fields::{self, ModelFindings};
use crate::settings::{LlmSettings, ms};

/// Maximum wait for the answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response body, in bytes: a hundred times the size of a spoken answer.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Deadline of the next event, and the error message for a miss.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) by: Instant,
    pub(super) missing: &'static str,
}

/// API server with its model's known properties.
pub(super) struct Base {
    /// Provider name in errors.
    pub(super) provider: &'static str,
    pub(super) known: Arc<ModelFindings>,
    client: reqwest::Client,
    url: Url,
}

impl Base {
    /// Creates a client of `base` with `path` appended, without connecting yet.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub(super) fn new(
        provider: &'static str,
        base: &Url,
        path: &str,
        headers: HeaderMap,
        settings: &LlmSettings,
        known: Arc<ModelFindings>,
    ) -> Result<Self, SettingError> {
        let client = web::builder(base, ms(settings.connect_timeout_ms))
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers)
            .build()
            .map_err(|e| SettingError::client("llm.base_url", e))?;
        let mut url = base.clone();
        url.set_path(path);
        Ok(Self { provider, known, client, url })
    }

    /// Checks that the server answers, with a request for its list of models.
    pub(super) async fn probe(&self) -> Result<(), ProviderError> {
        let mut models = self.url.clone();
        let calls =
            models.path().trim_end_matches("/chat/completions").trim_end_matches("/messages");
        let path = format!("{calls}/models");
        models.set_path(&path);
        web::answers(self.provider, self.client.get(models).timeout(PROBE_TIMEOUT)).await
    }

    /// Requests an answer, without fields that the model is known or found to refuse. The answer
    /// must start by the given deadline.
    pub(super) async fn order(
        &self,
        order: Value,
        deadline: Deadline,
    ) -> Result<Events, ProviderError> {
        let send = |order: Value| Box::pin(async move { self.send(&order, deadline).await });
        fields::ask(&self.known, order, send).await
    }

    /// Sends a request once and unchanged.
    pub(super) async fn send(&self, order: &Value, deadline: Deadline) -> Result<Events, Refusal> {
        let request = self.client.post(self.url.clone()).json(order).send();
        let response = timeout_at(deadline.by, request)
            .await
            .map_err(|_| web::timed_out(self.provider, deadline.missing))?
            .map_err(|error| web::transport(self.provider, error))?;
        if !response.status().is_success() {
            return Err(web::refusal_of(self.provider, response).await);
        }
        Ok(Events::of(self.provider, web::bounded(response, MAX_ANSWER_BYTES).bytes_stream()))
    }
}

/// Events of an answer. Dropping them closes the request.
pub(super) struct Events {
    provider: &'static str,
    /// None after its end.
    body: Option<BoxStream<'static, Result<Bytes, BrokenOff>>>,
    reader: EventReader,
}

/// The body of an answer broke off.
struct BrokenOff;

impl Events {
    /// Creates the events of a response body.
    pub(super) fn of<E: 'static>(
        provider: &'static str,
        body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Self {
        let body = body.map(|piece| piece.map_err(|_| BrokenOff)).boxed();
        Self { provider, body: Some(body), reader: EventReader::default() }
    }

    /// Returns the text of the next event; none at the end.
    pub(super) async fn next(
        &mut self,
        deadline: Deadline,
    ) -> Result<Option<String>, ProviderError> {
        loop {
            if let Some(data) = self.reader.next() {
                return Ok(Some(data));
            }
            let Some(body) = &mut self.body else { return Ok(None) };
            let piece = timeout_at(deadline.by, body.next())
                .await
                .map_err(|_| web::timed_out(self.provider, deadline.missing))?;
            match piece {
                None => {
                    self.body = None;
                    self.reader.finish();
                }
                Some(Err(BrokenOff)) => return Err(self.broken_off()),
                Some(Ok(piece)) => self.reader.push(&piece).map_err(|LineTooLong| {
                    violated(self.provider, "a line of the answer is too long")
                })?,
            }
        }
    }

    /// Builds the error for an answer that broke off.
    pub(super) fn broken_off(&self) -> ProviderError {
        let why = "the answer broke off";
        ProviderError::because(self.provider, ProviderErrorKind::Unavailable, why)
    }
}

/// Builds the error for a server that violates its protocol.
pub(super) fn violated(provider: &'static str, what: &'static str) -> ProviderError {
    ProviderError::because(provider, ProviderErrorKind::Protocol, what)
}
