//! Liveness of the worker threads: each sets a mark periodically. Not for the health of the
//! server's responses and services.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use actix_web::rt;

/// Interval at which a thread sets its mark.
const MARKS_EVERY: Duration = Duration::from_millis(500);

/// Marks of all worker threads. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Liveness(Arc<Mutex<Vec<Weak<AtomicBool>>>>);

impl Liveness {
    /// Starts to set the mark of this thread, which runs a local executor, until the thread ends.
    pub fn begin(&self) {
        let mark = Arc::new(AtomicBool::new(true));
        self.marks().push(Arc::downgrade(&mark));
        rt::spawn(async move {
            let mut ticks = tokio::time::interval(MARKS_EVERY);
            loop {
                ticks.tick().await;
                mark.store(true, Ordering::Relaxed);
            }
        });
    }

    /// Returns true if each thread has set its mark since the last call. Threads that have ended do not count.
    pub fn all_marked(&self) -> bool {
        let mut marks = self.marks();
        marks.retain(|mark| mark.strong_count() > 0);
        // Resets every mark, also after a missing one.
        let missing =
            marks.iter().filter_map(Weak::upgrade).filter(|m| !m.swap(false, Ordering::Relaxed));
        missing.count() == 0
    }

    fn marks(&self) -> MutexGuard<'_, Vec<Weak<AtomicBool>>> {
        self.0.lock().expect("nothing panics while it holds the marks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_thread_is_reported_and_an_ended_one_is_not() {
        let liveness = Liveness::default();
        let local = tokio::task::LocalSet::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let run = |time| {
            local.block_on(&runtime, async move { tokio::time::sleep(time).await });
        };
        local.block_on(&runtime, async { liveness.begin() });
        run(MARKS_EVERY);
        assert!(liveness.all_marked());
        assert!(!liveness.all_marked(), "nothing ran since");
        run(2 * MARKS_EVERY);
        assert!(liveness.all_marked());
        drop(local);
        assert!(liveness.all_marked(), "it has ended");
    }
}
