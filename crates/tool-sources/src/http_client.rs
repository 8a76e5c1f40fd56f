//! HTTP client of rmcp's transport: reads what real servers answer, with [`Repair`], and tells a lost session in whatever form it
//! is told. Not for sessions and streams, which are rmcp's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::jsonrpc_repair::Repair;
use super::mapping;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Headers that are ours alone.
const RESERVED: [HeaderName; 2] = [ACCEPT, SESSION];
const BOTH: &str = "text/event-stream, application/json";
/// Longest message, in bytes, and longest answer of an error.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;
const MAX_ERROR_BYTES: usize = 64 << 10;

type HttpError = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// HTTP client of one connection to a server.
#[derive(Clone)]
pub(super) struct RepairingClient {
    client: reqwest::Client,
    /// The session seems to be lost: it is begun again before the next message is sent.
    is_lost: Arc<AtomicBool>,
}

impl RepairingClient {
    /// Creates the client of a connection.
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self { client, is_lost: Arc::default() }
    }
}

impl StreamableHttpClient for RepairingClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        if session_id.is_some() && self.is_lost.swap(false, Ordering::Relaxed) {
            return Err(StreamableHttpError::SessionExpired);
        }
        let mut request = self.client.post(&*uri).header(ACCEPT, BOTH);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        for (name, value) in custom_headers {
            if RESERVED.contains(&name) {
                return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        let in_session = session_id.is_some();
        if let Some(session_id) = session_id {
            request = request.header(SESSION, &*session_id);
        }
        let response = request.json(&message).send().await.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return self.refused(response, &message, in_session).await;
        }
        let mut repair = Repair::default();
        repair.note(&message);
        let session = header(&response, &SESSION);
        if kind(&response).contains("event-stream") {
            let events = repaired(response, repair);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let kind = kind(&response);
        let body = body(response, MAX_MESSAGE_BYTES).await?;
        match answer(&mut repair, &body) {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // Nothing is answered to a notification, in whatever form.
            None if !matches!(message, JsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            None if !kind.contains("json") => {
                Err(StreamableHttpError::UnexpectedContentType(Some(kind)))
            }
            None => Err(StreamableHttpError::UnexpectedServerResponse(
                format!("its answer is no message: {}", mapping::short(&body)).into(),
            )),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, HttpError> {
        self.client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                MAX_MESSAGE_BYTES,
            )
            .await
    }
}

fn header(response: &Response, name: &HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// The type of what is answered, in small letters; empty where none is told.
fn kind(response: &Response) -> String {
    header(response, &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase()
}

async fn body(response: Response, most: usize) -> Result<String, HttpError> {
    let mut bytes = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.try_next().await.map_err(StreamableHttpError::Client)? {
        if bytes.len() + piece.len() > most {
            return Err(StreamableHttpError::UnexpectedServerResponse(
                format!("its answer is longer than {most} bytes").into(),
            ));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The message of a text that answers the request; where there is none, the first.
fn answer(repair: &mut Repair, text: &str) -> Option<ServerJsonRpcMessage> {
    let mut messages = repair.read(text);
    let is_answer = |message: &ServerJsonRpcMessage| {
        matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
    };
    let place = messages.iter().position(is_answer).unwrap_or(0);
    (place < messages.len()).then(|| messages.swap_remove(place))
}

impl RepairingClient {
    /// Reads a refusal: a lost session, an error of the protocol, or neither.
    async fn refused(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED
            && let Some(told) = header(&response, &WWW_AUTHENTICATE)
        {
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(told)));
        }
        let session = header(&response, &SESSION);
        let retry_after = header(&response, &RETRY_AFTER);
        let body = body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        match lost_session(status, &body).filter(|_| in_session) {
            // rmcp sends the message again: a call that may have been carried out must not be.
            Some(LostSession::AtWork) if is_call(message) => {
                self.is_lost.store(true, Ordering::Relaxed);
            }
            Some(_) => return Err(StreamableHttpError::SessionExpired),
            None => {}
        }
        let is_forbidden = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let mut repair = Repair::default();
        repair.note(message);
        if !is_forbidden
            && status != StatusCode::TOO_MANY_REQUESTS
            && let Some(error @ JsonRpcMessage::Error(_)) = answer(&mut repair, &body)
        {
            return Ok(StreamableHttpPostResponse::Json(error, session));
        }
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
        }
        let told = mapping::short(&body);
        Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {told}").into()))
    }
}

fn is_call(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::CallToolRequest(_))
}

/// When a server has told that the session is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostSession {
    /// Instead of reading the message.
    Instead,
    /// Perhaps while it carried the message out.
    AtWork,
}

/// The protocol says 404. Servers also say that they do not know the session, or that they were not initialised, with another
/// status: 400 (Python's SDK), 410, 500, 503. An error of a tool may speak of another session, such as that of a bank.
fn lost_session(status: StatusCode, body: &str) -> Option<LostSession> {
    const UNREAD: [&str; 6] = [
        "session id",
        "session not found",
        "valid session",
        "unknown session",
        "no session",
        "not initialized",
    ];
    let body = body.to_lowercase();
    let says_so = body.contains("session") || body.contains("not initialized");
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Some(LostSession::Instead),
        StatusCode::BAD_REQUEST if UNREAD.iter().any(|words| body.contains(words)) => {
            Some(LostSession::Instead)
        }
        status if says_so && (status == StatusCode::BAD_REQUEST || status.is_server_error()) => {
            Some(LostSession::AtWork)
        }
        _ => None,
    }
}

/// Error of a stream of events.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
}

/// Returns the events of an answer, each with one message as rmcp reads it.
fn repaired(response: Response, mut repair: Repair) -> Events {
    let events = SseStream::from_bytes_stream(bounded(response.bytes_stream(), MAX_MESSAGE_BYTES));
    let repaired = events.flat_map(move |event| {
        let mut events = match event {
            Ok(event) => told(&mut repair, event).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        events.reverse();
        stream::iter(std::iter::from_fn(move || events.pop()))
    });
    repaired.boxed()
}

/// The messages of an event; the event itself where it has none, such as one that only has an id.
fn told(repair: &mut Repair, event: Sse) -> Vec<Sse> {
    let messages = event.data.as_deref().map(|data| repair.read(data)).unwrap_or_default();
    if messages.is_empty() {
        return vec![event];
    }
    let told = messages.iter().filter_map(|message| serde_json::to_string(message).ok());
    told.map(|data| Sse { data: Some(data), ..event.clone() }).collect()
}

/// Fails once there are more bytes than `most` without the end of an event.
fn bounded(
    pieces: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    most: usize,
) -> impl Stream<Item = Result<Bytes, StreamError>> + Send + 'static {
    let mut since = 0;
    pieces.map(move |piece| {
        let piece = piece?;
        since += piece.len();
        let ends = piece.windows(2).any(|two| two == b"\n\n" || two == b"\r\r");
        if ends || piece.windows(4).any(|four| four == b"\r\n\r\n") {
            since = 0;
        }
        if since > most { Err(StreamError::TooLong(most)) } else { Ok(piece) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_session_is_known_in_every_form() {
        let instead = Some(LostSession::Instead);
        let at_work = Some(LostSession::AtWork);
        for (status, body, lost) in [
            (404, "", instead),
            (410, "gone", instead),
            (400, "Bad Request: No valid session ID provided", instead),
            (400, r#"{"error":{"message":"Server not initialized"}}"#, instead),
            (400, "the session of the bank has expired", at_work),
            (500, "Session not found", at_work),
            (503, "unknown session", at_work),
            (400, r#"{"error":{"message":"the date is wrong"}}"#, None),
            (500, "boom", None),
            (403, "session", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(lost_session(status, body), lost, "{status} {body}");
        }
    }
}
