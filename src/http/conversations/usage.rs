//! REST API of usage and of reached limits. Not for counting.

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

/// Maximum number of days in a report.
const MOST_DAYS: u16 = 400;
/// Default number of days in a report.
const DAYS: u16 = 30;

/// Usage totals.
#[derive(Serialize, ToSchema)]
struct Sums {
    /// Number of turns.
    turns: u64,
    /// Number of these turns that were refused because of a limit.
    refused: u64,
    /// Prompt tokens.
    prompt_tokens: u64,
    /// Completion tokens.
    completion_tokens: u64,
    /// Recognised speech, in seconds.
    heard_seconds: f64,
    /// Speech sent to clients, in seconds.
    said_seconds: f64,
    /// Synthesised characters.
    said_chars: u64,
    /// Cost, in `currency`.
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

/// Limits per day; 0 for no limit.
#[derive(Serialize, ToSchema)]
struct LimitsShown {
    /// Prompt and completion tokens.
    tokens: u64,
    /// Recognised and synthesised speech, in seconds.
    seconds: u64,
    /// Cost, in `currency`.
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

/// Daily limits.
#[derive(Serialize, ToSchema)]
struct AllLimits {
    /// Limits of each device.
    device: LimitsShown,
    /// Limits of all clients together.
    total: LimitsShown,
}

/// Limit that is reached today.
#[derive(Serialize, ToSchema)]
struct ReachedLimit {
    /// Scope of the limit.
    #[schema(value_type = words::LimitOf)]
    of: LimitOf,
    /// Id of the device or role; empty for the total.
    id: String,
    /// Limited quantity.
    #[schema(value_type = words::Limited)]
    limit: Limited,
}

/// Usage of one day.
#[derive(Serialize, ToSchema)]
struct OfDay {
    /// Day, as `2026-01-31`.
    day: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Usage of one device.
#[derive(Serialize, ToSchema)]
struct OfDevice {
    /// Id of the device; empty for deleted devices.
    client: String,
    /// Name of the device; empty for none.
    name: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Usage of one role.
#[derive(Serialize, ToSchema)]
struct OfRole {
    /// Id of the role; empty for none.
    role_id: String,
    /// Name of the role; empty if it was deleted.
    name: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Usage of one kind of clients.
#[derive(Serialize, ToSchema)]
struct OfKind {
    /// Kind of clients.
    #[schema(value_type = words::UsageKind)]
    kind: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Usage report.
#[derive(Serialize, ToSchema)]
struct UsageShown {
    /// Current day in the server's time zone.
    today: String,
    /// First day of the report.
    from: String,
    /// Currency of all prices; may be empty.
    currency: String,
    /// Daily limits.
    limits: AllLimits,
    /// Usage of the current day.
    used_today: Sums,
    /// Limits that are reached today.
    reached: Vec<ReachedLimit>,
    /// Days with usage, oldest first.
    days: Vec<OfDay>,
    /// Devices, highest cost first; at most 200.
    devices: Vec<OfDevice>,
    /// Roles, highest cost first; at most 200.
    roles: Vec<OfRole>,
    /// Kinds of clients, highest cost first.
    kinds: Vec<OfKind>,
}

/// Returns the usage of recent days, and the limits that are reached today.
#[utoipa::path(get, path = "/api/usage", tag = "usage",
    params(("days" = Option<u16>, Query, minimum = 1, maximum = 400, description = "including today; 30 if omitted")),
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
