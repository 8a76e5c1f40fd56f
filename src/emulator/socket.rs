//! One virtual device on a real socket, in real time. Not for what the device decides, which is
//! in [`super::firmware`].

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hearken_proto::device::{AudioPacket, Framing};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, header};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::firmware::{Event, Firmware, Output};
use super::report::{Report, What};

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

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A device, its socket and what was seen of it.
pub struct Device {
    firmware: Firmware,
    endpoint: Endpoint,
    framing: Framing,
    socket: Option<Socket>,
    epoch: Instant,
    report: Report,
}

impl Device {
    /// A device that is switched on now, not yet connected.
    pub fn new(endpoint: Endpoint, firmware: Firmware) -> Self {
        Self {
            firmware,
            framing: Framing::from_version(endpoint.framing),
            endpoint,
            socket: None,
            epoch: Instant::now(),
            report: Report::default(),
        }
    }

    /// Time since the device was switched on.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// The device's rules and state.
    pub fn firmware(&self) -> &Firmware {
        &self.firmware
    }

    /// What was seen so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Ends the device and hands out what was seen of it; the socket just drops, as firmware does.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// Whether the socket is open.
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// The person stops speaking now.
    pub fn mark_speech_end(&mut self) {
        self.report.speech_end = Some(self.now());
    }

    /// Something happens to the device now.
    ///
    /// # Errors
    /// The device had to connect and could not.
    pub async fn happen(&mut self, event: Event) -> Result<(), SocketError> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let outputs = self.firmware.step(self.epoch.elapsed(), event);
            for output in outputs {
                if let Some(next) = self.perform(output).await? {
                    events.push_back(next);
                }
            }
        }
        Ok(())
    }

    /// Sends a text frame past the firmware's rules; nothing happens while not connected.
    ///
    /// # Errors
    /// The socket was lost, and the device could not connect anew.
    pub async fn send_raw(&mut self, text: String) -> Result<(), SocketError> {
        let what = serde_json::from_str(&text).unwrap_or(serde_json::Value::Null);
        self.report.add(self.now(), What::Sent(what));
        self.transmit(Message::text(text)).await
    }

    /// Sends an Opus packet past the firmware's rules; nothing happens while not connected.
    ///
    /// # Errors
    /// The socket was lost, and the device could not connect anew.
    pub async fn send_raw_audio(&mut self, opus: Bytes) -> Result<(), SocketError> {
        self.report.add(self.now(), What::SentAudio);
        let message = self.framing.encode(&AudioPacket { opus, timestamp_ms: 0 });
        self.transmit(Message::Binary(message)).await
    }

    async fn transmit(&mut self, message: Message) -> Result<(), SocketError> {
        if !self.put(message).await {
            Box::pin(self.happen(Event::SocketClosed)).await?;
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
        done: impl Fn(&Report, &Firmware) -> bool,
    ) -> Result<(), SocketError> {
        while !done(&self.report, &self.firmware) {
            let due = self.firmware.due().map_or(deadline, |at| (self.epoch + at).min(deadline));
            let event = tokio::select! {
                biased;
                event = next_event(&mut self.socket, self.framing) => event,
                () = sleep_until(due) => {
                    if Instant::now() >= deadline {
                        self.happen(Event::Nothing).await?;
                        return Ok(());
                    }
                    Event::Nothing
                }
            };
            if event == Event::SocketClosed {
                self.socket = None;
            }
            self.happen(event).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, output: Output) -> Result<Option<Event>, SocketError> {
        let message = match output {
            Output::Note(note) => {
                self.report.add(note.at, What::Noticed(note.fact));
                return Ok(None);
            }
            Output::Connect => {
                self.socket = Some(connect(&self.endpoint).await?);
                return Ok(Some(Event::SocketOpen));
            }
            Output::Disconnect => {
                self.socket = None;
                return Ok(None);
            }
            Output::Send(json) => {
                let text = json.to_string();
                self.report.add(self.now(), What::Sent(json));
                Message::text(text)
            }
            Output::SendAudio(opus) => {
                self.report.add(self.now(), What::SentAudio);
                Message::Binary(self.framing.encode(&AudioPacket { opus, timestamp_ms: 0 }))
            }
        };
        Ok((!self.put(message).await).then_some(Event::SocketClosed))
    }

    /// False where the socket was lost in sending.
    async fn put(&mut self, message: Message) -> bool {
        let Some(socket) = &mut self.socket else { return true };
        let sent = timeout(SOCKET_TIMEOUT, socket.send(message)).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.socket = None;
            return false;
        }
        true
    }
}

/// The next thing that the socket brings; never comes while there is no socket.
async fn next_event(socket: &mut Option<Socket>, framing: Framing) -> Event {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Event::Text(text.to_string()),
            Some(Ok(Message::Binary(message))) => {
                if let Ok(packet) = framing.decode(&message) {
                    return Event::Audio(packet.opus);
                }
                tracing::warn!(
                    bytes = message.len(),
                    "a binary frame from the server is malformed"
                );
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Event::SocketClosed,
        }
    }
}

async fn connect(endpoint: &Endpoint) -> Result<Socket, SocketError> {
    let url = endpoint.url.clone();
    let request = request(endpoint)?;
    match timeout(SOCKET_TIMEOUT, connect_async(request)).await {
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
fn request(endpoint: &Endpoint) -> Result<Request, SocketError> {
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
    Ok(request)
}
