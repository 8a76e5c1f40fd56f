//! The sessions of text clients: what each remembers, who may go on with it, and when it is over.
//! A session outlives its connections, and through its store the server. Not for answering.
//!
//! - Sessions in memory are a cache of the store: what was never used is in memory alone.
//! - Who talks in a session holds its memory; another connection waits its turn.
//! - Where other instances serve the same sessions, who talks in one holds its lock too, and reads
//!   what they have kept of it meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hearken_proto::ids::SessionId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::dialogue::{Manner, Memory, SharedManner};
use crate::live::Live;
use crate::ports::{BoxError, ChatMessage, KeptSession, SessionLock, SessionLocks, SessionStore};

/// Longest wait for another instance that talks in a session.
const OTHERS_FINISH: Duration = Duration::from_secs(120);
/// Sessions in memory; beyond, those unused for longest leave it.
const MOST_IN_MEMORY: usize = 10_000;

/// One session.
pub struct TextSession {
    id: SessionId,
    manner: SharedManner,
    memory: tokio::sync::Mutex<Memory>,
    used: Mutex<Instant>,
    /// When it was used last, as the store knew it when it was last read or written.
    known: Mutex<Option<SystemTime>>,
    ended: AtomicBool,
}

impl TextSession {
    fn new(id: SessionId, memory: Memory, manner: Manner, known: Option<SystemTime>) -> Self {
        Self {
            id,
            manner: Arc::new(Mutex::new(manner)),
            memory: tokio::sync::Mutex::new(memory),
            used: Mutex::new(Instant::now()),
            known: Mutex::new(known),
            ended: AtomicBool::new(false),
        }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// How it is talked to; hold it only as long as it takes to read or change it.
    pub fn manner(&self) -> MutexGuard<'_, Manner> {
        locked(&self.manner)
    }

    /// How it is talked to, for the tools that change it.
    pub fn shared_manner(&self) -> &SharedManner {
        &self.manner
    }

    /// Somebody ended it.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn unused_for(&self) -> Duration {
        locked(&self.used).elapsed()
    }

    fn touch(&self) {
        *locked(&self.used) = Instant::now();
    }
}

/// Why somebody cannot go on with a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionLost {
    /// There is none of this id, or no longer.
    #[error("Session not found or expired: {0}")]
    Unknown(SessionId),
    /// The store does not tell.
    #[error("The session cannot be looked up")]
    Store(#[source] BoxError),
}

/// What is kept of a session.
#[derive(Serialize, Deserialize)]
struct Kept {
    messages: Vec<ChatMessage>,
    manner: Manner,
}

/// What a session remembers, held by whoever talks in it.
pub struct Held<'a> {
    memory: tokio::sync::MutexGuard<'a, Memory>,
    /// Where other instances may talk in it.
    _lock: Option<SessionLock>,
}

impl std::ops::Deref for Held<'_> {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl std::ops::DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

/// All sessions.
pub struct Sessions {
    live: Mutex<HashMap<SessionId, Arc<TextSession>>>,
    store: Arc<dyn SessionStore>,
    /// Where other instances serve the same sessions.
    locks: Option<Arc<dyn SessionLocks>>,
    idle: Live<Duration>,
    max_messages: usize,
}

/// The time as the store keeps it, in milliseconds.
fn now() -> SystemTime {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since_1970.as_millis()).unwrap_or_default();
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds the sessions")
}

impl Sessions {
    /// Sessions that are over when nobody used them for `idle`, and remember this many messages.
    pub fn new(
        store: Arc<dyn SessionStore>,
        idle: impl Into<Live<Duration>>,
        max_messages: usize,
    ) -> Self {
        Self { live: Mutex::default(), store, locks: None, idle: idle.into(), max_messages }
    }

    /// After how long without use a session is over, which may be changed.
    pub fn idle(&self) -> &Live<Duration> {
        &self.idle
    }

    /// Other instances serve the same sessions, under these locks.
    pub fn shared(self, locks: Arc<dyn SessionLocks>) -> Self {
        Self { locks: Some(locks), ..self }
    }

    /// A new session.
    pub fn begin(&self) -> Arc<TextSession> {
        let memory = Memory::new(self.max_messages, Vec::new());
        self.add(TextSession::new(SessionId::random(), memory, Manner::default(), None))
    }

    /// Adds a session, unless one of its id is there, and gives the one that is.
    fn add(&self, session: TextSession) -> Arc<TextSession> {
        let mut live = locked(&self.live);
        if live.len() >= MOST_IN_MEMORY {
            make_room(&mut live);
        }
        let id = session.id.clone();
        Arc::clone(live.entry(id).or_insert_with(|| Arc::new(session)))
    }

    /// The session can still be gone on with.
    pub fn is_alive(&self, session: &TextSession) -> bool {
        !session.has_ended() && session.unused_for() < *self.idle.get()
    }

    /// The session of this id, if it is not over; it counts as used now.
    ///
    /// # Errors
    /// See [`SessionLost`].
    pub async fn find(&self, id: &SessionId) -> Result<Arc<TextSession>, SessionLost> {
        let in_memory = locked(&self.live).get(id).cloned();
        let session = match in_memory {
            Some(session) if self.is_alive(&session) => session,
            Some(_) if self.locks.is_none() => return Err(SessionLost::Unknown(id.clone())),
            Some(over) => {
                // Unless others have gone on with it.
                self.leave_memory(&over);
                self.found(id).await?
            }
            None => self.found(id).await?,
        };
        session.touch();
        Ok(session)
    }

    /// Takes a session's memory once nobody else talks in it, as it is then; the session is over
    /// where somebody ended it. Where the store or the others do not answer it is as it was here.
    pub async fn enter<'a>(&self, session: &'a TextSession) -> Held<'a> {
        let mut memory = session.memory.lock().await;
        let Some(locks) = &self.locks else { return Held { memory, _lock: None } };
        let lock = locks.lock(&format!("text:{}", session.id), OTHERS_FINISH).await;
        let lock = lock.unwrap_or_else(|error| {
            tracing::warn!(error, session = %session.id, "a session cannot be locked");
            None
        });
        match self.store.load(&session.id).await {
            Ok(kept) => self.refresh(session, &mut memory, kept),
            Err(error) => {
                tracing::warn!(error, session = %session.id, "a session cannot be looked up");
            }
        }
        Held { memory, _lock: lock }
    }

    /// Brings a session to what others have kept of it.
    fn refresh(&self, session: &TextSession, memory: &mut Memory, kept: Option<KeptSession>) {
        let known = *locked(&session.known);
        let Some(kept) = kept else {
            // What was never kept is in memory alone.
            if known.is_some() {
                session.ended.store(true, Ordering::Relaxed);
                self.leave_memory(session);
            }
            return;
        };
        if known == Some(kept.last_used) {
            return;
        }
        match serde_json::from_str(&kept.state) {
            Ok(Kept { messages, manner }) => {
                *memory = Memory::new(self.max_messages, messages);
                *session.manner() = manner;
                *locked(&session.known) = Some(kept.last_used);
            }
            Err(error) => tracing::warn!(%error, session = %session.id, "a session is unreadable"),
        }
    }

    fn leave_memory(&self, session: &TextSession) {
        let mut live = locked(&self.live);
        if live.get(&session.id).is_some_and(|here| std::ptr::eq(&**here, session)) {
            live.remove(&session.id);
        }
    }

    async fn found(&self, id: &SessionId) -> Result<Arc<TextSession>, SessionLost> {
        let unknown = || SessionLost::Unknown(id.clone());
        let kept = self.store.load(id).await.map_err(SessionLost::Store)?.ok_or_else(unknown)?;
        if kept.last_used.elapsed().is_ok_and(|unused| unused >= *self.idle.get()) {
            return Err(unknown());
        }
        let Kept { messages, manner } =
            serde_json::from_str(&kept.state).map_err(|e| SessionLost::Store(e.into()))?;
        let memory = Memory::new(self.max_messages, messages);
        Ok(self.add(TextSession::new(id.clone(), memory, manner, Some(kept.last_used))))
    }

    /// Keeps what a session remembers now; it counts as used.
    ///
    /// # Errors
    /// The store failed; the session goes on in memory.
    pub async fn keep(&self, session: &TextSession, memory: &Memory) -> Result<(), BoxError> {
        session.touch();
        if session.has_ended() {
            return Ok(());
        }
        let manner = session.manner().clone();
        let kept = Kept { messages: memory.messages().to_vec(), manner };
        let state = serde_json::to_string(&kept)?;
        let (id, last_used) = (session.id.clone(), now());
        self.store.keep(&KeptSession { id, state, last_used }).await?;
        *locked(&session.known) = Some(last_used);
        Ok(())
    }

    /// Ends a session: it is forgotten everywhere.
    ///
    /// # Errors
    /// The store failed, and may still know it.
    pub async fn end(&self, session: &TextSession) -> Result<(), BoxError> {
        session.ended.store(true, Ordering::Relaxed);
        locked(&self.live).remove(&session.id);
        self.store.forget(&session.id).await
    }

    /// Clears away the sessions that are over.
    ///
    /// # Errors
    /// The store failed; memory is cleared.
    pub async fn sweep(&self) -> Result<(), BoxError> {
        locked(&self.live).retain(|_, session| self.is_alive(session));
        let since = SystemTime::now().checked_sub(*self.idle.get());
        match since {
            Some(since) => self.store.forget_unused(since).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Sweeps this often, for ever.
    pub async fn keep_sweeping(&self, every: Duration) {
        let mut ticks = tokio::time::interval(every);
        loop {
            ticks.tick().await;
            if let Err(error) = self.sweep().await {
                tracing::warn!(error, "sessions that are over cannot be cleared away");
            }
        }
    }
}

/// Lets a tenth of the sessions that no connection has leave memory, those unused for longest.
fn make_room(live: &mut HashMap<SessionId, Arc<TextSession>>) {
    let free = live.values().filter(|session| Arc::strong_count(session) == 1);
    let mut ages: Vec<_> = free.map(|s| (s.unused_for(), s.id.clone())).collect();
    ages.sort_unstable_by(|a, b| b.cmp(a));
    for (_, id) in ages.drain(..ages.len().div_ceil(10)) {
        live.remove(&id);
    }
}
