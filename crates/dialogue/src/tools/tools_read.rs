//! The tools whose results the model reads in a conversation, and the notes of them at the messages.
//! Not for which of them are trusted: see [`super::policy`].

use std::collections::HashMap;

use hearken_ports::{ChatMessage, Role, ToolRequest};

use super::held_call::is_own_result;

/// Mark in a note between the name of a tool and its connection. No offered name has it.
const OVER: char = '@';

/// Tool whose result the model has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadTool<'a> {
    /// Offered name of the tool.
    pub(super) name: &'a str,
    /// Number of the connection over which it was called; 0 if it has none.
    pub(super) connection: u64,
}

impl<'a> ReadTool<'a> {
    fn of(call: &'a ToolRequest) -> Self {
        Self { name: &call.name, connection: call.connection }
    }

    /// Parses a note of `read_from`. Returns `None` if the connection in it is no number.
    pub(super) fn parse(note: &'a str) -> Option<Self> {
        let Some((name, connection)) = note.split_once(OVER) else {
            return Some(Self { name: note, connection: 0 });
        };
        let connection = u64::from_str_radix(connection, 16).ok()?;
        Some(Self { name, connection })
    }

    /// Renders the note of this tool.
    fn note(self) -> String {
        match self.connection {
            0 => self.name.to_owned(),
            connection => format!("{}{OVER}{connection:x}", self.name),
        }
    }
}

/// Returns the tool of each result in these messages; `None` for a result without its call. Results
/// that the server has written itself do not count.
pub(super) fn tool_of_each_result(
    messages: &[ChatMessage],
) -> impl Iterator<Item = Option<ReadTool<'_>>> {
    let calls = messages.iter().flat_map(|message| &message.calls);
    let called: HashMap<&str, ReadTool<'_>> =
        calls.map(|call| (call.id.as_str(), ReadTool::of(call))).collect();
    let results = messages.iter().filter(|message| message.role == Role::Tool);
    let read = results.filter(|message| !is_own_result(&message.content));
    read.map(move |message| called.get(message.answers.as_str()).copied())
}

/// Returns the notes of the tools whose results are in these messages.
pub(crate) fn tools_read(messages: &[ChatMessage]) -> Vec<String> {
    tool_of_each_result(messages).flatten().map(ReadTool::note).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_tool_and_its_connection() {
        for (name, connection, note) in [
            ("open", 0, "open"),
            ("open", 255, "open@ff"),
            ("a_b-2", u64::MAX, "a_b-2@ffffffffffffffff"),
        ] {
            let tool = ReadTool { name, connection };
            assert_eq!(tool.note(), note);
            assert_eq!(ReadTool::parse(note), Some(tool));
        }
        for odd in ["open@", "open@x", "open@1@2", "open@10000000000000000"] {
            assert_eq!(ReadTool::parse(odd), None, "{odd}");
        }
    }
}
