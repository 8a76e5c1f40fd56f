//! One session of a text client: its memory, its conversation style and its use. Not for finding,
//! storing or ending it: see [`super::sessions`].

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use hearken_proto::ids::SessionId;
use tokio::time::Instant;

use crate::dialogue::{ConversationStyle, Memory, SharedStyle};
use crate::ports::SessionLock;

/// One text session.
pub struct TextSession {
    id: SessionId,
    style: SharedStyle,
    pub(super) memory: tokio::sync::Mutex<Memory>,
    /// Number of its requests that run or wait.
    users: AtomicUsize,
    used: Mutex<Instant>,
    /// Time of the last use in the stored copy, when it was last read or written.
    known: Mutex<Option<SystemTime>>,
    /// Time of the last use that the store was informed of.
    reported: Mutex<Option<SystemTime>>,
    ended: AtomicBool,
    /// Set when the store has removed the session.
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
            reported: Mutex::new(known),
            ended: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Locks and returns the conversation style. Hold the guard only to read or change it.
    pub fn style(&self) -> MutexGuard<'_, ConversationStyle> {
        locked(&self.style)
    }

    /// Returns the shared conversation style, for the tools that change it.
    pub fn shared_style(&self) -> &SharedStyle {
        &self.style
    }

    /// Reports whether the session was ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn mark_ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.touch();
    }

    /// Reports whether a request in the session runs or waits.
    pub(super) fn is_in_use(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// Returns the time since the last request ended. If one is running or waiting, the time since
    /// the latest one arrived.
    pub(super) fn unused_for(&self) -> Duration {
        locked(&self.used).elapsed()
    }

    fn touch(&self) {
        *locked(&self.used) = Instant::now();
    }

    /// Returns the time of the last use in the stored copy that this memory came from. `None` if
    /// the store does not have the session.
    pub(super) fn known(&self) -> Option<SystemTime> {
        *locked(&self.known)
    }

    pub(super) fn set_known(&self, last_used: SystemTime) {
        *locked(&self.known) = Some(last_used);
        self.record_use(last_used);
    }

    /// Returns the time of the last use that the store was informed of.
    pub(super) fn reported_use(&self) -> Option<SystemTime> {
        *locked(&self.reported)
    }

    /// Records a use that the store was informed of. The stored copy may now be newer than this
    /// memory.
    pub(super) fn record_use(&self, used: SystemTime) {
        *locked(&self.reported) = Some(used);
    }
}

/// Guard of a session in use, from the arrival of a request to its end. Meanwhile the session does
/// not expire, but it can be ended.
pub struct InUse(Arc<TextSession>);

impl InUse {
    pub(super) fn from_session(session: &Arc<TextSession>) -> Self {
        session.users.fetch_add(1, Ordering::Relaxed);
        session.touch();
        Self(Arc::clone(session))
    }

    /// Returns the session.
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

/// Exclusive access to a session's memory.
pub struct LockedMemory<'a> {
    pub(super) memory: tokio::sync::MutexGuard<'a, Memory>,
    /// Lock of the session, if other instances serve the same sessions.
    pub(super) _lock: Option<SessionLock>,
}

impl Deref for LockedMemory<'_> {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl std::ops::DerefMut for LockedMemory<'_> {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}
