//! Locks across all instances: a key in Redis with an owner and a lease. Not for the work under a
//! lock.
//!
//! - A lock is first taken within this instance. This way its own requests wait in order, and run
//!   one at a time even while Redis is lost.
//! - A lock stays held while Redis is lost. If another instance takes it meanwhile, that one has a
//!   later fence, and the store refuses the earlier fence.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{BoxError, SessionLock, SessionLocks};
use jiff::Timestamp;
use redis::Script;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::local::LocalLocks;
use super::shared::{RedisUnavailable, Shared, millis};

/// Lease of a lock: an instance that does not renew it in this time loses the lock.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// Interval between renewals of a lease.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Wait between two attempts to take a lock that another instance holds, in milliseconds.
const RETRY_MS: std::ops::RangeInclusive<u64> = 20..=100;

/// Takes the lock if it is free. Returns its fence, greater than all before, or nothing.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
           return false
         end
         local fence = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, tonumber(ARGV[3]))
         local text = string.format('%.0f', fence)
         redis.call('SET', KEYS[2], text)
         return text",
    )
});

/// Renews the lease of a lock that this owner holds, or that is free. Returns 1, else 0.
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
         if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
         return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    )
});

/// Releases a lock that this owner holds.
static FREE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
         return 0",
    )
});

/// Locks of all instances. Clones share them.
#[derive(Clone)]
pub struct RedisLocks {
    shared: Shared,
    local: Arc<LocalLocks>,
}

impl RedisLocks {
    /// Creates locks, none of them held by this instance.
    pub fn new(shared: Shared) -> Self {
        Self { shared, local: Arc::default() }
    }

    /// Takes the lock in Redis and returns its fence; `None` if another instance holds it until
    /// `until`.
    async fn take(&self, lease: &Lease, until: Instant) -> Result<Option<i64>, RedisUnavailable> {
        loop {
            // Lua numbers represent microseconds since 1970 exactly until the year 2255.
            let least =
                Timestamp::now().as_microsecond().max(self.local.last_fence().saturating_add(1));
            let taken: Option<i64> = self
                .shared
                .run(|mut redis| async move {
                    TAKE.key(&lease.key)
                        .key(self.shared.key("fence"))
                        .arg(&lease.token)
                        .arg(millis(LEASE))
                        .arg(least)
                        .invoke_async(&mut redis)
                        .await
                })
                .await?;
            if taken.is_some() || Instant::now() >= until {
                return Ok(taken);
            }
            sleep(Duration::from_millis(jitter())).await;
        }
    }
}

/// Returns a random time within [`RETRY_MS`], to spread the attempts of waiting instances.
fn jitter() -> u64 {
    let from = RETRY_MS.start();
    let to = RETRY_MS.end();
    from + getrandom::u64().unwrap_or_default() % (to - from + 1)
}

impl SessionLocks for RedisLocks {
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>> {
        let locks = self.clone();
        let session = session.to_owned();
        Box::pin(async move {
            let until = Instant::now() + wait;
            let Some(mut lock) = locks.local.lock(&session, wait).await? else { return Ok(None) };
            let lease = Lease {
                shared: locks.shared.clone(),
                key: locks.shared.key(&format!("lock:{session}")),
                token: uuid::Uuid::new_v4().simple().to_string(),
                lost: lock.lost.clone(),
            };
            let acquiring = Acquiring(Some(lease));
            let asked = Instant::now();
            let fence = match locks.take(acquiring.lease(), until).await {
                Ok(Some(fence)) => fence,
                Ok(None) => return Ok(None),
                // Without Redis, the lock within this instance is the only one.
                Err(RedisUnavailable) => return Ok(Some(lock)),
            };
            locks.observe(fence);
            lock.fence = fence;
            let given_up = CancellationToken::new();
            let lease = acquiring.taken();
            let dropped = given_up.clone().drop_guard();
            let local = std::mem::replace(&mut lock.held, Box::new(dropped));
            locks.shared.spawn_finishing(async move {
                lease.keep(given_up, asked).await;
                drop(local);
            });
            Ok(Some(lock))
        })
    }

    fn observe(&self, fence: i64) {
        self.local.observe(fence);
    }
}

/// Lock that this instance holds in Redis.
struct Lease {
    shared: Shared,
    key: String,
    token: String,
    lost: CancellationToken,
}

impl Lease {
    /// Renews the lease until the lock is released, then frees it. `since` is the start of the
    /// lease.
    async fn keep(self, given_up: CancellationToken, since: Instant) {
        match given_up.run_until_cancelled(self.renew(since)).await {
            None => self.free().await,
            // The lock within this instance stays held until the holder of the lost lock has
            // noticed.
            Some(()) => given_up.cancelled().await,
        }
    }

    /// Renews the lease; returns when the lock is lost.
    async fn renew(&self, mut since: Instant) {
        let mut up = self.shared.up();
        loop {
            let next = Instant::now() + RENEW_EVERY;
            tokio::select! {
                () = sleep_until(next) => {}
                // After an outage, Redis may have lost the lock.
                changed = up.changed() => if changed.is_err() { return },
            }
            let asked = Instant::now();
            let renewed: Result<i64, RedisUnavailable> = self
                .shared
                .run(|mut redis| async move {
                    RENEW
                        .key(&self.key)
                        .arg(&self.token)
                        .arg(millis(LEASE))
                        .invoke_async(&mut redis)
                        .await
                })
                .await;
            match renewed {
                Ok(1) => since = asked,
                Ok(_) => break,
                Err(RedisUnavailable) if self.shared.is_up() && since.elapsed() >= LEASE => break,
                // A lock stays held while Redis is lost: if another instance takes it, the store
                // refuses this fence. Decision 0042.
                Err(RedisUnavailable) => {}
            }
        }
        tracing::warn!("lost a lock: another instance holds it");
        self.lost.cancel();
    }

    /// Releases the lock. While Redis is lost this is done later, in the background.
    async fn free(self) {
        let up = self.shared.up();
        if self.try_free().await.is_err() {
            self.shared.clone().spawn(async move { self.free_later(up).await });
        }
    }

    async fn try_free(&self) -> Result<i64, RedisUnavailable> {
        self.shared
            .run(|mut redis| async move {
                FREE.key(&self.key).arg(&self.token).invoke_async(&mut redis).await
            })
            .await
    }

    /// Releases the lock when Redis is back, before its lease expires for the waiting instances.
    async fn free_later(&self, mut up: watch::Receiver<bool>) {
        let until = Instant::now() + LEASE;
        while let Ok(Ok(())) = timeout_at(until, up.changed()).await {
            if self.try_free().await.is_ok() {
                return;
            }
        }
        tracing::debug!("cannot release a lock; it expires with its lease");
    }
}

/// Guard of a lock that is being taken. If the caller stops waiting while Redis is asked, Redis may
/// have granted the lock: the guard releases it.
struct Acquiring(Option<Lease>);

impl Acquiring {
    fn lease(&self) -> &Lease {
        self.0.as_ref().expect("it is there until it was taken")
    }

    fn taken(mut self) -> Lease {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if let Some(lease) = self.0.take() {
            let shared = lease.shared.clone();
            shared.spawn_finishing(async move { lease.free().await });
        }
    }
}
