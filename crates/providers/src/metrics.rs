//! What becomes of requests to a service, as metrics. Not for their names, which are the actors'.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, once};
use hearken_actors::metrics::{ProviderEnd, ProviderMeters};
use hearken_actors::ports::{Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind};
use tokio::time::Instant;

/// One request, in flight until its end is told; one that is dropped before was cancelled.
pub(super) struct RequestMetrics {
    meters: Arc<ProviderMeters>,
    begun: Instant,
    end: Option<ProviderEnd>,
    answered: bool,
}

impl RequestMetrics {
    /// A request that begins now.
    pub(super) fn begin(meters: &Arc<ProviderMeters>) -> Self {
        meters.begun();
        let meters = Arc::clone(meters);
        Self { meters, begun: Instant::now(), end: None, answered: false }
    }

    /// What one waits for is asked for only now.
    pub(super) fn begin_to_wait(&mut self) {
        self.begun = Instant::now();
    }

    /// What one waits for has come; what follows does not count.
    pub(super) fn answered(&mut self) {
        if !self.answered {
            self.answered = true;
            self.meters.answered(self.begun.elapsed());
        }
    }

    /// The answer is whole.
    pub(super) fn worked(&mut self) {
        self.end = Some(ProviderEnd::Answered);
    }

    /// It failed.
    pub(super) fn failed(&mut self, kind: ProviderErrorKind) {
        self.end = Some(ProviderEnd::Failed(kind));
    }
}

impl Drop for RequestMetrics {
    fn drop(&mut self) {
        self.meters.ended(self.end.unwrap_or(ProviderEnd::Cancelled));
    }
}

/// A language model whose requests are counted.
pub(super) struct MeasuredLlm {
    inner: Arc<dyn Llm>,
    meters: Arc<ProviderMeters>,
}

impl MeasuredLlm {
    /// The model at this place of the list: 0 is the first.
    pub(super) fn new(inner: Arc<dyn Llm>, place: usize) -> Self {
        Self { inner, meters: Arc::new(ProviderMeters::new("llm", place)) }
    }
}

impl Llm for MeasuredLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let (reply, meters) = (self.inner.reply(prompt), Arc::clone(&self.meters));
        // Nothing is asked for before the reply is polled.
        let asked = once(async move {
            let mut request_metrics = RequestMetrics::begin(&meters);
            reply.inspect(move |delta| note(&mut request_metrics, delta))
        });
        asked.flatten().boxed()
    }

    /// Not counted: nobody waits for it.
    fn read_ahead(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.read_ahead(opening)
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
            // What is refused says nothing of the service.
            request_metrics.meters.up(error.kind.is_of_the_request());
        }
    }
}
