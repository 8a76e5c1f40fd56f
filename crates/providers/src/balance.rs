//! Several services behind one port: which of them gets the next piece of work, which are passed
//! over, and how they come back. Not for what the work is: that is `asr` and `tts`.
//!
//! - Each piece of work goes to the service with the least in flight; equal ones take turns. All
//!   counts are here, in this process, so that looking at every service is both cheap and exact;
//!   choosing between two at random is for those who know the load only roughly.
//! - A service that failed is passed over, and probed in the background until it answers, so that
//!   nobody's turn is spent on finding out. Where no other is left it is asked all the same.
//! - Work that nothing was heard of yet goes to the next service. While there is another, one has
//!   half of the time that is left, so that all together take no longer than one alone.
//! - One that refuses what another then does is at fault; what all refuse is a wrong request.

mod asr;
#[cfg(test)]
mod tests;
mod tts;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::metrics::ProviderMeters;
use hearken_actors::ports::{ProviderError, ProviderErrorKind};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::circuit_breaker::{Circuit, PASSED_OVER};
use super::metrics::RequestMetrics;

pub(super) use asr::BalancedAsr;
pub(super) use tts::BalancedTts;

/// First wait before a service that was away is probed.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// Tells whether a service is there.
pub(super) trait Probe: Send + Sync {
    /// Finds it out without work for the service, within the deadline for a connection.
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>>;
}

/// One service: the port in front of it, and how it is probed.
pub(super) struct Service<P: ?Sized> {
    pub(super) port: Arc<P>,
    pub(super) probe: Arc<dyn Probe>,
}

/// The services of one port.
struct Backends<P: ?Sized> {
    /// The port, by its name in the configuration.
    name: &'static str,
    all: Box<[Backend<P>]>,
    /// Where the next search for the least loaded begins.
    turn: Mutex<usize>,
    /// Where they were made; probes run there, whichever thread a failure was met on.
    runtime: Option<Handle>,
}

struct Backend<P: ?Sized> {
    service: Service<P>,
    circuit: Circuit,
    in_flight: AtomicUsize,
    meters: Arc<ProviderMeters>,
    /// The task that probes it while it is passed over; ends with the services.
    probing: Mutex<JoinSet<()>>,
}

impl<P: ?Sized + Send + Sync + 'static> Backends<P> {
    /// All are thought to work; there is at least one.
    fn new(name: &'static str, services: Vec<Service<P>>) -> Arc<Self> {
        let backend = |(place, service)| Backend {
            service,
            circuit: Circuit::new(PROBE_AFTER),
            in_flight: AtomicUsize::new(0),
            meters: Arc::new(ProviderMeters::new(name, place)),
            probing: Mutex::default(),
        };
        let all = services.into_iter().enumerate().map(backend).collect();
        Arc::new(Self { name, all, turn: Mutex::default(), runtime: Handle::try_current().ok() })
    }

    fn several(&self) -> bool {
        self.all.len() > 1
    }

    /// The least loaded of those that are not `tried`, those that work first.
    fn choose(self: &Arc<Self>, tried: &[usize]) -> Option<Lease<P>> {
        let count = self.all.len();
        // Held until the choice counts, so that two at once see each other.
        let mut turn = lock(&self.turn);
        let open = (0..count).map(|n| (*turn + n) % count).filter(|place| !tried.contains(place));
        let place = open.min_by_key(|place| {
            let Backend { circuit, in_flight, .. } = &self.all[*place];
            (circuit.again_at().is_some(), in_flight.load(Ordering::Relaxed))
        })?;
        *turn = place + 1;
        let backend = &self.all[place];
        backend.in_flight.fetch_add(1, Ordering::Relaxed);
        let request_metrics = RequestMetrics::begin(&backend.meters);
        Some(Lease { backends: Arc::clone(self), place, since: Instant::now(), request_metrics })
    }

    /// Passes a service over for at least this long, and has it probed then: it failed at what it
    /// was asked at that time.
    fn pass_over(self: &Arc<Self>, place: usize, asked_at: Instant, pause: Option<Duration>) {
        let backend = &self.all[place];
        backend.circuit.failed_since(asked_at, pause);
        if backend.circuit.again_at().is_none() {
            return;
        }
        backend.meters.up(false);
        let runtime = self.runtime.clone().or_else(|| Handle::try_current().ok());
        if let Some(runtime) = runtime.filter(|_| self.several()) {
            // In place of a task that may sleep for a longer pause before.
            let mut probing = lock(&backend.probing);
            *probing = JoinSet::new();
            probing.spawn_on(probe(Arc::downgrade(self), place), &runtime);
        }
    }
}

/// Probes a service until it can be reached.
async fn probe<P: ?Sized + Send + Sync + 'static>(backends: Weak<Backends<P>>, place: usize) {
    let circuit = |backends: &Backends<P>| backends.all[place].circuit.again_at();
    while let Some(then) = backends.upgrade().and_then(|backends| circuit(&backends)) {
        sleep_until(then).await;
        // The services may go while one is probed.
        let Some(all) = backends.upgrade() else { return };
        let (name, service) = (all.name, Arc::clone(&all.all[place].service.probe));
        drop(all);
        let outcome = service.probe().await;
        let Some(all) = backends.upgrade() else { return };
        let Backend { circuit, meters, .. } = &all.all[place];
        match outcome {
            Ok(()) => {
                circuit.reached();
                meters.up(true);
                tracing::info!(port = name, place, "a service can be reached again");
            }
            Err(error) => {
                circuit.failed(error.retry_after);
                tracing::debug!(port = name, place, %error, "a service is still away");
            }
        }
    }
}

/// A piece of work at one service. Dropped without an outcome, it was cancelled.
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

    /// What one waits for has come: the service works.
    fn answered(&mut self) {
        self.request_metrics.answered();
        let Backend { circuit, meters, .. } = &self.backends.all[self.place];
        if circuit.worked_since(self.since) {
            meters.up(true);
        }
    }

    /// The work is done.
    fn worked(&mut self) {
        self.answered();
        self.request_metrics.worked();
    }

    /// The service failed.
    fn failed(&mut self, error: &ProviderError) {
        let (port, place) = (self.backends.name, self.place);
        // Of one alone, who asked tells.
        if self.backends.several() {
            tracing::warn!(port, place, %error, "a service failed, and is passed over for a while");
        }
        self.request_metrics.failed(error.kind);
        self.backends.pass_over(place, self.since, shortest_pause(error));
    }
}

impl<P: ?Sized> Drop for Lease<P> {
    fn drop(&mut self) {
        self.backends.all[self.place].in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One that was away works as soon as it can be reached; of the other failures a probe tells
/// nothing.
fn shortest_pause(error: &ProviderError) -> Option<Duration> {
    match error.kind {
        ProviderErrorKind::Unavailable => error.retry_after,
        _ => Some(error.retry_after.unwrap_or(PASSED_OVER)),
    }
}

/// A piece of work in search of a service.
struct Search<P: ?Sized> {
    backends: Arc<Backends<P>>,
    tried: Vec<usize>,
    /// Those of them that refused the work.
    refused: Vec<usize>,
    /// Why there is no answer yet.
    error: Option<ProviderError>,
}

impl<P: ?Sized + Send + Sync + 'static> Search<P> {
    fn new(backends: &Arc<Backends<P>>) -> Self {
        let backends = Arc::clone(backends);
        Self { backends, tried: Vec::new(), refused: Vec::new(), error: None }
    }

    /// The next service; none when all have been tried.
    fn next(&mut self) -> Option<Lease<P>> {
        let lease = self.backends.choose(&self.tried)?;
        self.tried.push(lease.place);
        Some(lease)
    }

    /// All have been tried.
    fn is_over(&self) -> bool {
        self.tried.len() == self.backends.all.len()
    }

    /// All may be tried once more.
    fn again(&mut self) {
        self.tried.clear();
    }

    /// This service answered: those that refused the same are at fault.
    fn found(&mut self, lease: &mut Lease<P>) {
        lease.answered();
        for place in self.refused.drain(..).filter(|place| *place != lease.place) {
            tracing::warn!(port = self.backends.name, place, "a service refuses what another does");
            self.backends.pass_over(place, Instant::now(), Some(PASSED_OVER));
        }
    }

    /// This service failed, or the work is such that all will refuse it.
    fn failed(&mut self, mut lease: Lease<P>, error: ProviderError) {
        if error.kind.is_of_the_request() {
            lease.request_metrics.failed(error.kind);
            self.refused.push(lease.place);
        } else {
            lease.failed(&error);
        }
        // What one that lives has against the work tells more than that others are dead.
        let refusal = |error: &ProviderError| error.kind.is_of_the_request();
        if !self.error.as_ref().is_some_and(refusal) {
            self.error = Some(error);
        }
    }

    /// Why there is no answer.
    fn error(&mut self) -> ProviderError {
        let nobody = || ProviderError::new(self.backends.name, ProviderErrorKind::Unavailable);
        self.error.take().unwrap_or_else(nobody)
    }

    /// Does `work` at the service found last, within its part of the time until `by`. One alone
    /// keeps its own deadlines.
    async fn bounded<T>(
        &self,
        by: Instant,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        if !self.backends.several() {
            return work.await;
        }
        let another = self.backends.all.iter().enumerate().any(|(place, backend)| {
            !self.tried.contains(&place) && backend.circuit.again_at().is_none()
        });
        let now = Instant::now();
        let left = by.saturating_duration_since(now);
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
