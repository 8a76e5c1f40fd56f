//! REST API of the history: searching, listening, exporting and deleting turns. Not for storing them.

use actix_web::http::header::{CONTENT_DISPOSITION, ContentType};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::stream::unfold;
use hearken_base::ms::in_ms;
use hearken_ports::role::{Keep, RoleSettings};
use hearken_ports::store::{HistoryFilter, HistoryPart, HistoryTurn, Side, SoundPlace, StoreError};
use hearken_proto::fault::Fault;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::history::trial::{TrialAnswer, TrialError, Trials};
use crate::history::{History, recording, sound};
use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, log_outage, refusal, store_failed};
use crate::http::lasting_access::{AtEnd, LastingAccess};
use crate::http::params::{number, only, text};
use crate::turn_json::{self, TurnJson};
use crate::words;

/// Path of one turn.
pub(crate) const ONE: &str = "/api/history/{id}";
/// Default and maximum number of turns in a list.
const USUAL: u32 = 50;
const MOST: u32 = 200;
/// Maximum number of clients in the summary.
const MOST_CLIENTS: u32 = 200;
/// Maximum length of a search text, in characters.
const MOST_CHARS: usize = 200;
/// Number of turns that an export reads at a time.
const AT_ONCE: u32 = 200;

/// Turn in the history.
#[derive(Serialize, ToSchema)]
#[schema(as = KeptTurn)]
pub(crate) struct ListedTurn {
    #[serde(flatten)]
    turn: TurnJson,
    /// Stored audio.
    audio: Sounds,
}

/// Stored audio of a turn.
#[derive(Serialize, ToSchema)]
struct Sounds {
    /// Audio of the user; null if it is not stored.
    #[schema(required)]
    heard: Option<SoundShown>,
    /// Audio of the answer; null if it is not stored.
    #[schema(required)]
    said: Option<SoundShown>,
}

/// Position of audio on the turn's timeline.
#[derive(Serialize, ToSchema)]
struct SoundShown {
    /// Start, in milliseconds since the start of the turn; negative for speech before it.
    start_ms: i64,
    /// Length, in milliseconds.
    length_ms: i64,
}

/// Page of the history.
#[derive(Serialize, ToSchema)]
struct HistoryPage {
    /// Turns, newest first.
    turns: Vec<ListedTurn>,
    /// Value of `before` for the next page; null on the last page.
    #[schema(required)]
    next: Option<i64>,
}

/// Exported part of the history.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; it is written turn by turn")]
struct HistoryExport {
    /// Turns, newest first.
    turns: Vec<ListedTurn>,
}

/// Summary of the history.
#[derive(Serialize, ToSchema)]
struct HistoryShown {
    /// Content that is stored of turns that end from now on.
    #[schema(value_type = words::Keep)]
    keep: Keep,
    /// Retention, in days; 0 for unlimited.
    retention_days: u32,
    /// Number of stored turns.
    turns: u64,
    /// Size of stored audio, in bytes.
    audio_bytes: u64,
    /// Start time of the oldest turn, RFC 3339; null if no turns are stored.
    #[schema(required)]
    oldest: Option<String>,
    /// Clients, the one with the latest turn first; at most 200.
    clients: Vec<ClientShown>,
}

/// Client with stored turns.
#[derive(Serialize, ToSchema)]
struct ClientShown {
    /// Id of the device or session.
    client: String,
    /// Kind of the client.
    #[schema(value_type = words::TurnKind)]
    kind: String,
    /// Number of its stored turns.
    turns: u64,
    /// Start time of its last turn, RFC 3339.
    last: String,
}

/// Result of a deletion.
#[derive(Serialize, ToSchema)]
struct Deleted {
    /// Number of deleted turns.
    deleted: u64,
}

impl From<HistoryTurn> for ListedTurn {
    fn from(turn: HistoryTurn) -> Self {
        let shown = |side| {
            let SoundPlace { start_ms, length_ms, .. } =
                *turn.sounds.iter().find(|s| s.side == side)?;
            Some(SoundShown { start_ms, length_ms })
        };
        let audio = Sounds { heard: shown(Side::Heard), said: shown(Side::Said) };
        let words = |words: String| Some(words).filter(|words| !words.is_empty());
        let id = Uuid::parse_str(&turn.turn_id);
        Self {
            turn: TurnJson {
                trace_id: id.map(|id| turn_json::trace_id(&id)).unwrap_or_default(),
                id: turn.turn_id,
                kind: turn.kind.into(),
                client: turn.client,
                began: turn.began.to_string(),
                state: "ended".into(),
                outcome: Some(turn.outcome.into()),
                heard: words(turn.heard),
                said: words(turn.said),
                timing: serde_json::from_str(&turn.timing).unwrap_or_default(),
            },
            audio,
        }
    }
}

/// Parameters that select turns.
const SELECTING: [&str; 5] = ["client", "kind", "outcome", "q", "before"];

/// Parses the filter of a request, which may also have these parameters. An unknown one is refused:
/// ignored, it would select the turns of others.
fn filter(request: &HttpRequest, others: &[&str]) -> Result<HistoryFilter, Refusal> {
    only(request, &[&SELECTING[..], others].concat())?;
    let word = |name| text(request, name, Fault::BadRequest).map(Option::unwrap_or_default);
    let words = word("q")?;
    if words.chars().count() > MOST_CHARS {
        let about = format!("`q` has at most {MOST_CHARS} characters");
        return Err(refusal(Fault::BadRequest, &about));
    }
    let before = number(request, "before", 1..=i64::MAX, Fault::BadRequest)?;
    let client = word("client")?.to_lowercase();
    let kind = word("kind")?;
    let outcome = word("outcome")?;
    Ok(HistoryFilter { client, kind, outcome, words, before })
}

fn no_such_turn() -> Refusal {
    refusal(Fault::NotFound, "no such turn in the history")
}

/// Returns a summary of the history: the stored turns, the retention, and the clients.
#[utoipa::path(get, path = "/api/history/summary", tag = "history",
    responses((status = 200, body = HistoryShown), Faults))]
pub(crate) async fn summary(_: Operator, history: web::Data<History>) -> RouteResult {
    let all = history.store().history_summary(MOST_CLIENTS).await.map_err(|e| store_failed(&e))?;
    let settings = history.settings();
    let clients = all.clients.into_iter().map(|of| ClientShown {
        client: of.client,
        kind: of.kind,
        turns: of.turns,
        last: of.last.to_string(),
    });
    Ok(HttpResponse::Ok().json(HistoryShown {
        keep: settings.keep,
        retention_days: settings.retention_days,
        turns: all.turns,
        audio_bytes: all.sound_bytes,
        oldest: all.oldest.map(|oldest| oldest.to_string()),
        clients: clients.collect(),
    }))
}

/// Lists stored turns, newest first; `q` searches the words of users and answers, ignoring case.
#[utoipa::path(get, path = "/api/history", tag = "history",
    params(("client" = Option<String>, Query,), ("kind" = Option<String>, Query,),
        ("outcome" = Option<String>, Query,), ("q" = Option<String>, Query,),
        ("before" = Option<i64>, Query,), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200)),
    responses((status = 200, body = HistoryPage), Faults))]
pub(crate) async fn list(
    _: Operator,
    request: HttpRequest,
    history: web::Data<History>,
) -> RouteResult {
    let filter = filter(&request, &["limit"])?;
    let limit = number(&request, "limit", 1..=MOST, Fault::BadRequest)?.unwrap_or(USUAL);
    // One extra turn shows whether there is another page.
    let mut turns =
        history.store().turns(&filter, limit + 1).await.map_err(|e| store_failed(&e))?;
    let more = turns.len() > limit as usize;
    turns.truncate(limit as usize);
    let next = turns.last().map(|turn| turn.number).filter(|_| more);
    let turns = turns.into_iter().map(ListedTurn::from).collect();
    Ok(HttpResponse::Ok().json(HistoryPage { turns, next }))
}

/// Returns a stored turn.
#[utoipa::path(get, path = "/api/history/{id}", tag = "history", params(("id" = String, Path,)),
    responses((status = 200, body = ListedTurn), Faults))]
pub(crate) async fn get(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    let turn = history.store().turn(&id).await.map_err(|e| store_failed(&e))?;
    let turn = turn.ok_or_else(no_such_turn)?;
    Ok(HttpResponse::Ok().json(ListedTurn::from(turn)))
}

/// Returns the audio of the user in a turn, as a WAV file.
#[utoipa::path(get, path = "/api/history/{id}/heard.wav", tag = "history", params(("id" = String, Path,)),
    responses((status = 200, body = Vec<u8>, content_type = "audio/wav"), Faults))]
pub(crate) async fn heard(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    wav(&id, Side::Heard, &history).await
}

/// Returns the audio of the answer in a turn, as a WAV file with the answer's pauses.
#[utoipa::path(get, path = "/api/history/{id}/said.wav", tag = "history", params(("id" = String, Path,)),
    responses((status = 200, body = Vec<u8>, content_type = "audio/wav"), Faults))]
pub(crate) async fn said(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    wav(&id, Side::Said, &history).await
}

/// Returns a turn as a recording for `hearken replay`, with its transcript as the expected one; 404
/// if the audio of the user is not stored.
#[utoipa::path(get, path = "/api/history/{id}/recording.jsonl", tag = "history", params(("id" = String, Path,)),
    responses((status = 200, body = String, content_type = "application/x-ndjson"), Faults))]
pub(crate) async fn recording(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    let store = history.store();
    let turn = store.turn(&id).await.map_err(|e| store_failed(&e))?.ok_or_else(no_such_turn)?;
    let heard = store.sound(&id, Side::Heard).await.map_err(|e| store_failed(&e))?;
    let about = "the audio of the user is not stored for this turn";
    let heard = heard.ok_or_else(|| refusal(Fault::NotFound, about))?;
    let said = store.sound(&id, Side::Said).await.map_err(|e| store_failed(&e))?;
    let name = format!("attachment; filename=\"hearken-{}.jsonl\"", turn.turn_id);
    let file = recording::recording(&turn, &heard, said.as_deref()).render();
    Ok(HttpResponse::Ok()
        .content_type("application/x-ndjson")
        .insert_header((CONTENT_DISPOSITION, name))
        .body(file))
}

async fn wav(id: &str, side: Side, history: &History) -> RouteResult {
    let found = history.store().sound(id, side).await.map_err(|e| store_failed(&e))?;
    let packets = found.ok_or_else(no_such_turn)?;
    let file = web::block(move || sound::wav(&packets).ok()).await.ok().flatten();
    let file = file.ok_or_else(|| refusal(Fault::Internal, "the sound cannot be decoded"))?;
    Ok(HttpResponse::Ok().content_type("audio/wav").body(file))
}

/// Deletes a turn permanently.
#[utoipa::path(delete, path = "/api/history/{id}", tag = "history", params(("id" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn delete(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    let part = HistoryPart::Turn(id.into_inner());
    let deleted = history.delete(&part).await.map_err(|e| store_failed(&e))?;
    if deleted == 0 {
        return Err(no_such_turn());
    }
    tracing::info!(turns = deleted, "deleted a part of the history");
    Ok(HttpResponse::NoContent().finish())
}

/// Deletes all turns of a client (`client`), or the whole history (`all=true`), permanently.
#[utoipa::path(delete, path = "/api/history", tag = "history",
    params(("client" = Option<String>, Query,), ("all" = Option<bool>, Query,)),
    responses((status = 200, body = Deleted), Faults))]
pub(crate) async fn delete_many(
    _: Operator,
    request: HttpRequest,
    history: web::Data<History>,
) -> RouteResult {
    only(&request, &["client", "all"])?;
    let client = text(&request, "client", Fault::BadRequest)?;
    let all = text(&request, "all", Fault::BadRequest)?;
    let part = match (client, all.as_deref()) {
        (Some(client), None) => HistoryPart::Client(client.to_lowercase()),
        (None, Some("true")) => HistoryPart::All,
        _ => {
            let about = "say what to delete: give a `client`, or `all=true` for everything";
            return Err(refusal(Fault::BadRequest, about));
        }
    };
    let deleted = history.delete(&part).await.map_err(|e| store_failed(&e))?;
    tracing::info!(turns = deleted, "deleted a part of the history");
    Ok(HttpResponse::Ok().json(Deleted { deleted }))
}

/// Request to answer a stored turn again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Again {
    /// Instructions for the model, at most 8,000 characters; empty for the configured ones.
    system_prompt: String,
    /// Name of the model at the configured address, at most 200 characters; empty for the configured one.
    model: String,
}

/// Answer of a trial.
#[derive(Serialize, ToSchema)]
pub(crate) struct TrialAnswered {
    /// Text of the answer.
    answer: String,
    /// Time to the first word, in milliseconds; null if there was none.
    #[schema(required)]
    first_word_ms: Option<u64>,
    /// Total duration, in milliseconds.
    total_ms: u64,
    /// Name of the requested model; null for the configured one.
    #[schema(required)]
    model: Option<String>,
    /// Number of earlier turns of the conversation in the prompt.
    earlier_turns: usize,
}

impl TrialAnswered {
    pub(crate) fn new(done: TrialAnswer, model: String) -> Self {
        Self {
            answer: done.text,
            first_word_ms: done.first_word.map(in_ms),
            total_ms: in_ms(done.total),
            model: Some(model).filter(|model| !model.is_empty()),
            earlier_turns: done.earlier,
        }
    }
}

/// Answers the words of a stored turn again, with other instructions or another model, for comparison.
///
/// The prompt contains earlier turns of the conversation. No tools are called, and nothing is stored.
#[utoipa::path(post, path = "/api/history/{id}/again", tag = "history", params(("id" = String, Path,)),
    request_body = Again, responses((status = 200, body = TrialAnswered), Faults))]
pub(crate) async fn again(
    _: Operator,
    id: web::Path<String>,
    asked: JsonBody<Again>,
    history: web::Data<History>,
    trials: web::Data<Trials>,
) -> RouteResult {
    let Again { system_prompt, model } = asked.0;
    let model = model.trim().to_owned();
    let role = RoleSettings { system_prompt, model, ..RoleSettings::default() };
    role.check().map_err(|about| refusal(Fault::BadRequest, &about))?;
    let turn = history.store().turn(&id).await.map_err(|e| store_failed(&e))?;
    let turn = turn.ok_or_else(no_such_turn)?;
    let model = role.model.clone();
    let done = trials.repeat(history.store(), &turn, role).await.map_err(|e| not_answered(&e))?;
    Ok(HttpResponse::Ok().json(TrialAnswered::new(done, model)))
}

/// Builds the response to a trial without an answer.
pub(crate) fn not_answered(error: &TrialError) -> Refusal {
    match error {
        TrialError::Busy => refusal(Fault::Busy, &error.to_string()),
        TrialError::NoWords => refusal(Fault::Conflict, &error.to_string()),
        TrialError::LimitReached(reached) => refusal(Fault::LimitReached, &reached.to_string()),
        TrialError::Store(error) => store_failed(error),
        TrialError::Model(failed) if failed.kind.is_of_the_request() => refusal(
            Fault::BadRequest,
            "the model refuses this: check its name and the instructions",
        ),
        TrialError::Model(failed) => {
            log_outage(failed);
            refusal(Fault::Unavailable, "the model does not answer: see the log of the server")
        }
    }
}

/// Returns all matching turns, newest first, as a JSON file without audio.
#[utoipa::path(get, path = "/api/history/export", tag = "history",
    params(("client" = Option<String>, Query,), ("kind" = Option<String>, Query,),
        ("outcome" = Option<String>, Query,), ("q" = Option<String>, Query,)),
    responses((status = 200, body = HistoryExport), Faults))]
pub(crate) async fn export(
    _: Operator,
    request: HttpRequest,
    history: web::Data<History>,
) -> RouteResult {
    let mut response = HttpResponse::Ok();
    response.content_type(ContentType::json());
    response.insert_header((CONTENT_DISPOSITION, "attachment; filename=\"hearken-history.json\""));
    let export =
        Export { history: history.get_ref().clone(), filter: filter(&request, &[])?, pages: 0 };
    let access = LastingAccess::of::<Operator>(&request);
    Ok(access.stream(response, unfold(Some(export), next_page), AtEnd::Break))
}

/// State of an export.
struct Export {
    history: History,
    filter: HistoryFilter,
    /// Number of pages sent so far.
    pages: u64,
}

/// Returns the next part of an export. A store error breaks the connection, so that the client does
/// not treat the file as complete.
async fn next_page(export: Option<Export>) -> Option<(Result<Bytes, StoreError>, Option<Export>)> {
    let mut export = export?;
    let turns = match export.history.store().turns(&export.filter, AT_ONCE).await {
        Ok(turns) => turns,
        Err(error) => return Some((Err(error), None)),
    };
    let last = turns.last().map(|turn| turn.number).filter(|_| turns.len() >= AT_ONCE as usize);
    let mut part = String::from(if export.pages == 0 { "{\"turns\":[" } else { "" });
    for (place, turn) in turns.into_iter().enumerate() {
        part.push_str(if export.pages == 0 && place == 0 { "\n" } else { ",\n" });
        part.push_str(&json!(ListedTurn::from(turn)).to_string());
    }
    export.pages += 1;
    export.filter.before = last;
    if last.is_none() {
        part.push_str("\n]}\n");
    }
    Some((Ok(part.into()), last.map(|_| export)))
}
