//! The WebSocket to a gateway: connecting, sending, receiving, and what goes wrong with it in
//! words for people. Not for what messages mean.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use hearken_base::websocket;
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

/// Longest wait for a connection, and for a message to be accepted.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);
/// Gateways ping every 30 s and give up on us after 300 s; so do we.
const SILENCE: Duration = Duration::from_secs(300);
/// Longest wait for the end of a connection that the server closes.
const FAREWELL: Duration = Duration::from_secs(1);
/// The close code of a server that has no room.
const TRY_AGAIN_LATER: u16 = 1013;

/// A connection to a gateway.
pub(super) struct Gateway {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    url: String,
    /// When anything came last, pings too.
    heard: Instant,
}

impl Gateway {
    /// Connects to this address; one without a scheme is taken for `ws://`. A token is shown
    /// where there is one.
    ///
    /// # Errors
    /// Nobody listens there, or lets us in, or it is no WebSocket.
    pub(super) async fn connect(url: &str, token: Option<&str>) -> anyhow::Result<Self> {
        let url = if url.contains("://") { url.to_owned() } else { format!("ws://{url}") };
        let request = request(&url, token)?;
        let connecting = Box::pin(connect_async_with_config(request, None, true));
        let socket = match timeout(SOCKET_TIMEOUT, connecting).await {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(Error::Io(error))) => return Err(nobody(&url, &error.to_string())),
            Ok(Err(Error::Http(answer))) if answer.status() == StatusCode::UNAUTHORIZED => {
                bail!("{url} wants a token, or another one: --token TOKEN")
            }
            Ok(Err(Error::Http(answer))) => {
                let status = answer.status();
                bail!("{url} answers with HTTP status {status}: is that an LLM gateway's address?")
            }
            Ok(Err(error)) => bail!("no WebSocket at {url}: {error} (use ws://HOST:PORT)"),
            Err(_) => return Err(nobody(&url, "no answer within 10 s")),
        };
        Ok(Self { socket, url, heard: Instant::now() })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let sending = self.socket.send(Message::text(message.to_string()));
        let sent = timeout(SOCKET_TIMEOUT, sending).await;
        sent.map_err(|_| anyhow!("{} takes nothing any more", self.url))?
            .with_context(|| format!("lost the connection to {}", self.url))
    }

    /// The next text message; may be dropped and asked again.
    ///
    /// # Errors
    /// The connection is closed or lost, or nothing came for long.
    pub(super) async fn next(&mut self) -> anyhow::Result<String> {
        loop {
            let Ok(message) = timeout_at(self.heard + SILENCE, self.socket.next()).await else {
                bail!("{} is silent for {} s", self.url, SILENCE.as_secs())
            };
            self.heard = Instant::now();
            match message {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Binary(_))) => {
                    bail!("{} sends binary frames: that is no LLM gateway", self.url)
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    // Answers it.
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
                anyhow!("{url} has no room for more connections: try again later")
            }
            Some(frame) => {
                let (code, reason) = (u16::from(frame.code), frame.reason);
                anyhow!("{url} closed the connection (code {code}, {reason:?})")
            }
            None => anyhow!("{url} closed the connection"),
        }
    }

    /// Says goodbye. Where the other side does not answer that, it is gone all the same.
    pub(super) async fn close(self) {
        websocket::end(self.socket, websocket::because(CloseCode::Normal, "")).await;
    }
}

fn request(url: &str, token: Option<&str>) -> anyhow::Result<Request> {
    let request = url.into_client_request();
    let mut request = request.map_err(|e| anyhow!("{url} is no address: {e}"))?;
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        let bearer = HeaderValue::try_from(format!("Bearer {token}"));
        let bearer = bearer.context("--token has characters that no token has")?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    Ok(request)
}

fn nobody(url: &str, reason: &str) -> anyhow::Error {
    anyhow!("no gateway at {url} ({reason}): is the server running? start it with `hearken serve`")
}
