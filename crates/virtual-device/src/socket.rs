//! One virtual device on a real socket, in real time. Not for what the device decides, which is
//! in [`super::firmware`].

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
use super::endpoint_options::{CLIENT_ID, DEVICE_ID};
use super::firmware::{Event, Firmware};
use super::observer::Observer;
use super::report::Report;
use super::virtual_device::{ToWire, VirtualDevice};

/// The firmware's own limit for the handshake; used for sending as well.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a device connects, and as whom.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `ws://` or `wss://` address of the device endpoint.
    pub url: String,
    /// MAC address, lower case with colons.
    pub device_id: String,
    /// UUID.
    pub client_id: String,
    /// Sent as bearer token where present.
    pub token: Option<String>,
    /// Version of the binary framing: 1, 2 or 3.
    pub framing: u32,
}

impl Endpoint {
    /// The device endpoint at this `ws://` or `wss://` address, for a device without a token that
    /// uses framing 1 and ids that are nobody's own.
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

/// Why a device cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The address or an id cannot be used.
    #[error("cannot use `{what}`: {reason}")]
    Address {
        /// The address or header value.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing answers there.
    #[error("no server at {url} ({reason}): is it running? start it with scripts/run")]
    Refused {
        /// The address.
        url: String,
        /// What the system says.
        reason: String,
    },
    /// The server does not take the device.
    #[error("{url} refused the device with HTTP status {status}: check the path and the token")]
    Status {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The handshake went wrong in another way.
    #[error("no WebSocket at {url}: {reason}")]
    Handshake {
        /// The address.
        url: String,
        /// What went wrong.
        reason: String,
    },
}

type Uploading = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A device, its socket and what was seen of it.
pub struct Device<W = Report> {
    /// Boxed, so that what holds a device stays small.
    bench: Box<VirtualDevice<W>>,
    endpoint: Endpoint,
    /// Of the handshake, beside those of firmware.
    headers: Vec<(String, String)>,
    socket: Option<Socket>,
    /// Since when the socket takes nothing more.
    blocked: Option<Instant>,
    /// The camera's picture on its way.
    upload: Option<Uploading>,
    epoch: Instant,
}

impl Device {
    /// A device that is switched on now, not yet connected, of which all is kept.
    pub fn new(endpoint: Endpoint, firmware: Firmware) -> Self {
        Self::watched(endpoint, firmware, Report::default(), Drift::default())
    }

    /// Ends the device and hands out what was seen of it; the socket just drops, as firmware does.
    pub fn into_report(self) -> Report {
        self.bench.into_watcher()
    }

    /// The person stops speaking now.
    pub fn mark_speech_end(&mut self) {
        let now = self.now();
        self.bench.watcher_mut().speech_end = Some(now);
    }
}

impl<W: Observer> Device<W> {
    /// A device that is switched on now, not yet connected, with a watcher and a clock of its own.
    pub fn watched(endpoint: Endpoint, firmware: Firmware, watcher: W, drift: Drift) -> Self {
        let bench = Box::new(VirtualDevice::new(firmware, watcher, drift));
        Self {
            bench,
            endpoint,
            headers: Vec::new(),
            socket: None,
            blocked: None,
            upload: None,
            epoch: Instant::now(),
        }
    }

    /// Sends these headers in each handshake, beside those of firmware or instead of those of their
    /// names.
    #[must_use]
    pub fn with_headers(mut self, headers: Vec<(String, String)>) -> Self {
        self.headers = headers;
        self
    }

    /// Time since the device was switched on.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// The device's rules and state.
    pub fn firmware(&self) -> &Firmware {
        self.bench.firmware()
    }

    /// What was seen so far, as its watcher keeps it.
    pub fn report(&self) -> &W {
        self.bench.watcher()
    }

    /// Who watches.
    pub fn watcher_mut(&mut self) -> &mut W {
        self.bench.watcher_mut()
    }

    /// Whether the socket is open.
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Something happens to the device now.
    ///
    /// # Errors
    /// The device had to connect and could not.
    pub async fn happen(&mut self, event: Event) -> Result<(), SocketError> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let wanted = self.bench.at(self.now(), event);
            for what in wanted {
                events.extend(self.perform(what).await?);
            }
        }
        Ok(())
    }

    /// Sends a text frame past the firmware's rules; nothing happens while not connected.
    ///
    /// # Errors
    /// The socket was lost, and the device could not connect anew.
    pub async fn send_raw(&mut self, text: String) -> Result<(), SocketError> {
        let message = self.bench.raw_text(self.now(), text);
        self.past_the_rules(message).await
    }

    /// Sends an Opus packet past the firmware's rules; nothing happens while not connected.
    ///
    /// # Errors
    /// The socket was lost, and the device could not connect anew.
    pub async fn send_raw_audio(&mut self, opus: Bytes) -> Result<(), SocketError> {
        let message = self.bench.raw_audio(self.now(), opus);
        self.past_the_rules(message).await
    }

    async fn past_the_rules(&mut self, message: ToWire) -> Result<(), SocketError> {
        if let Some(event) = self.perform(message).await? {
            Box::pin(self.happen(event)).await?;
        }
        Ok(())
    }

    /// Lets the device live until the deadline, or until `done` says so of it.
    ///
    /// # Errors
    /// The device had to connect again and could not.
    pub async fn live_until(
        &mut self,
        deadline: Instant,
        done: impl Fn(&W, &Firmware) -> bool,
    ) -> Result<(), SocketError> {
        while !done(self.report(), self.firmware()) {
            let due = self.bench.due().map(|at| self.epoch + at);
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
                        self.happen(Event::Nothing).await?;
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
            self.happen(event).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, what: ToWire) -> Result<Option<Event>, SocketError> {
        let message = match what {
            ToWire::Open => {
                self.socket = Some(Box::pin(connect(&self.endpoint, &self.headers)).await?);
                return Ok(Some(Event::SocketOpen));
            }
            ToWire::Drop => {
                self.hang_up();
                return Ok(None);
            }
            ToWire::Upload(upload) => {
                let Endpoint { device_id, client_id, .. } = self.endpoint.clone();
                let sending =
                    async move { super::upload::upload(upload, &device_id, &client_id).await };
                self.upload = Some(Box::pin(sending));
                return Ok(None);
            }
            ToWire::Text(text) => Message::text(text),
            ToWire::Binary(frame) => Message::Binary(frame),
        };
        Ok(self.put(message).await)
    }

    fn hang_up(&mut self) {
        self.socket = None;
        self.blocked = None;
    }

    /// Hands a message to the socket, and tells where that was lost or takes no more.
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

/// The next thing that the socket brings, or that it takes messages again; never comes while
/// there is no socket. Pings are answered unseen: only messages count for the idle rule.
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

/// The end of the upload under way; never comes while there is none.
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
    hearken_base::tls::choose_provider();
    let url = endpoint.url.clone();
    let request = request(endpoint, headers)?;
    // What is sent leaves at once, so that the times seen are the server's.
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

/// The handshake as firmware sends it: `Host` without a port, no origin, no extensions.
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
