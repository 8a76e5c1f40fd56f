//! Request statistics by route: counts, outcomes and durations. Not for messages on sockets.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Largest recorded duration, in milliseconds; longer ones are recorded as this.
const MAX_MS: u64 = 600_000;
/// Name for requests without a route.
const NO_ROUTE: &str = "(none)";

/// Request statistics.
#[derive(Default)]
pub struct Traffic(Mutex<BTreeMap<(String, String), Route>>);

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

impl Traffic {
    fn routes(&self) -> MutexGuard<'_, BTreeMap<(String, String), Route>> {
        // After a panic during counting, a count is too low at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a finished request. Route patterns and methods are defined by the server: their
    /// number is bounded.
    pub(super) fn count(
        &self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        took: Duration,
    ) {
        let method =
            if method.as_str().len() <= 7 && route.is_some() { method.as_str() } else { "" };
        let key = (method.to_owned(), route.unwrap_or(NO_ROUTE).to_owned());
        let ms = u64::try_from(took.as_millis()).unwrap_or(MAX_MS);
        let mut routes = self.routes();
        let counts = routes.entry(key).or_insert_with(Route::new);
        *counts.by_status.entry(status.as_u16()).or_default() += 1;
        counts.took.saturating_record(ms.clamp(1, MAX_MS));
    }

    /// Renders everything as JSON: totals, and each route with its outcomes and durations.
    pub fn shown(&self) -> Value {
        let routes = self.routes();
        let (mut total, mut failed, mut refused) = (0_u64, 0_u64, 0_u64);
        let mut all = Histogram::<u64>::new_with_bounds(1, MAX_MS, 2).ok();
        let mut shown = Vec::new();
        for ((method, route), counts) in routes.iter() {
            for (status, count) in &counts.by_status {
                total += count;
                failed += if *status >= 500 { *count } else { 0 };
                refused += if (400..500).contains(status) { *count } else { 0 };
            }
            if let Some(all) = &mut all {
                // Cannot fail: both histograms have the same bounds.
                all.add(&counts.took).unwrap_or_default();
            }
            let by_status: BTreeMap<String, u64> =
                counts.by_status.iter().map(|(s, n)| (s.to_string(), *n)).collect();
            shown.push(json!({
                "method": method,
                "route": route,
                "requests": counts.took.len(),
                "by_status": by_status,
                "took_ms": distribution(&counts.took),
            }));
        }
        json!({
            "requests": total,
            "errors": failed,
            "refusals": refused,
            "error_rate": rate(failed, total),
            "took_ms": all.as_ref().map(distribution),
            "routes": shown,
        })
    }
}

/// Returns the fraction of failed requests; `None` if there were no requests.
fn rate(failed: u64, total: u64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a rate of more than 2^53 requests is near enough"
    )]
    if total == 0 { 0.0 } else { failed as f64 / total as f64 }
}

fn distribution(took: &Histogram<u64>) -> Value {
    json!({
        "p50": took.value_at_quantile(0.5),
        "p90": took.value_at_quantile(0.9),
        "p99": took.value_at_quantile(0.99),
        "max": took.max(),
        "mean": took.mean(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_outcome() {
        let traffic = Traffic::default();
        let ms = Duration::from_millis;
        traffic.count(&Method::GET, Some("/a"), StatusCode::OK, ms(10));
        traffic.count(&Method::GET, Some("/a"), StatusCode::BAD_GATEWAY, ms(30));
        traffic.count(&Method::PUT, None, StatusCode::NOT_FOUND, ms(0));
        let shown = traffic.shown();
        assert_eq!((&shown["requests"], &shown["errors"]), (&json!(3), &json!(1)));
        assert_eq!(shown["routes"][1]["by_status"], json!({"200": 1, "502": 1}));
        assert_eq!(shown["routes"][1]["took_ms"]["max"], 30);
        assert_eq!(shown["routes"][0]["route"], NO_ROUTE);
        assert_eq!(Traffic::default().shown()["error_rate"], 0.0);
    }
}
