//! Background tasks that end with their owner. Not for the work of a task.

use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Group of tasks on the runtime on which it was created, whichever thread starts them. Dropping
/// the group aborts them.
pub(super) struct TaskGroup {
    tasks: Mutex<JoinSet<()>>,
    runtime: Handle,
}

impl TaskGroup {
    /// Creates an empty group on the current runtime.
    pub(super) fn new() -> Self {
        Self { tasks: Mutex::default(), runtime: Handle::current() }
    }

    /// Starts a task.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().expect("nothing panics while it holds the tasks");
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.runtime);
    }

    /// Waits up to `within` for tasks that end by themselves, then aborts the others.
    pub(super) async fn finish(&self, within: Duration) {
        let mut tasks = {
            let mut tasks = self.tasks.lock().expect("nothing panics while it holds the tasks");
            std::mem::take(&mut *tasks)
        };
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::debug!(
                left = tasks.len(),
                "aborted background tasks that did not end in time"
            );
        }
        tasks.shutdown().await;
    }
}
