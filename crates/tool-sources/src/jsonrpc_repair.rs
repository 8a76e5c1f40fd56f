//! Reader of the JSON-RPC messages of one tool server, over any transport. It repairs the mistakes
//! of real servers, so that every call ends, and one odd tool or block loses nothing else. Messages
//! that rmcp can read are unchanged. The results of the methods are repaired in [`results`]. Pure,
//! except for [`reading`].

mod reading;
mod results;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearken_base::paced_log::PacedLog;
use hearken_proto::json::{MAX_WEIGHT, is_nothing, weight_of_text};
use hearken_proto::jsonrpc::error_words;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

pub(super) use self::reading::MessageReader;

/// Error code for an error that has none (JSON-RPC: internal error).
const INTERNAL: i64 = -32_603;
/// Maximum number of messages in one frame; only MCP 2025-03-26 had batches.
pub(super) const MAX_BATCH: usize = 100;
/// Maximum weight of a message of a server that the operator has configured, in bytes of memory
/// when parsed: a list of a hundred tools weighs some 4 MiB.
pub(super) const MAX_WEIGHT_CONFIGURED: usize = 32 << 20;
/// Maximum number of requests whose method is remembered.
const MAX_WAITING: usize = 256;
/// Reason that a message cannot be used.
const UNREADABLE: &str = "cannot be read";

/// Outline of a message that is not parsed as a whole: the request that it answers.
#[derive(Deserialize)]
struct Outline {
    id: Option<RequestId>,
    method: Option<IgnoredAny>,
}

/// Reader of the messages of one connection; clones share its state.
#[derive(Debug, Clone)]
pub(super) struct Repair {
    /// Requests in progress, with their methods.
    waiting: Arc<Mutex<Vec<(RequestId, String)>>>,
    /// Maximum weight of a message, in bytes of memory when parsed.
    max_weight: usize,
    /// True if the messages are the answer to one request.
    is_of_one_request: bool,
    warnings: Arc<PacedLog>,
}

impl Default for Repair {
    /// Creates the reader for a peer that connects by itself.
    fn default() -> Self {
        Self {
            waiting: Arc::default(),
            max_weight: MAX_WEIGHT,
            is_of_one_request: false,
            warnings: Arc::default(),
        }
    }
}

impl Repair {
    /// Creates the reader for a server that the operator has configured.
    pub(super) fn of_configured() -> Self {
        Self { max_weight: MAX_WEIGHT_CONFIGURED, ..Self::default() }
    }

    /// Creates the reader for the answer of a configured server to one message, sent alone.
    pub(super) fn of_answer_to(sent: &ClientJsonRpcMessage) -> Self {
        let repair = Self { is_of_one_request: true, ..Self::of_configured() };
        repair.note(sent);
        repair
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(RequestId, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a sent message: the answer is read according to its request.
    pub(super) fn note(&self, sent: &ClientJsonRpcMessage) {
        let mut waiting = self.waiting();
        match sent {
            JsonRpcMessage::Request(request) => {
                if waiting.len() == MAX_WAITING {
                    waiting.remove(0);
                }
                waiting.push((request.id.clone(), request.request.method().to_owned()));
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification {
                    let cancelled = cancelled.params.request_id.as_ref();
                    waiting.retain(|(id, _)| Some(id) != cancelled);
                }
            }
            _ => {}
        }
    }

    /// Parses the messages of one text; empty if none is usable. If the text also contains
    /// something other than JSON, such as log output, only answers to pending requests are read:
    /// the log may quote other messages.
    pub(super) fn read(&self, text: &str) -> Vec<ServerJsonRpcMessage> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if let Err(error) = weight_of_text(text.as_bytes(), self.max_weight) {
            self.warnings.log(|left_out| {
                let bytes = text.len();
                tracing::warn!(%error, bytes, left_out, "cannot read a message of a tool server");
            });
            return self.unread(text, &error.to_string()).into_iter().collect();
        }
        let Some(found) = text::values(text, self.max_weight) else {
            tracing::debug!(bytes = text.len(), "ignored a message of a tool server: not JSON");
            return self.unread(text, UNREADABLE).into_iter().collect();
        };
        let each = found.values.into_iter().flat_map(|value| match value {
            Value::Array(batch) => batch,
            one => vec![one],
        });
        each.filter(|one| found.is_all || self.is_awaited(one))
            .take(MAX_BATCH)
            .filter_map(|one| self.message(one))
            .collect()
    }

    /// Fails the request that an unreadable message answers.
    pub(super) fn unread(&self, text: &str, why: &str) -> Option<ServerJsonRpcMessage> {
        let id = match serde_json::from_str(text) {
            Ok(Outline { method: Some(_), .. }) => return None,
            Ok(Outline { id, .. }) => serde_json::to_value(id?).ok()?,
            Err(_) => text::outer_id(text).filter(|id| place(&self.waiting(), id).is_some())?,
        };
        let (id, _) = self.answered(Some(&id), false)?;
        failed(&id, &format!("the answer {why}"))
    }

    fn message(&self, mut value: Value) -> Option<ServerJsonRpcMessage> {
        let fields = value.as_object_mut()?;
        fields.insert("jsonrpc".into(), "2.0".into());
        if fields.contains_key("method") {
            return parsed(&value);
        }
        let error = fields.remove("error").filter(|error| !error.is_null());
        // Some servers always write both fields.
        let has_result = fields.get("result").is_some_and(|result| !result.is_null());
        let error = error.filter(|error| !(has_result && is_nothing(error)));
        let (id, method) = self.answered(fields.get("id"), error.is_some())?;
        fields.insert("id".into(), serde_json::to_value(&id).ok()?);
        if let Some(error) = error {
            fields.remove("result");
            fields.insert("error".into(), proper(error));
        } else if let Some(result) = fields.remove("result")
            && let Some(result) = results::proper_result(&method, result)
        {
            fields.insert("result".into(), result);
        }
        // An unreadable response ends its call, which would otherwise wait until its timeout.
        parsed(&value).or_else(|| {
            tracing::debug!("a message of a tool server is not valid JSON-RPC");
            failed(&id, &format!("the answer {UNREADABLE}"))
        })
    }

    /// Returns the request that this id answers, and its method if known. An error without an id
    /// ends the only pending request, as does one with an unknown id in the answer to one request:
    /// Python's SDK gives errors outside a request the id `server-error`.
    fn answered(&self, id: Option<&Value>, is_error: bool) -> Option<(RequestId, String)> {
        let id = id.filter(|id| !id.is_null());
        let mut waiting = self.waiting();
        let answered = match id {
            Some(id) => {
                let only = is_error && self.is_of_one_request && waiting.len() == 1;
                place(&waiting, id).or(only.then_some(0))
            }
            None => (is_error && waiting.len() == 1).then_some(0),
        };
        match answered {
            Some(place) => Some(waiting.remove(place)),
            None => Some((serde_json::from_value(id?.clone()).ok()?, String::new())),
        }
    }

    /// Reports whether a message answers a pending request.
    fn is_awaited(&self, message: &Value) -> bool {
        let is_answer = message.get("method").is_none();
        is_answer && message.get("id").is_some_and(|id| place(&self.waiting(), id).is_some())
    }
}

/// Returns the index of the request with this id among the pending ones.
fn place(waiting: &[(RequestId, String)], id: &Value) -> Option<usize> {
    let id = written(id);
    waiting.iter().position(|(waiting, _)| waiting.to_string() == id)
}

/// Returns an id as text: some servers answer request 3 as "3" or 3.0.
fn written(id: &Value) -> String {
    let whole = |id: &Value| id.as_f64().filter(|id| id.fract() == 0.0);
    match id {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            whole(id).map_or_else(|| id.to_string(), |whole| format!("{whole:.0}"))
        }
        other => other.to_string(),
    }
}

/// Returns the error for a failed request.
fn failed(id: &RequestId, why: &str) -> Option<ServerJsonRpcMessage> {
    let error = json!({"code": INTERNAL, "message": why});
    parsed(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// Parses from text: rmcp's untagged and tagged types cannot hold whole numbers above 2^64 that were
/// already parsed to values.
fn parsed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(&value.to_string()).ok()
}

/// Completes an error as JSON-RPC requires: firmware omits the code, other servers everything
/// except the text.
fn proper(error: Value) -> Value {
    let message = error_words(&error).unwrap_or_else(|| "no reason is given".into());
    let Value::Object(mut error) = error else {
        return json!({"code": INTERNAL, "message": message});
    };
    let code = error.get("code").and_then(Value::as_i64);
    if code.is_none_or(|code| i32::try_from(code).is_err()) {
        error.insert("code".into(), INTERNAL.into());
    }
    error.insert("message".into(), message.into());
    Value::Object(error)
}

#[cfg(test)]
mod tests {
    use hearken_base::testkit::numbers;
    use proptest::prelude::*;
    use rmcp::model::{CallToolResult, InitializeResult, ListToolsResult, ServerNotification};

    use super::*;

    /// Parses a frame to messages in the format that rmcp writes.
    fn messages(text: &str) -> Vec<Value> {
        let read = Repair::default().read(text);
        read.iter().map(|m| serde_json::to_value(m).unwrap()).collect()
    }

    fn waiting_for(id: i64, method: &str) -> Repair {
        let repair = Repair::default();
        repair.waiting().push((RequestId::Number(id), method.into()));
        repair
    }

    /// Parses the answer to this method to the format that rmcp writes.
    fn answer(method: &str, fields: Value) -> Value {
        let repair = waiting_for(3, method);
        let mut message = fields;
        if message.get("id").is_none() {
            message["id"] = 3.into();
        }
        let read = repair.read(&message.to_string());
        assert_eq!((read.len(), repair.waiting().len()), (1, 0), "{message}");
        let read = serde_json::to_value(&read[0]).unwrap();
        assert_eq!(read["id"], 3, "{message}");
        read
    }

    #[test]
    fn one_odd_tool_loses_no_other() {
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
    fn one_odd_block_loses_no_other() {
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
    fn a_result_with_fields_of_other_methods_is_that_of_its_call() {
        let whole = json!({"type": "text", "text": "whole"});
        for field in ["tools", "prompts", "resources", "completion", "capabilities", "messages"] {
            let read = answer("tools/call", json!({"result": {"isError": null, field: []}}));
            let text = read["result"]["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.contains(field), "{read}");
            let read = answer("tools/call", json!({"result": {"content": [whole], field: []}}));
            assert_eq!(read["result"]["content"], json!([whole]), "{read}");
        }
        let read = answer("tools/call", json!({"result": {"isError": true}}));
        assert_eq!(read["result"], json!({"content": [], "isError": true}));
    }

    #[test]
    fn a_server_with_an_incomplete_description_is_accepted() {
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
    fn errors_reach_the_pending_call() {
        let said = json!({"content": [{"type": "text", "text": "said"}]});
        let read = answer("tools/call", json!({"error": null, "result": said}));
        assert_eq!(read["result"]["content"][0]["text"], "said");
        for nothing in [json!(null), json!({}), json!(""), json!(false), json!([])] {
            let read = answer("tools/call", json!({"error": nothing, "result": said}));
            assert_eq!(read["result"]["content"][0]["text"], "said", "{nothing}");
            let read = answer("tools/call", json!({"error": nothing}));
            assert!(read.get("error").is_some(), "{nothing}");
        }
        for fields in [
            json!({"id": null, "error": {"code": 1, "message": "locked"}}),
            json!({"id": "3", "error": {"message": "locked"}}),
            json!({"result": null, "error": {"code": 1, "message": "locked"}}),
            json!({"error": {"code": 1_i64 << 40, "message": "locked"}}),
            json!({"id": 3.0, "error": "locked"}),
            json!({"error": {"code": -1, "data": "locked"}}),
            json!({"error": {"detail": [{"loc": ["on"], "msg": "locked"}]}}),
            json!({"error": {"message": {"text": "locked"}}}),
            json!({"error": {"message": "", "data": {"reason": "locked"}}}),
        ] {
            assert_eq!(answer("tools/call", fields)["error"]["message"], "locked");
        }
        let waiting = [1, 2].map(|id| (RequestId::Number(id), "tools/call".to_owned()));
        let two = Repair::default();
        two.waiting().extend(waiting);
        assert!(two.read(r#"{"id":null,"error":{"message":"which?"}}"#).is_empty());
    }

    #[test]
    fn an_error_in_the_answer_to_one_request_ends_it_whatever_its_id() {
        let foreign = json!({"id": "server-error", "error": {"code": INTERNAL, "message": "boom"}});
        let call =
            json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "f"}});
        let call: ClientJsonRpcMessage = parsed(&call).unwrap();
        let alone = Repair::of_answer_to(&call);
        let read = serde_json::to_value(alone.read(&foreign.to_string())).unwrap();
        assert_eq!((&read[0]["id"], &read[0]["error"]["message"]), (&json!(3), &json!("boom")));
        // On a connection of many requests, it may be about another one.
        let shared = waiting_for(3, "tools/call");
        let read = serde_json::to_value(shared.read(&foreign.to_string())).unwrap();
        assert_eq!((&read[0]["id"], shared.waiting().len()), (&json!("server-error"), 1));
        // A result is that of the request with its id.
        let alone = Repair::of_answer_to(&call);
        let read = alone.read(&json!({"id": "other", "result": {"content": []}}).to_string());
        assert_eq!(serde_json::to_value(read).unwrap()[0]["id"], "other");
        assert_eq!(alone.waiting().len(), 1);
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
        let heavy = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":[{many}]}}}}"#);
        for (repair, limit) in [(Repair::default(), 4_096), (Repair::of_configured(), 32_768)] {
            let read = serde_json::to_value(repair.read(&heavy)).unwrap();
            let message = read[0]["error"]["message"].as_str().unwrap();
            let told = format!("the answer takes more than {limit} KiB");
            assert!(message.starts_with(&told), "{message}");
        }
    }

    #[test]
    fn an_answer_is_found_among_other_text() {
        let said = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[]}}"#;
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        for (text, count) in [
            (format!("calling tool... {said}"), 1),
            (format!("\u{1b}[32m{said}\u{1b}[0m"), 1),
            (format!("{said}\0"), 1),
            (format!("{note}{said}"), 2),
            (format!("{note}\n{said}\n"), 2),
            (format!("data: {said}\n\ndata: [DONE]"), 1),
            // A message quoted in a log was not sent.
            (format!("sent {note}"), 0),
            (r#"got {"jsonrpc":"2.0","id":3,"method":"tools/call"}"#.into(), 0),
            (r#"debug {"id":4,"result":{}}"#.into(), 0),
        ] {
            assert_eq!(waiting_for(3, "tools/call").read(&text).len(), count, "{text}");
        }
    }

    #[test]
    fn a_message_that_cannot_be_read_ends_its_call() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
        for (text, is_ended) in [
            (r#"{"jsonrpc":"2.0","id":3,"result":{"content":["#.to_owned(), true),
            (format!(r#"{{"jsonrpc":"2.0","id":3,"result":{deep}}}"#), true),
            (r#"{"id":"3","result":x}"#.into(), true),
            (r#"{"id":4,"result":x}"#.into(), false),
            (r#"{"id":3,"method":"ping","params":x}"#.into(), false),
        ] {
            let repair = waiting_for(3, "tools/call");
            let read = repair.read(&text);
            assert_eq!(
                (read.len(), repair.waiting().is_empty()),
                (is_ended.into(), is_ended),
                "{text}"
            );
        }
    }

    #[test]
    fn nearly_valid_json_is_read() {
        for (written, told) in [(r"said \ud83d", "said \u{fffd}"), ("said\t", "said\t")] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":3,"result":{{"content":[{{"type":"text","text":"{written}"}}]}}}}"#
            );
            assert_eq!(messages(&text)[0]["result"]["content"][0]["text"], told);
        }
        let text =
            r#"{"jsonrpc":"2.0","id":3,"result":{"content":[],"structuredContent":{"a":NaN}}}"#;
        assert_eq!(messages(text)[0]["result"]["structuredContent"], json!({"a": null}));
    }

    #[test]
    fn a_cancelled_request_is_no_longer_pending() {
        let repair = waiting_for(3, "tools/call");
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
        repair.note(&parsed(&cancelled).unwrap());
        assert!(repair.waiting().is_empty());
    }

    #[test]
    fn texts_other_than_messages_are_dropped() {
        for text in ["", "x", "1", "null", "[]", "[1]", "{}", r#"{"id":null,"answer":1}"#] {
            assert_eq!(messages(text), Vec::<Value>::new(), "{text}");
        }
    }

    #[test]
    fn numbers_are_unchanged() {
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
    fn floats_of_the_protocol_are_read_in_every_notation() {
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
        fn every_answer_ends_its_request_with_a_result_of_its_method_or_an_error(
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
