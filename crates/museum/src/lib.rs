//! Service for museum clients: their sessions, and the answers to their users. Sessions are in the
//! store, which alone decides whether one has expired. Not for HTTP.
//!
//! Reading order: this file, `functions`, `answers`.

mod answers;
mod functions;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod settings;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hearken_base::memory_pool::{MemoryExceeded, MemoryPool};
use hearken_base::reloadable::Reloadable;
use hearken_base::wall_clock::Clock;
use hearken_cluster::SharedCache;
use hearken_dialogue::LocalTime;
use hearken_dialogue::tools::schema::off_worker;
use hearken_dialogue::usage::UsageMeter;
use hearken_ports::store::{ListedMuseumSession, MuseumSession, MuseumStore, StoreError};
use hearken_ports::usage::LimitReached;
use hearken_ports::{BoxError, Llm, ProviderError, SessionLock, SessionLocks};
use hearken_proto::ids::SessionId;
use hearken_proto::json::weight;
use hearken_proto::museum::{Mistake, ParseRequest, Parsed, Register, SessionInfo, Stats};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::answers::AnswerCache;
use self::functions::Functions;

pub use settings::MuseumSettings;

/// Interval at which expired sessions are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of sessions removed at once.
const SWEEP: u32 = 1_000;
/// Maximum wait for an earlier request of the same session.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// Reason why a request of a client is refused.
#[derive(Debug, thiserror::Error)]
pub enum MuseumError {
    /// The request contains these mistakes.
    #[error("the request has mistakes")]
    Wrong(Vec<Mistake>),
    /// There is no such session, or it has expired.
    #[error("there is no such session")]
    Gone,
    /// The maximum number of sessions is reached.
    #[error("there are too many sessions")]
    Full,
    /// The functions of queued registrations take too much memory.
    #[error(transparent)]
    TooHeavy(MemoryExceeded),
    /// Another request of the session takes too long.
    #[error("another request of this session takes too long")]
    Busy,
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] StoreError),
    /// The session could not be locked.
    #[error("the session cannot be locked")]
    Lock(#[source] BoxError),
    /// The model failed.
    #[error("the language model failed")]
    Llm(#[source] ProviderError),
    /// Today's limit is reached.
    #[error(transparent)]
    LimitReached(LimitReached),
    /// The model returned no text.
    #[error("the language model gave an empty answer")]
    NoWords,
}

impl From<StoreError> for MuseumError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Dependencies of the service.
pub struct MuseumPorts {
    /// Clock for times reported to clients.
    pub clock: Clock,
    /// Clock by which sessions expire.
    pub expiry_clock: Clock,
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// Store of the sessions.
    pub store: Arc<dyn MuseumStore>,
    /// Locks that allow one request at a time in a session.
    pub locks: Arc<dyn SessionLocks>,
    /// Cache of answers that instances share; `None` for a single instance.
    pub answers: Option<SharedCache>,
    /// Name of the configured model: instances with different models share no answers.
    pub model: String,
    /// Local date and time for the model.
    pub now: LocalTime,
    /// Memory budget of clients.
    pub memory_pool: MemoryPool,
    /// Meter of the usage of answers.
    pub usage: UsageMeter,
}

/// Service for all museum clients of the server.
pub struct Museum {
    ports: MuseumPorts,
    settings: Reloadable<MuseumSettings>,
    /// Cached answers; `None` for no cache.
    answers: Option<AnswerCache>,
    /// Number of changes of the settings: a cached answer is valid only for the settings that it
    /// was generated with.
    settings_version: AtomicU64,
    registered: AtomicU64,
}

/// Returns `now` plus `time`; the latest representable time if that is too large.
fn after(now: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    now.checked_add(time).unwrap_or(Timestamp::MAX)
}

impl Museum {
    /// Creates the service with these settings.
    pub fn new(ports: MuseumPorts, settings: MuseumSettings) -> Self {
        let kept_for = settings.answers_for;
        Self {
            ports,
            answers: (!kept_for.is_zero()).then(|| answers::cache(kept_for)),
            settings: Reloadable::new(settings),
            settings_version: AtomicU64::new(0),
            registered: AtomicU64::new(0),
        }
    }

    /// Replaces the settings. The time for which answers are cached does not change.
    pub fn change(&self, settings: MuseumSettings) {
        self.settings.set(settings);
        self.settings_version.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        (self.ports.clock)()
    }

    /// Returns the time for checks of expiry.
    fn expiring(&self) -> Timestamp {
        (self.ports.expiry_clock)()
    }

    fn ends(&self, now: Timestamp) -> Timestamp {
        after(now, self.settings.get().session_timeout)
    }

    /// Registers a client and returns its session. A client without a credential is counted under
    /// `client`.
    ///
    /// # Errors
    /// Fails if a function is invalid, there are too many sessions, or the store failed.
    pub async fn register(
        &self,
        request: Register,
        client: Option<&str>,
    ) -> Result<MuseumSession, MuseumError> {
        let wanted = request.functions;
        let owner = client.unwrap_or_default();
        let memory = self.ports.memory_pool.peer(owner, client.is_some());
        let weighs = wanted.iter().map(weight).sum();
        let held = memory.reserve(weighs).map_err(MuseumError::TooHeavy)?;
        let read = off_worker(owner, move |until| Functions::read(&wanted, until)).await;
        drop(held);
        let functions = read.map_err(|_| MuseumError::Busy)?.map_err(MuseumError::Wrong)?;
        let now = self.now();
        let _share = self.lock_share(client).await?;
        self.check_room(client).await?;
        let session = MuseumSession {
            id: SessionId::random(),
            metadata: Value::Object(request.client_metadata),
            functions: functions.to_stored(),
            history: Vec::new(),
            created_at: now,
            last_used_at: now,
            expires_at: self.ends(now),
            requests: 0,
        };
        self.ports.store.create(&session, owner).await?;
        self.registered.fetch_add(1, Ordering::Relaxed);
        tracing::info!(
            session = session.id.short(),
            functions = session.functions.len(),
            "a museum client registered"
        );
        Ok(session)
    }

    /// Locks the share of a client: each of several concurrent requests sees the data that earlier
    /// ones have stored. Returns `None` for a client without a share.
    async fn lock_share(&self, client: Option<&str>) -> Result<Option<SessionLock>, MuseumError> {
        let Some(client) = client else { return Ok(None) };
        let name = format!("museum share of {client}");
        let lock = self.ports.locks.lock(&name, TURN_WAIT).await.map_err(MuseumError::Lock)?;
        lock.map(Some).ok_or(MuseumError::Busy)
    }

    /// Checks that another session may exist, in total and for this client.
    async fn check_room(&self, client: Option<&str>) -> Result<(), MuseumError> {
        let settings = self.settings.get();
        let now = self.expiring();
        let (_, sessions) = self.ports.store.list(now, 0, 0).await?;
        let of_client = match client {
            Some(client) => self.ports.store.count_at(client, now).await?,
            None => 0,
        };
        if sessions >= settings.max_sessions || of_client >= settings.max_sessions_per_address {
            return Err(MuseumError::Full);
        }
        Ok(())
    }

    /// Extends the session. Returns its new expiry time.
    ///
    /// # Errors
    /// Fails if there is no such session, or the store failed.
    pub async fn heartbeat(&self, id: &SessionId) -> Result<Timestamp, MuseumError> {
        let ends = self.ends(self.now());
        if self.ports.store.touch(id, ends, self.expiring()).await? {
            Ok(ends)
        } else {
            Err(MuseumError::Gone)
        }
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Fails if there is no such session, or the store failed.
    pub async fn unregister(&self, id: &SessionId) -> Result<(), MuseumError> {
        let alive = self.alive(id).await;
        let removed = self.ports.store.remove(id).await?;
        alive?;
        if removed { Ok(()) } else { Err(MuseumError::Gone) }
    }

    /// Returns a session that has not expired, without extending it.
    async fn alive(&self, id: &SessionId) -> Result<MuseumSession, MuseumError> {
        let found = self.ports.store.find(id).await?;
        found.filter(|session| session.expires_at > self.expiring()).ok_or(MuseumError::Gone)
    }

    /// Describes a session, without extending it.
    ///
    /// # Errors
    /// Fails if there is no such session, or the store failed.
    pub async fn describe(&self, id: &SessionId) -> Result<SessionInfo, MuseumError> {
        let session = self.alive(id).await?;
        let name = |function: &Value| function["name"].as_str().map(str::to_owned);
        Ok(SessionInfo {
            session_id: session.id.to_string(),
            client_metadata: session.metadata,
            functions: session.functions.iter().filter_map(name).collect(),
            created_at: session.created_at,
            expires_at: session.expires_at,
            is_active: true,
        })
    }

    /// Returns at most `limit` sessions that have not expired, the most recently used first, and
    /// their total number.
    ///
    /// # Errors
    /// Fails if the store failed.
    pub async fn sessions(
        &self,
        offset: u32,
        limit: u32,
    ) -> Result<(Vec<ListedMuseumSession>, u64), StoreError> {
        self.ports.store.list(self.expiring(), offset, limit).await
    }

    /// Ends a session on behalf of the administrator. Returns false if it does not exist.
    ///
    /// # Errors
    /// Fails if the store failed.
    pub async fn end(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.ports.store.remove(id).await
    }

    /// Returns the number of sessions that have not expired.
    ///
    /// # Errors
    /// Fails if the store failed.
    pub async fn stats(&self) -> Result<Stats, MuseumError> {
        let (_, active_sessions) = self.ports.store.list(self.expiring(), 0, 0).await?;
        let total_sessions = self.registered.load(Ordering::Relaxed).max(active_sessions);
        Ok(Stats { active_sessions, total_sessions, server_time: self.now() })
    }

    /// Answers a user. Requests of one session run one after the other.
    ///
    /// # Errors
    /// See [`MuseumError`].
    pub async fn parse(
        &self,
        id: &SessionId,
        request: ParseRequest,
    ) -> Result<Parsed, MuseumError> {
        self.heartbeat(id).await?;
        let mut working = pin!(self.parse_locked(id, request));
        // Extends the session while the request runs, however long it takes.
        let answered = loop {
            let third = self.settings.get().session_timeout / 3;
            tokio::select! {
                biased;
                answered = &mut working => break answered,
                () = tokio::time::sleep(third) => self.extend(id).await,
            }
        };
        self.extend(id).await;
        answered
    }

    /// Extends a session that is in use. Only logs an error of the store.
    async fn extend(&self, id: &SessionId) {
        let now = self.now();
        if let Err(error) = self.ports.store.extend(id, self.ends(now), now).await {
            tracing::warn!(%error, session = id.short(), "cannot extend a museum session");
        }
    }

    async fn parse_locked(
        &self,
        id: &SessionId,
        request: ParseRequest,
    ) -> Result<Parsed, MuseumError> {
        let name = format!("museum {id}");
        let lock = self.ports.locks.lock(&name, TURN_WAIT).await.map_err(MuseumError::Lock)?;
        let lock = lock.ok_or(MuseumError::Busy)?;
        let session = self.alive(id).await?;
        let functions = Functions::from_stored(&session.functions, id);
        let answering = self.answer(&session, &functions, request);
        let answered = lock.lost.run_until_cancelled(answering).await;
        answered.unwrap_or(Err(MuseumError::Busy))
    }

    /// Removes expired sessions periodically. Never returns.
    pub async fn keep_sweeping(&self) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        loop {
            ticks.tick().await;
            loop {
                match self.ports.store.remove_expired(self.expiring(), SWEEP).await {
                    Ok(0) => break,
                    Ok(sessions) => tracing::info!(sessions, "deleted expired museum sessions"),
                    Err(error) => {
                        tracing::warn!(%error, "cannot delete expired museum sessions");
                        break;
                    }
                }
            }
        }
    }
}
