//! What the device wants to send while its socket takes nothing: the send queue of firmware. Not
//! for framing nor for sockets.

use std::collections::VecDeque;

use bytes::Bytes;

use super::events::Output;
use super::profile::Drops;

/// Messages that wait; firmware's main loop stands still long before that many.
const TEXTS: usize = 256;

/// Messages and packets in the order in which they go out.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The socket takes nothing.
    blocked: bool,
    /// The main loop, which sends, is held up by a tool.
    held: bool,
    waiting: VecDeque<Frame>,
    packets: usize,
    capacity: usize,
    drops: Drops,
}

#[derive(Debug)]
enum Frame {
    Text(String),
    Audio(Bytes),
}

impl Outbox {
    pub(super) fn new(capacity: usize, drops: Drops) -> Self {
        Self { blocked: false, held: false, waiting: VecDeque::new(), packets: 0, capacity, drops }
    }

    /// Sends or keeps a message. False where it was dropped.
    pub(super) fn text(&mut self, text: String, out: &mut Vec<Output>) -> bool {
        if self.open() {
            out.push(Output::Text(text));
        } else if self.waiting.len() - self.packets < TEXTS {
            self.waiting.push_back(Frame::Text(text));
        } else {
            return false;
        }
        true
    }

    /// Sends or keeps a packet. False where one was dropped for it, or it itself was.
    pub(super) fn audio(&mut self, framed: Bytes, out: &mut Vec<Output>) -> bool {
        if self.open() {
            out.push(Output::Binary(framed));
            return true;
        }
        let full = self.packets >= self.capacity;
        if full && self.drops == Drops::Newest {
            return false;
        }
        if full && let Some(at) = self.waiting.iter().position(|f| matches!(f, Frame::Audio(_))) {
            self.waiting.remove(at);
            self.packets -= 1;
        }
        self.waiting.push_back(Frame::Audio(framed));
        self.packets += 1;
        !full
    }

    /// The socket takes nothing until told otherwise.
    pub(super) fn block(&mut self) {
        self.blocked = true;
    }

    /// The socket takes messages again.
    pub(super) fn unblock(&mut self, out: &mut Vec<Output>) {
        self.blocked = false;
        self.flush(out);
    }

    /// The main loop is held up until released.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// The main loop goes on.
    pub(super) fn release(&mut self, out: &mut Vec<Output>) {
        self.held = false;
        self.flush(out);
    }

    fn open(&self) -> bool {
        !self.blocked && !self.held
    }

    fn flush(&mut self, out: &mut Vec<Output>) {
        if !self.open() {
            return;
        }
        self.packets = 0;
        out.extend(self.waiting.drain(..).map(|frame| match frame {
            Frame::Text(text) => Output::Text(text),
            Frame::Audio(framed) => Output::Binary(framed),
        }));
    }

    /// Throws away the packets that wait and tells how many.
    pub(super) fn forget_audio(&mut self) -> usize {
        self.waiting.retain(|frame| matches!(frame, Frame::Text(_)));
        std::mem::take(&mut self.packets)
    }

    /// The socket is gone, and what waited for it with it.
    pub(super) fn reset(&mut self) {
        self.blocked = false;
        self.packets = 0;
        self.waiting.clear();
    }
}
