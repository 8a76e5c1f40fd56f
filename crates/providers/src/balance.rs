//! Load balancing and failover between several services of one port: choice of a service, exclusion
//! of unhealthy ones, health probes. Not for the requests themselves: those are in `asr` and `tts`.
//!
//! - Each request goes to the service with the fewest requests in flight; ties are served in turn.
//!   All counts are in this process: comparing all services is cheap and exact. A random choice of
//!   two is for balancers with approximate counts only.
//! - A service that failed is unhealthy. It is probed in the background until it answers, so that
//!   no user's turn is spent on the check. If no other service is left, it gets requests all the
//!   same.
//! - A request without any answer yet goes to the next service. While another one is healthy, a
//!   service has half of the remaining time. All together therefore take no longer than one service
//!   alone.
//! - If another service answers a request that one refused, the refusing service is at fault. If
//!   all refuse it, the request is wrong.

mod asr;
#[cfg(test)]
mod tests;
mod tts;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use hearken_ports::{ProviderError, ProviderErrorKind, ServiceHealth};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::circuit_breaker::{CircuitBreaker, OPEN_FOR};
use super::metrics::RequestMetrics;
use super::service_health::{OneService, Probe};

pub(super) use asr::BalancedAsr;
pub(super) use tts::BalancedTts;

/// First wait before an unreachable service is probed.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// One service: its port and its health check.
pub(super) struct Service<P: ?Sized> {
    pub(super) port: Arc<P>,
    pub(super) probe: Arc<dyn Probe>,
}

/// Services of one port.
struct Backends<P: ?Sized> {
    /// Name of the port in the configuration.
    name: &'static str,
    all: Box<[Backend<P>]>,
    /// Index at which the next search for the least loaded service starts.
    turn: Mutex<usize>,
    /// Runtime on which the services were created. Probes run there, whichever thread met a
    /// failure.
    runtime: Option<Handle>,
}

struct Backend<P: ?Sized> {
    service: Service<P>,
    circuit: CircuitBreaker,
    in_flight: AtomicUsize,
    health: OneService,
    /// Task that probes an unhealthy service. It ends with the services.
    probing: Mutex<JoinSet<()>>,
}

impl<P: ?Sized + Send + Sync + 'static> Backends<P> {
    /// Creates the list of services, at least one, all marked healthy.
    fn new(name: &'static str, services: Vec<Service<P>>) -> Arc<Self> {
        let backend = |(place, service)| Backend {
            service,
            circuit: CircuitBreaker::new(PROBE_AFTER),
            in_flight: AtomicUsize::new(0),
            health: OneService::new(name, place),
            probing: Mutex::default(),
        };
        let all = services.into_iter().enumerate().map(backend).collect();
        Arc::new(Self { name, all, turn: Mutex::default(), runtime: Handle::try_current().ok() })
    }

    /// Returns the health of the services together.
    fn health(&self) -> ServiceHealth {
        ServiceHealth::of(self.all.iter().map(|backend| backend.health.health()))
    }

    /// Probes concurrently all services whose state a probe can determine, and marks those that
    /// cannot be reached. If there are several services, the failed ones are probed by their own
    /// tasks, each after its pause.
    async fn probe_all(self: &Arc<Self>) {
        let due = |backend: &Backend<P>| {
            let is_passed_over = self.several() && backend.circuit.retry_at().is_some();
            backend.health.needs_probe() && !is_passed_over
        };
        let all = self.all.iter().enumerate().filter(|(_, backend)| due(backend));
        let probes = all.map(async |(place, backend)| {
            let asked_at = Instant::now();
            let outcome = backend.service.probe.probe().await;
            match &outcome {
                Ok(()) => backend.circuit.reached(),
                Err(error) => {
                    let Self { name, .. } = &**self;
                    tracing::debug!(port = name, place, %error, "a service cannot be reached");
                    self.pass_over(place, asked_at, shortest_pause(error));
                }
            }
            backend.health.probed(asked_at, &outcome);
        });
        join_all(probes).await;
    }

    fn several(&self) -> bool {
        self.all.len() > 1
    }

    /// Chooses the least loaded service that is not in `tried`. Healthy ones come first.
    fn choose(self: &Arc<Self>, tried: &[usize]) -> Option<Lease<P>> {
        let count = self.all.len();
        // Held until the choice is counted: concurrent callers see each other's choice.
        let mut turn = lock(&self.turn);
        let open = (0..count).map(|n| (*turn + n) % count).filter(|place| !tried.contains(place));
        // All services are compared, not two at random: this process has exact counts. Decision 0033.
        let place = open.min_by_key(|place| {
            let Backend { circuit, in_flight, .. } = &self.all[*place];
            (circuit.retry_at().is_some(), in_flight.load(Ordering::Relaxed))
        })?;
        *turn = place + 1;
        let backend = &self.all[place];
        backend.in_flight.fetch_add(1, Ordering::Relaxed);
        let request_metrics = RequestMetrics::begin(&backend.health.meters);
        Some(Lease { backends: Arc::clone(self), place, since: Instant::now(), request_metrics })
    }

    /// Skips a service for at least `pause`, then probes it. `asked_at` makes failures of
    /// concurrent requests count once. Returns false if the service is not skipped, because it has
    /// worked since then.
    fn pass_over(
        self: &Arc<Self>,
        place: usize,
        asked_at: Instant,
        pause: Option<Duration>,
    ) -> bool {
        let backend = &self.all[place];
        backend.circuit.failed_since(asked_at, pause);
        if backend.circuit.retry_at().is_none() {
            return false;
        }
        // A separate task probes the service, so that no user's request is spent on that. Decision
        // 0035.
        let runtime = self.runtime.clone().or_else(|| Handle::try_current().ok());
        if let Some(runtime) = runtime.filter(|_| self.several()) {
            // Replaces an older task, which may sleep for another pause.
            let mut probing = lock(&backend.probing);
            *probing = JoinSet::new();
            probing.spawn_on(probe(Arc::downgrade(self), place), &runtime);
        }
        true
    }
}

/// Probes a service until it can be reached.
async fn probe<P: ?Sized + Send + Sync + 'static>(backends: Weak<Backends<P>>, place: usize) {
    let circuit = |backends: &Backends<P>| backends.all[place].circuit.retry_at();
    while let Some(then) = backends.upgrade().and_then(|backends| circuit(&backends)) {
        sleep_until(then).await;
        // The services may be dropped during a probe.
        let Some(all) = backends.upgrade() else { return };
        let name = all.name;
        let service = Arc::clone(&all.all[place].service.probe);
        drop(all);
        let began = Instant::now();
        let outcome = service.probe().await;
        let Some(all) = backends.upgrade() else { return };
        let backend = &all.all[place];
        match &outcome {
            Ok(()) => {
                // It gets requests again, whatever errors they met there.
                backend.circuit.reached();
                backend.health.worked();
                tracing::info!(port = name, place, "a service can be reached again");
            }
            Err(error) => {
                backend.circuit.failed(error.retry_after);
                backend.health.probed(began, &outcome);
                tracing::debug!(port = name, place, %error, "a service is still away");
            }
        }
    }
}

/// Request at one service. Dropping it without an outcome counts as cancelled.
struct Lease<P: ?Sized> {
    backends: Arc<Backends<P>>,
    place: usize,
    since: Instant,
    request_metrics: RequestMetrics,
}

impl<P: ?Sized + Send + Sync + 'static> Lease<P> {
    fn port(&self) -> &P {
        &self.backends.all[self.place].service.port
    }

    /// Records the first answer, and marks the service healthy.
    fn answered(&mut self) {
        self.request_metrics.answered();
        let Backend { circuit, health, .. } = &self.backends.all[self.place];
        if circuit.worked_since(self.since) {
            health.worked();
        }
    }

    /// Records that the request is complete.
    fn worked(&mut self) {
        self.answered();
        self.request_metrics.worked();
    }

    /// Records that the service failed.
    fn failed(&mut self, error: &ProviderError) {
        let port = self.backends.name;
        let place = self.place;
        // The caller logs the failure of a single service.
        if self.backends.several() {
            tracing::warn!(port, place, %error, "a service failed; skipping it for a while");
        }
        self.request_metrics.failed(error.kind);
        if self.backends.pass_over(place, self.since, shortest_pause(error)) {
            self.backends.all[place].health.failed(error.kind);
        }
    }
}

impl<P: ?Sized> Drop for Lease<P> {
    fn drop(&mut self) {
        self.backends.all[self.place].in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the shortest time before the next probe. An unreachable service is healthy as soon as it
/// can be reached. A probe proves nothing about other failures. Decision 0035.
fn shortest_pause(error: &ProviderError) -> Option<Duration> {
    match error.kind {
        ProviderErrorKind::Unavailable => error.retry_after,
        _ => Some(error.retry_after.unwrap_or(OPEN_FOR)),
    }
}

/// Request that looks for a service.
struct Search<P: ?Sized> {
    backends: Arc<Backends<P>>,
    tried: Vec<usize>,
    /// Tried services that refused the request.
    refused: Vec<usize>,
    /// Error to return if no service answers.
    error: Option<ProviderError>,
}

impl<P: ?Sized + Send + Sync + 'static> Search<P> {
    fn new(backends: &Arc<Backends<P>>) -> Self {
        let backends = Arc::clone(backends);
        Self { backends, tried: Vec::new(), refused: Vec::new(), error: None }
    }

    /// Returns the next service; none if all have been tried.
    fn next(&mut self) -> Option<Lease<P>> {
        let lease = self.backends.choose(&self.tried)?;
        self.tried.push(lease.place);
        Some(lease)
    }

    /// Returns true if all services have been tried.
    fn is_over(&self) -> bool {
        self.tried.len() == self.backends.all.len()
    }

    /// Makes all services available for another round.
    fn again(&mut self) {
        self.tried.clear();
    }

    /// Records that this service answered. Services that refused the same request are at fault.
    fn found(&mut self, lease: &mut Lease<P>) {
        lease.answered();
        for place in self.refused.drain(..).filter(|place| *place != lease.place) {
            tracing::warn!(port = self.backends.name, place, "a service refuses what another does");
            if self.backends.pass_over(place, Instant::now(), Some(OPEN_FOR)) {
                self.backends.all[place].health.failed(ProviderErrorKind::BadRequest);
            }
        }
    }

    /// Records that this service failed or refused the request.
    fn failed(&mut self, mut lease: Lease<P>, error: ProviderError) {
        if error.kind.is_of_the_request() {
            lease.request_metrics.failed(error.kind);
            self.backends.all[lease.place].health.refused(error.kind);
            self.refused.push(lease.place);
        } else {
            lease.failed(&error);
        }
        // A refusal from a working service is more informative than the outage of others.
        let refusal = |error: &ProviderError| error.kind.is_of_the_request();
        if !self.error.as_ref().is_some_and(refusal) {
            self.error = Some(error);
        }
    }

    /// Returns the error for a request without an answer.
    fn error(&mut self) -> ProviderError {
        let nobody = || ProviderError::new(self.backends.name, ProviderErrorKind::Unavailable);
        self.error.take().unwrap_or_else(nobody)
    }

    /// Runs `work` at the last chosen service, within its part of the time until `by`. A single
    /// service uses its own deadlines.
    async fn bounded<T>(
        &self,
        by: Instant,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        if !self.backends.several() {
            return work.await;
        }
        let another = self.backends.all.iter().enumerate().any(|(place, backend)| {
            !self.tried.contains(&place) && backend.circuit.retry_at().is_none()
        });
        let now = Instant::now();
        let left = by.saturating_duration_since(now);
        // Each gets half of the remaining time, so that all together take no longer than one alone.
        // Decision 0034.
        let until = now + if another { left / 2 } else { left };
        timeout_at(until, work).await.unwrap_or_else(|_| {
            let why = "no answer within its part of the time";
            Err(ProviderError::because(self.backends.name, ProviderErrorKind::Timeout, why))
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
