//! Chat sessions of applications: what REST requests and answers hold, and the events of a
//! session's WebSocket. Source: the orchestrator's document, chapters 3 to 5. Not for who may ask,
//! nor for how a request is refused, which is the fault table's.

mod bodies;
mod watch;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ids::SessionId;

pub use bodies::{
    AnswerUsage, CharactersBody, ChatContext, ChatRequest, ChatResponse, ContextTool,
    CreateSession, CreateSnapshot, Done, MessagesBody, SessionsBody, SnapshotsBody, TurnInfo,
    Unfit, check_user,
};
pub use watch::{WatchRequest, WatchTold, matches};

/// Longest message of a person, in characters.
pub const MAX_MESSAGE_CHARS: usize = 2_000;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChatStatus {
    /// It can be talked in.
    Active,
    /// It is kept, and cannot be talked in.
    Archived,
    /// It is gone for all but who restores it, and forgotten after 30 days.
    Deleted,
}

impl ChatStatus {
    /// Its word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
        }
    }

    /// The status of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Active, Self::Archived, Self::Deleted].into_iter().find(|s| s.as_str() == word)
    }
}

/// A session, without what was said in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatSession {
    /// Its id, a UUID.
    #[schema(value_type = String, format = Uuid)]
    pub id: SessionId,
    /// What people call it.
    pub name: String,
    /// Who made it.
    pub creator_id: String,
    /// Who leads the game; its creator unless told otherwise.
    pub dm_user_id: String,
    /// Where it stands.
    pub status: ChatStatus,
    /// Most players.
    pub max_players: u32,
    /// Who plays.
    pub players: Vec<String>,
    /// Messages that it holds.
    pub message_count: i64,
    /// The version of the state server's state, as last told.
    pub state_version: Option<i64>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When something of it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// When it was last talked in.
    #[schema(value_type = String, format = DateTime)]
    pub last_access_at: Timestamp,
}

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The deployment: how to behave.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// One message of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said, or what the tool answered.
    pub content: String,
    /// What the model called beside its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool's message the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Of a person's message who said it, where the client told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub player_id: Option<String>,
    /// When it was said.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
}

/// A call of a tool, in the shape of OpenAI's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    /// Unique in a session.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
}

/// What is called, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCall {
    /// The tool's name.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// A dialogue as it was once, to which one can go back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Its id, a UUID.
    pub id: String,
    /// Whose it is.
    #[schema(value_type = String, format = Uuid)]
    pub session_id: SessionId,
    /// What people call it.
    pub name: String,
    /// Messages that it holds.
    pub message_count: i64,
    /// The version of the state server's state then, where one was told.
    pub state_version: Option<i64>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its id, a UUID.
    pub id: String,
    /// Where it happened.
    #[schema(value_type = String, format = Uuid)]
    pub session_id: SessionId,
    /// For example `combat.attack_resolved`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is to be known of it.
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
}
