//! REST API of what is kept of conversations: searching, listening, exporting and deleting. Not for keeping it.

use actix_web::http::header::{CONTENT_DISPOSITION, ContentType};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use hearken_base::ms::in_ms;
use hearken_ports::role::{Keep, RoleSettings};
use hearken_ports::store::{
    HistoryFilter, HistoryPart, HistoryTurn, Side, SoundPlace, StoreError, StoreErrorKind,
};
use hearken_proto::fault::Fault;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::history::trial::{TrialAnswer, TrialError, Trials};
use crate::history::{History, recording, sound};
use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, log_outage, refusal, store_failed};
use crate::http::lasting_access::refused;
use crate::http::params::{number, only, text};
use crate::turn_json::{self, TurnJson};
use crate::words;

/// Path of one turn.
pub(crate) const ONE: &str = "/api/history/{id}";
/// Number of turns in a list where none is asked for, and at most.
const USUAL: u32 = 50;
const MOST: u32 = 200;
/// Most clients of the summary.
const MOST_CLIENTS: u32 = 200;
/// Longest words that are searched, in characters.
const MOST_CHARS: usize = 200;
/// Turns that an export reads at a time.
const AT_ONCE: u32 = 200;

/// A turn that is kept.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeptTurn {
    #[serde(flatten)]
    turn: TurnJson,
    /// Its sounds.
    audio: Sounds,
}

/// Sounds of a turn.
#[derive(Serialize, ToSchema)]
struct Sounds {
    /// What the person said.
    #[schema(required)]
    heard: Option<SoundShown>,
    /// What was answered.
    #[schema(required)]
    said: Option<SoundShown>,
}

/// Where a sound is on the turn's timeline, in milliseconds since the turn began. What was said before that has a negative
/// beginning.
#[derive(Serialize, ToSchema)]
struct SoundShown {
    start_ms: i64,
    length_ms: i64,
}

/// Part of the history.
#[derive(Serialize, ToSchema)]
struct HistoryPage {
    /// Newest first.
    turns: Vec<KeptTurn>,
    /// Value of `before` for the next page; `null` if there is none.
    #[schema(required)]
    next: Option<i64>,
}

/// Exported part of the history.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; it is written turn by turn")]
struct HistoryExport {
    /// Newest first.
    turns: Vec<KeptTurn>,
}

/// What is kept in all.
#[derive(Serialize, ToSchema)]
struct HistoryShown {
    /// How much is kept of turns that end from now on.
    #[schema(value_type = words::Keep)]
    keep: Keep,
    /// Days after which a turn is deleted; 0 for never.
    retention_days: u32,
    /// Number of turns.
    turns: u64,
    /// Size of their sound.
    audio_bytes: u64,
    /// When the oldest began, RFC 3339.
    #[schema(required)]
    oldest: Option<String>,
    /// Clients, those with the latest turn first; at most 200.
    clients: Vec<ClientShown>,
}

/// A client of whom turns are kept.
#[derive(Serialize, ToSchema)]
struct ClientShown {
    client: String,
    #[schema(value_type = words::TurnKind)]
    kind: String,
    turns: u64,
    /// When its last turn began, RFC 3339.
    last: String,
}

/// Number of turns that were deleted.
#[derive(Serialize, ToSchema)]
struct Deleted {
    deleted: u64,
}

impl From<HistoryTurn> for KeptTurn {
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

/// Reads which turns are asked for.
fn filter(request: &HttpRequest) -> Result<HistoryFilter, Refusal> {
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
    refusal(Fault::NotFound, "no such turn is kept")
}

/// Tells what is kept in all, and of whom (`GET /api/history/summary`).
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

/// Lists turns that are kept, newest first; `q` is a part of what was heard or said, in any case (`GET /api/history`).
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
    let filter = filter(&request)?;
    let limit = number(&request, "limit", 1..=MOST, Fault::BadRequest)?.unwrap_or(USUAL);
    // One more than is shown tells whether there is another page.
    let mut turns =
        history.store().turns(&filter, limit + 1).await.map_err(|e| store_failed(&e))?;
    let more = turns.len() > limit as usize;
    turns.truncate(limit as usize);
    let next = turns.last().map(|turn| turn.number).filter(|_| more);
    let turns = turns.into_iter().map(KeptTurn::from).collect();
    Ok(HttpResponse::Ok().json(HistoryPage { turns, next }))
}

/// Returns a turn that is kept (`GET /api/history/{id}`).
#[utoipa::path(get, path = "/api/history/{id}", tag = "history", params(("id" = String, Path,)),
    responses((status = 200, body = KeptTurn), Faults))]
pub(crate) async fn get(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    let turn = history.store().turn(&id).await.map_err(|e| store_failed(&e))?;
    let turn = turn.ok_or_else(no_such_turn)?;
    Ok(HttpResponse::Ok().json(KeptTurn::from(turn)))
}

/// Returns what the person said, as a WAV file (`GET /api/history/{id}/heard.wav`).
#[utoipa::path(get, path = "/api/history/{id}/heard.wav", tag = "history", params(("id" = String, Path,)),
    responses((status = 200, body = Vec<u8>, content_type = "audio/wav"), Faults))]
pub(crate) async fn heard(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    wav(&id, Side::Heard, &history).await
}

/// Returns what was answered, as a WAV file; pauses in it are those of the answer (`GET /api/history/{id}/said.wav`).
#[utoipa::path(get, path = "/api/history/{id}/said.wav", tag = "history", params(("id" = String, Path,)),
    responses((status = 200, body = Vec<u8>, content_type = "audio/wav"), Faults))]
pub(crate) async fn said(
    _: Operator,
    id: web::Path<String>,
    history: web::Data<History>,
) -> RouteResult {
    wav(&id, Side::Said, &history).await
}

/// Returns a turn as a recording that `hearken replay` plays, and whose words it expects (`GET
/// /api/history/{id}/recording.jsonl`). 404 if what was heard is not kept as sound.
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
    let about = "what was heard in this turn is not kept as sound";
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

/// Deletes a turn, at once and for good (`DELETE /api/history/{id}`).
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

/// Deletes all turns of a client (`client`), or everything (`all=true`), at once and for good (`DELETE /api/history`).
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

/// Body of a trial.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Again {
    /// Instructions of the model, at most 8,000 characters; left out, those of the configuration.
    system_prompt: String,
    /// Name of the model at the configured address, at most 200 characters; left out, the configured one.
    model: String,
}

/// Answer of a trial.
#[derive(Serialize, ToSchema)]
pub(crate) struct TrialAnswered {
    answer: String,
    /// Time until the model's first word.
    #[schema(required)]
    first_word_ms: Option<u64>,
    /// Time until the end of its answer.
    total_ms: u64,
    /// Name of the model that was asked for.
    #[schema(required)]
    model: Option<String>,
    /// Number of earlier turns of the conversation that the model was told of.
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

/// Answers the words of a turn again, with other instructions or another model, to compare. Earlier turns of the conversation
/// are told to the model; tools are not called, and nothing is kept (`POST /api/history/{id}/again`).
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

/// Returns all turns that fit, newest first, as a file of JSON, without sounds (`GET /api/history/export`).
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
    let export = Export { history: history.get_ref().clone(), filter: filter(&request)?, pages: 0 };
    // A client that reads slowly reads no further than its right reaches.
    let pages = Box::pin(unfold(Some(export), next_page));
    let ended = Box::pin(refused::<Operator>(request));
    Ok(response.streaming(unfold(Some((pages, ended)), |state| async move {
        let (mut pages, mut ended) = state?;
        tokio::select! {
            // Breaks the connection off, so that nobody takes the file for whole.
            () = &mut ended => {
                let why = "the log-in has ended";
                Some((Err(StoreError::because(StoreErrorKind::Unavailable, why)), None))
            }
            page = pages.next() => page.map(|page| (page, Some((pages, ended)))),
        }
    })))
}

/// State of an export.
struct Export {
    history: History,
    filter: HistoryFilter,
    /// Pages that were sent.
    pages: u64,
}

/// Returns the next part of an export. A store that fails breaks the connection off, so that nobody takes the file for whole.
async fn next_page(
    export: Option<Export>,
) -> Option<(Result<Bytes, hearken_ports::store::StoreError>, Option<Export>)> {
    let mut export = export?;
    let turns = match export.history.store().turns(&export.filter, AT_ONCE).await {
        Ok(turns) => turns,
        Err(error) => return Some((Err(error), None)),
    };
    let last = turns.last().map(|turn| turn.number).filter(|_| turns.len() >= AT_ONCE as usize);
    let mut part = String::from(if export.pages == 0 { "{\"turns\":[" } else { "" });
    for (place, turn) in turns.into_iter().enumerate() {
        part.push_str(if export.pages == 0 && place == 0 { "\n" } else { ",\n" });
        part.push_str(&json!(KeptTurn::from(turn)).to_string());
    }
    export.pages += 1;
    export.filter.before = last;
    if last.is_none() {
        part.push_str("\n]}\n");
    }
    Some((Ok(part.into()), last.map(|_| export)))
}
