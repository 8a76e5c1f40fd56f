//! `set_response_language`, `get_response_language` and `list_supported_languages`: the language of
//! the answers in one session. Not for the instructions to the model, which are part of the
//! conversation style.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hearken_ports::reply_language::ReplyLanguage;
use hearken_ports::{Tool, ToolOutput};
use serde_json::{Map, Value, json};

use super::conversation::{Conversation, shown};
use super::{BuiltinTool, output, text};

/// Names of the tools.
pub(super) const NAMES: [&str; 3] =
    ["set_response_language", "get_response_language", "list_supported_languages"];

/// Language that is reported if none was set (7.2 of the gateway's document).
const DEFAULT: ReplyLanguage = ReplyLanguage::Zh;

/// Action of a tool.
#[derive(Clone, Copy)]
enum Action {
    Set,
    Get,
    List,
}

/// One of the language tools.
struct LanguageTool {
    action: Action,
    conversation: Conversation,
}

/// Creates the tools of a conversation, in the order of their names.
pub(super) fn all(conversation: &Conversation) -> [Arc<dyn BuiltinTool>; 3] {
    [Action::Set, Action::Get, Action::List].map(|action| {
        let conversation = conversation.clone();
        Arc::new(LanguageTool { action, conversation }) as Arc<dyn BuiltinTool>
    })
}

impl BuiltinTool for LanguageTool {
    fn tool(&self) -> Tool {
        let (description, properties, required) = match self.action {
            Action::Set => (
                "Set the language of all further answers, when the user asks for one. \
                 设置之后回复所用的语言。",
                json!({"language": {
                    "type": "string",
                    "description": format!("Code of the language (语言代码): {}", codes("/")),
                }}),
                json!(["language"]),
            ),
            Action::Get => (
                "Get the language that is set for the answers. 获取当前设置的回复语言。",
                json!({}),
                json!([]),
            ),
            Action::List => (
                "List the languages in which can be answered. 列出所有支持的回复语言。",
                json!({}),
                json!([]),
            ),
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
            output(match action {
                Action::Set => set(&conversation, text(&arguments, "language")),
                Action::Get => Ok(set_now(&conversation)),
                Action::List => Ok(list(&conversation)),
            })
        })
    }
}

fn codes(between: &str) -> String {
    ReplyLanguage::ALL.map(ReplyLanguage::code).join(between)
}

fn to_json(language: ReplyLanguage) -> Value {
    let code = language.code();
    let name = language.name_zh();
    let name_en = language.name_en();
    json!({"language": code, "name": name, "name_en": name_en})
}

fn set(conversation: &Conversation, named: &str) -> Result<Value, String> {
    if named.is_empty() {
        return Err(format!("`language` is missing: use one of {}", codes(", ")));
    }
    let Some(language) = ReplyLanguage::named(named) else {
        let named = shown(named);
        return Err(format!("the language `{named}` is not known: use one of {}", codes(", ")));
    };
    conversation.style().language = Some(language);
    let mut done = to_json(language);
    // The answer of this turn follows the result, but the model still has its old instructions.
    done["message"] = format!("from now on, answer in {} only", language.name_en()).into();
    Ok(done)
}

/// Renders the current language. The default is that of the document; until a language is set, the
/// model follows the user's language nevertheless.
fn set_now(conversation: &Conversation) -> Value {
    let language = conversation.style().language;
    language.map_or_else(
        || {
            let mut now = to_json(DEFAULT);
            now["message"] = "none is set: answer in the user's language".into();
            now
        },
        to_json,
    )
}

fn list(conversation: &Conversation) -> Value {
    let now = conversation.style().language.unwrap_or(DEFAULT).code();
    json!({"languages": ReplyLanguage::ALL.map(to_json), "current": now})
}
