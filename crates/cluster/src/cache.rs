//! Cache in Redis that all instances share: texts by key, with a TTL. Every look-up misses while
//! Redis is lost. Not for data that must not be lost, nor for a cache within one instance.

use std::time::Duration;

use super::shared::{RedisUnavailable, Shared, millis};

/// Maximum length of a stored text, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// Texts that all instances share. Clones share one cache.
#[derive(Clone)]
pub struct SharedCache {
    shared: Shared,
    name: &'static str,
}

impl SharedCache {
    pub(super) fn new(shared: Shared, name: &'static str) -> Self {
        Self { shared, name }
    }

    fn key(&self, key: &[u8]) -> String {
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.shared.key(&format!("{}:{digits}", self.name))
    }

    /// Returns the text under this key, if any.
    pub async fn get(&self, key: &[u8]) -> Option<String> {
        let key = self.key(key);
        let got: Result<Option<String>, RedisUnavailable> = self
            .shared
            .run(
                |mut redis| async move { redis::cmd("GET").arg(key).query_async(&mut redis).await },
            )
            .await;
        got.ok().flatten()
    }

    /// Stores a text under this key for `kept_for`, if Redis is available.
    pub async fn put(&self, key: &[u8], text: &str, kept_for: Duration) {
        let ms = millis(kept_for);
        if text.len() > MAX_BYTES || ms == 0 {
            return;
        }
        let key = self.key(key);
        let put: Result<(), RedisUnavailable> = self
            .shared
            .run(|mut redis| async move {
                let mut set = redis::cmd("SET");
                set.arg(key).arg(text).arg("PX").arg(ms).query_async(&mut redis).await
            })
            .await;
        if put.is_err() {
            tracing::debug!("cannot store a value in the shared cache");
        }
    }
}
