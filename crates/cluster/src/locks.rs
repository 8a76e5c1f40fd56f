//! Locks that all instances know: a key in Redis with an owner and a lease. Not for what is done
//! under them.
//!
//! - A lock is taken within this instance first, so that its own requests wait in order and go on
//!   one at a time while Redis is lost.
//! - While Redis is lost a lock is kept: who else takes it has a later fence, and the store
//!   refuses the earlier one.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::ports::{BoxError, SessionLock, SessionLocks};
use jiff::Timestamp;
use redis::Script;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::local::LocalLocks;
use super::shared::{RedisUnavailable, Shared, millis};

/// How long a lock is held by an instance of which nothing is heard.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// How often a lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Who waits for another instance looks again after so many milliseconds.
const LOOK_AGAIN_MS: std::ops::RangeInclusive<u64> = 20..=100;

/// Takes the lock where it is free, or ours: its fence, a later one each time, or nothing.
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

/// Renews the lease of a lock that is ours, or that nobody has: 1, else 0.
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
         if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
         return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    )
});

/// Gives a lock back that is ours.
static FREE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
         return 0",
    )
});

/// Locks of all instances; clones share them.
#[derive(Clone)]
pub struct RedisLocks {
    shared: Shared,
    local: Arc<LocalLocks>,
}

impl RedisLocks {
    /// Nothing is locked by this instance yet.
    pub fn new(shared: Shared) -> Self {
        Self { shared, local: Arc::default() }
    }

    /// Takes the lock in Redis: its fence, or none where another instance has it for as long.
    async fn take(&self, lease: &Lease, until: Instant) -> Result<Option<i64>, RedisUnavailable> {
        loop {
            // Lua's numbers hold microseconds since 1970 exactly until the year 2255.
            let now = Timestamp::now().as_microsecond();
            let taken: Option<i64> = self
                .shared
                .run(|mut redis| async move {
                    TAKE.key(&lease.key)
                        .key(self.shared.key("fence"))
                        .arg(&lease.token)
                        .arg(millis(LEASE))
                        .arg(now)
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

/// Some time within [`LOOK_AGAIN_MS`], so that those who wait do not look together.
fn jitter() -> u64 {
    let (from, to) = (LOOK_AGAIN_MS.start(), LOOK_AGAIN_MS.end());
    from + getrandom::u64().unwrap_or_default() % (to - from + 1)
}

impl SessionLocks for RedisLocks {
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>> {
        let (locks, session) = (self.clone(), session.to_owned());
        Box::pin(async move {
            let until = Instant::now() + wait;
            let Some(mut lock) = locks.local.lock(&session, wait).await? else { return Ok(None) };
            let lease = Lease {
                shared: locks.shared.clone(),
                key: locks.shared.key(&format!("lock:{session}")),
                token: uuid::Uuid::new_v4().simple().to_string(),
                lost: lock.lost.clone(),
            };
            let taking = Taking(Some(lease));
            let asked = Instant::now();
            let fence = match locks.take(taking.lease(), until).await {
                Ok(Some(fence)) => fence,
                Ok(None) => return Ok(None),
                // Alone: the lock within this instance is all there is.
                Err(RedisUnavailable) => return Ok(Some(lock)),
            };
            locks.local.has_seen(fence);
            lock.fence = fence;
            let (given_up, lease) = (CancellationToken::new(), taking.taken());
            let dropped = given_up.clone().drop_guard();
            let local = std::mem::replace(&mut lock.held, Box::new(dropped));
            locks.shared.begin(async move {
                lease.keep(given_up, asked).await;
                drop(local);
            });
            Ok(Some(lock))
        })
    }
}

/// A lock that this instance has in Redis.
struct Lease {
    shared: Shared,
    key: String,
    token: String,
    lost: CancellationToken,
}

impl Lease {
    /// Renews the lease until the lock is given up, then frees it; `since` it is ours.
    async fn keep(self, given_up: CancellationToken, since: Instant) {
        match given_up.run_until_cancelled(self.renew(since)).await {
            None => self.free().await,
            // Nobody else of this instance goes on before who lost it has noticed.
            Some(()) => given_up.cancelled().await,
        }
    }

    /// Ends when the lock is lost.
    async fn renew(&self, mut since: Instant) {
        let mut up = self.shared.up();
        loop {
            let next = Instant::now() + RENEW_EVERY;
            tokio::select! {
                () = sleep_until(next) => {}
                // A Redis that comes back may have forgotten the lock.
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
                Err(RedisUnavailable) => {}
            }
        }
        tracing::warn!("a lock was lost: another instance has it");
        self.lost.cancel();
    }

    async fn free(&self) {
        let freed: Result<i64, RedisUnavailable> = self
            .shared
            .run(|mut redis| async move {
                FREE.key(&self.key).arg(&self.token).invoke_async(&mut redis).await
            })
            .await;
        if freed.is_err() {
            tracing::debug!("a lock is left to its lease");
        }
    }
}

/// A lock that is being taken. Who stops waiting while Redis is asked may have got it: it is given
/// back.
struct Taking(Option<Lease>);

impl Taking {
    fn lease(&self) -> &Lease {
        self.0.as_ref().expect("it is there until it was taken")
    }

    fn taken(mut self) -> Lease {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if let Some(lease) = self.0.take() {
            let shared = lease.shared.clone();
            shared.begin(async move { lease.free().await });
        }
    }
}
