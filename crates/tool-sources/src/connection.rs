//! One MCP connection to a tool server, through rmcp: opening, listing, calling, closing. Not for
//! reconnecting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hearken_base::paced_log::PacedLog;
use hearken_dialogue::tools::definition::from_mcp;
use hearken_ports::tool_limits::{LimitedTools, MAX_SOURCE_WEIGHT, tool_weight};
use hearken_ports::{Tool, ToolCall, ToolError, ToolOutput};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    Implementation, PaginatedRequestParams, ProtocolVersion, ServerNotification,
    SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, NotificationContext, RequestContext, RoleClient,
    RunningService,
};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ErrorData, ServiceError};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use super::elicitation::ElicitationPolicy;
use super::listing::{Page, every_page};
use super::mapping;
use super::peer_transport::PeerTransport;

/// Reason that a page of tools cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct NotListed {
    why: String,
    /// True if the server has answered.
    is_answer: bool,
}

/// Maximum wait for a connection to close gracefully.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Protocol version and handshake with which a connection is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolEra {
    /// First asks whether the server supports 2026-07-28, which has no handshake; otherwise uses
    /// 2025-11-25.
    Auto,
    /// Uses 2025-11-25 immediately: for programs that exit on an unknown request.
    Handshake,
    /// Uses 2024-11-05, which every bridge to this kind of endpoint supports.
    Oldest,
}

/// Open connection, after the handshake; clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    service: Arc<RunningService<RoleClient, NotificationHandler>>,
    gone: CancellationToken,
    changed: Arc<Notify>,
    listed: Arc<Mutex<ListedTools>>,
    /// Warnings about its lists of tools.
    warnings: Arc<PacedLog>,
}

/// Maximum size of all tools that a connection has listed: rmcp stores the schema of each name for
/// the lifetime of the connection.
const MAX_LISTED_BYTES: usize = 4 * MAX_SOURCE_WEIGHT;

/// Tools that a connection has listed so far.
#[derive(Default)]
struct ListedTools {
    /// Maximum weight of the tools of each name: a tool that is listed again may have another
    /// schema.
    names: HashMap<String, usize>,
    bytes: usize,
}

impl ListedTools {
    /// Records a tool. Returns false if all together are too large.
    fn note(&mut self, tool: &Tool) -> bool {
        let weight = size_of::<Tool>() + tool.name.len() + tool_weight(tool);
        let largest = self.names.entry(tool.name.clone()).or_default();
        self.bytes += weight.saturating_sub(*largest);
        *largest = weight.max(*largest);
        !self.is_too_large()
    }

    fn is_too_large(&self) -> bool {
        self.bytes > MAX_LISTED_BYTES
    }
}

impl Connection {
    /// Performs the handshake over this transport.
    ///
    /// # Errors
    /// The handshake failed.
    pub(super) async fn open<T>(
        transport: T,
        era: ProtocolEra,
        elicitation: ElicitationPolicy,
    ) -> Result<Self, NotOpened>
    where
        T: Transport<RoleClient> + 'static,
    {
        let gone = CancellationToken::new();
        let changed = Arc::new(Notify::new());
        let transport = PeerTransport::new(transport, gone.clone().drop_guard());
        let legacy = match era {
            ProtocolEra::Auto | ProtocolEra::Handshake => ProtocolVersion::V_2025_11_25,
            ProtocolEra::Oldest => ProtocolVersion::V_2024_11_05,
        };
        let listener = NotificationHandler {
            changed: Arc::clone(&changed),
            version: legacy.clone(),
            elicitation,
        };
        let lifecycle = match era {
            ProtocolEra::Auto => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(legacy),
            },
            ProtocolEra::Handshake | ProtocolEra::Oldest => ClientLifecycleMode::Initialize,
        };
        // rmcp's handshake is a large future.
        let service = Box::pin(listener.serve_with_lifecycle(transport, lifecycle)).await;
        let service = service.map_err(|error| NotOpened {
            reason: reason(&error),
            misunderstood: era == ProtocolEra::Auto && misunderstood(&error),
        })?;
        // The list is stored once, within limits, and requested again to check whether the server
        // still responds.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let listed = Arc::default();
        let warnings = Arc::default();
        Ok(Self { service: Arc::new(service), gone, changed, listed, warnings })
    }

    /// Returns true if both are the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.service, &other.service)
    }

    /// Returns the name that the server gives itself.
    pub(super) fn server_name(&self) -> Option<String> {
        Some(self.service.peer().peer_info()?.server_info.as_ref()?.name.clone())
    }

    /// Returns the protocol version in use.
    pub(super) fn protocol(&self) -> String {
        let info = self.service.peer().peer_info();
        info.map(|info| info.protocol_version.to_string()).unwrap_or_default()
    }

    /// Returns the server's tools. Each page may take `page_within`.
    ///
    /// # Errors
    /// Human-readable reason why there is no list.
    pub(super) async fn tools(&self, page_within: Duration) -> Result<Arc<[Tool]>, String> {
        let peer = self.service.peer();
        let offered = peer.peer_info().is_none_or(|info| info.capabilities.tools.is_some());
        let mut tools = LimitedTools::default();
        let mut listed = self.listed.lock().await;
        let ask = |cursor| async move {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = tokio::time::timeout(page_within, peer.list_tools(Some(params))).await;
            let page = page.map_err(|_| {
                let why = format!("it did not list its tools within {} s", page_within.as_secs());
                NotListed { why, is_answer: false }
            })?;
            let page = page.map_err(|error| {
                let why = mapping::error(&error, "tools/list").to_string();
                let is_answer =
                    matches!(error, ServiceError::McpError(_) | ServiceError::UnexpectedResponse);
                NotListed { why, is_answer }
            })?;
            Ok::<_, NotListed>(Page { tools: page.tools, next: page.next_cursor })
        };
        // Some servers have tools without announcing them at first.
        let add = |tool| {
            let tool = from_mcp(&tool);
            listed.note(&tool) && tools.add(tool)
        };
        match every_page(ask, add, |error| error.is_answer, &self.warnings).await {
            Err(_) if !offered => return Ok(Arc::default()),
            read => read.map_err(|error| error.why)?,
        }
        if listed.is_too_large() {
            return Err("it lists too many different tools".into());
        }
        let source = self.server_name().unwrap_or_default();
        if !tools.is_complete() {
            self.warnings.log(|not_logged| tools.log_left_out(&source, not_logged));
        }
        Ok(tools.finish().into())
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(super) async fn call(&self, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        if self.gone.is_cancelled() || self.service.peer().is_transport_closed() {
            let error = mapping::error(&ServiceError::TransportClosed, &call.name);
            return Err(CallFailed { error, not_sent: true, broken: true });
        }
        let params =
            CallToolRequestParams::new(call.name.clone()).with_arguments(call.arguments.clone());
        match self.service.call_tool(params).await {
            Ok(result) => Ok(mapping::output(result)),
            Err(error) => Err(CallFailed {
                not_sent: mapping::not_sent(&error),
                broken: matches!(
                    error,
                    ServiceError::TransportSend(_) | ServiceError::TransportClosed
                ),
                error: mapping::error(&error, &call.name),
            }),
        }
    }

    /// Waits until the connection is closed.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Waits until the server reports a change of its tools. Servers without a handshake report it
    /// only to subscribers.
    pub(super) async fn changed(&self) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = self.listen() => {}
        }
    }

    async fn listen(&self) {
        let peer = self.service.peer();
        let info = peer.peer_info();
        let tells = info.is_some_and(|info| {
            !info.protocol_version.has_initialize()
                && info.capabilities.tools.as_ref().is_some_and(|t| t.list_changed == Some(true))
        });
        if tells {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            if let Ok(mut told) = peer.listen(filter).await {
                while let Ok(Some(notification)) = told.next().await {
                    if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                        return;
                    }
                }
            }
        }
        std::future::pending().await
    }

    /// Closes the connection gracefully, within a time limit. Pending calls fail.
    pub(super) async fn close(self) {
        self.service.cancellation_token().cancel();
        if tokio::time::timeout(CLOSE_WITHIN, self.gone.cancelled()).await.is_err() {
            tracing::debug!("the connection to a tool server did not close in time");
        }
    }
}

/// Error of a call.
#[derive(Debug)]
pub(super) struct CallFailed {
    /// Error for the caller.
    pub(super) error: ToolError,
    /// True if the server never received the request.
    pub(super) not_sent: bool,
    /// True if the connection may be broken.
    pub(super) broken: bool,
}

/// Error of opening a connection.
#[derive(Debug)]
pub(super) struct NotOpened {
    /// Human-readable reason.
    pub(super) reason: String,
    /// True if the server answered the version question in a way that the protocol does not define:
    /// retry with [`ProtocolEra::Handshake`].
    pub(super) misunderstood: bool,
}

impl From<String> for NotOpened {
    fn from(reason: String) -> Self {
        Self { reason, misunderstood: false }
    }
}

/// Returns true for the responses of servers that are older than the version question: an empty
/// object, a page, or a plain refusal. rmcp ends its transport on these.
fn misunderstood(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ExpectedInitResponse(Some(_))
        | ClientInitializeError::ExpectedInitResult(Some(_))
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. }
        | ClientInitializeError::ConnectionClosed(_) => true,
        ClientInitializeError::TransportError { error, .. } => {
            mapping::answered(error.error.as_ref())
        }
        _ => false,
    }
}

/// Renders the reason of a failed handshake in one line. Long texts of the server are not repeated.
fn reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => reason(fallback),
        ClientInitializeError::ConnectionClosed(_) => "it ended during the handshake".into(),
        ClientInitializeError::TransportError { error, .. } => {
            mapping::transport_reason(error.error.as_ref())
        }
        other => mapping::short(&other.to_string()),
    }
}

/// Receiver of the server's notifications and requests. Offers the server no sampling and no
/// folders.
struct NotificationHandler {
    changed: Arc<Notify>,
    version: ProtocolVersion,
    elicitation: ElicitationPolicy,
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("hearken", env!("CARGO_PKG_VERSION"));
        let mut offered = ClientCapabilities::default();
        offered.elicitation = self.elicitation.capability();
        ClientConfig::new(offered, us).with_protocol_version(self.version.clone())
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.elicitation.answer(&question))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, bytes: usize) -> Tool {
        Tool {
            name: name.into(),
            description: String::new(),
            parameters: json!({ "description": "x".repeat(bytes) }),
            finishes: false,
            destructive: false,
        }
    }

    #[test]
    fn the_size_of_listed_tools_is_bounded_whatever_their_names() {
        let mut same = ListedTools::default();
        assert!((0..9_999).all(|_| same.note(&tool("a", 9_000))), "the same list repeatedly");
        let mut others = ListedTools::default();
        let count = (0..9_999).take_while(|n| others.note(&tool(&n.to_string(), 90_000))).count();
        assert!((300..400).contains(&count), "{count}");
        let mut growing = ListedTools::default();
        assert!(growing.note(&tool("a", 1)) && !growing.note(&tool("a", MAX_LISTED_BYTES)));
    }
}
