//! Museum clients: their sessions, and what their words come to. Sessions are kept in the store,
//! which alone knows whether one is alive; what clients can do never changes within a session and
//! is remembered here. Not for HTTP.
//!
//! Reading order: this file, `functions`, `talk`.

mod functions;
mod settings;
mod talk;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hearken_actors::dialogue::LocalTime;
use hearken_actors::ports::{BoxError, Llm, ProviderError, SessionLocks};
use hearken_actors::reloadable::Reloadable;
use hearken_actors::wall_clock::Clock;
use hearken_cluster::SharedCache;
use hearken_proto::ids::SessionId;
use hearken_proto::museum::{Mistake, ParseRequest, Parsed, Register, SessionTold, Stats};
use hearken_store::{MuseumSession, MuseumStore, StoreError};
use jiff::{SignedDuration, Timestamp};
use moka::future::Cache;
use serde_json::Value;

pub use settings::MuseumSettings;

use self::functions::Functions;
use self::talk::Answer;

/// Sessions whose functions are remembered.
const REMEMBERED: u64 = 10_000;
/// Answers that are remembered.
const ANSWERS: u64 = 1_000;
/// How often sessions that are over are cleared away.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Sessions cleared away at once.
const SWEEP: u32 = 1_000;
/// Longest wait for an earlier request of the same session.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// Why a client is told no.
#[derive(Debug, thiserror::Error)]
pub enum MuseumError {
    /// The request has these mistakes.
    #[error("the request has mistakes")]
    Wrong(Vec<Mistake>),
    /// There is no such session, or it is over.
    #[error("there is no such session")]
    Gone,
    /// There are as many sessions as there may be.
    #[error("there are too many sessions")]
    Full,
    /// Another request of the same session takes too long.
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
    /// The model said nothing.
    #[error("the language model said nothing")]
    NoWords,
}

impl From<StoreError> for MuseumError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What museum clients need of the server.
pub struct MuseumPorts {
    /// The time of day, by which sessions are over.
    pub clock: Clock,
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// Where sessions are kept.
    pub store: Arc<dyn MuseumStore>,
    /// One request at a time in a session.
    pub locks: Arc<dyn SessionLocks>,
    /// Answers that other instances have had; none where there are no others.
    pub answers: Option<SharedCache>,
    /// Names the model as it was configured: instances that differ in it share no answers.
    pub model: String,
    /// The date and time that the model is told.
    pub now: LocalTime,
}

/// All museum clients of the server.
pub struct Museum {
    ports: MuseumPorts,
    settings: Reloadable<MuseumSettings>,
    functions: Cache<SessionId, Arc<Functions>>,
    answers: Option<Cache<[u8; 32], Arc<Answer>>>,
    /// Counts changes of settings: an answer is good for the settings that it was made by.
    settled: AtomicU64,
    registered: AtomicU64,
}

/// This long from now.
fn after(now: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    now.checked_add(time).unwrap_or(Timestamp::MAX)
}

impl Museum {
    /// The clients of a server with these settings.
    pub fn new(ports: MuseumPorts, settings: MuseumSettings) -> Self {
        let kept_for = settings.answers_for;
        let answers = Cache::builder().max_capacity(ANSWERS).time_to_live(kept_for).build();
        Self {
            ports,
            functions: Cache::new(REMEMBERED),
            answers: Some(answers).filter(|_| !kept_for.is_zero()),
            settings: Reloadable::new(settings),
            settled: AtomicU64::new(0),
            registered: AtomicU64::new(0),
        }
    }

    /// Serves by these settings, and the model as it is, from now on. For how long answers are
    /// kept stays as it was.
    pub fn change(&self, settings: MuseumSettings) {
        self.settings.set(settings);
        self.settled.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        (self.ports.clock)()
    }

    fn ends(&self, now: Timestamp) -> Timestamp {
        after(now, self.settings.get().session_timeout)
    }

    /// Registers a client; its session, and when that is over.
    ///
    /// # Errors
    /// A function that is none, too many sessions, or the store failed.
    pub async fn register(&self, request: Register) -> Result<MuseumSession, MuseumError> {
        let functions = Functions::read(&request.functions).map_err(MuseumError::Wrong)?;
        let now = self.now();
        let (_, sessions) = self.ports.store.list(now, 0, 0).await?;
        if sessions >= self.settings.get().max_sessions {
            return Err(MuseumError::Full);
        }
        let session = MuseumSession {
            id: SessionId::random(),
            metadata: Value::Object(request.client_metadata),
            functions: functions.as_kept(),
            history: Vec::new(),
            created_at: now,
            last_used_at: now,
            expires_at: self.ends(now),
            requests: 0,
        };
        self.ports.store.create(&session).await?;
        self.functions.insert(session.id.clone(), Arc::new(functions)).await;
        self.registered.fetch_add(1, Ordering::Relaxed);
        tracing::info!(session = %session.id, functions = session.functions.len(), "a museum client registered");
        Ok(session)
    }

    /// The session is used; when it is over now.
    ///
    /// # Errors
    /// There is no such session, or the store failed.
    pub async fn heartbeat(&self, id: &SessionId) -> Result<Timestamp, MuseumError> {
        let now = self.now();
        let ends = self.ends(now);
        if self.ports.store.touch(id, ends, now).await? { Ok(ends) } else { Err(MuseumError::Gone) }
    }

    /// Ends a session.
    ///
    /// # Errors
    /// There is no such session, or the store failed.
    pub async fn unregister(&self, id: &SessionId) -> Result<(), MuseumError> {
        let alive = self.alive(id).await;
        let removed = self.ports.store.remove(id).await?;
        self.functions.invalidate(id).await;
        alive?;
        if removed { Ok(()) } else { Err(MuseumError::Gone) }
    }

    /// A session that is not over; it does not count as used.
    async fn alive(&self, id: &SessionId) -> Result<MuseumSession, MuseumError> {
        let found = self.ports.store.find(id).await?;
        found.filter(|session| session.expires_at > self.now()).ok_or(MuseumError::Gone)
    }

    /// What a session is; it does not count as used.
    ///
    /// # Errors
    /// There is no such session, or the store failed.
    pub async fn describe(&self, id: &SessionId) -> Result<SessionTold, MuseumError> {
        let session = self.alive(id).await?;
        let name = |function: &Value| function["name"].as_str().map(str::to_owned);
        Ok(SessionTold {
            session_id: session.id.to_string(),
            client_metadata: session.metadata,
            functions: session.functions.iter().filter_map(name).collect(),
            created_at: session.created_at,
            expires_at: session.expires_at,
            is_active: true,
        })
    }

    /// At most this many sessions that are not over, those used last first, and how many there are.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sessions(
        &self,
        offset: u32,
        limit: u32,
    ) -> Result<(Vec<MuseumSession>, u64), StoreError> {
        self.ports.store.list(self.now(), offset, limit).await
    }

    /// Ends a session from outside. False where there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.functions.invalidate(id).await;
        self.ports.store.remove(id).await
    }

    /// How many sessions there are that are not over.
    ///
    /// # Errors
    /// The store failed.
    pub async fn stats(&self) -> Result<Stats, MuseumError> {
        let now = self.now();
        let (_, active_sessions) = self.ports.store.list(now, 0, 0).await?;
        let total_sessions = self.registered.load(Ordering::Relaxed).max(active_sessions);
        Ok(Stats { active_sessions, total_sessions, server_time: now })
    }

    /// Answers a person, in their turn.
    ///
    /// # Errors
    /// See [`MuseumError`].
    pub async fn parse(
        &self,
        id: &SessionId,
        request: ParseRequest,
    ) -> Result<Parsed, MuseumError> {
        self.heartbeat(id).await?;
        let mut working = pin!(self.in_turn(id, request));
        // What is in use is not over, however long it takes.
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

    /// A session is in use now.
    async fn extend(&self, id: &SessionId) {
        let now = self.now();
        if let Err(error) = self.ports.store.extend(id, self.ends(now), now).await {
            tracing::warn!(%error, session = %id, "a use of a museum session cannot be kept");
        }
    }

    async fn in_turn(&self, id: &SessionId, request: ParseRequest) -> Result<Parsed, MuseumError> {
        let name = format!("museum {id}");
        let lock = self.ports.locks.lock(&name, TURN_WAIT).await.map_err(MuseumError::Lock)?;
        let lock = lock.ok_or(MuseumError::Busy)?;
        let session = self.alive(id).await?;
        let functions = self.functions_of(&session).await?;
        let answering = self.answer(&session, &functions, request);
        let answered = lock.lost.run_until_cancelled(answering).await;
        answered.unwrap_or(Err(MuseumError::Busy))
    }

    /// What a session's client can do.
    async fn functions_of(&self, session: &MuseumSession) -> Result<Arc<Functions>, MuseumError> {
        if let Some(known) = self.functions.get(&session.id).await {
            return Ok(known);
        }
        let functions = Functions::read(&session.functions).map_err(MuseumError::Wrong)?;
        let functions = Arc::new(functions);
        self.functions.insert(session.id.clone(), Arc::clone(&functions)).await;
        Ok(functions)
    }

    /// Clears away sessions that are over, for ever.
    pub async fn keep_sweeping(&self) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        loop {
            ticks.tick().await;
            match self.ports.store.remove_expired(self.now(), SWEEP).await {
                Ok(0) => {}
                Ok(sessions) => tracing::info!(sessions, "museum sessions are over"),
                Err(error) => tracing::warn!(%error, "museum sessions cannot be cleared away"),
            }
        }
    }
}
