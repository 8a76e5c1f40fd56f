//! REST API of chat sessions' worlds and snapshots, and the WebSocket of a session's events. Not for messages.

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_chat::event_stream::{WatchActor, fits};
use hearken_proto::chat::{CharactersBody, CreateSnapshot, Snapshot, SnapshotsBody};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_proto::json;
use serde_json::{Map, Value, json};

use crate::http::chat_access::{Chats, UNFIT, refusal_of, unfit};
use crate::http::extract::{Application, OwnSession};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal};
use crate::http::lasting_access::LastingAccess;
use crate::http::middleware::slot_of;
use crate::http::params;
use crate::http::request_identity::{body, query};

/// Maximum size of a request for a snapshot, in bytes.
const MAX_SNAPSHOT_BYTES: usize = 4_096;

async fn world(chats: &Chats, id: &SessionId) -> Result<Map<String, Value>, Refusal> {
    chats.service.state(id).await.map_err(|e| refusal_of(&e))
}

/// Returns a session's world as stored at the state server, which defines its fields.
#[utoipa::path(get, path = "/api/sessions/{id}/state", tag = "chat sessions", params(("id" = String, Path,)),
    responses((status = 200, body = Object, description = "any object of the state server"), Faults))]
pub(crate) async fn state(session: OwnSession, chats: web::Data<Chats>) -> RouteResult {
    Ok(HttpResponse::Ok().json(world(&chats, &session.id).await?))
}

/// Lists the characters in a session's world.
#[utoipa::path(get, path = "/api/sessions/{id}/characters", tag = "chat sessions", params(("id" = String, Path,)),
    responses((status = 200, body = CharactersBody), Faults))]
pub(crate) async fn characters(session: OwnSession, chats: web::Data<Chats>) -> RouteResult {
    let characters = match world(&chats, &session.id).await?.remove("characters") {
        Some(Value::Array(all)) => all,
        _ => Vec::new(),
    };
    Ok(HttpResponse::Ok().json(CharactersBody { characters }))
}

/// Returns the fight in a session's world, with the fields that the state server defines; `active`
/// is false if there is none.
#[utoipa::path(get, path = "/api/sessions/{id}/combat", tag = "chat sessions", params(("id" = String, Path,)),
    responses((status = 200, body = Object, description = "any object of the state server"), Faults))]
pub(crate) async fn combat(session: OwnSession, chats: web::Data<Chats>) -> RouteResult {
    let combat = world(&chats, &session.id).await?.remove("combat").filter(Value::is_object);
    Ok(HttpResponse::Ok().json(combat.unwrap_or_else(|| json!({ "active": false }))))
}

/// Creates a named snapshot of a session's current state; the body is optional.
#[utoipa::path(post, path = "/api/sessions/{id}/snapshots", tag = "chat sessions", params(("id" = String, Path,)),
    request_body = Option<CreateSnapshot>,
    responses((status = 201, body = Snapshot), Faults))]
pub(crate) async fn make_snapshot(
    session: OwnSession,
    payload: web::Payload,
    chats: web::Data<Chats>,
) -> RouteResult {
    let bytes = body(payload, MAX_SNAPSHOT_BYTES).await?;
    let wanted = json::read_optional::<CreateSnapshot>(&bytes);
    let wanted = wanted.map_err(|e| unfit(&e.about("the body")))?.unwrap_or_default();
    wanted.check().map_err(|e| unfit(&e))?;
    let made = chats.service.make_snapshot(&session.asker, &session.id, wanted).await;
    Ok(HttpResponse::Created().json(made.map_err(|e| refusal_of(&e))?))
}

/// Lists a session's snapshots, oldest first.
#[utoipa::path(get, path = "/api/sessions/{id}/snapshots", tag = "chat sessions", params(("id" = String, Path,)),
    responses((status = 200, body = SnapshotsBody), Faults))]
pub(crate) async fn snapshots(session: OwnSession, chats: web::Data<Chats>) -> RouteResult {
    let snapshots = chats.service.snapshots(&session.id).await.map_err(|e| refusal_of(&e))?;
    Ok(HttpResponse::Ok().json(SnapshotsBody { snapshots }))
}

/// Restores a session from a snapshot: its dialogue, and its world if the state server supports it.
#[utoipa::path(post, path = "/api/sessions/{id}/snapshots/{snapshot_id}/restore", tag = "chat sessions",
    params(("id" = String, Path,), ("snapshot_id" = String, Path,)),
    responses((status = 200, body = Snapshot), Faults))]
pub(crate) async fn go_back(
    session: OwnSession,
    path: web::Path<(String, String)>,
    chats: web::Data<Chats>,
) -> RouteResult {
    let (_, snapshot_id) = path.into_inner();
    let back = chats.service.restore_snapshot(&session.id, &snapshot_id.to_lowercase()).await;
    Ok(HttpResponse::Ok().json(back.map_err(|e| refusal_of(&e))?))
}

/// Opens the WebSocket of a session's events: `GET
/// /api/sessions/{id}/ws[?types=combat.*,dice.rolled][&last_event_id=ID]`.
pub(crate) async fn watch(
    session: OwnSession,
    request: HttpRequest,
    payload: web::Payload,
    chats: web::Data<Chats>,
) -> RouteResult {
    let types: Vec<String> = params::text(&request, "types", UNFIT)?
        .map_or_else(Vec::new, |types| {
            types.split(',').map(|kind| kind.trim().to_owned()).collect()
        });
    if !fits(&types) {
        return Err(unfit(
            &"`types` has at most 64 entries of 1 to 128 bytes, separated by commas",
        ));
    }
    let service = &chats.service;
    let asker = session.asker.clone();
    let session = service.session(&session.id).await.map_err(|e| refusal_of(&e))?.id;
    let full = |full| refusal(Fault::Busy, &format!("watchers (`chat.max_watchers`): {full}"));
    let slot = slot_of(&request, &chats.watch_slots).map_err(full)?;
    let header = request.headers().get("last-event-id").and_then(|v| v.to_str().ok());
    let after = header.map(str::to_owned).or_else(|| query(&request, "last_event_id"));
    // A blank cursor means: from now on.
    let after = after.filter(|id| !id.trim().is_empty());
    let watch = service.events.watch(&session, after.as_deref()).await.map_err(|error| {
        tracing::warn!(error, "cannot watch a session");
        refusal(Fault::Unavailable, "events are unavailable: try again later")
    })?;
    let process = service.tasks.process().clone();
    // After a logout, the client's network may still open the route, but for another owner.
    let access = LastingAccess::of_same(&request, move |now: &Application| now.0 == asker);
    let unauthorized = access.ended();
    let ended = Box::pin(async move {
        tokio::select! {
            () = process.cancelled_owned() => Fault::GoingAway,
            () = unauthorized => Fault::Unauthorized,
        }
    });
    let actor = WatchActor::new(session, types, watch, chats.watching, slot, ended);
    access
        .socket(actor, &request, payload)
        .map_err(|_| refusal(Fault::BadRequest, "this is not a WebSocket handshake"))
}
