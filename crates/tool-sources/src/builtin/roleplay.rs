//! `enter_roleplay_mode`, `exit_roleplay_mode`, `get_roleplay_status` and
//! `list_available_characters`: the character that the model plays in one session. Not for the list
//! of characters, which is configured, nor for the instructions to the model, which are part of the
//! conversation style.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hearken_dialogue::Character;
use hearken_ports::{Tool, ToolOutput};
use serde_json::{Map, Value, json};

use super::conversation::{Conversation, shown};
use super::{BuiltinTool, output, text};

/// Names of the tools.
pub(super) const NAMES: [&str; 4] = [
    "enter_roleplay_mode",
    "exit_roleplay_mode",
    "get_roleplay_status",
    "list_available_characters",
];

/// Length of a persona in a list, in characters.
const LISTED_CHARS: usize = 60;

/// Characters that people put around a name.
const AROUND: &str = "\"'`“”‘’「」『』《》【】";

/// Action of a tool.
#[derive(Clone, Copy)]
enum Action {
    Enter,
    Exit,
    Status,
    List,
}

/// One of the role-play tools.
struct RoleplayTool {
    action: Action,
    conversation: Conversation,
}

/// Creates the tools of a conversation, in the order of their names.
pub(super) fn all(conversation: &Conversation) -> [Arc<dyn BuiltinTool>; 4] {
    [Action::Enter, Action::Exit, Action::Status, Action::List].map(|action| {
        let conversation = conversation.clone();
        Arc::new(RoleplayTool { action, conversation }) as Arc<dyn BuiltinTool>
    })
}

impl BuiltinTool for RoleplayTool {
    fn tool(&self) -> Tool {
        let session = json!({"type": "string", "description": "Leave it out (可选，无需填写)"});
        let (description, properties, required) = match self.action {
            Action::Enter => (
                "Play a character from now on, when the user asks for it. 进入角色扮演模式。",
                json!({
                    "character": {"type": "string", "description": "Name of the character (角色名称)"},
                    "session_id": session,
                }),
                json!(["character"]),
            ),
            Action::Exit => (
                "Stop playing a character. 退出角色扮演模式。",
                json!({"session_id": session}),
                json!([]),
            ),
            Action::Status => (
                "Get which character is being played. 获取角色扮演状态。",
                json!({"session_id": session}),
                json!([]),
            ),
            Action::List => {
                ("List the characters that can be played. 列出所有可用角色。", json!({}), json!([]))
            }
        };
        Tool {
            name: NAMES[self.action as usize].into(),
            description: description.into(),
            parameters: json!({"type": "object", "properties": properties, "required": required}),
            finishes: false,
            destructive: false,
        }
    }

    fn call(&self, arguments: Map<String, Value>) -> BoxFuture<'static, ToolOutput> {
        let action = self.action;
        let conversation = self.conversation.clone();
        Box::pin(async move {
            let meant = conversation.check_session(&arguments);
            output(meant.and_then(|()| match action {
                Action::Enter => enter(&conversation, text(&arguments, "character")),
                Action::Exit => Ok(exit(&conversation)),
                Action::Status => Ok(status(&conversation)),
                Action::List => Ok(list(&conversation)),
            }))
        })
    }
}

/// Normalises a name for comparison: lower case, without the characters of [`AROUND`] at its ends.
pub(super) fn normalised(name: &str) -> String {
    let around = |c: char| c.is_whitespace() || AROUND.contains(c);
    name.trim_matches(around).to_lowercase()
}

fn enter(conversation: &Conversation, named: &str) -> Result<Value, String> {
    let all = &conversation.characters;
    if all.is_empty() {
        return Err("there are no characters to play".into());
    }
    let found = all.iter().find(|character| normalised(&character.name) == normalised(named));
    let Some(character) = found else {
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        let named = shown(named);
        let names = names.join(", ");
        return Err(format!("there is no character `{named}`: use one of {names}"));
    };
    conversation.style().character = Some(character.clone());
    let Character { name, persona } = character;
    // The answer of this turn follows the result, but the model still has its old instructions.
    let message = format!("from now on, speak as {name}");
    Ok(json!({
        "active": true,
        "character": name,
        "persona": persona,
        "session_id": &*conversation.session_id,
        "message": message,
    }))
}

fn exit(conversation: &Conversation) -> Value {
    let was = conversation.style().character.take().map(|c| c.name);
    let message = if was.is_some() {
        "from now on, speak as yourself again"
    } else {
        "no character was being played"
    };
    let session_id = &*conversation.session_id;
    json!({"active": false, "character": null, "was": was, "session_id": session_id, "message": message})
}

fn status(conversation: &Conversation) -> Value {
    let character = conversation.style().character.as_ref().map(|c| c.name.clone());
    let session_id = &*conversation.session_id;
    json!({"active": character.is_some(), "character": character, "session_id": session_id})
}

fn list(conversation: &Conversation) -> Value {
    let one = |Character { name, persona }: &Character| {
        let mut about: String = persona.chars().take(LISTED_CHARS).collect();
        if about.len() < persona.len() {
            about.push('…');
        }
        json!({"name": name, "about": about})
    };
    let all: Vec<Value> = conversation.characters.iter().map(one).collect();
    let now = conversation.style().character.as_ref().map(|c| c.name.clone());
    json!({"characters": all, "current": now})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_compared_without_surrounding_quotes() {
        for (written, name) in [
            ("孙悟空", "孙悟空"),
            (" “孙悟空” ", "孙悟空"),
            ("'SHERLOCK holmes'", "Sherlock Holmes"),
            ("《诸葛亮》", "诸葛亮"),
        ] {
            assert_eq!(normalised(written), normalised(name), "{written}");
        }
        assert_ne!(normalised("Holmes"), normalised("Sherlock Holmes"));
        assert_eq!(normalised("“ ”"), "");
    }
}
