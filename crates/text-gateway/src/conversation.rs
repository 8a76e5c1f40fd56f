//! Conversations of one connection: the current one, and those that it left for another session while
//! a call waits for the person's consent in them. Not for sessions, which other connections use as
//! well, nor for answering.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hearken_dialogue::tools::Toolbox;
use hearken_proto::ids::SessionId;

use crate::session::TextSession;

/// Maximum number of conversations that a connection can come back to. Above it, the one left first is
/// dropped, with its held call.
const MAX_LEFT: usize = 8;

/// Session as used by one connection. Calls that must finish after their turn is cut continue while
/// this exists.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) session: Arc<TextSession>,
    /// Tools of the client and of the server for this session.
    pub(crate) toolbox: Arc<Toolbox>,
}

impl Conversation {
    pub(crate) fn session_id(&self) -> SessionId {
        self.session.id().clone()
    }
}

/// Conversations with a held call that one connection has left for another session, in this order.
#[derive(Default)]
pub(crate) struct LeftConversations(Mutex<VecDeque<Conversation>>);

impl LeftConversations {
    /// Leaves a conversation, and returns the one in this session: the one that was left before, or
    /// a new one. Drops conversations that nobody can agree to a call in any more, also because
    /// their session has ended or was loaded again.
    pub(crate) fn change(
        &self,
        current: Conversation,
        session: &Arc<TextSession>,
        new: impl FnOnce() -> Conversation,
    ) -> Conversation {
        if Arc::ptr_eq(&current.session, session) {
            return current;
        }
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.push_back(current);
        let is_same = |of: &Conversation| Arc::ptr_eq(&of.session, session);
        let found = left.iter().position(is_same).and_then(|at| left.remove(at));
        left.retain(|Conversation { session: of, toolbox }| {
            toolbox.awaits_consent() && !of.has_ended() && of.id() != session.id()
        });
        if left.len() > MAX_LEFT {
            left.pop_front();
        }
        drop(left);
        found.unwrap_or_else(new)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use hearken_dialogue::testkit::answering::held_call;
    use hearken_dialogue::tools::ToolSettings;
    use hearken_dialogue::{ConversationStyle, Memory};
    use proptest::prelude::*;

    use super::*;

    fn session(id: usize) -> Arc<TextSession> {
        let id = SessionId::new(id.to_string());
        let style = ConversationStyle::default();
        let bytes = Arc::<AtomicUsize>::default();
        Arc::new(TextSession::new(id, Memory::new(10, Vec::new()), style, None, &bytes))
    }

    /// A conversation without a held call.
    fn conversation(session: &Arc<TextSession>) -> Conversation {
        let toolbox = Toolbox::new(Vec::new(), Arc::new(Vec::new), ToolSettings::default());
        Conversation { session: Arc::clone(session), toolbox: Arc::new(toolbox) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_last_conversations_with_held_calls_are_found_again(
            visits in proptest::collection::vec((0_usize..12, any::<bool>()), 1..60),
        ) {
            let sessions: Vec<_> = (0..12).map(session).collect();
            let call = held_call();
            let left = LeftConversations::default();
            let mut current = conversation(&sessions[0]);
            // The sessions that were left with a held call, in this order.
            let mut known: Vec<usize> = Vec::new();
            let mut last = 0;
            for (visit, answers) in visits {
                if answers {
                    drop(current.toolbox.take_held());
                }
                let is_held = current.toolbox.holds_call();
                current = left.change(current, &sessions[visit], || conversation(&sessions[visit]));
                prop_assert!(Arc::ptr_eq(&current.session, &sessions[visit]));
                if visit != last {
                    known.extend(is_held.then_some(last));
                    let is_known = known.contains(&visit);
                    prop_assert_eq!(current.toolbox.holds_call(), is_known);
                    known.retain(|of| *of != visit);
                    known.drain(..known.len().saturating_sub(MAX_LEFT));
                    current.toolbox.hold(call.clone());
                }
                last = visit;
                prop_assert_eq!(left.0.lock().unwrap().len(), known.len());
            }
        }
    }

    #[test]
    fn ended_sessions_and_former_copies_are_dropped() {
        let left = LeftConversations::default();
        let sessions: Vec<_> = (0..3).map(session).collect();
        let call = held_call();
        let go = |current: Conversation, to: &Arc<TextSession>| {
            current.toolbox.hold(call.clone());
            left.change(current, to, || conversation(to))
        };
        let count = || left.0.lock().unwrap().len();
        let mut current = go(conversation(&sessions[0]), &sessions[1]);
        assert_eq!(count(), 1);
        // Loaded again from the store: the former copy has expired.
        current = go(current, &session(0));
        assert_eq!(count(), 1);
        sessions[1].mark_ended();
        current = go(current, &sessions[2]);
        assert_eq!(count(), 1);
        current.session.mark_ended();
        go(current, &sessions[0]);
        assert_eq!(count(), 0);
    }
}
