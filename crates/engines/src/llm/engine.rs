//! One model on one thread behind a bounded queue. Requests are answered in the order of arrival,
//! except those of low priority (OpenAI's `service_tier` "flex"), which are answered last. Knows
//! neither HTTP nor any particular model.
//!
//! - Dropping the receiver cancels a request: a waiting request is skipped, a running one stops at
//!   the next token.
//! - The model never waits for a reader: the channel of one answer has room for the whole answer.
//! - The thread ends with its [`Engine`], or when the model panics or cannot be loaded.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::answer::{AnswerParser, Part};
use super::generation::{Finish, FinishReason, Generation, Generator, LlmError, Piece};

/// Capacity of an answer's channel beyond one part per token.
const LANE_SLACK: usize = 16;

/// Owner of the model's thread.
#[derive(Debug)]
pub struct Engine {
    queue: EngineQueue,
    thread: Option<JoinHandle<()>>,
}

/// Handle for submitting requests; cheap to clone.
#[derive(Debug, Clone)]
pub struct EngineQueue(Arc<Shared>);

/// Event that a request receives, in order; [`Event::Ended`] or [`Event::Failed`] is the last. A
/// channel that closes without either means that the engine has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Next part of the answer.
    Part(Part),
    /// The answer is complete.
    Ended(Finish),
    /// The request failed and has no answer.
    Failed(LlmError),
}

/// Reason why a request was not queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The queue is full.
    #[error("{waiting} requests are waiting already: try again later")]
    Full {
        /// Number of waiting requests.
        waiting: usize,
        /// Estimated time until the queue has room.
        retry_after: Duration,
    },
    /// The model has ended or is about to end.
    #[error("the language model is not running")]
    Gone,
}

/// State of the model's thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineState {
    /// Reading the model from disk.
    Loading,
    /// Answering, or waiting for requests.
    Ready,
    /// The thread has ended: on request (`None`), or because of this error.
    Ended(Option<LlmError>),
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    most_waiting: usize,
    closing: AtomicBool,
    state: watch::Sender<EngineState>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    busy: bool,
    last_answer: Duration,
}

#[derive(Debug)]
struct Job {
    request: Generation,
    lane: mpsc::Sender<Event>,
}

impl Engine {
    /// Starts the thread, which calls `load` first. `load` creates a model and passes it to the
    /// function that it receives as argument; when that function returns, the model is no longer
    /// needed. Besides the request being answered, at most `most_waiting` requests (at least one)
    /// wait.
    pub fn start<L>(most_waiting: usize, load: L) -> std::io::Result<Self>
    where
        L: FnOnce(&mut dyn FnMut(&mut dyn Generator)) -> Result<(), LlmError> + Send + 'static,
    {
        let queue = EngineQueue(Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            most_waiting: most_waiting.max(1),
            closing: AtomicBool::new(false),
            state: watch::Sender::new(EngineState::Loading),
        }));
        let shared = queue.0.clone();
        let thread = std::thread::Builder::new().name("llm".into()).spawn(move || {
            let mut ending = Ending { shared: &shared, cause: Some(crashed()) };
            let outcome = load(&mut |model| {
                shared.state.send_replace(EngineState::Ready);
                while let Some(job) = shared.next() {
                    answer_one(&shared, model, job);
                }
            });
            ending.cause = outcome.err();
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Returns a handle for submitting requests.
    pub fn queue(&self) -> EngineQueue {
        self.queue.clone()
    }

    /// Cancels the running answer, refuses all other requests, and waits at most `patience` for the
    /// thread to end. Returns true if it has ended.
    pub async fn stop(mut self, patience: Duration) -> bool {
        self.queue.0.close();
        let mut state = self.queue.0.state.subscribe();
        let ended = state.wait_for(|state| matches!(state, EngineState::Ended(_)));
        let ended = tokio::time::timeout(patience, ended).await.is_ok();
        if ended && let Some(thread) = self.thread.take() {
            // Setting the state was the last action of the thread; a panic was already reported.
            thread.join().ok();
        }
        ended
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.queue.0.close();
    }
}

impl EngineQueue {
    /// Queues a request. The answer is sent to the returned receiver; dropping the receiver cancels
    /// the request.
    pub fn submit(&self, request: Generation) -> Result<mpsc::Receiver<Event>, Refused> {
        let shared = &self.0;
        let mut queue = shared.lock();
        if shared.closing.load(Ordering::Relaxed) || matches!(self.state(), EngineState::Ended(_)) {
            return Err(Refused::Gone);
        }
        if queue.jobs.len() >= shared.most_waiting {
            queue.jobs.retain(|job| !job.lane.is_closed());
        }
        let waiting = queue.jobs.len();
        if waiting >= shared.most_waiting {
            let retry_after = queue.last_answer.max(Duration::from_secs(1));
            return Err(Refused::Full { waiting, retry_after });
        }
        let (lane, receiver) = mpsc::channel(request.max_tokens as usize + LANE_SLACK);
        queue.jobs.push_back(Job { request, lane });
        drop(queue);
        shared.wake.notify_one();
        Ok(receiver)
    }

    /// Returns the current state of the model's thread.
    pub fn state(&self) -> EngineState {
        self.0.state.borrow().clone()
    }

    /// Returns a receiver that is notified of every change of [`EngineQueue::state`].
    pub fn watch(&self) -> watch::Receiver<EngineState> {
        self.0.state.subscribe()
    }

    /// Returns the number of waiting requests, and true if one is being answered.
    pub fn load(&self) -> (usize, bool) {
        let queue = self.0.lock();
        (queue.jobs.len(), queue.busy)
    }
}

impl Queue {
    /// Removes and returns the first request of normal priority, or else the first of low priority.
    fn take(&mut self) -> Option<Job> {
        let urgent = self.jobs.iter().position(|job| !job.request.gives_way);
        self.jobs.remove(urgent.unwrap_or_default())
    }
}

impl Shared {
    /// Returns true if a request of normal priority waits.
    fn is_wanted(&self) -> bool {
        self.lock().jobs.iter().any(|job| !job.request.gives_way && !job.lane.is_closed())
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.lock();
        self.closing.store(true, Ordering::Relaxed);
        queue.jobs.clear();
        drop(queue);
        self.wake.notify_all();
    }

    /// Blocks until there is a request whose receiver still exists, and returns it. Returns `None`
    /// when the engine is closing.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        queue.busy = false;
        loop {
            if self.closing.load(Ordering::Relaxed) {
                return None;
            }
            match queue.take() {
                Some(job) if job.lane.is_closed() => {}
                Some(job) => {
                    queue.busy = true;
                    return Some(job);
                }
                None => queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn answer_one(shared: &Shared, model: &mut dyn Generator, job: Job) {
    let Job { request, lane } = job;
    let started = Instant::now();
    let mut answer = AnswerParser::new(&request);
    let outcome = model.generate(&request, &mut |piece| {
        let over = lane.is_closed() || shared.closing.load(Ordering::Relaxed);
        if over || (request.gives_way && shared.is_wanted()) {
            return ControlFlow::Break(());
        }
        if let Piece::Bytes(bytes) = piece
            && let Some(part) = answer.push(bytes)
            && lane.try_send(Event::Part(part)).is_err()
        {
            return ControlFlow::Break(());
        }
        if answer.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    shared.lock().last_answer = started.elapsed();
    if shared.closing.load(Ordering::Relaxed) {
        return;
    }
    let mut events = Vec::new();
    match outcome {
        Ok(mut finish) => {
            if answer.is_stopped() {
                finish.reason = FinishReason::Stop;
            }
            let rest = answer.finish(finish.reason == FinishReason::Length);
            events.extend(rest.into_iter().map(Event::Part));
            events.push(Event::Ended(finish));
        }
        Err(error) => events.push(Event::Failed(error)),
    }
    for event in events {
        if lane.try_send(event).is_err() {
            return;
        }
    }
}

fn crashed() -> LlmError {
    LlmError::Engine("its thread panicked".into())
}

/// Guard that sets the ended state when the thread ends, for any reason.
struct Ending<'a> {
    shared: &'a Shared,
    cause: Option<LlmError>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.shared.close();
        self.shared.state.send_replace(EngineState::Ended(self.cause.take()));
    }
}
