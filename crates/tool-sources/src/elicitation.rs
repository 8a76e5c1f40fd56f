//! Questions that a server asks the person in the midst of a call (elicitation): nobody can be
//! shown a form, so they are declined, or answered by the defaults that the server proposes. Pure.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ElicitationSchema,
    FormElicitationCapability,
};
use serde_json::{Map, Value};

/// What becomes of a server's questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Questions {
    /// The server is told that nobody can be asked.
    Declined,
    /// The server's own defaults are the answer.
    Defaults,
}

impl Questions {
    /// What the server is told of it beforehand.
    pub(super) fn capability(self) -> Option<ElicitationCapability> {
        let form = || ElicitationCapability::new().with_form(FormElicitationCapability::new());
        (self == Self::Defaults).then(form)
    }

    /// The answer to a question. A form is filled with its defaults, and declined where a field
    /// that it needs has none; addresses are never opened.
    pub(super) fn answer(self, question: &ElicitRequestParams) -> ElicitResult {
        let content = match question {
            ElicitRequestParams::FormElicitationParams { requested_schema, .. }
                if self == Self::Defaults =>
            {
                defaults(requested_schema)
            }
            _ => None,
        };
        match content {
            Some(content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            None => ElicitResult::new(ElicitationAction::Decline),
        }
    }
}

/// Each field's default, or nothing where one that is required has none.
fn defaults(schema: &ElicitationSchema) -> Option<Map<String, Value>> {
    let mut filled = Map::new();
    for (name, field) in &schema.properties {
        // Each kind of field keeps its default in a type of its own.
        let field = serde_json::to_value(field).ok()?;
        if let Some(default) = field.get("default") {
            filled.insert(name.clone(), default.clone());
        }
    }
    let required = schema.required.iter().flatten();
    required.into_iter().all(|name| filled.contains_key(name)).then_some(filled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(elicitation: Questions, question: Value) -> Value {
        let question = serde_json::from_value(question).unwrap();
        serde_json::to_value(elicitation.answer(&question)).unwrap()
    }

    fn form(required: &[&str]) -> Value {
        json!({"mode": "form", "message": "Which?", "requestedSchema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "default": "Bonn"},
                "days": {"type": "integer", "default": 3},
                "share": {"type": "number", "default": 0.5},
                "rain": {"type": "boolean", "default": false},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "name": {"type": "string"},
            },
            "required": required,
        }})
    }

    #[test]
    fn forms_are_filled_with_their_defaults() {
        let filled = answer(Questions::Defaults, form(&["city"]));
        let content = json!({"city": "Bonn", "days": 3, "share": 0.5, "rain": false, "unit": "C"});
        assert_eq!(filled, json!({"action": "accept", "content": content}));
    }

    #[test]
    fn what_cannot_be_filled_is_declined() {
        let declined = json!({"action": "decline"});
        assert_eq!(answer(Questions::Defaults, form(&["name"])), declined);
        assert_eq!(answer(Questions::Declined, form(&[])), declined);
        let address = json!({"mode": "url", "message": "Log in", "url": "https://a/",
            "elicitationId": "1"});
        assert_eq!(answer(Questions::Defaults, address), declined);
        assert!(Questions::Declined.capability().is_none());
    }
}
