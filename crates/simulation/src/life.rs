//! The lifetime of an instance. A killed instance has no further effects outside: its pending calls
//! never return. Not for its work while it lives.

use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio_util::sync::CancellationToken;

/// Lifetime of one instance. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Life(CancellationToken);

impl Life {
    pub(crate) fn kill(&self) {
        self.0.cancel();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the instance is killed.
    pub(crate) async fn over(&self) {
        self.0.cancelled().await;
    }

    /// Runs `work` while the instance lives; never returns if it is killed meanwhile.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.0.cancelled() => std::future::pending().await,
            done = work => done,
        }
    }

    /// Forwards the items while the instance lives.
    pub(crate) fn within_stream<T: Send + 'static>(
        &self,
        items: BoxStream<'static, T>,
    ) -> BoxStream<'static, T> {
        let life = self.clone();
        let over = async move { life.over().await };
        let life = self.clone();
        let silent = stream::once(async move {
            if life.is_over() {
                std::future::pending::<()>().await;
            }
        });
        items.take_until(over).chain(silent.filter_map(async |()| None)).boxed()
    }
}
