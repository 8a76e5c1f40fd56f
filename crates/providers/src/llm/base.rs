//! HTTP client of one model at one base URL: requests and streams of events. Not for the content of
//! either.

use std::sync::Arc;

use bytes::Bytes;
use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures_util::stream::{BoxStream, Stream, StreamExt};
use hearken_outbound::http::Refusal;
use hearken_outbound::{SettingError, http as web};
use hearken_ports::{ProviderError, ProviderErrorKind};
use http::header::HeaderMap;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::fields::{self, ModelFindings};
use crate::settings::{LlmSettings, ms};

/// Longest response body, in bytes: a hundred times the size of a spoken answer.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Longest line of a response body, in bytes: a whole answer fits. The parser reads a line anew
/// with each piece of it that comes.
const MAX_LINE_BYTES: usize = 256 << 10;

/// Time until which something must come, and what is missing if it does not.
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

    /// Requests an answer, without fields that the model is known or found to refuse. The answer
    /// must begin by the given deadline.
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

/// Reason why a response body cannot be read.
enum BodyError {
    BrokenOff,
    LineTooLong,
}

/// Returns the bytes of the last line after one more piece. `None` if a line is too long.
fn longest_line(before: usize, piece: &[u8]) -> Option<usize> {
    let mut line = before;
    for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        line += part.len();
        if line > MAX_LINE_BYTES {
            return None;
        }
        if part.ends_with(b"\n") || part.ends_with(b"\r") {
            line = 0;
        }
    }
    Some(line)
}

/// Events of an answer. Dropping them closes the request.
pub(super) struct Events {
    provider: &'static str,
    events: BoxStream<'static, Result<Event, EventStreamError<BodyError>>>,
}

impl Events {
    /// Creates the events of a response body.
    pub(super) fn of<E: 'static>(
        provider: &'static str,
        body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Self {
        let mut line_bytes = 0;
        let body = body.map(move |piece| {
            let piece = piece.map_err(|_| BodyError::BrokenOff)?;
            line_bytes = longest_line(line_bytes, &piece).ok_or(BodyError::LineTooLong)?;
            Ok(piece)
        });
        Self { provider, events: body.eventsource().boxed() }
    }

    /// Returns the text of the next event; none at the end.
    pub(super) async fn next(
        &mut self,
        deadline: Deadline,
    ) -> Result<Option<String>, ProviderError> {
        let event = timeout_at(deadline.by, self.events.next())
            .await
            .map_err(|_| web::timed_out(self.provider, deadline.missing))?;
        match event {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event.data)),
            Some(Err(EventStreamError::Transport(BodyError::BrokenOff))) => Err(self.broken_off()),
            Some(Err(EventStreamError::Transport(BodyError::LineTooLong))) => {
                Err(violated(self.provider, "a line of the answer is too long"))
            }
            // The error's text may repeat the user's words.
            Some(Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_))) => {
                Err(violated(self.provider, "the answer is no stream of events"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_across_pieces() {
        assert_eq!(longest_line(0, b"data: x"), Some(7));
        assert_eq!(longest_line(7, b"y\r\n\ndata"), Some(4));
        assert_eq!(longest_line(MAX_LINE_BYTES, b"\n"), None);
        assert_eq!(longest_line(MAX_LINE_BYTES - 1, b"\ndata"), Some(4));
        assert_eq!(longest_line(MAX_LINE_BYTES - 4, b"data: x\n"), None);
    }
}
