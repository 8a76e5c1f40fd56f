//! REST API of the calls that wait for a person's yes: they are listed, and can be dropped. Not for agreeing: only the person
//! who was asked can do that.

use actix_web::{HttpResponse, web};
use hearken_dialogue::tools::waiting::WaitingCalls;
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::AccessControl;
use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, RouteResult, refusal, store_failed};
use crate::words;

/// Path of these calls.
pub(crate) const PATH: &str = "/api/tools/waiting";

/// A call that waits.
#[derive(Serialize, ToSchema)]
struct WaitingShown {
    /// Kind of the client.
    #[schema(value_type = words::TurnKind)]
    kind: &'static str,
    /// Id of the device or session.
    client: String,
    /// Name of the device; empty for none.
    name: String,
    /// Name of the tool at its source.
    tool: String,
    source: String,
    /// Arguments, as the model wrote them.
    arguments: String,
    /// What the person was asked.
    question: String,
    /// Time in which they can agree.
    seconds_left: u64,
}

/// All calls that wait at this instance, the oldest first.
#[derive(Serialize, ToSchema)]
struct AllWaiting {
    waiting: Vec<WaitingShown>,
}

/// Call that is not to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dropping {
    /// Id of the device or session.
    client: String,
    /// `true`.
    drop: bool,
}

/// Number of calls that were dropped.
#[derive(Serialize, ToSchema)]
struct Dropped {
    dropped: u8,
}

/// Lists the calls that wait for a person's yes (`GET /api/tools/waiting`).
#[utoipa::path(get, path = "/api/tools/waiting", tag = "tools",
    responses((status = 200, body = AllWaiting), Faults))]
pub(crate) async fn list(
    _: Operator,
    calls: web::Data<WaitingCalls>,
    access: web::Data<AccessControl>,
) -> RouteResult {
    let mut waiting = Vec::new();
    for (call, left) in calls.all() {
        let device = if call.kind == "voice" {
            let found = access.store.device(&DeviceId::new(&call.client)).await;
            found.map_err(|error| store_failed(&error))?
        } else {
            None
        };
        waiting.push(WaitingShown {
            kind: call.kind,
            client: call.client,
            name: device.map(|device| device.name).unwrap_or_default(),
            tool: call.tool,
            source: call.source,
            arguments: call.arguments,
            question: call.question,
            seconds_left: left.as_secs(),
        });
    }
    Ok(HttpResponse::Ok().json(AllWaiting { waiting }))
}

/// Drops the call of a client: it is not made, even if the person agrees (`POST /api/tools/waiting`).
#[utoipa::path(post, path = "/api/tools/waiting", tag = "tools", request_body = Dropping,
    responses((status = 200, body = Dropped), Faults))]
pub(crate) async fn drop_one(
    _: Operator,
    body: JsonBody<Dropping>,
    calls: web::Data<WaitingCalls>,
) -> RouteResult {
    let Dropping { client, drop } = body.0;
    if !drop {
        let about = "`drop` is true: only the person who was asked can agree";
        return Err(refusal(Fault::BadRequest, about));
    }
    Ok(HttpResponse::Ok().json(Dropped { dropped: calls.drop_call(&client).into() }))
}
