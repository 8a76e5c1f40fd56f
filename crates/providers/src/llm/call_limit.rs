//! Limit on concurrent calls of one model, for all frontends together. A call beyond the limit
//! waits for another to end. A part of the limit is reserved for devices: a user is listening, and
//! no number of applications may delay a spoken answer. Not for the rate of requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind, ServiceHealth};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::cost_tracker::DEVICE_FRONTEND;

/// Part of the limit that is reserved for devices: one in this many calls.
const RESERVED_PART: usize = 4;
/// Maximum number of models with their own limit; changed settings may name new models without end.
const MOST_MODELS: usize = 64;

/// Limits of all models. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct CallLimits(Arc<Mutex<HashMap<Key, Arc<CallLimit>>>>);

/// Base URL and name of a model, and its maximum number of concurrent calls.
type Key = (String, String, usize);

/// Limit of one model.
#[derive(Debug)]
pub(super) struct CallLimit {
    all: Arc<Semaphore>,
    /// For frontends other than devices; taken before one of `all`.
    others: Arc<Semaphore>,
}

/// Permits of a call in progress.
type Permits = (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

impl CallLimits {
    /// Returns the limit of this model, the same for every frontend.
    pub(super) fn of(&self, base: &str, model: &str, most: usize) -> Arc<CallLimit> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (base.to_owned(), model.to_owned(), most);
        if all.len() >= MOST_MODELS && !all.contains_key(&key) {
            all.clear();
        }
        Arc::clone(all.entry(key).or_insert_with(|| Arc::new(CallLimit::new(most))))
    }
}

impl CallLimit {
    fn new(most: usize) -> Self {
        let others = (most - most / RESERVED_PART).max(1);
        Self { all: Arc::new(Semaphore::new(most)), others: Arc::new(Semaphore::new(others)) }
    }

    async fn acquire(&self, frontend: &str) -> Option<Permits> {
        let acquire = |semaphore: &Arc<Semaphore>| Arc::clone(semaphore).acquire_owned();
        let other = match frontend {
            DEVICE_FRONTEND => None,
            _ => Some(acquire(&self.others).await.ok()?),
        };
        Some((other, acquire(&self.all).await.ok()?))
    }
}

/// Language model whose calls are limited.
pub(super) struct LimitedLlm {
    pub(super) inner: Arc<dyn Llm>,
    pub(super) limit: Arc<CallLimit>,
    pub(super) frontend: &'static str,
    /// Maximum wait for another call to end.
    pub(super) patience: Duration,
}

enum Stage {
    Waiting(Arc<CallLimit>, BoxStream<'static, Result<LlmDelta, ProviderError>>),
    Begun(Permits, BoxStream<'static, Result<LlmDelta, ProviderError>>),
}

impl Llm for LimitedLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let frontend = self.frontend;
        let patience = self.patience;
        let waiting = Stage::Waiting(Arc::clone(&self.limit), self.inner.reply(prompt));
        try_unfold(waiting, move |stage| async move {
            let (permits, mut reply) = match stage {
                Stage::Waiting(limit, reply) => {
                    match timeout(patience, limit.acquire(frontend)).await {
                        Ok(Some(permits)) => (permits, reply),
                        _ => return Err(busy()),
                    }
                }
                Stage::Begun(permits, reply) => (permits, reply),
            };
            let delta = reply.next().await.transpose()?;
            Ok(delta.map(|delta| (delta, Stage::Begun(permits, reply))))
        })
        .boxed()
    }

    /// Prefetches only while the model has a free permit: no caller waits for it.
    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        let Ok(permit) = Arc::clone(&self.limit.all).try_acquire_owned() else {
            return Box::pin(std::future::ready(()));
        };
        let prefetching = self.inner.prefetch(opening);
        Box::pin(async move {
            let _permit = permit;
            prefetching.await;
        })
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

fn busy() -> ProviderError {
    let why = "the maximum number of concurrent calls (`llm.max_calls`) is in progress";
    ProviderError::because("llm", ProviderErrorKind::RateLimited, why)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::sync::watch;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Model that counts its calls in progress; each lasts until it is dropped.
    struct Endless(watch::Sender<usize>);

    impl Llm for Endless {
        fn reply(&self, _: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
            let calls = self.0.clone();
            let begin = async move {
                calls.send_modify(|n| *n += 1);
                let ended = Ended(calls);
                stream::once(std::future::ready(Ok(LlmDelta::Calling)))
                    .chain(stream::pending())
                    .inspect(move |_| {
                        let _ = &ended;
                    })
            };
            stream::once(begin).flatten().boxed()
        }
    }

    struct Ended(watch::Sender<usize>);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.send_modify(|n| *n -= 1);
        }
    }

    fn model(
        limit: &Arc<CallLimit>,
        frontend: &'static str,
    ) -> (LimitedLlm, watch::Receiver<usize>) {
        let (calls, counted) = watch::channel(0);
        let inner = Arc::new(Endless(calls));
        (LimitedLlm { inner, limit: Arc::clone(limit), frontend, patience: PATIENCE }, counted)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_beyond_the_limit_waits_and_devices_have_a_reserved_part() {
        let limit = CallLimits::default().of("http://127.0.0.1/v1", "m", 4);
        let (chat, chats) = model(&limit, "chat");
        let mut calls: Vec<_> = (0..3).map(|_| chat.reply(Prompt::default())).collect();
        for call in &mut calls {
            assert!(matches!(call.next().await, Some(Ok(LlmDelta::Calling))));
        }
        let mut fourth = chat.reply(Prompt::default());
        let begun = tokio::time::Instant::now();
        let refused = fourth.next().await.unwrap().unwrap_err();
        assert_eq!(refused.kind, ProviderErrorKind::RateLimited);
        assert_eq!((begun.elapsed(), *chats.borrow()), (PATIENCE, 3));
        assert!(fourth.next().await.is_none());

        let (device, devices) = model(&limit, DEVICE_FRONTEND);
        let mut spoken = device.reply(Prompt::default());
        assert!(spoken.next().await.unwrap().is_ok());
        assert_eq!(*devices.borrow(), 1);
        let mut waiting = chat.reply(Prompt::default());
        let mut waits = waiting.next();
        assert!(futures_util::poll!(&mut waits).is_pending());
        drop(calls);
        assert!(waits.await.unwrap().is_ok(), "the end of a call frees a permit");
        assert_eq!(*chats.borrow(), 1);
    }

    #[test]
    fn frontends_share_the_limit_of_a_model() {
        let limits = CallLimits::default();
        let first = limits.of("a", "m", 2);
        assert!(Arc::ptr_eq(&first, &limits.clone().of("a", "m", 2)));
        assert!(!Arc::ptr_eq(&first, &limits.of("a", "n", 2)));
        for n in 0..1_000 {
            limits.of(&n.to_string(), "m", 2);
        }
        assert!(limits.0.lock().unwrap().len() <= MOST_MODELS);
    }
}
