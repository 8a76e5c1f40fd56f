//! Bodies of requests about chat sessions and of their responses, with checks of their limits. Not
//! for handling requests.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ChatSession, MAX_MESSAGE_CHARS, Message, Snapshot};
use crate::ids::SessionId;

/// Maximum length of a name or id from a client, in characters.
const MAX_NAME_CHARS: usize = 128;
/// Maximum number of players of a session.
const MAX_PLAYERS: u32 = 100;
/// Default number of players of a session.
const USUAL_PLAYERS: u32 = 5;

/// Violated limit, as text for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LimitViolation(pub String);

/// Checks that a text has 1 to `max_chars` characters, without control characters.
fn text(field: &str, value: &str, max_chars: usize) -> Result<(), LimitViolation> {
    let chars = value.chars().count();
    if chars == 0 || chars > max_chars || value.trim().is_empty() {
        return Err(LimitViolation(format!(
            "`{field}` has 1 to {max_chars} characters, not {chars}"
        )));
    }
    if value.chars().any(char::is_control) {
        return Err(LimitViolation(format!("`{field}` contains control characters")));
    }
    Ok(())
}

/// Checks the id of a user.
///
/// # Errors
/// Returns an error if it does not have 1 to 128 characters, or contains control characters.
pub fn check_user(field: &str, id: &str) -> Result<(), LimitViolation> {
    text(field, id, MAX_NAME_CHARS)
}

/// Request for a new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateSession {
    /// Name of the session, 1 to 128 characters.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// User who creates the session, 1 to 128 characters.
    #[schema(min_length = 1, max_length = 128)]
    pub creator_id: String,
    /// Game master; the creator by default.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub dm_user_id: Option<String>,
    /// Maximum number of players, 1 to 100; 5 by default.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub max_players: Option<u32>,
    /// Players, at most `max_players`.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub players: Vec<String>,
}

impl CreateSession {
    /// Trims all texts: a user would not be found by an id with blanks.
    #[must_use]
    pub fn trimmed(self) -> Self {
        let trim = |text: String| text.trim().to_owned();
        Self {
            name: trim(self.name),
            creator_id: trim(self.creator_id),
            dm_user_id: self.dm_user_id.map(trim),
            max_players: self.max_players,
            players: self.players.into_iter().map(trim).collect(),
        }
    }

    /// Checks that everything is within its limits.
    ///
    /// # Errors
    /// Returns the violated limit.
    pub fn check(&self) -> Result<(), LimitViolation> {
        text("name", &self.name, MAX_NAME_CHARS)?;
        check_user("creator_id", &self.creator_id)?;
        if let Some(dm) = &self.dm_user_id {
            check_user("dm_user_id", dm)?;
        }
        let most = self.most_players();
        if !(1..=MAX_PLAYERS).contains(&most) {
            return Err(LimitViolation(format!("`max_players` is 1 to {MAX_PLAYERS}, not {most}")));
        }
        if self.players.len() > most as usize {
            let players = self.players.len();
            return Err(LimitViolation(format!(
                "`players` has {players} entries, but `max_players` is {most}"
            )));
        }
        self.players.iter().try_for_each(|player| check_user("players", player))
    }

    /// Returns the maximum number of players.
    pub fn most_players(&self) -> u32 {
        self.max_players.unwrap_or(USUAL_PLAYERS)
    }
}

/// Page of sessions, most recently used first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionsBody {
    /// Sessions of this page.
    pub sessions: Vec<ChatSession>,
    /// Total number of matching sessions.
    pub total: u64,
}

/// Confirmation of a completed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Text for people.
    pub message: String,
}

/// Message in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// Text of the message, 1 to 2000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub message: String,
    /// Player who speaks, 1 to 128 characters.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub player_id: Option<String>,
    /// Id of the session, if a client repeats it.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Set to receive the answer as server-sent events.
    #[serde(default)]
    pub stream: bool,
    /// Set to get only the context that the model would receive. Nothing is answered or stored.
    #[serde(default)]
    pub context_only: bool,
}

impl ChatRequest {
    /// Checks that everything is within its limits, in this session.
    ///
    /// # Errors
    /// Returns the violated limit.
    pub fn check(&self, session: &SessionId) -> Result<(), LimitViolation> {
        let chars = self.message.chars().count();
        if self.message.trim().is_empty() || chars > MAX_MESSAGE_CHARS {
            let about = format!("`message` has 1 to {MAX_MESSAGE_CHARS} characters, not {chars}");
            return Err(LimitViolation(about));
        }
        if let Some(player) = &self.player_id {
            text("player_id", player, MAX_NAME_CHARS)?;
        }
        match &self.session_id {
            Some(id) if !id.eq_ignore_ascii_case(session.as_str()) => {
                Err(LimitViolation("`session_id` differs from that of the address".into()))
            }
            _ => Ok(()),
        }
    }
}

/// Answer to a message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChatResponse {
    /// Words of the model; empty if only the context was requested.
    pub response: String,
    /// Changes of the state, by the id of the changed character or thing.
    #[schema(value_type = Object)]
    pub state_changes: Map<String, Value>,
    /// Set if the player must roll dice.
    pub requires_roll: bool,
    /// Turn in a running fight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub turn_info: Option<TurnInfo>,
    /// Token usage.
    pub usage: AnswerUsage,
    /// Context that the model would receive, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub context: Option<ChatContext>,
}

/// Turn in a fight.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct TurnInfo {
    /// Set while the fight is running.
    pub active: bool,
    /// Round, counted from 1.
    #[schema(required)]
    pub round: Option<i64>,
    /// Id of the character whose turn it is.
    #[schema(required)]
    pub current_turn: Option<String>,
}

/// Tokens of an answer, for all calls of the model together. The server counts them if the provider
/// does not report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct AnswerUsage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Sum of both.
    pub total_tokens: u64,
}

/// Context that a model would receive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChatContext {
    /// Instructions, with the current state.
    pub system_prompt: String,
    /// Earlier messages and the new message.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<ContextTool>,
    /// Number of tokens of the context.
    pub prompt_tokens: u64,
}

/// Tool as a model would see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContextTool {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
}

/// Page of messages of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessagesBody {
    /// Messages of this page.
    pub messages: Vec<Message>,
    /// Total number of messages of the session.
    pub total: i64,
    /// Number of the first message. Request messages before it to go back.
    #[schema(required)]
    pub first: Option<i64>,
}

/// Characters in a session's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CharactersBody {
    /// Characters as stored by the state server.
    #[schema(value_type = Vec<Object>)]
    pub characters: Vec<Value>,
}

/// Request for a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct CreateSnapshot {
    /// Name, 1 to 128 characters; the creation time by default.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
}

impl CreateSnapshot {
    /// Checks that the name is within its limits.
    ///
    /// # Errors
    /// Returns the violated limit.
    pub fn check(&self) -> Result<(), LimitViolation> {
        self.name.as_deref().map_or(Ok(()), |name| text("name", name, MAX_NAME_CHARS))
    }
}

/// Snapshots of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotsBody {
    /// Snapshots.
    pub snapshots: Vec<Snapshot>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> CreateSession {
        CreateSession {
            name: "失落的地牢".into(),
            creator_id: "user-123".into(),
            dm_user_id: None,
            max_players: None,
            players: Vec::new(),
        }
    }

    #[test]
    fn a_session_has_limits() {
        assert_eq!(session().check(), Ok(()));
        assert_eq!(session().most_players(), 5);
        let long = "x".repeat(129);
        let spaced = CreateSession {
            name: " n ".into(),
            creator_id: " ann lee ".into(),
            dm_user_id: Some("\tbob".into()),
            players: vec!["cid ".into()],
            ..session()
        };
        let trimmed = spaced.trimmed();
        let users = (trimmed.creator_id.as_str(), trimmed.dm_user_id.as_deref(), &*trimmed.players);
        assert_eq!(users, ("ann lee", Some("bob"), &["cid".to_owned()][..]));
        assert_eq!((trimmed.name.as_str(), trimmed.check()), ("n", Ok(())));
        for unfit in [
            CreateSession { name: String::new(), ..session() },
            CreateSession { name: "  ".into(), ..session() },
            CreateSession { name: "a\nb".into(), ..session() },
            CreateSession { creator_id: long.clone(), ..session() },
            CreateSession { dm_user_id: Some(String::new()), ..session() },
            CreateSession { max_players: Some(0), ..session() },
            CreateSession { max_players: Some(101), ..session() },
            CreateSession { max_players: Some(1), players: vec!["a".into(); 2], ..session() },
            CreateSession { players: vec![long], ..session() },
        ] {
            assert!(unfit.check().is_err(), "{unfit:?}");
        }
    }

    #[test]
    fn a_message_has_1_to_2000_characters() {
        let id = SessionId::new("0193a3c0-0000-7000-8000-000000000001");
        let of = |message: &str| ChatRequest {
            message: message.into(),
            player_id: None,
            session_id: None,
            stream: false,
            context_only: false,
        };
        assert_eq!(of("a").check(&id), Ok(()));
        assert_eq!(of(&"好".repeat(2_000)).check(&id), Ok(()));
        assert!(of(&"好".repeat(2_001)).check(&id).is_err());
        assert!(of("").check(&id).is_err() && of(" \n").check(&id).is_err());
        let same = ChatRequest { session_id: Some(id.as_str().to_uppercase()), ..of("a") };
        assert_eq!(same.check(&id), Ok(()));
        assert!(ChatRequest { session_id: Some("x".into()), ..of("a") }.check(&id).is_err());
        assert!(ChatRequest { player_id: Some(String::new()), ..of("a") }.check(&id).is_err());
    }
}
