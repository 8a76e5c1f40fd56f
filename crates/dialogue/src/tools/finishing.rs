//! Calls that continue after their turn was cut or their connection ended, because they have begun
//! to change something. Not for calls that end with their turn.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hearken_ports::ToolError;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::outcome::Outcome;

/// Maximum number of calls of one conversation that may outlive their turns. Further calls are
/// cancelled with their turn.
const MAX_OF_CONVERSATION: usize = 8;
/// Maximum number of such calls on a server.
const MAX_IN_ALL: usize = 1_024;

/// Calls of one conversation that must finish. Each ends within its own timeout, and at the latest
/// when the last conversation that shares this is gone.
pub struct FinishingCalls {
    all: Arc<Mutex<JoinSet<()>>>,
    own: Arc<Semaphore>,
}

impl Default for FinishingCalls {
    fn default() -> Self {
        Self { all: Arc::default(), own: Arc::new(Semaphore::new(MAX_OF_CONVERSATION)) }
    }
}

impl FinishingCalls {
    /// Returns a copy for another conversation. Its calls live on as long as one of the
    /// conversations that share it.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { all: Arc::clone(&self.all), ..Self::default() }
    }

    /// Runs a call to its end, even if the returned future is dropped. Returns the call itself as
    /// `Err` if there is no capacity.
    pub(super) fn keep(
        &self,
        work: BoxFuture<'static, Outcome>,
    ) -> Result<BoxFuture<'static, Outcome>, BoxFuture<'static, Outcome>> {
        let mut all = self.all.lock().expect("nothing panics while it holds the calls");
        while all.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&self.own).try_acquire_owned() else { return Err(work) };
        if all.len() >= MAX_IN_ALL {
            return Err(work);
        }
        let (tell, told) = oneshot::channel();
        all.spawn(async move {
            let outcome = work.await;
            drop(place);
            // Nobody waits for the outcome if the turn was cut.
            tell.send(outcome).unwrap_or_default();
        });
        Ok(Box::pin(async move {
            told.await.unwrap_or_else(|_| Err(ToolError::Failed("it broke off".into())))
        }))
    }
}
