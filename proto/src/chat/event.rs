//! Event in a chat session. Its data remain the JSON text that they arrived as: parsed, they would
//! take many times the memory. Not for delivery of events.

use std::sync::Arc;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ids::SessionId;

/// Event in a session. Clones share the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Id of the event, a UUID.
    pub id: String,
    /// Session of the event.
    #[schema(value_type = String, format = Uuid)]
    pub session_id: SessionId,
    /// Kind of event, for example `combat.attack_resolved`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Data of the event.
    #[schema(value_type = Object)]
    pub data: EventData,
    /// Time of the event.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
}

impl Event {
    /// Returns the approximate size of the event in bytes, in memory and on the wire.
    pub fn bytes(&self) -> usize {
        const FRAME: usize = 160;
        FRAME + self.id.len() + self.kind.len() + self.data.as_str().len()
    }
}

/// Data of an event: a JSON object, as text.
#[derive(Debug, Clone)]
pub struct EventData(Arc<RawValue>);

impl EventData {
    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the data.
    ///
    /// # Errors
    /// The data are nested too deeply.
    pub fn parse(&self) -> serde_json::Result<Map<String, Value>> {
        serde_json::from_str(self.as_str())
    }
}

impl Default for EventData {
    fn default() -> Self {
        Self::from(&Map::new())
    }
}

impl From<&Map<String, Value>> for EventData {
    fn from(data: &Map<String, Value>) -> Self {
        Self(Arc::from(to_raw_value(data).expect("values with text keys are JSON")))
    }
}

impl PartialEq for EventData {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Serialize for EventData {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for EventData {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        if !raw.get().starts_with('{') {
            return Err(D::Error::custom("the data of an event must be a JSON object"));
        }
        Ok(Self(Arc::from(raw)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_data(data: &str) -> String {
        format!(
            r#"{{"id":"e","session_id":"s","type":"a.b","data":{data},"timestamp":"2024-01-01T12:00:00Z"}}"#
        )
    }

    #[test]
    fn data_are_sent_as_they_arrived() {
        for data in [r#"{}"#, r#"{"b":1.50,"a":[1e400,"名"]}"#] {
            let text = with_data(data);
            let event: Event = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
        }
        let parsed = json!({"message": "m", "at": 0.7});
        let data = EventData::from(parsed.as_object().unwrap());
        assert_eq!(&data.parse().unwrap(), parsed.as_object().unwrap());
    }

    #[test]
    fn data_are_an_object() {
        for data in ["[]", "1", "null", r#""{""#, "{", r#"{"a":}"#] {
            assert!(serde_json::from_str::<Event>(&with_data(data)).is_err(), "{data}");
        }
    }
}
