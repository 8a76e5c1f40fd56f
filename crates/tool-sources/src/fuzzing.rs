//! Fuzz targets: messages of tool clients and tool servers. Behind the feature `fuzzing`; never in
//! a server. Those of LiteMCP's frames are in `litemcp`.

use hearken_dialogue::tools::definition::from_mcp;
use rmcp::model::{CallToolResult, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

use crate::jsonrpc_repair::{MAX_BATCH, Repair};
use crate::mapping::{self, is_bounded};

pub use crate::litemcp::fuzzing::{litemcp_answers, litemcp_stdio, litemcp_tools};

/// Frames of a tool client, one per line: each is parsed or ignored, and every answer reaches its
/// call, whatever it contains.
///
/// # Panics
/// Panics if one of these properties is broken.
pub fn tool_frames(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for frame in text.lines() {
        let read = Repair::default().read(frame);
        assert!(read.len() <= MAX_BATCH);
        let Ok(value) = serde_json::from_str::<Value>(frame) else { continue };
        let Some(id) = answered(&value) else { continue };
        let [message] = &read[..] else { panic!("{} messages for one answer", read.len()) };
        assert_eq!(id_of(message), Some(&id));
    }
}

/// Returns the id of the call that a frame answers, if it is one of our ids.
fn answered(frame: &Value) -> Option<RequestId> {
    let fields = frame.as_object().filter(|fields| !fields.contains_key("method"))?;
    fields.get("id")?.as_i64().map(RequestId::Number)
}

fn id_of(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(answer) => Some(&answer.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// The result of a tool becomes texts and pictures of bounded size, and one bounded text for the
/// model.
///
/// # Panics
/// Panics if one of these properties is broken.
pub fn tool_results(bytes: &[u8]) {
    if let Ok(result) = serde_json::from_slice::<CallToolResult>(bytes) {
        is_bounded(mapping::output(result));
    }
    if let Ok(tool) = serde_json::from_slice::<rmcp::model::Tool>(bytes) {
        let name = tool.name.clone();
        let tool = from_mcp(&tool);
        assert!(tool.name == name && tool.parameters.is_object());
    }
}
