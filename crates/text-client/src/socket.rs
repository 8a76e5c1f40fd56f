//! WebSocket connection to a gateway: connecting, sending, receiving, and errors as text for
//! people. Not for the contents of messages.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use hearken_outbound::websocket;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// Maximum wait for a connection, and for a message to be accepted.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time without any data: gateways ping every 30 s and disconnect a silent client after 300
/// s.
const SILENCE: Duration = Duration::from_secs(300);
/// Maximum wait for the end of a connection that the server closes.
const FAREWELL: Duration = Duration::from_secs(1);
/// Close code of a server that has reached its limit of connections.
const TRY_AGAIN_LATER: u16 = 1013;

/// Connection to a gateway.
pub(super) struct Gateway {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    url: String,
    /// Time of the last received data, including pings.
    heard: Instant,
}

impl Gateway {
    /// Connects to this address, with `ws://` if it has no scheme, and sends the token, if any.
    ///
    /// # Errors
    /// Fails if there is no server, it refuses the connection, or it is not a WebSocket.
    pub(super) async fn connect(url: &str, token: Option<&str>) -> anyhow::Result<Self> {
        let url = if url.contains("://") { url.to_owned() } else { format!("ws://{url}") };
        let request = request(&url, token)?;
        let connecting = Box::pin(connect_async_with_config(request, None, true));
        let socket = match timeout(SOCKET_TIMEOUT, connecting).await {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(Error::Io(error))) => return Err(nobody(&url, &error.to_string())),
            Ok(Err(Error::Http(answer))) if answer.status() == StatusCode::UNAUTHORIZED => {
                bail!("{url} refused the token, or needs one: use --token TOKEN")
            }
            Ok(Err(Error::Http(answer))) => {
                let status = answer.status();
                bail!(
                    "{url} answered with HTTP status {status}: is it the address of a text gateway?"
                )
            }
            Ok(Err(error)) => bail!("no WebSocket at {url}: {error} (use ws://HOST:PORT)"),
            Err(_) => return Err(nobody(&url, "no answer within 10 s")),
        };
        Ok(Self { socket, url, heard: Instant::now() })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub(super) async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let sending = self.socket.send(Message::text(message.to_string()));
        let sent = timeout(SOCKET_TIMEOUT, sending).await;
        sent.map_err(|_| anyhow!("{} accepts no more data", self.url))?
            .with_context(|| format!("lost the connection to {}", self.url))
    }

    /// Returns the next text message. Cancel-safe.
    ///
    /// # Errors
    /// Fails if the connection is closed or lost, or nothing was received for too long.
    pub(super) async fn next(&mut self) -> anyhow::Result<String> {
        loop {
            let Ok(message) = timeout_at(self.heard + SILENCE, self.socket.next()).await else {
                bail!("{} sent nothing for {} s", self.url, SILENCE.as_secs())
            };
            self.heard = Instant::now();
            match message {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Binary(_))) => {
                    bail!("{} sent a binary frame: is it the address of a text gateway?", self.url)
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    // Replies to the close frame.
                    timeout(FAREWELL, self.socket.next()).await.ok();
                    return Err(self.closed(frame));
                }
                Some(Err(error)) => {
                    let lost = format!("lost the connection to {}", self.url);
                    return Err(error).context(lost);
                }
                None => return Err(self.closed(None)),
            }
        }
    }

    fn closed(&self, frame: Option<CloseFrame>) -> anyhow::Error {
        let url = &self.url;
        match frame {
            Some(frame) if u16::from(frame.code) == TRY_AGAIN_LATER => {
                anyhow!("{url} has reached its limit of connections: try again later")
            }
            Some(frame) => {
                let code = u16::from(frame.code);
                let reason = frame.reason;
                anyhow!("{url} closed the connection (code {code}, {reason:?})")
            }
            None => anyhow!("{url} closed the connection"),
        }
    }

    /// Closes the connection. A missing answer of the other side is ignored.
    pub(super) async fn close(self) {
        websocket::end(self.socket, websocket::because(CloseCode::Normal, "")).await;
    }
}

fn request(url: &str, token: Option<&str>) -> anyhow::Result<Request> {
    let request = url.into_client_request();
    let mut request = request.map_err(|e| anyhow!("{url} is not a WebSocket address: {e}"))?;
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        let bearer = HeaderValue::try_from(format!("Bearer {token}"));
        let bearer = bearer.context("--token contains characters that a header cannot contain")?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    Ok(request)
}

fn nobody(url: &str, reason: &str) -> anyhow::Error {
    anyhow!("no gateway at {url} ({reason}): is the server running? start it with `hearken serve`")
}
