//! Bodies of requests about chat sessions and of their answers, and whether they fit their limits.
//! Not for what is done with them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ChatSession, MAX_MESSAGE_CHARS, Message, Snapshot};
use crate::ids::SessionId;

/// Longest name or id that a client may give, in characters.
const MAX_NAME_CHARS: usize = 128;
/// Most players of a session.
const MAX_PLAYERS: u32 = 100;
/// Players of a session where nobody says how many.
const USUAL_PLAYERS: u32 = 5;

/// What does not fit, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

/// A text of 1 to so many characters, without control characters.
fn text(field: &str, value: &str, max_chars: usize) -> Result<(), Unfit> {
    let chars = value.chars().count();
    if chars == 0 || chars > max_chars || value.trim().is_empty() {
        return Err(Unfit(format!("`{field}` has 1 to {max_chars} characters, not {chars}")));
    }
    if value.chars().any(char::is_control) {
        return Err(Unfit(format!("`{field}` holds control characters")));
    }
    Ok(())
}

/// The id of a user fits.
///
/// # Errors
/// It does not have 1 to 128 characters, or holds control characters.
pub fn check_user(field: &str, id: &str) -> Result<(), Unfit> {
    text(field, id, MAX_NAME_CHARS)
}

/// A new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateSession {
    /// 1 to 128 characters.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Who makes it: 1 to 128 characters.
    #[schema(min_length = 1, max_length = 128)]
    pub creator_id: String,
    /// Who leads the game; its creator unless told otherwise.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub dm_user_id: Option<String>,
    /// 1 to 100; 5 unless told otherwise.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub max_players: Option<u32>,
    /// Who plays, at most `max_players`.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub players: Vec<String>,
}

impl CreateSession {
    /// The same without blanks around its texts: nobody would find a user by them.
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

    /// Everything is within its limits.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&self) -> Result<(), Unfit> {
        text("name", &self.name, MAX_NAME_CHARS)?;
        check_user("creator_id", &self.creator_id)?;
        if let Some(dm) = &self.dm_user_id {
            check_user("dm_user_id", dm)?;
        }
        let most = self.most_players();
        if !(1..=MAX_PLAYERS).contains(&most) {
            return Err(Unfit(format!("`max_players` is 1 to {MAX_PLAYERS}, not {most}")));
        }
        if self.players.len() > most as usize {
            let players = self.players.len();
            return Err(Unfit(format!(
                "`players` has {players} entries, but `max_players` is {most}"
            )));
        }
        self.players.iter().try_for_each(|player| check_user("players", player))
    }

    /// How many may play.
    pub fn most_players(&self) -> u32 {
        self.max_players.unwrap_or(USUAL_PLAYERS)
    }
}

/// Some sessions, the ones used last first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionsBody {
    /// The sessions.
    pub sessions: Vec<ChatSession>,
    /// How many fit in all.
    pub total: u64,
}

/// That something was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// For people.
    pub message: String,
}

/// Something said in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// 1 to 2000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub message: String,
    /// Who says it: 1 to 128 characters.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub player_id: Option<String>,
    /// The session again, where a client repeats it.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The answer comes as server-sent events.
    #[serde(default)]
    pub stream: bool,
    /// Nothing is answered nor kept: only what the model would be told.
    #[serde(default)]
    pub context_only: bool,
}

impl ChatRequest {
    /// Everything is within its limits, in this session.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&self, session: &SessionId) -> Result<(), Unfit> {
        let chars = self.message.chars().count();
        if self.message.trim().is_empty() || chars > MAX_MESSAGE_CHARS {
            let about = format!("`message` has 1 to {MAX_MESSAGE_CHARS} characters, not {chars}");
            return Err(Unfit(about));
        }
        if let Some(player) = &self.player_id {
            text("player_id", player, MAX_NAME_CHARS)?;
        }
        match &self.session_id {
            Some(id) if !id.eq_ignore_ascii_case(session.as_str()) => {
                Err(Unfit("`session_id` is another than that of the address".into()))
            }
            _ => Ok(()),
        }
    }
}

/// What something said came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChatResponse {
    /// The model's words; empty where only the context was asked for.
    pub response: String,
    /// What changed in the world, by the id of whom or what it changed.
    #[schema(value_type = Object)]
    pub state_changes: Map<String, Value>,
    /// The player is to roll dice.
    pub requires_roll: bool,
    /// Of a fight that goes on whose turn it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_info: Option<TurnInfo>,
    /// What it cost.
    pub usage: AnswerUsage,
    /// What the model would be told; only where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ChatContext>,
}

/// Whose turn it is in a fight.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct TurnInfo {
    /// The fight goes on.
    pub active: bool,
    /// Counted from 1.
    pub round: Option<i64>,
    /// Whose turn it is.
    pub current_turn: Option<String>,
}

/// Tokens that an answer cost, all calls of the model together; counted by us where the provider
/// does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct AnswerUsage {
    /// Read.
    pub prompt_tokens: u64,
    /// Written.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
}

/// What a model would be told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChatContext {
    /// The instructions, with the world as it is.
    pub system_prompt: String,
    /// What was said before and is told again, and the new message.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<ContextTool>,
    /// What all of it costs.
    pub prompt_tokens: u64,
}

/// A tool as a model would see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContextTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
}

/// Some messages of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessagesBody {
    /// The messages.
    pub messages: Vec<Message>,
    /// How many the session holds.
    pub total: i64,
    /// The number of the first of them; ask for those before it to go back.
    pub first: Option<i64>,
}

/// Who is in a session's world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CharactersBody {
    /// As the state server has them.
    #[schema(value_type = Vec<Object>)]
    pub characters: Vec<Value>,
}

/// A snapshot to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct CreateSnapshot {
    /// 1 to 128 characters; without one it is named by its time.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
}

impl CreateSnapshot {
    /// The name is within its limits.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), Unfit> {
        self.name.as_deref().map_or(Ok(()), |name| text("name", name, MAX_NAME_CHARS))
    }
}

/// A session's snapshots, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotsBody {
    /// The snapshots.
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
    fn a_session_is_within_its_limits() {
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
