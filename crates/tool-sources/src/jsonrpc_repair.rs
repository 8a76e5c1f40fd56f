//! Parser of JSON-RPC text frames of tool clients to rmcp's messages. It repairs the mistakes of
//! real clients, to make sure that every call ends. Pure.

use rmcp::model::ServerJsonRpcMessage;
use serde_json::{Value, json};

/// Error code for an error that has none (JSON-RPC: internal error).
const INTERNAL: i64 = -32_603;
/// Maximum number of messages in one frame; only MCP 2025-03-26 had batches.
pub(super) const MAX_BATCH: usize = 100;

/// Parses the messages of one frame; empty if none is usable.
pub(super) fn read(text: &str) -> Vec<ServerJsonRpcMessage> {
    match serde_json::from_str(text.trim()) {
        Ok(Value::Array(batch)) => batch.into_iter().take(MAX_BATCH).filter_map(message).collect(),
        Ok(value) => message(value).into_iter().collect(),
        Err(_) => {
            tracing::debug!(bytes = text.len(), "ignored a frame of a tool client: not JSON");
            Vec::new()
        }
    }
}

fn message(mut value: Value) -> Option<ServerJsonRpcMessage> {
    let fields = value.as_object_mut()?;
    fields.insert("jsonrpc".into(), "2.0".into());
    if let Some(error) = fields.remove("error").filter(|e| !e.is_null()) {
        fields.insert("error".into(), proper(error));
    }
    let answers = !fields.contains_key("method");
    let id = fields.get("id").filter(|id| answers && !id.is_null()).cloned();
    // Parsed from text: rmcp's untagged types cannot hold whole numbers above 2^64 that were parsed
    // to values before.
    if let Ok(message) = serde_json::from_str(&value.to_string()) {
        return Some(message);
    }
    // An unreadable response ends its call, which would otherwise wait in vain.
    tracing::debug!(
        answer = id.is_some(),
        "ignored a message of a tool client: not valid JSON-RPC"
    );
    let error = json!({"code": INTERNAL, "message": "the answer cannot be read"});
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id?, "error": error})).ok()
}

/// Completes an error as JSON-RPC requires: firmware leaves out the code, others everything except
/// the text.
fn proper(error: Value) -> Value {
    const NO_REASON: &str = "no reason is given";
    let Value::Object(mut error) = error else {
        return json!({"code": INTERNAL, "message": error.as_str().unwrap_or(NO_REASON)});
    };
    if !error.get("code").is_some_and(Value::is_i64) {
        error.insert("code".into(), INTERNAL.into());
    }
    if !error.get("message").is_some_and(Value::is_string) {
        error.insert("message".into(), NO_REASON.into());
    }
    Value::Object(error)
}

#[cfg(test)]
mod tests {
    use hearken_base::testkit::numbers;
    use proptest::prelude::*;
    use rmcp::model::ServerNotification;

    use super::*;

    /// Parses a frame to messages in the format that rmcp writes.
    fn messages(text: &str) -> Vec<Value> {
        read(text).iter().map(|m| serde_json::to_value(m).unwrap()).collect()
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
            assert_eq!(read(&note).len(), 1, "{note}");
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":3,"result":{{"content":[{{"type":"text","text":"a","annotations":{{"priority":{written}}}}}]}}}}"#
            );
            assert!(
                messages(&answer)[0]["result"]["content"][0]["annotations"]["priority"].is_number()
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".*", id in any::<i32>(), error in ".*") {
            read(&text);
            let read = read(&json!({"id": id, "error": error}).to_string());
            prop_assert_eq!(read.len(), 1);
        }
    }
}
