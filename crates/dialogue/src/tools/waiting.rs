//! Pending confirmations: the list of calls that await a person's consent, to show them and to drop
//! them. Not for holding calls, nor for agreeing: see [`super::consent`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time limit for consent.
pub(super) const AGREES_WITHIN: Duration = Duration::from_secs(60);

/// Pending confirmation, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCall {
    /// Kind of the client: `voice`, `text`, `chat`.
    pub kind: &'static str,
    /// Id of the device or session.
    pub client: String,
    /// Name of the tool at its source.
    pub tool: String,
    /// Name of the source.
    pub source: String,
    /// Arguments, as the model wrote them; secrets in them are `***`.
    pub arguments: String,
    /// Question that the person was asked.
    pub question: String,
}

/// Pending confirmations of all conversations of this server. Clones share them.
#[derive(Clone, Default)]
pub struct WaitingCalls(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    last: u64,
    calls: BTreeMap<u64, Entry>,
}

struct Entry {
    call: WaitingCall,
    since: Instant,
    dropped: Arc<AtomicBool>,
}

/// Entry of a call in the list of pending confirmations; dropping it removes the entry.
#[derive(Debug)]
pub struct ListedCall {
    number: u64,
    dropped: Arc<AtomicBool>,
    all: WaitingCalls,
}

impl std::fmt::Debug for WaitingCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingCalls").finish_non_exhaustive()
    }
}

impl WaitingCalls {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call, until the returned value is dropped.
    pub fn add(&self, call: WaitingCall) -> ListedCall {
        let mut entries = self.entries();
        entries.last += 1;
        let number = entries.last;
        let dropped = Arc::<AtomicBool>::default();
        let entry = Entry { call, since: Instant::now(), dropped: Arc::clone(&dropped) };
        entries.calls.insert(number, entry);
        ListedCall { number, dropped, all: self.clone() }
    }

    /// Returns the calls that a person can still agree to, with the remaining time, the oldest
    /// first.
    pub fn all(&self) -> Vec<(WaitingCall, Duration)> {
        let entries = self.entries();
        let waiting = entries.calls.values().filter(|entry| !entry.dropped.load(Ordering::Relaxed));
        waiting
            .map(|entry| (entry.call.clone(), AGREES_WITHIN.saturating_sub(entry.since.elapsed())))
            .filter(|(_, left)| !left.is_zero())
            .collect()
    }

    /// Drops the call of a client: it is not made, even if the person agrees. Returns false if none
    /// is pending.
    pub fn drop_call(&self, client: &str) -> bool {
        let entries = self.entries();
        let own = entries.calls.values().filter(|entry| entry.call.client == client);
        own.filter(|entry| entry.since.elapsed() <= AGREES_WITHIN)
            .any(|entry| !entry.dropped.swap(true, Ordering::Relaxed))
    }
}

impl ListedCall {
    /// Restarts the time limit for consent.
    pub(super) fn restart(&self) {
        if let Some(entry) = self.all.entries().calls.get_mut(&self.number) {
            entry.since = Instant::now();
        }
    }

    /// Reports whether the call was dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for ListedCall {
    fn drop(&mut self) {
        self.all.entries().calls.remove(&self.number);
    }
}
