//! A call pending the person's consent, and its results for the model. Not for the question, nor
//! for what counts as consent: see [`super::consent`].

use std::sync::Arc;

use hearken_ports::{ChatMessage, Tool, ToolRequest};
use tokio::time::Instant;

use super::offer::{Offer, Offered};
use super::secret_arguments::masked;
use super::waiting::{AGREES_WITHIN, ListedCall};
use crate::turn_trace::TurnTrace;

/// Result of a held call, until the person has answered.
pub const HELD: &str = "not called yet: the person is asked for permission now, and the result \
                        follows if they give it; do not ask them yourself";
/// Result of a call to which the person did not agree.
pub const NOT_AGREED: &str = "error: not called, because the person did not agree; do not call it \
                              again unless they ask for it";
/// Replaces [`HELD`] in later prompts if the call is no longer held, and no result of it is
/// remembered. The person did not hear the whole question; or they agreed, the call was made, and
/// the turn failed afterwards.
const NO_RESULT: &str = "error: no result: the person has not agreed to the call, or it was made and \
                         its result was lost; never say that it was done or was not done before you \
                         have looked, and do not call it again unless they ask for it";
/// Result of a call in the same round as a held one.
pub(super) const ONE_AT_A_TIME: &str =
    "error: not called: it needs the permission of the person, who is asked about another call now";
/// Result of a call that is too large to be held.
pub(super) const TOO_LARGE: &str =
    "error: not called: it needs the permission of the person, and its arguments are too large";
/// Result of a held call whose tool is no longer the same.
const TOOL_CHANGED: &str = "error: not called: the tool was changed or taken away meanwhile";

/// Version of a conversation that several connections or instances can continue: each turn, and
/// each other change of the dialogue, makes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationVersion {
    /// Number of turns or messages.
    pub number: i64,
    /// Time of the last change, in milliseconds since 1970; 0 if nothing but turns changes the
    /// conversation.
    pub changed_ms: i64,
}

/// Call pending the person's consent.
#[derive(Debug, Clone)]
pub struct HeldCall {
    /// Call as the model made it.
    pub request: ToolRequest,
    /// Words of the person in response to which the model made it.
    pub asked: String,
    /// Name of the source in the toolbox.
    pub(super) source: String,
    /// Number of the connection of the tool.
    pub(super) connection: u64,
    pub(super) tool: Tool,
    /// Person who was asked, if they are known.
    pub(super) by: Option<String>,
    pub(super) since: Instant,
    /// Version of the conversation after the question, if others can continue the conversation.
    pub(super) asked_in: Option<ConversationVersion>,
    /// Its entry in the list of pending confirmations.
    pub(super) waiting: Option<Arc<ListedCall>>,
}

impl HeldCall {
    /// Checks that the person agrees, in time, and that the name of the tool still means the one
    /// that they were asked about. Changes of other tools do not matter: otherwise each peer could
    /// drop the calls of everybody by changing its own list.
    ///
    /// # Errors
    /// Returns the result for the model if the call must not be made.
    pub fn permitted(&self, agrees: bool, offer: &Offer) -> Result<(), String> {
        let is_dropped = self.waiting.as_ref().is_some_and(|waiting| waiting.is_dropped());
        if is_dropped || self.is_expired() || !agrees {
            return Err(NOT_AGREED.into());
        }
        // Another list may give the same name another meaning, as a lamp that two sources have. A
        // tool client that connected again cannot prove that it is the one they were asked about.
        let is_same = |offered: &Offered| {
            let Offered { source, connection, tool, .. } = offered;
            *source == self.source && *connection == self.connection && *tool == self.tool
        };
        let same = offer.find(&self.request.name).is_some_and(is_same);
        if same { Ok(()) } else { Err(TOOL_CHANGED.into()) }
    }

    /// Sets the person who is asked, if they are known.
    #[must_use]
    pub fn asked_of(self, by: Option<String>) -> Self {
        Self { by, ..self }
    }

    /// Returns the person who was asked, if they are known.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Adds the call to the list of pending confirmations, with the person and the question, and
    /// without the secrets in its arguments: the whole household reads the list.
    pub fn told(mut self, trace: &TurnTrace, question: &str) -> Self {
        let tool = self.tool.name.clone();
        let source = self.source.clone();
        let arguments = masked(&self.request.arguments);
        self.waiting = trace.waits(tool, source, arguments, question.to_owned()).map(Arc::new);
        self
    }

    /// Restarts the time limit for consent.
    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
        self.waiting.iter().for_each(|waiting| waiting.restart());
    }

    /// Reports whether the time limit for consent is over.
    pub fn is_expired(&self) -> bool {
        self.since.elapsed() > AGREES_WITHIN
    }
}

/// Replaces the results of calls that were held in earlier turns, if no later result is remembered:
/// none will follow. A call that the person has decided about is repeated in the messages, with its
/// result.
pub fn withdraw(messages: &mut [ChatMessage]) {
    let is_held = |message: &ChatMessage| !message.answers.is_empty() && message.content == HELD;
    for held in (0..messages.len()).filter(|&at| is_held(&messages[at])).collect::<Vec<_>>() {
        let (before, after) = messages.split_at(held);
        let call = before.iter().flat_map(|m| &m.calls).rfind(|call| call.id == after[0].answers);
        let is_decided = call.is_some_and(|call| {
            let mut later = after.iter().flat_map(|m| &m.calls);
            later.any(|made| made.name == call.name && made.arguments == call.arguments)
        });
        if !is_decided {
            messages[held].content = NO_RESULT.into();
        }
    }
}

/// Reports whether a result was written by this module: no tool was called for it.
pub(crate) fn is_own_result(result: &str) -> bool {
    [HELD, NO_RESULT, NOT_AGREED, ONE_AT_A_TIME, TOO_LARGE, TOOL_CHANGED].contains(&result)
}

#[cfg(test)]
mod tests {
    use hearken_ports::NOT_CALLED;

    use super::*;
    use crate::turn_trace::{ClientKind, TurnJournal};

    #[test]
    fn the_list_of_pending_confirmations_contains_no_secret() {
        let journal = TurnJournal::default();
        let trace = journal.begin(ClientKind::Voice, "board");
        let held = crate::testkit::answering::held_call();
        let arguments = r#"{"password":"hush","to":"Ann"}"#;
        let request = ToolRequest { arguments: arguments.into(), ..held.request.clone() };
        let held = HeldCall { request, ..held }.told(&trace, "May I?");
        let listed: Vec<String> =
            journal.waiting().all().into_iter().map(|(call, _)| call.arguments).collect();
        assert_eq!(listed, [r#"{"password":"***","to":"Ann"}"#]);
        assert_eq!(held.request.arguments, arguments, "the call is made with the secret");
    }

    #[test]
    fn refusals_are_known_by_their_start() {
        for refused in [NOT_AGREED, ONE_AT_A_TIME, TOO_LARGE, TOOL_CHANGED] {
            assert!(refused.starts_with(NOT_CALLED), "{refused}");
        }
    }

    fn called(id: &str, name: &str, result: &str) -> [ChatMessage; 2] {
        let call = ToolRequest {
            id: id.into(),
            name: name.into(),
            arguments: "{}".into(),
            ..ToolRequest::default()
        };
        [ChatMessage::calling("", vec![call]), ChatMessage::result(id, result)]
    }

    #[test]
    fn only_undecided_calls_are_withdrawn() {
        let rounds = [
            called("1", "lock", HELD),
            called("2", "lock", "locked"),
            called("3", "open", HELD),
            called("4", "lock", "locked"),
        ];
        let mut messages = rounds.concat();
        withdraw(&mut messages);
        let results: Vec<_> =
            messages.iter().skip(1).step_by(2).map(|m| m.content.as_str()).collect();
        assert_eq!(results, [HELD, "locked", NO_RESULT, "locked"]);
    }
}
