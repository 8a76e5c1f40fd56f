//! Peer of a socket actor, in memory: WebSocket bytes in, messages out, each with its time. Not for
//! the actor's use of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix::{Actor, StreamHandler};
use actix_http::ws::{Codec, Frame, Message};
use actix_web::error::PayloadError;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::codec::{Decoder as _, Encoder as _};

use crate::{SocketContext, SocketFrame};

/// Message from the server, and the time of its arrival.
#[derive(Debug, Clone, PartialEq)]
pub struct Down {
    /// Time since the socket was opened.
    pub at: Duration,
    /// Content of the message.
    pub what: Received,
}

/// Content of a message from the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// A JSON message.
    Text(serde_json::Value),
    /// A binary message.
    Audio(Bytes),
    /// A Close frame with this code.
    Closed(u16),
    /// End of the bytes.
    Gone,
}

impl Received {
    /// Returns a short name: `tts/start`, `status/idle`, `stt`, `audio`, `closed 1000`.
    pub fn name(&self) -> String {
        match self {
            Self::Text(json) => {
                let kind = json["type"].as_str().unwrap_or("?");
                let status = json["status"].as_str().filter(|_| kind == "status");
                match json["state"].as_str().or(status) {
                    Some(state) => format!("{kind}/{state}"),
                    None => kind.to_owned(),
                }
            }
            Self::Audio(_) => "audio".into(),
            Self::Closed(code) => format!("closed {code}"),
            Self::Gone => "gone".into(),
        }
    }

    /// Returns the `text` of a JSON message; empty if there is none.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(json) => json["text"].as_str().unwrap_or(""),
            _ => "",
        }
    }
}

/// Connected socket. Needs an actix system and a paused clock.
pub struct MemorySocket {
    up: Option<mpsc::UnboundedSender<Result<Bytes, PayloadError>>>,
    down: mpsc::UnboundedReceiver<Down>,
    answers: Rc<Cell<bool>>,
    reads: watch::Sender<bool>,
    epoch: Instant,
}

impl MemorySocket {
    /// Starts the actor on a socket. Its peer answers pings and a Close if `answers` is true.
    pub fn open<A>(actor: A, answers: bool) -> Self
    where
        A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    {
        let (up, bytes) = mpsc::unbounded_channel();
        let out = crate::attach(actor, UnboundedReceiverStream::new(bytes));
        let (tell, down) = mpsc::unbounded_channel();
        let peer = up.downgrade();
        let epoch = Instant::now();
        let answers = Rc::new(Cell::new(answers));
        let answering = Rc::clone(&answers);
        let (reads, mut reading) = watch::channel(true);
        actix::spawn(async move {
            let mut out = std::pin::pin!(out);
            let mut codec = Codec::new().max_size(1 << 20).client_mode();
            let mut buffer = BytesMut::new();
            loop {
                if reading.wait_for(|reads| *reads).await.is_err() {
                    return;
                }
                let sent = tokio::select! {
                    biased;
                    Ok(_) = reading.wait_for(|reads| !*reads) => continue,
                    sent = out.next() => sent,
                };
                let Some(Ok(bytes)) = sent else { break };
                buffer.extend_from_slice(&bytes);
                while let Ok(Some(frame)) = codec.decode(&mut buffer) {
                    let answer = match &frame {
                        Frame::Ping(payload) => Some(Message::Pong(payload.clone())),
                        Frame::Close(reason) => Some(Message::Close(reason.clone())),
                        _ => None,
                    };
                    if let (true, Some(answer), Some(up)) =
                        (answering.get(), answer, peer.upgrade())
                    {
                        up.send(Ok(encoded(answer))).unwrap_or_default();
                    }
                    if let Some(what) = told(frame)
                        && tell.send(Down { at: epoch.elapsed(), what }).is_err()
                    {
                        return;
                    }
                }
            }
            let gone = Down { at: epoch.elapsed(), what: Received::Gone };
            // The test may have ended already.
            tell.send(gone).unwrap_or_default();
        });
        Self { up: Some(up), down, answers, reads, epoch }
    }

    /// Returns the time since the socket was opened.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Sends one frame.
    pub fn send(&self, message: Message) {
        self.send_bytes(encoded(message));
    }

    /// Sends bytes that need not be a frame.
    pub fn send_bytes(&self, bytes: Bytes) {
        if let Some(up) = &self.up {
            // A server that has closed no longer reads; that is not an error of the test.
            up.send(Ok(bytes)).unwrap_or_default();
        }
    }

    /// Returns the next message, if one comes before the deadline.
    pub async fn next_by(&mut self, deadline: Instant) -> Option<Down> {
        tokio::time::timeout_at(deadline, self.down.recv()).await.ok().flatten()
    }

    /// Accepts no more of what the server sends, as a socket does whose peer does not read; or
    /// accepts it again.
    pub fn read(&self, reads: bool) {
        self.reads.send_replace(reads);
    }

    /// Stops answering pings and a Close.
    pub fn fall_silent(&self) {
        self.answers.set(false);
    }

    /// Drops the connection without a Close, as firmware does.
    pub fn drop_connection(&mut self) {
        self.up = None;
    }
}

fn encoded(message: Message) -> Bytes {
    let mut bytes = BytesMut::new();
    let done = Codec::new().client_mode().encode(message, &mut bytes);
    done.expect("text, binary and pong messages always encode");
    bytes.freeze()
}

fn told(frame: Frame) -> Option<Received> {
    match frame {
        Frame::Text(text) => serde_json::from_slice(&text).ok().map(Received::Text),
        Frame::Binary(bytes) => Some(Received::Audio(bytes)),
        Frame::Close(reason) => Some(Received::Closed(reason.map_or(1005, |r| r.code.into()))),
        _ => None,
    }
}
