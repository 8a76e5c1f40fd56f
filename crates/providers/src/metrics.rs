//! Metrics of requests to a service. Not for their names, which are in
//! `hearken_ports::ProviderMetrics`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, once};
use hearken_ports::{
    Llm, LlmDelta, Prompt, ProviderEnd, ProviderError, ProviderErrorKind, ProviderMetrics,
    ServiceHealth,
};
use tokio::time::Instant;

use super::service_health::{OneService, Probe};

/// Request in flight until its end is recorded. Dropping it earlier counts as cancelled.
pub(super) struct RequestMetrics {
    meters: Arc<ProviderMetrics>,
    begun: Instant,
    end: Option<ProviderEnd>,
    answered: bool,
}

impl RequestMetrics {
    /// Starts a request.
    pub(super) fn begin(meters: &Arc<ProviderMetrics>) -> Self {
        meters.begun();
        let meters = Arc::clone(meters);
        Self { meters, begun: Instant::now(), end: None, answered: false }
    }

    /// Restarts the measured time: the request for the answer is sent only now.
    pub(super) fn begin_to_wait(&mut self) {
        self.begun = Instant::now();
    }

    /// Records the first answer. Later ones do not count.
    pub(super) fn answered(&mut self) {
        if !self.answered {
            self.answered = true;
            self.meters.answered(self.begun.elapsed());
        }
    }

    /// Records that the answer is complete.
    pub(super) fn worked(&mut self) {
        self.end = Some(ProviderEnd::Answered);
    }

    /// Records a failure.
    pub(super) fn failed(&mut self, kind: ProviderErrorKind) {
        self.end = Some(ProviderEnd::Failed(kind));
    }
}

impl Drop for RequestMetrics {
    fn drop(&mut self) {
        self.meters.ended(self.end.unwrap_or(ProviderEnd::Cancelled));
    }
}

/// Language model whose requests are counted.
pub(super) struct MeasuredLlm {
    pub(super) inner: Arc<dyn Llm>,
    /// Health check of the model's server.
    pub(super) server: Arc<dyn Probe>,
    /// Health of the model, which other frontends share.
    pub(super) service: Arc<OneService>,
}

impl Llm for MeasuredLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let reply = self.inner.reply(prompt);
        let service = Arc::clone(&self.service);
        // The request starts when the reply is polled.
        let asked = once(async move {
            let mut request_metrics = RequestMetrics::begin(&service.meters);
            reply.inspect(move |delta| note(&service, &mut request_metrics, delta))
        });
        asked.flatten().boxed()
    }

    /// Prefetches without counting: no user waits for it.
    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.prefetch(opening)
    }

    fn health(&self) -> ServiceHealth {
        self.service.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if !self.service.needs_probe() {
                return;
            }
            let began = Instant::now();
            let outcome = self.server.probe().await;
            if let Err(error) = &outcome {
                tracing::debug!(port = "llm", %error, "a service cannot be reached");
            }
            self.service.probed(began, &outcome);
        })
    }

    fn price_per_million(&self) -> f64 {
        self.inner.price_per_million()
    }
}

fn note(
    service: &OneService,
    request_metrics: &mut RequestMetrics,
    delta: &Result<LlmDelta, ProviderError>,
) {
    match delta {
        Ok(delta) => {
            if !request_metrics.answered {
                service.worked();
            }
            request_metrics.answered();
            if matches!(delta, LlmDelta::Finished { .. }) {
                request_metrics.worked();
            }
        }
        Err(error) => {
            request_metrics.failed(error.kind);
            // A single refused request does not affect the health of the service.
            if error.kind.is_of_the_request() {
                service.refused(error.kind);
            } else {
                service.failed(error.kind);
            }
        }
    }
}
