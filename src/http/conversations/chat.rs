//! REST API of chat sessions for applications: creating, listing and messages. Not for their worlds
//! and snapshots, nor for event streams.

use std::sync::{Arc, OnceLock};

use actix_web::http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{Stream, unfold};
use hearken_chat::turns::RequestOptions;
use hearken_chat::{ChatError, ChatPiece, ChatService};
use hearken_ports::{RequestKey, SessionFilter};
use hearken_proto::chat::{
    ChatRequest, ChatResponse, ChatSession, ChatStatus, CreateSession, Done, MessagesBody,
    SessionsBody, check_user,
};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Interval, interval_at};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::chat_access::{Chats, UNFIT, refusal_of, unfit};
use crate::http::extract::{Application, ChatBody, OwnSession};
use crate::http::fault::{FaultBody, Faults, Refusal, RouteResult, refusal};
use crate::http::lasting_access::{AtEnd, LastingAccess};
use crate::http::middleware::TRACE_ID;
use crate::http::params;
use crate::turn_json::trace_id;

/// Default page size of sessions.
const PAGE: u32 = 20;
/// Default page size of messages.
const MESSAGES: u32 = 50;
/// Maximum page size.
const MAX_PAGE: u32 = 200;
/// Capacity of the queue of answer parts to the client; the turn waits while it is full.
const PIECES: usize = 16;
/// Maximum length of an idempotency key, in characters.
const MAX_KEY_CHARS: usize = 128;
/// Keep-alive interval of a streamed answer: prevents timeouts of proxies and clients.
const STILL_THERE: std::time::Duration = std::time::Duration::from_secs(15);
/// Error of a streamed answer whose client has lost access to the session.
const ACCESS_ENDED: &str = "the log-in that asked for this answer has ended";

/// New session.
#[derive(Serialize, ToSchema)]
pub(crate) struct Created {
    /// Id of the session, repeated under the document's name for it.
    session_id: String,
    #[serde(flatten)]
    session: ChatSession,
}

/// Creates a session, and its world at the state server.
#[utoipa::path(post, path = "/api/sessions", tag = "chat sessions", request_body = CreateSession,
    responses((status = 201, body = Created), Faults))]
pub(crate) async fn create(
    application: Application,
    wanted: ChatBody<CreateSession>,
    chats: web::Data<Chats>,
) -> RouteResult {
    let wanted = wanted.0.trimmed();
    wanted.check().map_err(|e| unfit(&e))?;
    let session = chats.service.create(wanted, &application.0).await.map_err(|e| refusal_of(&e))?;
    let session_id = session.id.as_str().to_owned();
    Ok(HttpResponse::Created().json(Created { session_id, session }))
}

fn filter(request: &HttpRequest) -> Result<SessionFilter, Refusal> {
    let status = match params::text(request, "status", UNFIT)? {
        None => None,
        Some(word) => {
            let about = "`status` is active, archived or deleted";
            Some(ChatStatus::from_word(&word).ok_or_else(|| unfit(&about))?)
        }
    };
    let user_id = params::text(request, "user_id", UNFIT)?;
    if let Some(user_id) = &user_id {
        check_user("user_id", user_id).map_err(|e| unfit(&e))?;
    }
    Ok(SessionFilter {
        owner: None,
        user_id,
        status,
        limit: params::number(request, "limit", 1..=MAX_PAGE, UNFIT)?.unwrap_or(PAGE),
        offset: params::number(request, "offset", 0..=u32::MAX, UNFIT)?.unwrap_or(0),
    })
}

/// Lists sessions, most recently used first; deleted ones only if `status` requests them.
#[utoipa::path(get, path = "/api/sessions", tag = "chat sessions",
    params(
        ("user_id" = Option<String>, Query, description = "its creator, game master or a player"),
        ("status" = Option<ChatStatus>, Query,),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200),
        ("offset" = Option<u32>, Query, minimum = 0)),
    responses((status = 200, body = SessionsBody), Faults))]
pub(crate) async fn list(
    application: Application,
    request: HttpRequest,
    chats: web::Data<Chats>,
) -> RouteResult {
    let filter = filter(&request)?;
    let page = chats.service.sessions(filter, &application.0).await.map_err(|e| refusal_of(&e))?;
    Ok(HttpResponse::Ok().json(SessionsBody { sessions: page.sessions, total: page.total }))
}

/// Returns a session without its messages.
#[utoipa::path(get, path = "/api/sessions/{id}", tag = "chat sessions", params(("id" = String, Path,)),
    responses((status = 200, body = ChatSession), Faults))]
pub(crate) async fn get(session: OwnSession, chats: web::Data<Chats>) -> RouteResult {
    let session = chats.service.session(&session.id).await.map_err(|e| refusal_of(&e))?;
    Ok(HttpResponse::Ok().json(session))
}

/// Defines a route that changes a session's status, and the message of its response.
macro_rules! change {
    ($(#[$doc:meta])* $name:ident, $told:literal) => {
        $(#[$doc])*
        pub(crate) async fn $name(session: OwnSession, chats: web::Data<Chats>) -> RouteResult {
            chats.service.$name(&session.id).await.map_err(|e| refusal_of(&e))?;
            Ok(HttpResponse::Ok().json(Done { message: $told.into() }))
        }
    };
}

change! {
    /// Deletes a session; it can be restored for 30 days.
    #[utoipa::path(delete, path = "/api/sessions/{id}", tag = "chat sessions", params(("id" = String, Path,)),
        responses((status = 200, body = Done), Faults))]
    delete, "Session deleted"
}

change! {
    /// Archives a session: it can be read, but accepts no messages.
    #[utoipa::path(post, path = "/api/sessions/{id}/archive", tag = "chat sessions", params(("id" = String, Path,)),
        responses((status = 200, body = Done), Faults))]
    archive, "Session archived"
}

change! {
    /// Restores an archived or deleted session.
    #[utoipa::path(post, path = "/api/sessions/{id}/restore", tag = "chat sessions", params(("id" = String, Path,)),
        responses((status = 200, body = Done), Faults))]
    restore, "Session restored"
}

/// Returns messages of a session, oldest first: the most recent ones, or those before a number.
#[utoipa::path(get, path = "/api/sessions/{id}/messages", tag = "chat sessions",
    params(("id" = String, Path,), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200),
        ("before" = Option<i64>, Query, minimum = 1, description = "`first` of the later page")),
    responses((status = 200, body = MessagesBody), Faults))]
pub(crate) async fn messages(
    session: OwnSession,
    request: HttpRequest,
    chats: web::Data<Chats>,
) -> RouteResult {
    let limit = params::number(&request, "limit", 1..=MAX_PAGE, UNFIT)?.unwrap_or(MESSAGES);
    let before = params::number(&request, "before", 1..=i64::MAX, UNFIT)?;
    let page = chats.service.messages(&session.id, before, limit).await;
    Ok(HttpResponse::Ok().json(page.map_err(|e| refusal_of(&e))?))
}

/// Returns the idempotency key of a request with a hash of its contents. Whether the answer is
/// streamed is not part of the hash.
fn key(
    headers: &HeaderMap,
    id: &SessionId,
    said: &ChatRequest,
) -> Result<Option<RequestKey>, Refusal> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let name = value.to_str().ok().filter(|k| (1..=MAX_KEY_CHARS).contains(&k.len()));
    let about = format!("the header Idempotency-Key has 1 to {MAX_KEY_CHARS} visible characters");
    let name = name.ok_or_else(|| unfit(&about))?.to_owned();
    let asked = json!(["chat", id, said.message, said.player_id, said.context_only]);
    let hash = format!("{:x}", Sha256::digest(asked.to_string()));
    Ok(Some(RequestKey { name, hash }))
}

/// Sends a message to a session and returns the answer, as JSON or, with `stream`, as server-sent events.
///
/// The events are `delta` `{"content"}`, `event` (as on the WebSocket), then `done` with the
/// complete answer, or `error`. A request with the header `Idempotency-Key` may be repeated safely:
/// it is answered once, even if its client disconnects. Without the header, a message is dropped if
/// its client disconnects before any tool was called. A stream ends with an `error` when its log-in
/// ends. The response header `X-Trace-Id` contains the id of the turn's trace, if a turn was
/// started.
#[utoipa::path(post, path = "/api/sessions/{id}/chat", tag = "chat sessions",
    params(("id" = String, Path,), ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 128)),
    request_body = ChatRequest,
    responses((status = 200, content((ChatResponse = "application/json"), (String = "text/event-stream"))),
        Faults))]
pub(crate) async fn chat(
    session: OwnSession,
    request: HttpRequest,
    said: ChatBody<ChatRequest>,
    chats: web::Data<Chats>,
) -> RouteResult {
    let OwnSession { id, asker } = session;
    let said = said.0;
    said.check(&id).map_err(|e| unfit(&e))?;
    let key = key(request.headers(), &id, &said)?;
    let ask = RequestOptions { key, asker: asker.clone(), ..RequestOptions::default() };
    let turn_id = Arc::clone(&ask.turn_id);
    let answer = if said.stream {
        // After a logout, the client's network may still open the route, but for another owner.
        let access = LastingAccess::of_same(&request, move |now: &Application| now.0 == asker);
        streamed(access, chats.service.clone(), id, said, ask).await
    } else {
        let answer = Box::pin(chats.service.chat(&id, &said, ask)).await;
        answer.map(|answer| HttpResponse::Ok().json(answer)).map_err(|e| refusal_of(&e))
    };
    Ok(traced(answer, &turn_id))
}

/// Adds the header with the id of the turn's trace to a response or a refusal.
fn traced(answer: RouteResult, turn_id: &OnceLock<Uuid>) -> HttpResponse {
    let mut response = answer.unwrap_or_else(HttpResponse::from);
    let value = turn_id.get().and_then(|id| HeaderValue::from_str(&trace_id(id)).ok());
    value.map(|id| response.headers_mut().insert(TRACE_ID, id));
    response
}

type Work = BoxFuture<'static, Result<ChatResponse, ChatError>>;

/// Streamed answer. Dropping it stops waiting for the turn.
struct StreamedAnswer {
    first: Option<ChatPiece>,
    pieces: mpsc::Receiver<ChatPiece>,
    work: Option<Work>,
    ticks: Interval,
}

/// Starts a streamed answer. A failure before the first part is an ordinary error response.
async fn streamed(
    access: LastingAccess,
    service: ChatService,
    id: SessionId,
    said: ChatRequest,
    ask: RequestOptions,
) -> RouteResult {
    let (out, mut pieces) = mpsc::channel(PIECES);
    let ask = RequestOptions { out: Some(out), ..ask };
    let mut work: Work = Box::pin(async move { service.chat(&id, &said, ask).await });
    let ended = access.ended();
    let (first, work) = tokio::select! {
        biased;
        () = ended => return Err(refusal(Fault::Unauthorized, ACCESS_ENDED)),
        Some(piece) = pieces.recv() => (Some(piece), work),
        whole = &mut work => {
            let whole = whole.map_err(|e| refusal_of(&e))?;
            (None, Box::pin(std::future::ready(Ok(whole))) as Work)
        }
    };
    let ticks = interval_at(tokio::time::Instant::now() + STILL_THERE, STILL_THERE);
    let telling = StreamedAnswer { first, pieces, work: Some(work), ticks };
    let mut response = HttpResponse::Ok();
    response.content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-cache"));
    // Disables buffering in a proxy (nginx), which would delay the stream.
    response.insert_header(("X-Accel-Buffering", "no"));
    let unauthorized = FaultBody::new(Fault::Unauthorized, ACCESS_ENDED);
    let at_end = AtEnd::Tell(sent("error", &unauthorized));
    Ok(access.stream(response, to_event_stream(telling), at_end))
}

fn to_event_stream(telling: StreamedAnswer) -> impl Stream<Item = Result<Bytes, actix_web::Error>> {
    unfold(telling, |mut telling| async move {
        let next = telling.next().await?;
        Some((Ok(next), telling))
    })
}

impl StreamedAnswer {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(piece) = self.first.take() {
            return Some(piece_told(&piece));
        }
        let work = self.work.as_mut()?;
        let whole = tokio::select! {
            biased;
            Some(piece) = self.pieces.recv() => return Some(piece_told(&piece)),
            whole = work => whole,
            _ = self.ticks.tick() => return Some(Bytes::from_static(b": still there\n\n")),
        };
        if let Ok(piece) = self.pieces.try_recv() {
            // The last part arrived together with the end.
            self.work = Some(Box::pin(std::future::ready(whole)));
            return Some(piece_told(&piece));
        }
        self.work = None;
        Some(match whole {
            Ok(response) => sent("done", &response),
            Err(error) => sent("error", &FaultBody::new(error.fault(), &error.to_string())),
        })
    }
}

fn piece_told(piece: &ChatPiece) -> Bytes {
    match piece {
        ChatPiece::Delta(content) => sent("delta", &json!({ "content": content })),
        ChatPiece::Event(event) => sent("event", event),
    }
}

/// Renders one server-sent event (WHATWG HTML, section 9.2). The JSON contains no line breaks.
fn sent(kind: &str, body: &impl Serialize) -> Bytes {
    let body = serde_json::to_string(body).expect("texts and plain values are JSON");
    Bytes::from(format!("event: {kind}\ndata: {body}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_piece_comes_before_the_end() {
        let (out, pieces) = mpsc::channel(PIECES);
        let work: Work = Box::pin(async move {
            for text in ["a", "b"] {
                out.send(ChatPiece::Delta(text.into())).await.unwrap();
            }
            Ok(ChatResponse::default())
        });
        let ticks = interval_at(tokio::time::Instant::now() + STILL_THERE, STILL_THERE);
        let mut telling = StreamedAnswer { first: None, pieces, work: Some(work), ticks };
        let mut kinds = Vec::new();
        while let Some(told) = telling.next().await {
            let told = String::from_utf8(told.to_vec()).unwrap();
            kinds.push(told.lines().next().unwrap().to_owned());
        }
        assert_eq!(kinds, ["event: delta", "event: delta", "event: done"]);
    }
}
