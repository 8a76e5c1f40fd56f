//! Parsing of a state server's answers, lenient since every game has its own server. Not for HTTP.

use std::sync::Arc;

use hearken_ports::tool_limits::within_limits;
use hearken_ports::{StateError, StateEvent, StateOutcome, Tool};
use hearken_proto::json::weighed;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Maximum length of a state server's text that is passed on, in characters.
pub(super) const MAX_TEXT_CHARS: usize = 500;

/// Error code for a state with another version.
const CONFLICT: &str = "VERSION_CONFLICT";

/// Parses the outcome of a tool call.
///
/// # Errors
/// The answer reports a conflict with a status of success, or is not an answer.
pub(super) fn outcome(body: Value) -> Result<StateOutcome, StateError> {
    let Value::Object(mut body) = body else { return Err(no_protocol("a call")) };
    let error = body.remove("error").filter(|error| !error.is_null());
    if error.as_ref().is_some_and(|error| code(error) == Some(CONFLICT)) {
        return Err(StateError::Conflict(version(&body)));
    }
    let events = body.remove("events").unwrap_or_default();
    Ok(StateOutcome {
        version: version(&body),
        result: body.remove("result").unwrap_or_default(),
        events: events.as_array().into_iter().flatten().filter_map(event).collect(),
        error: error.map(|error| words(&error)),
    })
}

/// Parses an event, an object with details or only its name.
fn event(value: &Value) -> Option<StateEvent> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = value.as_str().or_else(|| text("type")).filter(|kind| !kind.is_empty())?;
    let data = match value.get("data") {
        Some(Value::Object(data)) => data.clone(),
        None | Some(Value::Null) => Map::new(),
        Some(other) => Map::from_iter([("value".to_owned(), other.clone())]),
    };
    let at = value.get("timestamp").and_then(time);
    Some(StateEvent { id: text("id").map(str::to_owned), at, kind: kind.to_owned(), data })
}

/// Parses a time: RFC 3339, or milliseconds since 1970.
fn time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => Timestamp::from_millisecond(other.as_i64()?).ok(),
    }
}

/// Parses a list of tools. Tools without a name, duplicates and those beyond the limits of a source
/// are skipped.
///
/// # Errors
/// There is no list.
pub(super) fn tools(body: &Value) -> Result<Arc<[Tool]>, StateError> {
    let list = body.get("tools").unwrap_or(body).as_array().ok_or(no_protocol("its tools"))?;
    Ok(within_limits("state", list.iter().filter_map(tool)).into())
}

fn tool(value: &Value) -> Option<Tool> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = text("name");
    let schema = ["parameters", "inputSchema", "input_schema"]
        .iter()
        .find_map(|key| value.get(key).filter(|schema| schema.is_object()));
    let nothing = || json!({ "type": "object", "properties": {} });
    (!name.is_empty()).then(|| Tool {
        name: name.to_owned(),
        description: text("description").to_owned(),
        parameters: schema.cloned().unwrap_or_else(nothing),
        // A call that may have started to change the state is never cancelled.
        finishes: true,
        destructive: false,
    })
}

/// Parses a session's state.
///
/// # Errors
/// It is not an object.
pub(super) fn state(body: Value) -> Result<Map<String, Value>, StateError> {
    match body {
        Value::Object(state) => Ok(state),
        _ => Err(no_protocol("a state")),
    }
}

/// Converts an answer to an error, by its status and body. Not for a status of success.
pub(super) fn refusal(status: u16, body: &[u8]) -> StateError {
    let body: Value = weighed(body).unwrap_or_default();
    let error = body.get("error").or_else(|| body.get("detail")).unwrap_or(&body);
    let silent = words(error).is_empty();
    let told = if silent { format!("status {status}") } else { words(error) };
    match (status, code(error)) {
        (409, None | Some(CONFLICT)) => StateError::Conflict(conflicting(&body)),
        (404, _) => StateError::Unknown(told),
        (401 | 403, _) => StateError::Failed(format!("not authorised ({status}): see state.token")),
        (400..=499, _) => StateError::Refused(told),
        _ if silent => StateError::Failed(told),
        _ => StateError::Failed(format!("status {status}: {told}")),
    }
}

/// Returns the current version from a conflict, at any place in the body.
fn conflicting(body: &Value) -> Option<i64> {
    let error = body.get("error").unwrap_or(&Value::Null);
    let places = [body, error, error.get("details").unwrap_or(&Value::Null)];
    places.iter().filter_map(|place| place.as_object()).find_map(version)
}

fn version(object: &Map<String, Value>) -> Option<i64> {
    let read = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    ["version", "current_version"].iter().find_map(|key| object.get(*key).and_then(read))
}

fn code(error: &Value) -> Option<&str> {
    error.as_str().filter(|text| *text == CONFLICT).or_else(|| error.get("code")?.as_str())
}

/// Returns the text of an error, for users and for the model.
fn words(error: &Value) -> String {
    let text = match error {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("message").or(fields.get("code")) {
            Some(Value::String(text)) => text.clone(),
            _ if fields.is_empty() => String::new(),
            _ => error.to_string(),
        },
        other => other.to_string(),
    };
    text.chars().take(MAX_TEXT_CHARS).collect()
}

pub(super) fn no_protocol(what: &str) -> StateError {
    StateError::Failed(format!("its answer about {what} cannot be read"))
}

#[cfg(test)]
mod tests {
    use hearken_base::testkit::numbers;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_a_state_are_unchanged() {
        let list = numbers::array(&numbers::written());
        let text = format!(
            r#"{{"result":{list},"events":[{{"type":"a","data":{{"x":{list}}}}}],"version":6}}"#
        );
        let told = outcome(serde_json::from_str(&text).unwrap()).unwrap();
        let kept = numbers::array_kept(&numbers::written());
        assert_eq!(told.result.to_string(), kept);
        assert_eq!(json!(told.events[0].data).to_string(), format!(r#"{{"x":{kept}}}"#));
    }

    #[test]
    fn an_answer_is_read_from_parts_of_any_shape() {
        let told = outcome(json!({
            "result": { "hit": true }, "version": "6", "error": null,
            "events": [
                { "id": "e1", "type": "dice.rolled", "data": { "total": 7 }, "timestamp": "now" },
                "combat.started", { "data": {} }, 7, { "type": "x", "data": 3 }, "",
                { "type": "y", "timestamp": "2026-01-02T03:04:05.678+08:00" },
                { "type": "z", "timestamp": 1 },
            ],
        }));
        let told = told.unwrap();
        assert_eq!(
            (told.result, told.version, told.error),
            (json!({ "hit": true }), Some(6), None)
        );
        let events: Vec<String> = told
            .events
            .iter()
            .map(|e| format!("{:?} {:?} {} {}", e.id, e.at, e.kind, json!(e.data)))
            .collect();
        let expected = [
            r#"Some("e1") None dice.rolled {"total":7}"#,
            "None None combat.started {}",
            r#"None None x {"value":3}"#,
            "None Some(2026-01-01T19:04:05.678Z) y {}",
            "None Some(1970-01-01T00:00:00.001Z) z {}",
        ];
        assert_eq!(events, expected);
        for (error, words) in [
            (json!("no such goblin"), "no such goblin"),
            (json!({ "code": "X", "message": "why" }), "why"),
            (json!({ "code": "X" }), "X"),
            (json!(7), "7"),
        ] {
            let told = outcome(json!({ "error": error })).unwrap();
            assert_eq!((told.error.as_deref(), told.result), (Some(words), Value::Null));
        }
        assert!(outcome(json!([])).is_err());
        let conflict = json!({ "error": { "code": "VERSION_CONFLICT" }, "version": 3 });
        assert_eq!(outcome(conflict), Err(StateError::Conflict(Some(3))));
    }

    #[test]
    fn refusals_are_distinguished() {
        let told = |status, body: Value| refusal(status, body.to_string().as_bytes());
        let conflict = |version| StateError::Conflict(version);
        assert_eq!(told(409, json!({ "version": 4 })), conflict(Some(4)));
        assert_eq!(told(409, json!({ "error": "VERSION_CONFLICT" })), conflict(None));
        let nested =
            json!({ "error": { "code": "VERSION_CONFLICT", "details": { "version": 5 } } });
        assert_eq!(told(409, nested), conflict(Some(5)));
        let other = json!({ "error": { "code": "FIGHTING", "message": "a fight goes on" } });
        assert_eq!(told(409, other), StateError::Refused("a fight goes on".into()));
        assert_eq!(told(404, json!({ "error": "gone" })), StateError::Unknown("gone".into()));
        assert_eq!(refusal(422, b"<html>"), StateError::Refused("status 422".into()));
        assert_eq!(refusal(500, b""), StateError::Failed("status 500".into()));
        assert!(matches!(refusal(401, b""), StateError::Failed(_)));
    }

    #[test]
    fn tools_are_read_with_each_field_name_for_a_schema() {
        let schema = json!({ "type": "object", "properties": { "x": {} } });
        let list = json!({ "tools": [
            { "name": "a", "description": "d", "parameters": schema },
            { "name": "b", "inputSchema": schema }, { "name": "a" }, { "name": "" }, {},
            { "name": "c", "parameters": null },
        ] });
        let tools = tools(&list).unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!((&tools[0].parameters, &tools[1].parameters), (&schema, &schema));
        assert_eq!(tools[2].parameters["type"], "object");
        assert!(super::tools(&json!({ "tools": {} })).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-z.]{0,6}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("error"),
            Just("events"),
            Just("version"),
            Just("code"),
            Just("type"),
            Just("data"),
            Just("tools"),
            Just("name"),
            Just("message"),
            Just("details"),
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            let object =
                prop::collection::vec((key.clone(), inner.clone()), 0..5).prop_map(|all| {
                    Value::Object(all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                });
            prop_oneof![prop::collection::vec(inner, 0..5).prop_map(Value::Array), object]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_answer_causes_a_panic(body in any_json(), status in 300_u16..600) {
            let told = refusal(status, body.to_string().as_bytes());
            prop_assert!(told.to_string().chars().count() < MAX_TEXT_CHARS + 100);
            if let Ok(list) = tools(&body) {
                prop_assert!(list.iter().all(|tool| !tool.name.is_empty()));
            }
            if let Ok(told) = outcome(body) {
                prop_assert!(told.events.iter().all(|event| !event.kind.is_empty()));
            }
        }
    }
}
