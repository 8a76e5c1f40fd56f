//! Rate limit across all instances: the generic cell rate algorithm in Redis. While Redis is lost,
//! this instance counts alone. Not for what identifies a client.

use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::Script;
use sha2::{Digest as _, Sha256};

use super::shared::{RedisUnavailable, Shared};
use crate::rate_limit::{LocalLimit, RateLimit};

/// KEYS: the client's. ARGV: microseconds per request, burst size. Takes one request. Returns 0, or
/// the microseconds until the next request is allowed.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local every, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
         local time = redis.call('TIME')
         local now = time[1] * 1000000 + time[2]
         local due = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + every
         local wait = due - every * burst - now
         if wait > 0 then return string.format('%.0f', wait) end
         local ms = math.ceil((due - now) / 1000)
         redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', ms)
         return '0'",
    )
});

/// Rate limit that counts for all instances.
pub(super) struct SharedLimit {
    shared: Shared,
    /// Name of the limit. Limits of different names count the same client separately.
    name: &'static str,
    per_minute: NonZeroU32,
    alone: LocalLimit,
}

impl SharedLimit {
    /// Creates a limit of `per_minute` requests per minute, with bursts of the same size.
    pub(super) fn new(shared: Shared, name: &'static str, per_minute: NonZeroU32) -> Self {
        Self { shared, name, per_minute, alone: LocalLimit::new(per_minute) }
    }

    async fn take_shared(&self, client: &str) -> Result<Duration, RedisUnavailable> {
        // Hashed, because the length of a client's name is not bounded.
        let key = self.shared.key(&format!("limit:{}:{:x}", self.name, Sha256::digest(client)));
        let every = 60_000_000 / self.per_minute.get();
        let taken: String = self
            .shared
            .run(|mut redis| async move {
                TAKE.key(key).arg(every).arg(self.per_minute.get()).invoke_async(&mut redis).await
            })
            .await?;
        Ok(Duration::from_micros(taken.parse().unwrap_or_default()))
    }
}

impl RateLimit for SharedLimit {
    fn take<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), Duration>> {
        Box::pin(async move {
            match self.take_shared(client).await {
                Ok(Duration::ZERO) => Ok(()),
                Ok(wait) => Err(wait),
                Err(RedisUnavailable) => self.alone.take(client).await,
            }
        })
    }
}
