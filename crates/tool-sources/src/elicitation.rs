//! Questions that a server asks the user during a call (elicitation). No form can be shown to the
//! user, so they are declined, or answered with the defaults that the server proposes. Pure.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ElicitationSchema,
    FormElicitationCapability,
};
use serde_json::{Map, Value};

/// Policy for a server's questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitationPolicy {
    /// Report to the server that no user can be asked.
    Declined,
    /// Answer with the server's own defaults.
    Defaults,
}

impl ElicitationPolicy {
    /// Returns the capability to declare to the server.
    pub(super) fn capability(self) -> Option<ElicitationCapability> {
        let form = || ElicitationCapability::new().with_form(FormElicitationCapability::new());
        (self == Self::Defaults).then(form)
    }

    /// Answers a question. A form is filled with its defaults, and declined if a required field has
    /// none; URLs are never opened.
    pub(super) fn answer(self, request: &ElicitRequestParams) -> ElicitResult {
        let content = match request {
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

/// Returns each field's default, or `None` if a required field has none.
fn defaults(schema: &ElicitationSchema) -> Option<Map<String, Value>> {
    let mut filled = Map::new();
    for (name, field) in &schema.properties {
        // Each kind of field has a default of a different type.
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

    fn answer(elicitation: ElicitationPolicy, request: Value) -> Value {
        let request = serde_json::from_value(request).unwrap();
        serde_json::to_value(elicitation.answer(&request)).unwrap()
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
        let filled = answer(ElicitationPolicy::Defaults, form(&["city"]));
        let content = json!({"city": "Bonn", "days": 3, "share": 0.5, "rain": false, "unit": "C"});
        assert_eq!(filled, json!({"action": "accept", "content": content}));
    }

    #[test]
    fn forms_without_defaults_are_declined() {
        let declined = json!({"action": "decline"});
        assert_eq!(answer(ElicitationPolicy::Defaults, form(&["name"])), declined);
        assert_eq!(answer(ElicitationPolicy::Declined, form(&[])), declined);
        let address = json!({"mode": "url", "message": "Log in", "url": "https://a/",
            "elicitationId": "1"});
        assert_eq!(answer(ElicitationPolicy::Defaults, address), declined);
        assert!(ElicitationPolicy::Declined.capability().is_none());
    }
}
