//! REST API of recent calls of the services of turns. Not for which calls are logged.

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

/// Default number of calls in a response.
const USUAL: usize = 50;

/// Call of a service.
#[derive(Serialize, ToSchema)]
struct CallShown {
    /// Sequential number of the call, from 1.
    number: u64,
    /// Called service.
    service: TurnService,
    /// Start time.
    #[schema(value_type = String, format = DateTime)]
    began: Timestamp,
    /// Time to the first part of the response, in milliseconds; null if there was none.
    #[schema(required)]
    first_ms: Option<u64>,
    /// Total duration, in milliseconds; null while the call is in progress.
    #[schema(required)]
    total_ms: Option<u64>,
    /// Outcome of the call.
    outcome: CallOutcome,
    /// Reason of the failure; null if the call did not fail.
    #[schema(required)]
    error: Option<String>,
    /// Content of the request.
    sent: CallContent,
    /// Content of the response.
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

/// Recent calls of services.
#[derive(Serialize, ToSchema)]
struct CallsShown {
    /// False if texts are omitted because `expert.journal.words` is false.
    words: bool,
    /// Calls, newest first.
    calls: Vec<CallShown>,
}

/// Returns recent calls of the recogniser, the model and the synthesiser, with their contents.
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
