//! Repairs JSON-RPC messages between real devices and rmcp, in both directions. Pure functions from
//! JSON to JSON. Each repair names the program that needs it. Firmware means 78/xiaozhi-esp32; the
//! other device is PyPI's xiaozhi-sdk.

use std::sync::Arc;

use hearken_dialogue::tools::definition::{SCHEMA_FIELDS, data_url};
use hearken_dialogue::tools::{Introduction, Vision};
use hearken_proto::json::{is_nothing, is_true, mended, weight_of_text};
use hearken_proto::jsonrpc::error_words;
use serde_json::{Map, Value, json};

/// MCP version of devices. It does not change.
const VERSION: &str = "2024-11-05";

/// JSON-RPC code "internal error", for errors that come without a code.
const NO_CODE: i64 = -32_603;

/// Maximum number of messages in one payload.
const MAX_BATCH: usize = 100;
/// Maximum weight of a payload or of a page's schemas that are written as text, in bytes of memory
/// when parsed: the weight of the frame does not include them.
const MAX_TEXT_WEIGHT: usize = 1 << 20;

/// Extra content of messages to devices, beyond rmcp's own.
#[derive(Clone, Default)]
pub struct Extras {
    /// Creates the camera endpoint for each introduction: its token is short-lived.
    pub vision: Option<Arc<dyn Fn() -> Vision + Send + Sync>>,
    /// True if tools that are meant for people are requested, too.
    pub user_tools: bool,
    /// Identity in the greeting.
    pub introduction: Introduction,
}

/// Converts a message of rmcp for a device. Ids are offset by `base`: rmcp restarts its count with
/// each hello, and ids must be unique within a connection.
pub fn outgoing(mut message: Value, base: i64, extras: &Extras) -> Value {
    renumber(message.get_mut("id"), base);
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    if let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) {
        // No device knows progress tokens.
        params.remove("_meta");
        renumber(params.get_mut("requestId"), base);
    }
    match method.as_str() {
        "initialize" => {
            // xiaozhi-sdk does not answer without them; firmware takes no pictures without them.
            let vision = extras.vision.as_ref().map(|vision| vision());
            let (url, token) = vision.map_or_else(Default::default, |v| (v.url, v.token));
            message["params"]["protocolVersion"] =
                extras.introduction.protocol_version.as_str().into();
            message["params"]["clientInfo"]["name"] = extras.introduction.name.as_str().into();
            message["params"]["capabilities"]["vision"] = json!({"url": url, "token": token});
        }
        "tools/list" => {
            let mut params =
                json!({"cursor": message["params"]["cursor"].as_str().unwrap_or_default()});
            if extras.user_tools {
                params["withUserTools"] = true.into();
            }
            message["params"] = params;
        }
        _ => {}
    }
    message
}

fn renumber(id: Option<&mut Value>, base: i64) {
    if let Some(id) = id
        && let Some(number) = id.as_i64()
    {
        *id = (base + number).into();
    }
}

/// Returns the messages of a payload, which devices other than firmware send as text or as an
/// array.
pub fn messages(payload: Value) -> Vec<Value> {
    let payload = match payload {
        Value::String(text) => parsed(&text, MAX_TEXT_WEIGHT).unwrap_or_default(),
        other => other,
    };
    match payload {
        Value::Array(batch) => batch.into_iter().take(MAX_BATCH).collect(),
        one => vec![one],
    }
}

/// Parses text that takes at most `max` bytes of memory when parsed.
fn parsed(text: &str, max: usize) -> Option<Value> {
    weight_of_text(text.as_bytes(), max).ok()?;
    let mend = |_| mended(text).and_then(|text| serde_json::from_str(&text).ok());
    serde_json::from_str(text).map_or_else(mend, Some)
}

/// Returns true if a message answers a request without an id.
pub fn is_unaddressed(message: &Value) -> bool {
    let has = |field: &str| message.get(field).is_some_and(|value| !value.is_null());
    !has("id") && !has("method") && (has("error") || message.get("result").is_some())
}

/// Returns the number of a request, even if it is written as text or as 3.0.
fn number(id: &Value) -> Option<i64> {
    let whole = || id.as_f64().filter(|id| id.fract() == 0.0 && id.abs() < 9.0e15);
    let written = || whole().and_then(|id| format!("{id:.0}").parse().ok());
    id.as_i64().or_else(written).or_else(|| id.as_str()?.parse().ok())
}

/// Converts a message of a device for rmcp. `None` if it answers a request from before `base`, or
/// no request.
pub fn incoming(message: Value, base: i64) -> Option<Value> {
    let Value::Object(mut message) = message else { return None };
    message.insert("jsonrpc".into(), "2.0".into());
    if message.contains_key("method") {
        return Some(Value::Object(message));
    }
    let id = number(message.get("id")?)?;
    let id = id.checked_sub(base).filter(|id| *id >= 0)?;
    // Some devices always write both fields.
    let has_result = message.get("result").is_some_and(|result| !result.is_null());
    let is_error = |error: &Value| !(error.is_null() || has_result && is_nothing(error));
    if let Some(error) = message.remove("error").filter(is_error) {
        return Some(error_reply(id, &error));
    }
    let result = result(message.remove("result").unwrap_or(Value::Null));
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Returns an error response with a code. Firmware omits the code.
pub fn error_reply(id: i64, error: &Value) -> Value {
    let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    let message = error_words(error).unwrap_or_else(|| error.to_string());
    let code = code.map_or(NO_CODE, i64::from);
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Returns the known parts of a result in valid form, and nothing else. A single part that rmcp
/// does not understand would make it reject the whole result.
fn result(result: Value) -> Value {
    match result {
        Value::Object(result) if result.contains_key("protocolVersion") => initialized(&result),
        Value::Object(mut result) if result.contains_key("tools") => listed(&mut result),
        Value::Object(mut result) => called(&mut result),
        Value::Null => json!({"content": []}),
        bare => json!({"content": [text(&bare)]}),
    }
}

fn initialized(result: &Map<String, Value>) -> Value {
    let text = |field: &str| {
        let value = result.get("serverInfo").and_then(|info| info.get(field));
        value.and_then(Value::as_str).unwrap_or("unknown").to_owned()
    };
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or(VERSION);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": text("name"), "version": text("version")},
    })
}

/// Takes a schema, which may be written as text.
fn schema(place: &mut Value, room: &mut usize) -> Option<Value> {
    let schema = match place.take() {
        Value::String(text) => {
            *room -= weight_of_text(text.as_bytes(), *room).ok()?;
            parsed(&text, MAX_TEXT_WEIGHT)?
        }
        other => other,
    };
    Some(schema).filter(Value::is_object)
}

/// Converts a list of tools. Drops tools without a name. A tool without a schema takes no
/// arguments. A tool that is meant for people counts as destructive: with such tools, firmware
/// restarts and upgrades itself. An empty cursor means the end: devices other than firmware send
/// it.
fn listed(result: &mut Map<String, Value>) -> Value {
    let Some(Value::Array(tools)) = result.remove("tools") else { return json!({"tools": []}) };
    let mut room = MAX_TEXT_WEIGHT;
    let tool = |mut tool: Value| {
        let name = tool["name"].as_str().filter(|name| !name.is_empty())?.to_owned();
        let description = tool["description"].as_str().unwrap_or_default().to_owned();
        let schema =
            SCHEMA_FIELDS.iter().find_map(|place| schema(tool.get_mut(*place)?, &mut room));
        let schema = schema.unwrap_or_else(|| json!({"type": "object"}));
        let mut entry = json!({"name": name, "description": description, "inputSchema": schema});
        let hints = hints(&tool["annotations"]);
        if !hints.is_empty() {
            entry["annotations"] = hints.into();
        }
        Some(entry)
    };
    let tools: Vec<Value> = tools.into_iter().filter_map(tool).collect();
    let mut page = json!({"tools": tools});
    if let Some(cursor) = result.get("nextCursor").and_then(Value::as_str).filter(|c| !c.is_empty())
    {
        page["nextCursor"] = cursor.into();
    }
    page
}

/// Returns the hints of a tool about the effects of its calls.
fn hints(annotations: &Value) -> Map<String, Value> {
    let mut hints = Map::new();
    for hint in ["readOnlyHint", "destructiveHint"] {
        if annotations[hint].is_boolean() {
            hints.insert(hint.into(), annotations[hint].clone());
        }
    }
    let audience = annotations["audience"].as_array();
    if audience.is_some_and(|all| all.iter().any(|who| who == "user")) {
        hints.insert("destructiveHint".into(), true.into());
    }
    hints
}

fn called(result: &mut Map<String, Value>) -> Value {
    let failed = result.get("isError").is_some_and(is_true);
    let parts = match result.remove("content") {
        Some(Value::Array(parts)) => parts.into_iter().map(part).collect(),
        Some(Value::Null) | None if result.keys().all(|key| key == "isError") => Vec::new(),
        Some(Value::Null) | None => vec![text(&Value::Object(result.clone()))],
        Some(bare) => vec![text(&bare)],
    };
    json!({"content": parts, "isError": failed})
}

/// Converts a content part. Firmware wraps a picture as JSON in a string.
fn part(part: Value) -> Value {
    let inner = match &part["image"] {
        Value::String(inner) => parsed(inner, MAX_TEXT_WEIGHT).unwrap_or_default(),
        Value::Object(inner) => Value::Object(inner.clone()),
        _ => Value::Null,
    };
    let image = if inner.is_object() { &inner } else { &part };
    if let (Some(data), Some(mime_type)) = (image["data"].as_str(), image["mimeType"].as_str()) {
        let (mime_type, data) = bare_picture(mime_type, data);
        return json!({"type": "image", "data": data, "mimeType": mime_type});
    }
    match part["text"].as_str() {
        Some(words) => json!({"type": "text", "text": words}),
        None => text(&part),
    }
}

/// Returns the type and the data of a picture, which may be a data URL.
fn bare_picture<'a>(mut mime_type: &'a str, mut data: &'a str) -> (&'a str, &'a str) {
    while let Some((kind, bare)) = data_url(data) {
        mime_type = kind.unwrap_or(mime_type);
        data = bare;
    }
    (mime_type, data)
}

fn text(value: &Value) -> Value {
    let words = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    json!({"type": "text", "text": words})
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::RoleClient;
    use rmcp::service::RxJsonRpcMessage;

    use super::*;

    fn read(message: Value) -> String {
        let Some(repaired) = incoming(message, 10) else { return "nothing".into() };
        let text = repaired.to_string();
        serde_json::from_value::<RxJsonRpcMessage<RoleClient>>(repaired).expect("rmcp reads it");
        text
    }

    #[test]
    fn errors_get_their_code() {
        let error =
            read(json!({"jsonrpc": "2.0", "id": 12, "error": {"message": "Unknown tool: x"}}));
        assert_eq!(
            error,
            r#"{"error":{"code":-32603,"message":"Unknown tool: x"},"id":2,"jsonrpc":"2.0"}"#
        );
        let error = read(json!({"id": "12", "error": "no"}));
        assert_eq!(error, r#"{"error":{"code":-32603,"message":"no"},"id":2,"jsonrpc":"2.0"}"#);
    }

    #[test]
    fn an_error_has_its_reason_and_an_empty_error_is_ignored() {
        for error in [
            json!("locked"),
            json!({"code": -1, "data": "locked"}),
            json!({"detail": [{"message": "locked"}]}),
            json!({"message": "", "error": {"reason": "locked"}}),
        ] {
            let sent = incoming(json!({"id": 12, "error": error, "result": {}}), 10).unwrap();
            assert_eq!(sent["error"]["message"], "locked", "{error}");
        }
        for nothing in [json!(null), json!({}), json!(""), json!(false)] {
            let sent = incoming(json!({"id": 12, "error": nothing, "result": "said"}), 10).unwrap();
            assert_eq!(sent["result"]["content"][0]["text"], "said", "{nothing}");
        }
        assert!(incoming(json!({"id": 12, "error": {}}), 10).unwrap().get("error").is_some());
    }

    #[test]
    fn ids_failures_and_payloads_are_read_in_many_forms() {
        for (id, read) in [(json!(12.0), true), (json!("12"), true), (json!(12.5), false)] {
            let converted = incoming(json!({"id": id, "result": {}}), 10);
            assert_eq!(converted.is_some_and(|converted| converted["id"] == 2), read, "{id}");
        }
        for (failed, is_failed) in [
            (json!(true), true),
            (json!(1), true),
            (json!("true"), true),
            (json!(false), false),
            (json!(0), false),
            (json!("false"), false),
            (json!(null), false),
        ] {
            let converted = incoming(json!({"id": 12, "result": {"isError": failed}}), 10).unwrap();
            assert_eq!(converted["result"]["isError"], is_failed, "{failed}");
        }
        let one = json!({"id": 12, "result": {}});
        for (payload, count) in [
            (one.clone(), 1),
            (json!(one.to_string()), 1),
            (json!([one, one]), 2),
            (json!(json!([one, one]).to_string()), 2),
            (json!([]), 0),
        ] {
            assert_eq!(messages(payload.clone()), vec![one.clone(); count], "{payload}");
        }
        assert_eq!(messages(json!(r#"{"a":NaN}"#)), [json!({"a": null})]);
        assert_eq!(messages(json!("x")), [Value::Null]);
        let heavy = format!("[{}]", vec!["[1]"; 9_000].join(","));
        assert_eq!(messages(json!(heavy)), [Value::Null]);
    }

    #[test]
    fn only_an_answer_may_lack_its_id() {
        for (message, is_unaddressed_answer) in [
            (json!({"id": null, "error": {"message": "no"}}), true),
            (json!({"error": "no"}), true),
            (json!({"id": null, "result": null}), true),
            (json!({"id": 3, "error": "no"}), false),
            (json!({"method": "notifications/x"}), false),
            (json!({"method": "ping", "result": 1}), false),
            (json!({"id": null, "error": null}), false),
            (json!([]), false),
            (json!("x"), false),
        ] {
            assert_eq!(is_unaddressed(&message), is_unaddressed_answer, "{message}");
        }
    }

    #[test]
    fn schemas_and_pictures_are_read_in_other_forms() {
        let schema = json!({"type": "object", "properties": {"on": {"type": "boolean"}}});
        for tool in [
            json!({"name": "a", "input_schema": schema}),
            json!({"name": "a", "parameters": schema}),
            json!({"name": "a", "inputSchema": schema.to_string()}),
        ] {
            let page = incoming(json!({"id": 10, "result": {"tools": [tool]}}), 10).unwrap();
            assert_eq!(page["result"]["tools"][0]["inputSchema"], schema, "{tool}");
        }
        let picture = json!({"type": "image", "mimeType": "image/jpeg", "data": "data:image/png;base64,QUJD"});
        let converted = incoming(json!({"id": 10, "result": {"content": [picture]}}), 10).unwrap();
        let expected = json!({"type": "image", "mimeType": "image/png", "data": "QUJD"});
        assert_eq!(converted["result"]["content"][0], expected);
    }

    #[test]
    fn pictures_are_extracted_from_their_string() {
        let inner = json!({"type": "image", "mimeType": "image/png", "data": "QUJD"}).to_string();
        let message = json!({"id": 10, "result": {"content": [{"type": "image", "image": inner}], "isError": false}});
        let expected = r#"{"id":0,"jsonrpc":"2.0","result":{"content":[{"data":"QUJD","mimeType":"image/png","type":"image"}],"isError":false}}"#;
        assert_eq!(read(message), expected);
    }

    #[test]
    fn pages_end_at_an_empty_cursor_and_invalid_tools_are_dropped() {
        let page = json!({"id": 10, "result": {"nextCursor": "", "ttlMs": "x", "tools": [
            {"name": "a", "inputSchema": {"type": "object"}, "annotations": 7}, {"name": ""}, 3,
            {"name": "b", "annotations": {"audience": ["user"]}}, {"name": "c", "annotations": {"readOnlyHint": false, "destructiveHint": 1}}]}});
        let expected = r#"{"id":0,"jsonrpc":"2.0","result":{"tools":[{"description":"","inputSchema":{"type":"object"},"name":"a"},{"annotations":{"destructiveHint":true},"description":"","inputSchema":{"type":"object"},"name":"b"},{"annotations":{"readOnlyHint":false},"description":"","inputSchema":{"type":"object"},"name":"c"}]}}"#;
        assert_eq!(read(page), expected);
    }

    #[test]
    fn answers_to_an_earlier_hello_are_dropped() {
        assert_eq!(read(json!({"id": 9, "result": {}})), "nothing");
        assert_eq!(read(json!({"id": i64::MIN, "result": {}})), "nothing");
        assert_eq!(read(json!({"result": {}})), "nothing");
        assert_eq!(read(json!("x")), "nothing");
    }

    #[test]
    fn requests_to_devices_contain_what_they_need() {
        let vision = Vision { url: "http://v".into(), token: "t".into() };
        let introduction =
            Introduction { name: "a house".into(), protocol_version: "2025-06-18".into() };
        let vision = Some(Arc::new(move || vision.clone()) as Arc<_>);
        let extras = Extras { vision, user_tools: true, introduction };
        let sent = |message: Value| outgoing(message, 10, &extras);
        let initialize =
            json!({"id": 0, "method": "initialize", "params": {"capabilities": {}, "_meta": {}}});
        let expected = json!({"id": 10, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "clientInfo": {"name": "a house"},
            "capabilities": {"vision": {"url": "http://v", "token": "t"}}}});
        assert_eq!(sent(initialize), expected);
        let list = json!({"id": 1, "method": "tools/list"});
        let expected = json!({"id": 11, "method": "tools/list", "params": {"cursor": "", "withUserTools": true}});
        assert_eq!(sent(list), expected);
        let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 3}});
        let expected = json!({"method": "notifications/cancelled", "params": {"requestId": 13}});
        assert_eq!(sent(cancel), expected);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z{\"]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let key = prop_oneof![
                "content",
                "tools",
                "image",
                "text",
                "data",
                "mimeType",
                "name",
                "protocolVersion",
                "inputSchema",
                "nextCursor",
                "isError",
                "serverInfo"
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(key, inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn rmcp_can_read_any_repaired_answer(answer in any_json(), as_error in any::<bool>()) {
            let field = if as_error { "error" } else { "result" };
            prop_assert_ne!(read(json!({"id": 10, field: answer})), "nothing");
        }
    }
}
