//! The last stored message of each session up to which the model refuses the messages: later
//! prompts begin after it, so that only one message of the session waits for the refusal. Not for
//! asking the model again, see [`hearken_dialogue::without_earlier`]; the stored messages stay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hearken_ports::KeptMessage;
use hearken_proto::ids::SessionId;

/// Maximum number of sessions in memory; above it, all are forgotten, and the model is asked again.
const MOST: usize = 4_096;

/// Numbers of the last refused messages by session. Clones share them. Other instances do not know
/// them: there, the model refuses the messages again.
#[derive(Clone, Default)]
pub struct RefusedMessages(Arc<Mutex<HashMap<SessionId, i64>>>);

impl RefusedMessages {
    /// Records that the model refuses the messages of this session up to this number.
    pub(super) fn note(&self, id: &SessionId, last: i64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(id.clone(), last);
    }

    /// Returns those of the last messages of this session, oldest first, that the model has not
    /// refused.
    pub(super) fn omit<'a>(
        &self,
        id: &SessionId,
        messages: &'a [KeptMessage],
    ) -> &'a [KeptMessage] {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&refused) = all.get(id) else { return messages };
        // A snapshot was restored: later messages get the numbers of refused ones.
        if messages.last().is_none_or(|last| last.number < refused) {
            all.remove(id);
            return messages;
        }
        let accepted = messages.iter().position(|kept| kept.number > refused);
        &messages[accepted.unwrap_or(messages.len())..]
    }
}

#[cfg(test)]
mod tests {
    use hearken_ports::ChatMessage;
    use hearken_proto::chat::Role;
    use jiff::Timestamp;

    use super::*;
    use crate::context::to_stored_message;

    fn numbers(refused: &RefusedMessages, id: &SessionId, last: i64) -> Vec<i64> {
        let words = ChatMessage::new(Role::User, "hi");
        let message = to_stored_message(&words, None, Timestamp::UNIX_EPOCH);
        let kept = |number| KeptMessage { number, message: message.clone() };
        let messages: Vec<_> = (1..=last).map(kept).collect();
        refused.omit(id, &messages).iter().map(|kept| kept.number).collect()
    }

    #[test]
    fn refused_messages_are_omitted_until_a_snapshot_is_restored() {
        let refused = RefusedMessages::default();
        let id = SessionId::new("a");
        assert_eq!(numbers(&refused, &id, 4), [1, 2, 3, 4]);
        refused.note(&id, 4);
        assert_eq!(numbers(&refused, &id, 4), [0; 0]);
        assert_eq!(numbers(&refused, &id, 6), [5, 6]);
        assert_eq!(numbers(&refused, &SessionId::new("b"), 2), [1, 2]);
        assert_eq!(numbers(&refused, &id, 2), [1, 2]);
        assert_eq!(numbers(&refused, &id, 6), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_limited_number_of_sessions_is_in_memory() {
        let refused = RefusedMessages::default();
        for n in 0..2 * MOST {
            refused.note(&SessionId::new(n.to_string()), 1);
        }
        assert!(refused.0.lock().unwrap().len() <= MOST);
    }
}
