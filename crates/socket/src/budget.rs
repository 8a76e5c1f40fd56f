//! Limits the bytes of messages that were read from sockets and are not yet handled: per
//! connection, and for all connections of a kind. A socket whose budget is used up is not read. Not
//! for queues, nor for the size of a single message.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hearken_base::pace::Pace;

/// Estimated size of a message in addition to its text, in bytes.
const MESSAGE_BYTES: usize = 64;

/// Messages that an address may send per minute over all its connections of a kind.
const MESSAGES_PER_MINUTE: u32 = 1_200;

/// Budget of all connections of a kind.
#[derive(Debug)]
pub struct SharedBudget {
    used: AtomicUsize,
    max_bytes: usize,
    pace: Pace,
    messages: Pace,
}

impl SharedBudget {
    /// Creates a budget of `max_bytes` bytes. A connection that holds nothing may exceed it by one
    /// message, so that other connections cannot block it.
    pub fn new(max_bytes: usize) -> Arc<Self> {
        let messages = Pace::new(MESSAGES_PER_MINUTE, Duration::from_secs(60));
        Arc::new(Self { used: AtomicUsize::new(0), max_bytes, pace: Pace::of_text(), messages })
    }

    /// Counts a message of `bytes` bytes that an address has sent. Returns the time to wait before
    /// more of its messages may be read.
    pub fn pace(&self, address: &str, bytes: usize) -> Duration {
        self.pace.take(address, bytes).max(self.messages.take(address, 1))
    }

    /// Counts a message that an address sends outside a socket.
    ///
    /// # Errors
    /// The time to wait, if the address has sent too many messages; this one is not counted.
    pub fn admit(&self, address: &str, bytes: usize) -> Result<(), Duration> {
        let wait = self.messages.wait(address).max(self.pace.wait(address));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.pace(address, bytes);
        Ok(())
    }
}

/// Budget of one connection; clones share it.
#[derive(Debug, Clone)]
pub struct SocketBudget(Arc<Used>);

#[derive(Debug)]
struct Used {
    bytes: AtomicUsize,
    max_bytes: usize,
    all: Arc<SharedBudget>,
    /// Waker of the socket's reader while it waits.
    reader: AtomicWaker,
}

impl SocketBudget {
    /// Creates the budget of a connection that is not read while it holds `max_bytes` bytes.
    pub fn new(max_bytes: usize, all: &Arc<SharedBudget>) -> Self {
        let bytes = AtomicUsize::new(0);
        let reader = AtomicWaker::new();
        Self(Arc::new(Used { bytes, max_bytes, all: Arc::clone(all), reader }))
    }

    /// Counts a message until it is dropped.
    pub fn hold(&self, text: String) -> HeldText {
        let bytes = text.len() + MESSAGE_BYTES;
        self.0.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.0.all.used.fetch_add(bytes, Ordering::SeqCst);
        HeldText { text, _held: Some(Held { bytes, budget: self.clone() }) }
    }

    /// Returns true if the socket must not be read.
    pub fn is_used_up(&self) -> bool {
        let own = self.0.bytes.load(Ordering::SeqCst);
        let all = &self.0.all;
        // A connection that holds nothing may read one message: other clients' use of the shared
        // budget never blocks it. Decision 0046.
        own >= self.0.max_bytes || (own > 0 && all.used.load(Ordering::SeqCst) >= all.max_bytes)
    }

    /// Ready once the socket may be read.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_used_up() {
            return Poll::Ready(());
        }
        self.0.reader.register(cx.waker());
        // A message may have been dropped just before.
        if self.is_used_up() { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// Text of a message, which counts against its connection's budget until it is dropped.
#[derive(Debug)]
pub struct HeldText {
    text: String,
    _held: Option<Held>,
}

impl From<String> for HeldText {
    /// Creates a message without a budget.
    fn from(text: String) -> Self {
        Self { text, _held: None }
    }
}

impl Deref for HeldText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    budget: SocketBudget,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Used { bytes, all, reader, .. } = &*self.budget.0;
        bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        all.used.fetch_sub(self.bytes, Ordering::SeqCst);
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hearken_base::pace::BYTES_PER_SECOND;

    use super::*;

    fn is_ready(budget: &SocketBudget) -> bool {
        budget.poll_room(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn messages_of_an_address_come_at_a_pace() {
        let all = SharedBudget::new(1);
        let second = BYTES_PER_SECOND as usize;
        assert_eq!(all.pace("a", second), Duration::ZERO);
        let wait = all.pace("a", second);
        assert!(wait > Duration::from_millis(990) && wait <= Duration::from_secs(1), "{wait:?}");
        assert_eq!(all.pace("b", second), Duration::ZERO, "another address has its own rate");
    }

    #[test]
    fn a_connection_is_not_read_while_its_budget_or_the_shared_one_is_used_up() {
        let all = SharedBudget::new(3_000);
        let one = SocketBudget::new(2_000, &all);
        let other = SocketBudget::new(2_000, &all);
        let held = one.hold("x".repeat(1_900));
        assert!(is_ready(&one));
        let more = one.hold("x".repeat(100));
        assert!(!is_ready(&one));
        assert!(is_ready(&other));
        let others = other.hold("x".repeat(1_000));
        assert!(!is_ready(&other), "the shared budget is used up");
        drop(others);
        assert!(is_ready(&other), "a connection that holds nothing may read one message");
        drop(held);
        assert!(is_ready(&one));
        drop(more);
        assert_eq!(all.used.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn litemcp_messages_have_a_rate() {
        let all = SharedBudget::new(1);
        let admitted = |address: &str| (0..2_000).filter(|_| all.admit(address, 0).is_ok()).count();
        assert_eq!((admitted("a"), admitted("b")), (1_200, 1_200));
        let wait = Duration::from_millis(50);
        assert_eq!(all.admit("a", 0), Err(wait), "a refused one is not counted");
        assert_eq!(all.pace("a", 1), wait, "messages of sockets count, too");
        tokio::time::advance(2 * wait).await;
        assert_eq!(all.admit("a", 0), Ok(()));
    }
}
