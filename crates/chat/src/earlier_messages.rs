//! Reads the earlier messages of a session for a turn: the last ones, or the whole last exchange if
//! that is longer. Those that the model refuses are left out of its prompts, but stay stored. Not
//! for the prompt, nor for its budget, nor for asking the model again (see
//! [`hearken_dialogue::without_earlier`]).

use hearken_ports::{ChatStore, KeptMessage, RefusedUntil, Role};
use hearken_proto::ids::SessionId;

use super::ChatError;
use super::budget::tokens;

/// Reads the last messages of a session, at most `limit`, oldest first. If a person's words are not
/// among them, reads back to the last ones, unless the messages after these exceed the budget.
pub(super) async fn earlier_messages(
    store: &dyn ChatStore,
    id: &SessionId,
    limit: u32,
    token_budget: usize,
) -> Result<Vec<KeptMessage>, ChatError> {
    let mut read = ReadMessages::new(store.messages(id, None, limit).await?, token_budget);
    while let Some(before) = read.must_read_before() {
        read.prepend(store.messages(id, Some(before), limit).await?);
    }
    Ok(read.all)
}

/// Returns those of the last messages of a session, oldest first, that the model has not refused.
/// The record of refused messages does not apply after a rollback to before its message: the model
/// has not seen the messages that follow.
pub(super) fn not_refused(
    messages: &[KeptMessage],
    refused: Option<RefusedUntil>,
) -> &[KeptMessage] {
    let is_last = |kept: &KeptMessage| refused.is_some_and(|refused| refused.is(kept));
    let accepted = messages.iter().position(is_last).map_or(0, |last| last + 1);
    &messages[accepted..]
}

/// Messages that were read so far.
struct ReadMessages {
    /// The messages, oldest first.
    all: Vec<KeptMessage>,
    /// Number of messages in the page that was read last: the first ones.
    page: usize,
    /// Tokens left for the messages after a person's words.
    room: usize,
}

impl ReadMessages {
    fn new(all: Vec<KeptMessage>, token_budget: usize) -> Self {
        Self { page: all.len(), all, room: token_budget }
    }

    /// Returns the number of the first message if those before it must be read.
    fn must_read_before(&mut self) -> Option<i64> {
        let page = &self.all[..self.page];
        if page.iter().any(is_words) {
            return None;
        }
        self.room = self.room.checked_sub(page.iter().map(tokens_of).sum())?;
        page.first().map(|first| first.number)
    }

    /// Adds a page from the last words of a person in it: the exchange after them is longer than a
    /// page.
    fn prepend(&mut self, mut page: Vec<KeptMessage>) {
        page.drain(..page.iter().rposition(is_words).unwrap_or_default());
        self.page = page.len();
        page.append(&mut self.all);
        self.all = page;
    }
}

fn is_words(kept: &KeptMessage) -> bool {
    kept.message.role == Role::User
}

/// Returns the number of tokens of a message without its calls, which is less than in a prompt.
fn tokens_of(kept: &KeptMessage) -> usize {
    tokens(&kept.message.content)
}

#[cfg(test)]
mod tests {
    use hearken_proto::chat::Message;
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    /// Returns the stored messages of exchanges with this many answers to each question.
    fn dialogue(answers: &[usize]) -> Vec<KeptMessage> {
        let roles = answers.iter().flat_map(|answers| {
            std::iter::once(Role::User).chain(std::iter::repeat_n(Role::Tool, *answers))
        });
        let message = |role| Message {
            role,
            content: "word ".repeat(10),
            tool_calls: Vec::new(),
            tool_call_id: None,
            player_id: None,
            read_from: Vec::new(),
            timestamp: Timestamp::UNIX_EPOCH,
        };
        (1..)
            .zip(roles)
            .map(|(number, role)| KeptMessage { number, message: message(role) })
            .collect()
    }

    fn read(all: &[KeptMessage], limit: usize, budget: usize) -> Vec<KeptMessage> {
        let page = |before: i64| {
            let older = all.iter().filter(|kept| kept.number < before).cloned();
            let older: Vec<_> = older.collect();
            older[older.len().saturating_sub(limit)..].to_vec()
        };
        let mut read = ReadMessages::new(page(i64::MAX), budget);
        while let Some(before) = read.must_read_before() {
            read.prepend(page(before));
        }
        read.all
    }

    proptest! {
        #[test]
        fn the_last_exchange_is_read_whole_however_long_it_is(
            answers in proptest::collection::vec(0_usize..40, 0..6),
            limit in 1_usize..20,
        ) {
            let all = dialogue(&answers);
            let some = read(&all, limit, usize::MAX);
            prop_assert!(all.ends_with(&some));
            let last = answers.last().map_or(0, |answers| 1 + answers);
            prop_assert_eq!(some.len(), limit.max(last).min(all.len()));
            let none = read(&all, limit, 0);
            prop_assert!(none.len() <= limit, "nothing is read that exceeds the budget");
        }
    }

    #[test]
    fn refused_messages_are_left_out_as_long_as_they_are_the_same() {
        let dialogue = |at: i64| -> Vec<KeptMessage> {
            let mut all = dialogue(&[1, 1, 1]);
            for kept in &mut all {
                // A rollback and other messages give the same numbers at other times.
                kept.message.timestamp =
                    Timestamp::new(at, i32::try_from(kept.number).unwrap()).unwrap();
            }
            all
        };
        let messages = dialogue(1);
        let numbers = |messages: &[KeptMessage], refused| -> Vec<i64> {
            not_refused(messages, refused).iter().map(|kept| kept.number).collect()
        };
        let refused = Some(RefusedUntil::message(&messages[3]));
        assert_eq!(numbers(&messages, None), [1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(&messages, refused), [5, 6]);
        assert_eq!(numbers(&messages[..4], refused), [0; 0], "rolled back to them");
        assert_eq!(numbers(&messages[..2], refused), [1, 2], "rolled back to before them");
        assert_eq!(numbers(&messages[4..], refused), [5, 6], "they are not among the last ones");
        assert_eq!(numbers(&[], refused), [0; 0]);
        assert_eq!(numbers(&dialogue(2), refused), [1, 2, 3, 4, 5, 6], "others with their numbers");
    }

    #[test]
    fn a_dialogue_without_words_is_read_once_to_its_start() {
        let all = dialogue(&[10]).split_off(1);
        assert_eq!(read(&all, 3, usize::MAX), all);
        assert_eq!(read(&[], 3, usize::MAX), []);
    }
}
