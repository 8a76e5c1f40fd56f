//! Reader of the JSON-RPC messages of one tool server, over whatever transport: it repairs the mistakes of real servers, so that
//! every call ends, and one odd tool or one odd block costs nothing else. What rmcp reads is not touched. Pure.

use hearken_proto::json::weight_of_text;
use rmcp::model::{
    CallToolResult, ClientJsonRpcMessage, ContentBlock, InitializeResult, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage, Tool,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Error code for an error that has none (JSON-RPC: internal error).
const INTERNAL: i64 = -32_603;
/// Maximum number of messages in one frame; only MCP 2025-03-26 had batches.
pub(super) const MAX_BATCH: usize = 100;
/// Largest weight of a message, in bytes of memory when parsed: a list of a hundred tools weighs some
/// 4 MiB.
const MAX_WEIGHT: usize = 32 << 20;
/// Most requests of which is known what was asked.
const MAX_WAITING: usize = 256;
/// Version of a server that does not tell its own: the newest that has batches and no rules of its own for results.
const VERSION: &str = "2025-03-26";

/// What is read of a message that is too heavy: which request it answers.
#[derive(Deserialize)]
struct Answer {
    id: Option<RequestId>,
}

/// Reader of the messages of one connection.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Requests that wait for an answer, with their methods.
    waiting: Vec<(RequestId, String)>,
}

impl Repair {
    /// Notes what is sent: an answer is read as one to its request.
    pub(super) fn note(&mut self, sent: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = sent else { return };
        if self.waiting.len() == MAX_WAITING {
            self.waiting.remove(0);
        }
        self.waiting.push((request.id.clone(), request.request.method().to_owned()));
    }

    /// Parses the messages of one text; empty if none is usable.
    pub(super) fn read(&mut self, text: &str) -> Vec<ServerJsonRpcMessage> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if let Err(error) = weight_of_text(text.as_bytes(), MAX_WEIGHT) {
            tracing::warn!(%error, bytes = text.len(), "a message of a tool server is not read");
            return self.unread(text, &error.to_string()).into_iter().collect();
        }
        match serde_json::from_str(text) {
            Ok(Value::Array(batch)) => {
                batch.into_iter().take(MAX_BATCH).filter_map(|one| self.message(one)).collect()
            }
            Ok(value) => self.message(value).into_iter().collect(),
            Err(_) => {
                tracing::debug!(bytes = text.len(), "ignored a message of a tool server: not JSON");
                Vec::new()
            }
        }
    }

    /// Ends the request that a message answers which is not read.
    fn unread(&mut self, text: &str, why: &str) -> Option<ServerJsonRpcMessage> {
        let Answer { id } = serde_json::from_str(text).ok()?;
        let id = serde_json::to_value(id?).ok()?;
        let (id, _) = self.answered(Some(&id), true)?;
        let error = json!({"code": INTERNAL, "message": format!("the answer {why}")});
        parsed(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }

    fn message(&mut self, mut value: Value) -> Option<ServerJsonRpcMessage> {
        let fields = value.as_object_mut()?;
        fields.insert("jsonrpc".into(), "2.0".into());
        if fields.contains_key("method") {
            return parsed(&value);
        }
        let error = fields.remove("error").filter(|error| !error.is_null());
        let (id, method) = self.answered(fields.get("id"), error.is_some())?;
        fields.insert("id".into(), serde_json::to_value(&id).ok()?);
        if let Some(error) = error {
            fields.remove("result");
            fields.insert("error".into(), proper(error));
        } else if let Some(result) = fields.remove("result").and_then(|r| proper_result(&method, r))
        {
            fields.insert("result".into(), result);
        }
        // An unreadable response ends its call, which would otherwise wait in vain.
        parsed(&value).or_else(|| {
            tracing::debug!("a message of a tool server is not valid JSON-RPC");
            let error = json!({"code": INTERNAL, "message": "the answer cannot be read"});
            parsed(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
        })
    }

    /// Returns the request that this id answers, and its method where that is known. An error without an id ends the only
    /// request that waits.
    fn answered(&mut self, id: Option<&Value>, is_error: bool) -> Option<(RequestId, String)> {
        let id = id.filter(|id| !id.is_null());
        let place = match id {
            Some(id) => self.waiting.iter().position(|(waiting, _)| is_same(waiting, id)),
            None => (is_error && self.waiting.len() == 1).then_some(0),
        };
        match place {
            Some(place) => Some(self.waiting.remove(place)),
            None => Some((serde_json::from_value(id?.clone()).ok()?, String::new())),
        }
    }
}

/// Some servers answer the request 3 as "3".
fn is_same(waiting: &RequestId, id: &Value) -> bool {
    let written = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    serde_json::to_value(waiting).is_ok_and(|waiting| written(&waiting) == written(id))
}

/// Parses from text: rmcp's untagged and tagged types cannot hold whole numbers above 2^64 that were parsed to values before.
fn parsed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(&value.to_string()).ok()
}

/// Completes an error as JSON-RPC requires: firmware leaves out the code, others everything except
/// the text.
fn proper(error: Value) -> Value {
    const NO_REASON: &str = "no reason is given";
    let Value::Object(mut error) = error else {
        return json!({"code": INTERNAL, "message": error.as_str().unwrap_or(NO_REASON)});
    };
    let code = error.get("code").and_then(Value::as_i64);
    if code.is_none_or(|code| i32::try_from(code).is_err()) {
        error.insert("code".into(), INTERNAL.into());
    }
    if !error.get("message").is_some_and(Value::is_string) {
        error.insert("message".into(), NO_REASON.into());
    }
    Value::Object(error)
}

/// Returns the result of this method as rmcp reads it; none if it is not one to what was asked.
fn proper_result(method: &str, result: Value) -> Option<Value> {
    match method {
        "initialize" if parsed::<InitializeResult>(&result).is_none() => initialised(result),
        "tools/list" => listed(result),
        // MCP 2026-07-28 has results of other types: the server asks for something first.
        "tools/call" if result.get("resultType").is_some_and(|kind| kind != "complete") => {
            Some(result)
        }
        "tools/call" if parsed::<CallToolResult>(&result).is_none() => Some(called(result)),
        _ => Some(result),
    }
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

/// Only tools and cursor: rmcp would keep a list for as long as it says. A tool that cannot be read keeps its name,
/// description and schema; one without a name is left out.
fn listed(result: Value) -> Option<Value> {
    let Value::Object(mut result) = result else { return None };
    let Some(Value::Array(tools)) = result.remove("tools") else { return None };
    let tools: Vec<Value> = tools.into_iter().filter_map(tool).collect();
    let mut page = json!({"tools": tools});
    if let Some(cursor) = result.get("nextCursor").and_then(Value::as_str) {
        page["nextCursor"] = cursor.into();
    }
    Some(page)
}

fn tool(tool: Value) -> Option<Value> {
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

/// A block that cannot be read is told as text, and so is a result that is none.
fn called(result: Value) -> Value {
    let mut result = match result {
        Value::Object(result) => result,
        Value::Null => return json!({"content": []}),
        bare => return json!({"content": [text(&bare)]}),
    };
    let failed = result.remove("isError");
    let failed = failed.is_some_and(|failed| failed == true || failed == "true");
    let structure = result.remove("structuredContent").filter(Value::is_object);
    let blocks = match result.remove("content") {
        Some(Value::Array(blocks)) => blocks.into_iter().map(block).collect(),
        Some(Value::Null) | None if structure.is_some() => Vec::new(),
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
    use hearken_base::testkit::numbers;
    use proptest::prelude::*;
    use rmcp::model::{ListToolsResult, ServerNotification};

    use super::*;

    /// Parses a frame to messages in the format that rmcp writes.
    fn messages(text: &str) -> Vec<Value> {
        let read = Repair::default().read(text);
        read.iter().map(|m| serde_json::to_value(m).unwrap()).collect()
    }

    /// Parses the answer to this method to the format that rmcp writes.
    fn answer(method: &str, fields: Value) -> Value {
        let mut repair = Repair::default();
        repair.waiting.push((RequestId::Number(3), method.into()));
        let mut message = fields;
        if message.get("id").is_none() {
            message["id"] = 3.into();
        }
        let read = repair.read(&message.to_string());
        assert_eq!((read.len(), repair.waiting.len()), (1, 0), "{message}");
        let read = serde_json::to_value(&read[0]).unwrap();
        assert_eq!(read["id"], 3, "{message}");
        read
    }

    #[test]
    fn one_odd_tool_costs_no_other() {
        let odd = [
            json!({"name": "a"}),
            json!({"name": "b", "inputSchema": {"type": "object"}, "outputSchema": "text"}),
            json!({"name": "c", "inputSchema": {}, "annotations": {"destructiveHint": true, "readOnlyHint": "no"}}),
            json!({"inputSchema": {"type": "object"}}),
            json!({"name": "", "inputSchema": {"type": "object"}}),
            json!(7),
        ];
        let page = answer("tools/list", json!({"result": {"tools": odd, "nextCursor": "2"}}));
        let named = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        let tools = page["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.iter().map(named).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(tools[2]["annotations"], json!({"destructiveHint": true}));
        assert_eq!(page["result"]["nextCursor"], "2");
    }

    #[test]
    fn one_odd_block_costs_no_other() {
        for (block, told) in [
            (json!({"type": "text", "text": "hello", "annotations": {"audience": 7}}), "hello"),
            (json!({"type": "poem", "text": "hello"}), "hello"),
            (json!({"type": "json", "json": {"celsius": 21}}), "21"),
            (json!({"type": "resource_link", "uri": "https://example.com/a"}), "example.com"),
            (json!("hello"), "hello"),
            (json!(21), "21"),
        ] {
            let whole = json!({"type": "text", "text": "whole"});
            let result = json!({"content": [whole, block]});
            let read = answer("tools/call", json!({"result": result}))["result"].clone();
            assert_eq!(read["content"][0]["text"], "whole");
            let text = read["content"][1]["text"].as_str().unwrap();
            assert!(text.contains(told), "{block}: {text}");
        }
        let asks =
            json!({"resultType": "input_required", "inputRequests": {}, "requestState": "s"});
        assert_eq!(answer("tools/call", json!({"result": asks}))["result"], asks);
        for (result, told) in [
            (json!("said"), "said"),
            (json!({"content": "said"}), "said"),
            (json!({"temperature": 21}), "21"),
        ] {
            let read = answer("tools/call", json!({"result": result}));
            assert!(
                read["result"]["content"][0]["text"].as_str().unwrap().contains(told),
                "{read}"
            );
        }
    }

    #[test]
    fn a_server_that_says_little_of_itself_is_taken_as_it_is() {
        for result in [
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}),
            json!({"protocolVersion": "2025-06-18", "capabilities": null, "serverInfo": {"name": "s"}}),
            json!({"capabilities": {"tools": {"listChanged": "yes"}, "logging": 3}}),
        ] {
            let read = answer("initialize", json!({"result": result}));
            assert!(read["result"]["capabilities"].is_object(), "{read}");
            assert!(read["result"]["protocolVersion"].is_string(), "{read}");
        }
        for (method, result) in [
            ("initialize", json!({})),
            ("initialize", json!(7)),
            ("tools/list", json!({})),
            ("tools/list", json!(null)),
        ] {
            let read = answer(method, json!({"result": result}));
            assert_eq!(read["error"]["message"], "the answer cannot be read", "{method} {result}");
        }
    }

    #[test]
    fn errors_reach_the_call_that_waits() {
        let said = json!({"content": [{"type": "text", "text": "said"}]});
        let read = answer("tools/call", json!({"error": null, "result": said}));
        assert_eq!(read["result"]["content"][0]["text"], "said");
        for fields in [
            json!({"id": null, "error": {"code": 1, "message": "locked"}}),
            json!({"id": "3", "error": {"message": "locked"}}),
            json!({"result": null, "error": {"code": 1, "message": "locked"}}),
            json!({"error": {"code": 1_i64 << 40, "message": "locked"}}),
        ] {
            assert_eq!(answer("tools/call", fields)["error"]["message"], "locked");
        }
        let waiting = [1, 2].map(|id| (RequestId::Number(id), "tools/call".to_owned()));
        let mut two = Repair { waiting: waiting.into() };
        assert!(two.read(r#"{"id":null,"error":{"message":"which?"}}"#).is_empty());
    }

    #[test]
    fn proper_messages_pass_unchanged() {
        let text = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[],"isError":true}}"#;
        assert_eq!(messages(&format!("{text}\n")), [serde_json::from_str::<Value>(text).unwrap()]);
        let note = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        assert_eq!(messages(note).len(), 1);
        assert_eq!(messages(&format!("[{note},{text}]")).len(), 2);
    }

    #[test]
    fn an_error_always_reaches_its_call() {
        for (error, message) in [
            (r#"{"message":"Unknown tool"}"#, "Unknown tool"),
            (r#"{"code":"E1","message":"x"}"#, "x"),
            ("{}", "no reason is given"),
            (r#""boom""#, "boom"),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
            let error = json!({"code": INTERNAL, "message": message});
            assert_eq!(
                messages(&text),
                [json!({"jsonrpc": "2.0", "id": 1, "error": error})],
                "{text}"
            );
        }
        let unread = messages(r#"{"id":7,"answer":1}"#);
        assert_eq!(unread[0]["id"], 7);
        assert_eq!(unread[0]["error"]["message"], "the answer cannot be read");
        let many = vec![r#"{"a":0}"#; 40_000].join(",");
        let heavy = messages(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":[{many}]}}}}"#));
        let message = heavy[0]["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("the answer takes more than 32768 KiB"), "{message}");
    }

    #[test]
    fn what_is_no_message_is_dropped() {
        for text in ["", "x", "1", "null", "[]", "[1]", "{}", r#"{"id":null,"answer":1}"#] {
            assert_eq!(messages(text), Vec::<Value>::new(), "{text}");
        }
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        let written = numbers::written();
        let text = |list: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"result":{{"content":[],"structuredContent":{{"list":{list}}}}}}}"#
            )
        };
        let read = messages(&text(&numbers::array(&written)));
        let list = read[0]["result"]["structuredContent"]["list"].to_string();
        assert_eq!(list, numbers::array_kept(&written));
        // The same deserialisation as for HTTP in rmcp.
        let message: ServerJsonRpcMessage =
            serde_json::from_str(&text(&numbers::array(&written))).unwrap();
        assert_eq!(serde_json::to_value(message).unwrap(), read[0]);
    }

    #[test]
    fn floats_of_the_protocol_itself_are_read_however_they_are_written() {
        for written in ["0.5", "0.50", "5e-1", "1", "1.0"] {
            let note = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":1,"progress":{written},"total":{written}}}}}"#
            );
            let message: ServerJsonRpcMessage = serde_json::from_str(&note).unwrap();
            let ServerJsonRpcMessage::Notification(told) = message else { panic!("{note}") };
            let ServerNotification::ProgressNotification(told) = told.notification else {
                panic!("{note}")
            };
            assert_eq!(told.params.total, Some(told.params.progress));
            assert_eq!(messages(&note).len(), 1, "{note}");
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":3,"result":{{"content":[{{"type":"text","text":"a","annotations":{{"priority":{written}}}}}]}}}}"#
            );
            assert!(
                messages(&answer)[0]["result"]["content"][0]["annotations"]["priority"].is_number()
            );
        }
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
                "type",
                "text",
                "name",
                "protocolVersion",
                "capabilities",
                "inputSchema",
                "annotations",
                "nextCursor",
                "isError",
                "structuredContent",
                "serverInfo"
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(key, inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_server_answers_its_request_ends_with_what_was_asked_for(
            result in any_json(),
            method in prop_oneof!["initialize", "tools/list", "tools/call"],
        ) {
            let read = answer(&method, json!({"result": result}));
            if let Some(result) = read.get("result") {
                let is_read = match &*method {
                    "initialize" => parsed::<InitializeResult>(result).is_some(),
                    "tools/list" => parsed::<ListToolsResult>(result).is_some(),
                    _ => parsed::<CallToolResult>(result).is_some(),
                };
                prop_assert!(is_read, "{}", read);
            }
        }

        #[test]
        fn nothing_panics(text in ".*", id in any::<i32>(), error in ".*") {
            let read = |text: &str| Repair::default().read(text);
            read(&text);
            let read = read(&json!({"id": id, "error": error}).to_string());
            prop_assert_eq!(read.len(), 1);
        }
    }
}
