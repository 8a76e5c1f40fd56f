//! JSON-RPC 2.0 messages as MCP uses them: requests, notifications and responses, one per message.
//! Decoding is lenient, because devices are careless (firmware omits an error's `code`, others
//! answer with ids as strings). Encoding is strict. Not for the meaning of methods, nor for
//! batches, which MCP has removed.

use serde_json::{Map, Value, json};

use crate::DecodeError;
use crate::json;

/// Error codes of the JSON-RPC 2.0 specification, section 5.1.
pub mod code {
    /// The text is not JSON.
    pub const PARSE_ERROR: i64 = -32_700;
    /// The JSON is not a request.
    pub const INVALID_REQUEST: i64 = -32_600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32_601;
    /// The parameters are invalid for the method.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// The method failed. Also used for an error without a code.
    pub const INTERNAL_ERROR: i64 = -32_603;
}

/// Id that links a response to its request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// Whole number. Firmware reads it as a 32-bit integer.
    Number(i64),
    /// String. Firmware ignores requests with a string id.
    Text(String),
}

impl Id {
    /// Returns the number, even if a peer has converted it to a string.
    pub fn as_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            other => whole(other).map(Self::Number),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

/// Returns the text of an error, from the first field that has any.
pub fn error_words(error: &Value) -> Option<String> {
    const PLACES: [&str; 8] =
        ["message", "detail", "data", "error", "reason", "msg", "text", "description"];
    match error {
        Value::String(words) => Some(words).filter(|words| !words.trim().is_empty()).cloned(),
        Value::Array(items) => items.iter().find_map(error_words),
        Value::Object(fields) => {
            PLACES.iter().filter_map(|place| fields.get(*place)).find_map(error_words)
        }
        _ => None,
    }
}

/// JSON-RPC message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Request. It expects a response with the same id.
    Request {
        /// Id chosen by the sender.
        id: Id,
        /// Method to call.
        method: String,
        /// Parameters, an object or an array, if there are any.
        params: Option<Value>,
    },
    /// Notification. It expects no response.
    Notification {
        /// Name of the notification.
        method: String,
        /// Parameters, an object or an array, if there are any.
        params: Option<Value>,
    },
    /// Response to a request.
    Response {
        /// Id of the request. `None` if it could not be read.
        id: Option<Id>,
        /// Result, or the error.
        outcome: Result<Value, RpcError>,
    },
}

/// Error of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// One of [`code`], or the peer's own. Firmware sends none.
    pub code: Option<i64>,
    /// Text for people and models; may be empty.
    pub message: String,
    /// Additional data.
    pub data: Option<Value>,
}

impl Message {
    /// Parses one message from text.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON object, or the errors of [`Message::from_value`].
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        Self::from_value(json::weighed(text)?)
    }

    /// Parses one message from its JSON. `jsonrpc` may be absent. Unknown fields are ignored. A
    /// non-null `error` takes precedence over a `result`.
    ///
    /// # Errors
    /// Returns an error if `method`, `result` and `error` are all absent, or the id is neither a
    /// string nor a whole number.
    pub fn from_value(value: Value) -> Result<Self, DecodeError> {
        let Value::Object(mut object) = value else {
            return Err(DecodeError::NotJson { reason: "the message is not an object".into() });
        };
        let id = object.get("id").filter(|id| !id.is_null());
        let wrong = || DecodeError::field("id", "must be a string or a whole number");
        let id = id.map(|id| Id::read(id).ok_or_else(wrong)).transpose()?;
        match object.remove("method") {
            Some(Value::String(method)) => {
                let params = object.remove("params").filter(|p| !p.is_null());
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            Some(_) => Err(DecodeError::field("method", "must be a string")),
            None => Ok(Self::Response { id, outcome: outcome(&mut object)? }),
        }
    }

    /// Creates a request with an id that firmware can read.
    pub fn request(id: i32, method: impl Into<String>, params: Value) -> Self {
        let params = Some(params).filter(|p| !p.is_null());
        Self::Request { id: Id::Number(id.into()), method: method.into(), params }
    }

    /// Returns the message as JSON.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("jsonrpc".into(), "2.0".into());
        match self {
            Self::Request { id, method, params } => {
                out.insert("id".into(), id.to_value());
                call(&mut out, method, params.as_ref());
            }
            Self::Notification { method, params } => call(&mut out, method, params.as_ref()),
            Self::Response { id, outcome } => {
                out.insert("id".into(), id.as_ref().map_or(Value::Null, Id::to_value));
                match outcome {
                    Ok(result) => out.insert("result".into(), result.clone()),
                    Err(error) => out.insert("error".into(), error.to_value()),
                };
            }
        }
        Value::Object(out)
    }

    /// Returns the message as JSON text.
    pub fn encode(&self) -> String {
        self.to_value().to_string()
    }
}

fn call(out: &mut Map<String, Value>, method: &str, params: Option<&Value>) {
    out.insert("method".into(), method.into());
    if let Some(params) = params {
        out.insert("params".into(), params.clone());
    }
}

fn outcome(object: &mut Map<String, Value>) -> Result<Result<Value, RpcError>, DecodeError> {
    if let Some(error) = object.remove("error").filter(|e| !e.is_null()) {
        return Ok(Err(RpcError::read(error)));
    }
    let result = object.remove("result");
    result.map(Ok).ok_or_else(|| DecodeError::field("method", "neither a call nor an answer"))
}

impl RpcError {
    /// Creates an error with this code.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code: Some(code), message: message.into(), data: None }
    }

    fn read(value: Value) -> Self {
        match value {
            Value::Object(mut fields) => {
                let message = match fields.remove("message") {
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                let data = fields.remove("data").filter(|d| !d.is_null());
                Self { code: fields.get("code").and_then(whole), message, data }
            }
            Value::String(message) => Self { code: None, message, data: None },
            other => Self { code: None, message: other.to_string(), data: None },
        }
    }

    fn to_value(&self) -> Value {
        let code = self.code.unwrap_or(code::INTERNAL_ERROR);
        let mut out = json!({"code": code, "message": self.message});
        if let Some(data) = &self.data {
            out["data"] = data.clone();
        }
        out
    }
}

/// Parses a whole number, also if written as `3.0`.
fn whole(value: &Value) -> Option<i64> {
    let exact = |number: f64| number.fract() == 0.0 && number.abs() < 9.0e15;
    #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    let from_float = || value.as_f64().filter(|n| exact(*n)).map(|n| n as i64);
    value.as_i64().or_else(from_float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> RpcError {
        match Message::decode(text).unwrap() {
            Message::Response { outcome: Err(error), .. } => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn careless_answers_are_read() {
        let bare = error(r#"{"jsonrpc":"2.0","id":3,"error":{"message":"Unknown tool: x"}}"#);
        assert_eq!(bare, RpcError { code: None, message: "Unknown tool: x".into(), data: None });
        assert_eq!(error(r#"{"id":3,"error":"no"}"#).message, "no");
        assert_eq!(error(r#"{"id":3,"error":{"message":7,"code":"x"}}"#).message, "7");
        assert_eq!(error(r#"{"id":3,"error":{"code":-1.0},"result":{}}"#).code, Some(-1));
        let both = Message::decode(r#"{"id":"3","result":{},"error":null,"more":1}"#).unwrap();
        let Message::Response { id: Some(id), outcome: Ok(_) } = both else { panic!("{both:?}") };
        assert_eq!((id.as_number(), id), (Some(3), Id::Text("3".into())));
    }

    #[test]
    fn text_that_is_not_a_message_is_refused() {
        let bad = [
            "",
            "[]",
            "[{\"id\":1,\"method\":\"x\"}]",
            "{}",
            "{\"id\":1}",
            "{\"id\":1.5,\"result\":1}",
            "{\"id\":[],\"result\":1}",
            "{\"id\":1,\"method\":2}",
        ];
        for text in bad {
            assert!(Message::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn encoded_messages_are_complete() {
        let id = Id::Number(1);
        let failed = RpcError { code: None, message: "no".into(), data: None };
        let said = [
            Message::request(2, "tools/list", json!({"cursor": ""})),
            Message::request(2, "ping", Value::Null),
            Message::Notification { method: "notifications/initialized".into(), params: None },
            Message::Response { id: Some(id.clone()), outcome: Ok(json!({})) },
            Message::Response { id: None, outcome: Err(failed) },
        ]
        .map(|m| m.encode())
        .join("\n");
        expect_test::expect![[r#"
            {"id":2,"jsonrpc":"2.0","method":"tools/list","params":{"cursor":""}}
            {"id":2,"jsonrpc":"2.0","method":"ping"}
            {"jsonrpc":"2.0","method":"notifications/initialized"}
            {"id":1,"jsonrpc":"2.0","result":{}}
            {"error":{"code":-32603,"message":"no"},"id":null,"jsonrpc":"2.0"}"#]]
        .assert_eq(&said);
    }

    fn ids() -> impl Strategy<Value = Id> {
        prop_oneof![any::<i64>().prop_map(Id::Number), ".{0,12}".prop_map(Id::Text)]
    }

    fn values() -> impl Strategy<Value = Value> {
        (any::<i32>(), ".{0,9}", any::<bool>()).prop_map(|(n, s, b)| json!({"n": n, "s": [s, b]}))
    }

    fn messages() -> impl Strategy<Value = Message> {
        let params = || prop::option::of(values());
        let errors = (any::<i64>(), ".{0,20}", params())
            .prop_map(|(code, message, data)| RpcError { code: Some(code), message, data });
        prop_oneof![
            (ids(), ".{0,20}", params()).prop_map(|(id, method, params)| Message::Request {
                id,
                method,
                params
            }),
            (".{0,20}", params())
                .prop_map(|(method, params)| Message::Notification { method, params }),
            (prop::option::of(ids()), values())
                .prop_map(|(id, result)| Message::Response { id, outcome: Ok(result) }),
            (prop::option::of(ids()), errors)
                .prop_map(|(id, error)| Message::Response { id, outcome: Err(error) }),
        ]
    }

    proptest! {
        #[test]
        fn messages_round_trip(message in messages()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn any_fields_are_read_or_refused(
            id in "(null|[0-9.e-]{1,6}|\"[0-9]\"|\\[\\])",
            name in "(method|result|error|params)",
            value in "(null|[0-9]{1,4}|\"x\"|\\{\\}|\\{\"message\":[0-9]\\})",
        ) {
            let text = format!("{{\"id\":{id},\"{name}\":{value}}}");
            if let Ok(message) = Message::decode(&text) {
                prop_assert_eq!(Message::decode(&message.encode()).is_ok(), true);
            }
        }
    }
}
