//! Client of a LiteMCP tool: its last known description, and calls with named arguments. Not for
//! reconnecting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use hearken_actors::ports::{Tool, ToolCall, ToolError, ToolOutput};
use hearken_base::Secret;
use hearken_proto::litemcp::{self, Body, CallResult, VERSION};
use tokio::time::timeout;
use url::Url;

use super::exchange::{Exchange, Unanswered};
use super::{arguments, web};
use crate::connection::CallFailed;
use crate::settings::{Server, Way};

/// Transport to the tool.
enum Wire {
    /// Frames over WebSocket or standard streams.
    Frames(Exchange),
    /// Requests over HTTP.
    Http(web::Address),
}

struct Shared {
    wire: Wire,
    /// Last known description of the tool.
    known: Mutex<Known>,
}

struct Known {
    tool: litemcp::Tool,
    tools: Arc<[Tool]>,
    /// True until the list of tools was read for the first time: that call needs no request.
    fresh: bool,
}

/// Connection to a tool that has answered once; clones share it.
#[derive(Clone)]
pub(crate) struct Session(Arc<Shared>);

/// Converts the errors of a stream of frames to text.
pub(super) fn texts<S, E>(stream: S) -> impl Stream<Item = Result<String, String>> + Unpin
where
    S: Stream<Item = Result<String, E>> + Unpin,
    E: std::fmt::Display,
{
    stream.map(|frame| frame.map_err(|error| error.to_string()))
}

/// Connects to the tool at the address of these settings.
pub(super) async fn at_an_address(server: &Server) -> Result<Session, String> {
    let Way::Http { url, headers, bearer } = &server.way else {
        return Err("it has no address".into());
    };
    let headers = web::headers(headers, bearer.as_ref())?;
    let wire = if matches!(url.scheme(), "ws" | "wss") {
        Wire::Frames(web::socket(url, headers).await?)
    } else {
        Wire::Http(web::Address::new(url, headers, server.start_timeout, server.timeout)?)
    };
    Session::open(wire, server.start_timeout).await
}

/// Connects to the tool at this `http(s)` address; its calls may take `timeout`.
pub(super) async fn over_http(
    url: &Url,
    bearer: Option<&Secret>,
    start_within: Duration,
    timeout: Duration,
) -> Result<Session, String> {
    let headers = web::headers(&[], bearer)?;
    let address = web::Address::new(url, headers, start_within, timeout)?;
    Session::open(Wire::Http(address), start_within).await
}

/// Connects to the tool of these settings over frames.
pub(super) async fn over(exchange: Exchange, server: &Server) -> Result<Session, String> {
    Session::open(Wire::Frames(exchange), server.start_timeout).await
}

impl Session {
    async fn open(wire: Wire, within: Duration) -> Result<Self, String> {
        let (tool, tools) = ask_what(&wire, within).await?;
        let known = Mutex::new(Known { tool, tools, fresh: true });
        Ok(Self(Arc::new(Shared { wire, known })))
    }

    fn known<T>(&self, of: impl FnOnce(&mut Known) -> T) -> T {
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
        let (tool, tools) = ask_what(&self.0.wire, within).await?;
        self.known(|k| *k = Known { tool, tools: Arc::clone(&tools), fresh: false });
        Ok(tools)
    }

    /// Calls the tool. The protocol cannot cancel a call: after the future is dropped, the result
    /// is ignored.
    pub(crate) async fn call(&self, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        let tool = self.to_wire();
        let failed = |error| CallFailed { error, never_left: false, broken: false };
        if call.name != tool.name {
            return Err(failed(ToolError::Unknown(call.name.clone())));
        }
        let arguments = arguments::in_order(&tool.parameters, &call.arguments).map_err(failed)?;
        let call = litemcp::ToolCall { tool: tool.name, arguments, version: VERSION };
        Ok(arguments::output(self.pass(call).await?))
    }

    /// Forwards a call unchanged.
    pub(super) async fn pass(&self, call: litemcp::ToolCall) -> Result<CallResult, CallFailed> {
        match &self.0.wire {
            Wire::Http(address) => address.call(&call).await,
            Wire::Frames(exchange) => carried(exchange, call).await,
        }
    }

    /// Returns the last known description of the tool.
    pub(super) fn to_wire(&self) -> litemcp::Tool {
        self.known(|k| k.tool.clone())
    }

    /// Waits until the connection is closed; never returns over HTTP, which has no connection.
    pub(crate) async fn gone(&self) {
        match &self.0.wire {
            Wire::Frames(exchange) => exchange.gone().await,
            Wire::Http(_) => std::future::pending().await,
        }
    }

    /// Closes the connection gracefully, within a time limit.
    pub(crate) async fn close(self) {
        if let Wire::Frames(exchange) = &self.0.wire {
            exchange.close().await;
        }
    }
}

/// Requests the description of the tool.
async fn ask_what(wire: &Wire, within: Duration) -> Result<(litemcp::Tool, Arc<[Tool]>), String> {
    let asking = async {
        match wire {
            Wire::Http(address) => address.tool().await,
            Wire::Frames(exchange) => match exchange.ask(&Body::Get).await {
                Ok(Body::Info(tool)) => Ok(tool),
                Ok(_) => Err("it does not say what tool it is: is it LiteMCP?".into()),
                Err(error) => Err(error.to_string()),
            },
        }
    };
    let told = timeout(within, asking).await;
    let told = told.unwrap_or_else(|_| {
        Err(format!("it did not say what tool it is within {} s", within.as_secs_f32()))
    })?;
    let tools = [arguments::tool(&told)?].into();
    Ok((told, tools))
}

/// Calls the tool over frames.
async fn carried(exchange: &Exchange, call: litemcp::ToolCall) -> Result<CallResult, CallFailed> {
    let unanswered = match exchange.ask(&Body::Call(call)).await {
        Ok(Body::Result(result)) => return Ok(result),
        Ok(_) => Unanswered::Unreadable("it is no result".into()),
        Err(unanswered) => unanswered,
    };
    let never_left = unanswered == Unanswered::NeverLeft;
    let broken = never_left || unanswered == Unanswered::Lost;
    let why = unanswered.to_string();
    let error = if broken { ToolError::Unavailable(why) } else { ToolError::Failed(why) };
    Err(CallFailed { error, never_left, broken })
}
