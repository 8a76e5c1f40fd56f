//! Slots of a limited resource, such as connections: a limit in total, and one per address. Not for
//! what an address is, nor for exemptions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::memory_pool::{MemoryPool, PeerMemory};
use crate::pace::Pace;

/// Limits of slots. Clones share them.
#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    free: Arc<Semaphore>,
    most: usize,
    of_address: usize,
    /// Memory of the holders of slots.
    memory_pool: MemoryPool,
    /// Rate limit of what an address sends over all connections with a slot.
    pace: Pace,
    /// Slots in use by address; addresses that use none have no entry.
    taken: Mutex<HashMap<Arc<str>, usize>>,
}

/// Slot in use, released when dropped.
pub struct Slot {
    memory: PeerMemory,
    pace: Pace,
    _permit: OwnedSemaphorePermit,
    share: Option<Share>,
}

struct Share {
    slots: Slots,
    address: Arc<str>,
}

/// Reason for which no slot can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSlot {
    /// All slots are in use.
    #[error("too many are in use")]
    Full,
    /// This address uses all that it may.
    #[error("too many are in use by this address")]
    AddressFull,
}

impl Slots {
    /// Creates `most` slots, of which one address may take `of_address`.
    pub fn new(most: usize, of_address: usize) -> Self {
        let pace = Pace::of_text();
        Self::unused(most.min(Semaphore::MAX_PERMITS), of_address, MemoryPool::default(), pace)
    }

    /// Returns these slots with this pool of memory. No slot may be in use yet.
    #[must_use]
    pub fn with_memory_pool(self, memory_pool: &MemoryPool) -> Self {
        let Inner { most, of_address, .. } = *self.0;
        Self::unused(most, of_address, memory_pool.clone(), self.0.pace.clone())
    }

    fn unused(most: usize, of_address: usize, memory_pool: MemoryPool, pace: Pace) -> Self {
        let free = Arc::new(Semaphore::new(most));
        Self(Arc::new(Inner { free, most, of_address, memory_pool, pace, taken: Mutex::default() }))
    }

    /// Creates `most` slots, of which one address may take `percent` of a hundred, but at least
    /// one.
    pub fn with_share(most: usize, percent: u8) -> Self {
        // A share in percent stays right when the limits change. Decision 0045.
        let share = u128::try_from(most).unwrap_or(u128::MAX).saturating_mul(percent.into()) / 100;
        Self::new(most, usize::try_from(share).unwrap_or(usize::MAX).max(1))
    }

    /// Takes a slot for a client at this address; `None` if the client is exempt from the limit per
    /// address.
    ///
    /// # Errors
    /// No slot is free, or the address uses all that it may.
    pub fn take(&self, address: Option<&str>) -> Result<Slot, NoSlot> {
        self.take_at(address.unwrap_or_default(), address.is_some())
    }

    /// Takes a slot for a client at this address; the limits per address apply if it `is_limited`.
    ///
    /// # Errors
    /// See [`Slots::take`].
    pub fn take_at(&self, address: &str, is_limited: bool) -> Result<Slot, NoSlot> {
        let share =
            if is_limited { Some(self.share(address).ok_or(NoSlot::AddressFull)?) } else { None };
        let permit = Arc::clone(&self.0.free).try_acquire_owned().map_err(|_| NoSlot::Full)?;
        let memory = self.0.memory_pool.peer(address, is_limited);
        let pace = self.0.pace.clone();
        Ok(Slot { memory, pace, _permit: permit, share })
    }

    fn share(&self, address: &str) -> Option<Share> {
        let mut taken = self.lock();
        let (address, count) = match taken.get_key_value(address) {
            Some((address, count)) => (Arc::clone(address), *count),
            None => (Arc::from(address), 0),
        };
        if count >= self.0.of_address {
            return None;
        }
        taken.insert(Arc::clone(&address), count + 1);
        Some(Share { slots: self.clone(), address })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of slots in use.
    pub fn in_use(&self) -> usize {
        self.0.most - self.0.free.available_permits().min(self.0.most)
    }

    /// Waits until no slot is in use, and prevents further ones from being taken.
    pub async fn drain(&self) {
        let all = self.0.free.acquire_many(u32::try_from(self.0.most).unwrap_or(u32::MAX)).await;
        // The semaphore is never closed.
        all.map(tokio::sync::SemaphorePermit::forget).unwrap_or_default();
    }
}

impl Slot {
    /// Returns the memory of the holder of the slot.
    pub fn memory(&self) -> &PeerMemory {
        &self.memory
    }

    /// Returns the address of the holder of the slot, if it is limited.
    pub fn limited_address(&self) -> Option<&str> {
        self.share.as_ref().map(|share| &*share.address)
    }

    /// Counts bytes that the holder of the slot has sent. Returns the time to wait before more of
    /// its bytes may be read.
    pub fn pace(&self, bytes: usize) -> Duration {
        self.pace.take(self.memory.address(), bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_slots() {
        let slots = Slots::with_share(10, 50);
        let greedy: Vec<_> = (0..20).map_while(|_| slots.take(Some("a")).ok()).collect();
        assert_eq!(greedy.len(), 5);
        assert_eq!(slots.take(Some("a")).err(), Some(NoSlot::AddressFull));
        let others: Vec<_> = (0..4).map(|n| slots.take(Some(&n.to_string())).unwrap()).collect();
        let exempt = slots.take(None).unwrap();
        assert_eq!(slots.in_use(), 10);
        assert_eq!(slots.take(None).err(), Some(NoSlot::Full));
        assert_eq!(slots.take(Some("new")).err(), Some(NoSlot::Full));
        drop((greedy, others, exempt));
        assert_eq!(slots.in_use(), 0);
        assert!(slots.lock().is_empty(), "an address without slots has no entry");
    }

    #[test]
    fn a_share_is_at_least_one_slot_and_all_at_most() {
        for (most, percent, share) in [(1, 50, 1), (3, 1, 1), (100, 50, 50), (4, 100, 4)] {
            let slots = Slots::with_share(most, percent);
            let taken: Vec<_> = (0..200).map_while(|_| slots.take(Some("a")).ok()).collect();
            assert_eq!(taken.len(), share, "{percent} % of {most}");
        }
    }

    #[tokio::test]
    async fn draining_waits_for_the_last_slot() {
        let slots = Slots::new(2, 2);
        let slot = slots.take(Some("a")).unwrap();
        let draining = slots.drain();
        tokio::pin!(draining);
        assert!(futures_util::poll!(&mut draining).is_pending());
        drop(slot);
        draining.await;
        assert_eq!(slots.take(None).err(), Some(NoSlot::Full));
    }
}
