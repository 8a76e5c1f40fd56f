//! REST API of what was used, and of the limits that are reached. Not for counting.

use std::collections::HashMap;

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_dialogue::usage::UsageSettings;
use hearken_ports::usage::{DailyLimits, LimitOf, Limited, Used};
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::extract::Operator;
use crate::http::fault::{Faults, RouteResult, store_failed};
use crate::http::params::number;
use crate::http::{AccessControl, ToolsApi};
use crate::usage::{DailyUsage, UsageReport};
use crate::words;

/// Most days that are told.
const MOST_DAYS: u16 = 400;
/// Days that are told where nobody asks for another number.
const DAYS: u16 = 30;

/// Sums of what was used.
#[derive(Serialize, ToSchema)]
struct Sums {
    /// Turns.
    turns: u64,
    /// Those of them that a limit refused.
    refused: u64,
    /// Tokens that models read.
    prompt_tokens: u64,
    /// Tokens that they wrote.
    completion_tokens: u64,
    /// Seconds of speech that recognisers were given.
    heard_seconds: f64,
    /// Seconds of speech that were sent.
    said_seconds: f64,
    /// Characters that were synthesised.
    said_chars: u64,
    /// Cost, in the currency of the prices.
    cost: f64,
}

#[allow(clippy::cast_precision_loss, reason = "no sum has 2^52 milliseconds")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

impl From<&Used> for Sums {
    fn from(used: &Used) -> Self {
        Self {
            turns: used.turns,
            refused: used.refused,
            prompt_tokens: used.prompt_tokens,
            completion_tokens: used.completion_tokens,
            heard_seconds: seconds(used.heard_ms),
            said_seconds: seconds(used.said_ms),
            said_chars: used.said_chars,
            cost: used.cost(),
        }
    }
}

/// Most that may be used in a day; 0 for no limit.
#[derive(Serialize, ToSchema)]
struct LimitsShown {
    tokens: u64,
    seconds: u64,
    cost: f64,
}

impl From<DailyLimits> for LimitsShown {
    fn from(limits: DailyLimits) -> Self {
        let DailyLimits { tokens, seconds, cost } = limits;
        let tokens = tokens.unwrap_or_default();
        let seconds = seconds.unwrap_or_default();
        Self { tokens, seconds, cost: cost.unwrap_or_default() }
    }
}

/// Limits of one device, and of all together.
#[derive(Serialize, ToSchema)]
struct AllLimits {
    device: LimitsShown,
    total: LimitsShown,
}

/// Limit that is reached today.
#[derive(Serialize, ToSchema)]
struct ReachedLimit {
    /// Whose limit it is.
    #[schema(value_type = words::LimitOf)]
    of: LimitOf,
    /// Id of the device or role; empty for all together.
    id: String,
    /// What is limited.
    #[schema(value_type = words::Limited)]
    limit: Limited,
}

/// Sums of one day.
#[derive(Serialize, ToSchema)]
struct OfDay {
    /// Day, as `2026-01-31`.
    day: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Sums of one device.
#[derive(Serialize, ToSchema)]
struct OfDevice {
    /// Id of the device; empty for forgotten ones.
    client: String,
    /// Its name; empty for none.
    name: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Sums of one role.
#[derive(Serialize, ToSchema)]
struct OfRole {
    /// Id of the role; empty for none.
    role_id: String,
    /// Its name; empty if it is gone.
    name: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Sums of one kind of clients.
#[derive(Serialize, ToSchema)]
struct OfKind {
    #[schema(value_type = words::UsageKind)]
    kind: String,
    #[serde(flatten)]
    sums: Sums,
}

/// What was used.
#[derive(Serialize, ToSchema)]
struct UsageShown {
    /// Local day of the server.
    today: String,
    /// First day of the sums.
    from: String,
    /// Currency of all prices; may be empty.
    currency: String,
    limits: AllLimits,
    used_today: Sums,
    reached: Vec<ReachedLimit>,
    /// Days with use, the oldest first.
    days: Vec<OfDay>,
    /// Devices, the dearest first, at most 200.
    devices: Vec<OfDevice>,
    /// Roles, the dearest first, at most 200.
    roles: Vec<OfRole>,
    /// Kinds of clients, the dearest first.
    kinds: Vec<OfKind>,
}

/// Tells what was used in the last days, and which limits are reached (`GET /api/usage`).
#[utoipa::path(get, path = "/api/usage", tag = "usage",
    params(("days" = Option<u16>, Query, minimum = 1, maximum = 400, description = "with today; 30")),
    responses((status = 200, body = UsageShown), Faults))]
pub(crate) async fn report(
    _: Operator,
    request: HttpRequest,
    usage: web::Data<DailyUsage>,
    access: web::Data<AccessControl>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let days = number(&request, "days", 1..=MOST_DAYS, Fault::BadRequest)?;
    let report = usage.report(days.unwrap_or(DAYS)).await.map_err(|error| store_failed(&error))?;
    let roles = api.registry.roles().await.map_err(|error| store_failed(&error))?;
    let limits: Vec<_> =
        roles.iter().map(|role| (role.role_id.clone(), role.settings.limits())).collect();
    let meter = usage.meter();
    let reached = meter.all_reached(&limits).into_iter();
    let reached = reached.map(|(of, id, limit)| ReachedLimit { of, id, limit }).collect();
    let mut names = HashMap::new();
    for (client, _) in &report.groups[1] {
        let device = access.store.device(&DeviceId::new(client)).await;
        if let Some(device) = device.map_err(|error| store_failed(&error))? {
            names.insert(client.clone(), device.name);
        }
    }
    names.extend(roles.into_iter().map(|role| (role.role_id, role.name)));
    let today = meter.used_today();
    Ok(HttpResponse::Ok().json(shown(report, &meter.settings().get(), &today, reached, &names)))
}

fn shown(
    report: UsageReport,
    settings: &UsageSettings,
    today: &Used,
    reached: Vec<ReachedLimit>,
    names: &HashMap<String, String>,
) -> UsageShown {
    let name = |id: &String| names.get(id).cloned().unwrap_or_default();
    let [days, devices, roles, kinds] = report.groups;
    let of_device = |(client, used): (String, Used)| OfDevice {
        name: name(&client),
        client,
        sums: (&used).into(),
    };
    let of_role = |(role_id, used): (String, Used)| OfRole {
        name: name(&role_id),
        role_id,
        sums: (&used).into(),
    };
    UsageShown {
        today: report.today.to_string(),
        from: report.from.to_string(),
        currency: settings.currency.clone(),
        limits: AllLimits { device: settings.of_device().into(), total: settings.of_all().into() },
        used_today: today.into(),
        reached,
        days: days
            .iter()
            .map(|(day, used)| OfDay { day: day.clone(), sums: used.into() })
            .collect(),
        devices: devices.into_iter().map(of_device).collect(),
        roles: roles.into_iter().map(of_role).collect(),
        kinds: kinds
            .into_iter()
            .map(|(kind, used)| OfKind { kind, sums: (&used).into() })
            .collect(),
    }
}
