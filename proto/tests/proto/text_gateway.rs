//! The text gateway's protocol as files: `fixtures/wire/gateway/read` contains messages of text
//! clients, an example of each kind in the document's chapter 4 and variants of clients, each with
//! its parsed form; `write` contains messages to them, chapter 5. Not for their processing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hearken_proto::ids::SessionId;
use hearken_proto::text_gateway::{
    CallShown, ClientMessage, ErrorCode, ReadError, Registration, ServerMessage, Status, ToolResult,
};
use serde_json::{Value, json};

use super::{complete, fixtures, golden, object};

/// Timestamp of all encoded messages.
const NOW: &str = "2025-02-21T10:30:00.000Z";

variants!(CLIENT_MESSAGES, client_message_name, ClientMessage, {
    ClientMessage::TextInput { session_id: None, .. } => "text_input",
    ClientMessage::TextInput { session_id: Some(_), .. } => "text_input with a session",
    ClientMessage::Configure(_) => "configure",
    ClientMessage::StartSession { session_id: None } => "start_session",
    ClientMessage::StartSession { session_id: Some(_) } => "start_session with a session",
    ClientMessage::EndSession => "end_session",
    ClientMessage::RegisterTools { .. } => "register_tools",
    ClientMessage::ToolResult(ToolResult { outcome: Ok(_), .. }) => "tool_result",
    ClientMessage::ToolResult(ToolResult { outcome: Err(_), .. }) => "tool_result failed",
    ClientMessage::Ping => "ping",
    ClientMessage::Cancel => "cancel",
});

variants!(READ_ERRORS, read_error_name, ReadError, {
    ReadError::Invalid(_) => "invalid",
    ReadError::Unknown(_) => "unknown",
});

variants!(SERVER_MESSAGES, server_message_name, ServerMessage, {
    ServerMessage::Status(Status::Connected(_)) => "status connected",
    ServerMessage::Status(Status::Processing) => "status processing",
    ServerMessage::Status(Status::WaitingForTools(_)) => "status waiting_for_tools",
    ServerMessage::Status(Status::Idle { .. }) => "status idle",
    ServerMessage::LlmDelta { .. } => "llm_delta",
    ServerMessage::LlmResponse { unstored: true, .. } => "llm_response unstored",
    ServerMessage::LlmResponse { cancelled: false, .. } => "llm_response",
    ServerMessage::LlmResponse { cancelled: true, .. } => "llm_response cancelled",
    ServerMessage::ToolCall { success: true, .. } => "tool_call",
    ServerMessage::ToolCall { success: false, .. } => "tool_call failed",
    ServerMessage::ToolCallback { .. } => "tool_callback",
    ServerMessage::ToolsRegistered { .. } => "tools_registered",
    ServerMessage::Error { .. } => "error",
    ServerMessage::Pong => "pong",
});

fn folder(direction: &str) -> PathBuf {
    fixtures("gateway").join(direction)
}

/// Returns the names, without extension, of the folder's files with this extension.
fn names(direction: &str, extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder(direction)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|x| x == extension));
    wanted.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

fn message(direction: &str, name: &str) -> String {
    std::fs::read_to_string(folder(direction).join(format!("{name}.json"))).unwrap()
}

fn shown(read: &Result<ClientMessage, ReadError>) -> String {
    match read {
        Ok(message) => format!("{message:#?}\n"),
        Err(error) => format!("{}: {error}\n", json!(error.code()).as_str().unwrap()),
    }
}

#[test]
fn client_messages_parse_as_their_goldens_say() {
    let mut seen = BTreeSet::new();
    let mut failed = BTreeSet::new();
    let all = names("read", "json");
    for name in &all {
        let text = message("read", name);
        let read = ClientMessage::decode(&text, true);
        let mut shown_form = shown(&read);
        let without = ClientMessage::decode(&text, false);
        if without != read {
            shown_form += &format!("without `stream`: {}", shown(&without));
        }
        golden(&folder("read").join(format!("{name}.txt")), shown_form.as_bytes());
        match &read {
            Ok(message) => seen.insert(client_message_name(message)),
            Err(error) => failed.insert(read_error_name(error)),
        };
    }
    complete(CLIENT_MESSAGES, &seen);
    complete(READ_ERRORS, &failed);
    assert_eq!(names("read", "txt"), all, "a parsed form without a message");
}

fn calls() -> Vec<CallShown> {
    let call = |tool_name: &str, source: &str| CallShown {
        tool_name: tool_name.into(),
        arguments: object(json!({"room": "客厅"})),
        success: true,
        duration_ms: 125.5,
        source: source.into(),
        code: None,
        error: None,
    };
    let failed = CallShown {
        success: false,
        code: Some(ErrorCode::ToolExecutionFailed),
        error: Some("灯没有回应".into()),
        ..call("device.light.turn_on", "client")
    };
    vec![call("get_weather", "builtin"), failed]
}

fn registered() -> Vec<Registration> {
    let name = "get_battery".to_owned();
    let status = "registered";
    vec![Registration { name, status, error: None, code: None }]
}

fn refused() -> Registration {
    Registration {
        name: "device.light.turn_on".into(),
        status: "failed",
        error: Some("Tool name already exists".into()),
        code: Some(ErrorCode::ToolRegistrationFailed),
    }
}

fn response(content: &str, tool_calls: Vec<CallShown>, cancelled: bool) -> ServerMessage {
    let content = content.into();
    ServerMessage::LlmResponse { content, tool_calls, cancelled, unstored: false }
}

fn tool_call(result: Value, success: bool) -> ServerMessage {
    ServerMessage::ToolCall {
        tool_name: "get_weather".into(),
        arguments: object(json!({"city": "北京"})),
        result: object(result),
        success,
        duration_ms: 125.5,
    }
}

fn written() -> Vec<(&'static str, ServerMessage)> {
    let session = || SessionId::new("6a1c2f0e-8f0b-4d57-9a39-20c1e5b7d6f4");
    let idle = Status::Idle {
        session_id: SessionId::new("c3b7e9d2-1f64-4a0b-b5c8-7e2d9f10a4b3"),
        ended_session_id: session(),
    };
    let callback = ServerMessage::ToolCallback {
        call_id: "0d9f4a77-53c2-4b8e-8a61-b1f3c2d4e5a6".into(),
        tool_name: "device.light.turn_on".into(),
        arguments: object(json!({"room": "客厅", "brightness": 0.5})),
    };
    let unstored = ServerMessage::LlmResponse {
        content: "明天有雨，请带伞。".into(),
        tool_calls: Vec::new(),
        cancelled: false,
        unstored: true,
    };
    let mut some_refused = registered();
    some_refused.push(refused());
    let error = ServerMessage::Error {
        code: ErrorCode::LlmError,
        message: "Failed to process request".into(),
        details: "the provider says \"no\"\n".into(),
    };
    vec![
        ("status_connected", ServerMessage::Status(Status::Connected(session()))),
        ("status_processing", ServerMessage::Status(Status::Processing)),
        ("status_waiting_for_tools", ServerMessage::Status(Status::WaitingForTools(2))),
        ("status_idle", ServerMessage::Status(idle)),
        ("llm_delta", ServerMessage::LlmDelta { content: "明天有雨，".into() }),
        ("llm_response", response("明天有雨，请带伞。", Vec::new(), false)),
        ("llm_response_with_calls", response("灯 \"客厅\" 没有打开。", calls(), false)),
        ("llm_response_cancelled", response("明天", Vec::new(), true)),
        ("llm_response_unstored", unstored),
        ("tool_call", tool_call(json!({"condition": "Rain", "temperature": 9}), true)),
        ("tool_call_failed", tool_call(json!({"error": "no such city"}), false)),
        ("tool_callback", callback),
        ("tools_registered", ServerMessage::ToolsRegistered { tools: registered() }),
        ("tools_registered_some", ServerMessage::ToolsRegistered { tools: some_refused }),
        ("error", error),
        ("pong", ServerMessage::Pong),
    ]
}

#[test]
fn server_messages_encode_as_their_goldens_say() {
    let mut seen = BTreeSet::new();
    for (name, message) in written() {
        seen.insert(server_message_name(&message));
        let text = message.encode(NOW) + "\n";
        golden(&folder("write").join(format!("{name}.json")), text.as_bytes());
    }
    complete(SERVER_MESSAGES, &seen);
    let all: BTreeSet<String> = written().iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("write", "json"), all, "a golden without a message");
}

#[test]
fn error_codes_encode_as_their_golden_says() {
    let errors = ErrorCode::ALL.map(|code| ServerMessage::error(code, "Why").encode(NOW) + "\n");
    let lines = errors.concat();
    assert_eq!(lines.lines().collect::<BTreeSet<_>>().len(), ErrorCode::ALL.len());
    golden(&folder("write").join("errors.jsonl"), lines.as_bytes());
}

/// The tables of chapter 5, with an example value for each field: a client in C reads them without
/// checking that they exist.
#[test]
fn server_messages_have_every_field_of_the_document() {
    for name in names("write", "json") {
        let message_json: Value = serde_json::from_str(&message("write", &name)).unwrap();
        let kind = message_json["type"].as_str().unwrap();
        let like = match (kind, message_json["status"].as_str()) {
            ("status", Some("connected")) => json!({"data": {"session_id": ""}}),
            ("status", Some("processing")) => json!({"data": {"message": ""}}),
            ("status", Some("waiting_for_tools")) => json!({"data": {"pending_tools": 0}}),
            ("status", Some("idle")) => json!({"data": {}}),
            ("llm_delta", None) => json!({"content": ""}),
            ("llm_response", None) => json!({"content": "", "tool_calls": [], "is_final": true}),
            ("tool_call", None) => json!({
                "tool_name": "", "arguments": {}, "result": {}, "success": true, "duration_ms": 0.5
            }),
            ("tool_callback", None) => json!({"call_id": "", "tool_name": "", "arguments": {}}),
            ("tools_registered", None) => json!({"count": 0, "tools": []}),
            ("error", None) => json!({"code": "", "message": "", "details": ""}),
            ("pong", None) => json!({}),
            other => panic!("{name}: the document does not know {other:?}"),
        };
        assert!(has_all(&message_json, &like), "{name}: {message_json} is not like {like}");
        assert_eq!(message_json["timestamp"], NOW, "{name}");
    }
}

/// Returns true if every field of `like` exists and has the same type.
fn has_all(json: &Value, like: &Value) -> bool {
    match (json, like) {
        (Value::Object(json), Value::Object(like)) => {
            like.iter().all(|(name, like)| json.get(name).is_some_and(|json| has_all(json, like)))
        }
        _ => std::mem::discriminant(json) == std::mem::discriminant(like),
    }
}
