//! Queue for work that is done one after the other, in which addresses take turns: an address with
//! many requests only delays itself. Not for the work, nor for its duration.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Maximum number of pending requests per address.
const MAX_WAITING: usize = 16;

/// Queue of one kind of work. Clones share it.
#[derive(Clone, Default)]
pub struct FairQueue(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_working: bool,
    /// Addresses with pending requests, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// Pending requests by address; no entry is empty.
    waiting: HashMap<Arc<str>, VecDeque<oneshot::Sender<Place>>>,
}

/// Permit to work, which passes to the next request when it is dropped.
pub struct Place(Option<FairQueue>);

/// Error: the address has too many pending requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests of this address wait")]
pub struct QueueFull;

impl FairQueue {
    /// Waits for the permit. Addresses take turns, and the requests of each are served in order.
    ///
    /// # Errors
    /// The address already has too many pending requests.
    pub async fn take(&self, address: &str) -> Result<Place, QueueFull> {
        let waits = {
            let mut state = self.lock();
            if !state.is_working {
                state.is_working = true;
                return Ok(Place(Some(self.clone())));
            }
            state.wait(address)?
        };
        // A permit is always passed on before it is dropped, so that this always resolves.
        waits.await.map_err(|_| QueueFull)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait(&mut self, address: &str) -> Result<oneshot::Receiver<Place>, QueueFull> {
        let address: Arc<str> = match self.waiting.get_key_value(address) {
            Some((address, _)) => Arc::clone(address),
            None => Arc::from(address),
        };
        let waiting = self.waiting.entry(Arc::clone(&address)).or_default();
        waiting.retain(|waits| !waits.is_closed());
        if waiting.len() >= MAX_WAITING {
            return Err(QueueFull);
        }
        if !self.turns.contains(&address) {
            self.turns.push_back(address);
        }
        let (gives, waits) = oneshot::channel();
        waiting.push_back(gives);
        Ok(waits)
    }

    /// Takes the next request in turn.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        let address = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&address)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&address);
        } else {
            self.turns.push_back(address);
        }
        next
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        while let Some(queue) = self.0.take() {
            let next = {
                let mut state = queue.lock();
                let next = state.next();
                state.is_working = next.is_some();
                next
            };
            // The receiver of a cancelled request is gone, and the permit comes back.
            if let Some(Err(mut place)) = next.map(|next| next.send(Self(Some(queue)))) {
                self.0 = place.0.take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn addresses_take_turns() {
        let queue = FairQueue::default();
        let first = queue.take("busy").await.unwrap();
        let mut waiting: Vec<_> = [("busy", 1), ("busy", 2), ("busy", 3), ("quiet", 4)]
            .map(|(address, number)| (number, Box::pin(queue.take(address))))
            .into();
        for (_, waits) in &mut waiting {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        let mut place = first;
        let mut served = Vec::new();
        while !waiting.is_empty() {
            drop(place);
            let next = waiting.iter_mut().enumerate().find_map(|(at, (number, waits))| {
                Some((at, *number, waits.as_mut().now_or_never()?))
            });
            let (at, number, taken) = next.expect("the permit passes on");
            place = taken.unwrap();
            served.push(number);
            drop(waiting.remove(at));
        }
        assert_eq!(served, [1, 4, 2, 3]);
    }

    #[tokio::test]
    async fn the_pending_requests_of_an_address_are_limited() {
        let queue = FairQueue::default();
        let _place = queue.take("a").await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(queue.take("a"))).collect();
        for waits in &mut waiting {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        assert!(matches!(queue.take("a").now_or_never(), Some(Err(QueueFull))));
        assert!(queue.take("b").now_or_never().is_none(), "another address may wait");
        waiting.pop();
        assert!(
            queue.take("a").now_or_never().is_none(),
            "a cancelled request does not count as pending"
        );
    }

    proptest! {
        /// Requests start, are cancelled and end in any order: one works at a time, and the permit
        /// is never lost.
        #[test]
        fn the_place_is_never_lost(steps in proptest::collection::vec((0..3_u8, 0..4_usize), 1..60)) {
            let queue = FairQueue::default();
            let mut waiting = Vec::new();
            let mut place: Option<Place> = None;
            for (step, which) in steps {
                match step {
                    0 => waiting.push(Box::pin({
                        let queue = queue.clone();
                        async move { queue.take(["a", "b", "c", "d"][which]).await }
                    })),
                    1 if !waiting.is_empty() => drop(waiting.remove(which % waiting.len())),
                    _ => place = None,
                }
                let mut left = Vec::new();
                for mut waits in waiting {
                    match waits.as_mut().now_or_never() {
                        Some(taken) => {
                            prop_assert!(place.is_none(), "two work at once");
                            place = Some(taken.unwrap());
                        }
                        None => left.push(waits),
                    }
                }
                waiting = left;
                prop_assert!(place.is_some() || waiting.is_empty(), "a request waits while none works");
            }
            drop((place, waiting));
            let state = queue.lock();
            prop_assert!(!state.is_working && state.turns.is_empty() && state.waiting.is_empty());
        }
    }
}
