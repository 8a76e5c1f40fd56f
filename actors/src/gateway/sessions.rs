//! The sessions of text clients: what each remembers, who may go on with it, and when it is over.
//! A session outlives its connections, and through its store the server. Not for answering.
//!
//! - Sessions in memory are a cache of the store: what was never used is in memory alone.
//! - Who talks in a session holds its memory; another connection waits its turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use hearken_proto::ids::SessionId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::dialogue::{Manner, Memory, SharedManner};
use crate::live::Live;
use crate::ports::{BoxError, ChatMessage, KeptSession, SessionStore};

/// Sessions in memory; beyond, those unused for longest leave it.
const MOST_IN_MEMORY: usize = 10_000;

/// One session.
pub struct TextSession {
    id: SessionId,
    manner: SharedManner,
    memory: tokio::sync::Mutex<Memory>,
    used: Mutex<Instant>,
    ended: AtomicBool,
}

impl TextSession {
    fn new(id: SessionId, memory: Memory, manner: Manner) -> Self {
        Self {
            id,
            manner: Arc::new(Mutex::new(manner)),
            memory: tokio::sync::Mutex::new(memory),
            used: Mutex::new(Instant::now()),
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

    /// What it remembers; held by whoever talks in it.
    pub async fn memory(&self) -> tokio::sync::MutexGuard<'_, Memory> {
        self.memory.lock().await
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

/// All sessions.
pub struct Sessions {
    live: Mutex<HashMap<SessionId, Arc<TextSession>>>,
    store: Arc<dyn SessionStore>,
    idle: Live<Duration>,
    max_messages: usize,
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
        Self { live: Mutex::default(), store, idle: idle.into(), max_messages }
    }

    /// After how long without use a session is over, which may be changed.
    pub fn idle(&self) -> &Live<Duration> {
        &self.idle
    }

    /// A new session.
    pub fn begin(&self) -> Arc<TextSession> {
        let memory = Memory::new(self.max_messages, Vec::new());
        self.add(TextSession::new(SessionId::random(), memory, Manner::default()))
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
            Some(_) => return Err(SessionLost::Unknown(id.clone())),
            None => self.recall(id).await?,
        };
        session.touch();
        Ok(session)
    }

    async fn recall(&self, id: &SessionId) -> Result<Arc<TextSession>, SessionLost> {
        let unknown = || SessionLost::Unknown(id.clone());
        let kept = self.store.load(id).await.map_err(SessionLost::Store)?.ok_or_else(unknown)?;
        if kept.last_used.elapsed().is_ok_and(|unused| unused >= *self.idle.get()) {
            return Err(unknown());
        }
        let Kept { messages, manner } =
            serde_json::from_str(&kept.state).map_err(|e| SessionLost::Store(e.into()))?;
        let memory = Memory::new(self.max_messages, messages);
        Ok(self.add(TextSession::new(id.clone(), memory, manner)))
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
        let (id, last_used) = (session.id.clone(), SystemTime::now());
        self.store.keep(&KeptSession { id, state, last_used }).await
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
