//! Random faults of each service of the server, behind a proxy, and clients that leave. Not for the effects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hearken_test_support::fault_proxy::rows::{self, Row, Wire};
use hearken_test_support::fault_proxy::{Fault, FaultProxy};
use hearken_test_support::redis::Redis;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::outcomes::Kind;
use crate::support::app::Vendors;

/// Intervals and durations of faults, in milliseconds.
pub(super) struct Times {
    /// From the start of one fault to the start of the next.
    pub(super) every: Range<u64>,
    /// From the start of a fault to its end.
    pub(super) last: Range<u64>,
}

/// A service and its faults.
struct Service {
    name: &'static str,
    /// The environment variable with its URL for the server.
    variable: &'static str,
    proxy: FaultProxy,
    faults: Vec<Row>,
}

/// All services.
pub(super) struct Services(Vec<Arc<Service>>);

fn row(name: &'static str, fault: Fault) -> Row {
    Row { name, fault, expected: &[] }
}

/// Faults of a store or a Redis: the connection is lost.
fn cuts() -> Vec<Row> {
    vec![
        row("reset at once", Fault::Reset),
        row("half open", Fault::HalfOpen),
        row("silent from now on", Fault::Frozen),
    ]
}

impl Services {
    /// Puts a proxy in front of each service.
    pub(super) async fn before(
        vendors: &Vendors,
        database: Option<&str>,
        redis: Option<&Redis>,
    ) -> Self {
        let asr = vendors.asr.url();
        let llm = vendors.llm.url();
        let tts = vendors.tts.url();
        let mut all = vec![
            ("recogniser", "ASR_URL", asr, rows::all(Wire::Socket, 200)),
            ("model", "LLM_BASE_URL", llm, rows::all(Wire::Http, 200)),
            ("synthesiser", "TTS_URL", tts, rows::all(Wire::Socket, 3_000)),
        ];
        all.extend(database.map(|url| ("PostgreSQL", "DATABASE_URL", url.to_owned(), cuts())));
        all.extend(redis.map(|redis| ("Redis", "REDIS_URL", redis.url(), cuts())));
        let mut services = Vec::new();
        for (name, variable, url, mut faults) in all {
            faults.push(row("its process is gone", Fault::Gone));
            let proxy = FaultProxy::before(&url).await;
            services.push(Arc::new(Service { name, variable, proxy, faults }));
        }
        Self(services)
    }

    /// Environment variables that point a server to the proxies.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        self.0.iter().map(|service| (service.variable, service.proxy.url())).collect()
    }

    /// Injects faults and lets clients leave, until `end`; then removes all faults. Returns the
    /// number of events by name and kind.
    pub(super) async fn fail(
        &self,
        leaving: &[(Kind, Arc<Notify>)],
        times: &Times,
        mut dice: fastrand::Rng,
        end: &CancellationToken,
    ) -> BTreeMap<String, BTreeMap<&'static str, usize>> {
        let mut counts: BTreeMap<String, BTreeMap<&'static str, usize>> = BTreeMap::new();
        let mut running = JoinSet::new();
        let mut failing = BTreeSet::new();
        loop {
            let next = Duration::from_millis(dice.u64(times.every.clone()));
            if end.run_until_cancelled(sleep(next)).await.is_none() {
                break;
            }
            while let Some(name) = running.try_join_next() {
                failing.remove(name.unwrap());
            }
            let (name, what) = match dice.usize(..self.0.len() + 3).checked_sub(self.0.len()) {
                Some(kind) => {
                    let kind = [Kind::Device, Kind::Text, Kind::Application][kind];
                    let some: Vec<_> = leaving.iter().filter(|(of, _)| *of == kind).collect();
                    some[dice.usize(..some.len())].1.notify_waiters();
                    (format!("{kind:?}"), "leaves")
                }
                None => {
                    let service = Arc::clone(&self.0[dice.usize(..self.0.len())]);
                    if !failing.insert(service.name) {
                        continue;
                    }
                    let fault = dice.usize(..service.faults.len());
                    let name = service.name.to_owned();
                    let what = service.faults[fault].name;
                    let length = Duration::from_millis(dice.u64(times.last.clone()));
                    let end = end.clone();
                    running.spawn(async move {
                        service.proxy.set(service.faults[fault].fault.clone());
                        end.run_until_cancelled(sleep(length)).await;
                        service.proxy.set(Fault::None);
                        service.name
                    });
                    (name, what)
                }
            };
            *counts.entry(name).or_default().entry(what).or_default() += 1;
        }
        running.join_all().await;
        counts
    }
}
