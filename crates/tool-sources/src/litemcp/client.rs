//! A LiteMCP tool that we can call: what it last said of itself, and calls by names. Not for what
//! happens when its connection breaks.

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

/// How the tool is asked.
enum Wire {
    /// Over frames.
    Frames(Exchange),
    /// Over HTTP.
    Http(web::Address),
}

struct Shared {
    wire: Wire,
    /// As it last said.
    known: Mutex<Known>,
}

struct Known {
    tool: litemcp::Tool,
    tools: Arc<[Tool]>,
    /// Nobody was told of it yet.
    fresh: bool,
}

/// A tool whose first answer has come; clones share the connection.
#[derive(Clone)]
pub(crate) struct Session(Arc<Shared>);

/// A stream of frames whose errors are told in words.
pub(super) fn texts<S, E>(stream: S) -> impl Stream<Item = Result<String, String>> + Unpin
where
    S: Stream<Item = Result<String, E>> + Unpin,
    E: std::fmt::Display,
{
    stream.map(|frame| frame.map_err(|error| error.to_string()))
}

/// Reaches the tool of these settings at its address.
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

/// Reaches the tool at this `http(s)` address, whose calls may take as long.
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

/// Reaches the tool of these settings over frames.
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

    /// Both are the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The version of the protocol that is spoken.
    pub(crate) fn protocol(&self) -> String {
        format!("LiteMCP {VERSION}")
    }

    /// The tool, alone in a list.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(crate) async fn tools(&self, within: Duration) -> Result<Arc<[Tool]>, String> {
        let fresh = self.known(|k| std::mem::take(&mut k.fresh).then(|| Arc::clone(&k.tools)));
        if let Some(tools) = fresh {
            return Ok(tools);
        }
        let (tool, tools) = ask_what(&self.0.wire, within).await?;
        self.known(|k| *k = Known { tool, tools: Arc::clone(&tools), fresh: false });
        Ok(tools)
    }

    /// Calls the tool. The protocol cannot end a call: whoever gives it up just hears no more.
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

    /// Passes a call on as it is.
    pub(super) async fn pass(&self, call: litemcp::ToolCall) -> Result<CallResult, CallFailed> {
        match &self.0.wire {
            Wire::Http(address) => address.call(&call).await,
            Wire::Frames(exchange) => carried(exchange, call).await,
        }
    }

    /// What the tool last said of itself.
    pub(super) fn to_wire(&self) -> litemcp::Tool {
        self.known(|k| k.tool.clone())
    }

    /// Ends when the connection is gone; over HTTP there is none.
    pub(crate) async fn gone(&self) {
        match &self.0.wire {
            Wire::Frames(exchange) => exchange.gone().await,
            Wire::Http(_) => std::future::pending().await,
        }
    }

    /// Closes in order, within bounds.
    pub(crate) async fn close(self) {
        if let Wire::Frames(exchange) = &self.0.wire {
            exchange.close().await;
        }
    }
}

/// Asks the tool what it is.
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
