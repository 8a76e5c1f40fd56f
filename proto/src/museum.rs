//! REST messages of museum clients. Source: the MuseumAgent document, chapters 3 and 4, and the
//! requests of its original clients. Not for the format of their functions, nor for access control.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::json::{JsonError, Step};

/// Maximum length of a person's text, in characters.
pub const MAX_INPUT_CHARS: usize = 2_000;
/// Maximum length of the name of a client's type or of a spirit, in characters.
pub const MAX_NAME_CHARS: usize = 100;
/// Maximum size of a client's metadata, in bytes of JSON.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;

/// Features of the server, as reported to clients.
pub const FEATURES: [&str; 4] =
    ["dynamic_operations", "session_management", "heartbeat", "function_calling"];

/// Mistake in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mistake {
    /// Path of the mistake, from the outside in.
    pub loc: Vec<String>,
    /// Text for people.
    pub msg: String,
}

impl Mistake {
    /// Creates a mistake in a field of the body.
    pub fn at(path: &[&str], msg: impl Into<String>) -> Self {
        let body = std::iter::once("body").chain(path.iter().copied());
        Self { loc: body.map(str::to_owned).collect(), msg: msg.into() }
    }
}

impl From<JsonError> for Mistake {
    fn from(error: JsonError) -> Self {
        let steps: Vec<String> = error.path().map(Step::to_string).collect();
        let path: Vec<&str> = steps.iter().map(String::as_str).collect();
        Self::at(&path, error.what())
    }
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.loc.join("."), self.msg)
    }
}

/// Body of `POST /api/session/register`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Register {
    /// Metadata of the client: `client_type`, `client_version`, `platform`, `capabilities`,
    /// `custom_fields`, and any others.
    #[schema(value_type = Object)]
    pub client_metadata: Map<String, Value>,
    /// Functions of the client as OpenAI functions, bare or as `{"type": "function", "function"}`.
    /// Without any, the model only talks.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub functions: Vec<Value>,
}

impl Register {
    /// Parses a body. Clients of an older server send only the names of their functions, as
    /// `operation_set`.
    ///
    /// # Errors
    /// Returns all mistakes in the body.
    pub fn read(body: &Value) -> Result<Self, Vec<Mistake>> {
        let fields = object(body)?;
        let mut mistakes = Vec::new();
        let client_metadata = match fields.get("client_metadata") {
            Some(Value::Object(about)) => about.clone(),
            None | Some(Value::Null) => {
                mistakes.push(Mistake::at(&["client_metadata"], "field required"));
                Map::new()
            }
            Some(_) => {
                mistakes.push(Mistake::at(&["client_metadata"], "must be an object"));
                Map::new()
            }
        };
        if Value::Object(client_metadata.clone()).to_string().len() > MAX_METADATA_BYTES {
            let most = format!("has at most {MAX_METADATA_BYTES} bytes");
            mistakes.push(Mistake::at(&["client_metadata"], most));
        }
        let list = |name: &'static str| match fields.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list.clone()),
            Some(_) => Err(Mistake::at(&[name], "must be a list")),
        };
        let mut functions = list("functions").unwrap_or_else(|mistake| {
            mistakes.push(mistake);
            Vec::new()
        });
        if functions.is_empty() {
            match list("operation_set") {
                Ok(names) => functions = names.into_iter().map(named_alone).collect(),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        if mistakes.is_empty() { Ok(Self { client_metadata, functions }) } else { Err(mistakes) }
    }
}

/// Returns a function of which only the name is known.
fn named_alone(name: Value) -> Value {
    let Value::String(name) = name else { return name };
    let parameters = serde_json::json!({"type": "object", "properties": {}});
    serde_json::json!({"name": name, "description": name, "parameters": parameters})
}

fn object(body: &Value) -> Result<&Map<String, Value>, Vec<Mistake>> {
    body.as_object().ok_or_else(|| vec![Mistake::at(&[], "must be a JSON object")])
}

/// Response to a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// Session id, to be sent as the header `session-id`.
    pub session_id: String,
    /// Time when the session expires, unless it is used.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Current time of the server.
    #[schema(value_type = String, format = DateTime)]
    pub server_timestamp: Timestamp,
    /// Features of the server.
    pub supported_features: Vec<String>,
}

/// Response to `POST /api/session/heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alive {
    /// Always `alive`.
    pub status: String,
    /// Current time of the server.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// Always true.
    pub session_valid: bool,
    /// Time when the session expires, unless it is used.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// Response to `DELETE /api/session/unregister`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unregistered {
    /// Always `unregistered`.
    pub status: String,
    /// Current time of the server.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// Text for people.
    pub message: String,
}

/// Response to `GET /api/session/stats`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Number of sessions that have not expired.
    pub active_sessions: u64,
    /// Number of sessions registered since the server started.
    pub total_sessions: u64,
    /// Current time of the server.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Timestamp,
}

/// Response to `GET /api/session/info`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionTold)]
pub struct SessionInfo {
    /// Id of the session.
    pub session_id: String,
    /// Metadata of the client.
    #[schema(value_type = Object)]
    pub client_metadata: Value,
    /// Names of the client's functions.
    pub functions: Vec<String>,
    /// Registration time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time when the session expires, unless it is used.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Always true.
    pub is_active: bool,
}

/// Place of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SceneType {
    /// Place to study.
    Study,
    /// Place to rest.
    Leisure,
    /// Public place.
    #[default]
    Public,
}

impl SceneType {
    /// Returns the word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Study => "study",
            Self::Leisure => "leisure",
            Self::Public => "public",
        }
    }
}

/// Body of `POST /api/agent/parse`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParseRequest {
    /// Words of a person.
    #[schema(min_length = 1, max_length = 2000)]
    pub user_input: String,
    /// Type of the client, if it differs from that of its session.
    #[serde(default)]
    pub client_type: Option<String>,
    /// Spirit of an artifact that speaks.
    #[serde(default)]
    pub spirit_id: Option<String>,
    /// Place of the client.
    #[serde(default)]
    pub scene_type: SceneType,
}

impl ParseRequest {
    /// Parses a body. Empty texts count as missing, because some clients send them.
    ///
    /// # Errors
    /// Returns all mistakes in the body.
    pub fn read(body: &Value) -> Result<Self, Vec<Mistake>> {
        let fields = object(body)?;
        let mut mistakes = Vec::new();
        let mut text = |name: &str, most: usize| match fields.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.chars().count() > most => {
                mistakes.push(Mistake::at(&[name], format!("has at most {most} characters")));
                None
            }
            Some(Value::String(text)) => Some(text.trim().to_owned()),
            Some(_) => {
                mistakes.push(Mistake::at(&[name], "must be a text"));
                None
            }
        };
        let user_input = text("user_input", MAX_INPUT_CHARS);
        let client_type = text("client_type", MAX_NAME_CHARS).filter(|t| !t.is_empty());
        let spirit_id = text("spirit_id", MAX_NAME_CHARS).filter(|t| !t.is_empty());
        let scene = text("scene_type", MAX_NAME_CHARS).filter(|t| !t.is_empty());
        let about_input = mistakes.iter().any(|m| m.loc.get(1).is_some_and(|f| f == "user_input"));
        if user_input.as_deref().is_none_or(str::is_empty) && !about_input {
            let wrong = match user_input {
                None => "field required".to_owned(),
                Some(_) => format!("has 1 to {MAX_INPUT_CHARS} characters"),
            };
            mistakes.push(Mistake::at(&["user_input"], wrong));
        }
        let scene_type = match scene.as_deref() {
            None | Some("public") => SceneType::Public,
            Some("study") => SceneType::Study,
            Some("leisure") => SceneType::Leisure,
            Some(_) => {
                mistakes.push(Mistake::at(&["scene_type"], "must be study, leisure or public"));
                SceneType::Public
            }
        };
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let user_input = user_input.unwrap_or_default();
        Ok(Self { user_input, client_type, spirit_id, scene_type })
    }
}

/// Result of parsing a person's words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Parsed {
    /// Id of the artifact, if the called function has such an argument.
    #[schema(required)]
    pub artifact_id: Option<String>,
    /// Name of the artifact, if the called function has such an argument.
    #[schema(required)]
    pub artifact_name: Option<String>,
    /// Function that the client must execute.
    #[schema(required)]
    pub operation: Option<String>,
    /// Arguments of the function.
    #[schema(value_type = Object)]
    pub operation_params: Map<String, Value>,
    /// Search words, if the called function has such an argument.
    pub keywords: Vec<String>,
    /// Hint for people, if the called function has such an argument.
    #[schema(required)]
    pub tips: Option<String>,
    /// Answer in words.
    pub response: String,
}

/// Envelope of the response to `POST /api/agent/parse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Envelope {
    /// 200, or the HTTP status of the failure.
    pub code: u16,
    /// `success`, or the failure, for people.
    pub msg: String,
    /// Result. Null after a failure.
    #[schema(required)]
    pub data: Option<Parsed>,
}

/// Response to a failed request: the envelope, and its text again in `detail`, which clients read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Refused {
    /// HTTP status.
    pub code: u16,
    /// Failure, for people.
    pub msg: String,
    /// Always null.
    #[schema(value_type = Option<Object>, required)]
    pub data: Option<Value>,
    /// Copy of `msg`. For an expired session it contains 会话.
    pub detail: String,
    /// All mistakes in the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Mistake>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn wrong<T: std::fmt::Debug>(read: Result<T, Vec<Mistake>>) -> Vec<String> {
        read.unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bodies_of_clients_are_read() {
        let said = ParseRequest::read(&json!({"user_input": " 你好 ", "spirit_id": "", "x": 1}));
        let said = said.unwrap();
        assert_eq!((said.user_input.as_str(), said.spirit_id), ("你好", None));
        assert_eq!(said.scene_type, SceneType::Public);
        let scene = json!({"user_input": "a", "scene_type": "study", "client_type": null});
        assert_eq!(ParseRequest::read(&scene).unwrap().scene_type, SceneType::Study);
        let register = json!({"client_metadata": {"client_type": "web"}, "functions": null});
        assert_eq!(Register::read(&register).unwrap().functions, Vec::<Value>::new());
        let old = json!({"client_metadata": {}, "operation_set": ["walk_action"]});
        let functions = Register::read(&old).unwrap().functions;
        assert_eq!((functions.len(), &functions[0]["name"]), (1, &json!("walk_action")));
    }

    #[test]
    fn every_mistake_is_reported() {
        assert_eq!(wrong(ParseRequest::read(&json!([]))), ["body: must be a JSON object"]);
        let most = "x".repeat(MAX_INPUT_CHARS + 1);
        for (body, expected) in [
            (json!({}), "body.user_input: field required"),
            (json!({"user_input": null}), "body.user_input: field required"),
            (json!({"user_input": " "}), "body.user_input: has 1 to 2000 characters"),
            (json!({"user_input": most}), "body.user_input: has at most 2000 characters"),
            (json!({"user_input": 7}), "body.user_input: must be a text"),
            (
                json!({"user_input": "a", "scene_type": "home"}),
                "body.scene_type: must be study, leisure or public",
            ),
        ] {
            assert_eq!(wrong(ParseRequest::read(&body)), [expected], "{body}");
        }
        assert_eq!(wrong(ParseRequest::read(&json!({"scene_type": 1}))).len(), 2);
        for (body, expected) in [
            (json!({}), "body.client_metadata: field required"),
            (json!({"client_metadata": []}), "body.client_metadata: must be an object"),
            (json!({"client_metadata": {}, "functions": {}}), "body.functions: must be a list"),
        ] {
            assert_eq!(wrong(Register::read(&body)), [expected], "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_json_is_read_or_refused(text in ".{0,60}", number in any::<i64>()) {
            for value in [json!(text), json!(number), json!([text]), json!({"a": number}), json!(null)] {
                let body = json!({
                    "user_input": value, "client_type": value, "spirit_id": value,
                    "scene_type": value, "client_metadata": value, "functions": value,
                    "operation_set": value,
                });
                let _either: bool = ParseRequest::read(&body).is_ok();
                let _either: bool = Register::read(&body).is_ok();
                let read = ParseRequest::read(&json!({"user_input": value}));
                prop_assert_eq!(read.is_ok(), value.as_str().is_some_and(|s| !s.trim().is_empty()));
            }
        }
    }
}
