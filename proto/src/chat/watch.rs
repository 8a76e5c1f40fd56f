//! Messages of a session's WebSocket in both directions. Source: the orchestrator's document, 5.2;
//! the filter and resuming after an event are additions of Hearken. Not for sending messages.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::ids::SessionId;
use crate::json::{self, JsonError};

/// Message from a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchRequest {
    /// Limits further events to these types. `combat.*` matches all types with that prefix. An
    /// empty list matches every event.
    Subscribe {
        /// Types of the filter.
        types: Vec<String>,
    },
    /// Asks for a `pong`.
    Ping,
}

impl WatchRequest {
    /// Parses a text message.
    ///
    /// # Errors
    /// Returns an error for text that is not a JSON object, a field that is missing or of another
    /// type, or an unknown `type`.
    pub fn decode(text: &str) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Subscribe {
            types: Vec<String>,
        }
        let mut fields = json::object(text.as_bytes())?;
        match json::take_text(&mut fields, "type")?.as_str() {
            "subscribe" => {
                let Subscribe { types } = json::typed(fields)?;
                Ok(Self::Subscribe { types })
            }
            "ping" => Ok(Self::Ping),
            other => Err(json::unknown("type", &["subscribe", "ping"], other)),
        }
    }
}

/// Message to a watcher.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WatchMessage<'a> {
    /// First message of a connection.
    Connected {
        /// Watched session.
        session_id: &'a SessionId,
        /// True if all events after the one that the watcher named follow; false if some of them
        /// are lost.
        complete: bool,
    },
    /// Event in the session.
    Event {
        /// Content of the event.
        event: &'a Event,
    },
    /// Confirms the filter.
    Subscribed {
        /// Types of the filter.
        types: &'a [String],
    },
    /// Answers `ping`.
    Pong,
    /// Reports an invalid message of the watcher.
    Error {
        /// Description of the mistake.
        error: WatchError<'a>,
    },
}

/// Mistake in a watcher's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WatchError<'a> {
    /// Code from the fault table.
    pub code: &'static str,
    /// Text for people.
    pub message: &'a str,
}

impl<'a> WatchMessage<'a> {
    /// Creates an error message.
    pub fn error(code: &'static str, message: &'a str) -> Self {
        Self::Error { error: WatchError { code, message } }
    }

    /// Returns the message as JSON text.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("texts and plain values are JSON")
    }
}

/// Returns true if a filter accepts an event of this type. An empty filter accepts all.
pub fn matches(types: &[String], kind: &str) -> bool {
    types.is_empty()
        || types.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(beginning) => kind.starts_with(beginning),
            None => wanted == kind,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::chat::EventData;

    #[test]
    fn messages_have_the_documents_shape() {
        let id = SessionId::new("s");
        let event = Event {
            id: "e".into(),
            session_id: id.clone(),
            kind: "dice.rolled".into(),
            data: EventData::default(),
            timestamp: "2024-01-01T12:00:00Z".parse().unwrap(),
        };
        let read = |sent: WatchMessage| serde_json::from_str::<Value>(&sent.encode()).unwrap();
        let connected = read(WatchMessage::Connected { session_id: &id, complete: true });
        assert_eq!(connected, json!({"type": "connected", "session_id": "s", "complete": true}));
        let message = read(WatchMessage::Event { event: &event });
        assert_eq!(message["type"], "event");
        assert_eq!(message["event"]["type"], "dice.rolled");
        assert_eq!(message["event"]["timestamp"], "2024-01-01T12:00:00Z");
        let error = read(WatchMessage::error("INVALID_REQUEST", "no"));
        assert_eq!(error["error"], json!({"code": "INVALID_REQUEST", "message": "no"}));
        let request = WatchRequest::decode(r#"{"type":"subscribe","types":["combat.*"]}"#);
        assert_eq!(request, Ok(WatchRequest::Subscribe { types: vec!["combat.*".into()] }));
        for (text, message) in [
            ("[]", "the message must be a JSON object, not an array"),
            (r#"{"type":"sing"}"#, "`type` must be `subscribe` or `ping`, not `sing`"),
            (r#"{"type":"subscribe","types":null}"#, "`types` is missing"),
            (r#"{"type":"subscribe","types":["a",1]}"#, "`types[1]` must be text, not a number"),
            (r#"{"type":"ping","type":"subscribe"}"#, "`type` stands twice"),
        ] {
            assert_eq!(WatchRequest::decode(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn a_filter_contains_types_or_prefixes() {
        let of = |types: &[&str]| types.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        for (types, kind, wanted) in [
            (&[][..], "a.b", true),
            (&["a.b"], "a.b", true),
            (&["a.b"], "a.bc", false),
            (&["a.*"], "a.bc", true),
            (&["a.*"], "ab.c", false),
            (&["x", "*"], "a.b", true),
        ] {
            assert_eq!(matches(&of(types), kind), wanted, "{types:?} {kind}");
        }
    }
}
