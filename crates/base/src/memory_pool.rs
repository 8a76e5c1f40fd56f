//! Limits of the memory that is used for peers: per peer, per address, and in total. Data of a peer
//! is stored as a [`Reserved`], which returns its memory when it is dropped. Not for calculating
//! weights, nor for the bytes of messages that are still to be read.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits, in bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Of one peer: a connection, or a session.
    pub peer: usize,
    /// Of all peers at one address.
    pub address: usize,
    /// Of all peers.
    pub all: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        // In memory, not in bytes of text: parsed JSON takes up to 126 times its bytes. Decision 0082.
        Self { peer: 12 << 20, address: 24 << 20, all: 48 << 20 }
    }
}

/// Error: a limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryExceeded {
    /// The peer holds too much.
    #[error("too large: this connection may use at most {} KiB of memory", .0 / 1_024)]
    Peer(usize),
    /// All peers at the address hold too much.
    #[error("too large: all connections of one address may use at most {} KiB of memory", .0 / 1_024)]
    Address(usize),
    /// All peers hold too much.
    #[error("the server holds too much for all of its clients; try again later")]
    All,
}

/// Memory of all peers of a server. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryPool(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    limits: MemoryLimits,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    /// Bytes by address; addresses that hold none have no entry.
    by_address: HashMap<Arc<str>, usize>,
}

/// Memory of one peer. Clones share it.
#[derive(Debug, Clone)]
pub struct PeerMemory(Arc<Peer>);

#[derive(Debug)]
struct Peer {
    memory_pool: MemoryPool,
    address: Arc<str>,
    /// True if the limit of an address applies to the peer.
    is_limited: bool,
    held: AtomicUsize,
}

impl MemoryPool {
    /// Creates a pool with these limits.
    pub fn new(limits: MemoryLimits) -> Self {
        Self(Arc::new(Inner { limits, held: Mutex::default() }))
    }

    /// Returns the memory of a new peer at this address. The limit of an address applies to it if it
    /// `is_limited`.
    pub fn peer(&self, address: &str, is_limited: bool) -> PeerMemory {
        let address = Arc::from(address);
        let held = AtomicUsize::new(0);
        PeerMemory(Arc::new(Peer { memory_pool: self.clone(), address, is_limited, held }))
    }

    /// Returns the memory that all peers hold, in bytes.
    pub fn held(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it holds the lock.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for PeerMemory {
    /// Creates the memory of the only peer of a pool.
    fn default() -> Self {
        MemoryPool::default().peer("", false)
    }
}

impl PeerMemory {
    /// Returns the address of the peer.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Holds `bytes` of memory for the peer until the result is dropped.
    ///
    /// # Errors
    /// The first limit that is exceeded.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, MemoryExceeded> {
        let Peer { memory_pool, address, is_limited, held } = &*self.0;
        let limits = memory_pool.0.limits;
        // Changed only under the lock.
        let mut all = memory_pool.lock();
        let own = held.load(Ordering::Relaxed).saturating_add(bytes);
        if own > limits.peer {
            return Err(MemoryExceeded::Peer(limits.peer));
        }
        if *is_limited {
            let of_address = all.by_address.get(address).copied().unwrap_or_default();
            if of_address.saturating_add(bytes) > limits.address {
                return Err(MemoryExceeded::Address(limits.address));
            }
        }
        if all.all.saturating_add(bytes) > limits.all {
            return Err(MemoryExceeded::All);
        }
        all.all += bytes;
        if *is_limited {
            *all.by_address.entry(Arc::clone(address)).or_default() += bytes;
        }
        held.store(own, Ordering::Relaxed);
        Ok(Reservation { bytes, peer: self.clone() })
    }

    /// Stores a value of this weight for the peer.
    ///
    /// # Errors
    /// The first limit that is exceeded.
    pub fn keep<T>(&self, value: T, bytes: usize) -> Result<Reserved<T>, MemoryExceeded> {
        let weight = self.reserve(bytes)?;
        Ok(Reserved { value, weight })
    }
}

/// Memory that is reserved for a peer, returned when dropped.
#[derive(Debug)]
pub struct Reservation {
    bytes: usize,
    peer: PeerMemory,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Peer { memory_pool, address, is_limited, held } = &*self.peer.0;
        let mut all = memory_pool.lock();
        all.all -= self.bytes;
        held.fetch_sub(self.bytes, Ordering::Relaxed);
        if *is_limited && let Some(of_address) = all.by_address.get_mut(address) {
            *of_address -= self.bytes;
            if *of_address == 0 {
                all.by_address.remove(address);
            }
        }
    }
}

/// Value that is stored for a peer, with its weight.
#[derive(Debug)]
pub struct Reserved<T> {
    value: T,
    weight: Reservation,
}

impl<T> Reserved<T> {
    /// Returns the value and its weight, which must be dropped together.
    pub fn into_parts(self) -> (T, Reservation) {
        (self.value, self.weight)
    }
}

impl<T> Deref for Reserved<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: MemoryLimits = MemoryLimits { peer: 100, address: 150, all: 300 };

    #[test]
    fn each_limit_refuses_the_first_excess_and_all_memory_is_returned() {
        let memory_pool = MemoryPool::new(LIMITS);
        let here = [memory_pool.peer("a", true), memory_pool.peer("a", true)];
        let first = here[0].reserve(100).unwrap();
        assert_eq!(here[0].reserve(1).unwrap_err(), MemoryExceeded::Peer(100));
        let second = here[1].reserve(50).unwrap();
        assert_eq!(here[1].reserve(1).unwrap_err(), MemoryExceeded::Address(150));
        let exempt = [memory_pool.peer("a", false), memory_pool.peer("a", false)];
        let more = [exempt[0].reserve(100).unwrap(), exempt[1].reserve(50).unwrap()];
        assert_eq!(memory_pool.peer("b", true).reserve(1).unwrap_err(), MemoryExceeded::All);
        drop(first);
        assert!(memory_pool.peer("b", true).reserve(1).is_ok());
        drop((second, more));
        assert_eq!(memory_pool.held(), 0);
        assert!(memory_pool.lock().by_address.is_empty());
    }

    proptest! {
        /// Any peers reserve and drop memory in any order.
        #[test]
        fn no_limit_is_ever_exceeded(steps in proptest::collection::vec((0..6_usize, 0..120_usize, any::<bool>()), 1..80)) {
            let memory_pool = MemoryPool::new(LIMITS);
            let peers: Vec<_> = [("a", true), ("a", true), ("b", true), ("b", true), ("a", false), ("c", false)].map(|(address, is_limited)| memory_pool.peer(address, is_limited)).into();
            let mut held: Vec<(usize, Reservation)> = Vec::new();
            for (peer, bytes, is_dropped) in steps {
                if is_dropped && !held.is_empty() {
                    held.remove(bytes % held.len());
                    continue;
                }
                if let Ok(weight) = peers[peer].reserve(bytes) {
                    held.push((peer, weight));
                }
                let of = |wanted: &dyn Fn(usize) -> bool| {
                    held.iter().filter(|(peer, _)| wanted(*peer)).map(|(_, weight)| weight.bytes).sum::<usize>()
                };
                prop_assert_eq!(of(&|_| true), memory_pool.held());
                prop_assert!(memory_pool.held() <= LIMITS.all);
                prop_assert!((0..6).all(|peer| of(&|other| other == peer) <= LIMITS.peer));
                prop_assert!(of(&|peer| peer < 2) <= LIMITS.address && of(&|peer| peer == 2 || peer == 3) <= LIMITS.address);
            }
            held.clear();
            prop_assert_eq!(memory_pool.held(), 0);
        }
    }
}
