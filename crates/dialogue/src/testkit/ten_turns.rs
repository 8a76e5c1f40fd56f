//! Plays ten ordinary turns after a failure or an odd event, and compares them with ten turns
//! without such an event. Every frontend implements [`Conversation`] for its own clients. Not for
//! the event itself: the test causes it.

use hearken_ports::{ChatMessage, Role};

/// Number of played turns.
pub const TURNS: usize = 10;

/// Client of one frontend, reduced to ordinary turns.
#[allow(async_fn_in_trait, reason = "tests alone use it, and need no Send")]
pub trait Conversation {
    /// Asks the `n`th ordinary question (from 0, identical words in each run) and waits for all its
    /// effects.
    async fn turn(&mut self, n: usize) -> TurnSeen;
}

/// Observations of one turn. Ids, times and durations that differ from run to run are already
/// replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnSeen {
    /// Messages of each prompt that the model received, without the system message.
    pub prompts: Vec<Vec<ChatMessage>>,
    /// Answer that the client received.
    pub answer: String,
    /// All other events sent during the turn, in order.
    pub events: Vec<String>,
    /// Rows of the conversation in the store afterwards.
    pub rows: Vec<String>,
}

/// Plays the ten turns.
pub async fn ten_turns(conversation: &mut impl Conversation) -> Vec<TurnSeen> {
    let mut seen = Vec::with_capacity(TURNS);
    for n in 0..TURNS {
        seen.push(conversation.turn(n).await);
    }
    seen
}

/// Panics with the first difference between the ten turns after `event` and those of an undisturbed
/// run. `remains` holds the messages that the event legitimately left in the dialogue (such as a
/// partly heard answer): each prompt may start with them, completely or without the oldest.
pub fn assert_undisturbed(
    event: &str,
    undisturbed: &[TurnSeen],
    after: &[TurnSeen],
    remains: &[ChatMessage],
) {
    assert_eq!((undisturbed.len(), after.len()), (TURNS, TURNS), "after {event}: too few turns");
    for (n, (plain, seen)) in undisturbed.iter().zip(after).enumerate() {
        assert_eq!(plain.answer, seen.answer, "after {event}: the answer of turn {n}");
        assert_eq!(plain.events, seen.events, "after {event}: the events of turn {n}");
        assert_eq!(plain.rows, seen.rows, "after {event}: the rows after turn {n}");
        let asked = &seen.prompts;
        let expected = &plain.prompts;
        assert_eq!(
            asked.len(),
            expected.len(),
            "after {event}: the prompts of turn {n}: {asked:?}"
        );
        let remains = received(remains);
        for (got, want) in asked.iter().zip(expected) {
            let got = received(got);
            let own = without(&got, &remains);
            assert!(
                ends_alike(own, &received(want)),
                "after {event}: turn {n} asked {got:?}, not {want:?}"
            );
        }
    }
}

/// Returns messages as a model receives them: without the tools that were read for them, among which
/// are those of the event.
fn received(messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let as_sent = |m: &ChatMessage| ChatMessage { read_from: Vec::new(), ..m.clone() };
    messages.iter().map(as_sent).collect()
}

/// Returns the messages after the remains of the event.
fn without<'a>(messages: &'a [ChatMessage], remains: &[ChatMessage]) -> &'a [ChatMessage] {
    let kept = (0..=remains.len()).find(|from| messages.starts_with(&remains[*from..]));
    &messages[kept.map_or(0, |from| remains.len() - from)..]
}

/// Returns true if both are equal, apart from the oldest turns, which `got` may have forgotten
/// already: the remains of the event took up room in its memory.
fn ends_alike(got: &[ChatMessage], want: &[ChatMessage]) -> bool {
    let whole_turns = got.len() > 1 && got.first().is_some_and(|m| m.role == Role::User);
    got == want || (whole_turns && want.ends_with(got))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<ChatMessage> {
        let role = |n| if n % 2 == 0 { Role::User } else { Role::Assistant };
        texts.iter().enumerate().map(|(n, text)| ChatMessage::new(role(n), *text)).collect()
    }

    fn run(prompt: &[&str]) -> Vec<TurnSeen> {
        let seen = TurnSeen { prompts: vec![words(prompt)], ..TurnSeen::default() };
        vec![seen; TURNS]
    }

    #[test]
    fn legitimate_remains_are_no_difference() {
        let remains = words(&["tell a story", "Once"]);
        let after = run(&["tell a story", "Once", "hello"]);
        assert_undisturbed("an interruption", &run(&["hello"]), &after, &remains);
    }

    #[test]
    #[should_panic(expected = "turn 0 asked")]
    fn words_joined_to_the_next_question_are_detected() {
        let after = run(&["tell a story hello"]);
        assert_undisturbed("a failure", &run(&["hello"]), &after, &[]);
    }

    #[test]
    #[should_panic(expected = "turn 0 asked")]
    fn a_turn_that_should_be_forgotten_is_detected() {
        let after = run(&["tell a story", "Once", "hello"]);
        assert_undisturbed("a failure", &run(&["hello"]), &after, &[]);
    }

    #[test]
    #[should_panic(expected = "the answer of turn 0")]
    fn a_different_answer_is_detected() {
        let mut after = run(&["hello"]);
        after[0].answer = "something went wrong".into();
        assert_undisturbed("a failure", &run(&["hello"]), &after, &[]);
    }
}
