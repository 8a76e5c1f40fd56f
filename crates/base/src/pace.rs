//! Rate limit per client or address: an initial burst, then a constant rate. Not for limits that
//! instances share, which are in `hearken_cluster`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes of text messages that an address may send per second over all its connections of a kind.
pub const BYTES_PER_SECOND: u32 = 4 << 20;
/// Minimum number of clients before idle ones are removed.
const FEW: usize = 64;

/// Rate limit of all clients. Clones share it.
#[derive(Debug, Clone)]
pub struct Pace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Time per unit at the constant rate.
    each: Duration,
    /// Time that may be used in advance.
    burst: Duration,
    clients: Mutex<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    /// Time until which a client's past actions last at the constant rate.
    busy_until: HashMap<Arc<str>, Instant>,
    prune_at: usize,
}

impl Pace {
    /// Creates a limit of `count` per `time`, all of which may come at once. A count of 0 counts as
    /// 1.
    pub fn new(count: u32, time: Duration) -> Self {
        let each = time / count.max(1);
        Self(Arc::new(Inner { each, burst: time, clients: Mutex::default() }))
    }

    /// Creates the rate limit of the text that an address may send: [`BYTES_PER_SECOND`].
    pub fn of_text() -> Self {
        Self::new(BYTES_PER_SECOND, Duration::from_secs(1))
    }

    /// Counts what a client has already sent. Returns the time to wait before more of it may be
    /// read.
    pub fn take(&self, client: &str, count: usize) -> Duration {
        let now = Instant::now();
        let mut clients = self.clients(now);
        let until = self.until(&clients, client, count, now);
        clients.set(client, until);
        (until - now).saturating_sub(self.0.burst)
    }

    /// Returns the time after which a client may act again; zero if it may now.
    pub fn wait(&self, client: &str) -> Duration {
        let now = Instant::now();
        let clients = self.clients(now);
        (self.until(&clients, client, 1, now) - now).saturating_sub(self.0.burst)
    }

    fn until(&self, clients: &Clients, client: &str, count: usize, now: Instant) -> Instant {
        let before = clients.busy_until.get(client).copied().unwrap_or(now).max(now);
        let takes = self.0.each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        before.checked_add(takes).unwrap_or(before)
    }

    fn clients(&self, now: Instant) -> MutexGuard<'_, Clients> {
        let mut clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.prune(now);
        clients
    }
}

impl Clients {
    fn set(&mut self, client: &str, until: Instant) {
        match self.busy_until.get_mut(client) {
            Some(busy_until) => *busy_until = until,
            None => drop(self.busy_until.insert(Arc::from(client), until)),
        }
    }

    /// Removes idle clients each time the number of clients has doubled.
    fn prune(&mut self, now: Instant) {
        if self.busy_until.len() >= self.prune_at.max(FEW) {
            self.busy_until.retain(|_, until| *until > now);
            self.prune_at = 2 * self.busy_until.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_client_is_limited_after_its_burst() {
        let pace = Pace::new(1_000, 1_000 * MS);
        assert_eq!(pace.take("a", 1_000), Duration::ZERO);
        assert_eq!(pace.take("a", 500), 500 * MS);
        assert_eq!(pace.take("b", 500), Duration::ZERO, "another client has its own limit");
        tokio::time::advance(1_500 * MS).await;
        assert_eq!(pace.take("a", 1_000), Duration::ZERO);
        assert_eq!(pace.take("a", 1), MS);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_actions_are_not_counted() {
        let pace = Pace::new(3, 60_000 * MS);
        let take = |client: &str| match pace.wait(client) {
            Duration::ZERO => Ok(pace.take(client, 1)),
            wait => Err(wait),
        };
        let allowed = (0..100).filter(|_| take("a").is_ok()).count();
        assert_eq!(allowed, 3);
        assert_eq!((pace.wait("a"), pace.wait("b")), (20_000 * MS, Duration::ZERO));
        assert_eq!(take("a"), Err(20_000 * MS));
        tokio::time::advance(20_000 * MS).await;
        assert_eq!([take("a").is_ok(), take("a").is_ok()], [true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_clients_are_removed() {
        let pace = Pace::new(1_000, 1_000 * MS);
        for n in 0..10_000 {
            pace.take(&n.to_string(), 1);
            tokio::time::advance(10 * MS).await;
        }
        assert!(pace.0.clients.lock().unwrap().busy_until.len() <= 2 * FEW);
    }
}
