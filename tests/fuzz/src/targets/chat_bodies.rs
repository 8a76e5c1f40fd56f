//! Bodies and messages of applications: any input is read or refused, a value that is read survives
//! a round trip, and a value that passes its check is within its limits.

use hearken_proto::chat::{ChatRequest, CreateSession, CreateSnapshot, WatchRequest, check_user};
use hearken_proto::ids::SessionId;
use hearken_proto::json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fn read<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    match json::read::<T>(bytes) {
        Ok(read) => {
            let text = serde_json::to_vec(&read).expect("a value can be written");
            assert_eq!(json::read::<T>(&text).as_ref(), Ok(&read));
            Some(read)
        }
        Err(error) => {
            assert!(error.about("the body").chars().count() < 700, "{error}");
            None
        }
    }
}

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    if let Some(wanted) = read::<CreateSession>(bytes).map(CreateSession::trimmed)
        && wanted.check().is_ok()
    {
        for id in [Some(&wanted.creator_id), wanted.dm_user_id.as_ref()].into_iter().flatten() {
            assert_eq!(check_user("id", id), Ok(()));
        }
        assert!((1..=100).contains(&wanted.most_players()));
        assert!(wanted.name.chars().count() <= 128);
        assert_eq!(wanted.clone().trimmed(), wanted);
    }
    if let Some(request) = read::<ChatRequest>(bytes) {
        let session = SessionId::new("a session");
        if request.check(&session).is_ok() {
            assert!(!request.message.trim().is_empty());
            assert!(request.message.chars().count() <= hearken_proto::chat::MAX_MESSAGE_CHARS);
        }
    }
    if let Some(wanted) = read::<CreateSnapshot>(bytes) {
        drop(wanted.check());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    drop(WatchRequest::decode(text));
}
