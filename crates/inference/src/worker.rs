//! The thread on which a model runs: one request at a time, within a share of the processor. A
//! request of a turn does not wait for a busy model; a request of an administrator does. Not for
//! the model.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hearken_base::priority::lower_priority;
use metrics::{Histogram, histogram};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

/// Maximum processor time that can be saved up, for several users at once.
const SAVED: Duration = Duration::from_secs(2);

/// Settings of a model's thread.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the model's task, in logs and of its thread.
    pub name: &'static str,
    /// Consequence of a missing model, for the logs.
    pub without: &'static str,
    /// Metric of the duration of a request.
    pub metric: &'static str,
    /// Number of requests that may wait while one is being answered.
    pub waiting: usize,
    /// Maximum wait for an answer.
    pub deadline: Duration,
    /// Maximum share of one core, in percent.
    pub cpu_percent: u32,
}

/// Function that the thread runs for each request.
pub type Compute<Q, A> = Box<dyn FnMut(Q) -> anyhow::Result<A>>;

struct Question<Q, A> {
    asked: Q,
    answer: oneshot::Sender<A>,
    /// True if the request is answered without a share of the processor, and its time is not
    /// counted.
    unmetered: bool,
}

/// Model on a thread of low priority, which ends when this is dropped.
pub struct Worker<Q, A> {
    questions: Sender<Question<Q, A>>,
    deadline: Duration,
}

impl<Q: Send + 'static, A: Send + 'static> Worker<Q, A> {
    /// Starts the thread, which loads the model from this file. Until then, and if loading fails,
    /// which is logged, requests get no answer.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    pub fn start(
        settings: Settings,
        file: PathBuf,
        load: impl FnOnce(&Path) -> anyhow::Result<Compute<Q, A>> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (questions, mut asked) = channel(settings.waiting);
        let name = settings.name;
        let deadline = settings.deadline;
        let thread = std::thread::Builder::new().name(name.into());
        let started = thread.spawn(move || {
            lower_priority();
            let Settings { name, without, .. } = settings;
            match load(&file) {
                Ok(compute) => {
                    tracing::info!(file = %file.display(), "loaded the {name}");
                    work(compute, &mut asked, &settings);
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "cannot use the {name}; {without}");
                }
            }
        });
        started.with_context(|| format!("cannot start the thread of the {name}"))?;
        Ok(Self { questions, deadline })
    }

    /// Returns the answer; `None` if the model is busy, has used up its share of the processor,
    /// failed (which is logged), or exceeds its deadline.
    pub async fn ask(&self, asked: Q) -> Option<A> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(Question { asked, answer, unmetered: false }).ok()?;
        tokio::time::timeout(self.deadline, answered).await.ok()?.ok()
    }

    /// Returns the answer to a rare request, which waits for a busy model: its time does not count
    /// towards the model's share of the processor. `None` if the model failed, or this takes longer
    /// than `deadline`.
    pub async fn ask_patiently(&self, asked: Q, deadline: Duration) -> Option<A> {
        let (answer, answered) = oneshot::channel();
        let asking = async {
            self.questions.send(Question { asked, answer, unmetered: true }).await.ok()?;
            answered.await.ok()
        };
        tokio::time::timeout(deadline, asking).await.ok()?
    }
}

fn work<Q, A>(
    mut compute: Compute<Q, A>,
    questions: &mut Receiver<Question<Q, A>>,
    settings: &Settings,
) {
    let Settings { name, without, metric, .. } = *settings;
    let took: Histogram = histogram!(metric);
    let mut budget = Budget::new(settings.cpu_percent, Instant::now());
    let mut failed = false;
    while let Some(Question { asked, answer, unmetered }) = questions.blocking_recv() {
        let begun = Instant::now();
        if answer.is_closed() || !(unmetered || budget.allows(begun)) {
            continue;
        }
        match compute(asked) {
            Ok(computed) => {
                // The caller may have stopped waiting.
                answer.send(computed).map_or_else(drop, drop);
            }
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "the {name} failed; {without}");
            }
            Err(_) => {}
        }
        took.record(begun.elapsed());
        if !unmetered {
            budget.spend(begun.elapsed());
        }
    }
}

/// Processor time that may be used, as it accrues and is spent.
#[derive(Debug)]
struct Budget {
    percent: u32,
    /// May be negative: the cost of a request is known only afterwards.
    left: f64,
    counted: Instant,
}

impl Budget {
    fn new(percent: u32, now: Instant) -> Self {
        Self { percent, left: SAVED.as_secs_f64(), counted: now }
    }

    fn allows(&mut self, now: Instant) -> bool {
        let came = now.saturating_duration_since(self.counted).as_secs_f64();
        self.left += came * f64::from(self.percent) / 100.0;
        self.left = self.left.min(SAVED.as_secs_f64());
        self.counted = now;
        self.left > 0.0
    }

    fn spend(&mut self, time: Duration) {
        self.left -= time.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    const SETTINGS: Settings = Settings {
        name: "model",
        without: "nothing happens",
        metric: "hearken_model_seconds",
        waiting: 1,
        // A busy machine must not fail the test.
        deadline: Duration::from_secs(60),
        cpu_percent: 100,
    };

    fn worker(
        compute: impl FnMut(u32) -> anyhow::Result<u32> + Send + 'static,
    ) -> Worker<u32, u32> {
        Worker::start(SETTINGS, PathBuf::new(), |_| Ok(Box::new(compute))).unwrap()
    }

    #[tokio::test]
    async fn a_request_is_answered() {
        assert_eq!(worker(|asked| Ok(asked * 2)).ask(7).await, Some(14));
    }

    #[tokio::test]
    async fn a_request_to_a_busy_model_is_refused_at_once_and_later_ones_work() {
        let (go_on, waits) = mpsc::channel::<()>();
        let (tell, begun) = mpsc::channel();
        let compute = move |asked| {
            // The test waits only for the first.
            tell.send(()).unwrap_or_default();
            waits.recv()?;
            Ok(asked)
        };
        let worker = Arc::new(worker(compute));
        let ask = |asked| {
            let worker = Arc::clone(&worker);
            tokio::spawn(async move { worker.ask(asked).await })
        };
        let first = ask(1);
        tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
        // A second request waits; a third is refused.
        let second = ask(2);
        tokio::task::yield_now().await;
        assert_eq!(worker.ask(3).await, None);
        go_on.send(()).unwrap();
        go_on.send(()).unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Some(1), Some(2)));
    }

    #[tokio::test]
    async fn a_patient_request_waits_for_a_busy_model_and_needs_no_share_of_the_processor() {
        let (go_on, waits) = mpsc::channel::<()>();
        let compute = move |asked| Ok(waits.recv().map_or(asked, |()| asked));
        let settings = Settings { cpu_percent: 0, ..SETTINGS };
        let worker = Worker::start(settings, PathBuf::new(), |_| Ok(Box::new(compute))).unwrap();
        let mut asking =
            [1, 2, 3].map(|asked| Box::pin(worker.ask_patiently(asked, SETTINGS.deadline)));
        // The first is at the model or before it, the second is in the queue, the third waits for a
        // place there.
        for one in &mut asking {
            assert!(futures_util::poll!(one).is_pending());
        }
        drop(go_on);
        for (one, expected) in asking.into_iter().zip([1, 2, 3]) {
            assert_eq!(one.await, Some(expected));
        }
    }

    #[tokio::test]
    async fn a_failure_has_no_answer_and_the_next_request_works() {
        let mut calls = 0;
        let compute = move |asked| {
            calls += 1;
            if calls == 1 { Err(anyhow::anyhow!("broken")) } else { Ok(asked) }
        };
        let worker = worker(compute);
        assert_eq!(worker.ask(1).await, None);
        assert_eq!(worker.ask(1).await, Some(1));
    }

    #[tokio::test]
    async fn no_request_waits_longer_than_the_deadline() {
        let (go_on, waits) = mpsc::channel::<()>();
        let compute = move |asked| Ok(waits.recv().map_or(asked, |()| asked));
        let settings = Settings { deadline: Duration::from_millis(1), ..SETTINGS };
        let worker = Worker::start(settings, PathBuf::new(), |_| Ok(Box::new(compute))).unwrap();
        assert_eq!(worker.ask(1_u32).await, None);
        drop(go_on);
    }

    #[tokio::test]
    async fn requests_to_a_model_that_cannot_be_loaded_have_no_answer() {
        let load = |file: &Path| anyhow::bail!("{} is not a model", file.display());
        let worker = Worker::<u32, u32>::start(SETTINGS, "/no/model.onnx".into(), load).unwrap();
        assert_eq!(worker.ask(1).await, None);
        assert_eq!(worker.ask(1).await, None);
    }

    #[test]
    fn no_more_time_is_used_than_accrues() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut budget = Budget::new(10, start);
        let mut allowed = 0;
        for ms in (0..100_000).step_by(20) {
            if budget.allows(at(ms)) {
                allowed += 1;
                budget.spend(Duration::from_millis(50));
            }
        }
        // 10 s accrue in 100 s, and two were saved up: 240 requests of 50 ms.
        assert!((239..=241).contains(&allowed), "{allowed}");
        assert!(!Budget { percent: 0, left: 0.0, counted: start }.allows(at(1_000_000)));
    }
}
