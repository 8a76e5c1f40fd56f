//! The tools of a device that speaks MCP, as a source of tools. Not for its socket, which is
//! [`super::link`], nor for when it is asked, which is the host's part.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
use tokio::sync::{Notify, watch};

use super::toolset_interner::ToolsetInterner;
use crate::ports::{Tool, ToolCall, ToolContent, ToolError, ToolOutput, ToolSource};

/// Pages of a list that are read; firmware with 40 tools has five.
const MAX_PAGES: usize = 64;

/// Tools of a device that are kept.
const MAX_TOOLS: usize = 512;

/// The tools of one device; none until it has told them.
pub struct DeviceTools {
    timeout: Duration,
    interner: ToolsetInterner,
    state: watch::Sender<State>,
    /// Calls that want the line, or are on it.
    calls: Arc<AtomicUsize>,
    /// Notified when a call wants the line.
    wanted: Arc<Notify>,
}

#[derive(Default)]
struct State {
    tools: Arc<[Tool]>,
    line: Line,
}

/// Whether the device can be talked to.
#[derive(Clone, Default)]
enum Line {
    /// It has told nothing yet.
    #[default]
    Untold,
    /// It can, once the host has taken it up again.
    Resting,
    /// It can.
    Open(Peer<RoleClient>),
}

impl DeviceTools {
    /// A device that has told nothing yet, and answers within `timeout`; its list is shared with
    /// those `interner`.
    pub fn new(timeout: Duration, interner: ToolsetInterner) -> Self {
        let (state, calls, wanted) = (watch::Sender::default(), Arc::default(), Arc::default());
        Self { timeout, interner, state, calls, wanted }
    }

    /// Forgets the device: it says hello anew, or is gone.
    pub fn forget(&self) {
        self.state.send_replace(State::default());
    }

    /// Waits until a call wants the line.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// The line is open.
    pub(crate) fn open(&self, peer: &Peer<RoleClient>) {
        self.state.send_modify(|state| state.line = Line::Open(peer.clone()));
    }

    /// Lets the line rest; false where a call is on it, which keeps it open.
    pub(crate) fn rest(&self, peer: &Peer<RoleClient>) -> bool {
        self.state.send_modify(|state| state.line = Line::Resting);
        let quiet = self.calls.load(Ordering::SeqCst) == 0;
        if !quiet {
            self.open(peer);
        }
        quiet
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
        let (tools, line) = (self.interner.list(tools.into()), Line::Open(peer.clone()));
        self.state.send_replace(State { tools, line });
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

/// Introduces us; done once more it gives a device a fresh token for its camera.
pub fn introduction() -> ClientRequest {
    let params = serde_json::to_value(us()).ok();
    ClientRequest::CustomRequest(CustomRequest::new("initialize", params))
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
        Arc::clone(&self.state.borrow().tools)
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let (state, wanted) = (self.state.subscribe(), Arc::clone(&self.wanted));
        let on_the_line = InFlight::start(&self.calls);
        Box::pin(async move {
            let _on_the_line = on_the_line;
            let peer = peer(state, &wanted).await?;
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

/// Counted as long as it lives.
struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    fn start(calls: &Arc<AtomicUsize>) -> Self {
        calls.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(calls))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The line, once it is open.
async fn peer(
    mut state: watch::Receiver<State>,
    wanted: &Notify,
) -> Result<Peer<RoleClient>, ToolError> {
    loop {
        let line = state.borrow_and_update().line.clone();
        match line {
            Line::Open(peer) => return Ok(peer),
            Line::Resting => wanted.notify_one(),
            Line::Untold => {
                return Err(ToolError::Unavailable("the device has not told its tools".into()));
            }
        }
        if state.changed().await.is_err() {
            return Err(ToolError::Unavailable("the device is gone".into()));
        }
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
