//! Thread pool that runs the engines: one bounded queue per kind of work, recognition before
//! synthesis, and always one thread that synthesis cannot take. Not for waiting on sockets.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Kind of work of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// Speech to text: a user waits for it. It runs first and may use every thread.
    Recognition,
    /// Text to speech: may use all threads except one, or the only one.
    Synthesis,
}

/// The queue of this kind of work is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the speech engines are busy and their queue is full; try again, or raise the queue length"
)]
pub struct PoolFull;

/// Thread pool for engine work.
pub struct Pool {
    shared: Arc<Shared>,
    queue_len: usize,
}

struct Shared {
    state: Mutex<PoolState>,
    changed: Condvar,
    synthesis_limit: usize,
}

#[derive(Default)]
struct PoolState {
    recognition: Queue,
    synthesis: Queue,
    synthesising: usize,
    busy: usize,
    next: u64,
    closed: bool,
}

/// Jobs by priority (lowest number first), then by age.
type Queue = BTreeMap<(u64, u64), Job>;

struct Job {
    lane: WorkKind,
    stop: CancellationToken,
    run: Box<dyn FnOnce() + Send>,
}

impl Pool {
    /// Starts `threads` threads (at least one). Each kind of work queues up to `queue_len` jobs.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(threads: usize, queue_len: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            synthesis_limit: threads.saturating_sub(1).max(1),
        });
        // On an early return this is dropped, which ends the threads that did start.
        let pool = Self { shared, queue_len };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            thread::Builder::new().name(format!("speech-{number}")).spawn(move || shared.work())?;
        }
        Ok(pool)
    }

    /// Queues `work`. A lower `priority` runs earlier; equal ones run in the order of arrival. The
    /// receiver fails if the job was cancelled before it ran, if it panicked, or if the pool
    /// closed.
    ///
    /// # Errors
    /// The queue of this kind of work is full.
    pub fn submit<T: Send + 'static>(
        &self,
        lane: WorkKind,
        priority: u64,
        stop: &CancellationToken,
        work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, PoolFull> {
        let (done, result) = oneshot::channel();
        let token = stop.clone();
        let run = Box::new(move || {
            // The receiver may have been dropped: then no caller needs the result.
            let _gone = done.send(work(&token));
        });
        let mut state = self.shared.lock();
        if state.closed {
            return Ok(result);
        }
        let number = state.next;
        state.next += 1;
        let queue = match lane {
            WorkKind::Recognition => &mut state.recognition,
            WorkKind::Synthesis => &mut state.synthesis,
        };
        if queue.len() >= self.queue_len {
            queue.retain(|_, job| !job.stop.is_cancelled());
        }
        if queue.len() >= self.queue_len {
            return Err(PoolFull);
        }
        queue.insert((priority, number), Job { lane, stop: stop.clone(), run });
        drop(state);
        self.shared.changed.notify_all();
        Ok(result)
    }

    /// Drops queued jobs, and waits up to `within` for running jobs. Returns true if all ended.
    pub fn close(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.shared.lock();
        state.close();
        self.shared.changed.notify_all();
        while state.busy > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().close();
        self.shared.changed.notify_all();
    }
}

impl PoolState {
    fn close(&mut self) {
        self.closed = true;
        self.recognition.clear();
        self.synthesis.clear();
    }

    fn take(&mut self, synthesis_limit: usize) -> Option<Job> {
        loop {
            let next = match self.recognition.pop_first() {
                Some((_, job)) => job,
                None if self.synthesising < synthesis_limit => self.synthesis.pop_first()?.1,
                None => return None,
            };
            if !next.stop.is_cancelled() {
                return Some(next);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Jobs run outside the lock: a poisoned state is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.closed {
                return;
            }
            let Some(job) = state.take(self.synthesis_limit) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let synthesis = usize::from(job.lane == WorkKind::Synthesis);
            state.busy += 1;
            state.synthesising += synthesis;
            drop(state);
            if catch_unwind(AssertUnwindSafe(job.run)).is_err() {
                tracing::error!(lane = ?job.lane, "engine work panicked");
            }
            state = self.lock();
            state.busy -= 1;
            state.synthesising -= synthesis;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Occupies a worker until a message is sent to the returned sender.
    fn hold(pool: &Pool, lane: WorkKind) -> (mpsc::Sender<()>, oneshot::Receiver<()>) {
        let (go, wait) = mpsc::channel();
        let (started, running) = mpsc::channel();
        let done = pool.submit(lane, 0, &CancellationToken::new(), move |_| {
            started.send(()).unwrap();
            wait.recv().unwrap();
        });
        running.recv().unwrap();
        (go, done.unwrap())
    }

    #[test]
    fn recognition_runs_first_and_priorities_are_respected() {
        let pool = Pool::start(1, 8).unwrap();
        let (go, held) = hold(&pool, WorkKind::Recognition);
        let (log, order) = mpsc::channel();
        let stop = CancellationToken::new();
        let mut all = Vec::new();
        for (name, lane, priority) in [
            ("late", WorkKind::Synthesis, 2),
            ("first", WorkKind::Synthesis, 0),
            ("second", WorkKind::Synthesis, 0),
            ("asr", WorkKind::Recognition, 0),
        ] {
            let log = log.clone();
            let job = pool.submit(lane, priority, &stop, move |_| log.send(name).unwrap());
            all.push(job.unwrap());
        }
        go.send(()).unwrap();
        held.blocking_recv().unwrap();
        for job in all {
            job.blocking_recv().unwrap();
        }
        drop(log);
        assert_eq!(order.iter().collect::<Vec<_>>(), ["asr", "first", "second", "late"]);
    }

    #[test]
    fn synthesis_leaves_a_thread_for_recognition() {
        let pool = Pool::start(2, 8).unwrap();
        let (go, _held) = hold(&pool, WorkKind::Synthesis);
        let stop = CancellationToken::new();
        let mut second = pool.submit(WorkKind::Synthesis, 0, &stop, |_| ()).unwrap();
        let asr = pool.submit(WorkKind::Recognition, 0, &stop, |_| 7).unwrap();
        assert_eq!(asr.blocking_recv(), Ok(7));
        assert!(second.try_recv().is_err());
        go.send(()).unwrap();
        second.blocking_recv().unwrap();
    }

    #[test]
    fn a_full_queue_refuses_until_something_is_cancelled() {
        let pool = Pool::start(1, 1).unwrap();
        let (go, _held) = hold(&pool, WorkKind::Synthesis);
        let stop = CancellationToken::new();
        let queued = pool.submit(WorkKind::Synthesis, 0, &stop, |_| ()).unwrap();
        let other = CancellationToken::new();
        assert_eq!(pool.submit(WorkKind::Synthesis, 0, &other, |_| ()).err(), Some(PoolFull));
        stop.cancel();
        let accepted = pool.submit(WorkKind::Synthesis, 0, &other, |_| 3).unwrap();
        go.send(()).unwrap();
        assert!(queued.blocking_recv().is_err());
        assert_eq!(accepted.blocking_recv(), Ok(3));
    }

    #[test]
    fn a_panic_loses_one_job() {
        let pool = Pool::start(1, 4).unwrap();
        let stop = CancellationToken::new();
        let bad = pool.submit(WorkKind::Recognition, 0, &stop, |_| panic!("scripted"));
        let bad: oneshot::Receiver<()> = bad.unwrap();
        assert!(bad.blocking_recv().is_err());
        let good = pool.submit(WorkKind::Recognition, 0, &stop, |_| 1).unwrap();
        assert_eq!(good.blocking_recv(), Ok(1));
    }

    #[test]
    fn closing_waits_for_running_jobs() {
        let pool = Pool::start(1, 4).unwrap();
        let (go, _held) = hold(&pool, WorkKind::Synthesis);
        assert!(!pool.close(Duration::from_millis(1)));
        go.send(()).unwrap();
        assert!(pool.close(Duration::from_secs(10)));
    }
}
