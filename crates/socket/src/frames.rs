//! Parses the bytes of one peer into frames, and checks each header against RFC 6455 before its
//! payload arrives. After our Close, searches for the peer's Close. Not for the meaning of frames.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_http::ws::{CloseReason, OpCode, Parser, ProtocolError};
use actix_web::error::PayloadError;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::Stream;
use hearken_proto::fault::Fault;
use tokio::time::{Instant, Sleep, sleep_until};

use super::budget::SocketBudget;

/// Maximum number of payload bytes in a control frame (RFC 6455, section 5.5).
const MAX_CONTROL_BYTES: u64 = 125;
/// Lowest opcode of a control frame.
const FIRST_CONTROL: u8 = 8;
const CLOSE: u8 = 8;
/// Maximum number of frames, and of their payload bytes, that a socket reads before it yields to
/// others on its thread.
const FRAMES_IN_A_ROW: u32 = 16;
const BYTES_IN_A_ROW: usize = 32 << 10;
/// Maximum number of frames that a socket reads per second, including pings and pongs. Further
/// frames stay in the connection's buffers.
const FRAMES_PER_SECOND: u32 = 1_000;
const SECOND: Duration = Duration::from_secs(1);

/// Item of a socket's stream of frames: one frame, or the reason for which there will be no more.
#[derive(Debug)]
pub struct SocketFrame(pub(super) Result<Frame, Fault>);

impl SocketFrame {
    fn payload_bytes(&self) -> usize {
        match &self.0 {
            Ok(Frame::Data(data)) => data.payload.len(),
            _ => 0,
        }
    }
}

/// Frame from the peer.
#[derive(Debug)]
pub(super) enum Frame {
    Data(Data),
    Ping(Bytes),
    Pong,
    Close(Option<CloseReason>),
}

/// Message, or a fragment of one.
#[derive(Debug)]
pub(super) struct Data {
    /// `None` if it continues a message.
    pub(super) kind: Option<Kind>,
    pub(super) last: bool,
    pub(super) payload: BytesMut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Binary,
}

/// Reader of one peer's bytes.
pub(super) struct Reader<S> {
    bytes: S,
    read: BytesMut,
    /// Maximum size of a frame, in bytes.
    max_bytes: usize,
    /// Bytes of the current frame that are still to be skipped.
    skip: u64,
    state: ReaderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    Open,
    /// A frame was invalid; the bytes after it are not parsed.
    Broken,
    /// The peer's Close has arrived.
    Closed,
    /// The stream of bytes has ended.
    Ended,
}

/// Header of a frame.
struct Head {
    last: bool,
    kind: u8,
    head_bytes: usize,
    payload_bytes: u64,
}

impl Head {
    /// Parses a header; `None` while it is incomplete.
    fn from_bytes(read: &[u8]) -> Option<Self> {
        let &first = read.first()?;
        let &second = read.get(1)?;
        let (length_bytes, payload_bytes) = match second & 0x7F {
            126 => (2, u16::from_be_bytes(*read.get(2..)?.first_chunk()?).into()),
            127 => (8, u64::from_be_bytes(*read.get(2..)?.first_chunk()?)),
            short => (0, short.into()),
        };
        let mask_bytes = if second & 0x80 == 0 { 0 } else { 4 };
        let head_bytes = 2 + length_bytes + mask_bytes;
        Some(Self { last: first & 0x80 != 0, kind: first & 0x0F, head_bytes, payload_bytes })
    }
}

impl<S> Reader<S>
where
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
{
    pub(super) fn new(bytes: S, max_bytes: usize) -> Self {
        Self { bytes, read: BytesMut::new(), max_bytes, skip: 0, state: ReaderState::Open }
    }

    /// Returns true if nothing more is expected from the peer: it has closed, or is gone.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, ReaderState::Closed | ReaderState::Ended)
    }

    /// Returns true if the peer is gone without a Close.
    pub(super) fn is_gone(&self) -> bool {
        self.state == ReaderState::Ended
    }

    /// Returns the next frame; `None` after a Close, an error or the end.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<SocketFrame>> {
        while self.state == ReaderState::Open {
            match self.frame() {
                Ok(Some(frame)) => return Poll::Ready(Some(SocketFrame(Ok(frame)))),
                Ok(None) => ready!(self.poll_read(cx)),
                Err(fault) => {
                    if self.state == ReaderState::Open {
                        self.state = ReaderState::Broken;
                    }
                    return Poll::Ready(Some(SocketFrame(Err(fault))));
                }
            }
        }
        Poll::Ready(None)
    }

    /// Skips everything up to the peer's Close; ready when the peer has closed or is gone.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_over() {
            let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.read.len());
            self.read.advance(passed);
            self.skip -= passed as u64;
            match Head::from_bytes(&self.read) {
                Some(head) if head.kind == CLOSE => self.state = ReaderState::Closed,
                Some(head) => {
                    self.skip = (head.head_bytes as u64).saturating_add(head.payload_bytes);
                }
                None => ready!(self.poll_read(cx)),
            }
        }
        Poll::Ready(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(Pin::new(&mut self.bytes).poll_next(cx)) {
            Some(Ok(bytes)) => self.read.extend_from_slice(&bytes),
            Some(Err(_)) | None => self.state = ReaderState::Ended,
        }
        Poll::Ready(())
    }

    fn frame(&mut self) -> Result<Option<Frame>, Fault> {
        let Some(head) = Head::from_bytes(&self.read) else { return Ok(None) };
        let control = head.kind >= FIRST_CONTROL;
        if control && (!head.last || head.payload_bytes > MAX_CONTROL_BYTES) {
            return Err(Fault::Protocol);
        }
        // Checked here, since the parser buffers a whole frame before it checks its length.
        if head.payload_bytes > self.max_bytes as u64 {
            return Err(Fault::TooLarge);
        }
        let parsed = Parser::parse(&mut self.read, true, self.max_bytes);
        let parsed = parsed.map_err(|error| match error {
            ProtocolError::Overflow => Fault::TooLarge,
            _ => Fault::Protocol,
        })?;
        let Some((last, kind, payload)) = parsed else { return Ok(None) };
        let payload = payload.unwrap_or_default();
        let data = |kind, payload| Frame::Data(Data { kind, last, payload });
        Ok(Some(match kind {
            OpCode::Text => data(Some(Kind::Text), payload),
            OpCode::Binary => data(Some(Kind::Binary), payload),
            OpCode::Continue => data(None, payload),
            OpCode::Ping => Frame::Ping(payload.freeze()),
            OpCode::Pong => Frame::Pong,
            OpCode::Close => {
                self.state = ReaderState::Closed;
                Frame::Close(reason(&payload)?)
            }
            OpCode::Bad => return Err(Fault::Protocol),
        }))
    }
}

/// Parses the reason of a Close.
fn reason(payload: &[u8]) -> Result<Option<CloseReason>, Fault> {
    if payload.get(2..).is_some_and(|text| std::str::from_utf8(text).is_err()) {
        return Err(Fault::NotText);
    }
    Parser::try_parse_close_payload(payload).map_err(|_| Fault::Protocol)
}

/// Stream of a reader's frames, for its actor. Waits while the budget is used up, and while frames
/// come too fast.
pub(super) struct Frames<S> {
    reader: Rc<RefCell<Reader<S>>>,
    budget: Option<SocketBudget>,
    pace: FramePace,
}

/// Rate limit of a socket's frames: without it, a peer that sends tiny frames without a break would
/// monopolise the thread.
#[derive(Default)]
struct FramePace {
    /// Frames, and bytes of their payloads, since the last yield.
    in_a_row: (u32, usize),
    /// Start of the current second, and frames since then.
    since: Option<Instant>,
    frames: u32,
    /// Timer until the next frame may be read.
    wait: Option<Pin<Box<Sleep>>>,
}

impl FramePace {
    /// Ready if the next frame may be read.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        let (frames, bytes) = self.in_a_row;
        if frames >= FRAMES_IN_A_ROW || bytes >= BYTES_IN_A_ROW {
            self.in_a_row = (0, 0);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn count(&mut self, bytes: usize) {
        self.in_a_row = (self.in_a_row.0 + 1, self.in_a_row.1.saturating_add(bytes));
        let since = *self.since.get_or_insert_with(Instant::now);
        self.frames += 1;
        if self.frames >= FRAMES_PER_SECOND {
            self.frames = 0;
            self.since = None;
            let until = since + SECOND;
            self.wait = (until > Instant::now()).then(|| Box::pin(sleep_until(until)));
        }
    }
}

impl<S> Frames<S> {
    pub(super) fn new(reader: Rc<RefCell<Reader<S>>>, budget: Option<SocketBudget>) -> Self {
        Self { reader, budget, pace: FramePace::default() }
    }
}

impl<S> Stream for Frames<S>
where
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
{
    type Item = SocketFrame;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SocketFrame>> {
        let this = self.get_mut();
        if let Some(budget) = &this.budget {
            ready!(budget.poll_room(cx));
        }
        ready!(this.pace.poll_ready(cx));
        match this.reader.borrow_mut().poll_frame(cx) {
            Poll::Ready(frame) => {
                this.pace.count(frame.as_ref().map_or(0, SocketFrame::payload_bytes));
                Poll::Ready(frame)
            }
            Poll::Pending => {
                this.pace.in_a_row = (0, 0);
                Poll::Pending
            }
        }
    }
}
