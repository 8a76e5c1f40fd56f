//! REST API of calls pending confirmation: they can be listed and dropped. Not for confirming them:
//! only the user who was asked can do that.

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

/// Call pending confirmation.
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
    /// Name of the tool's source.
    source: String,
    /// Arguments, as the model wrote them; secrets in them are `***`.
    arguments: String,
    /// Question to the user.
    question: String,
    /// Time left for the confirmation, in seconds.
    seconds_left: u64,
}

/// All pending calls of this instance.
#[derive(Serialize, ToSchema)]
struct AllWaiting {
    /// Calls, oldest first.
    waiting: Vec<WaitingShown>,
}

/// Request to drop a pending call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dropping {
    /// Id of the device or session.
    client: String,
    /// Must be `true`.
    drop: bool,
}

/// Result of dropping a call.
#[derive(Serialize, ToSchema)]
struct Dropped {
    /// Number of dropped calls, always 1.
    dropped: u8,
}

/// Lists the calls that are pending confirmation.
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

/// Drops the pending call of a client: it is not made, even if the user confirms it. 404 if this
/// instance has none.
#[utoipa::path(post, path = "/api/tools/waiting", tag = "tools", request_body = Dropping,
    responses((status = 200, body = Dropped), Faults))]
pub(crate) async fn drop_one(
    _: Operator,
    body: JsonBody<Dropping>,
    calls: web::Data<WaitingCalls>,
) -> RouteResult {
    let Dropping { client, drop } = body.0;
    if !drop {
        let about = "`drop` must be true: only the user who was asked can confirm a call";
        return Err(refusal(Fault::BadRequest, about));
    }
    if !calls.drop_call(&client) {
        // Only the instance that asked can drop the call.
        let about = "no call of this client is pending at this instance: it was decided or has \
                     expired, or another instance asked";
        return Err(refusal(Fault::NotFound, about));
    }
    Ok(HttpResponse::Ok().json(Dropped { dropped: 1 }))
}
