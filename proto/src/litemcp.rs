//! LiteMCP 1.0.0, by which a client asks a single tool what it is and calls it: over WebSocket and
//! standard streams each message in an envelope with an id, over HTTP bare. Reading is lenient
//! where the document contradicts itself or leaves a hole; writing follows its examples. Not for
//! when an id was used before, nor for what a tool does with its arguments.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::DecodeError;
use crate::json::{self, JsonError, Step};

/// The version that we speak.
pub const VERSION: Version = Version { major: 1, minor: 0, patch: 0 };

/// What ends a message on standard streams.
pub const STDIO_END: &[u8] = b"\n\n\n";

/// Names of the headers that carry `Bearer TOKEN`: the document's words name the first and its
/// example the second, so a client sends both and a server takes either.
pub const TOKEN_HEADERS: [&str; 2] = ["authorization", "authentication"];

/// The most characters that are kept of a `type`.
const MAX_KIND_CHARS: usize = 64;

/// A version of the protocol: `[major, minor, patch]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Versions of another major one do not understand each other.
    pub major: u32,
    /// Of additions.
    pub minor: u32,
    /// Of corrections.
    pub patch: u32,
}

impl Version {
    /// Messages of this version mean what ours do.
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
    /// Also from `{"major", "minor", "patch"}`, which the document has for calls in one place.
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

/// What a tool says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tool {
    /// The protocol's.
    #[serde(default)]
    pub version: Version,
    /// Any text; calls carry it.
    pub name: String,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What one may ask of it, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// In the order of a call's arguments.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub parameters: Vec<Parameter>,
}

/// One parameter of a tool. Its argument is a string, whatever the type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Parameter {
    /// Any text.
    pub name: String,
    /// Any text, for the model: `number`, `a date`.
    #[serde(rename = "type", default, deserialize_with = "null_is_empty")]
    pub kind: String,
    /// For the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// For the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolCall {
    /// The protocol's.
    #[serde(default)]
    pub version: Version,
    /// The tool's name.
    pub tool: String,
    /// In the order of the parameters; those at the end may be left out.
    #[serde(default, deserialize_with = "texts")]
    pub arguments: Vec<String>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallResult {
    /// The protocol's.
    #[serde(default)]
    pub version: Version,
    /// The arguments, by the parameters' names.
    #[serde(default, deserialize_with = "texts_by_name")]
    pub params: BTreeMap<String, String>,
    /// The answer.
    pub response: Response,
}

/// The answer of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Response {
    /// In order; why it failed, where it did.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub content: Vec<Content>,
    /// The call failed.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub error: bool,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Content {
    /// Any text: `text`, `number`.
    #[serde(rename = "type", default, deserialize_with = "null_is_empty")]
    pub kind: String,
    /// Always a string.
    #[serde(default, deserialize_with = "text")]
    pub data: String,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// What are you?
    Get,
    /// The answer to that.
    Info(Tool),
    /// Do something.
    Call(ToolCall),
    /// The answer to that.
    Result(CallResult),
}

/// A message in its envelope, its content not read yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The protocol's.
    pub version: Version,
    /// Chosen by who asks; the answer has the same.
    pub id: i64,
    /// `get`, `info`, `call`, `result`, or what a peer made up.
    pub kind: String,
    content: Value,
    /// A name that stands twice; the last holds where we do not refuse it.
    twice: Option<JsonError>,
}

impl Envelope {
    /// Reads the envelope.
    ///
    /// # Errors
    /// The text is no JSON object, or has no version, whole id or type.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let (mut fields, twice) = match json::object(text.as_bytes()) {
            Ok(fields) => (fields, None),
            Err(error) => match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => (fields, Some(error)),
                _ => return Err(error.into()),
            },
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

    /// Reads what is in it. A `get` may hold anything: the document's words say null, its examples
    /// an empty object. A name may stand twice in an answer, but not in a call.
    ///
    /// # Errors
    /// The type is unknown, or the content does not fit it.
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
    /// The message with this id, of our version.
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

/// Ids of one connection: whole numbers from 1 to 2^31 - 1 in an order that looks random, none
/// twice before all were used.
#[derive(Debug, Clone)]
pub struct Ids(u32);

impl Ids {
    /// Begins at a place that this number gives.
    pub fn new(seed: u32) -> Self {
        Self(seed & Self::MASK)
    }

    const MASK: u32 = (1 << 31) - 1;

    /// An id that was not used yet.
    pub fn draw(&mut self) -> i64 {
        loop {
            // A linear congruential generator of full period: the increment is odd, and the
            // factor is one more than a multiple of four.
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

/// A string as it stands, null as nothing, anything else as JSON.
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
    fn what_is_no_message_is_refused_with_the_reason() {
        for (text, says) in [
            ("", "the message is empty, but must be a JSON object"),
            ("hello", "the message is not JSON: expected value"),
            ("[1]", "the message must be a JSON object, not an array"),
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
            let told = read(text).unwrap_err().to_string();
            assert!(told.contains(says), "{text}: {told}");
        }
    }

    #[test]
    fn the_holes_of_the_document_are_read_leniently() {
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
    fn no_id_comes_twice() {
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
        fn what_is_written_is_read_again(body in body(), id in any::<i64>()) {
            let text = body.encode(id);
            prop_assert!(!text.contains('\n'), "three of them would end it on standard streams");
            prop_assert_eq!(read(&text), Ok((id, body)));
        }
    }
}
