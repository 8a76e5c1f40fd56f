//! Metrics of requests to a service. Not for their names, which are in `hearken_ports::ProviderMetrics`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, once};
use hearken_ports::{
    Llm, LlmDelta, Prompt, ProviderEnd, ProviderError, ProviderErrorKind, ProviderMetrics,
    ServiceState,
};
use tokio::time::Instant;

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

    /// Restarts the measured time: the awaited answer is requested only now.
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
    inner: Arc<dyn Llm>,
    meters: Arc<ProviderMetrics>,
}

impl MeasuredLlm {
    /// Wraps the model at this index of the list: 0 is the first.
    pub(super) fn new(inner: Arc<dyn Llm>, place: usize) -> Self {
        Self { inner, meters: Arc::new(ProviderMetrics::new("llm", place)) }
    }
}

impl Llm for MeasuredLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let reply = self.inner.reply(prompt);
        let meters = Arc::clone(&self.meters);
        // The request starts when the reply is polled.
        let asked = once(async move {
            let mut request_metrics = RequestMetrics::begin(&meters);
            reply.inspect(move |delta| note(&mut request_metrics, delta))
        });
        asked.flatten().boxed()
    }

    /// Prefetches without counting: nobody waits for it.
    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.prefetch(opening)
    }

    fn state(&self) -> ServiceState {
        self.meters.is_up().into()
    }

    fn price_per_million(&self) -> f64 {
        self.inner.price_per_million()
    }
}

fn note(request_metrics: &mut RequestMetrics, delta: &Result<LlmDelta, ProviderError>) {
    match delta {
        Ok(delta) => {
            if !request_metrics.answered {
                request_metrics.meters.up(true);
            }
            request_metrics.answered();
            if matches!(delta, LlmDelta::Finished { .. }) {
                request_metrics.worked();
            }
        }
        Err(error) => {
            request_metrics.failed(error.kind);
            // A refused request says nothing about the health of the service.
            request_metrics.meters.up(error.kind.is_of_the_request());
        }
    }
}
