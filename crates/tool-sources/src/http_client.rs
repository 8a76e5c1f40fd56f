//! HTTP client of rmcp's transport: reads the answers of real servers with [`Repair`], and detects
//! a lost session in every form that servers report it. Not for sessions and streams, which are
//! rmcp's.

mod events;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use self::events::{Events, MAX_FIELD_BYTES};
use super::jsonrpc_repair::Repair;
use super::mapping;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Headers that only this client sets.
const RESERVED: [HeaderName; 2] = [ACCEPT, SESSION];
const BOTH: &str = "text/event-stream, application/json";
/// Maximum size of a message, in bytes, and of the body of an error.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;
const MAX_ERROR_BYTES: usize = 64 << 10;

type HttpError = StreamableHttpError<reqwest::Error>;

/// HTTP client of one connection to a server.
#[derive(Clone)]
pub(super) struct RepairingClient {
    client: reqwest::Client,
    /// The session seems to be lost: it is restarted before the next message is sent.
    is_lost: Arc<AtomicBool>,
    /// The session was restarted because of an error in an answer, and no request has succeeded
    /// since: a second such error is returned to the caller.
    is_begun_again: Arc<AtomicBool>,
}

impl RepairingClient {
    /// Creates the client of a connection.
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self { client, is_lost: Arc::default(), is_begun_again: Arc::default() }
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
        let repair = Repair::of_answer_to(&message);
        let session = header(&response, &SESSION);
        if kind(&response).contains("event-stream") {
            // A notification has no answer: its stream, which may never end, is not read.
            if !matches!(message, JsonRpcMessage::Request(_)) {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            let is_lost = in_session.then(|| Arc::clone(&self.is_lost));
            let events = events::events(response.bytes_stream(), MAX_MESSAGE_BYTES);
            let events = repaired(events, repair, is_lost);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let kind = kind(&response);
        let body = body(response, MAX_MESSAGE_BYTES).await?;
        // Logged only if it is not a message.
        let told = mapping::short(&body);
        match answer(&repair, body).await {
            Some(JsonRpcMessage::Error(error))
                if in_session
                    && tells_lost_session(&error.error)
                    && !self.is_begun_again.swap(true, Ordering::Relaxed) =>
            {
                // The call may have been carried out: it is not repeated, and the next call starts
                // a session.
                if is_call(&message) {
                    self.is_lost.store(true, Ordering::Relaxed);
                    return Ok(StreamableHttpPostResponse::Json(
                        JsonRpcMessage::Error(error),
                        session,
                    ));
                }
                Err(StreamableHttpError::SessionExpired)
            }
            Some(answer) => {
                // Except the answer to the handshake.
                if in_session && matches!(answer, JsonRpcMessage::Response(_)) {
                    self.is_begun_again.store(false, Ordering::Relaxed);
                }
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            // A notification has no answer, in any form.
            None if !matches!(message, JsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            None if !kind.contains("json") => {
                Err(StreamableHttpError::UnexpectedContentType(Some(kind)))
            }
            None => Err(StreamableHttpError::UnexpectedServerResponse(
                format!("its answer is not a message: {told}").into(),
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
        let events = self
            .client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                MAX_MESSAGE_BYTES,
            )
            .await?;
        Ok(repaired(events, Repair::of_configured(), None))
    }
}

fn header(response: &Response, name: &HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Returns the content type of a response, in lower case; empty if there is none.
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

/// Returns the message in a text that answers the request; if there is none, the first message.
async fn answer(repair: &Repair, text: String) -> Option<ServerJsonRpcMessage> {
    let mut messages = repair.read_apart(text).await;
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
            // rmcp resends the message: a call that may have been carried out must not be resent.
            Some(LostSession::AtWork) if is_call(message) => {
                self.is_lost.store(true, Ordering::Relaxed);
            }
            Some(_) => return Err(StreamableHttpError::SessionExpired),
            None => {}
        }
        let is_forbidden = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let told = mapping::short(&body);
        if !is_forbidden
            && status != StatusCode::TOO_MANY_REQUESTS
            && let Some(error @ JsonRpcMessage::Error(_)) =
                answer(&Repair::of_answer_to(message), body).await
        {
            return Ok(StreamableHttpPostResponse::Json(error, session));
        }
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
        }
        Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {told}").into()))
    }
}

fn is_call(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::CallToolRequest(_))
}

/// Stage at which a server has reported that the session is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostSession {
    /// Before it processed the message.
    Instead,
    /// Possibly while it processed the message.
    AtWork,
}

/// Phrases that report the loss of the session in which a message was sent.
const LOST: [&str; 7] = [
    "session not found",
    "unknown session",
    "invalid session",
    "session expired",
    "session has expired",
    "no valid session",
    "server not initialized",
];

fn says(body: &str, words: &[&str]) -> bool {
    words.iter().any(|words| body.contains(words))
}

/// The protocol defines 404. Servers also report an unknown session, or that they were not
/// initialised, with another status: 400 (Python's SDK), 401, 403, 409, 410, 500, 503. An error of
/// a tool may be about another kind of session, such as that of a bank.
fn lost_session(status: StatusCode, body: &str) -> Option<LostSession> {
    const UNREAD: [&str; 4] = ["session id", "valid session", "no session", "not initialized"];
    let body = body.to_lowercase();
    let is_lost = says(&body, &LOST);
    let says_so = body.contains("session") || body.contains("not initialized");
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Some(LostSession::Instead),
        StatusCode::BAD_REQUEST if is_lost || says(&body, &UNREAD) => Some(LostSession::Instead),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::CONFLICT if is_lost => {
            Some(LostSession::Instead)
        }
        StatusCode::BAD_REQUEST | StatusCode::CONFLICT if says_so => Some(LostSession::AtWork),
        status if says_so && status.is_server_error() => Some(LostSession::AtWork),
        _ => None,
    }
}

/// Reports whether an error says that the session is lost, and that the message was therefore not
/// carried out. Its code must be that of a server, not that of a failed tool.
fn tells_lost_session(error: &ErrorData) -> bool {
    /// Code of servers that were not initialised; the protocol uses it for another error.
    const NOT_INITIALISED: ErrorCode = ErrorCode(-32_002);
    let words = error.message.to_lowercase();
    let is_of_server = (-32_099..=-32_000).contains(&error.code.0);
    (is_of_server || error.code == ErrorCode::INVALID_REQUEST) && says(&words, &LOST)
        || error.code == NOT_INITIALISED && words.contains("not initialized")
}

/// Returns these events, each with one message as rmcp reads it, weighed before it is parsed. Sets `is_lost` if the
/// session was lost.
fn repaired(events: Events, repair: Repair, is_lost: Option<Arc<AtomicBool>>) -> Events {
    let repaired = events.then(move |event| {
        let repair = repair.clone();
        let is_lost = is_lost.clone();
        async move {
            match event {
                Ok(event) => told(&repair, event, is_lost.as_deref()).await,
                Err(error) => vec![Err(error)],
            }
        }
    });
    repaired.flat_map(stream::iter).boxed()
}

/// Returns the messages of an event; the event itself if it has none, such as one that only has an
/// id.
async fn told(
    repair: &Repair,
    mut event: Sse,
    is_lost: Option<&AtomicBool>,
) -> Vec<Result<Sse, SseError>> {
    let data = event.data.take().unwrap_or_default();
    // Those of rmcp's stream are as long as the event.
    event.id = event.id.filter(|id| id.len() <= MAX_FIELD_BYTES);
    event.event = event.event.filter(|name| name.len() <= MAX_FIELD_BYTES);
    let messages = repair.read_apart(data).await;
    if messages.is_empty() {
        // rmcp ignores an event without a message, too.
        return vec![Ok(event)];
    }
    let lost = |message: &ServerJsonRpcMessage| matches!(message, JsonRpcMessage::Error(error) if tells_lost_session(&error.error));
    if let Some(is_lost) = is_lost
        && messages.iter().any(lost)
    {
        is_lost.store(true, Ordering::Relaxed);
    }
    // The event has a message, whatever its name.
    event.event = None;
    let told = messages.iter().filter_map(|message| serde_json::to_string(message).ok());
    told.map(|data| Ok(Sse { data: Some(data), ..event.clone() })).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::super::jsonrpc_repair::MAX_WEIGHT_CONFIGURED;
    use super::*;

    #[test]
    fn a_lost_session_is_recognised_in_every_form() {
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
            (401, r#"{"error":"invalid session"}"#, instead),
            (403, "Session expired", instead),
            (401, "who?", None),
            (409, "Session not found", instead),
            (409, "session conflict", at_work),
            (409, "the light is on already", None),
            (422, "session not found", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(lost_session(status, body), lost, "{status} {body}");
        }
    }

    #[test]
    fn only_an_error_of_the_server_reports_a_lost_session() {
        for (code, message, is_lost) in [
            (-32_001, "Session not found", true),
            (-32_002, "Server not initialized", true),
            (-32_002, "Not initialized", true),
            (-32_600, "Bad Request: invalid session", true),
            (-32_000, "the camera is not initialized", false),
            (-32_603, "session not found", false),
            (1, "session expired", false),
            (-32_001, "the session of the bank is closed", false),
        ] {
            let error = ErrorData::new(ErrorCode(code), message, None);
            assert_eq!(tells_lost_session(&error), is_lost, "{code} {message}");
        }
    }

    #[tokio::test]
    async fn events_have_one_message_each_and_the_default_name() {
        let repair = Repair::of_configured();
        let answer = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
        let event = |data: &str| Sse::default().event("response").id("1").data(data);
        for (data, count) in [(format!("[{answer},{answer}]"), 2), (answer.into(), 1)] {
            let told = told(&repair, event(&data), None).await;
            let told: Vec<Sse> = told.into_iter().map(Result::unwrap).collect();
            assert_eq!(told.len(), count);
            assert!(told.iter().all(|one| one.event.is_none() && one.id.as_deref() == Some("1")));
        }
        let other = told(&repair, event("[DONE]"), None).await.swap_remove(0).unwrap();
        assert_eq!((other.event.as_deref(), other.data), (Some("response"), None));
        let lost = AtomicBool::new(false);
        let error = r#"{"id":3,"error":{"code":-32001,"message":"Session not found"}}"#;
        told(&repair, event(error), Some(&lost)).await;
        assert!(lost.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn a_long_id_is_not_copied_for_each_message_of_a_batch() {
        let repair = Repair::of_configured();
        let message = r#"{"method":"notifications/tools/list_changed"}"#;
        let batch = format!("[{}]", vec![message; 50].join(","));
        for (length, is_kept) in [(MAX_FIELD_BYTES, true), (MAX_FIELD_BYTES + 1, false)] {
            let event = Sse::default().id("x".repeat(length)).data(batch.as_str());
            let told = told(&repair, event, None).await;
            assert_eq!(told.len(), 50);
            assert!(told.into_iter().all(|event| event.unwrap().id.is_some() == is_kept));
        }
        let field = "x".repeat(MAX_FIELD_BYTES + 1);
        let event = Sse::default().id(field.as_str()).event(field.as_str());
        let empty = told(&repair, event, None).await.swap_remove(0).unwrap();
        assert_eq!(empty, Sse::default());
    }

    /// Serves one request with a stream of these events, which stays open until the client closes
    /// it. Returns the client and the address.
    async fn stream_of(events: String) -> (RepairingClient, Arc<str>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/mcp", listener.local_addr().unwrap());
        let client = hearken_outbound::http::client(&uri.parse().unwrap(), Duration::from_secs(9));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
            stream.write_all(format!("{head}{events}").as_bytes()).await.unwrap();
            while stream.read(&mut [0; 4_096]).await.is_ok_and(|read| read > 0) {}
        });
        (RepairingClient::new(client.unwrap()), uri.into(), serving)
    }

    #[tokio::test]
    async fn the_stream_that_answers_a_notification_is_closed() {
        let (client, uri, serving) = stream_of(": nothing\n\n".into()).await;
        let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let told = serde_json::from_str(told).unwrap();
        let sent = client.post_message(uri, told, None, None, HashMap::new()).await;
        assert!(matches!(sent, Ok(StreamableHttpPostResponse::Accepted)));
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn events_of_the_open_stream_are_weighed_and_repaired() {
        let heavy = format!("[{}]", vec!["[]"; MAX_WEIGHT_CONFIGURED / 64].join(","));
        let light = r#"{"method":"notifications/tools/list_changed"}"#;
        let (client, uri, serving) = stream_of(format!("data: {heavy}\n\ndata: {light}\n\n")).await;
        let events = client.get_stream(uri, None, None, None, HashMap::new()).await.unwrap();
        let data = events.filter_map(async |event| event.ok()?.data);
        let events: Vec<String> = data.take(1).collect().await;
        serving.await.unwrap();
        let [event] = &events[..] else { panic!("{} events have a message", events.len()) };
        assert!(event.contains("list_changed") && event.contains("jsonrpc"), "{event}");
    }
}
