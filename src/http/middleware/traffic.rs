//! Request statistics by route: counts, outcomes and durations. Not for messages on sockets.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use hdrhistogram::Histogram;
use serde::Serialize;
use utoipa::ToSchema;

/// Maximum recorded duration, in milliseconds; longer ones are recorded as this.
const MAX_MS: u64 = 600_000;
/// Route name of requests without a route.
const NO_ROUTE: &str = "(none)";
/// Method name of all unknown methods.
const OTHER: &str = "other";

/// Counts by method and route.
type Routes = BTreeMap<(&'static str, String), Route>;

/// Request statistics.
#[derive(Default)]
pub struct Traffic(Mutex<Routes>);

struct Route {
    by_status: BTreeMap<u16, u64>,
    /// Durations in milliseconds.
    took: Histogram<u64>,
}

impl Route {
    fn new() -> Self {
        let took = Histogram::new_with_bounds(1, MAX_MS, 2).expect("these bounds are allowed");
        Self { by_status: BTreeMap::new(), took }
    }
}

/// Request statistics since the start of the server.
#[derive(Serialize, ToSchema)]
pub struct TrafficShown {
    /// Fraction of requests that failed, 0 to 1; 0 if there were none.
    error_rate: f64,
    /// Number of requests that failed, with a status of 500 or above.
    errors: u64,
    /// Number of requests that were refused, with a status from 400 to 499.
    refusals: u64,
    /// Number of all requests.
    requests: u64,
    /// Statistics by method and route.
    routes: Vec<RouteTraffic>,
    /// Durations of all requests.
    took_ms: Took,
}

/// Request statistics of one route.
#[derive(Serialize, ToSchema)]
struct RouteTraffic {
    /// Numbers of requests, by status.
    by_status: BTreeMap<String, u64>,
    /// Method; empty for requests without a route.
    method: &'static str,
    /// Number of requests.
    requests: u64,
    /// Pattern of its path; `(none)` for requests without a route.
    route: String,
    /// Durations of the requests.
    took_ms: Took,
}

/// Durations, in milliseconds.
#[derive(Serialize, ToSchema)]
struct Took {
    /// Maximum.
    max: u64,
    /// Mean.
    mean: f64,
    /// Median.
    p50: u64,
    /// 90th percentile.
    p90: u64,
    /// 99th percentile.
    p99: u64,
}

impl From<&Histogram<u64>> for Took {
    fn from(took: &Histogram<u64>) -> Self {
        Self {
            max: took.max(),
            mean: took.mean(),
            p50: took.value_at_quantile(0.5),
            p90: took.value_at_quantile(0.9),
            p99: took.value_at_quantile(0.99),
        }
    }
}

impl Traffic {
    fn routes(&self) -> MutexGuard<'_, Routes> {
        // After a panic while counting, a count is at worst too low.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a finished request. The number of entries is bounded: route patterns are defined by
    /// the server, and unknown methods share one entry.
    pub(super) fn count(
        &self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        took: Duration,
    ) {
        let method = if route.is_some() { known(method) } else { "" };
        let key = (method, route.unwrap_or(NO_ROUTE).to_owned());
        let ms = u64::try_from(took.as_millis()).unwrap_or(MAX_MS);
        let mut routes = self.routes();
        let counts = routes.entry(key).or_insert_with(Route::new);
        *counts.by_status.entry(status.as_u16()).or_default() += 1;
        counts.took.saturating_record(ms.clamp(1, MAX_MS));
    }

    /// Returns the totals, and each route with its outcomes and durations.
    pub fn shown(&self) -> TrafficShown {
        let routes = self.routes();
        let mut total = 0_u64;
        let mut failed = 0_u64;
        let mut refused = 0_u64;
        let mut all = Route::new().took;
        let mut shown = Vec::new();
        for ((method, route), counts) in routes.iter() {
            for (status, count) in &counts.by_status {
                total += count;
                failed += if *status >= 500 { *count } else { 0 };
                refused += if (400..500).contains(status) { *count } else { 0 };
            }
            // Cannot fail: both histograms have the same bounds.
            all.add(&counts.took).unwrap_or_default();
            shown.push(RouteTraffic {
                by_status: counts.by_status.iter().map(|(s, n)| (s.to_string(), *n)).collect(),
                method,
                requests: counts.took.len(),
                route: route.clone(),
                took_ms: Took::from(&counts.took),
            });
        }
        TrafficShown {
            error_rate: rate(failed, total),
            errors: failed,
            refusals: refused,
            requests: total,
            routes: shown,
            took_ms: Took::from(&all),
        }
    }
}

/// Returns the name under which a method is counted.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => OTHER,
    }
}

/// Returns the fraction of failed requests.
fn rate(failed: u64, total: u64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a rate of more than 2^53 requests is near enough"
    )]
    if total == 0 { 0.0 } else { failed as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_outcome() {
        let traffic = Traffic::default();
        let ms = Duration::from_millis;
        traffic.count(&Method::GET, Some("/a"), StatusCode::OK, ms(10));
        traffic.count(&Method::GET, Some("/a"), StatusCode::BAD_GATEWAY, ms(30));
        traffic.count(&Method::PUT, None, StatusCode::NOT_FOUND, ms(0));
        let shown = json!(traffic.shown());
        assert_eq!((&shown["requests"], &shown["errors"]), (&json!(3), &json!(1)));
        assert_eq!(shown["routes"][1]["by_status"], json!({"200": 1, "502": 1}));
        assert_eq!(shown["routes"][1]["took_ms"]["max"], 30);
        assert_eq!(shown["routes"][0]["route"], NO_ROUTE);
        assert_eq!(json!(Traffic::default().shown())["error_rate"], 0.0);
    }

    #[test]
    fn invented_methods_share_one_count() {
        let traffic = Traffic::default();
        for n in 0..20_000 {
            let method = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
            traffic.count(&method, Some("/healthz"), StatusCode::OK, Duration::ZERO);
        }
        traffic.count(&Method::PATCH, Some("/healthz"), StatusCode::OK, Duration::ZERO);
        let shown = json!(traffic.shown());
        let routes = shown["routes"].as_array().unwrap();
        let methods: Vec<_> = routes.iter().map(|route| &route["method"]).collect();
        assert_eq!(methods, ["PATCH", OTHER]);
        assert_eq!(routes[1]["requests"], 20_000);
    }
}
