//! Pending confirmations of applications' sessions, from one message to the next. Not for asking:
//! see [`hearken_dialogue::tools::consent`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearken_dialogue::tools::HeldCall;
use hearken_proto::ids::SessionId;

/// Maximum number of held calls, one per session. Each has at most about 100 KiB.
const MAX_HELD: usize = 256;

/// Held calls of all sessions, oldest first; clones share them. Other instances do not know them:
/// there, the person is asked again.
#[derive(Clone, Default)]
pub struct HeldCalls(Arc<Mutex<Vec<OwnedCall>>>);

/// Held call of a session.
struct OwnedCall {
    session: SessionId,
    /// Owner of the session: see [`super::Asker`].
    owner: String,
    call: HeldCall,
}

impl HeldCalls {
    fn lock(&self) -> MutexGuard<'_, Vec<OwnedCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a call of this session. If too many are held, drops the oldest one of the owner with
    /// the most, or this one if its owner has as many.
    pub(super) fn put(&self, session: &SessionId, owner: &str, call: HeldCall) {
        let mut all = self.lock();
        all.retain(|held| !held.call.is_expired() && held.session != *session);
        if all.len() >= MAX_HELD {
            tracing::warn!(
                held = all.len(),
                "dropped a pending confirmation: there are too many of them"
            );
            if !make_room(&mut all, owner) {
                return;
            }
        }
        all.push(OwnedCall { session: session.clone(), owner: owner.to_owned(), call });
    }

    /// Removes and returns the held call of this session.
    pub(super) fn take(&self, session: &SessionId) -> Option<HeldCall> {
        let mut all = self.lock();
        let held = all.iter().position(|held| held.session == *session)?;
        Some(all.remove(held).call)
    }
}

/// Removes the oldest call of the owner with the most calls. Returns false if this owner has as
/// many.
fn make_room(all: &mut Vec<OwnedCall>, owner: &str) -> bool {
    let mut by_owner: HashMap<&str, usize> = HashMap::new();
    for held in all.iter() {
        *by_owner.entry(&held.owner).or_default() += 1;
    }
    let most = by_owner.values().copied().max().unwrap_or_default();
    if by_owner.get(owner).copied().unwrap_or_default() >= most {
        return false;
    }
    let oldest = all.iter().position(|held| by_owner.get(&*held.owner) == Some(&most));
    oldest.map(|oldest| all.remove(oldest)).is_some()
}

#[cfg(test)]
mod tests {
    use hearken_dialogue::testkit::answering::held_call;
    use proptest::prelude::*;

    use super::*;

    fn id(owner: usize, number: usize) -> SessionId {
        SessionId::new(format!("{owner}-{number}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn no_owner_loses_calls_because_another_holds_more(
            puts in proptest::collection::vec(0_usize..4, 0..900),
        ) {
            let call = held_call();
            let held = HeldCalls::default();
            let mut numbers = HashMap::<usize, usize>::new();
            for owner in puts {
                let number = numbers.entry(owner).or_default();
                held.put(&id(owner, *number), &owner.to_string(), call.clone());
                *number += 1;
            }
            let share = MAX_HELD / 4;
            for (owner, number) in &numbers {
                let left = (0..*number).filter(|n| held.take(&id(*owner, *n)).is_some()).count();
                prop_assert!(left >= share.min(*number), "{left} of {number}");
            }
            prop_assert_eq!(held.lock().len(), 0);
        }
    }

    #[test]
    fn a_session_holds_one_call_and_all_sessions_a_limited_number() {
        let call = held_call();
        let held = HeldCalls::default();
        for number in (0..MAX_HELD / 2).chain(0..MAX_HELD / 2) {
            held.put(&id(0, number), "a", call.clone());
        }
        assert_eq!(held.lock().len(), MAX_HELD / 2);
        for number in 0..MAX_HELD + 10 {
            held.put(&id(1, number), "a", call.clone());
        }
        assert_eq!(held.lock().len(), MAX_HELD);
        assert!(held.take(&id(0, 0)).is_some(), "the only owner loses no older call");
        assert!(held.take(&id(0, 0)).is_none());
    }
}
