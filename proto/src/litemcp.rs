//! LiteMCP 1.0.0, a protocol to query and call a single tool. Over WebSocket and standard streams
//! each message is in an envelope with an id, over HTTP it is bare. Decoding is lenient if the
//! document is contradictory or incomplete. Encoding follows its examples. Not for detecting reused
//! ids, nor for executing tools.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::DecodeError;
use crate::json::{self, JsonError, Step};

/// Supported version.
pub const VERSION: Version = Version { major: 1, minor: 0, patch: 0 };

/// End of a message on standard streams.
pub const STDIO_END: &[u8] = b"\n\n\n";

/// Names of the headers with `Bearer TOKEN`. The document's text names the first and its example
/// the second: a client sends both and a server accepts either.
pub const TOKEN_HEADERS: [&str; 2] = ["authorization", "authentication"];

/// Maximum number of characters of a stored `type`.
const MAX_KIND_CHARS: usize = 64;

/// Protocol version: `[major, minor, patch]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Major number. Different major versions are incompatible.
    pub major: u32,
    /// Minor number, for additions.
    pub minor: u32,
    /// Patch number, for corrections.
    pub patch: u32,
}

impl Version {
    /// Returns true if this version is compatible with the supported one.
    pub fn is_ours(self) -> bool {
        self.major == VERSION.major
    }
}

impl Default for Version {
    fn default() -> Self {
        VERSION
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.major, self.minor, self.patch].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Version {
    /// Also accepts `{"major", "minor", "patch"}`, which the document uses for calls in one place.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let parts: Vec<Option<u32>> = match &value {
            Value::Array(parts) => parts.iter().map(number).collect(),
            Value::Object(parts) => {
                ["major", "minor", "patch"].iter().map(|p| parts.get(*p).and_then(number)).collect()
            }
            _ => Vec::new(),
        };
        match parts[..] {
            [Some(major), Some(minor), Some(patch)] => Ok(Self { major, minor, patch }),
            _ => Err(D::Error::custom("a version is [major, minor, patch]")),
        }
    }
}

/// Self-description of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tool {
    /// Protocol version.
    #[serde(default)]
    pub version: Version,
    /// Name of the tool, any text. Calls contain it.
    pub name: String,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Example request, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// Parameters in the order of a call's arguments.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub parameters: Vec<Parameter>,
}

/// Parameter of a tool. Its argument is always a string.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Parameter {
    /// Name of the parameter, any text.
    pub name: String,
    /// Type as any text, for the model: `number`, `a date`.
    #[serde(rename = "type", default, deserialize_with = "null_is_empty")]
    pub kind: String,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Example for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// Tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolCall {
    /// Protocol version.
    #[serde(default)]
    pub version: Version,
    /// Name of the tool.
    pub tool: String,
    /// Arguments in the order of the parameters. Trailing ones may be omitted.
    #[serde(default, deserialize_with = "texts")]
    pub arguments: Vec<String>,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallResult {
    /// Protocol version.
    #[serde(default)]
    pub version: Version,
    /// Arguments by the parameters' names.
    #[serde(default, deserialize_with = "texts_by_name")]
    pub params: BTreeMap<String, String>,
    /// Answer of the tool.
    pub response: Response,
}

/// Answer of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Response {
    /// Parts in order. After a failure, the reason for it.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub content: Vec<Content>,
    /// True if the call failed.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub error: bool,
}

/// Part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Content {
    /// Type as any text: `text`, `number`.
    #[serde(rename = "type", default, deserialize_with = "null_is_empty")]
    pub kind: String,
    /// Data, always a string.
    #[serde(default, deserialize_with = "text")]
    pub data: String,
}

/// Content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Request for the tool's description.
    Get,
    /// Answer to `get`.
    Info(Tool),
    /// Tool call.
    Call(ToolCall),
    /// Answer to `call`.
    Result(CallResult),
}

/// Message in its envelope, with unparsed content.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Protocol version.
    pub version: Version,
    /// Id chosen by the requester. The answer has the same id.
    pub id: i64,
    /// Type: `get`, `info`, `call`, `result`, or a peer's own.
    pub kind: String,
    content: Value,
    /// Error about a duplicate name. If duplicates are accepted, the last value is used.
    twice: Option<JsonError>,
}

impl Envelope {
    /// Parses the envelope.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON object, or has no version, integer id or type.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let (mut fields, twice) = match json::object(text.as_bytes()) {
            Ok(fields) => (fields, None),
            // The error about a duplicate name has a path. Texts that are refused for other
            // reasons, such as their weight, stay refused.
            Err(error) if error.field().is_some() => match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => (fields, Some(error)),
                _ => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        let version = fields.get("version").cloned().unwrap_or_default();
        let version = serde_json::from_value(version)
            .map_err(|error| DecodeError::field("version", error.to_string()))?;
        let id = fields.get("id").and_then(Value::as_i64);
        let id = id.ok_or_else(|| DecodeError::field("id", "a whole number"))?;
        let kind = fields.get("type").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| DecodeError::field("type", "a string"))?;
        let kind = kind.chars().take(MAX_KIND_CHARS).collect();
        let content = fields.remove("data").unwrap_or_default();
        Ok(Self { version, id, kind, content, twice })
    }

    /// Parses the content. A `get` may contain anything: the document's text says null, its
    /// examples an empty object. Duplicate names are accepted in an answer, but not in a call.
    ///
    /// # Errors
    /// Returns an error if the type is unknown, or the content does not fit it.
    pub fn body(self) -> Result<Body, DecodeError> {
        Ok(match self.kind.as_str() {
            "get" => Body::Get,
            "info" => Body::Info(content(self.content)?),
            "call" => match self.twice {
                Some(twice) => return Err(twice.into()),
                None => Body::Call(content(self.content)?),
            },
            "result" => Body::Result(content(self.content)?),
            _ => return Err(DecodeError::field("type", "get, info, call or result")),
        })
    }
}

fn content<T: DeserializeOwned>(value: Value) -> Result<T, JsonError> {
    let read = match value {
        Value::Object(fields) => json::typed(fields),
        other => Err(JsonError::new(json::mismatch("an object", &other))),
    };
    read.map_err(|error| error.within(Step::Field("data".into())))
}

impl Body {
    /// Returns the message with this id and the supported version.
    pub fn encode(&self, id: i64) -> String {
        #[derive(Serialize)]
        struct Nothing {}
        match self {
            Self::Get => encode(id, "get", &Nothing {}),
            Self::Info(tool) => encode(id, "info", tool),
            Self::Call(call) => encode(id, "call", call),
            Self::Result(result) => encode(id, "result", result),
        }
    }
}

fn encode<T: Serialize>(id: i64, kind: &str, content: &T) -> String {
    #[derive(Serialize)]
    struct Written<'a, T> {
        version: Version,
        id: i64,
        #[serde(rename = "type")]
        kind: &'a str,
        data: &'a T,
    }
    serde_json::to_string(&Written { version: VERSION, id, kind, data: content })
        .expect("every key is a string, which is all that JSON asks for")
}

/// Generator of the ids of one connection: whole numbers from 1 to 2^31 - 1 in a pseudo-random
/// order, without repetition until all were used.
#[derive(Debug, Clone)]
pub struct Ids(u32);

impl Ids {
    /// Creates a generator with this seed.
    pub fn new(seed: u32) -> Self {
        Self(seed & Self::MASK)
    }

    const MASK: u32 = (1 << 31) - 1;

    /// Returns the next unused id.
    pub fn draw(&mut self) -> i64 {
        loop {
            // Linear congruential generator with full period: the increment is odd, and the factor
            // is a multiple of four plus one.
            self.0 = self.0.wrapping_mul(1_103_515_245).wrapping_add(12_345) & Self::MASK;
            if self.0 != 0 {
                return i64::from(self.0);
            }
        }
    }
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Converts a string unchanged, null to nothing, and anything else to JSON.
fn as_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Value::deserialize(deserializer).map(as_text)
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    Ok(values.unwrap_or_default().into_iter().map(as_text).collect())
}

fn texts_by_name<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let values: Option<BTreeMap<String, Value>> = Option::deserialize(deserializer)?;
    Ok(values.unwrap_or_default().into_iter().map(|(k, v)| (k, as_text(v))).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<(i64, Body), DecodeError> {
        let envelope = Envelope::decode(text)?;
        Ok((envelope.id, envelope.body()?))
    }

    #[test]
    fn text_that_is_not_a_message_is_refused_with_the_reason() {
        let many = r#"{"a":0},"#.repeat(100_000);
        let heavy =
            format!(r#"{{"version":[1,0,0],"id":1,"type":"get","data":{{}},"x":[{many}0]}}"#);
        for (text, says) in [
            ("", "the message is empty, but must be a JSON object"),
            ("hello", "the message is not JSON: expected value"),
            ("[1]", "the message must be a JSON object, not an array"),
            (&heavy, "takes more than"),
            ("{}", "field `version`: a version is [major, minor, patch]"),
            (r#"{"version":[1,0],"id":1,"type":"get"}"#, "field `version`: a version is"),
            (r#"{"version":"1.0.0","id":1,"type":"get"}"#, "field `version`: a version is"),
            (r#"{"version":[1,0,-1],"id":1,"type":"get"}"#, "field `version`: a version is"),
            (r#"{"version":[1,0,0],"type":"get"}"#, "field `id`: a whole number"),
            (r#"{"version":[1,0,0],"id":"1","type":"get"}"#, "field `id`: a whole number"),
            (r#"{"version":[1,0,0],"id":1.5,"type":"get"}"#, "field `id`: a whole number"),
            (r#"{"version":[1,0,0],"id":1}"#, "field `type`: a string"),
            (r#"{"version":[1,0,0],"id":1,"type":"put"}"#, "field `type`: get, info, call or"),
            (r#"{"version":[1,0,0],"id":1,"type":"info"}"#, "`data` must be an object, not null"),
            (r#"{"version":[1,0,0],"id":1,"type":"call","data":{}}"#, "`data.tool` is missing"),
            (
                r#"{"version":[1,0,0],"id":1,"type":"result","data":{}}"#,
                "`data.response` is missing",
            ),
            (
                r#"{"version":[1,0,0],"id":1,"type":"call","data":{"tool":"t","tool":"u"}}"#,
                "`data.tool` stands twice",
            ),
            (
                r#"{"version":[1,0,0],"id":1,"type":"result","data":{"response":[[],true]}}"#,
                "`data.response` must be an object, not an array",
            ),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(says), "{text}: {message}");
        }
    }

    #[test]
    fn gaps_of_the_document_are_read_leniently() {
        for text in [
            r#"{"version":{"major":1,"minor":0,"patch":0},"id":7,"type":"get"}"#,
            r#"{"version":[1,0,0],"id":7,"type":"get","data":null}"#,
            r#"{"version":[1,2,3],"id":7,"type":"get","data":{},"more":1}"#,
        ] {
            assert_eq!(read(text), Ok((7, Body::Get)), "{text}");
        }
        let text = r#"{"version":[1,0,0],"id":7,"type":"call","data":
            {"version":{"major":1,"minor":0,"patch":0},"tool":"t","arguments":["a",2,null,{"b":1}]}}"#;
        let arguments = ["a", "2", "", r#"{"b":1}"#].map(str::to_owned).to_vec();
        let call = ToolCall { tool: "t".into(), arguments, ..ToolCall::default() };
        assert_eq!(read(text), Ok((7, Body::Call(call))));
        let text = r#"{"version":[1,0,0],"id":7,"type":"result","data":{"params":{"a":1},
            "response":{"content":[{"type":"number","data":5},{"data":"x"}]}}}"#;
        let content = [("number", "5"), ("", "x")];
        let content = content.map(|(k, d)| Content { kind: k.into(), data: d.into() }).to_vec();
        let result = CallResult {
            params: [("a".to_owned(), "1".to_owned())].into(),
            response: Response { content, error: false },
            ..CallResult::default()
        };
        assert_eq!(read(text), Ok((7, Body::Result(result))));
    }

    #[test]
    fn ids_are_unique() {
        for seed in [0, 1, u32::MAX] {
            let mut ids = Ids::new(seed);
            let drawn: HashSet<i64> = (0..100_000).map(|_| ids.draw()).collect();
            assert_eq!(drawn.len(), 100_000);
            assert!(drawn.iter().all(|id| (1..1 << 31).contains(id)));
        }
    }

    fn version() -> impl Strategy<Value = Version> {
        (0..9u32, any::<u32>(), 0..9u32).prop_map(|(major, minor, patch)| Version {
            major,
            minor,
            patch,
        })
    }

    fn body() -> impl Strategy<Value = Body> {
        let parameter = (".*", ".*", any::<Option<String>>(), any::<Option<String>>()).prop_map(
            |(name, kind, description, example)| Parameter { name, kind, description, example },
        );
        let tool =
            (version(), ".*", any::<Option<String>>(), prop::collection::vec(parameter, 0..4))
                .prop_map(|(version, name, description, parameters)| {
                    Body::Info(Tool { version, name, description, example: None, parameters })
                });
        let call = (version(), ".*", prop::collection::vec(".*", 0..4)).prop_map(
            |(version, tool, arguments)| Body::Call(ToolCall { version, tool, arguments }),
        );
        let content = (".*", ".*").prop_map(|(kind, data)| Content { kind, data });
        let response = (prop::collection::vec(content, 0..4), any::<bool>())
            .prop_map(|(content, error)| Response { content, error });
        let result = (version(), prop::collection::btree_map(".*", ".*", 0..4), response).prop_map(
            |(version, params, response)| Body::Result(CallResult { version, params, response }),
        );
        prop_oneof![Just(Body::Get), tool, call, result]
    }

    proptest! {
        #[test]
        fn any_text_is_a_message_or_a_clear_error(text in ".*", kind in "get|info|call|result|x") {
            for text in [text.clone(), format!(
                r#"{{"version":[1,0,0],"id":1,"type":"{kind}","data":{text}}}"#
            )] {
                if let Err(error) = read(&text) {
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }

        #[test]
        fn any_json_is_a_message_or_a_clear_error(
            version in "\\[1,0,0\\]|1|null|\\{\"major\":1\\}",
            id in "1|-1|1e3|\"x\"|null|99999999999999999999",
            kind in "get|info|call|result",
            data in "null|\\{\\}|\\[\\]|\\{\"tool\":\"t\",\"arguments\":(null|1|\\{\\}|\\[null\\])\\}",
        ) {
            let text = format!(
                r#"{{"version":{version},"id":{id},"type":"{kind}","data":{data}}}"#
            );
            if let Err(error) = read(&text) {
                prop_assert!(error.to_string().contains('`'), "{}", error);
            }
        }

        #[test]
        fn bodies_round_trip(body in body(), id in any::<i64>()) {
            let text = body.encode(id);
            prop_assert!(!text.contains('\n'), "three of them would end it on standard streams");
            prop_assert_eq!(read(&text), Ok((id, body)));
        }
    }
}
