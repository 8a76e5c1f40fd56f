//! The thread on which the model works: one question at a time, and no more of the processor than it may have. Who
//! finds it busy is not kept waiting. Not for the model.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use async_trait::async_trait;
use hearken_actors::ports::TurnDetector;
use hearken_base::priority::lower_priority;
use metrics::{Histogram, histogram};
use tokio::sync::oneshot;

use crate::smart_turn::SmartTurn;

/// Longest wait for a judgement: later, the silence is over.
const DEADLINE: Duration = Duration::from_millis(200);
/// Questions that wait while one is being answered.
const WAITING: usize = 1;
/// Processor time that may be saved up, for several people who pause at once.
const SAVED: Duration = Duration::from_secs(2);

/// What the thread does with speech.
type Judge = Box<dyn FnMut(&[i16]) -> anyhow::Result<f32>>;

struct Question {
    speech: Vec<i16>,
    answer: oneshot::Sender<f32>,
}

/// Turn detector on a thread of low priority, which ends when this is dropped.
pub struct Worker {
    questions: SyncSender<Question>,
    deadline: Duration,
}

impl Worker {
    /// Starts the thread, which loads Smart Turn from this file and may use this share of one core, in percent. Until
    /// the model is loaded, and where it cannot be, which is logged, nothing is judged.
    ///
    /// # Errors
    /// Fails if the system gives no thread.
    pub fn start(file: PathBuf, cpu_percent: u32) -> anyhow::Result<Self> {
        let load = move || {
            let mut model = SmartTurn::load(&file)?;
            tracing::info!(file = %file.display(), "loaded the turn detector");
            Ok(Box::new(move |speech: &[i16]| model.judge(speech)) as Judge)
        };
        Self::with(load, cpu_percent)
    }

    fn with(
        load: impl FnOnce() -> anyhow::Result<Judge> + Send + 'static,
        cpu_percent: u32,
    ) -> anyhow::Result<Self> {
        let (questions, asked) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("turn-detector".into());
        let started = thread.spawn(move || {
            lower_priority();
            match load() {
                Ok(judge) => work(judge, &asked, Budget::new(cpu_percent, Instant::now())),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "cannot use the turn detector; silence alone decides");
                }
            }
        });
        started.context("cannot start the thread of the turn detector")?;
        Ok(Self { questions, deadline: DEADLINE })
    }
}

#[async_trait]
impl TurnDetector for Worker {
    async fn judge(&self, speech: Vec<i16>) -> Option<f32> {
        let (answer, judged) = oneshot::channel();
        self.questions.try_send(Question { speech, answer }).ok()?;
        tokio::time::timeout(self.deadline, judged).await.ok()?.ok()
    }
}

fn work(mut judge: Judge, asked: &Receiver<Question>, mut budget: Budget) {
    let took: Histogram = histogram!("hearken_turn_detector_seconds");
    let mut failed = false;
    while let Ok(Question { speech, answer }) = asked.recv() {
        let begun = Instant::now();
        if answer.is_closed() || !budget.allows(begun) {
            continue;
        }
        match judge(&speech) {
            Ok(probability) => {
                // Nobody waits for it any more where the person went on.
                answer.send(probability).unwrap_or_default();
            }
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "the turn detector failed; silence alone decides");
            }
            Err(_) => {}
        }
        took.record(begun.elapsed());
        budget.spend(begun.elapsed());
    }
}

/// Processor time that may be used, as it comes in and is spent.
#[derive(Debug)]
struct Budget {
    percent: u32,
    /// May be less than nothing: what a question costs is known afterwards.
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
    use std::sync::mpsc::channel;

    use super::*;

    fn worker(judge: impl FnMut(&[i16]) -> anyhow::Result<f32> + Send + 'static) -> Worker {
        // A busy machine is no failure here.
        let deadline = Duration::from_secs(60);
        Worker { deadline, ..Worker::with(|| Ok(Box::new(judge)), 100).unwrap() }
    }

    #[tokio::test]
    async fn speech_is_judged() {
        let worker = worker(|speech| Ok(speech.len() as f32 / 10.0));
        assert_eq!(worker.judge(vec![0; 7]).await, Some(0.7));
    }

    #[tokio::test]
    async fn who_finds_it_busy_is_told_at_once_and_it_works_again_afterwards() {
        let (go_on, waits) = channel::<()>();
        let (tell, begun) = channel();
        let judge = move |_: &[i16]| {
            // Only the first is waited for.
            tell.send(()).unwrap_or_default();
            waits.recv()?;
            Ok(0.5)
        };
        let worker = std::sync::Arc::new(worker(judge));
        let ask = || {
            let worker = std::sync::Arc::clone(&worker);
            tokio::spawn(async move { worker.judge(vec![1]).await })
        };
        let first = ask();
        tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
        // One more waits; the next does not.
        let second = ask();
        tokio::task::yield_now().await;
        assert_eq!(worker.judge(vec![1]).await, None);
        go_on.send(()).unwrap();
        go_on.send(()).unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Some(0.5), Some(0.5)));
    }

    #[tokio::test]
    async fn a_failure_is_no_judgement_and_the_next_one_works() {
        let mut calls = 0;
        let judge = move |_: &[i16]| {
            calls += 1;
            if calls == 1 { Err(anyhow::anyhow!("broken")) } else { Ok(0.1) }
        };
        let worker = worker(judge);
        assert_eq!(worker.judge(vec![1]).await, None);
        assert_eq!(worker.judge(vec![1]).await, Some(0.1));
    }

    #[tokio::test]
    async fn a_file_that_is_no_model_ends_nothing() {
        let worker = Worker::start("/no/model.onnx".into(), 100).unwrap();
        assert_eq!(worker.judge(vec![1]).await, None);
        assert_eq!(worker.judge(vec![1]).await, None);
    }

    #[test]
    fn no_more_time_is_used_than_comes_in() {
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
        // 10 s come in with 100, and two were saved up: 240 questions of 50 ms.
        assert!((239..=241).contains(&allowed), "{allowed}");
        assert!(!Budget { percent: 0, left: 0.0, counted: start }.allows(at(1_000_000)));
    }
}
