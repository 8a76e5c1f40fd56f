//! Probes the services of devices' conversations at startup, and again while one is down. Not for
//! the probes themselves, which are in each service's adapter.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_engines::supervise::EngineStates;
use hearken_ports::{Asr, Llm, ServiceHealth, ServiceState, Tts};
use tokio_util::sync::CancellationToken;

/// Minimum and maximum wait before a service that is down is probed again.
const PROBE_AFTER: Duration = Duration::from_secs(1);
const PROBE_AFTER_AT_MOST: Duration = Duration::from_secs(15);
/// Interval at which the state of each service is checked; sends no request.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Services of devices' conversations.
pub(super) struct Services {
    pub(super) asr: Arc<dyn Asr>,
    pub(super) llm: Arc<dyn Llm>,
    pub(super) tts: Arc<dyn Tts>,
}

impl Services {
    /// Probes all of them until `process` ends. Embedded engines are probed once they have started.
    pub(super) async fn keep_probing(self, engines: EngineStates, process: CancellationToken) {
        let Self { asr, llm, tts } = &self;
        let work = async {
            tokio::join!(
                keep_probing("asr", &engines, || asr.health(), || asr.probe()),
                keep_probing("llm", &engines, || llm.health(), || llm.probe()),
                keep_probing("tts", &engines, || tts.health(), || tts.probe()),
            );
        };
        process.run_until_cancelled(work).await;
    }
}

async fn keep_probing<'a>(
    service: &'static str,
    engines: &EngineStates,
    health: impl Fn() -> ServiceHealth,
    probe: impl Fn() -> BoxFuture<'a, ()>,
) {
    while !engines.all_ready() {
        tokio::time::sleep(CHECK_EVERY).await;
    }
    probe().await;
    let mut logged = ServiceState::Ready;
    let mut wait = PROBE_AFTER;
    loop {
        let ServiceHealth { state, failure, probe_decides } = health();
        if state != logged {
            match failure {
                Some(failure) => {
                    tracing::warn!(service, %failure, ?state, "a service does not work")
                }
                None => tracing::info!(service, "a service works again"),
            }
            logged = state;
        }
        if probe_decides {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(PROBE_AFTER_AT_MOST);
            probe().await;
        } else {
            wait = PROBE_AFTER;
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }
}
