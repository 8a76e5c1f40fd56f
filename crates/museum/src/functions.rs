//! Functions of a museum client by the OpenAI standard, checked at registration, and the validation
//! of a model's calls against them. A call is never executed here.

use std::sync::Arc;
use std::time::Instant;

use hearken_dialogue::tools::parsed_arguments::parsed_arguments;
use hearken_dialogue::tools::schema::{Schema, off_worker};
use hearken_ports::{OfferedTool, ToolRequest};
use hearken_proto::ids::SessionId;
use hearken_proto::json::weight;
use hearken_proto::museum::Mistake;
use serde_json::{Map, Value, json};

/// Maximum number of functions of a client, as in the OpenAI API.
pub(super) const MAX_FUNCTIONS: usize = 128;
/// Maximum length of a function's name, in characters (OpenAI's limit).
const MAX_NAME_CHARS: usize = 64;
/// Maximum length of a function's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Maximum memory of all functions of a client, in bytes.
pub(super) const MAX_BYTES: usize = 2 * 1_024 * 1_024;

/// Functions of one client. Their schemas are stored as JSON: a compiled one takes many times the
/// memory, and is needed only when the model makes a call.
pub(super) struct Functions {
    pub(super) offered: Arc<[OfferedTool]>,
    /// Id of the session, whose calls are checked one at a time; empty before registration.
    session: String,
}

impl Functions {
    /// Parses functions as clients send them. Refuses the rest after `until`.
    ///
    /// # Errors
    /// Returns all mistakes in them.
    pub(super) fn read(functions: &[Value], until: Instant) -> Result<Self, Vec<Mistake>> {
        let whole = |wrong: String| Err(vec![Mistake::at(&["functions"], wrong)]);
        if functions.len() > MAX_FUNCTIONS {
            return whole(format!("has at most {MAX_FUNCTIONS} functions"));
        }
        if functions.iter().map(weight).sum::<usize>() > MAX_BYTES {
            return whole(format!("takes at most {} KiB of memory", MAX_BYTES / 1_024));
        }
        let mut offered = Vec::<OfferedTool>::new();
        let mut mistakes = Vec::new();
        for (n, function) in functions.iter().enumerate() {
            if Instant::now() >= until {
                return whole("takes too long to check".into());
            }
            match read(function) {
                Ok(tool) if offered.iter().any(|other| other.name == tool.name) => {
                    let twice = format!("`{}` appears twice", tool.name);
                    mistakes.push(Mistake::at(&["functions", &n.to_string(), "name"], twice));
                }
                Ok(tool) => offered.push(tool),
                Err((field, wrong)) => {
                    mistakes.push(Mistake::at(&["functions", &n.to_string(), field], wrong));
                }
            }
        }
        if mistakes.is_empty() {
            Ok(Self { offered: offered.into(), session: String::new() })
        } else {
            Err(mistakes)
        }
    }

    /// Returns functions that were checked before they were stored.
    pub(super) fn from_stored(functions: &[Value], session: &SessionId) -> Self {
        let text = |function: &Value, name: &str| function[name].as_str().unwrap_or("").to_owned();
        let tool = |function: &Value| OfferedTool {
            name: text(function, "name"),
            description: text(function, "description"),
            parameters: function["parameters"].clone(),
        };
        Self { offered: functions.iter().map(tool).collect(), session: session.to_string() }
    }

    /// Returns the functions in the uniform format for the store.
    pub(super) fn to_stored(&self) -> Vec<Value> {
        let kept = |tool: &OfferedTool| {
            let OfferedTool { name, description, parameters } = tool;
            json!({"name": name, "description": description, "parameters": parameters})
        };
        self.offered.iter().map(kept).collect()
    }

    /// Checks a call and returns its arguments.
    ///
    /// # Errors
    /// Fails if there is no such function, or its schema does not allow the arguments; the message
    /// is for the model.
    pub(super) async fn check(&self, call: &ToolRequest) -> Result<Map<String, Value>, String> {
        let found = self.offered.iter().find(|tool| tool.name == call.name);
        let Some(found) = found else {
            return Err(format!("error: there is no function `{}`", call.name));
        };
        let arguments =
            parsed_arguments(&call.arguments).map_err(|error| format!("error: {error}"))?;
        let parameters = found.parameters.clone();
        let checking = off_worker(&self.session, move |_| {
            let schema = Schema::of_object(&parameters)?;
            let checked = schema.check(&parameters, &arguments);
            checked.map(|()| arguments).map_err(|error| error.to_string())
        });
        let checked = checking.await.map_err(|busy| busy.to_string()).flatten();
        checked.map_err(|error| format!("error: {error}"))
    }
}

/// Parses one function, bare or as a tool. The error is the wrong field and a description.
fn read(function: &Value) -> Result<OfferedTool, (&'static str, String)> {
    let bare = match function.get("function") {
        Some(inner) if function["type"] == "function" => inner,
        _ => function,
    };
    let Some(fields) = bare.as_object() else {
        return Err(("", "must be an object".into()));
    };
    let name = match fields.get("name") {
        Some(Value::String(name)) => name.clone(),
        Some(_) => return Err(("name", "must be a text".into())),
        None => return Err(("name", "field required".into())),
    };
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_fine) {
        let shape = format!("has 1 to {MAX_NAME_CHARS} letters, digits and underscores");
        return Err(("name", shape));
    }
    let description = match fields.get("description") {
        Some(Value::String(text)) if !text.trim().is_empty() => text.trim().to_owned(),
        Some(Value::String(_)) => return Err(("description", "must not be empty".into())),
        Some(_) => return Err(("description", "must be a text".into())),
        None => return Err(("description", "field required".into())),
    };
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        return Err(("description", format!("has at most {MAX_DESCRIPTION_CHARS} characters")));
    }
    let mut parameters = match fields.get("parameters") {
        None | Some(Value::Null) => json!({"type": "object"}),
        Some(schema) => schema.clone(),
    };
    Schema::of_object(&parameters).map_err(|wrong| ("parameters", wrong))?;
    if let Some(fields) = parameters.as_object_mut() {
        // Some model APIs require this field, and some clients omit it.
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    Ok(OfferedTool { name, description, parameters })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read_all(functions: &[Value]) -> Result<Functions, Vec<Mistake>> {
        Functions::read(functions, Instant::now() + Duration::from_secs(60))
    }

    fn wrong(function: Value) -> String {
        match read_all(&[function]) {
            Err(mistakes) => mistakes[0].to_string(),
            Ok(_) => "nothing".into(),
        }
    }

    #[test]
    fn both_shapes_are_accepted_and_mistakes_are_reported() {
        let bare = json!({"name": "move_to", "description": "moves", "parameters": {
            "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}});
        let tool =
            json!({"type": "function", "function": {"name": "wave", "description": "waves"}});
        let both = read_all(&[bare.clone(), tool]).unwrap();
        assert_eq!(both.to_stored()[0], bare);
        assert_eq!(both.to_stored()[1]["parameters"], json!({"type": "object", "properties": {}}));
        assert_eq!(
            Functions::from_stored(&both.to_stored(), &SessionId::random()).to_stored(),
            both.to_stored()
        );
        let with = |field: &str, value: Value| {
            let mut function = bare.clone();
            function[field] = value;
            wrong(function)
        };
        let shape = "body.functions.0.name: has 1 to 64 letters, digits and underscores";
        for name in ["", "a b", "a-b", "函数", &"x".repeat(65)] {
            assert_eq!(with("name", json!(name)), shape);
        }
        assert_eq!(with("name", json!(&"x".repeat(64))), "nothing");
        assert_eq!(with("name", json!(1)), "body.functions.0.name: must be a text");
        assert_eq!(
            with("description", json!("")),
            "body.functions.0.description: must not be empty"
        );
        for schema in
            [json!({"type": "array"}), json!("x"), json!({"type": "object", "properties": 1})]
        {
            let told = with("parameters", schema);
            assert!(told.starts_with("body.functions.0.parameters: `parameters` "), "{told}");
        }
        assert_eq!(wrong(json!("x")), "body.functions.0.: must be an object");
        let twice = read_all(&[bare.clone(), bare]).err().unwrap();
        assert_eq!(twice[0].to_string(), "body.functions.1.name: `move_to` appears twice");
    }

    #[tokio::test]
    async fn calls_are_checked() {
        let functions = read_all(&[json!({"name": "f", "description": "d", "parameters": {
            "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}})])
        .unwrap();
        let check = async |name: &str, arguments: &str| {
            let id = "1".into();
            let name = name.to_owned();
            functions
                .check(&ToolRequest {
                    id,
                    name,
                    arguments: arguments.into(),
                    ..ToolRequest::default()
                })
                .await
        };
        assert_eq!(check("f", "{\"x\": 1}").await.unwrap()["x"], 1);
        assert_eq!(check("g", "{}").await.unwrap_err(), "error: there is no function `g`");
        for arguments in ["", "{}", "[1]", "{\"x\"", "{\"x\": \"1\"}"] {
            assert!(check("f", arguments).await.unwrap_err().starts_with("error: "), "{arguments}");
        }
        let bare = read_all(&[json!({"name": "wave", "description": "waves"})]).unwrap();
        for none in ["", " ", "{}", "null", "\"\"", "\"null\"", "\"{}\""] {
            let call = ToolRequest {
                id: "1".into(),
                name: "wave".into(),
                arguments: none.into(),
                ..ToolRequest::default()
            };
            assert_eq!(bare.check(&call).await, Ok(Map::new()), "{none}");
        }
    }

    #[test]
    fn large_and_slow_functions_are_refused() {
        let named = |n: usize| {
            let texts: Vec<_> = (0..300).map(|m| format!("value {m}")).collect();
            json!({"name": format!("f{n}"), "description": "d", "parameters":
                {"type": "object", "properties": {"x": {"enum": texts}}}})
        };
        let many: Vec<Value> = (0..MAX_FUNCTIONS).map(named).collect();
        let told = read_all(&many).err().unwrap()[0].to_string();
        assert_eq!(told, "body.functions: takes at most 2048 KiB of memory");
        assert!(read_all(&many[..40]).is_ok());
        let told = Functions::read(&many[..1], Instant::now()).err().unwrap()[0].to_string();
        assert_eq!(told, "body.functions: takes too long to check");
    }
}
