//! Health of one service, as its requests and probes show it. Skipping a service is the task of the
//! circuit breaker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use hearken_ports::{ProviderError, ProviderErrorKind, ProviderMetrics, ServiceHealth};
use tokio::time::Instant;

/// Maximum number of models whose health is stored; changed settings may name new models without
/// end.
const MOST_MODELS: usize = 64;

/// Number of consecutive refusals after which the service, and not the requests, is at fault.
const REFUSES_ALL: u32 = 2;

/// Health check of a service.
pub(super) trait Probe: Send + Sync {
    /// Checks the service without a real request, within the deadline for a connection.
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>>;
}

/// Health of one service, with its metrics.
pub(super) struct OneService {
    pub(super) meters: Arc<ProviderMetrics>,
    seen: Mutex<Seen>,
}

/// Results of requests and probes.
#[derive(Clone, Copy, Default)]
struct Seen {
    failure: Option<ProviderErrorKind>,
    /// True if a probe showed the failure, not a request.
    by_probe: bool,
    /// True after the first request or probe.
    was_asked: bool,
    /// Time of the last answered request.
    worked_at: Option<Instant>,
    /// Number of refused requests since then.
    refused: u32,
}

impl Seen {
    /// Returns true if a probe can change the state: the state is unknown, or a successful probe
    /// clears the failure. A failure of a request is cleared only by a request, unless the service
    /// could not be reached.
    fn probe_decides(self) -> bool {
        let disproves = |kind| self.by_probe || kind == ProviderErrorKind::Unavailable;
        !self.was_asked || self.failure.is_some_and(disproves)
    }
}

impl OneService {
    /// Creates the health of the service at this position in the list of a port. It counts as working.
    pub(super) fn new(port: &'static str, place: usize) -> Self {
        Self { meters: Arc::new(ProviderMetrics::new(port, place)), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its health.
    pub(super) fn health(&self) -> ServiceHealth {
        let seen = *self.seen();
        ServiceHealth {
            state: seen.failure.is_none().into(),
            failure: seen.failure,
            probe_decides: seen.probe_decides(),
        }
    }

    fn set(&self, failure: Option<ProviderErrorKind>, by_probe: bool) {
        {
            let mut seen = self.seen();
            let worked_at =
                if failure.is_none() && !by_probe { Some(Instant::now()) } else { seen.worked_at };
            // Refusals count until a request succeeds.
            let refused = if failure.is_none() && !by_probe { 0 } else { seen.refused };
            *seen = Seen { failure, by_probe, was_asked: true, worked_at, refused };
        }
        self.meters.up(failure.is_none());
    }

    /// Records that a request was answered.
    pub(super) fn worked(&self) {
        self.set(None, false);
    }

    /// Records that a request failed, for a reason that is not in the request.
    pub(super) fn failed(&self, kind: ProviderErrorKind) {
        self.set(Some(kind), false);
    }

    /// Records that a request was refused, which may be the fault of that request alone.
    pub(super) fn refused(&self, kind: ProviderErrorKind) {
        if kind != ProviderErrorKind::BadRequest {
            return;
        }
        let refused = {
            let mut seen = self.seen();
            seen.refused += 1;
            seen.refused
        };
        if refused >= REFUSES_ALL {
            self.failed(kind);
        }
    }

    /// Returns true if a probe can change the state.
    pub(super) fn needs_probe(&self) -> bool {
        self.seen().probe_decides()
    }

    /// Records the outcome of a probe that started at this time. A request that was answered since
    /// then takes precedence.
    pub(super) fn probed(&self, began: Instant, outcome: &Result<(), ProviderError>) {
        let seen = *self.seen();
        match outcome {
            Err(_) if seen.worked_at.is_some_and(|at| at >= began) => {}
            Err(error) => self.set(Some(error.kind), true),
            Ok(()) if seen.failure.is_none() || seen.probe_decides() => self.set(None, true),
            Ok(()) => {}
        }
    }
}

/// Health of all models, which frontends share. Clones share it.
#[derive(Clone, Default)]
pub struct ModelsHealth(Arc<Mutex<HashMap<Key, Arc<OneService>>>>);

/// Base URL, name and position of a model.
type Key = (String, String, usize);

impl std::fmt::Debug for ModelsHealth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModelsHealth")
    }
}

impl ModelsHealth {
    /// Returns the health of this model, the same for every frontend.
    pub(super) fn of(&self, base: &str, model: &str, place: usize) -> Arc<OneService> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (base.to_owned(), model.to_owned(), place);
        if all.len() >= MOST_MODELS && !all.contains_key(&key) {
            all.clear();
        }
        Arc::clone(all.entry(key).or_insert_with(|| Arc::new(OneService::new("llm", place))))
    }
}

#[cfg(test)]
mod tests {
    use ProviderErrorKind::{BadRequest, Fault, Timeout, TooLarge, Unauthorized, Unavailable};
    use hearken_ports::ServiceState;

    use super::*;

    #[test]
    fn a_probe_clears_only_failures_that_it_can_check() {
        let service = OneService::new("tts", 0);
        assert!(service.health().probe_decides && service.needs_probe(), "the state is unknown");
        assert_eq!(service.health().state, ServiceState::Ready);
        let now = Instant::now();
        for by_probe in [Unauthorized, Unavailable, Fault] {
            service.probed(now, &Err(ProviderError::new("tts", by_probe)));
            assert_eq!(service.health().state, ServiceState::Down);
            assert_eq!(service.health().failure, Some(by_probe));
            assert!(!service.meters.is_up() && service.needs_probe());
            service.probed(now, &Ok(()));
            assert_eq!(service.health().failure, None, "{by_probe}");
            assert!(service.meters.is_up() && !service.needs_probe());
        }
        for (by_request, is_disproved) in
            [(Unavailable, true), (Timeout, false), (Unauthorized, false), (Fault, false)]
        {
            service.failed(by_request);
            assert_eq!(service.needs_probe(), is_disproved, "{by_request}");
            service.probed(now, &Ok(()));
            assert_eq!(service.health().failure.is_none(), is_disproved, "{by_request}");
        }
        service.worked();
        assert_eq!(service.health(), ServiceHealth::default());
        service.refused(BadRequest);
        service.worked();
        service.refused(BadRequest);
        assert_eq!(service.health().failure, None, "one request may be wrong");
        service.probed(now, &Ok(()));
        service.refused(BadRequest);
        service.probed(now, &Ok(()));
        assert_eq!(service.health().failure, Some(BadRequest), "no request has succeeded");
        service.worked();
        for _ in 0..9 {
            service.refused(TooLarge);
        }
        assert_eq!(service.health().failure, None, "only the request is at fault");
        service.probed(now, &Err(ProviderError::new("tts", Unavailable)));
        assert_eq!(service.health().failure, None, "a request was answered during the probe");
    }

    #[test]
    fn frontends_share_the_health_of_a_model() {
        let all = ModelsHealth::default();
        all.clone().of("http://a/", "m", 0).failed(Unavailable);
        assert_eq!(all.of("http://a/", "m", 0).health().failure, Some(Unavailable));
        assert_eq!(all.of("http://b/", "m", 0).health().failure, None);
    }
}
