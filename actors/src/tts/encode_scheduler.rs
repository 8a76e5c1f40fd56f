//! Encode scheduler of a thread: one turn encodes at a time; the next one is the turn whose packet
//! is needed first (earliest deadline first). A turn with seconds of buffered audio lets one pass
//! that has none. Not for encoding.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// Length of buffered audio below which a turn's next packet is urgent.
const IN_HAND: Duration = Duration::from_millis(480);

/// Encode scheduler of one thread. Clones share it.
#[derive(Clone, Default)]
pub struct EncodeScheduler(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    taken: bool,
    waiting: BinaryHeap<QueuedTurn>,
    /// Number of requests so far: of packets needed at the same time, the first requested goes
    /// first.
    asked: u64,
}

struct QueuedTurn {
    needed: Instant,
    asked: u64,
    go: oneshot::Sender<EncodePermit>,
}

/// Permit to encode one packet; passes to the next turn when dropped.
pub(super) struct EncodePermit(Option<EncodeScheduler>);

/// Access of one turn to the scheduler, with the deadline of its next packet.
#[derive(Clone)]
pub(super) struct EncodeQueue {
    encode_scheduler: EncodeScheduler,
    packet: Duration,
    /// Time at which the next packet would play if the first had played as soon as it was
    /// requested.
    needed: Instant,
}

impl EncodeScheduler {
    /// Creates the access of a turn that has no packets yet; `packet` is their length.
    pub(super) fn encode_queue(&self, packet: Duration) -> EncodeQueue {
        EncodeQueue { encode_scheduler: self.clone(), packet, needed: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn acquire(&self, needed: Instant) -> EncodePermit {
        let coming = {
            let mut inner = self.lock();
            if inner.taken {
                let (go, coming) = oneshot::channel();
                inner.asked += 1;
                let asked = inner.asked;
                // Turns are not served in rotation: a first sound would wait for whole sentences of
                // others. Decision 0019.
                inner.waiting.push(QueuedTurn { needed, asked, go });
                Some(coming)
            } else {
                inner.taken = true;
                None
            }
        };
        match coming {
            // A sender is dropped only after it has sent.
            Some(coming) => coming.await.unwrap_or(EncodePermit(None)),
            None => EncodePermit(Some(self.clone())),
        }
    }
}

impl EncodeQueue {
    /// Waits for the permit to encode this turn's next packet. Also returns how long the packet was
    /// urgent meanwhile.
    pub(super) async fn acquire(&mut self) -> (EncodePermit, Duration) {
        // A slow synthesiser does not make later packets more urgent.
        let now = Instant::now();
        let needed = self.needed.max(now);
        self.needed = needed + self.packet;
        let permit = self.encode_scheduler.acquire(needed).await;
        let urgent = needed.checked_sub(IN_HAND).map_or(now, |urgent| urgent.max(now));
        (permit, urgent.elapsed())
    }
}

impl Drop for EncodePermit {
    fn drop(&mut self) {
        while let Some(encode_scheduler) = self.0.take() {
            let mut inner = encode_scheduler.lock();
            let Some(next) = inner.waiting.pop() else {
                inner.taken = false;
                return;
            };
            drop(inner);
            // A receiver that no longer waits returns the permit.
            let Err(mut back) = next.go.send(Self(Some(encode_scheduler))) else { return };
            self.0 = back.0.take();
        }
    }
}

impl Ord for QueuedTurn {
    /// Orders by deadline and then by request, reversed: the heap returns the largest, which is
    /// needed first and was requested first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.needed, other.asked).cmp(&(self.needed, self.asked))
    }
}

impl PartialOrd for QueuedTurn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueuedTurn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for QueuedTurn {}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const PACKET: Duration = Duration::from_millis(60);

    #[tokio::test(start_paused = true)]
    async fn the_turn_whose_packet_is_needed_first_goes_first() {
        let encode_scheduler = EncodeScheduler::default();
        let mut ahead = encode_scheduler.encode_queue(PACKET);
        for _ in 0..10 {
            let (_pass, late) = ahead.acquire().await;
            assert_eq!(late, Duration::ZERO);
        }
        let (pass, _) = ahead.acquire().await;
        let mut far = Box::pin(ahead.acquire());
        assert!(far.as_mut().now_or_never().is_none());
        let mut first = encode_scheduler.encode_queue(PACKET);
        let mut second = encode_scheduler.encode_queue(PACKET);
        let mut first = Box::pin(first.acquire());
        let mut second = Box::pin(second.acquire());
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        tokio::time::advance(PACKET).await;
        drop(pass);
        assert!(far.as_mut().now_or_never().is_none(), "it has ten packets buffered");
        assert!(second.as_mut().now_or_never().is_none(), "it asked later");
        let (pass, late) = first.as_mut().now_or_never().expect("its turn");
        assert_eq!(late, PACKET);
        drop(pass);
        drop(second.as_mut().now_or_never().expect("its turn"));
        let (pass, late) = far.as_mut().now_or_never().expect("no other turn waits");
        assert_eq!(late, Duration::ZERO, "still in time");
        drop(far);
        let mut next = Box::pin(ahead.acquire());
        assert!(next.as_mut().now_or_never().is_none());
        // Eleven packets are buffered, 660 ms; below 480 ms the next one is urgent.
        tokio::time::advance(Duration::from_millis(190)).await;
        drop(pass);
        let (_, late) = next.as_mut().now_or_never().expect("no other turn waits");
        assert_eq!(late, Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_wait_does_not_block_others() {
        let encode_scheduler = EncodeScheduler::default();
        let (pass, _) = encode_scheduler.encode_queue(PACKET).acquire().await;
        let mut gone: Vec<_> = (0..3).map(|_| encode_scheduler.encode_queue(PACKET)).collect();
        let mut gone: Vec<_> =
            gone.iter_mut().map(|encode_queue| Box::pin(encode_queue.acquire())).collect();
        for waiting in &mut gone {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let mut last = encode_scheduler.encode_queue(PACKET);
        let mut last = Box::pin(last.acquire());
        assert!(last.as_mut().now_or_never().is_none());
        // The first of them receives the permit, and is dropped before it has read it.
        drop(gone.split_off(1));
        drop(pass);
        drop(gone);
        drop(last.as_mut().now_or_never().expect("its turn"));
        assert!(
            encode_scheduler.encode_queue(PACKET).acquire().now_or_never().is_some(),
            "the scheduler is free"
        );
    }
}
