//! Chat sessions of applications: the fields of REST requests and responses, and the events of a
//! session's WebSocket. Source: the orchestrator's document, chapters 3 to 5. Not for access
//! control, nor for refusals, which are in the fault table.

mod bodies;
mod event;
mod watch;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::SessionId;

pub use bodies::{
    AnswerUsage, CharactersBody, ChatContext, ChatRequest, ChatResponse, ContextTool,
    CreateSession, CreateSnapshot, Done, LimitViolation, MessagesBody, SessionsBody, SnapshotsBody,
    TurnInfo, check_user,
};
pub use event::{Event, EventData};
pub use watch::{WatchMessage, WatchRequest, matches};

/// Maximum length of a person's message, in characters.
pub const MAX_MESSAGE_CHARS: usize = 2_000;

/// Status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChatStatus {
    /// Accepts messages.
    Active,
    /// Stored, and accepts no messages.
    Archived,
    /// Hidden until restored, and removed after 30 days.
    Deleted,
}

impl ChatStatus {
    /// Returns the word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
        }
    }

    /// Returns the status with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Active, Self::Archived, Self::Deleted].into_iter().find(|s| s.as_str() == word)
    }
}

/// Session without its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatSession {
    /// Id of the session, a UUID.
    #[schema(value_type = String, format = Uuid)]
    pub id: SessionId,
    /// Name for people.
    pub name: String,
    /// User who created the session.
    pub creator_id: String,
    /// Game master; the creator by default.
    pub dm_user_id: String,
    /// Status of the session.
    pub status: ChatStatus,
    /// Maximum number of players.
    pub max_players: u32,
    /// Players.
    pub players: Vec<String>,
    /// Number of messages in the session.
    pub message_count: i64,
    /// Latest version of the state, from the state server.
    #[schema(required)]
    pub state_version: Option<i64>,
    /// Creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Time of the last message.
    #[schema(value_type = String, format = DateTime)]
    pub last_access_at: Timestamp,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Deployment: instructions for the behaviour.
    System,
    /// Person.
    User,
    /// Model.
    Assistant,
    /// Tool.
    Tool,
}

/// One message of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Role of the author.
    pub role: Role,
    /// Words, or the result of a tool.
    pub content: String,
    /// Calls that the model made beside its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Id of the call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tool_call_id: Option<String>,
    /// Player who spoke, if the client named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub player_id: Option<String>,
    /// Tools whose results the model had read when it answered this message: those before it, and those that are left out because they are too long. `@` and its connection follow the name of a tool client's tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_from: Vec<String>,
    /// Time of the message.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
}

/// Tool call, in the shape of OpenAI's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    /// Id, unique in a session.
    pub id: String,
    /// Type, always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Called function with its arguments.
    pub function: FunctionCall,
    /// Connection of the tool client that was called, in hexadecimal; omitted for other sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub connection: Option<String>,
}

/// Called function with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments: a JSON object, as text.
    pub arguments: String,
}

/// Snapshot of a dialogue that can be restored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Id of the snapshot, a UUID.
    pub id: String,
    /// Session of the snapshot.
    #[schema(value_type = String, format = Uuid)]
    pub session_id: SessionId,
    /// Name for people.
    pub name: String,
    /// Number of messages in the snapshot.
    pub message_count: i64,
    /// Version of the state at that time, if the state server reported one.
    #[schema(required)]
    pub state_version: Option<i64>,
    /// Creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}
