//! Rows of a chat session, as a store holds them. Not for stores.

use hearken_ports::{KeptTurn, RequestKey};
use hearken_proto::chat::{ChatSession, ChatStatus, Message, Role};
use hearken_proto::ids::SessionId;
use jiff::Timestamp;

/// A time, this many seconds after a common start.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

/// The id of the session with this name.
pub fn id(name: &str) -> SessionId {
    SessionId::new(name)
}

/// A session of four players.
pub fn session(name: &str) -> ChatSession {
    ChatSession {
        id: id(name),
        name: format!("the {name} 名'"),
        creator_id: "maker".into(),
        dm_user_id: "leader".into(),
        status: ChatStatus::Active,
        max_players: 4,
        players: vec!["z".into(), "a\"".into()],
        message_count: 0,
        state_version: None,
        created_at: at(0),
        updated_at: at(0),
        last_access_at: at(0),
    }
}

/// A message without a player.
pub fn message(role: Role, content: &str) -> Message {
    Message {
        role,
        content: content.into(),
        tool_calls: Vec::new(),
        tool_call_id: None,
        player_id: None,
        read_from: Vec::new(),
        timestamp: at(1),
    }
}

/// An idempotency key with a constant request hash.
pub fn key(name: &str) -> RequestKey {
    RequestKey { name: name.into(), hash: "h".into() }
}

/// A turn with these messages, alternately of the user and the assistant.
pub fn turn(name: &str, after: i64, fence: i64, said: &[&str]) -> KeptTurn {
    let roles = [Role::User, Role::Assistant].into_iter().cycle();
    KeptTurn {
        session_id: id(name),
        after,
        fence,
        key: None,
        answer: String::new(),
        messages: roles.zip(said).map(|(role, said)| message(role, said)).collect(),
        state_version: None,
        refused: None,
        at: at(10 + after),
        event: None,
    }
}
