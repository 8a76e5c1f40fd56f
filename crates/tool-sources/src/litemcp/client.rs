//! Client of a LiteMCP tool: its last known description, and calls with named arguments. Not for
//! reconnecting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use hearken_base::Secret;
use hearken_ports::tool_limits::within_limits;
use hearken_ports::{Tool, ToolCall, ToolError, ToolOutput};
use hearken_proto::litemcp::{self, Body, CallResult, VERSION};
use tokio::time::timeout;
use url::Url;

use super::frame_connection::{FrameConnection, RequestError};
use super::{arguments, web};
use crate::connection::CallFailed;
use crate::settings::{Server, ServerTransport};

/// Transport to the tool.
enum Transport {
    /// Frames over WebSocket or standard streams.
    Frames(FrameConnection),
    /// Requests over HTTP.
    Http(web::HttpTool),
}

struct Shared {
    transport: Transport,
    /// Last known description of the tool.
    known: Mutex<KnownTool>,
}

struct KnownTool {
    tool: litemcp::Tool,
    tools: Arc<[Tool]>,
    /// True until the list of tools was read for the first time: that call needs no request.
    fresh: bool,
}

/// Connection to a tool that has answered once; clones share it.
#[derive(Clone)]
pub(crate) struct LiteMcpConnection(Arc<Shared>);

/// Converts the errors of a stream of frames to text.
pub(super) fn texts<S, E>(stream: S) -> impl Stream<Item = Result<String, String>> + Unpin
where
    S: Stream<Item = Result<String, E>> + Unpin,
    E: std::fmt::Display,
{
    stream.map(|frame| frame.map_err(|error| error.to_string()))
}

/// Connects to the tool at the address of these settings.
pub(super) async fn connect(server: &Server) -> Result<LiteMcpConnection, String> {
    let ServerTransport::Http { url, headers, bearer } = &server.transport else {
        return Err("it has no address".into());
    };
    let headers = web::headers(headers, bearer.as_ref())?;
    let transport = if matches!(url.scheme(), "ws" | "wss") {
        Transport::Frames(web::socket(url, headers).await?)
    } else {
        Transport::Http(web::HttpTool::new(url, headers, server.start_timeout, server.timeout)?)
    };
    LiteMcpConnection::open(transport, server.start_timeout).await
}

/// Connects to the tool at this `http(s)` address; its calls may take `timeout`.
pub(super) async fn connect_http(
    url: &Url,
    bearer: Option<&Secret>,
    start_within: Duration,
    timeout: Duration,
) -> Result<LiteMcpConnection, String> {
    let headers = web::headers(&[], bearer)?;
    let address = web::HttpTool::new(url, headers, start_within, timeout)?;
    LiteMcpConnection::open(Transport::Http(address), start_within).await
}

/// Connects to the tool of these settings over frames.
pub(super) async fn connect_frames(
    connection: FrameConnection,
    server: &Server,
) -> Result<LiteMcpConnection, String> {
    LiteMcpConnection::open(Transport::Frames(connection), server.start_timeout).await
}

impl LiteMcpConnection {
    async fn open(transport: Transport, within: Duration) -> Result<Self, String> {
        let (tool, tools) = describe_tool(&transport, within).await?;
        let known = Mutex::new(KnownTool { tool, tools, fresh: true });
        Ok(Self(Arc::new(Shared { transport, known })))
    }

    fn known<T>(&self, of: impl FnOnce(&mut KnownTool) -> T) -> T {
        of(&mut self.0.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if both are the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the protocol version in use.
    pub(crate) fn protocol(&self) -> String {
        format!("LiteMCP {VERSION}")
    }

    /// Returns a list with the one tool.
    ///
    /// # Errors
    /// Human-readable reason why there is none.
    pub(crate) async fn tools(&self, within: Duration) -> Result<Arc<[Tool]>, String> {
        let fresh = self.known(|k| std::mem::take(&mut k.fresh).then(|| Arc::clone(&k.tools)));
        if let Some(tools) = fresh {
            return Ok(tools);
        }
        let (tool, tools) = describe_tool(&self.0.transport, within).await?;
        self.known(|k| *k = KnownTool { tool, tools: Arc::clone(&tools), fresh: false });
        Ok(tools)
    }

    /// Calls the tool. The protocol cannot cancel a call: after the future is dropped, the result
    /// is ignored.
    pub(crate) async fn call(&self, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        let tool = self.to_wire();
        let failed = |error| CallFailed { error, not_sent: false, broken: false };
        if call.name != tool.name {
            return Err(failed(ToolError::Unknown(call.name.clone())));
        }
        let arguments = arguments::in_order(&tool.parameters, &call.arguments).map_err(failed)?;
        let call = litemcp::ToolCall { tool: tool.name, arguments, version: VERSION };
        Ok(arguments::output(self.forward(call).await?))
    }

    /// Forwards a call unchanged.
    pub(super) async fn forward(&self, call: litemcp::ToolCall) -> Result<CallResult, CallFailed> {
        match &self.0.transport {
            Transport::Http(address) => address.call(&call).await,
            Transport::Frames(connection) => call_over_frames(connection, call).await,
        }
    }

    /// Returns the last known description of the tool.
    pub(super) fn to_wire(&self) -> litemcp::Tool {
        self.known(|k| k.tool.clone())
    }

    /// Waits until the connection is closed; never returns over HTTP, which has no connection.
    pub(crate) async fn gone(&self) {
        match &self.0.transport {
            Transport::Frames(connection) => connection.gone().await,
            Transport::Http(_) => std::future::pending().await,
        }
    }

    /// Closes the connection gracefully, within a time limit.
    pub(crate) async fn close(self) {
        if let Transport::Frames(connection) = &self.0.transport {
            connection.close().await;
        }
    }
}

/// Requests the description of the tool.
async fn describe_tool(
    transport: &Transport,
    within: Duration,
) -> Result<(litemcp::Tool, Arc<[Tool]>), String> {
    let asking = async {
        match transport {
            Transport::Http(address) => address.tool().await,
            Transport::Frames(connection) => match connection.request(&Body::Get).await {
                Ok(Body::Info(tool)) => Ok(tool),
                Ok(_) => Err("it does not say what tool it is: is it LiteMCP?".into()),
                Err(error) => Err(error.to_string()),
            },
        }
    };
    let described = timeout(within, asking).await;
    let described = described.unwrap_or_else(|_| {
        Err(format!("it did not say what tool it is within {} s", within.as_secs_f32()))
    })?;
    let tools = within_limits(&described.name, [arguments::tool(&described)?]);
    if tools.is_empty() {
        return Err("the name or the parameters of its tool are too long".into());
    }
    Ok((described, tools.into()))
}

/// Calls the tool over frames.
async fn call_over_frames(
    connection: &FrameConnection,
    call: litemcp::ToolCall,
) -> Result<CallResult, CallFailed> {
    let unanswered = match connection.request(&Body::Call(call)).await {
        Ok(Body::Result(result)) => return Ok(result),
        Ok(_) => RequestError::Unreadable("it is not a result".into()),
        Err(unanswered) => unanswered,
    };
    let never_left = unanswered == RequestError::NeverLeft;
    let broken = never_left || unanswered == RequestError::Lost;
    let why = unanswered.to_string();
    let error = if broken { ToolError::Unavailable(why) } else { ToolError::Failed(why) };
    Err(CallFailed { error, not_sent: never_left, broken })
}
