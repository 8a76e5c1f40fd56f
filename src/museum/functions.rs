//! Functions of a museum client by the OpenAI standard, checked when they are registered, and the
//! validation of a model's calls against them. A call is never executed here.

use std::sync::Arc;

use hearken_actors::ports::{OfferedTool, ToolRequest};
use hearken_actors::tools::calls::arguments;
use hearken_actors::tools::schema::Schema;
use hearken_proto::museum::Mistake;
use serde_json::{Map, Value, json};

/// Maximum number of functions of a client, as at OpenAI.
const MAX_FUNCTIONS: usize = 128;
/// Longest name of a function, in characters (OpenAI's limit).
const MAX_NAME_CHARS: usize = 64;
/// Longest description of a function, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// Functions of one client.
pub(super) struct Functions {
    pub(super) offered: Arc<[OfferedTool]>,
    schemas: Vec<Schema>,
}

impl Functions {
    /// Parses functions as clients send them, or as they were stored.
    ///
    /// # Errors
    /// All mistakes in them.
    pub(super) fn read(functions: &[Value]) -> Result<Self, Vec<Mistake>> {
        if functions.len() > MAX_FUNCTIONS {
            let most = format!("has at most {MAX_FUNCTIONS} functions");
            return Err(vec![Mistake::at(&["functions"], most)]);
        }
        let (mut offered, mut schemas) = (Vec::<OfferedTool>::new(), Vec::new());
        let mut mistakes = Vec::new();
        for (n, function) in functions.iter().enumerate() {
            match read(function) {
                Ok((tool, _)) if offered.iter().any(|other| other.name == tool.name) => {
                    let twice = format!("`{}` is there twice", tool.name);
                    mistakes.push(Mistake::at(&["functions", &n.to_string(), "name"], twice));
                }
                Ok((tool, schema)) => {
                    offered.push(tool);
                    schemas.push(schema);
                }
                Err((field, wrong)) => {
                    mistakes.push(Mistake::at(&["functions", &n.to_string(), field], wrong));
                }
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Self { offered: offered.into(), schemas })
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
    /// There is no such function, or its schema does not allow the arguments; the message is for
    /// the model.
    pub(super) fn check(&self, call: &ToolRequest) -> Result<Map<String, Value>, String> {
        let found = self.offered.iter().position(|tool| tool.name == call.name);
        let Some(found) = found else {
            return Err(format!("error: there is no function `{}`", call.name));
        };
        let arguments = arguments(&call.arguments).map_err(|error| format!("error: {error}"))?;
        let checked = self.schemas[found].check(&arguments);
        checked.map(|()| arguments).map_err(|error| format!("error: {error}"))
    }
}

/// Parses one function, bare or as a tool. The error is the wrong field and a description.
fn read(function: &Value) -> Result<(OfferedTool, Schema), (&'static str, String)> {
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
    let schema = Schema::of_object(&parameters).map_err(|wrong| ("parameters", wrong))?;
    if let Some(fields) = parameters.as_object_mut() {
        // Some models' APIs require this field, and some clients leave it out.
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    Ok((OfferedTool { name, description, parameters }, schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(function: Value) -> String {
        match Functions::read(&[function]) {
            Err(mistakes) => mistakes[0].to_string(),
            Ok(_) => "nothing".into(),
        }
    }

    #[test]
    fn both_shapes_are_taken_and_mistakes_are_named() {
        let bare = json!({"name": "move_to", "description": "moves", "parameters": {
            "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}});
        let tool =
            json!({"type": "function", "function": {"name": "wave", "description": "waves"}});
        let both = Functions::read(&[bare.clone(), tool]).unwrap();
        assert_eq!(both.to_stored()[0], bare);
        assert_eq!(both.to_stored()[1]["parameters"], json!({"type": "object", "properties": {}}));
        assert!(Functions::read(&both.to_stored()).is_ok());
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
        let twice = Functions::read(&[bare.clone(), bare]).err().unwrap();
        assert_eq!(twice[0].to_string(), "body.functions.1.name: `move_to` is there twice");
    }

    #[test]
    fn calls_are_checked() {
        let functions = Functions::read(&[json!({"name": "f", "description": "d", "parameters": {
            "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}})])
        .unwrap();
        let check = |name: &str, arguments: &str| {
            let (id, name) = ("1".into(), name.to_owned());
            functions.check(&ToolRequest { id, name, arguments: arguments.into() })
        };
        assert_eq!(check("f", "{\"x\": 1}").unwrap()["x"], 1);
        assert_eq!(check("g", "{}").unwrap_err(), "error: there is no function `g`");
        for arguments in ["", "{}", "[1]", "{\"x\"", "{\"x\": \"1\"}"] {
            assert!(check("f", arguments).unwrap_err().starts_with("error: "), "{arguments}");
        }
        let bare = Functions::read(&[json!({"name": "wave", "description": "waves"})]).unwrap();
        for none in ["", " ", "{}", "null", "\"\"", "\"null\"", "\"{}\""] {
            let call = ToolRequest { id: "1".into(), name: "wave".into(), arguments: none.into() };
            assert_eq!(bare.check(&call), Ok(Map::new()), "{none}");
        }
    }
}
