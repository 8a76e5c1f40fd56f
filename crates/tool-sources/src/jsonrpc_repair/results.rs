//! Repair of a tool server's results, so that rmcp can read them. Not for the messages around them.
//! Pure.

use hearken_dialogue::tools::definition::{SCHEMA_FIELDS, data_url};
use hearken_proto::json::{is_true, weight_of_text};
use rmcp::model::{CallToolResult, ContentBlock, InitializeResult, Tool};
use serde_json::{Map, Value, json};

use super::parsed;

/// Version of a server that does not announce its own: the newest one with batches and without its
/// own rules for results.
const VERSION: &str = "2025-03-26";
/// Memory limit for the schemas of a page that are written as text, in bytes: the weight of the
/// message does not include them.
const MAX_SCHEMAS_IN_TEXT: usize = 1 << 20;
/// Fields with what a call returned.
const CONTENT_FIELDS: [&str; 2] = ["content", "structuredContent"];

/// Returns the result of this method as rmcp reads it; none if it does not fit the method.
pub(super) fn proper_result(method: &str, result: Value) -> Option<Value> {
    match method {
        "initialize" if parsed::<InitializeResult>(&result).is_none() => initialised(result),
        "tools/list" => listed(result),
        // MCP 2026-07-28 has results of other types: the server requests something first.
        "tools/call" if result.get("resultType").is_some_and(|kind| kind != "complete") => {
            Some(result)
        }
        "tools/call" => {
            let result = usual(result);
            Some(if is_readable(&result) { only_of_call(result) } else { called(result) })
        }
        _ => Some(result),
    }
}

/// Reports whether rmcp can read the result of a call, and finds in it what was returned.
fn is_readable(result: &Value) -> bool {
    let has_content = CONTENT_FIELDS.iter().any(|field| result.get(*field).is_some());
    has_content && parsed::<CallToolResult>(result).is_some()
}

/// Removes the fields that are not of a call's result: rmcp takes one with other fields, such as
/// `tools`, for that of another method.
fn only_of_call(mut result: Value) -> Value {
    let is_of_call = |field: &str| {
        CONTENT_FIELDS.contains(&field) || ["isError", "_meta", "resultType"].contains(&field)
    };
    if let Some(fields) = result.as_object_mut() {
        fields.retain(|field, _| is_of_call(field));
    }
    result
}

fn initialised(result: Value) -> Option<Value> {
    let Value::Object(mut result) = result else { return None };
    if !["protocolVersion", "capabilities", "serverInfo"]
        .iter()
        .any(|field| result.contains_key(*field))
    {
        return None;
    }
    let is_told = |field: &str| {
        let info = result.get("serverInfo").and_then(|info| info.get(field));
        info.and_then(Value::as_str).unwrap_or("unknown").to_owned()
    };
    let info = json!({"name": is_told("name"), "version": is_told("version")});
    result.insert("serverInfo".into(), info);
    let tools = result.get("capabilities").and_then(|told| told.get("tools"));
    let tools = tools.filter(|tools| tools.is_object()).cloned();
    let tools = parsed::<rmcp::model::ToolsCapability>(&tools.unwrap_or_default());
    result.insert("capabilities".into(), json!({"tools": tools.unwrap_or_default()}));
    if !result.get("protocolVersion").is_some_and(Value::is_string) {
        result.insert("protocolVersion".into(), VERSION.into());
    }
    result.retain(|field, value| match field.as_str() {
        "instructions" => value.is_string(),
        field => ["serverInfo", "capabilities", "protocolVersion"].contains(&field),
    });
    Some(Value::Object(result))
}

/// Returns only tools and cursor: otherwise rmcp would cache a list for the time that the server
/// states. A tool that cannot be read is reduced to its name, description and schema; one without a
/// name is dropped.
fn listed(result: Value) -> Option<Value> {
    let Value::Object(mut result) = result else { return None };
    let Some(Value::Array(tools)) = result.remove("tools") else { return None };
    let mut room = MAX_SCHEMAS_IN_TEXT;
    let tools: Vec<Value> = tools.into_iter().filter_map(|one| tool(one, &mut room)).collect();
    let mut page = json!({"tools": tools});
    if let Some(cursor) = result.get("nextCursor").and_then(Value::as_str) {
        page["nextCursor"] = cursor.into();
    }
    Some(page)
}

fn tool(mut tool: Value, room: &mut usize) -> Option<Value> {
    place_schema(&mut tool, room);
    if parsed::<Tool>(&tool).is_some() {
        return Some(tool).filter(|tool| tool["name"] != "");
    }
    let name = tool["name"].as_str().filter(|name| !name.is_empty())?;
    let schema = Some(&tool["inputSchema"]).filter(|schema| schema.is_object()).cloned();
    let mut kept = json!({
        "name": name,
        "inputSchema": schema.unwrap_or_else(|| json!({"type": "object"})),
    });
    if let Some(description) = tool["description"].as_str() {
        kept["description"] = description.into();
    }
    let hints: Map<String, Value> = tool["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, hint)| name.ends_with("Hint") && hint.is_boolean())
        .map(|(name, hint)| (name.clone(), hint.clone()))
        .collect();
    if !hints.is_empty() {
        kept["annotations"] = Value::Object(hints);
    }
    Some(kept)
}

/// Moves the schema of a tool to its field: some servers name it as model APIs do, or write it as
/// text.
fn place_schema(tool: &mut Value, room: &mut usize) {
    let Some(fields) = tool.as_object_mut() else { return };
    if fields.get("inputSchema").is_some_and(Value::is_object) {
        return;
    }
    let schema = SCHEMA_FIELDS.iter().find_map(|name| match fields.get(*name)? {
        Value::String(text) => schema_in(text, room),
        other => Some(other).filter(|other| other.is_object()).cloned(),
    });
    if let Some(schema) = schema {
        fields.insert("inputSchema".into(), schema);
    }
}

fn schema_in(text: &str, room: &mut usize) -> Option<Value> {
    let weight = weight_of_text(text.as_bytes(), *room).ok()?;
    *room = room.saturating_sub(weight);
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Rewrites a result with the names and forms of the protocol.
fn usual(mut result: Value) -> Value {
    let Some(fields) = result.as_object_mut() else { return result };
    let failed = fields.remove("is_error");
    let failed = fields.remove("isError").or(failed);
    if let Some(failed) = failed {
        fields.insert("isError".into(), is_true(&failed).into());
    }
    if let Some(Value::Array(blocks)) = fields.get_mut("content") {
        blocks.iter_mut().for_each(bare_picture);
    }
    result
}

/// Splits a picture in the form of a data URL into its data and type.
fn bare_picture(block: &mut Value) {
    let Some(fields) = block.as_object_mut() else { return };
    if fields.get("type").is_none_or(|kind| kind != "image") {
        return;
    }
    let Some((kind, data)) = fields.get("data").and_then(Value::as_str).and_then(data_url) else {
        return;
    };
    let kind = kind.map(str::to_owned);
    let data = data.to_owned();
    fields.insert("data".into(), data.into());
    if let Some(kind) = kind {
        fields.insert("mimeType".into(), kind.into());
    }
}

/// Returns the result of a call. A block that cannot be read becomes text, and so does an invalid
/// result.
fn called(result: Value) -> Value {
    let mut result = match result {
        Value::Object(result) => result,
        Value::Null => return json!({"content": []}),
        bare => return json!({"content": [text(&bare)]}),
    };
    let failed = result.remove("isError").is_some_and(|failed| failed == true);
    let structure = result.remove("structuredContent").filter(Value::is_object);
    let blocks = match result.remove("content") {
        Some(Value::Array(blocks)) => blocks.into_iter().map(block).collect(),
        Some(Value::Null) | None if structure.is_some() || result.is_empty() => Vec::new(),
        Some(Value::Null) | None => vec![text(&Value::Object(result))],
        Some(bare) => vec![block(bare)],
    };
    let mut proper = json!({"content": blocks, "isError": failed});
    if let Some(structure) = structure {
        proper["structuredContent"] = structure;
    }
    proper
}

fn block(block: Value) -> Value {
    if parsed::<ContentBlock>(&block).is_some() { block } else { text(&block) }
}

fn text(block: &Value) -> Value {
    let words = block.as_str().or_else(|| block["text"].as_str());
    let words = words.map_or_else(|| block.to_string(), str::to_owned);
    json!({"type": "text", "text": words})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_found_under_other_names_and_in_text() {
        let schema = json!({"type": "object", "properties": {"level": {"type": "integer"}}});
        let text = schema.to_string();
        for (fields, found) in [
            (json!({"inputSchema": schema}), &schema),
            (json!({"input_schema": schema}), &schema),
            (json!({"parameters": schema}), &schema),
            (json!({"inputSchema": text}), &schema),
            (json!({"inputSchema": null, "parameters": text}), &schema),
            (json!({"inputSchema": {}, "parameters": schema}), &json!({})),
            (json!({"inputSchema": "no schema"}), &json!({"type": "object"})),
            (json!({"parameters": [1]}), &json!({"type": "object"})),
        ] {
            let mut one = fields.clone();
            one["name"] = "t".into();
            let page = listed(json!({"tools": [one]})).unwrap();
            assert_eq!(page["tools"][0]["inputSchema"], *found, "{fields}");
        }
        let long = format!(r#"{{"enum":[{}]}}"#, vec!["1"; 9_000].join(","));
        let tools = vec![json!({"name": "t", "inputSchema": long}); 9];
        let page = listed(json!({"tools": tools})).unwrap();
        let read = |tool: &&Value| tool["inputSchema"].get("enum").is_some();
        let read = page["tools"].as_array().unwrap().iter().filter(read).count();
        assert!((1..9).contains(&read), "{read}");
    }

    #[test]
    fn failures_and_pictures_are_recognised_in_every_form() {
        for (failed, is_failed) in [
            (json!(true), true),
            (json!(1), true),
            (json!("true"), true),
            (json!("disk full"), true),
            (json!(false), false),
            (json!(0), false),
            (json!("False"), false),
            (json!(""), false),
            (json!(null), false),
        ] {
            for name in ["isError", "is_error"] {
                let result = json!({"content": [], name: failed});
                let result = proper_result("tools/call", result).unwrap();
                assert_eq!(result["isError"], is_failed, "{name} {failed}");
            }
        }
        for (data, mime_type, bare) in [
            ("data:image/png;base64,AAAA", "image/png", "AAAA"),
            ("data:image/webp;a=b;base64,AAAA", "image/webp", "AAAA"),
            ("data:;base64,AAAA", "image/jpeg", "AAAA"),
            ("AAAA", "image/jpeg", "AAAA"),
            ("data:text", "image/jpeg", "data:text"),
        ] {
            let block = json!({"type": "image", "data": data, "mimeType": "image/jpeg"});
            let result = proper_result("tools/call", json!({"content": [block]})).unwrap();
            let picture = &result["content"][0];
            assert_eq!((&picture["mimeType"], &picture["data"]), (&json!(mime_type), &json!(bare)));
        }
        let words = json!({"type": "text", "text": "data:image/png;base64,AAAA"});
        let result = json!({"content": [words]});
        assert_eq!(proper_result("tools/call", result.clone()), Some(result));
    }
}
