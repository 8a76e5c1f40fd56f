//! Bytes that a socket sends, from its start to the end of its closing handshake. Not for the
//! messages of its actor.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix::dev::ContextFut;
use actix::{Actor, StreamHandler};
use actix_web::error::PayloadError;
use bytes::Bytes;
use futures_util::Stream;
use hearken_proto::fault::Fault;
use tokio::time::{Sleep, sleep};

use super::budget::SocketBudget;
use super::frames::{Frames, Reader};
use super::{CLOSE_WITHIN, SocketContext, SocketFrame, close};

/// Stream of the bytes to be sent; its end ends the connection.
pub(super) struct Outbound<A, S>
where
    A: Actor<Context = SocketContext<A>>,
{
    reader: Rc<RefCell<Reader<S>>>,
    state: SocketState<A>,
}

#[allow(clippy::large_enum_variant, reason = "a socket is open for nearly all of its life")]
enum SocketState<A>
where
    A: Actor<Context = SocketContext<A>>,
{
    /// The actor runs.
    Open(ContextFut<A, SocketContext<A>>),
    /// The server has sent a Close, and waits until this deadline for the peer's.
    Closing(Pin<Box<Sleep>>),
    Over,
}

impl<A, S> Outbound<A, S>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin + 'static,
{
    pub(super) fn open(actor: A, bytes: S, max_bytes: usize, budget: Option<SocketBudget>) -> Self {
        let reader = Rc::new(RefCell::new(Reader::new(bytes, max_bytes)));
        let running = SocketContext::run(actor, Frames::new(Rc::clone(&reader), budget));
        Self { reader, state: SocketState::Open(running) }
    }

    /// Polls the actor; returns false once it has stopped.
    fn run(running: &mut ContextFut<A, SocketContext<A>>, cx: &mut Context<'_>) -> bool {
        if running.alive() {
            // The result of the poll is not needed: `alive` reports the end.
            let _ended = Pin::new(&mut *running).poll(cx).is_ready();
        }
        running.alive()
    }

    /// Handles the end of the actor: waits for the peer's Close, unless the peer has closed or is
    /// gone.
    fn stopped(&mut self) {
        let over = self.reader.borrow().is_over();
        self.state = if over {
            SocketState::Over
        } else {
            SocketState::Closing(Box::pin(sleep(CLOSE_WITHIN)))
        };
    }
}

impl<A, S> Stream for Outbound<A, S>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin + 'static,
{
    type Item = Result<Bytes, actix_web::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                SocketState::Open(running) => {
                    let goes_on = Self::run(running, cx);
                    let ctx = running.ctx();
                    if !goes_on && !ctx.is_closed() && !this.reader.borrow().is_gone() {
                        // An actor that stops without a Close frame has failed.
                        close(ctx, Fault::Internal);
                    }
                    let bytes = ctx.take();
                    if !goes_on {
                        this.stopped();
                    }
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                    if goes_on {
                        return Poll::Pending;
                    }
                }
                SocketState::Closing(deadline) => {
                    let over = this.reader.borrow_mut().poll_over(cx);
                    if over.is_pending() && deadline.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    this.state = SocketState::Over;
                }
                SocketState::Over => return Poll::Ready(None),
            }
        }
    }
}
