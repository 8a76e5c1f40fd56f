//! Context of an actor that is a socket: a mailbox and futures like any actor's, and the bytes to
//! be sent. Not for when they leave.

use actix::dev::{AsyncContextParts, ContextFut, ContextParts, Envelope, Mailbox, ToEnvelope};
use actix::{
    Actor, ActorContext, ActorFuture, ActorState, Addr, AsyncContext, Handler, Message,
    SpawnHandle, StreamHandler,
};
use actix_http::ws::{CloseReason, OpCode, Parser};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::sync::oneshot::Sender;

use super::SocketFrame;

/// Context of an actor that is a socket.
pub struct SocketContext<A>
where
    A: Actor<Context = SocketContext<A>>,
{
    parts: ContextParts<A>,
    /// Bytes of the frames to be sent. Bounded because the actor does not run while the socket
    /// accepts none.
    out: BytesMut,
    /// True once a Close frame was written to `out`.
    closed: bool,
}

impl<A> SocketContext<A>
where
    A: Actor<Context = SocketContext<A>>,
{
    /// Creates the context of an actor that is about to start and that reads these frames.
    pub(super) fn run<S>(actor: A, frames: S) -> ContextFut<A, Self>
    where
        A: StreamHandler<SocketFrame>,
        S: Stream<Item = SocketFrame> + 'static,
    {
        let mailbox = Mailbox::default();
        let parts = ContextParts::new(mailbox.sender_producer());
        let mut ctx = Self { parts, out: BytesMut::new(), closed: false };
        ctx.add_stream(frames);
        ContextFut::new(ctx, actor, mailbox)
    }

    /// Sends a text message.
    pub fn text(&mut self, text: impl AsRef<[u8]>) {
        self.write(text, OpCode::Text);
    }

    /// Sends a binary message.
    pub fn binary(&mut self, bytes: impl AsRef<[u8]>) {
        self.write(bytes, OpCode::Binary);
    }

    /// Sends a Ping, which a live peer answers.
    pub fn ping(&mut self) {
        self.write(b"", OpCode::Ping);
    }

    pub(super) fn pong(&mut self, payload: &[u8]) {
        self.write(payload, OpCode::Pong);
    }

    /// Sends a Close frame, which is always the last frame, and stops the actor.
    pub(super) fn close(&mut self, reason: Option<CloseReason>) {
        if !self.closed {
            self.closed = true;
            Parser::write_close(&mut self.out, reason, false);
        }
        self.stop();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes the bytes that are due to be sent.
    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.out).freeze()
    }

    fn write(&mut self, payload: impl AsRef<[u8]>, kind: OpCode) {
        if !self.closed {
            Parser::write_message(&mut self.out, payload, kind, true, false);
        }
    }
}

impl<A> ActorContext for SocketContext<A>
where
    A: Actor<Context = Self>,
{
    fn stop(&mut self) {
        self.parts.stop();
    }

    fn terminate(&mut self) {
        self.parts.terminate();
    }

    fn state(&self) -> ActorState {
        self.parts.state()
    }
}

impl<A> AsyncContext<A> for SocketContext<A>
where
    A: Actor<Context = Self>,
{
    fn spawn<F>(&mut self, future: F) -> SpawnHandle
    where
        F: ActorFuture<A, Output = ()> + 'static,
    {
        self.parts.spawn(future)
    }

    fn wait<F>(&mut self, future: F)
    where
        F: ActorFuture<A, Output = ()> + 'static,
    {
        self.parts.wait(future);
    }

    fn waiting(&self) -> bool {
        self.parts.waiting()
            || matches!(self.parts.state(), ActorState::Stopping | ActorState::Stopped)
    }

    fn cancel_future(&mut self, handle: SpawnHandle) -> bool {
        self.parts.cancel_future(handle)
    }

    fn address(&self) -> Addr<A> {
        self.parts.address()
    }
}

impl<A> AsyncContextParts<A> for SocketContext<A>
where
    A: Actor<Context = Self>,
{
    fn parts(&mut self) -> &mut ContextParts<A> {
        &mut self.parts
    }
}

impl<A, M> ToEnvelope<A, M> for SocketContext<A>
where
    A: Actor<Context = Self> + Handler<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn pack(message: M, answer: Option<Sender<M::Result>>) -> Envelope<A> {
        Envelope::new(message, answer)
    }
}
