//! Send queue of firmware, for messages and packets while the socket accepts no data. Not for
//! framing nor for sockets.

use std::collections::VecDeque;

use bytes::Bytes;

use super::events::Output;
use super::profile::DropPolicy;

/// Maximum number of queued messages; firmware's main loop blocks long before.
const TEXTS: usize = 256;

/// Queue of messages and packets, in the order of sending.
#[derive(Debug)]
pub(super) struct Outbox {
    /// True while the socket accepts no data.
    blocked: bool,
    /// True while a tool blocks the main loop, which sends.
    held: bool,
    waiting: VecDeque<Frame>,
    packets: usize,
    capacity: usize,
    drops: DropPolicy,
}

#[derive(Debug)]
enum Frame {
    Text(String),
    Audio(Bytes),
}

impl Outbox {
    pub(super) fn new(capacity: usize, drops: DropPolicy) -> Self {
        Self { blocked: false, held: false, waiting: VecDeque::new(), packets: 0, capacity, drops }
    }

    /// Sends or queues a message. Returns false if it was dropped.
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

    /// Sends or queues a packet. Returns false if it or an older one was dropped.
    pub(super) fn audio(&mut self, framed: Bytes, out: &mut Vec<Output>) -> bool {
        if self.open() {
            out.push(Output::Binary(framed));
            return true;
        }
        let full = self.packets >= self.capacity;
        if full && self.drops == DropPolicy::Newest {
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

    /// Stops sending, because the socket accepts no data.
    pub(super) fn block(&mut self) {
        self.blocked = true;
    }

    /// Continues sending.
    pub(super) fn unblock(&mut self, out: &mut Vec<Output>) {
        self.blocked = false;
        self.flush(out);
    }

    /// Stops sending, because a tool blocks the main loop.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// Continues sending, because the main loop is free.
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

    /// Drops the queued packets and returns their number.
    pub(super) fn forget_audio(&mut self) -> usize {
        self.waiting.retain(|frame| matches!(frame, Frame::Text(_)));
        std::mem::take(&mut self.packets)
    }

    /// Drops everything in the queue, because the socket was closed.
    pub(super) fn reset(&mut self) {
        self.blocked = false;
        self.packets = 0;
        self.waiting.clear();
    }
}
