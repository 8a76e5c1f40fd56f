//! Fallback through several language models in order: if one fails before its first words, the next
//! one is asked. A model that failed is skipped for a while. While there is a next model, each has
//! half of the remaining time for its first words, so that all together take no longer than one
//! alone. Not for retries with the same model, which are in [`super::retry`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind, ServiceHealth};
use tokio::time::{Instant, timeout, timeout_at};

use super::circuit_breaker::CircuitBreaker;
use super::retry::GRACE;
use crate::llm::model_metrics;

/// Language model that answers with the first working one of several models.
pub struct Fallback {
    models: Arc<[Model]>,
    /// Time limit for the first words.
    total: Duration,
}

struct Model {
    llm: Arc<dyn Llm>,
    circuit: CircuitBreaker,
}

type Reply = BoxStream<'static, Result<LlmDelta, ProviderError>>;

impl Fallback {
    /// Creates a chain of at least one model, asked in this order. The answer of one of them must
    /// start within `total`.
    pub fn new(models: Vec<Arc<dyn Llm>>, total: Duration) -> Self {
        let models = models
            .into_iter()
            .map(|llm| Model { llm, circuit: CircuitBreaker::default() })
            .collect();
        Self { models, total }
    }
}

impl Llm for Fallback {
    fn reply(&self, prompt: Prompt) -> Reply {
        let total = self.total;
        let waiting = Stage::Waiting(Arc::clone(&self.models), prompt);
        try_unfold(waiting, move |stage| async move {
            let (first, reply) = match stage {
                Stage::Waiting(models, prompt) => {
                    first(&models, prompt, Instant::now() + total).await?
                }
                Stage::Begun(mut reply) => (reply.next().await.transpose()?, reply),
            };
            Ok(first.map(|delta| (delta, Stage::Begun(reply))))
        })
        .boxed()
    }

    /// Prefetches with the first model only: the others are rarely asked.
    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        match self.models.first() {
            Some(model) => model.llm.prefetch(opening),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn health(&self) -> ServiceHealth {
        ServiceHealth::of(self.models.iter().map(|model| model.llm.health()))
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        join_all(self.models.iter().map(|model| model.llm.probe())).map(drop).boxed()
    }

    fn price_per_million(&self) -> f64 {
        self.models.first().map_or(0.0, |model| model.llm.price_per_million())
    }
}

enum Stage {
    Waiting(Arc<[Model]>, Prompt),
    Begun(Reply),
}

/// Returns the first piece of the first model that answers, and the rest of its reply.
async fn first(
    models: &[Model],
    prompt: Prompt,
    by: Instant,
) -> Result<(Option<LlmDelta>, Reply), ProviderError> {
    let mut failed = None;
    for passed_over_too in [false, true] {
        for (place, Model { llm, circuit }) in models.iter().enumerate() {
            // Not earlier: `enter` uses up the one trial after a pause.
            if !passed_over_too && !circuit.try_acquire() {
                continue;
            }
            let another = models[place + 1..]
                .iter()
                .any(|model| passed_over_too || model.circuit.retry_at().is_none());
            let mut reply = llm.reply(prompt.clone());
            let error = match begun(&mut reply, by, another).await {
                Ok(delta) => {
                    circuit.worked();
                    if place > 0 {
                        model_metrics::fell_back(place);
                    }
                    return Ok((delta, reply));
                }
                Err(error) => error,
            };
            // The request itself is wrong: another model would refuse it too.
            if error.kind == ProviderErrorKind::BadRequest {
                circuit.worked();
                return Err(error);
            }
            if error.kind.is_of_the_request() {
                circuit.worked();
            } else {
                circuit.failed(error.retry_after);
            }
            tracing::warn!(place, %error, "a language model failed");
            failed = Some(error);
        }
        // If all models were skipped, an attempt is still better than an error.
        if failed.is_some() {
            break;
        }
    }
    Err(failed.unwrap_or_else(|| ProviderError::new("llm", ProviderErrorKind::Unavailable)))
}

/// Language model with one deadline from the request to the last piece of the answer, over all
/// retries and models.
pub(super) struct DeadlineLlm {
    pub(super) inner: Arc<dyn Llm>,
    pub(super) total: Duration,
}

impl Llm for DeadlineLlm {
    fn reply(&self, prompt: Prompt) -> Reply {
        let inner = self.inner.reply(prompt);
        let total = self.total.saturating_add(GRACE);
        // Only waits for the model count: an answer is read as it is spoken.
        try_unfold((inner, total), |(mut inner, left): (Reply, Duration)| async move {
            let since = Instant::now();
            let Ok(delta) = timeout(left, inner.next()).await else {
                let why = "the answer did not end within its time";
                return Err(ProviderError::because("llm", ProviderErrorKind::Timeout, why));
            };
            let left = left.saturating_sub(since.elapsed());
            Ok(delta.transpose()?.map(|delta| (delta, (inner, left))))
        })
        .boxed()
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.prefetch(opening)
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }

    fn price_per_million(&self) -> f64 {
        self.inner.price_per_million()
    }
}

/// Returns the first piece of a reply, within its part of the time until `by`.
async fn begun(
    reply: &mut Reply,
    by: Instant,
    another: bool,
) -> Result<Option<LlmDelta>, ProviderError> {
    let now = Instant::now();
    let left = by.saturating_duration_since(now);
    let until = now + if another { left / 2 } else { left };
    match timeout_at(until, reply.next()).await {
        Ok(first) => first.transpose(),
        Err(_) => {
            let why = "no words within its part of the time";
            Err(ProviderError::because("llm", ProviderErrorKind::Timeout, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::time::Duration;

    use futures_util::stream;
    use hearken_ports::ProviderErrorKind::{
        BadRequest, NotServed, RateLimited, TooLarge, Unavailable,
    };

    use super::*;
    use crate::circuit_breaker::OPEN_FOR;

    type Answers = VecDeque<Vec<Result<&'static str, ProviderError>>>;

    /// Model that returns its scripted answers in order, then repeats the last.
    struct Scripted {
        answers: Mutex<Answers>,
        asked: Mutex<usize>,
    }

    impl Llm for Scripted {
        fn reply(&self, _: Prompt) -> Reply {
            *self.asked.lock().unwrap() += 1;
            let answer = self.answers.lock().unwrap().pop_front().expect("a scripted answer");
            let delta = |text: &str| LlmDelta::Text(text.to_owned());
            stream::iter(answer.into_iter().map(move |item| item.map(delta))).boxed()
        }
    }

    fn model(answers: Vec<Vec<Result<&'static str, ProviderError>>>) -> Arc<Scripted> {
        Arc::new(Scripted { answers: Mutex::new(answers.into()), asked: Mutex::default() })
    }

    fn fails(kind: ProviderErrorKind) -> Vec<Result<&'static str, ProviderError>> {
        vec![Err(ProviderError::new("scripted", kind))]
    }

    fn says(text: &'static str) -> Vec<Result<&'static str, ProviderError>> {
        vec![Ok(text)]
    }

    async fn ask(models: &Fallback) -> String {
        let reply = models.reply(Prompt::default());
        let told = reply.map(|item| match item {
            Ok(LlmDelta::Text(text)) => text,
            Ok(other) => panic!("{other:?}"),
            Err(error) => error.kind.to_string(),
        });
        told.collect::<Vec<_>>().await.join(",")
    }

    fn chain(models: Vec<Arc<dyn Llm>>) -> Fallback {
        Fallback::new(models, Duration::from_secs(8))
    }

    fn asked(model: &Scripted) -> usize {
        *model.asked.lock().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_model_answers_after_a_failure_and_the_failed_one_is_retried_later() {
        let one = model(vec![fails(Unavailable), fails(Unavailable), says("one"), says("one")]);
        let two = model((0..4).map(|_| says("two")).collect());
        let models = chain(vec![one.clone(), two.clone()]);
        assert_eq!(ask(&models).await, "two");
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 1, "it is skipped");
        tokio::time::advance(OPEN_FOR).await;
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 2, "one request tries it");
        assert_eq!(ask(&models).await, "two");
        tokio::time::advance(OPEN_FOR).await;
        assert_eq!(ask(&models).await, "one");
        assert_eq!(ask(&models).await, "one");
        assert_eq!((asked(&one), asked(&two)), (4, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn only_one_request_tries_a_failed_model() {
        let one = model(vec![fails(Unavailable), says("one")]);
        let two = model((0..2).map(|_| says("two")).collect());
        let models = chain(vec![one.clone(), two]);
        ask(&models).await;
        tokio::time::advance(OPEN_FOR).await;
        // A request starts when it is polled: this call takes the trial.
        assert!(models.models[0].circuit.try_acquire());
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 1);
        // A trial without an outcome does not block the model for ever.
        tokio::time::advance(OPEN_FOR).await;
        assert_eq!(ask(&models).await, "one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_that_is_not_asked_retains_its_trial() {
        let one = model(vec![fails(Unavailable), says("one"), fails(Unavailable)]);
        let two = model(vec![fails(Unavailable), says("two")]);
        let models = chain(vec![one, two]);
        assert_eq!(ask(&models).await, "unavailable");
        tokio::time::advance(OPEN_FOR).await;
        assert_eq!(ask(&models).await, "one");
        assert_eq!(ask(&models).await, "two");
    }

    #[tokio::test(start_paused = true)]
    async fn a_bad_request_and_a_broken_answer_are_not_sent_to_the_next_model() {
        let broken = vec![Ok("half"), Err(ProviderError::new("scripted", Unavailable))];
        let one = model(vec![fails(BadRequest), broken, says("one")]);
        let two = model(vec![]);
        let models = chain(vec![one, two.clone()]);
        assert_eq!(ask(&models).await, "request refused");
        assert_eq!(ask(&models).await, "half,unavailable");
        assert_eq!(ask(&models).await, "one");
        assert_eq!(asked(&two), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_a_model_does_not_serve_goes_to_the_next() {
        let one = model(vec![fails(TooLarge), fails(NotServed), says("one")]);
        let two = model((0..3).map(|_| says("two")).collect());
        let models = chain(vec![one.clone(), two]);
        assert_eq!(ask(&models).await, "two");
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 2, "a request that is too large does not count against the model");
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 2, "a model that does not serve is skipped");
    }

    /// Model that never answers.
    struct Hanging;

    impl Llm for Hanging {
        fn reply(&self, _: Prompt) -> Reply {
            stream::pending().boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_models_together_have_one_deadline() {
        let start = tokio::time::Instant::now();
        let models = chain(vec![Arc::new(Hanging), Arc::new(Hanging), model(vec![says("x")])]);
        assert_eq!(ask(&models).await, "x");
        assert_eq!(start.elapsed(), Duration::from_secs(6), "half of 8 s, and half of the rest");
        let start = tokio::time::Instant::now();
        let models = chain(vec![Arc::new(Hanging)]);
        assert_eq!(ask(&models).await, "timed out");
        assert_eq!(start.elapsed(), Duration::from_secs(8));
    }

    /// Model that sends a piece each second and never ends.
    struct Talking;

    impl Llm for Talking {
        fn reply(&self, _: Prompt) -> Reply {
            let word = |_| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok(LlmDelta::Text("x".into())), ()))
            };
            stream::unfold((), word).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_holds_for_the_whole_answer() {
        let total = Duration::from_secs(5);
        let start = tokio::time::Instant::now();
        let talking = DeadlineLlm { inner: Arc::new(Talking), total };
        let told: Vec<_> = talking.reply(Prompt::default()).collect().await;
        let error = told.last().unwrap().as_ref().unwrap_err();
        assert_eq!((told.len(), error.kind), (6, ProviderErrorKind::Timeout));
        assert_eq!(start.elapsed(), total + GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn playback_time_does_not_count_towards_the_deadline() {
        let total = Duration::from_secs(5);
        let talking = DeadlineLlm { inner: Arc::new(Talking), total };
        let mut told = talking.reply(Prompt::default());
        for _ in 0..5 {
            told.next().await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn if_all_models_fail_the_last_error_is_returned() {
        let one = model(vec![fails(Unavailable), fails(Unavailable)]);
        let two = model(vec![fails(RateLimited), says("two")]);
        let models = chain(vec![one.clone(), two.clone()]);
        assert_eq!(ask(&models).await, "rate limited");
        assert_eq!(ask(&models).await, "two", "even if both are skipped");
        assert_eq!((asked(&one), asked(&two)), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_that_a_model_requests_is_respected() {
        let limited = ProviderError::new("scripted", RateLimited);
        let limited = limited.retry_after(Some(Duration::from_secs(100)));
        let one = model(vec![vec![Err(limited)], says("one")]);
        let two = model((0..2).map(|_| says("two")).collect());
        let models = chain(vec![one, two]);
        ask(&models).await;
        tokio::time::advance(Duration::from_secs(99)).await;
        assert_eq!(ask(&models).await, "two");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask(&models).await, "one");
    }
}
