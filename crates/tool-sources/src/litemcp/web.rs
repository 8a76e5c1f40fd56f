//! Client for LiteMCP over the network: headers of every request, WebSocket, and HTTP, with one
//! HTTP request per message. Not for the contents of requests.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _, future};
use hearken_base::Secret;
use hearken_outbound::{http as wire, websocket};
use hearken_ports::ToolError;
use hearken_proto::json::{NotParsed, weighed_within};
use hearken_proto::litemcp::{CallResult, TOKEN_HEADERS, Tool, ToolCall, VERSION, Version};
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_tungstenite::connect_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use url::Url;

use super::MAX_MESSAGE_BYTES;
use super::frame_connection::FrameConnection;
use crate::connection::CallFailed;
use crate::jsonrpc_repair::MAX_WEIGHT_CONFIGURED;
use crate::mapping::{short, transport_reason};

/// Name of the provider in errors.
const PROVIDER: &str = "litemcp";

/// Builds the headers of every request: those of the settings, and the token under both header
/// names of the document, unless the settings contain a header of that name.
pub(super) fn headers(
    given: &[(HeaderName, HeaderValue)],
    bearer: Option<&Secret>,
) -> Result<HeaderMap, String> {
    let mut all: HeaderMap = given.iter().cloned().collect();
    if let Some(bearer) = bearer {
        let value = wire::bearer(bearer).map_err(|_| "the token cannot be sent".to_owned())?;
        for name in TOKEN_HEADERS {
            let name = HeaderName::from_static(name);
            all.entry(name).or_insert_with(|| value.clone());
        }
    }
    Ok(all)
}

/// Opens a WebSocket.
pub(super) async fn socket(url: &Url, headers: HeaderMap) -> Result<FrameConnection, String> {
    hearken_outbound::tls::choose_provider();
    let mut request = url.as_str().into_client_request().map_err(|e| reason(&e))?;
    request.headers_mut().extend(headers);
    let config = websocket::limited(MAX_MESSAGE_BYTES);
    let opening = connect_async_with_config(request, Some(config), true);
    let (socket, _) = Box::pin(opening).await.map_err(|e| reason(&e))?;
    let (sink, frames) = socket.split();
    let sink = sink.with(|text: String| future::ready(Ok::<_, Error>(Message::text(text))));
    let frames = frames.filter_map(|frame| {
        future::ready(match frame {
            Ok(Message::Text(text)) => Some(Ok(text.to_string())),
            Ok(Message::Binary(bytes)) => Some(Ok(String::from_utf8_lossy(&bytes).into_owned())),
            // Pings are answered below; after a close the stream ends.
            Ok(_) => None,
            Err(error) => Some(Err(reason(&error))),
        })
    });
    Ok(FrameConnection::new(sink, frames))
}

/// Renders the reason of a failed WebSocket, without its address, which may contain a key.
fn reason(error: &Error) -> String {
    match error {
        Error::Http(response) => refusal_of(response.status()),
        Error::Url(_) => "its address cannot be used".into(),
        other => short(&other.to_string()),
    }
}

fn refusal_of(status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!("it does not let us in (status {status}): check the token and headers")
        }
        status => format!("it answered with status {status}"),
    }
}

/// Address of a tool that is called over HTTP.
pub(super) struct HttpTool {
    client: reqwest::Client,
    url: Url,
    timeout: Duration,
}

impl HttpTool {
    /// Creates a client whose requests may take `timeout`.
    pub(super) fn new(
        url: &Url,
        headers: HeaderMap,
        connect_within: Duration,
        timeout: Duration,
    ) -> Result<Self, String> {
        let client = wire::builder(url, connect_within)
            .redirect(hearken_outbound::http::within_origin())
            .default_headers(headers)
            .build()
            .map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(Self { client, url: url.clone(), timeout })
    }

    /// Requests the description of the tool.
    pub(super) async fn tool(&self) -> Result<Tool, String> {
        let failed = |failed: CallFailed| match failed.error {
            ToolError::Unavailable(reason) | ToolError::Failed(reason) => reason,
            other => other.to_string(),
        };
        let (status, body) = self.send(self.client.get(self.url.clone())).await.map_err(failed)?;
        if !status.is_success() {
            return Err(refusal_of(status));
        }
        let tool: Tool = match read(&body) {
            Ok(tool) => tool,
            Err(NotParsed::TooHeavy(heavy)) => return Err(format!("its description {heavy}")),
            Err(NotParsed::NotJson(_)) => {
                return Err("it does not say what tool it is: is it LiteMCP?".into());
            }
        };
        if tool.version.is_ours() { Ok(tool) } else { Err(foreign(tool.version)) }
    }

    /// Calls the tool. A result is valid with any HTTP status.
    pub(super) async fn call(&self, call: &ToolCall) -> Result<CallResult, CallFailed> {
        let (status, body) = self.send(self.client.post(self.url.clone()).json(call)).await?;
        let failed = |error| CallFailed { error, not_sent: false, broken: false };
        match read::<CallResult>(&body) {
            Ok(result) if result.version.is_ours() => Ok(result),
            Ok(result) => Err(failed(ToolError::Failed(foreign(result.version)))),
            Err(NotParsed::TooHeavy(heavy)) => {
                Err(failed(ToolError::Failed(format!("the tool's answer {heavy}"))))
            }
            Err(NotParsed::NotJson(_)) if status.is_success() => {
                Err(failed(ToolError::Failed("cannot read the tool's answer".into())))
            }
            Err(NotParsed::NotJson(_)) => {
                let why = refusal_of(status);
                let away = status.is_server_error() || status == StatusCode::NOT_FOUND;
                let error = if away { ToolError::Unavailable(why) } else { ToolError::Failed(why) };
                // Triggers a check that the tool still exists and accepts us.
                Err(CallFailed { broken: true, ..failed(error) })
            }
        }
    }

    /// Sends a request. The caller must limit the time until the response's headers.
    async fn send(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<(StatusCode, Vec<u8>), CallFailed> {
        let until = Instant::now() + self.timeout;
        let response = request.send().await.map_err(|error| CallFailed {
            not_sent: error.is_connect(),
            broken: true,
            error: ToolError::Unavailable(transport_reason(&error)),
        })?;
        let status = response.status();
        let body = wire::body(PROVIDER, response, MAX_MESSAGE_BYTES, until).await;
        let body = body.map_err(|error| {
            let error = ToolError::Failed(short(&error.to_string()));
            CallFailed { error, not_sent: false, broken: true }
        })?;
        Ok((status, body))
    }
}

fn foreign(version: Version) -> String {
    format!("incompatible LiteMCP version {version}: this server supports {VERSION}")
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, NotParsed> {
    weighed_within(body, MAX_WEIGHT_CONFIGURED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_answer_is_not_parsed() {
        let items = vec!["[]"; MAX_WEIGHT_CONFIGURED / 64].join(",");
        let result = format!(r#"{{"response": {{"content": [], "odd": [{items}]}}}}"#);
        let tool = format!(r#"{{"name": "t", "parameters": [], "odd": [{items}]}}"#);
        let heavy = |error: NotParsed| matches!(error, NotParsed::TooHeavy(_));
        assert!(read::<CallResult>(result.as_bytes()).is_err_and(heavy));
        assert!(read::<Tool>(tool.as_bytes()).is_err_and(heavy));
        let large = format!(r#"{{"response": {{"content": [{{"data": "{items}"}}]}}}}"#);
        assert!(read::<CallResult>(large.as_bytes()).is_ok(), "a long text is not heavy");
    }
}
