//! Retries of failed calls if this is safe: no part of the answer has arrived yet, and the
//! failure may be temporary. Wrappers implement the same ports, invisible to callers. Not for
//! failures within an answer: those end the turn.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_ports::{
    Asr, AsrStream, Line, Llm, LlmDelta, Pcm, Prompt, ProviderError, ProviderErrorKind,
    ServiceHealth, Transcript, Tts, UtteranceSpec,
};
use tokio::time::{Instant, sleep, timeout_at};

/// Added to the deadline of all attempts. An attempt's own deadline starts a little later, and its
/// error is more specific: it may fire first.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// Policy for retries of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Waits before the second and later attempts. Their number bounds the retries.
    pub waits: &'static [Duration],
    /// Maximum wait that a provider may request. Beyond that, there is no retry.
    pub longest_wait: Duration,
    /// Latest start of an attempt, after the start of the first.
    pub within: Duration,
    /// Time limit for all attempts and the waits between them, until the first item of an answer.
    pub total: Duration,
}

impl RetryPolicy {
    /// Returns the policy for a listening user: two retries after short waits, none later than a
    /// person would wait.
    pub const fn spoken(within: Duration) -> Self {
        const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
        let longest_wait = Duration::from_secs(5);
        Self { waits: &WAITS, longest_wait, within, total: Duration::MAX }
    }

    /// Returns the policy for applications: three retries after 1, 2 and 4 s, if the call timed
    /// out, hit a rate limit (429) or met a fault (5xx). Waits up to 30 s if the provider requests
    /// it. Source: the orchestrator's document, 7.2.
    pub const fn patient() -> Self {
        const WAITS: [Duration; 3] =
            [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
        Self {
            waits: &WAITS,
            longest_wait: Duration::from_secs(30),
            within: Duration::MAX,
            total: Duration::MAX,
        }
    }

    /// Returns the policy with one deadline for all attempts.
    #[must_use]
    pub const fn in_all(self, total: Duration) -> Self {
        Self { total, ..self }
    }

    /// Returns the wait before the next attempt; none if there is no further one. `failures` counts
    /// from 1. `asked` is the wait that the provider requested.
    pub(crate) fn wait(
        self,
        failures: usize,
        since: Instant,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        let usual = *self.waits.get(failures.checked_sub(1)?)?;
        let wait = asked.map_or(usual, |asked| asked.max(usual));
        let then = since.elapsed().saturating_add(wait);
        let soon = wait <= self.longest_wait && then <= self.within && then < self.total;
        soon.then_some(wait)
    }

    /// Runs `work` within the deadline of all attempts that started at `since`.
    async fn bounded<T>(
        self,
        since: Instant,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let Some(by) = since.checked_add(self.total.saturating_add(GRACE)) else {
            return work.await;
        };
        timeout_at(by, work).await.unwrap_or_else(|_| {
            let why = "no answer within the time for all attempts";
            Err(ProviderError::because("provider", ProviderErrorKind::Timeout, why))
        })
    }
}

/// Any port with retries.
pub struct Retrying<P: ?Sized> {
    inner: Arc<P>,
    policy: RetryPolicy,
}

impl<P: ?Sized> Retrying<P> {
    /// Wraps `inner` with retries by `policy`.
    pub fn new(inner: Arc<P>, policy: RetryPolicy) -> Self {
        Self { inner, policy }
    }
}

impl<P: Llm + ?Sized + 'static> Llm for Retrying<P> {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let inner = self.inner.clone();
        again_before_the_first(self.policy, move || inner.reply(prompt.clone()))
    }

    /// Prefetches without retries: the real request follows anyway.
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

impl<P: Tts + ?Sized + 'static> Tts for Retrying<P> {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let inner = self.inner.clone();
        again_before_the_first(self.policy, move || inner.speak(line.clone()))
    }

    fn sample_rate_hz(&self) -> Option<u32> {
        self.inner.sample_rate_hz()
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }
}

/// Returns the stream that `call` makes. Repeats the call while it fails before its first item.
fn again_before_the_first<T, F>(
    policy: RetryPolicy,
    call: F,
) -> BoxStream<'static, Result<T, ProviderError>>
where
    T: Send + 'static,
    F: Fn() -> BoxStream<'static, Result<T, ProviderError>> + Send + Sync + 'static,
{
    try_unfold(Calling::Waiting(call), move |calling| async move {
        let (first, stream) = match calling {
            Calling::Waiting(call) => first(policy, &call).await?,
            Calling::Begun(mut stream) => (stream.next().await.transpose()?, stream),
        };
        Ok(first.map(|item| (item, Calling::Begun(stream))))
    })
    .boxed()
}

enum Calling<T, F> {
    Waiting(F),
    Begun(BoxStream<'static, Result<T, ProviderError>>),
}

/// Returns the first item of the first successful attempt, and the rest of its stream.
async fn first<T, F>(
    policy: RetryPolicy,
    call: &F,
) -> Result<(Option<T>, BoxStream<'static, Result<T, ProviderError>>), ProviderError>
where
    F: Fn() -> BoxStream<'static, Result<T, ProviderError>>,
{
    let since = Instant::now();
    let mut failures = 0;
    loop {
        let mut stream = call();
        let first = async { stream.next().await.transpose() };
        let error = match policy.bounded(since, first).await {
            Ok(item) => return Ok((item, stream)),
            Err(error) => error,
        };
        drop(stream);
        failures += 1;
        pause(policy, failures, since, error).await?;
    }
}

/// Waits before the next attempt, or returns the error if there is none.
pub(super) async fn pause(
    policy: RetryPolicy,
    failures: usize,
    since: Instant,
    error: ProviderError,
) -> Result<(), ProviderError> {
    let wait = policy.wait(failures, since, error.retry_after);
    let Some(wait) = wait.filter(|_| error.kind.is_retryable()) else { return Err(error) };
    tracing::warn!(provider = error.provider, kind = %error.kind, failures, "retrying a request");
    sleep(wait).await;
    Ok(())
}

#[async_trait]
impl<P: Asr + ?Sized + 'static> Asr for Retrying<P> {
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let first = self.inner.open(spec.clone()).await?;
        let inner = self.inner.clone();
        let policy = self.policy;
        Ok(Box::new(Remembered { inner, policy, spec, first, samples: Vec::new() }))
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }
}

/// Utterance stored for another attempt. Only for recognisers that themselves collect the whole
/// utterance: they bound its length.
struct Remembered<P: ?Sized> {
    inner: Arc<P>,
    policy: RetryPolicy,
    spec: UtteranceSpec,
    first: Box<dyn AsrStream>,
    samples: Vec<i16>,
}

#[async_trait]
impl<P: Asr + ?Sized> AsrStream for Remembered<P> {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        self.first.push(pcm).await?;
        self.samples.extend_from_slice(pcm);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
        let Self { inner, policy, spec, first, samples } = *self;
        let since = Instant::now();
        let mut outcome = policy.bounded(since, first.finish()).await;
        let mut failures = 0;
        loop {
            let error = match outcome {
                Ok(transcript) => return Ok(transcript),
                Err(error) => error,
            };
            failures += 1;
            pause(policy, failures, since, error).await?;
            outcome = policy.bounded(since, whole(&*inner, spec.clone(), &samples)).await;
        }
    }
}

/// Samples of one push: one second, which every recogniser accepts.
const PIECE: usize = 16_000;

/// Sends the whole utterance in another attempt.
pub(super) async fn whole<P: Asr + ?Sized>(
    inner: &P,
    spec: UtteranceSpec,
    samples: &[i16],
) -> Result<Transcript, ProviderError> {
    let mut stream = inner.open(spec).await?;
    for piece in samples.chunks(PIECE) {
        stream.push(piece).await?;
    }
    stream.finish().await
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use futures_util::stream;
    use hearken_ports::ProviderErrorKind::{
        BadRequest, Fault, NotServed, Protocol, RateLimited, Timeout, TooLarge, Unauthorized,
        Unavailable,
    };

    use super::*;

    type Attempt = Vec<Result<i16, ProviderError>>;

    /// Runs the scripted attempts in order. The transcript consists of the first value and the
    /// number of samples.
    struct Scripted(Mutex<VecDeque<Attempt>>);

    impl Scripted {
        fn next(&self) -> Attempt {
            self.0.lock().unwrap().pop_front().expect("the script has an attempt")
        }
    }

    impl Tts for Scripted {
        fn speak(&self, _: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
            let pcm = |value| Pcm { samples: [value].into(), sample_rate_hz: 16_000 };
            stream::iter(self.next().into_iter().map(move |item| item.map(pcm))).boxed()
        }
    }

    struct Heard(Result<i16, ProviderError>, usize);

    #[async_trait]
    impl Asr for Scripted {
        async fn open(&self, _: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
            Ok(Box::new(Heard(self.next().remove(0), 0)))
        }
    }

    #[async_trait]
    impl AsrStream for Heard {
        async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
            self.1 += pcm.len();
            Ok(())
        }

        async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
            self.0.map(|value| Transcript { text: format!("{value}/{}", self.1) })
        }
    }

    fn error(kind: ProviderErrorKind) -> Result<i16, ProviderError> {
        Err(ProviderError::new("scripted", kind))
    }

    fn asked(seconds: u64) -> Result<i16, ProviderError> {
        let wait = Some(Duration::from_secs(seconds));
        Err(ProviderError::new("scripted", RateLimited).retry_after(wait))
    }

    fn scripted(attempts: Vec<Attempt>) -> Arc<Scripted> {
        Arc::new(Scripted(Mutex::new(attempts.into())))
    }

    fn policy(seconds: u64) -> RetryPolicy {
        RetryPolicy::spoken(Duration::from_secs(seconds))
    }

    /// Returns the transcript, the time it took and the number of unused attempts.
    async fn hear(seconds: u64, attempts: Vec<Attempt>) -> (String, Duration, usize) {
        hear_by(policy(seconds), attempts).await
    }

    async fn hear_by(policy: RetryPolicy, attempts: Vec<Attempt>) -> (String, Duration, usize) {
        let inner = scripted(attempts);
        let start = Instant::now();
        let heard = Retrying::new(inner.clone(), policy)
            .speak(Line::new("a"))
            .map(|item| match item {
                Ok(pcm) => pcm.samples[0].to_string(),
                Err(e) => e.kind.to_string(),
            })
            .collect::<Vec<_>>()
            .await;
        let left = inner.0.lock().unwrap().len();
        (heard.join(","), start.elapsed(), left)
    }

    #[tokio::test(start_paused = true)]
    async fn two_more_attempts_are_made_after_their_waits() {
        let fail = || vec![error(Unavailable)];
        let (heard, took, _) = hear(10, vec![fail(), fail(), vec![Ok(1), Ok(2)]]).await;
        assert_eq!((&*heard, took), ("1,2", Duration::from_millis(1_250)));
        let (heard, _, left) = hear(10, vec![fail(), fail(), fail(), fail()]).await;
        assert_eq!((&*heard, left), ("unavailable", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_not_retried_after_its_first_item_or_a_permanent_failure() {
        let (heard, took, left) = hear(10, vec![vec![Ok(1), error(Unavailable)], vec![]]).await;
        assert_eq!((&*heard, took, left), ("1,unavailable", Duration::ZERO, 1));
        let (heard, took, left) = hear(10, vec![vec![error(BadRequest)], vec![]]).await;
        assert_eq!((&*heard, took, left), ("request refused", Duration::ZERO, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_providers_wait_is_respected_up_to_a_limit() {
        let (heard, took, _) = hear(10, vec![vec![asked(3)], vec![Ok(1)]]).await;
        assert_eq!((&*heard, took), ("1", Duration::from_secs(3)));
        let (heard, took, left) = hear(10, vec![vec![asked(6)], vec![Ok(1)]]).await;
        assert_eq!((&*heard, took, left), ("rate limited", Duration::ZERO, 1));
        let (heard, took, left) = hear(2, vec![vec![asked(3)], vec![Ok(1)]]).await;
        assert_eq!((&*heard, took, left), ("rate limited", Duration::ZERO, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn applications_wait_for_one_two_and_four_seconds() {
        let patient = |attempts| hear_by(RetryPolicy::patient(), attempts);
        for kind in [Timeout, RateLimited, Unavailable, Fault] {
            let fail = || vec![error(kind)];
            let (heard, took, _) = patient(vec![fail(), fail(), fail(), vec![Ok(1)]]).await;
            assert_eq!((&*heard, took), ("1", Duration::from_secs(7)), "{kind}");
            let (heard, took, left) = patient(vec![fail(), fail(), fail(), fail(), fail()]).await;
            assert_eq!((heard, took, left), (kind.to_string(), Duration::from_secs(7), 1));
        }
        for kind in [BadRequest, TooLarge, NotServed, Unauthorized, Protocol] {
            let (heard, took, left) = patient(vec![vec![error(kind)], vec![]]).await;
            assert_eq!((heard, took, left), (kind.to_string(), Duration::ZERO, 1));
        }
        let (heard, took, _) = patient(vec![vec![asked(20)], vec![asked(0)], vec![Ok(1)]]).await;
        assert_eq!((&*heard, took), ("1", Duration::from_secs(22)));
        let (heard, took, left) = patient(vec![vec![asked(31)], vec![]]).await;
        assert_eq!((&*heard, took, left), ("rate limited", Duration::ZERO, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_listening_user_is_answered_after_a_fault() {
        let (heard, took, _) = hear(10, vec![vec![error(Fault)], vec![Ok(1)]]).await;
        assert_eq!((&*heard, took), ("1", Duration::from_millis(250)));
    }

    /// Stream that never has an item.
    struct Hanging;

    impl Tts for Hanging {
        fn speak(&self, _: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
            stream::pending().boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_attempts_together_have_one_deadline() {
        let total = Duration::from_secs(5);
        for policy in [policy(10).in_all(total), RetryPolicy::patient().in_all(total)] {
            let start = Instant::now();
            let hanging = Retrying::new(Arc::new(Hanging), policy);
            let told = hanging.speak(Line::new("a")).next().await.unwrap();
            assert_eq!((told.unwrap_err().kind, start.elapsed()), (Timeout, total + GRACE));
            // A wait that would end after the deadline does not start.
            let fail = || vec![error(Unavailable)];
            let failing = vec![fail(), fail(), fail(), fail(), fail()];
            let (told, took, _) = hear_by(policy, failing).await;
            assert!(told == "unavailable" && took < total, "{told} {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_retried_utterance_is_whole() {
        let inner = scripted(vec![vec![error(Unavailable)], vec![Ok(7)]]);
        let asr = Retrying::new(inner, policy(10));
        let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
        utterance.push(&[0; 30]).await.unwrap();
        utterance.push(&[0; 12]).await.unwrap();
        assert_eq!(utterance.finish().await.unwrap().text, "7/42");
    }
}
