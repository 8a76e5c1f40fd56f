//! Rate limit of clients: the trait, and the limit within this process. Not for what identifies a
//! client, nor for the limit across all instances.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

/// Maximum number of clients with a separate count. Further clients share counts.
const MAX_CLIENTS: usize = 100_000;
/// Number of shared counts.
const SHARED: u64 = 4_096;
/// Number of requests between two clean-ups of inactive clients.
const FORGET_EVERY: u32 = 1_024;

/// Limit of the requests of each client, within this process or across instances.
pub trait RateLimit: Send + Sync {
    /// Takes one request of this client.
    ///
    /// # Errors
    /// Returns the time after which the client may send its next request, if it has used up its
    /// limit.
    fn take<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), Duration>>;
}

/// Rate limit within this process.
pub struct LocalLimit {
    limiter: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
    taken: AtomicU32,
    full: AtomicBool,
}

impl LocalLimit {
    /// Creates a limit of `per_minute` requests per minute, with bursts of the same size.
    pub fn new(per_minute: NonZeroU32) -> Self {
        Self {
            limiter: DefaultKeyedRateLimiter::dashmap(Quota::per_minute(per_minute)),
            clock: DefaultClock::default(),
            taken: AtomicU32::new(0),
            full: AtomicBool::new(false),
        }
    }

    fn check(&self, client: &str) -> Result<(), Duration> {
        if self.taken.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.limiter.retain_recent();
            self.full.store(self.limiter.len() >= MAX_CLIENTS, Ordering::Relaxed);
        }
        let client = if self.full.load(Ordering::Relaxed) {
            let mut hasher = DefaultHasher::new();
            client.hash(&mut hasher);
            format!("shared {}", hasher.finish() % SHARED)
        } else {
            client.to_owned()
        };
        let checked = self.limiter.check_key(&client);
        checked.map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

impl RateLimit for LocalLimit {
    fn take<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), Duration>> {
        Box::pin(std::future::ready(self.check(client)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_use_its_burst_and_then_waits() {
        let limit = LocalLimit::new(NonZeroU32::new(3).unwrap());
        for _ in 0..3 {
            assert_eq!(limit.check("a"), Ok(()));
        }
        let wait = limit.check("a").unwrap_err();
        assert!(wait > Duration::from_secs(18) && wait <= Duration::from_secs(20), "{wait:?}");
        assert_eq!(limit.check("b"), Ok(()), "others have their own");
    }

    #[test]
    fn clients_with_ever_new_names_eventually_share_counts() {
        let limit = LocalLimit::new(NonZeroU32::new(1).unwrap());
        let refused = (0..MAX_CLIENTS + 20_000).filter(|n| limit.check(&n.to_string()).is_err());
        assert!(refused.count() > 10_000);
        assert!(limit.limiter.len() <= MAX_CLIENTS + usize::try_from(SHARED).unwrap() + 1_024);
    }
}
