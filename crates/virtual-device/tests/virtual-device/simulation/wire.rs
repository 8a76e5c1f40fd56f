//! The server in memory, and the network in front of it: the real socket actor receives WebSocket
//! bytes, which are delayed in both directions and stay in order. Not for their content.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix_http::ws::{Codec, Frame, Message};
use actix_web::error::PayloadError;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use hearken_actors::device::DeviceConnection;
use hearken_actors::pipeline::{AudioPool, Pipeline, Ports};
use hearken_base::slots::Slots;
use hearken_ports::Devices as _;
use hearken_proto::device::Framing;
use hearken_proto::ids::DeviceId;
use hearken_virtual_device::dice::Dice;
use hearken_virtual_device::network::Way;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::codec::{Decoder as _, Encoder as _};
use tokio_util::sync::CancellationToken;

use super::plan::Plan;
use super::vendors::Sentence;

const PLACES: usize = 64;

/// A server for one household.
pub(crate) struct Server {
    pipeline: Pipeline,
    ports: Ports,
    slots: Slots,
    /// Reference count of each port without a connection.
    held: [usize; 3],
}

impl Server {
    pub(crate) fn new(plan: &Plan, ports: Ports) -> Self {
        let process = CancellationToken::new();
        let audio = AudioPool::current_thread();
        let pipeline = Pipeline::new(ports.clone(), plan.settings.clone(), audio, process);
        let mut server = Self { pipeline, ports, slots: Slots::new(PLACES, PLACES), held: [0; 3] };
        server.held = server.holds();
        server
    }

    fn holds(&self) -> [usize; 3] {
        let Ports { asr, llm, tts, .. } = &self.ports;
        [Arc::strong_count(asr), Arc::strong_count(llm), Arc::strong_count(tts)]
    }

    /// Number of connections with a live socket actor.
    pub(crate) fn connections(&self) -> usize {
        self.slots.in_use()
    }

    /// Whether no actor is alive.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections() == 0 && self.holds() == self.held
    }

    /// Number of registered devices.
    pub(crate) fn known(&self) -> usize {
        self.pipeline.device_registry().connected().len()
    }
}

/// A message in transit from the server.
#[derive(Debug)]
pub(crate) struct Down {
    /// Time of sending by the server.
    pub(crate) sent: Duration,
    /// Time of arrival.
    pub(crate) at: Duration,
    /// `None` at the end of the stream.
    pub(crate) frame: Option<Frame>,
    /// The sentence to which it belongs.
    pub(crate) sentence: Option<Sentence>,
}

/// A message in transit from the device.
#[derive(Debug)]
enum Up {
    Bytes(Message, Mark),
    End,
}

/// What the judge must know when it reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Nothing,
    /// An abort.
    Abort,
    /// Voice that is to end a reply.
    Voice,
}

/// One connection.
pub(crate) struct Wire {
    epoch: Instant,
    to_server: Option<mpsc::UnboundedSender<Result<Bytes, PayloadError>>>,
    from_server: mpsc::UnboundedReceiver<(Duration, Option<Frame>)>,
    codec: Codec,
    ways: [Way; 2],
    up: VecDeque<(Duration, Up)>,
    down: VecDeque<Down>,
}

impl Wire {
    /// Connects. `epoch` is the start of the household.
    pub(crate) fn connect(server: &Server, plan: &Plan, dice: &mut Dice, epoch: Instant) -> Self {
        let slot = server.slots.take(None).expect("a slot is free");
        let device_id = DeviceId::new("02:00:00:00:00:01");
        let framing = Framing::from_version(plan.framing);
        let visitor =
            DeviceConnection { slot: Some(slot), ..DeviceConnection::new(device_id, framing) };
        let (up, bytes) = mpsc::unbounded_channel();
        let actor = server.pipeline.device(visitor);
        let out = hearken_socket::attach(actor, UnboundedReceiverStream::new(bytes));
        let (tell, from_server) = mpsc::unbounded_channel();
        actix::spawn(async move {
            let mut out = std::pin::pin!(out);
            let mut codec = Codec::new().client_mode();
            let mut buffer = BytesMut::new();
            while let Some(Ok(bytes)) = out.next().await {
                buffer.extend_from_slice(&bytes);
                while let Ok(Some(frame)) = codec.decode(&mut buffer) {
                    // The receiver is gone if the device is.
                    tell.send((epoch.elapsed(), Some(frame))).ok();
                }
            }
            tell.send((epoch.elapsed(), None)).ok();
        });
        Self {
            epoch,
            to_server: Some(up),
            from_server,
            codec: Codec::new().client_mode(),
            ways: [(); 2].map(|()| Way::new(dice.fork(), plan.base, plan.jitter)),
            up: VecDeque::new(),
            down: VecDeque::new(),
        }
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, message: Message, mark: Mark) {
        self.push(Up::Bytes(message, mark));
    }

    /// Drops the connection without a close frame, once the messages in transit have arrived.
    pub(crate) async fn hang_up(mut self) {
        self.push(Up::End);
        while let Some((at, _)) = self.up.front() {
            tokio::time::sleep_until(self.epoch + *at).await;
            self.carry_up();
        }
    }

    fn push(&mut self, up: Up) {
        let at = self.ways[0].arrival(self.now());
        self.up.push_back((at, up));
    }

    /// Delivers to the server what has arrived there; returns the marks of these messages.
    pub(crate) fn carry_up(&mut self) -> Vec<Mark> {
        let now = self.now();
        let mut marks = Vec::new();
        while self.up.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, up)) = self.up.pop_front() else { break };
            match (up, &self.to_server) {
                (Up::End, _) => self.to_server = None,
                (Up::Bytes(message, mark), Some(server)) => {
                    marks.extend((mark != Mark::Nothing).then_some(mark));
                    let mut bytes = BytesMut::new();
                    self.codec.encode(message, &mut bytes).expect("such frames always encode");
                    // A server that has closed reads no more.
                    server.send(Ok(bytes.freeze())).ok();
                }
                (Up::Bytes(..), None) => {}
            }
        }
        marks
    }

    /// The next message that has arrived at the device.
    pub(crate) fn arrived(&mut self) -> Option<Down> {
        let due = self.down.front().is_some_and(|d| d.at <= self.now());
        if due { self.down.pop_front() } else { None }
    }

    /// Time of the next arrival at either end.
    pub(crate) fn due(&self) -> Option<Duration> {
        let up = self.up.front().map(|(at, _)| *at);
        let down = self.down.front().map(|d| d.at);
        up.into_iter().chain(down).min()
    }

    /// Waits for the next message of the server, and returns it. Never resolves if there is none.
    pub(crate) async fn sent(&mut self) -> &mut Down {
        let Some((sent, frame)) = self.from_server.recv().await else {
            return std::future::pending().await;
        };
        let at = self.ways[1].arrival(sent);
        self.down.push_back(Down { sent, at, frame, sentence: None });
        self.down.back_mut().expect("it was just put there")
    }
}
