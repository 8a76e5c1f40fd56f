//! Pending confirmations of applications' sessions, from one message to the next. Not for asking:
//! see [`hearken_dialogue::tools::consent`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearken_dialogue::tools::HeldCall;
use hearken_proto::ids::SessionId;

/// Maximum number of held calls, one per session. Each has at most about 100 KiB.
const MAX_HELD: usize = 256;

/// Held calls of all sessions; clones share them. Other instances do not know them: there, the
/// person is asked again.
#[derive(Clone, Default)]
pub struct HeldCalls(Arc<Mutex<HashMap<SessionId, HeldCall>>>);

impl HeldCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, HeldCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a call of this session. It is dropped if too many others are held.
    pub(super) fn put(&self, session: &SessionId, call: HeldCall) {
        let mut all = self.lock();
        all.retain(|_, held| !held.is_expired());
        if all.len() < MAX_HELD {
            all.insert(session.clone(), call);
        } else {
            tracing::warn!(
                held = all.len(),
                "dropped a pending confirmation: there are too many of them"
            );
        }
    }

    /// Removes and returns the held call of this session.
    pub(super) fn take(&self, session: &SessionId) -> Option<HeldCall> {
        self.lock().remove(session)
    }
}
