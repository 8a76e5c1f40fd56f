//! Server that offers one of our tools to LiteMCP peers: requests in, responses out, over any
//! transport of text. Not for sockets, nor for access control.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hearken_base::Secret;
use hearken_dialogue::tools::schema::Schema;
use hearken_ports as ports;
use hearken_ports::{Tool, ToolError, ToolSource};
use hearken_proto::DecodeError;
use hearken_proto::json::LONG_TEXT;
use hearken_proto::litemcp::{self, Body, CallResult, Envelope, ToolCall, VERSION};
use hearken_socket::HeldText;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, FramedWrite};
use url::Url;

use super::client::{self, LiteMcpConnection};
use super::frames::{Frames, FramesError};
use super::{MAX_MESSAGE_BYTES, arguments};

/// Maximum number of concurrent calls on one connection; further requests wait in its queue.
const CALLS_AT_ONCE: usize = 8;
/// Capacity of the request queue of one connection.
const QUEUE: usize = 64;
/// Number of ids of one connection that are remembered.
const MAX_IDS: usize = 1 << 16;
/// Maximum wait for a connection to a running server.
const START_WITHIN: Duration = Duration::from_secs(10);

/// Tool offered to LiteMCP peers; clones share it.
#[derive(Clone)]
pub struct LiteMcpServer(Source);

#[derive(Clone)]
enum Source {
    /// Tool of this process.
    Local { source: Arc<dyn ToolSource>, name: String },
    /// Tool of a running server.
    Remote { connection: LiteMcpConnection, timeout: Duration },
}

/// Outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    /// Result for the peer, also after an error.
    pub result: CallResult,
    /// Error that prevented an answer of the tool itself.
    pub error: Option<ToolError>,
}

impl LiteMcpServer {
    /// Finds the tool of this name in the first source that has it.
    pub fn find(sources: &[Arc<dyn ToolSource>], name: &str) -> Option<Self> {
        let has = |source: &&Arc<dyn ToolSource>| source.tools().iter().any(|t| t.name == name);
        let source = Arc::clone(sources.iter().find(has)?);
        Some(Self(Source::Local { source, name: name.to_owned() }))
    }

    /// Connects to a tool that a running server offers at this `http(s)` address; its calls may
    /// take `timeout`.
    ///
    /// # Errors
    /// There is no such tool, or the server cannot be reached or refuses access; the error is
    /// human-readable.
    pub async fn connect(
        url: &Url,
        bearer: Option<&Secret>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let connection = client::connect_http(url, bearer, START_WITHIN, timeout).await?;
        Ok(Self(Source::Remote { connection, timeout }))
    }

    /// Returns the description of the tool; `None` if it no longer exists.
    pub fn to_wire(&self) -> Option<litemcp::Tool> {
        match &self.0 {
            Source::Local { source, name } => Some(arguments::to_wire(&tool(source, name)?)),
            Source::Remote { connection, .. } => Some(connection.to_wire()),
        }
    }

    /// Calls the tool, within its time limit. Dropping the future cancels the call as far as its
    /// source allows.
    pub async fn call(&self, call: ToolCall) -> CallOutcome {
        let limit = match &self.0 {
            Source::Local { source, .. } => source.timeout(),
            Source::Remote { timeout, .. } => *timeout,
        };
        let texts = call.arguments.clone();
        match timeout(limit, self.execute(call)).await {
            Ok(outcome) => outcome,
            Err(_) => self.failed(&texts, ToolError::Timeout(limit)),
        }
    }

    async fn execute(&self, call: ToolCall) -> CallOutcome {
        let texts = call.arguments.clone();
        match &self.0 {
            Source::Remote { connection, .. } => match connection.forward(call).await {
                Ok(result) => CallOutcome { result, error: None },
                Err(failed) => self.failed(&texts, failed.error),
            },
            Source::Local { source, name } => {
                let prepared = prepare(source, name, &call);
                let outcome = match prepared {
                    Ok(call) => source.call(call).await,
                    Err(error) => return self.failed(&texts, error),
                };
                let tool = tool(source, name);
                let result = arguments::result(tool.as_ref(), &texts, &outcome);
                CallOutcome { result, error: outcome.err() }
            }
        }
    }

    fn failed(&self, texts: &[String], error: ToolError) -> CallOutcome {
        let tool = match &self.0 {
            Source::Local { source, name } => tool(source, name),
            Source::Remote { .. } => None,
        };
        let outcome = Err(error);
        let result = arguments::result(tool.as_ref(), texts, &outcome);
        CallOutcome { result, error: outcome.err() }
    }

    /// Answers the requests of one connection until it has no more and all are answered. Dropping
    /// the future cancels its calls. A request counts against its connection's budget until its
    /// answer is queued.
    pub async fn serve(
        self,
        mut requests: mpsc::Receiver<HeldText>,
        answers: mpsc::Sender<String>,
    ) {
        let mut ids = Ids::default();
        let mut calls = FuturesUnordered::new();
        let mut open = true;
        while open || !calls.is_empty() {
            let (answer, _held) = tokio::select! {
                text = requests.recv(), if open && calls.len() < CALLS_AT_ONCE => {
                    let Some(text) = text else {
                        open = false;
                        continue;
                    };
                    // No result means that the runtime is ending.
                    let Some((envelope, text)) = decoded(text).await else { return };
                    match self.parse(envelope, &mut ids) {
                        None => continue,
                        Some(ParsedRequest::ResponseBody(answer)) => (answer, text),
                        Some(ParsedRequest::Call(id, call)) => {
                            let server = self.clone();
                            calls.push(async move {
                                let result = server.call(call).await.result;
                                (Body::Result(result).encode(id), text)
                            });
                            continue;
                        }
                    }
                },
                Some(answer) = calls.next() => answer,
            };
            if answers.send(answer).await.is_err() {
                return;
            }
        }
    }

    /// Parses the request in an envelope; `None` if it is not a request, or has an id that was used
    /// before.
    fn parse(
        &self,
        envelope: Result<Envelope, DecodeError>,
        ids: &mut Ids,
    ) -> Option<ParsedRequest> {
        let envelope = envelope
            .inspect_err(|error| {
                tracing::debug!(%error, "ignored a frame of a LiteMCP client: not a message");
            })
            .ok()?;
        let id = envelope.id;
        let version = envelope.version;
        if !matches!(envelope.kind.as_str(), "get" | "call") {
            tracing::debug!("ignored a message of a LiteMCP client: not a request");
            return None;
        }
        if !ids.is_new(id) {
            tracing::debug!("ignored a request of a LiteMCP client: its id was used before");
            return None;
        }
        let refused = |why: String| {
            let outcome = self.failed(&[], ToolError::Failed(why));
            Some(ParsedRequest::ResponseBody(Body::Result(outcome.result).encode(id)))
        };
        match envelope.body() {
            // Accepted in any version: the response contains our version, and the client decides.
            Ok(Body::Get) => match self.to_wire() {
                Some(tool) => Some(ParsedRequest::ResponseBody(Body::Info(tool).encode(id))),
                None => refused("the tool is no longer there".into()),
            },
            Ok(_) if !version.is_ours() => {
                refused(format!("the call is of LiteMCP {version}, and this is {VERSION}"))
            }
            Ok(Body::Call(call)) => Some(ParsedRequest::Call(id, call)),
            Ok(Body::Info(_) | Body::Result(_)) => None,
            Err(error) => refused(error.to_string()),
        }
    }

    /// Answers the requests from `input` until it ends.
    ///
    /// # Errors
    /// A stream failed, or a message was too long.
    pub async fn over_streams<R, W>(self, input: R, output: W) -> std::io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut input = FramedRead::new(input, Frames::new(MAX_MESSAGE_BYTES));
        let mut output = FramedWrite::new(output, Frames::new(MAX_MESSAGE_BYTES));
        let (to_server, requests) = mpsc::channel(QUEUE);
        let (answers, mut from_server) = mpsc::channel(QUEUE);
        let reading = async move {
            while let Some(frame) = input.next().await {
                if to_server.send(HeldText::from(frame?)).await.is_err() {
                    break;
                }
            }
            Ok::<_, FramesError>(())
        };
        let writing = async move {
            while let Some(answer) = from_server.recv().await {
                output.send(answer).await?;
            }
            Ok(())
        };
        let serving = async move {
            self.serve(requests, answers).await;
            Ok(())
        };
        match tokio::try_join!(reading, writing, serving) {
            Ok(_) => Ok(()),
            Err(FramesError::Io(error)) => Err(error),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }
}

/// Decodes a message, off the worker threads if it is large. `None` if the runtime is ending.
async fn decoded(text: HeldText) -> Option<(Result<Envelope, DecodeError>, HeldText)> {
    if text.len() < LONG_TEXT {
        return Some((Envelope::decode(&text), text));
    }
    tokio::task::spawn_blocking(move || (Envelope::decode(&text), text)).await.ok()
}

/// Handling of a request.
enum ParsedRequest {
    /// Immediate response.
    ResponseBody(String),
    /// Call, with this id.
    Call(i64, ToolCall),
}

fn tool(source: &Arc<dyn ToolSource>, name: &str) -> Option<Tool> {
    source.tools().iter().find(|t| t.name == name).cloned()
}

/// Converts the call to the source's type, and checks its arguments.
fn prepare(
    source: &Arc<dyn ToolSource>,
    name: &str,
    call: &ToolCall,
) -> Result<ports::ToolCall, ToolError> {
    let tool = tool(source, name).filter(|t| t.name == call.tool);
    let tool = tool.ok_or_else(|| ToolError::Unknown(call.tool.clone()))?;
    let arguments = arguments::by_name(&tool, &call.arguments)?;
    Schema::of_server_tool(&tool.parameters).check(&tool.parameters, &arguments)?;
    Ok(ports::ToolCall { id: uuid::Uuid::new_v4().to_string(), name: tool.name, arguments })
}

/// Ids of one connection; limited to the most recent ones.
#[derive(Default)]
struct Ids {
    used: HashSet<i64>,
    order: VecDeque<i64>,
}

impl Ids {
    /// Records an id. Returns true if it was not used before.
    fn is_new(&mut self, id: i64) -> bool {
        if !self.used.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.used.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_remembered_within_bounds() {
        let mut ids = Ids::default();
        assert!((0..1 << 16).all(|id| ids.is_new(id)));
        assert!(!ids.is_new(0) && !ids.is_new(65_535));
        assert!(ids.is_new(-1));
        assert!(!ids.is_new(1) && ids.is_new(0), "the oldest is forgotten");
        assert_eq!(ids.used.len(), MAX_IDS);
    }
}
