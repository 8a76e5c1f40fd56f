//! Tool source of a device that is an MCP server. Not for its socket: see [`link`]. Not for the
//! time of requests: the host decides it.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod iot;
pub mod link;
pub mod repair;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_base::memory_pool::{PeerMemory, Reservation};
use hearken_dialogue::tools::definition::from_mcp;
use hearken_dialogue::tools::risk::is_camera;
use hearken_dialogue::tools::{PeerTools, ToolsetInterner};
use hearken_ports::tool_limits::{tool_weight, within_limits};
use hearken_ports::{
    Provenance, Tool, ToolCall, ToolContent, ToolError, ToolOutput, ToolSource, source_names,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ContentBlock, CustomRequest, Implementation, PaginatedRequestParams,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, Peer, ServiceError};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::{Notify, watch};

/// Maximum number of pages read from a list of tools. Firmware with 40 tools has five pages.
const MAX_PAGES: usize = 64;

/// Approximate memory limit for the pages of one device's list, in bytes. Firmware with 40 tools
/// needs some 160 KiB.
const MAX_LIST_WEIGHT: usize = 1 << 20;
/// Maximum length of a cursor of a device's list. A page with a longer one is the last.
const MAX_CURSOR_BYTES: usize = 1 << 10;

/// Maximum number of tools stored for one device.
const MAX_TOOLS: usize = 512;

/// Tools of one device; none until the device has listed them.
pub struct DeviceTools {
    timeout: Duration,
    interner: ToolsetInterner,
    /// Memory that is used for the device.
    memory: PeerMemory,
    state: watch::Sender<DeviceToolsState>,
    /// Number of calls that wait for the connection or use it.
    calls: Arc<AtomicUsize>,
    /// Notified when a call needs the connection.
    wanted: Arc<Notify>,
}

#[derive(Default)]
struct DeviceToolsState {
    tools: Option<PeerTools>,
    link: LinkState,
}

/// State of the MCP connection to the device.
#[derive(Clone, Default)]
enum LinkState {
    /// The device has not listed its tools yet.
    #[default]
    NotListed,
    /// Idle: the host must reopen the connection before a call.
    Idle,
    /// Open for calls.
    Open(Peer<RoleClient>),
}

impl DeviceTools {
    /// Creates an empty source. The device must answer within `timeout`. Its list of tools is
    /// shared through `interner`, and stored in `memory`.
    pub fn new(timeout: Duration, interner: ToolsetInterner, memory: PeerMemory) -> Self {
        let state = watch::Sender::default();
        let calls = Arc::default();
        let wanted = Arc::default();
        Self { timeout, interner, memory, state, calls, wanted }
    }

    /// Drops all data of the device, because it says hello again or is gone.
    pub fn forget(&self) {
        self.state.send_replace(DeviceToolsState::default());
    }

    /// Waits until a call needs the connection.
    pub(crate) async fn wait_until_needed(&self) {
        self.wanted.notified().await;
    }

    /// Marks the connection as open.
    pub(crate) fn mark_open(&self, peer: &Peer<RoleClient>) {
        self.state.send_modify(|state| state.link = LinkState::Open(peer.clone()));
    }

    /// Marks the connection as idle. Returns false if a call uses the connection, which then stays
    /// open.
    pub(crate) fn mark_idle(&self, peer: &Peer<RoleClient>) -> bool {
        self.state.send_modify(|state| state.link = LinkState::Idle);
        let quiet = self.calls.load(Ordering::SeqCst) == 0;
        if !quiet {
            self.mark_open(peer);
        }
        quiet
    }

    /// Fetches all tools of the device, page by page. If a page fails, returns false; then the
    /// previous list stays, or, without one, the pages fetched so far are used.
    pub async fn refresh(&self, peer: &Peer<RoleClient>) -> bool {
        let mut is_whole = true;
        let mut tools: Vec<Tool> = Vec::new();
        let mut held: Vec<Reservation> = Vec::new();
        let mut weight = 0;
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let page = match tokio::time::timeout(self.timeout, peer.list_tools(Some(params))).await
            {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => {
                    tracing::warn!(%error, known = tools.len(), "cannot list the device's tools");
                    is_whole = false;
                    break;
                }
                Err(_) => {
                    tracing::warn!(
                        known = tools.len(),
                        "the device did not list its tools in time"
                    );
                    is_whole = false;
                    break;
                }
            };
            let room = MAX_TOOLS - tools.len();
            let listed: Vec<Tool> = page.tools.iter().take(room).map(from_mcp).collect();
            let page_weight = listed.iter().map(tool_weight).sum::<usize>();
            weight += page_weight;
            if weight > MAX_LIST_WEIGHT {
                tracing::warn!(
                    limit_bytes = MAX_LIST_WEIGHT,
                    known = tools.len(),
                    "left out further tools of the device: their list is too large"
                );
                break;
            }
            match self.memory.reserve(page_weight) {
                Ok(page) => held.push(page),
                Err(error) => {
                    tracing::warn!(%error, known = tools.len(), "left out further tools of the device");
                    break;
                }
            }
            tools.extend(listed);
            match page.next_cursor {
                None => break,
                Some(next) if next.len() > MAX_CURSOR_BYTES => {
                    tracing::warn!("stopped listing the device's tools: a cursor is too long");
                    break;
                }
                Some(next) if !seen.insert(next.clone()) => {
                    tracing::warn!("stopped listing the device's tools: a cursor repeats");
                    break;
                }
                next => cursor = next,
            }
        }
        let before = self.state.borrow().tools.clone();
        let tools = if is_whole || before.is_none() {
            drop((held, before));
            self.keep(within_limits(source_names::DEVICE, tools))
        } else {
            before
        };
        let link = LinkState::Open(peer.clone());
        self.state.send_replace(DeviceToolsState { tools, link });
        is_whole
    }

    /// Stores a list. Without enough memory for it, the device has no tools.
    fn keep(&self, tools: Vec<Tool>) -> Option<PeerTools> {
        let count = tools.len();
        match self.interner.keep(tools.into(), &self.memory) {
            Ok(tools) => {
                tracing::info!(tools = count, "listed the device's tools");
                Some(tools)
            }
            Err(error) => {
                tracing::warn!(%error, tools = count, "cannot store the device's tools");
                None
            }
        }
    }
}

/// Returns the `initialize` request of the server. Sending it again gives a device a fresh token
/// for its camera.
pub fn initialize_request() -> ClientRequest {
    let params = serde_json::to_value(client_config()).ok();
    ClientRequest::CustomRequest(CustomRequest::new("initialize", params))
}

fn client_config() -> ClientConfig {
    let name = Implementation::new("hearken", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), name)
        .with_protocol_version(ProtocolVersion::V_2024_11_05)
}

impl ToolSource for DeviceTools {
    fn name(&self) -> &str {
        source_names::DEVICE
    }

    fn kind(&self) -> &'static str {
        source_names::DEVICE
    }

    /// A device is trusted; the content of its camera pictures is not.
    fn provenance(&self, tool: &str) -> Provenance {
        let trusted = !is_camera(tool);
        Provenance { trusted, ..Provenance::untrusted(source_names::DEVICE, tool) }
    }

    fn tools(&self) -> Arc<[Tool]> {
        self.state.borrow().tools.as_ref().map(|tools| Arc::clone(&tools.list)).unwrap_or_default()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let state = self.state.subscribe();
        let wanted = Arc::clone(&self.wanted);
        let in_flight = InFlight::start(&self.calls);
        Box::pin(async move {
            let _in_flight = in_flight;
            let peer = peer(state, &wanted).await?;
            // xiaozhi-sdk fails on calls without arguments, therefore they are always sent.
            let params = CallToolRequestParams::new(call.name).with_arguments(call.arguments);
            match peer.call_tool_once(params).await {
                Ok(CallToolResponse::Complete(result)) => Ok(output(result)),
                Ok(_) => Err(ToolError::Failed("the device's answer cannot be read".into())),
                Err(error) => Err(refusal_of(error)),
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

/// Counter guard: counts a call while it lives.
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

/// Waits for the connection to open and returns its peer.
async fn peer(
    mut state: watch::Receiver<DeviceToolsState>,
    wanted: &Notify,
) -> Result<Peer<RoleClient>, ToolError> {
    loop {
        let link = state.borrow_and_update().link.clone();
        match link {
            LinkState::Open(peer) => return Ok(peer),
            LinkState::Idle => wanted.notify_one(),
            LinkState::NotListed => {
                return Err(ToolError::Unavailable("the device has not listed its tools".into()));
            }
        }
        if state.changed().await.is_err() {
            return Err(ToolError::Unavailable("the device is disconnected".into()));
        }
    }
}

fn refusal_of(error: ServiceError) -> ToolError {
    match error {
        ServiceError::McpError(error) => ToolError::Failed(error.message.into_owned()),
        ServiceError::TransportSend(error) => ToolError::Unavailable(error.error.to_string()),
        other => ToolError::Unavailable(other.to_string()),
    }
}

/// Converts a result. It contains only text and images: [`repair`] removes everything else.
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

/// MCP client handler for a device.
pub struct McpClientHandler {
    /// Notified when the device reports that its tools have changed.
    pub changed: Arc<Notify>,
}

impl ClientHandler for McpClientHandler {
    fn get_info(&self) -> ClientConfig {
        client_config()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
