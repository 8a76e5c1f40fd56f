//! One session of a text client: what it remembers, how it is talked to, and who uses it. Not for
//! finding, keeping or ending it, which is [`super::sessions`].

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use hearken_proto::ids::SessionId;
use tokio::time::Instant;

use crate::dialogue::{ConversationStyle, Memory, SharedStyle};
use crate::ports::SessionLock;

/// One session.
pub struct TextSession {
    id: SessionId,
    style: SharedStyle,
    pub(super) memory: tokio::sync::Mutex<Memory>,
    /// Requests in it that are worked on or wait.
    users: AtomicUsize,
    used: Mutex<Instant>,
    /// When it was used last, as the store knew it when it was last read or written.
    known: Mutex<Option<SystemTime>>,
    /// When the store was last told of a use.
    told: Mutex<Option<SystemTime>>,
    ended: AtomicBool,
    /// The store was told that it ended.
    pub(super) forgotten: AtomicBool,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds the sessions")
}

impl TextSession {
    pub(super) fn new(
        id: SessionId,
        memory: Memory,
        style: ConversationStyle,
        known: Option<SystemTime>,
    ) -> Self {
        Self {
            id,
            style: Arc::new(Mutex::new(style)),
            memory: tokio::sync::Mutex::new(memory),
            users: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            known: Mutex::new(known),
            told: Mutex::new(known),
            ended: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
        }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// How it is talked to; hold it only as long as it takes to read or change it.
    pub fn style(&self) -> MutexGuard<'_, ConversationStyle> {
        locked(&self.style)
    }

    /// How it is talked to, for the tools that change it.
    pub fn shared_manner(&self) -> &SharedStyle {
        &self.style
    }

    /// Somebody ended it.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn ends(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.touch();
    }

    /// A request in it is worked on or waits.
    pub(super) fn is_in_use(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// Since its last request ended; since the last one came where one is there.
    pub(super) fn unused_for(&self) -> Duration {
        locked(&self.used).elapsed()
    }

    fn touch(&self) {
        *locked(&self.used) = Instant::now();
    }

    /// When it was used last, as the store has it with what is remembered here; none where the
    /// store does not have it.
    pub(super) fn known(&self) -> Option<SystemTime> {
        *locked(&self.known)
    }

    pub(super) fn is_known_since(&self, last_used: SystemTime) {
        *locked(&self.known) = Some(last_used);
        self.is_told(last_used);
    }

    /// When the store was last told of a use.
    pub(super) fn expiry_notified_at(&self) -> Option<SystemTime> {
        *locked(&self.told)
    }

    /// The store was told of a use, and may remember more than is remembered here.
    pub(super) fn is_told(&self, used: SystemTime) {
        *locked(&self.told) = Some(used);
    }
}

/// A use of a session, from the arrival of a request to its end: meanwhile the session is not
/// over, unless somebody ends it.
pub struct InUse(Arc<TextSession>);

impl InUse {
    pub(super) fn from_session(session: &Arc<TextSession>) -> Self {
        session.users.fetch_add(1, Ordering::Relaxed);
        session.touch();
        Self(Arc::clone(session))
    }

    /// The session.
    pub fn session(&self) -> &Arc<TextSession> {
        &self.0
    }
}

impl Deref for InUse {
    type Target = TextSession;

    fn deref(&self) -> &TextSession {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.touch();
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a session remembers, held by whoever talks in it.
pub struct Held<'a> {
    pub(super) memory: tokio::sync::MutexGuard<'a, Memory>,
    /// Where other instances may talk in it.
    pub(super) _lock: Option<SessionLock>,
}

impl Deref for Held<'_> {
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
