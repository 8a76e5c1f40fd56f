//! Sessions whose use was recorded recently, so that a client with frequent requests does not write
//! each time. Not for the time of the last use, which is in the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearken_proto::ids::SessionId;
use tokio::time::Instant;

/// Time after a recorded use in which further ones are not recorded.
const NOTED_FOR: Duration = Duration::from_secs(1);
/// Maximum number of sessions in memory; above it, all are recorded again.
const MOST: usize = 4_096;

/// Sessions whose use was recorded. Clones share them.
#[derive(Clone, Default)]
pub struct TouchedSessions(Arc<Mutex<HashMap<SessionId, Instant>>>);

impl TouchedSessions {
    /// Reports whether the use of this session must be recorded now.
    pub(super) fn is_due(&self, id: &SessionId) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if all.get(id).is_some_and(|noted| now.duration_since(*noted) < NOTED_FOR) {
            return false;
        }
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(id.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_use_of_a_session_is_recorded_once_a_second() {
        let touched = TouchedSessions::default();
        let id = SessionId::new("a");
        assert!(touched.is_due(&id) && touched.is_due(&SessionId::new("b")));
        assert!(!touched.is_due(&id));
        tokio::time::advance(NOTED_FOR).await;
        assert!(touched.is_due(&id));
        for n in 0..2 * MOST {
            touched.is_due(&SessionId::new(format!("{n}")));
        }
        assert!(touched.0.lock().unwrap().len() <= MOST);
    }
}
