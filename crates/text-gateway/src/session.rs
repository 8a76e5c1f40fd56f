//! One session of a text client: its memory, its conversation style, its use and its size. Not for
//! finding, storing, evicting or ending it: see [`super::sessions`].

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use hearken_dialogue::tools::ConversationVersion;
use hearken_dialogue::{ConversationStyle, Memory, SharedStyle};
use hearken_ports::{ChatMessage, SessionLock};
use hearken_proto::ids::SessionId;
use tokio::time::Instant;

/// Estimated size of a session without content, in bytes.
const EMPTY_BYTES: usize = 512;

/// One text session.
pub struct TextSession {
    id: SessionId,
    style: SharedStyle,
    pub(super) memory: tokio::sync::Mutex<Memory>,
    /// Number of its running and waiting requests.
    users: AtomicUsize,
    used: Mutex<Instant>,
    /// Number of turns in the stored copy that have begun at any instance, whether they are
    /// remembered or not, as last read or written.
    stored_turns: AtomicI64,
    /// Number of turns here that have begun and are not counted in the stored copy.
    own_turns: AtomicI64,
    /// Time of the last use in the stored copy, as last read or written.
    known: Mutex<Option<SystemTime>>,
    /// Time of the last use that the store was informed of.
    reported: Mutex<Option<SystemTime>>,
    /// Size at the last measurement, in bytes.
    bytes: AtomicUsize,
    /// Size of all sessions in memory, including this one, in bytes.
    all_bytes: Arc<AtomicUsize>,
    ended: AtomicBool,
    /// Set when the session has been removed from the store.
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
        all_bytes: &Arc<AtomicUsize>,
    ) -> Self {
        let session = Self {
            id,
            style: Arc::new(Mutex::new(style)),
            memory: tokio::sync::Mutex::new(memory),
            users: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            stored_turns: AtomicI64::new(0),
            own_turns: AtomicI64::new(0),
            known: Mutex::new(known),
            reported: Mutex::new(known),
            bytes: AtomicUsize::new(0),
            all_bytes: Arc::clone(all_bytes),
            ended: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
        };
        let bytes = session.memory.try_lock().map_or(0, |memory| session.measured(&memory));
        session.set_bytes(bytes);
        session
    }

    /// Returns the estimated size with this memory, in bytes.
    fn measured(&self, memory: &Memory) -> usize {
        let messages: usize = memory.messages().iter().map(ChatMessage::size_bytes).sum();
        EMPTY_BYTES + self.style().system_prompt.len() + messages
    }

    fn set_bytes(&self, bytes: usize) {
        self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.all_bytes.fetch_sub(before, Ordering::Relaxed);
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

    /// Returns the number of turns that have begun.
    pub(super) fn turns(&self) -> i64 {
        let stored = self.stored_turns.load(Ordering::Relaxed);
        stored.saturating_add(self.own_turns.load(Ordering::Relaxed))
    }

    /// Returns the version of the conversation, while its memory is locked. Each turn makes another,
    /// at whichever instance. A use that is no turn does not: the client may only have connected
    /// again.
    pub(super) fn version(&self) -> ConversationVersion {
        ConversationVersion { number: self.turns(), changed_ms: 0 }
    }

    /// Counts a turn that begins.
    pub(super) fn count_turn(&self) {
        self.own_turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the number of turns of a stored copy that was read.
    pub(super) fn note_read_turns(&self, turns: i64) {
        self.stored_turns.store(turns, Ordering::Relaxed);
    }

    /// Sets the number of turns of the copy that was stored, among them all that have begun here.
    pub(super) fn note_stored_turns(&self, turns: i64) {
        self.stored_turns.store(turns, Ordering::Relaxed);
        self.own_turns.store(0, Ordering::Relaxed);
    }

    /// Returns the time of the last use in the stored copy that this memory came from. `None` if
    /// the store does not have the session.
    pub(super) fn known(&self) -> Option<SystemTime> {
        *locked(&self.known)
    }

    /// Reports whether the store has the session.
    pub(super) fn is_stored(&self) -> bool {
        self.known().is_some()
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

impl Drop for TextSession {
    fn drop(&mut self) {
        self.set_bytes(0);
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

/// Exclusive access to a session's memory. Measures the session when it is dropped.
pub struct LockedMemory<'a> {
    pub(super) session: &'a TextSession,
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

impl Drop for LockedMemory<'_> {
    fn drop(&mut self) {
        self.session.set_bytes(self.session.measured(&self.memory));
    }
}
