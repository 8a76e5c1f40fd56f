//! The tools of a device that speaks MCP, as a source of tools. Not for its socket, which is
//! [`super::link`], nor for when it is asked, which is the host's part.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ContentBlock, CustomRequest, Implementation, PaginatedRequestParams,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, Peer, ServiceError};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;

use crate::ports::{Tool, ToolCall, ToolContent, ToolError, ToolOutput, ToolSource};

/// Pages of a list that are read; firmware with 40 tools has five.
const MAX_PAGES: usize = 64;

/// Tools of a device that are kept.
const MAX_TOOLS: usize = 512;

/// The tools of one device; none until it has told them.
pub struct DeviceTools {
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tools: Arc<[Tool]>,
    peer: Option<Peer<RoleClient>>,
}

impl DeviceTools {
    /// A device that has told nothing yet, and answers within `timeout`.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a device's tools")
    }

    /// Forgets the device: it says hello anew, or is gone.
    pub fn forget(&self) {
        *self.state() = State::default();
    }

    /// Asks the device for all its tools, page by page. A list that does not come to its end is
    /// kept as far as it came.
    pub async fn refresh(&self, peer: &Peer<RoleClient>) {
        let mut tools: Vec<Tool> = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let page = match tokio::time::timeout(self.timeout, peer.list_tools(Some(params))).await
            {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => {
                    tracing::warn!(%error, known = tools.len(), "a device does not tell its tools");
                    break;
                }
                Err(_) => {
                    tracing::warn!(known = tools.len(), "a device does not tell its tools in time");
                    break;
                }
            };
            for tool in page.tools {
                if tools.iter().all(|known| known.name != tool.name) && tools.len() < MAX_TOOLS {
                    tools.push(described(&tool));
                }
            }
            match page.next_cursor {
                None => break,
                Some(next) if !seen.insert(next.clone()) => {
                    tracing::warn!("a device's list of tools goes in circles");
                    break;
                }
                next => cursor = next,
            }
        }
        tracing::info!(tools = tools.len(), "a device has told its tools");
        let (tools, peer) = (tools.into(), Some(peer.clone()));
        *self.state() = State { tools, peer };
    }
}

fn described(tool: &rmcp::model::Tool) -> Tool {
    Tool {
        name: tool.name.to_string(),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        parameters: Value::Object((*tool.input_schema).clone()),
        finishes: false,
    }
}

/// Introduces us once more, which gives a device a fresh token for its camera.
pub async fn introduce_again(peer: &Peer<RoleClient>, timeout: Duration) {
    let params = serde_json::to_value(us()).ok();
    let request = ClientRequest::CustomRequest(CustomRequest::new("initialize", params));
    let answered = tokio::time::timeout(timeout, peer.send_request(request)).await;
    if !matches!(answered, Ok(Ok(_))) {
        tracing::warn!("a device's token for its camera cannot be renewed");
    }
}

fn us() -> ClientConfig {
    let us = Implementation::new("hearken", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), us)
        .with_protocol_version(ProtocolVersion::V_2024_11_05)
}

impl ToolSource for DeviceTools {
    fn name(&self) -> &str {
        "device"
    }

    fn kind(&self) -> &'static str {
        "device"
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.state().tools)
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let peer = self.state().peer.clone();
        Box::pin(async move {
            let away = || ToolError::Unavailable("the device has not told its tools".into());
            let peer = peer.ok_or_else(away)?;
            // xiaozhi-sdk fails on calls without arguments, so that they are always there.
            let params = CallToolRequestParams::new(call.name).with_arguments(call.arguments);
            match peer.call_tool_once(params).await {
                Ok(CallToolResponse::Complete(result)) => Ok(output(result)),
                Ok(_) => Err(ToolError::Failed("the device's answer cannot be read".into())),
                Err(error) => Err(refused(error)),
            }
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn at_once(&self) -> usize {
        1
    }
}

fn refused(error: ServiceError) -> ToolError {
    match error {
        ServiceError::McpError(error) => ToolError::Failed(error.message.into_owned()),
        ServiceError::TransportSend(error) => ToolError::Unavailable(error.error.to_string()),
        other => ToolError::Unavailable(other.to_string()),
    }
}

/// Devices send words and pictures; [`super::repair`] lets nothing else through.
fn output(result: CallToolResult) -> ToolOutput {
    let part = |part| match part {
        ContentBlock::Text(text) => Some(ToolContent::Text(text.text)),
        ContentBlock::Image(image) => {
            Some(ToolContent::Image { mime_type: image.mime_type, base64: image.data })
        }
        _ => None,
    };
    let content = result.content.into_iter().filter_map(part).collect();
    ToolOutput { content, failed: result.is_error.unwrap_or(false) }
}

/// What a device is told of us, and who hears that its tools have changed.
pub struct Caller {
    /// Notified when the device says that its tools have changed.
    pub changed: Arc<Notify>,
}

impl ClientHandler for Caller {
    fn get_info(&self) -> ClientConfig {
        us()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
