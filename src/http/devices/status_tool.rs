//! The call of a device's status tool, for a device of this instance. Not for the route, nor for
//! devices of other instances.

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::device_registry::DeviceRegistry;
use hearken_ports::{ToolCall, ToolContent, ToolSource, Unreachable};
use hearken_proto::ids::DeviceId;
use hearken_proto::json::weighed;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::timeout;

/// Name of the firmware's tool.
pub(crate) const TOOL: &str = "self.get_device_status";
/// Maximum wait for the device; shorter than that for another instance.
const WITHIN: Duration = Duration::from_millis(2_500);

/// Reply of a device; also the reply between instances.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StatusReply {
    /// Status of the device.
    Status(Map<String, Value>),
    /// The device has no such tool.
    NoTool,
    /// The device did not reply, or replied with something else.
    Failed(String),
}

/// Requests the status from a device of this instance.
///
/// # Errors
/// The device is not connected here.
pub(crate) async fn ask(
    device_registry: &DeviceRegistry,
    id: &DeviceId,
) -> Result<StatusReply, Unreachable> {
    let tools = device_registry.tools(id).ok_or(Unreachable::NotConnected)?;
    let late = |_| StatusReply::Failed("the device does not answer".into());
    Ok(timeout(WITHIN, call(tools)).await.unwrap_or_else(late))
}

async fn call(tools: Arc<dyn ToolSource>) -> StatusReply {
    if !tools.tools().iter().any(|tool| tool.name == TOOL) {
        return StatusReply::NoTool;
    }
    let call = ToolCall { id: "status".into(), name: TOOL.into(), arguments: Map::new() };
    let output = match tools.call(call).await {
        Ok(output) => output,
        Err(error) => return StatusReply::Failed(format!("the device did not answer: {error}")),
    };
    let texts = output.content.iter().filter_map(|part| match part {
        ToolContent::Text(text) => Some(&**text),
        _ => None,
    });
    let text: String = texts.collect();
    match weighed(&text) {
        Ok(Value::Object(status)) if !output.failed => StatusReply::Status(status),
        _ => StatusReply::Failed("the device returned something other than its status".into()),
    }
}
