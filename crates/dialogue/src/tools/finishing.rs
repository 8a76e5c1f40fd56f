//! Calls that run independently of their turn: some continue after it was cut or its connection
//! ended, because they may have changed something, and a later turn gets their results. Not for
//! executing calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use hearken_ports::{ToolError, ToolRequest};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument as _;

use super::outcome::Outcome;

/// Maximum number of late results of one conversation.
const MAX_LATE: usize = 8;
/// Maximum number of calls of one conversation that run independently of their turns. Further calls
/// are cancelled with their turn.
const MAX_OF_CONVERSATION: usize = 24;
/// Maximum number of such calls on a server.
const MAX_IN_ALL: usize = 4_096;

/// Shared result of a call.
pub(super) type SharedOutcome = Shared<BoxFuture<'static, Outcome>>;

/// Results of calls of one conversation that outlived their turns.
#[derive(Clone, Default)]
pub(super) struct LateResults {
    results: Arc<Mutex<Vec<LateResult>>>,
    /// Calls to which the person agreed last, and their words.
    agreed: Arc<Mutex<(Vec<String>, String)>>,
}

/// Result of a call whose turn was cut.
#[derive(Clone)]
pub(super) struct LateResult {
    /// Id of the call.
    pub(super) call: String,
    /// Words of the person that the call was made for.
    pub(super) asked: String,
    pub(super) outcome: SharedOutcome,
    /// Cancels the call; `None` if it must finish.
    pub(super) stop: Option<AbortHandle>,
}

/// End of a call whose turn was cut.
pub(super) struct LateEnd {
    /// Id of the call.
    pub(super) call: String,
    /// Its outcome; `None` if it was cancelled.
    pub(super) outcome: Option<Outcome>,
}

impl LateResults {
    fn all(&self) -> MutexGuard<'_, Vec<LateResult>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a result. Above [`MAX_LATE`], the oldest is dropped.
    pub(super) fn keep(&self, late: LateResult) {
        let mut all = self.all();
        all.retain(|other| other.call != late.call);
        all.push(late);
        if all.len() > MAX_LATE {
            drop(all.remove(0));
        }
    }

    /// Cancels the calls that need not finish, and returns the calls that have ended with this, or
    /// before.
    pub(super) fn stop(&self) -> Vec<LateEnd> {
        let mut ended = Vec::new();
        self.all().retain(|late| {
            let outcome = late.outcome.clone().now_or_never();
            if outcome.is_none() && late.stop.is_none() {
                return true;
            }
            late.stop.iter().for_each(AbortHandle::abort);
            ended.push(LateEnd { call: late.call.clone(), outcome });
            false
        });
        ended
    }

    /// Returns the result of a call. It stays stored until the conversation has moved on: the turn
    /// that asks for it may be cut, too.
    pub(super) fn get(&self, call: &str) -> Option<LateResult> {
        self.all().iter().find(|late| late.call == call).cloned()
    }

    /// Returns true if a turn with these words gets the result of this call: the result is there,
    /// or the call was made for the same words, which a noise interrupted. Other words are answered
    /// without waiting.
    pub(super) fn is_for(&self, call: &str, asked: &str) -> bool {
        let has_come = |late: &LateResult| late.outcome.clone().now_or_never().is_some();
        self.all().iter().any(|late| late.call == call && (late.asked == asked || has_come(late)))
    }

    /// Records that the person agreed to these calls with these words.
    pub(super) fn note_agreed(&self, calls: &[ToolRequest], said: &str) {
        let ids = calls.iter().map(|call| call.id.clone()).collect();
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = (ids, said.to_owned());
    }

    /// Returns the words with which the person agreed to this call, if they did.
    pub(super) fn agreed(&self, call: &str) -> Option<String> {
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.0.iter().any(|id| id == call).then(|| agreed.1.clone())
    }

    /// Drops the results and consents of all other calls: their ids may be reused.
    pub(super) fn retain(&self, calls: &[ToolRequest]) {
        let is_one = |id: &str| calls.iter().any(|call| call.id == id);
        self.all().retain(|late| is_one(&late.call));
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.0.retain(|id| is_one(id));
    }
}

/// Calls of one conversation that must finish. Each ends within its own timeout, and at the latest
/// when the last conversation that shares this is dropped.
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
    /// Returns a copy for another conversation. The calls continue while any of the conversations
    /// that share it exists.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { all: Arc::clone(&self.all), ..Self::default() }
    }

    /// Runs a call independently of its turn: to its end, even if the returned future is dropped,
    /// unless the guard is. Returns the call itself as `Err` if there is no capacity.
    pub(super) fn keep(
        &self,
        work: BoxFuture<'static, Outcome>,
    ) -> Result<(BoxFuture<'static, Outcome>, CallGuard), BoxFuture<'static, Outcome>> {
        let mut all = self.all.lock().expect("nothing panics while it holds the calls");
        while all.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&self.own).try_acquire_owned() else { return Err(work) };
        if all.len() >= MAX_IN_ALL {
            return Err(work);
        }
        let (tell, told) = oneshot::channel();
        let work = work.in_current_span();
        let handle = all.spawn(async move {
            let outcome = work.await;
            drop(place);
            // No receiver waits for the outcome if the turn was cut.
            tell.send(outcome).unwrap_or_default();
        });
        let outcome = Box::pin(async move {
            told.await.unwrap_or_else(|_| Err(ToolError::Failed("it broke off".into())))
        });
        Ok((outcome, CallGuard(Some(handle))))
    }
}

/// Cancels a call that runs independently of its turn when dropped.
pub(super) struct CallGuard(Option<AbortHandle>);

impl CallGuard {
    /// Lets the call run to its end, unless it is cancelled with the returned handle.
    pub(super) fn release(mut self) -> Option<AbortHandle> {
        self.0.take()
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}
