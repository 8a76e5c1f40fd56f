//! Sessions of text clients: access to them and their expiry. A session outlives its connections
//! and, through its store, the server. Not for answering.
//!
//! - Sessions in memory are a cache of the store, bounded by number and size. Sessions that were
//!   never answered exist only in memory.
//! - A session in use does not expire. It is not swept from memory. No instance removes it from the
//!   store either, because each use is reported to the store.
//! - A request in a session holds its memory. Other connections wait.
//! - If other instances serve the same sessions, a request also holds the session's lock, and reads
//!   the copies that they have stored meanwhile.
//! - A session only replaces the copy that it was read from: if a lock or a read failed, data of
//!   other instances is not lost.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use hearken_base::reloadable::Reloadable;
use hearken_base::wall_clock::{self, Clock};
use hearken_dialogue::{ConversationStyle, Memory};
use hearken_ports::{BoxError, ChatMessage, KeptSession, SessionLocks, SessionStore, StoreOutcome};
use hearken_proto::ids::SessionId;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::session::{InUse, LockedMemory, TextSession, locked};

/// Interval between log messages while waiting for another instance to release a session.
const OTHERS_FINISH: Duration = Duration::from_secs(120);
/// Maximum number of sessions in memory. Above it, the ones unused for longest are evicted.
const MOST_IN_MEMORY: usize = 10_000;
/// Maximum size of all sessions in memory, in bytes. Above it, the ones unused for longest are
/// evicted. Sessions that a connection holds are counted, but stay.
const MOST_BYTES_IN_MEMORY: usize = 64 << 20;
/// Minimum difference that counts as a clock that was set back, rather than a read in the same
/// millisecond or an adjustment.
const SET_BACK: Duration = Duration::from_secs(60);
/// Time for which an ended session is remembered as ended. This stops a request that has just
/// loaded it from the store.
const KNOWN_AS_ENDED: Duration = Duration::from_secs(60);

/// Reason why a session is not available.
#[derive(Debug, thiserror::Error)]
pub enum SessionUnavailable {
    /// There is no session with this id, or no longer.
    #[error("Session not found or expired: {0}")]
    Unknown(SessionId),
    /// The store cannot be read.
    #[error("The session cannot be looked up")]
    Store(#[source] BoxError),
}

/// Stored content of a session.
#[derive(Serialize, Deserialize)]
struct StoredSession {
    messages: Vec<ChatMessage>,
    /// Stored under its first name.
    #[serde(rename = "manner")]
    style: ConversationStyle,
    /// Set if the model refused the last turn: its next refusal must forget the messages, on
    /// whichever instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
    /// End of the last remembered turn, in milliseconds since 1970, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    /// Number of turns that have begun, whether they are remembered or not.
    #[serde(default)]
    turns: i64,
}

/// All text sessions.
pub struct Sessions {
    live: Mutex<HashMap<SessionId, Arc<TextSession>>>,
    /// Size of all existing sessions, in bytes.
    bytes: Arc<AtomicUsize>,
    store: Arc<dyn SessionStore>,
    /// Locks, if other instances serve the same sessions.
    locks: Option<Arc<dyn SessionLocks>>,
    idle: Reloadable<Duration>,
    max_messages: usize,
    clock: Clock,
    /// Clock by which sessions expire.
    expiry_clock: Clock,
    /// Running requests. They outlive their connection, because a request whose client left may
    /// already have changed something.
    requests: Mutex<JoinSet<()>>,
}

impl Sessions {
    /// Creates a registry of sessions that expire after `idle` without use. Each remembers at most
    /// `max_messages` messages.
    pub fn new(
        store: Arc<dyn SessionStore>,
        idle: impl Into<Reloadable<Duration>>,
        max_messages: usize,
    ) -> Self {
        Self {
            live: Mutex::default(),
            bytes: Arc::default(),
            store,
            locks: None,
            idle: idle.into(),
            max_messages,
            clock: Arc::new(wall_clock::now),
            expiry_clock: Arc::new(wall_clock::earliest),
            requests: Mutex::default(),
        }
    }

    /// Replaces the wall clock.
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { expiry_clock: Arc::clone(&clock), clock, ..self }
    }

    /// Returns the current time in the resolution of the store, milliseconds.
    fn now(&self) -> SystemTime {
        (self.clock)().into()
    }

    /// Returns the date of the end of the last remembered turn, in milliseconds since 1970.
    fn ended_ms(&self, memory: &Memory) -> Option<u64> {
        let ended = self.now().checked_sub(memory.since_last()?)?;
        let since = ended.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }

    /// Returns the memory with these stored messages, whose last turn ended at this date.
    fn restored(&self, messages: Vec<ChatMessage>, ended_ms: Option<u64>) -> Memory {
        let ended =
            ended_ms.and_then(|ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        let passed = ended.and_then(|ended| match self.now().duration_since(ended) {
            Ok(passed) => Some(passed),
            // The clocks of instances differ slightly.
            Err(ahead) if ahead.duration() < SET_BACK => Some(Duration::ZERO),
            Err(_) => None,
        });
        Memory::new(self.max_messages, messages).ended_before(passed)
    }

    /// Returns the time of a use now. It is later than that of the copy that the session was read
    /// from, because the time identifies the copy; only if the clock was set back by much, it is
    /// earlier.
    fn next_use(&self, session: &TextSession) -> SystemTime {
        let now = self.now();
        let known = session.known();
        let ahead = known.and_then(|known| known.duration_since(now).ok());
        match ahead {
            Some(ahead) if ahead < SET_BACK => now + ahead + Duration::from_millis(1),
            _ => now,
        }
    }

    /// Returns the time without use after which a session expires. It can be reloaded.
    pub fn idle(&self) -> &Reloadable<Duration> {
        &self.idle
    }

    /// Sets the locks, because other instances serve the same sessions.
    pub fn with_locks(self, locks: Arc<dyn SessionLocks>) -> Self {
        Self { locks: Some(locks), ..self }
    }

    /// Runs a request independently of its connection. The number of requests is bounded by the
    /// number of connections.
    pub(crate) fn spawn(&self, request: impl Future<Output = ()> + Send + 'static) {
        let mut requests = locked(&self.requests);
        while requests.try_join_next().is_some() {}
        requests.spawn(request);
    }

    /// Starts a new session.
    pub fn begin(&self) -> InUse {
        let memory = Memory::new(self.max_messages, Vec::new());
        let session = self.session(SessionId::random(), memory, ConversationStyle::default(), None);
        let session = Arc::new(session);
        let mut live = self.lock_with_room();
        live.insert(session.id().clone(), Arc::clone(&session));
        InUse::from_session(&session)
    }

    fn session(
        &self,
        id: SessionId,
        memory: Memory,
        style: ConversationStyle,
        known: Option<SystemTime>,
    ) -> TextSession {
        TextSession::new(id, memory, style, known, &self.bytes)
    }

    /// Locks the sessions in memory and makes room for another.
    fn lock_with_room(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<TextSession>>> {
        let mut live = locked(&self.live);
        let has_room = |live: &HashMap<_, _>, of: usize, most: usize| {
            let bytes = self.bytes.load(Ordering::Relaxed);
            live.len() < MOST_IN_MEMORY / of * most && bytes < MOST_BYTES_IN_MEMORY / of * most
        };
        if !has_room(&live, 1, 1) {
            // Ten percent less, so that the next session does not evict again.
            evict(&mut live, |live| has_room(live, 10, 9));
        }
        live
    }

    /// Reports whether the session can still be used.
    fn is_alive(&self, session: &TextSession) -> bool {
        let in_time = || session.unused_for() < *self.idle.get();
        !session.has_ended() && (session.is_in_use() || in_time())
    }

    /// Returns the session with this id, in use, if it is in memory and alive.
    pub fn find_in_memory(&self, id: &SessionId) -> Option<InUse> {
        let live = locked(&self.live);
        live.get(id).filter(|session| self.is_alive(session)).map(InUse::from_session)
    }

    /// Returns the session with this id, in use, if it is alive.
    ///
    /// # Errors
    /// See [`SessionUnavailable`].
    pub async fn find(&self, id: &SessionId) -> Result<InUse, SessionUnavailable> {
        {
            let mut live = locked(&self.live);
            match live.get(id) {
                Some(session) if self.is_alive(session) => return Ok(InUse::from_session(session)),
                Some(over) if self.locks.is_none() || over.has_ended() => {
                    return Err(SessionUnavailable::Unknown(id.clone()));
                }
                // Expired here, but other instances may have used it.
                Some(_) => live.remove(id),
                None => None,
            };
        }
        self.found(id).await
    }

    /// Waits for exclusive access to a session's memory and refreshes it. Marks the session as
    /// ended if another client or instance ended it. If the store or the locks fail, uses the
    /// memory of this instance.
    pub async fn lock_memory<'a>(&self, session: &'a TextSession) -> LockedMemory<'a> {
        // A fair lock instead of an actor: connections take turns, and idle sessions have no task.
        // Decision 0016.
        let mut memory = session.memory.lock().await;
        let Some(locks) = &self.locks else { return LockedMemory { session, memory, _lock: None } };
        let name = format!("text:{}", session.id());
        let lock = loop {
            match locks.lock(&name, OTHERS_FINISH).await {
                Ok(Some(lock)) => break Some(lock),
                Ok(None) => {
                    tracing::info!(session = %session.id().short(), "waiting for another instance to finish a request of the session");
                }
                Err(error) => {
                    tracing::warn!(error, session = %session.id().short(), "cannot lock a session");
                    break None;
                }
            }
        };
        match self.store.load(session.id()).await {
            Ok(Some(kept)) if session.known() == Some(kept.last_used) => {}
            Ok(kept) => _ = self.refresh(session, &mut memory, kept),
            Err(error) => {
                tracing::warn!(error, session = %session.id().short(), "cannot load a session from the store");
            }
        }
        LockedMemory { session, memory, _lock: lock }
    }

    /// Returns true if other instances serve the same sessions.
    pub(crate) fn are_shared(&self) -> bool {
        self.locks.is_some()
    }

    /// Replaces the memory of a session by the stored version. Returns false if that cannot be
    /// read, or does not exist: then the session has ended, unless it was never stored.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub async fn reload(
        &self,
        session: &TextSession,
        memory: &mut Memory,
    ) -> Result<bool, BoxError> {
        let kept = self.store.load(session.id()).await?;
        Ok(self.refresh(session, memory, kept))
    }

    fn refresh(
        &self,
        session: &TextSession,
        memory: &mut Memory,
        kept: Option<KeptSession>,
    ) -> bool {
        let Some(kept) = kept else {
            // A session that was never stored exists only in memory.
            if session.known().is_some() {
                session.mark_ended();
            }
            return false;
        };
        match serde_json::from_str(&kept.state) {
            Ok(StoredSession { messages, style, refused, ended_ms, turns }) => {
                *memory = self.restored(messages, ended_ms).after_refusal(refused);
                *session.style() = style;
                session.note_read_turns(turns);
                session.set_known(kept.last_used);
                true
            }
            Err(error) => {
                tracing::warn!(%error, session = %session.id().short(), "cannot read a stored session");
                false
            }
        }
    }

    async fn found(&self, id: &SessionId) -> Result<InUse, SessionUnavailable> {
        let unknown = || SessionUnavailable::Unknown(id.clone());
        let kept =
            self.store.load(id).await.map_err(SessionUnavailable::Store)?.ok_or_else(unknown)?;
        let unused = SystemTime::from((self.expiry_clock)()).duration_since(kept.last_used);
        if unused.unwrap_or_default() >= *self.idle.get() {
            return Err(unknown());
        }
        let StoredSession { messages, style, refused, ended_ms, turns } =
            serde_json::from_str(&kept.state).map_err(|e| SessionUnavailable::Store(e.into()))?;
        let memory = self.restored(messages, ended_ms).after_refusal(refused);
        let session = self.session(id.clone(), memory, style, Some(kept.last_used));
        session.note_read_turns(turns);
        // Another request may have loaded or ended it meanwhile.
        let mut live = self.lock_with_room();
        let session = live.entry(id.clone()).or_insert_with(|| Arc::new(session));
        if self.is_alive(session) { Ok(InUse::from_session(session)) } else { Err(unknown()) }
    }

    /// Stores the memory of a session. Returns false if the store has another copy than the one
    /// that the session was read from: then the session must be reloaded.
    ///
    /// # Errors
    /// Returns an error if the store failed. The session continues in memory.
    pub async fn keep(&self, session: &TextSession, memory: &Memory) -> Result<bool, BoxError> {
        if session.has_ended() {
            return Ok(true);
        }
        let style = session.style().clone();
        let messages = memory.messages().to_vec();
        let refused = memory.is_after_refusal();
        let ended_ms = self.ended_ms(memory);
        let turns = session.turns();
        let kept = StoredSession { messages, style, refused, ended_ms, turns };
        let state = serde_json::to_string(&kept)?;
        let last_used = self.next_use(session);
        let kept = KeptSession { id: session.id().clone(), state, last_used };
        // Only the known copy is replaced: while Redis is lost, the lock does not exclude other
        // instances. Decision 0060.
        let mut outcome = self.store.keep(&kept, session.known()).await?;
        if outcome == StoreOutcome::Closed && self.locks.is_none() {
            // No other instance can have ended it: it was removed as unused.
            outcome = self.store.keep(&kept, None).await?;
        }
        match outcome {
            StoreOutcome::Kept => {
                session.set_known(last_used);
                session.note_stored_turns(turns);
            }
            StoreOutcome::Overtaken => return Ok(false),
            StoreOutcome::Closed => {
                // Another instance ended it.
                session.mark_ended();
                return Ok(true);
            }
        }
        // It may have grown, and may now be evicted in its turn.
        drop(self.lock_with_room());
        if session.has_ended() {
            // Ended while it was being stored.
            self.store.forget(session.id()).await?;
        }
        Ok(true)
    }

    /// Reports to the store that a session is used now. Marks the session as ended if another
    /// instance ended it.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub async fn note_use(&self, session: &TextSession) -> Result<(), BoxError> {
        if session.known().is_none() || session.has_ended() {
            return Ok(());
        }
        let now = self.next_use(session);
        if self.store.touch(session.id(), now).await? {
            match self.locks {
                // No other instance stores it: its content is the same.
                None => session.set_known(now),
                Some(_) => session.record_use(now),
            }
        } else if self.locks.is_some() {
            session.mark_ended();
        }
        Ok(())
    }

    /// Runs work in a session. Reports the use to the store if the last report is long ago, and
    /// repeatedly while the work lasts.
    pub(crate) async fn run_in<T>(
        &self,
        session: &TextSession,
        spawn: impl Future<Output = T>,
    ) -> T {
        let mut spawn = pin!(spawn);
        let third = *self.idle.get() / 3;
        let mut due = third.saturating_sub(self.unknown_for(session));
        if due.is_zero() && self.are_shared() {
            // Before the work reads the stored copy: a report after it would look like a newer copy
            // of another instance.
            self.note_use_after(session, due).await;
            due = third;
        }
        loop {
            tokio::select! {
                biased;
                done = &mut spawn => return done,
                () = self.note_use_after(session, due) => {}
            }
            due = *self.idle.get() / 3;
        }
    }

    async fn note_use_after(&self, session: &TextSession, wait: Duration) {
        tokio::time::sleep(wait).await;
        if let Err(error) = self.note_use(session).await {
            tracing::warn!(error, session = %session.id().short(), "cannot store the time of use of a session");
        }
    }

    /// Returns the time since a use was last reported to the store. Zero if the store does not have
    /// the session.
    fn unknown_for(&self, session: &TextSession) -> Duration {
        let since = session.reported_use().map(|told| self.now().duration_since(told));
        since.and_then(Result::ok).unwrap_or_default()
    }

    /// Ends a session and removes it everywhere.
    ///
    /// # Errors
    /// Returns an error if the store failed. The next sweep tries again.
    pub async fn end(&self, session: &TextSession) -> Result<(), BoxError> {
        session.mark_ended();
        self.store.forget(session.id()).await?;
        session.forgotten.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Removes expired sessions.
    ///
    /// # Errors
    /// Returns an error if the store failed. Memory is swept anyway.
    pub async fn sweep(&self) -> Result<(), BoxError> {
        let third = *self.idle.get() / 3;
        let mut ended = Vec::new();
        let mut in_use = Vec::new();
        locked(&self.live).retain(|_, session| {
            if session.has_ended() {
                if session.forgotten.load(Ordering::Relaxed) {
                    return session.unused_for() < KNOWN_AS_ENDED;
                }
                ended.push(Arc::clone(session));
            } else if session.is_in_use() && self.unknown_for(session) > third {
                in_use.push(Arc::clone(session));
            }
            session.has_ended() || self.is_alive(session)
        });
        for session in ended {
            if let Err(error) = self.end(&session).await {
                tracing::warn!(error, session = %session.id().short(), "cannot delete an ended session from the store");
            }
        }
        for session in in_use {
            self.note_use_after(&session, Duration::ZERO).await;
        }
        let since = SystemTime::from((self.expiry_clock)()).checked_sub(*self.idle.get());
        match since {
            Some(since) => {
                while self.store.forget_unused(since).await? > 0 {}
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sweeps at this interval. Never returns.
    pub async fn keep_sweeping(&self, every: Duration) {
        let mut ticks = tokio::time::interval(every);
        loop {
            ticks.tick().await;
            if let Err(error) = self.sweep().await {
                tracing::warn!(error, "cannot delete expired sessions");
            }
        }
    }
}

/// Evicts sessions that no connection holds, least recently used first, until there is room.
fn evict(
    live: &mut HashMap<SessionId, Arc<TextSession>>,
    has_room: impl Fn(&HashMap<SessionId, Arc<TextSession>>) -> bool,
) {
    let free = live.values().filter(|session| Arc::strong_count(session) == 1);
    let mut ages: Vec<_> = free.map(|s| (s.unused_for(), s.id().clone())).collect();
    ages.sort_unstable_by(|a, b| b.cmp(a));
    for (_, id) in ages {
        if has_room(live) {
            return;
        }
        live.remove(&id);
    }
}
