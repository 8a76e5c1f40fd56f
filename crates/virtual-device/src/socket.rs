//! One virtual device on a real socket, in real time. Not for the decisions of the device, which
//! are in [`super::firmware`].

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt as _, Sink as _, SinkExt as _, Stream as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, header};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::clock::Drift;
use super::firmware::{Event, Firmware};
use super::observer::Observer;
use super::profile::{CLIENT_ID, DEVICE_ID};
use super::report::Report;
use super::virtual_device::{LinkAction, VirtualDevice};

/// Timeout of the handshake, as in firmware; also used for sending.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);

/// Address and identity of a device's connection.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `ws://` or `wss://` address of the device endpoint.
    pub url: String,
    /// MAC address, lower case with colons.
    pub device_id: String,
    /// UUID.
    pub client_id: String,
    /// Bearer token, if any.
    pub token: Option<String>,
    /// Version of the binary framing: 1, 2 or 3.
    pub framing: u32,
}

impl Endpoint {
    /// Creates the endpoint at this `ws://` or `wss://` address, for a device without a token that
    /// uses framing 1 and the default ids.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            device_id: DEVICE_ID.to_owned(),
            client_id: CLIENT_ID.to_owned(),
            token: None,
            framing: 1,
        }
    }
}

/// Reason why a device cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The address or an id cannot be used.
    #[error("cannot use `{what}`: {reason}")]
    Address {
        /// The address or header value.
        what: String,
        /// Description of the error.
        reason: String,
    },
    /// There is no server at the address.
    #[error("no server at {url} ({reason}): is it running? start it with scripts/run")]
    Refused {
        /// The address.
        url: String,
        /// Error of the system.
        reason: String,
    },
    /// The server refused the device.
    #[error("{url} refused the device with HTTP status {status}: check the path and the token")]
    Status {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The handshake failed for another reason.
    #[error("no WebSocket at {url}: {reason}")]
    Handshake {
        /// The address.
        url: String,
        /// Description of the failure.
        reason: String,
    },
}

type Uploading = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Device with its socket and its observer.
pub struct Device<W = Report> {
    /// Boxed to keep the containing types small.
    device: Box<VirtualDevice<W>>,
    endpoint: Endpoint,
    /// Additional headers of the handshake, besides those of firmware.
    headers: Vec<(String, String)>,
    socket: Option<Socket>,
    /// Time since which the socket accepts no data.
    blocked: Option<Instant>,
    /// Upload of the camera's picture in progress.
    upload: Option<Uploading>,
    epoch: Instant,
}

impl Device {
    /// Creates a device that is switched on now and not connected, with a report of everything.
    pub fn new(endpoint: Endpoint, firmware: Firmware) -> Self {
        Self::with_observer(endpoint, firmware, Report::default(), Drift::default())
    }

    /// Ends the device and returns its report. Drops the socket, as firmware does.
    pub fn into_report(self) -> Report {
        self.device.into_observer()
    }

    /// Marks the current time as the end of the person's speech.
    pub fn mark_speech_end(&mut self) {
        let now = self.now();
        self.device.observer_mut().speech_end = Some(now);
    }
}

impl<W: Observer> Device<W> {
    /// Creates a device that is switched on now and not connected, with this observer and clock
    /// drift.
    pub fn with_observer(
        endpoint: Endpoint,
        firmware: Firmware,
        observer: W,
        drift: Drift,
    ) -> Self {
        let device = Box::new(VirtualDevice::new(firmware, observer, drift));
        Self {
            device,
            endpoint,
            headers: Vec::new(),
            socket: None,
            blocked: None,
            upload: None,
            epoch: Instant::now(),
        }
    }

    /// Adds headers to each handshake. They replace those of firmware with the same names.
    #[must_use]
    pub fn with_headers(mut self, headers: Vec<(String, String)>) -> Self {
        self.headers = headers;
        self
    }

    /// Returns the time since the device was switched on.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Returns the rules and the state of the device.
    pub fn firmware(&self) -> &Firmware {
        self.device.firmware()
    }

    /// Returns the observer, with everything observed so far.
    pub fn report(&self) -> &W {
        self.device.observer()
    }

    /// Returns the observer.
    pub fn observer_mut(&mut self) -> &mut W {
        self.device.observer_mut()
    }

    /// Returns true while the socket is open.
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Processes an event now.
    ///
    /// # Errors
    /// Fails if the device had to connect and could not.
    pub async fn handle(&mut self, event: Event) -> Result<(), SocketError> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let wanted = self.device.at(self.now(), event);
            for what in wanted {
                events.extend(self.perform(what).await?);
            }
        }
        Ok(())
    }

    /// Sends a text frame that bypasses the rules of the firmware. Does nothing while not
    /// connected.
    ///
    /// # Errors
    /// Fails if the socket was lost and the device could not reconnect.
    pub async fn send_raw(&mut self, text: String) -> Result<(), SocketError> {
        let message = self.device.raw_text(self.now(), text);
        self.past_the_rules(message).await
    }

    /// Sends an Opus packet that bypasses the rules of the firmware. Does nothing while not
    /// connected.
    ///
    /// # Errors
    /// Fails if the socket was lost and the device could not reconnect.
    pub async fn send_raw_audio(&mut self, opus: Bytes) -> Result<(), SocketError> {
        let message = self.device.raw_audio(self.now(), opus);
        self.past_the_rules(message).await
    }

    async fn past_the_rules(&mut self, message: LinkAction) -> Result<(), SocketError> {
        if let Some(event) = self.perform(message).await? {
            Box::pin(self.handle(event)).await?;
        }
        Ok(())
    }

    /// Runs the device until the deadline, or until `done` returns true.
    ///
    /// # Errors
    /// Fails if the device had to reconnect and could not.
    pub async fn run_until(
        &mut self,
        deadline: Instant,
        done: impl Fn(&W, &Firmware) -> bool,
    ) -> Result<(), SocketError> {
        while !done(self.report(), self.firmware()) {
            let due = self.device.due().map(|at| self.epoch + at);
            let given_up = self.blocked.map(|since| since + SOCKET_TIMEOUT);
            let due = [due, given_up].into_iter().flatten().fold(deadline, Instant::min);
            let blocked = self.blocked.is_some();
            let event = tokio::select! {
                biased;
                event = poll_fn(|cx| poll_event(&mut self.socket, blocked, cx)) => event,
                answer = poll_fn(|cx| poll_upload(&mut self.upload, cx)) => Event::Uploaded(answer),
                () = sleep_until(due) => {
                    let now = Instant::now();
                    if now >= deadline {
                        self.handle(Event::Nothing).await?;
                        return Ok(());
                    }
                    let gone = given_up.is_some_and(|at| at <= now);
                    if gone { Event::SocketClosed } else { Event::Nothing }
                }
            };
            match event {
                Event::SocketClosed => self.hang_up(),
                Event::SocketReady => self.blocked = None,
                _ => {}
            }
            self.handle(event).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, what: LinkAction) -> Result<Option<Event>, SocketError> {
        let message = match what {
            LinkAction::Open => {
                self.socket = Some(Box::pin(connect(&self.endpoint, &self.headers)).await?);
                return Ok(Some(Event::SocketOpen));
            }
            LinkAction::Drop => {
                self.hang_up();
                return Ok(None);
            }
            LinkAction::Upload(upload) => {
                let Endpoint { device_id, client_id, .. } = self.endpoint.clone();
                let sending =
                    async move { super::upload::upload(upload, &device_id, &client_id).await };
                self.upload = Some(Box::pin(sending));
                return Ok(None);
            }
            LinkAction::Text(text) => Message::text(text),
            LinkAction::Binary(frame) => Message::Binary(frame),
        };
        Ok(self.put(message).await)
    }

    fn hang_up(&mut self) {
        self.socket = None;
        self.blocked = None;
    }

    /// Sends a message, and returns an event if the socket was lost or accepts no more data.
    async fn put(&mut self, message: Message) -> Option<Event> {
        let socket = self.socket.as_mut()?;
        let fed = timeout(SOCKET_TIMEOUT, socket.feed(message)).await;
        let flushed = match fed {
            Ok(Ok(())) => socket.flush().now_or_never(),
            _ => Some(Err(tungstenite::Error::ConnectionClosed)),
        };
        match flushed {
            Some(Ok(())) => None,
            Some(Err(_)) => {
                self.hang_up();
                Some(Event::SocketClosed)
            }
            None => {
                self.blocked.get_or_insert_with(Instant::now);
                Some(Event::SocketBlocked)
            }
        }
    }
}

/// Polls the socket for its next event: a message, its end, or that it accepts messages again.
/// Always pending without a socket. Pings are answered without an event: only messages count for
/// the idle rule.
fn poll_event(socket: &mut Option<Socket>, blocked: bool, cx: &mut Context<'_>) -> Poll<Event> {
    let Some(socket) = socket else { return Poll::Pending };
    let mut socket = Pin::new(socket);
    if blocked && let Poll::Ready(flushed) = socket.as_mut().poll_flush(cx) {
        let ready = flushed.map_or(Event::SocketClosed, |()| Event::SocketReady);
        return Poll::Ready(ready);
    }
    loop {
        match ready!(socket.as_mut().poll_next(cx)) {
            Some(Ok(Message::Text(text))) => return Poll::Ready(Event::Text(text.to_string())),
            Some(Ok(Message::Binary(frame))) => return Poll::Ready(Event::Binary(frame)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_)) | Err(_)) | None => {
                return Poll::Ready(Event::SocketClosed);
            }
        }
    }
}

/// Polls the upload in progress. Always pending if there is none.
fn poll_upload(
    upload: &mut Option<Uploading>,
    cx: &mut Context<'_>,
) -> Poll<Result<String, String>> {
    let Some(sending) = upload else { return Poll::Pending };
    let answer = ready!(sending.as_mut().poll(cx));
    *upload = None;
    Poll::Ready(answer)
}

async fn connect(endpoint: &Endpoint, headers: &[(String, String)]) -> Result<Socket, SocketError> {
    hearken_outbound::tls::choose_provider();
    let url = endpoint.url.clone();
    let request = request(endpoint, headers)?;
    // Without Nagle's algorithm, so that the observed times are the server's.
    match timeout(SOCKET_TIMEOUT, connect_async_with_config(request, None, true)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Io(e))) => {
            Err(SocketError::Refused { url, reason: e.to_string() })
        }
        Ok(Err(tungstenite::Error::Http(response))) => {
            Err(SocketError::Status { url, status: response.status().as_u16() })
        }
        Ok(Err(e)) => Err(SocketError::Handshake { url, reason: e.to_string() }),
        Err(_) => Err(SocketError::Refused { url, reason: "no answer within 10 s".into() }),
    }
}

/// Builds the handshake as firmware sends it: `Host` without a port, no origin, no extensions.
fn request(endpoint: &Endpoint, headers: &[(String, String)]) -> Result<Request, SocketError> {
    let bad = |what: &str, reason: String| SocketError::Address { what: what.into(), reason };
    let mut request = endpoint
        .url
        .as_str()
        .into_client_request()
        .map_err(|e| bad(&endpoint.url, e.to_string()))?;
    let host = request.uri().host().unwrap_or_default().to_owned();
    let bearer = endpoint.token.as_deref().filter(|t| !t.is_empty()).map(|token| {
        if token.contains(' ') { token.to_owned() } else { format!("Bearer {token}") }
    });
    let named = [
        (header::HOST, Some(host)),
        (header::AUTHORIZATION, bearer),
        (HeaderName::from_static("protocol-version"), Some(endpoint.framing.to_string())),
        (HeaderName::from_static("device-id"), Some(endpoint.device_id.clone())),
        (HeaderName::from_static("client-id"), Some(endpoint.client_id.clone())),
    ];
    for (name, value) in named {
        let Some(value) = value else { continue };
        let value = HeaderValue::from_str(&value).map_err(|e| bad(name.as_str(), e.to_string()))?;
        request.headers_mut().insert(name, value);
    }
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|e| bad(name, e.to_string()))?;
        let value = HeaderValue::from_str(value).map_err(|e| bad(name, e.to_string()))?;
        request.headers_mut().insert(key, value);
    }
    Ok(request)
}

#[cfg(test)]
mod tests;
