//! The sessions of text clients: who may go on with each, and when it is over. A session outlives
//! its connections, and through its store the server. Not for answering.
//!
//! - Sessions in memory are a cache of the store: what was never answered is in memory alone.
//! - What is in use is not over: neither swept from memory nor, since the store is told of each
//!   use, from the store by any instance.
//! - Who talks in a session holds its memory; another connection waits its turn.
//! - Where other instances serve the same sessions, who talks in one holds its lock too, and reads
//!   what they have kept of it meanwhile.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use hearken_proto::ids::SessionId;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::session::{Held, InUse, TextSession, locked};
use crate::dialogue::{ConversationStyle, Memory};
use crate::ports::{BoxError, ChatMessage, KeptSession, SessionLocks, SessionStore};
use crate::reloadable::Reloadable;
use crate::wall_clock::{self, Clock};

/// How often who waits for another instance that talks in a session is told so in the log.
const OTHERS_FINISH: Duration = Duration::from_secs(120);
/// Sessions in memory; beyond, those unused for longest leave it.
const MOST_IN_MEMORY: usize = 10_000;
/// A session that ended is known as such for so long, so that nobody who just looked it up in the
/// store goes on with it.
const KNOWN_AS_ENDED: Duration = Duration::from_secs(60);

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
struct StoredSessions {
    messages: Vec<ChatMessage>,
    style: ConversationStyle,
}

/// All sessions.
pub struct Sessions {
    live: Mutex<HashMap<SessionId, Arc<TextSession>>>,
    store: Arc<dyn SessionStore>,
    /// Where other instances serve the same sessions.
    locks: Option<Arc<dyn SessionLocks>>,
    idle: Reloadable<Duration>,
    max_messages: usize,
    clock: Clock,
    /// Requests that are worked on: one whose client leaves may have begun to change the world.
    requests: Mutex<JoinSet<()>>,
}

impl Sessions {
    /// Sessions that are over when nobody used them for `idle`, and remember this many messages.
    pub fn new(
        store: Arc<dyn SessionStore>,
        idle: impl Into<Reloadable<Duration>>,
        max_messages: usize,
    ) -> Self {
        Self {
            live: Mutex::default(),
            store,
            locks: None,
            idle: idle.into(),
            max_messages,
            clock: Arc::new(wall_clock::now),
            requests: Mutex::default(),
        }
    }

    /// By this clock instead of the time of day.
    pub fn clocked(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The time as the store keeps it, in milliseconds.
    fn now(&self) -> SystemTime {
        (self.clock)().into()
    }

    /// After how long without use a session is over, which may be changed.
    pub fn idle(&self) -> &Reloadable<Duration> {
        &self.idle
    }

    /// Other instances serve the same sessions, under these locks.
    pub fn shared(self, locks: Arc<dyn SessionLocks>) -> Self {
        Self { locks: Some(locks), ..self }
    }

    /// Works on a request, whatever becomes of the connection that it came from. There are never
    /// more of them than the connections that may be.
    pub(crate) fn work(&self, request: impl Future<Output = ()> + Send + 'static) {
        let mut requests = locked(&self.requests);
        while requests.try_join_next().is_some() {}
        requests.spawn(request);
    }

    /// A new session.
    pub fn begin(&self) -> InUse {
        let memory = Memory::new(self.max_messages, Vec::new());
        let session =
            TextSession::new(SessionId::random(), memory, ConversationStyle::default(), None);
        let session = Arc::new(session);
        let mut live = self.room();
        live.insert(session.id().clone(), Arc::clone(&session));
        InUse::from_session(&session)
    }

    /// The sessions in memory, with room for one more.
    fn room(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<TextSession>>> {
        let mut live = locked(&self.live);
        if live.len() >= MOST_IN_MEMORY {
            make_room(&mut live);
        }
        live
    }

    /// The session can still be gone on with.
    fn is_alive(&self, session: &TextSession) -> bool {
        let in_time = || session.unused_for() < *self.idle.get();
        !session.has_ended() && (session.is_in_use() || in_time())
    }

    /// The session of this id, where it is in memory and not over: it is in use from now on.
    pub fn hold(&self, id: &SessionId) -> Option<InUse> {
        let live = locked(&self.live);
        live.get(id).filter(|session| self.is_alive(session)).map(InUse::from_session)
    }

    /// The session of this id, if it is not over.
    ///
    /// # Errors
    /// See [`SessionLost`].
    pub async fn find(&self, id: &SessionId) -> Result<InUse, SessionLost> {
        {
            let mut live = locked(&self.live);
            match live.get(id) {
                Some(session) if self.is_alive(session) => return Ok(InUse::from_session(session)),
                Some(over) if self.locks.is_none() || over.has_ended() => {
                    return Err(SessionLost::Unknown(id.clone()));
                }
                // Unless others have gone on with it.
                Some(_) => live.remove(id),
                None => None,
            };
        }
        self.found(id).await
    }

    /// Takes a session's memory once nobody else talks in it, as it is then; the session is over
    /// where somebody ended it. Where the store or the locks fail it is as it was here.
    pub async fn enter<'a>(&self, session: &'a TextSession) -> Held<'a> {
        let mut memory = session.memory.lock().await;
        let Some(locks) = &self.locks else { return Held { memory, _lock: None } };
        let name = format!("text:{}", session.id());
        let lock = loop {
            match locks.lock(&name, OTHERS_FINISH).await {
                Ok(Some(lock)) => break Some(lock),
                Ok(None) => {
                    tracing::info!(session = %session.id(), "another instance is still talking");
                }
                Err(error) => {
                    tracing::warn!(error, session = %session.id(), "a session cannot be locked");
                    break None;
                }
            }
        };
        match self.store.load(session.id()).await {
            Ok(kept) => self.refresh(session, &mut memory, kept),
            Err(error) => {
                tracing::warn!(error, session = %session.id(), "a session cannot be looked up");
            }
        }
        Held { memory, _lock: lock }
    }

    /// Brings a session to what others have kept of it.
    fn refresh(&self, session: &TextSession, memory: &mut Memory, kept: Option<KeptSession>) {
        let Some(kept) = kept else {
            // What was never kept is in memory alone.
            if session.known().is_some() {
                session.ends();
            }
            return;
        };
        if session.known() == Some(kept.last_used) {
            return;
        }
        match serde_json::from_str(&kept.state) {
            Ok(StoredSessions { messages, style }) => {
                *memory = Memory::new(self.max_messages, messages);
                *session.style() = style;
                session.is_known_since(kept.last_used);
            }
            Err(error) => {
                tracing::warn!(%error, session = %session.id(), "a session is unreadable");
            }
        }
    }

    async fn found(&self, id: &SessionId) -> Result<InUse, SessionLost> {
        let unknown = || SessionLost::Unknown(id.clone());
        let kept = self.store.load(id).await.map_err(SessionLost::Store)?.ok_or_else(unknown)?;
        let unused = self.now().duration_since(kept.last_used).unwrap_or_default();
        if unused >= *self.idle.get() {
            return Err(unknown());
        }
        let StoredSessions { messages, style } =
            serde_json::from_str(&kept.state).map_err(|e| SessionLost::Store(e.into()))?;
        let memory = Memory::new(self.max_messages, messages);
        let session = TextSession::new(id.clone(), memory, style, Some(kept.last_used));
        // Others may have looked it up meanwhile, or ended it.
        let mut live = self.room();
        let session = live.entry(id.clone()).or_insert_with(|| Arc::new(session));
        if self.is_alive(session) { Ok(InUse::from_session(session)) } else { Err(unknown()) }
    }

    /// Keeps what a session remembers now.
    ///
    /// # Errors
    /// The store failed; the session goes on in memory.
    pub async fn keep(&self, session: &TextSession, memory: &Memory) -> Result<(), BoxError> {
        if session.has_ended() {
            return Ok(());
        }
        let style = session.style().clone();
        let kept = StoredSessions { messages: memory.messages().to_vec(), style };
        let state = serde_json::to_string(&kept)?;
        let kept = KeptSession { id: session.id().clone(), state, last_used: self.now() };
        if self.locks.is_some() && session.known().is_some() {
            if !self.store.renew(&kept).await? {
                // Another instance ended it.
                session.ends();
                return Ok(());
            }
        } else {
            self.store.keep(&kept).await?;
        }
        session.is_known_since(kept.last_used);
        if session.has_ended() {
            // Ended while it was being kept.
            self.store.forget(session.id()).await?;
        }
        Ok(())
    }

    /// Tells the store that a session is used now. Ends it where another instance did.
    ///
    /// # Errors
    /// The store failed.
    pub async fn note_use(&self, session: &TextSession) -> Result<(), BoxError> {
        if session.known().is_none() || session.has_ended() {
            return Ok(());
        }
        let now = self.now();
        if self.store.touch(session.id(), now).await? {
            session.is_told(now);
        } else if self.locks.is_some() {
            session.ends();
        }
        Ok(())
    }

    /// Does something in a session. However long it takes, the store knows that it is used.
    pub(crate) async fn using<T>(&self, session: &TextSession, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let third = *self.idle.get() / 3;
        let mut due = third.saturating_sub(self.unknown_for(session));
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.note_use_after(session, due) => {}
            }
            due = *self.idle.get() / 3;
        }
    }

    async fn note_use_after(&self, session: &TextSession, wait: Duration) {
        tokio::time::sleep(wait).await;
        if let Err(error) = self.note_use(session).await {
            tracing::warn!(error, session = %session.id(), "a use of a session cannot be kept");
        }
    }

    /// For how long the store has not heard of a session that it has.
    fn unknown_for(&self, session: &TextSession) -> Duration {
        let since = session.expiry_notified_at().map(|told| self.now().duration_since(told));
        since.and_then(Result::ok).unwrap_or_default()
    }

    /// Ends a session: it is forgotten everywhere.
    ///
    /// # Errors
    /// The store failed, and is told again when sessions are swept.
    pub async fn end(&self, session: &TextSession) -> Result<(), BoxError> {
        session.ends();
        self.store.forget(session.id()).await?;
        session.forgotten.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Clears away the sessions that are over.
    ///
    /// # Errors
    /// The store failed; memory is cleared.
    pub async fn sweep(&self) -> Result<(), BoxError> {
        let third = *self.idle.get() / 3;
        let (mut ended, mut in_use) = (Vec::new(), Vec::new());
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
                tracing::warn!(error, session = %session.id(), "a session that ended is still kept");
            }
        }
        for session in in_use {
            self.note_use_after(&session, Duration::ZERO).await;
        }
        let since = self.now().checked_sub(*self.idle.get());
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
    let mut ages: Vec<_> = free.map(|s| (s.unused_for(), s.id().clone())).collect();
    ages.sort_unstable_by(|a, b| b.cmp(a));
    for (_, id) in ages.drain(..ages.len().div_ceil(10)) {
        live.remove(&id);
    }
}
