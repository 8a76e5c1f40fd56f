//! WebSocket connections to providers: opening, sending and receiving within deadlines, and the
//! meaning of their errors. Not for any provider's messages, nor for pooling.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use hearken_base::Secret;
use hearken_outbound::{http, websocket};
use hearken_ports::{ProviderError, ProviderErrorKind};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// One WebSocket connection to a provider.
pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Maximum size of a provider's message, in bytes: two minutes of 16-bit audio at 24 kHz fit.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// Address of a provider's WebSocket, and its time limits.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    /// Provider name in errors.
    pub(super) provider: &'static str,
    /// URL with `ws://` or `wss://`.
    pub(super) url: String,
    /// Bearer token; empty sends none.
    pub(super) api_key: Secret,
    /// Time limit for a connection, including its handshake.
    pub(super) connect_timeout: Duration,
    /// Time limit for sending one message.
    pub(super) send_timeout: Duration,
}

/// Message with content. Pings, pongs and closes are handled here.
#[derive(Debug)]
pub(super) enum Incoming {
    /// Usually JSON.
    Text(Utf8Bytes),
    /// Usually audio.
    Binary(Bytes),
}

impl Endpoint {
    /// Opens a connection.
    pub(super) async fn connect(&self) -> Result<Socket, ProviderError> {
        hearken_outbound::tls::choose_provider();
        let mut request = self.url.as_str().into_client_request().map_err(|e| self.error(e))?;
        if !self.api_key.is_empty() {
            let bearer = http::bearer(&self.api_key)
                .map_err(|e| self.failed(ProviderErrorKind::Unauthorized, e))?;
            request.headers_mut().insert("authorization", bearer);
        }
        let config = websocket::limited(MAX_MESSAGE_BYTES);
        let opening = connect_async_with_config(request, Some(config), true);
        match timeout(self.connect_timeout, Box::pin(opening)).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(e)) => Err(self.error(e)),
            Err(_) => Err(self.timed_out("no connection within its deadline")),
        }
    }

    /// Sends one message.
    pub(super) async fn send(
        &self,
        socket: &mut Socket,
        message: Message,
    ) -> Result<(), ProviderError> {
        match timeout(self.send_timeout, socket.send(message)).await {
            Ok(sent) => sent.map_err(|e| self.error(e)),
            Err(_) => Err(self.timed_out("a message was not accepted within its deadline")),
        }
    }

    /// Waits for the next message until `deadline`; `missing` describes the missing message.
    pub(super) async fn receive(
        &self,
        socket: &mut Socket,
        deadline: Instant,
        missing: &'static str,
    ) -> Result<Incoming, ProviderError> {
        loop {
            match timeout_at(deadline, socket.next()).await {
                Err(_) => return Err(self.timed_out(missing)),
                Ok(message) => {
                    if let Some(incoming) = self.sort(message)? {
                        return Ok(incoming);
                    }
                }
            }
        }
    }

    /// Sends a ping, and waits for its answer until `deadline`. Returns a message that arrives
    /// before it.
    pub(super) async fn receive_or_pong(
        &self,
        socket: &mut Socket,
        deadline: Instant,
        missing: &'static str,
    ) -> Result<Option<Incoming>, ProviderError> {
        self.send(socket, Message::Ping(Bytes::new())).await?;
        loop {
            match timeout_at(deadline, socket.next()).await {
                Err(_) => return Err(self.timed_out(missing)),
                Ok(Some(Ok(Message::Pong(_)))) => return Ok(None),
                Ok(message) => {
                    if let Some(incoming) = self.sort(message)? {
                        return Ok(Some(incoming));
                    }
                }
            }
        }
    }

    /// Returns a message that has already arrived, without waiting.
    pub(super) fn take_ready(
        &self,
        socket: &mut Socket,
    ) -> Result<Option<Incoming>, ProviderError> {
        while let Some(message) = socket.next().now_or_never() {
            if let Some(incoming) = self.sort(message)? {
                return Ok(Some(incoming));
            }
        }
        Ok(None)
    }

    /// Opens a connection and waits for the answer to a ping.
    pub(super) async fn probe(&self) -> Result<Socket, ProviderError> {
        let mut socket = self.connect().await?;
        let deadline = Instant::now() + self.connect_timeout;
        let missing = "a ping was not answered within its deadline";
        while self.receive_or_pong(&mut socket, deadline, missing).await?.is_some() {}
        Ok(socket)
    }

    /// Classifies a message: content, irrelevant, or the end of the connection.
    fn sort(
        &self,
        message: Option<Result<Message, Error>>,
    ) -> Result<Option<Incoming>, ProviderError> {
        match message {
            Some(Ok(Message::Text(text))) => Ok(Some(Incoming::Text(text))),
            Some(Ok(Message::Binary(bytes))) => Ok(Some(Incoming::Binary(bytes))),
            Some(Ok(Message::Close(frame))) => Err(self.closed(frame)),
            Some(Ok(_)) => Ok(None),
            Some(Err(e)) => Err(self.error(e)),
            None => Err(self.closed(None)),
        }
    }

    fn closed(&self, frame: Option<CloseFrame>) -> ProviderError {
        let why = match frame {
            Some(frame) => format!("closed the connection with code {}", u16::from(frame.code)),
            None => "closed the connection".into(),
        };
        self.failed(ProviderErrorKind::Unavailable, why)
    }

    /// Builds the error for a deadline that has passed.
    pub(super) fn timed_out(&self, what: &'static str) -> ProviderError {
        self.failed(ProviderErrorKind::Timeout, what)
    }

    /// Builds the error for a protocol violation.
    pub(super) fn violated(&self, what: impl Into<hearken_ports::BoxError>) -> ProviderError {
        self.failed(ProviderErrorKind::Protocol, what)
    }

    /// Builds an error of this kind.
    pub(super) fn failed(
        &self,
        kind: ProviderErrorKind,
        what: impl Into<hearken_ports::BoxError>,
    ) -> ProviderError {
        ProviderError::because(self.provider, kind, what)
    }

    /// Converts an error of the connection.
    fn error(&self, error: Error) -> ProviderError {
        use ProviderErrorKind::{BadRequest, Protocol, Timeout, Unavailable};
        let kind = match &error {
            Error::Http(response) => {
                let wait = http::retry_after(response.headers());
                return ProviderError::because(
                    self.provider,
                    http::kind_of(response.status()),
                    error,
                )
                .retry_after(wait);
            }
            Error::Io(e) if e.kind() == std::io::ErrorKind::TimedOut => Timeout,
            Error::Protocol(
                ProtocolError::ResetWithoutClosingHandshake
                | ProtocolError::HandshakeIncomplete
                | ProtocolError::SendAfterClosing
                | ProtocolError::ReceivedAfterClosing,
            )
            | Error::Io(_)
            | Error::Tls(_)
            | Error::ConnectionClosed
            | Error::AlreadyClosed => Unavailable,
            Error::Url(_) => BadRequest,
            _ => Protocol,
        };
        self.failed(kind, error)
    }
}
