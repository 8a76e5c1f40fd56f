//! Calls that go on though their turn was cut or their connection has ended: they have begun to
//! change something. Not for calls that end with their turn.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::calls::Outcome;
use crate::ports::ToolError;

/// Calls of one conversation that may go on after their turns were cut; one more is cancelled with
/// its turn.
const MAX_OF_CONVERSATION: usize = 8;
/// The same of all conversations of a server.
const MAX_IN_ALL: usize = 1_024;

/// The calls of one conversation that are to finish. Each ends within its own time, and at the
/// latest when the last conversation that shares them is gone.
pub struct Finishing {
    all: Arc<Mutex<JoinSet<()>>>,
    own: Arc<Semaphore>,
}

impl Default for Finishing {
    fn default() -> Self {
        Self { all: Arc::default(), own: Arc::new(Semaphore::new(MAX_OF_CONVERSATION)) }
    }
}

impl Finishing {
    /// The same for another conversation, whose calls outlive it as long as one of them is there.
    #[must_use]
    pub fn for_another(&self) -> Self {
        Self { all: Arc::clone(&self.all), ..Self::default() }
    }

    /// Lets a call go on whatever becomes of the future that is returned, where there is room; else
    /// gives the call back.
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
            // Nobody waits for it when the turn was cut.
            tell.send(outcome).unwrap_or_default();
        });
        Ok(Box::pin(async move {
            told.await.unwrap_or_else(|_| Err(ToolError::Failed("it broke off".into())))
        }))
    }
}
