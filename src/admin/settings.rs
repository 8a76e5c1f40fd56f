//! Settings that change while the server runs. They take precedence over the file, the environment
//! over them. A change is checked like the configuration, prepared in all parts of the server,
//! stored with its author, and then applied to all parts at once. Not for the list of such
//! settings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearken_ports::store::{AuditEntry, SettingsStore, StoreError};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::keys::{CHANGEABLE, read, write};
use crate::config::{Config, check, names};

/// Interval at which the store is checked for changes of other instances, and at the start, until
/// it answers.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Function that applies a prepared change.
pub type ApplyChange = Box<dyn FnOnce() + Send>;

/// Function of a part of the server that uses settings: prepares it for a configuration, or returns
/// the error. The result applies the change.
pub type SettingsUser = Box<dyn Fn(&Config) -> anyhow::Result<ApplyChange> + Send + Sync>;

/// Reason why a change is refused.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no such key, or it may not change while the server runs.
    #[error("`{0}` cannot be changed while the server runs; what can: {all}", all = CHANGEABLE.join(", "))]
    Unknown(String),
    /// The environment sets the key, and takes precedence.
    #[error(
        "`{0}` is set by an environment variable, which takes precedence: unset the variable and restart"
    )]
    Environment(String),
    /// A value cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The store failed; nothing has changed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// Origin of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettingSource)]
pub enum Source {
    /// An environment variable.
    Environment,
    /// A change at run time.
    RunTime,
    /// The file, or the default.
    Configuration,
}

type Changed = BTreeMap<String, Value>;

/// Settings of the store, and which of them apply.
#[derive(Clone, Default)]
struct Stored {
    /// Set once the store was read.
    was_read: bool,
    /// All of them, as last read or written.
    all: Changed,
    /// Those that apply.
    used: Changed,
    /// Why the others cannot be used, by path.
    unusable: BTreeMap<String, String>,
}

impl Stored {
    /// Sets a value, or removes it if it is null.
    fn set(&mut self, key: &str, value: &Value) {
        self.unusable.remove(key);
        for settings in [&mut self.all, &mut self.used] {
            if value.is_null() {
                settings.remove(key);
            } else {
                settings.insert(key.to_owned(), value.clone());
            }
        }
    }
}

/// Settings that change while the server runs.
pub struct RuntimeSettings {
    base: Config,
    store: Arc<dyn SettingsStore>,
    uses: Vec<SettingsUser>,
    /// Called once the store was read, behind what it changes.
    first_read: Box<dyn Fn() + Send + Sync>,
    stored: Mutex<Stored>,
    /// Lock: one change at a time.
    changing: tokio::sync::Mutex<()>,
}

impl RuntimeSettings {
    /// Creates the settings on top of this configuration, for these parts of the server.
    pub fn new(base: Config, store: Arc<dyn SettingsStore>, uses: Vec<SettingsUser>) -> Self {
        let stored = Mutex::default();
        let changing = tokio::sync::Mutex::default();
        Self { base, store, uses, first_read: Box::new(|| {}), stored, changing }
    }

    /// Sets what is done once the store was read, and what it changes applies.
    #[must_use]
    pub fn on_first_read(mut self, done: impl Fn() + Send + Sync + 'static) -> Self {
        self.first_read = Box::new(done);
        self
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        // Settings that a panicking thread left are whole: they are replaced, never edited.
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn environment(&self) -> &BTreeSet<String> {
        &self.base.from_environment
    }

    /// Returns every key that may change, with its value and the origin of the value.
    pub fn shown(&self) -> Vec<(&'static str, Value, Source)> {
        let stored = self.stored();
        let one = |key: &&'static str| {
            let source = match stored.used.contains_key(*key) {
                _ if self.environment().contains(*key) => Source::Environment,
                true => Source::RunTime,
                false => Source::Configuration,
            };
            let value = match source {
                Source::RunTime => stored.used.get(*key).cloned(),
                _ => read(&self.base, key),
            };
            (*key, value.unwrap_or_default(), source)
        };
        CHANGEABLE.iter().map(one).collect()
    }

    /// Returns the stored settings that cannot be used, with the reason of each.
    pub fn unusable(&self) -> BTreeMap<String, String> {
        self.stored().unusable.clone()
    }

    /// Prepares every part for these changes.
    fn prepare(&self, changed: &Changed) -> Result<Vec<ApplyChange>, ChangeError> {
        let config = with(&self.base, changed)?;
        let ready = self.uses.iter().map(|part| part(&config));
        let ready: anyhow::Result<Vec<ApplyChange>> = ready.collect();
        ready.map_err(|error| ChangeError::Invalid(format!("{error:#}")))
    }

    fn apply(&self, stored: Stored, ready: Vec<ApplyChange>) {
        for commit in ready {
            commit();
        }
        *self.stored() = stored;
    }

    /// Applies these changes, all or none; null restores the value of the configuration. The audit
    /// log gets an entry with the author and the old and new values.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn change(
        &self,
        wanted: &BTreeMap<String, Value>,
        who: &str,
        now: Timestamp,
    ) -> Result<(), ChangeError> {
        let _one_at_a_time = self.changing.lock().await;
        if !self.stored().was_read {
            // The change is made to the settings of the store, which all apply with it.
            self.read_store().await?;
        }
        let mut stored = self.stored().clone();
        let mut kept = Vec::new();
        let mut told = Map::new();
        for (name, value) in wanted {
            let key = &names::resolve(name).path;
            if !CHANGEABLE.contains(&key.as_str()) {
                return Err(ChangeError::Unknown(key.clone()));
            }
            if self.environment().contains(key) {
                return Err(ChangeError::Environment(key.clone()));
            }
            let configured = read(&self.base, key).unwrap_or_default();
            let old = stored.used.get(key).unwrap_or(&configured).clone();
            let new = if value.is_null() { &configured } else { value };
            told.insert(key.clone(), json!({"old": old, "new": new}));
            kept.push((key.clone(), Some(value.clone()).filter(|v| !v.is_null())));
            stored.set(key, value);
        }
        // A change is prepared everywhere, then stored, then applied: it holds in all parts or in none. Decision 0040.
        let mut prepared = self.prepare(&stored.used)?;
        if !stored.unusable.is_empty() {
            // As every other instance finds them: a value may have been unusable only because of another one.
            let found = usable(&stored.all, |some| self.prepare(some))?;
            if let Some(reason) = stored.used.keys().find_map(|key| found.unusable.get(key)) {
                return Err(ChangeError::Invalid(reason.clone()));
            }
            prepared = found.prepared;
            (stored.used, stored.unusable) = (found.used, found.unusable);
        }
        let what = "settings changed".to_owned();
        let details = json!({"changes": told});
        let entry = AuditEntry { number: 0, at: now, who: who.to_owned(), what, details };
        self.store.change(&kept, &entry).await?;
        self.apply(stored, prepared);
        tracing::info!(keys = ?wanted.keys().collect::<Vec<_>>(), "settings changed");
        Ok(())
    }

    /// Applies the changes in the store: at the start, and when another instance changed it. A
    /// value that cannot be used any more, as after an upgrade, does not apply; the others do.
    ///
    /// # Errors
    /// The store failed, or no part can be prepared.
    pub async fn refresh(&self) -> Result<(), ChangeError> {
        let _one_at_a_time = self.changing.lock().await;
        self.read_store().await
    }

    /// Applies the settings of the store, unless they are as they were when it was last read.
    async fn read_store(&self) -> Result<(), ChangeError> {
        let all = changes(&self.base, self.store.settings().await?);
        let before = self.stored().clone();
        if before.was_read && before.all == all {
            return Ok(());
        }
        let Usable { used, unusable, prepared } = usable(&all, |some| self.prepare(some))?;
        for (key, reason) in &unusable {
            if before.unusable.get(key) != Some(reason) {
                tracing::warn!(key, reason, "a stored setting cannot be used and does not apply");
            }
        }
        let is_new = before.used != used;
        let stored = Stored { was_read: true, all, used, unusable };
        if is_new {
            self.apply(stored, prepared);
            tracing::info!("applied the settings of the store");
        } else {
            *self.stored() = stored;
        }
        if !before.was_read {
            (self.first_read)();
        }
        Ok(())
    }

    /// Waits until the settings of the store apply or cannot be read, but at most this long.
    pub async fn wait_for_store(&self, at_most: Duration) {
        tokio::time::timeout(at_most, self.refresh()).await.ok();
    }

    /// Applies changes in the store periodically. Never returns.
    pub async fn follow_store(&self) {
        let mut ticks = tokio::time::interval(CHECK_EVERY);
        let mut last = String::new();
        loop {
            ticks.tick().await;
            let told =
                self.refresh().await.err().map(|error| error.to_string()).unwrap_or_default();
            // Once is enough for the log.
            if !told.is_empty() && told != last {
                let were_read = self.stored().was_read;
                tracing::warn!(
                    error = told,
                    were_read,
                    "cannot apply the settings of the store; until they were read, each call of a tool asks for consent, and the limits are those of the configuration"
                );
            }
            last = told;
        }
    }
}

/// Returns the configuration with these changes.
fn with(base: &Config, changed: &Changed) -> Result<Config, ChangeError> {
    let mut config = base.clone();
    // The server already runs with it.
    if changed.is_empty() {
        return Ok(config);
    }
    for (key, value) in changed {
        match write(&mut config, key, value) {
            Some(Ok(())) => {}
            Some(Err(wrong)) => {
                return Err(ChangeError::Invalid(format!("`{key}`: {wrong}")));
            }
            None => return Err(ChangeError::Unknown(key.clone())),
        }
    }
    check::check(&config).map_err(|error| ChangeError::Invalid(error.to_string()))?;
    Ok(config)
}

/// Returns the stored settings that apply, by path: not those that the environment sets. They may
/// have been stored under an old name.
fn changes(base: &Config, stored: Vec<(String, Value)>) -> Changed {
    let applies = |key: &str| CHANGEABLE.contains(&key) && !base.from_environment.contains(key);
    let stored = stored.into_iter().map(|(name, value)| (names::resolve(&name).path, value));
    stored.filter(|(key, _)| applies(key)).collect()
}

/// Stored settings that can be used together.
struct Usable<T> {
    used: Changed,
    /// Why the others cannot be used, by path.
    unusable: BTreeMap<String, String>,
    /// Result of the preparation for `used`.
    prepared: T,
}

/// Returns the stored settings that can be used, which `prepare` decides.
///
/// # Errors
/// The configuration cannot be used without any of them, either.
fn usable<T>(
    stored: &Changed,
    prepare: impl Fn(&Changed) -> Result<T, ChangeError>,
) -> Result<Usable<T>, ChangeError> {
    if let Ok(prepared) = prepare(stored) {
        let used = stored.clone();
        return Ok(Usable { used, unusable: BTreeMap::new(), prepared });
    }
    let mut used = Changed::new();
    let mut unusable = BTreeMap::new();
    let mut prepared = prepare(&used)?;
    loop {
        let before = used.len();
        for (key, value) in stored {
            if used.contains_key(key) {
                continue;
            }
            used.insert(key.clone(), value.clone());
            match prepare(&used) {
                Ok(ready) => {
                    prepared = ready;
                    unusable.remove(key);
                }
                Err(error) => {
                    used.remove(key);
                    unusable.insert(key.clone(), error.to_string());
                }
            }
        }
        // A value may need another one: those left are tried again with each that was added.
        if used.len() == before {
            return Ok(Usable { used, unusable, prepared });
        }
    }
}

/// Configuration with the settings that were changed at run time.
pub struct WithStored {
    /// The configuration.
    pub config: Config,
    /// Paths of the settings that apply.
    pub paths: Vec<&'static str>,
    /// Stored settings that cannot be used, with the reason of each, by path.
    pub unusable: BTreeMap<String, String>,
}

/// Returns the configuration with the stored settings.
///
/// # Errors
/// The configuration cannot be used without any of them, either.
pub fn stored_settings(
    base: &Config,
    stored: Vec<(String, Value)>,
) -> Result<WithStored, ChangeError> {
    let all = changes(base, stored);
    let Usable { used, unusable, prepared } = usable(&all, |some| with(base, some))?;
    let paths = CHANGEABLE.iter().copied().filter(|key| used.contains_key(*key)).collect();
    Ok(WithStored { config: prepared, paths, unusable })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use hearken_store::SqlStore;

    use super::*;

    fn setting(key: &str, value: Value) -> BTreeMap<String, Value> {
        [(key.to_owned(), value)].into()
    }

    fn run_time(store: &Arc<SqlStore>, environment: &[&str]) -> (RuntimeSettings, Arc<AtomicU32>) {
        let mut base = Config::default();
        base.llm.max_tokens = 100;
        base.from_environment = environment.iter().map(|k| (*k).to_owned()).collect();
        let tokens = Arc::new(AtomicU32::new(100));
        let seen = Arc::clone(&tokens);
        let part: SettingsUser = Box::new(move |config| {
            anyhow::ensure!(config.llm.max_tokens != 13, "`llm.max_tokens` is 13: use another");
            let seen = Arc::clone(&seen);
            let now = config.llm.max_tokens;
            Ok(Box::new(move || seen.store(now, Ordering::Relaxed)))
        });
        (RuntimeSettings::new(base, Arc::clone(store) as _, vec![part]), tokens)
    }

    #[tokio::test]
    async fn a_change_holds_is_kept_and_is_written_down() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let (first, tokens) = run_time(&store, &[]);
        let now = Timestamp::UNIX_EPOCH;
        first.change(&setting("llm.max_tokens", json!(7)), "admin", now).await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), 7);
        let found = first.shown().into_iter().find(|(key, ..)| *key == "llm.max_tokens").unwrap();
        assert_eq!((found.1, found.2), (json!(7), Source::RunTime));
        // Another instance, or the next start.
        let (second, tokens) = run_time(&store, &[]);
        second.refresh().await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), 7);
        second.change(&setting("llm.max_tokens", Value::Null), "eve", now).await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), 100);
        first.refresh().await.unwrap();
        assert_eq!(first.shown().iter().filter(|s| s.2 == Source::RunTime).count(), 0);
        let audit = store.audit(None, 10).await.unwrap();
        let told: Vec<_> = audit.iter().map(|e| (e.who.as_str(), &e.details)).collect();
        let change =
            |old: i64, new: i64| json!({"changes": {"llm.max_tokens": {"old": old, "new": new}}});
        assert_eq!(told, [("eve", &change(7, 100)), ("admin", &change(100, 7))]);
    }

    #[tokio::test]
    async fn a_stored_value_that_cannot_be_used_does_not_keep_the_others_from_applying() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let entry = || AuditEntry {
            number: 0,
            at: Timestamp::UNIX_EPOCH,
            who: String::new(),
            what: String::new(),
            details: Value::Null,
        };
        // As another version stored them.
        let keep = async |key: &str, value: Value| {
            store.change(&[(key.to_owned(), Some(value))], &entry()).await.unwrap();
        };
        for (key, value) in [
            ("gateway.temperature", json!(3)),
            ("llm.max_tokens", json!(7)),
            ("tools.policy", json!({"weather": "ask"})),
            ("usage.device_tokens", json!("many")),
        ] {
            keep(key, value).await;
        }
        let now = Timestamp::UNIX_EPOCH;
        let (settings, tokens) = run_time(&store, &[]);
        settings.refresh().await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), 7);
        let unusable = settings.unusable();
        assert_eq!(
            unusable.keys().collect::<Vec<_>>(),
            ["gateway.temperature", "tools.policy", "usage.device_tokens"]
        );
        assert_eq!(unusable["gateway.temperature"], "`gateway.temperature` is 3: use 0 to 1");
        let applied: Vec<_> =
            settings.shown().into_iter().filter(|s| s.2 == Source::RunTime).collect();
        assert_eq!(applied, [("llm.max_tokens", json!(7), Source::RunTime)]);
        // Each is set again, or removed.
        settings.change(&setting("gateway.temperature", json!(0.5)), "admin", now).await.unwrap();
        settings.change(&setting("tools.policy", Value::Null), "admin", now).await.unwrap();
        settings.refresh().await.unwrap();
        assert_eq!(settings.unusable().keys().collect::<Vec<_>>(), ["usage.device_tokens"]);
        // A part refuses a value, too.
        keep("llm.max_tokens", json!(13)).await;
        settings.refresh().await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), 100);
        assert_eq!(settings.unusable()["llm.max_tokens"], "`llm.max_tokens` is 13: use another");
        let shown = stored_settings(&Config::default(), store.settings().await.unwrap()).unwrap();
        assert_eq!(shown.paths, ["llm.max_tokens", "gateway.temperature"]);
        assert_eq!(shown.unusable.keys().collect::<Vec<_>>(), ["usage.device_tokens"]);
    }

    #[tokio::test]
    async fn a_value_that_another_one_made_unusable_applies_with_the_change_of_that_one() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let tokens = Arc::new(AtomicU32::new(100));
        let seen = Arc::clone(&tokens);
        let part: SettingsUser = Box::new(move |config| {
            let now = config.llm.max_tokens;
            let is_high = config.gateway.temperature > 0.5;
            anyhow::ensure!(now != 7 || is_high, "7 needs a higher temperature");
            let seen = Arc::clone(&seen);
            Ok(Box::new(move || seen.store(now, Ordering::Relaxed)))
        });
        let settings = RuntimeSettings::new(Config::default(), Arc::clone(&store) as _, vec![part]);
        let now = Timestamp::UNIX_EPOCH;
        let (other, _) = run_time(&store, &[]);
        let both: BTreeMap<_, _> = [
            ("gateway.temperature".to_owned(), json!(0.2)),
            ("llm.max_tokens".to_owned(), json!(7)),
        ]
        .into();
        other.change(&both, "admin", now).await.unwrap();
        settings.refresh().await.unwrap();
        assert_eq!(settings.unusable()["llm.max_tokens"], "7 needs a higher temperature");
        settings.change(&setting("gateway.temperature", json!(0.8)), "admin", now).await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), 7);
        assert!(settings.unusable().is_empty());
        // A change that makes a value unusable is refused.
        let lower = setting("gateway.temperature", json!(0.2));
        let error = settings.change(&lower, "admin", now).await.unwrap_err().to_string();
        assert_eq!(error, "7 needs a higher temperature");
        assert_eq!(tokens.load(Ordering::Relaxed), 7);
    }

    #[tokio::test]
    async fn an_empty_store_changes_nothing_when_it_is_first_read() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let (settings, tokens) = run_time(&store, &[]);
        let reads = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&reads);
        let settings = settings.on_first_read(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        tokens.store(0, Ordering::Relaxed);
        for _ in 0..2 {
            settings.wait_for_store(Duration::from_secs(60)).await;
            assert_eq!((reads.load(Ordering::Relaxed), tokens.load(Ordering::Relaxed)), (1, 0));
        }
    }

    #[tokio::test]
    async fn a_change_before_the_store_was_read_applies_together_with_the_stored_ones() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let now = Timestamp::UNIX_EPOCH;
        let (first, _) = run_time(&store, &[]);
        first.change(&setting("llm.max_tokens", json!(7)), "admin", now).await.unwrap();
        let (second, tokens) = run_time(&store, &[]);
        second.change(&setting("llm.temperature", json!(0.1)), "admin", now).await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), 7);
    }

    #[tokio::test]
    async fn what_cannot_be_used_changes_nothing() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let (settings, tokens) = run_time(&store, &["llm.model"]);
        let now = Timestamp::UNIX_EPOCH;
        for (key, value, told) in [
            ("llm.max_tokens", json!("many"), "`llm.max_tokens`: invalid type"),
            ("llm.max_tokens", json!(13), "`llm.max_tokens` is 13: use another"),
            ("gateway.temperature", json!(3), "`gateway.temperature` is 3: use 0 to 1"),
            (
                "usage.device_tokens",
                json!(u64::MAX),
                "`usage.device_tokens` is 18446744073709551615: use",
            ),
            ("llm.api_key", json!("x"), "`llm.api_key` cannot be changed"),
            ("llm.model", json!("x"), "`llm.model` is set by an environment variable"),
        ] {
            let wanted: BTreeMap<_, _> =
                [("llm.temperature".to_owned(), json!(0.1)), (key.to_owned(), value)].into();
            let error = settings.change(&wanted, "admin", now).await.unwrap_err().to_string();
            assert!(error.starts_with(told), "{key}: {error}");
        }
        assert_eq!(tokens.load(Ordering::Relaxed), 100);
        assert!(store.settings().await.unwrap().is_empty());
        assert!(store.audit(None, 10).await.unwrap().is_empty());
        let (free, _) = run_time(&store, &[]);
        free.change(&setting("llm.model", json!("kept")), "admin", now).await.unwrap();
        settings.refresh().await.unwrap();
        let model = settings.shown().into_iter().find(|s| s.0 == "llm.model").unwrap();
        assert_eq!((model.1, model.2), (json!("local"), Source::Environment), "environment wins");
    }
}
