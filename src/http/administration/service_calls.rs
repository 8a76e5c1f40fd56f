//! REST API of the last calls of the services of a turn. Not for what is kept of them.

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_base::ms::in_ms;
use hearken_proto::fault::Fault;
use hearken_providers::{CallContent, CallLog, CallOutcome, LoggedCall, MOST_CALLS, TurnService};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::extract::Operator;
use crate::http::fault::{Faults, RouteResult, refusal};
use crate::http::params::{number, text};

/// Calls that are told where nobody asks for another number.
const USUAL: usize = 50;

/// A call of a service.
#[derive(Serialize, ToSchema)]
struct CallShown {
    /// Number among all calls, from 1.
    number: u64,
    service: TurnService,
    #[schema(value_type = String, format = DateTime)]
    began: Timestamp,
    /// Time until the first piece of the answer.
    #[schema(required)]
    first_ms: Option<u64>,
    /// Time until its end.
    #[schema(required)]
    total_ms: Option<u64>,
    outcome: CallOutcome,
    /// Why it failed.
    #[schema(required)]
    error: Option<String>,
    sent: CallContent,
    got: CallContent,
}

impl From<LoggedCall> for CallShown {
    fn from(call: LoggedCall) -> Self {
        let LoggedCall { number, service, began, first, total, outcome, error, sent, got } = call;
        let first_ms = first.map(in_ms);
        let total_ms = total.map(in_ms);
        Self { number, service, began, first_ms, total_ms, outcome, error, sent, got }
    }
}

/// The last calls, newest first.
#[derive(Serialize, ToSchema)]
struct CallsShown {
    /// False if texts are left out, because `journal.words` is false.
    words: bool,
    calls: Vec<CallShown>,
}

/// Tells the last calls of the services of a turn: what was sent, what came back (`GET /api/services/calls`).
#[utoipa::path(get, path = "/api/services/calls", tag = "server",
    params(("service" = Option<TurnService>, Query,),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 200)),
    responses((status = 200, body = CallsShown), Faults))]
pub(crate) async fn list(
    _: Operator,
    request: HttpRequest,
    log: web::Data<CallLog>,
) -> RouteResult {
    let service = match text(&request, "service", Fault::BadRequest)?.as_deref() {
        None => None,
        Some("asr") => Some(TurnService::Asr),
        Some("llm") => Some(TurnService::Llm),
        Some("tts") => Some(TurnService::Tts),
        Some(_) => {
            return Err(refusal(Fault::BadRequest, "`service` is `asr`, `llm` or `tts`"));
        }
    };
    let limit = number(&request, "limit", 1..=MOST_CALLS, Fault::BadRequest)?;
    let calls = log.last(service, limit.unwrap_or(USUAL)).into_iter().map(CallShown::from);
    let words = log.keeps_words();
    let calls = calls.collect();
    Ok(HttpResponse::Ok().json(CallsShown { words, calls }))
}
