//! The tools whose results the model reads in a conversation. Not for which of them are trusted:
//! see [`super::policy`].

use std::collections::HashMap;

use hearken_ports::{ChatMessage, Role};

use super::held_call::is_own_result;

/// Returns the name of the tool of each result in these messages; `None` for a result without its
/// call. Results that the server has written itself do not count.
pub(super) fn tool_of_each_result(messages: &[ChatMessage]) -> impl Iterator<Item = Option<&str>> {
    let calls = messages.iter().flat_map(|message| &message.calls);
    let names: HashMap<&str, &str> =
        calls.map(|call| (call.id.as_str(), call.name.as_str())).collect();
    let results = messages.iter().filter(|message| message.role == Role::Tool);
    let read = results.filter(|message| !is_own_result(&message.content));
    read.map(move |message| names.get(message.answers.as_str()).copied())
}

/// Returns the names of the tools whose results are in these messages.
pub(crate) fn tools_read(messages: &[ChatMessage]) -> Vec<String> {
    tool_of_each_result(messages).flatten().map(str::to_owned).collect()
}

/// Notes at the last words of the user the tools whose results are before them: the model reads
/// these results when it answers, and the answer may outlast them in the conversation.
pub fn note_results_before(messages: &mut [ChatMessage]) {
    let Some(asked) = messages.iter().rposition(|message| message.role == Role::User) else {
        return;
    };
    let read = tools_read(&messages[..asked]);
    messages[asked].note_read(read);
}
