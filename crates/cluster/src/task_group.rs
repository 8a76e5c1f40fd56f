//! Tasks that belong to something, which ends with them. Not for what they do.

use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Tasks on the runtime on which this was made, whoever begins them; they end when it is dropped.
pub(super) struct TaskGroup {
    tasks: Mutex<JoinSet<()>>,
    runtime: Handle,
}

impl TaskGroup {
    /// None yet; on the runtime in which it is called.
    pub(super) fn new() -> Self {
        Self { tasks: Mutex::default(), runtime: Handle::current() }
    }

    /// Begins one.
    pub(super) fn begin(&self, chore: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().expect("nothing panics while it holds the tasks");
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(chore, &self.runtime);
    }

    /// Waits for those that end by themselves within this time, and ends the others.
    pub(super) async fn finish(&self, within: Duration) {
        let mut tasks = {
            let mut tasks = self.tasks.lock().expect("nothing panics while it holds the tasks");
            std::mem::take(&mut *tasks)
        };
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::debug!(left = tasks.len(), "some tasks between instances are cut short");
        }
        tasks.shutdown().await;
    }
}
