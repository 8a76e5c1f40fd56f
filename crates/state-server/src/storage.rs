//! Stored sessions: their worlds, versions, and earlier versions to restore; also in a file, if one
//! is configured. Not for the rules of a world.

use std::collections::{HashMap, VecDeque};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arguments::CallError;
use super::characters::CallOutcome;
use super::rules;
use super::session_state::World;

/// Number of earlier versions of a session that can be restored.
pub const PAST_VERSIONS: usize = 100;

/// Maximum number of sessions.
const MAX_SESSIONS: usize = 10_000;

/// Reason that a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// There is no such session, or no such version of it.
    #[error("there is no {0}")]
    Unknown(String),
    /// The session exists already.
    #[error("the session exists already")]
    Taken,
    /// The caller's version is not the current one, which is this.
    #[error("the state has version {0}")]
    Conflict(i64),
    /// There are too many sessions.
    #[error("there are {MAX_SESSIONS} sessions already: delete some")]
    Full,
    /// The call itself is wrong.
    #[error(transparent)]
    CallError(#[from] CallError),
}

/// All sessions of the server.
pub struct Storage {
    sessions: Mutex<HashMap<String, StoredWorld>>,
    seed: Option<u64>,
    file: Option<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredWorld {
    version: i64,
    world: World,
    past: VecDeque<(i64, World)>,
}

impl Storage {
    /// Creates storage without sessions. With a seed, every session has the same dice rolls in the
    /// same order.
    pub fn new(seed: Option<u64>) -> Self {
        Self { sessions: Mutex::default(), seed, file: None }
    }

    /// Creates storage with the sessions of this file, which is rewritten after each change.
    /// Without the file there are no sessions yet.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub fn in_file(seed: Option<u64>, file: &Path) -> io::Result<Self> {
        let sessions = match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { sessions: Mutex::new(sessions), seed, file: Some(file.to_owned()) })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, StoredWorld>> {
        // A world is only ever replaced as a whole: a panic leaves none partially changed.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an empty world for a session.
    ///
    /// # Errors
    /// [`StorageError::Taken`], or [`StorageError::Full`].
    pub fn create(&self, session: &str, name: &str) -> Result<i64, StorageError> {
        let mut sessions = self.sessions();
        if sessions.contains_key(session) {
            return Err(StorageError::Taken);
        }
        if sessions.len() >= MAX_SESSIONS {
            return Err(StorageError::Full);
        }
        let world = World::new(name, self.seed.unwrap_or_else(by_chance));
        sessions
            .insert(session.to_owned(), StoredWorld { version: 1, world, past: VecDeque::new() });
        self.save(&sessions);
        Ok(1)
    }

    /// Deletes a session.
    ///
    /// # Errors
    /// [`StorageError::Unknown`].
    pub fn delete(&self, session: &str) -> Result<(), StorageError> {
        let mut sessions = self.sessions();
        sessions.remove(session).ok_or_else(|| no_session(session))?;
        self.save(&sessions);
        Ok(())
    }

    /// Returns the state of a session for clients, with its version.
    ///
    /// # Errors
    /// [`StorageError::Unknown`].
    pub fn state(&self, session: &str) -> Result<Map<String, Value>, StorageError> {
        let sessions = self.sessions();
        let kept = sessions.get(session).ok_or_else(|| no_session(session))?;
        let mut state = kept.world.shown(session);
        state.insert("version".into(), kept.version.into());
        Ok(state)
    }

    /// Calls a tool. The version increases if something changed that a client can see. A roll of
    /// dice alone does not change it.
    ///
    /// # Errors
    /// [`StorageError::Unknown`], [`StorageError::Conflict`] or [`StorageError::CallError`].
    pub fn call(
        &self,
        session: &str,
        tool: &str,
        arguments: &Map<String, Value>,
        version: Option<i64>,
    ) -> Result<(CallOutcome, i64), StorageError> {
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(session).ok_or_else(|| no_session(session))?;
        if version.is_some_and(|version| version != kept.version) {
            return Err(StorageError::Conflict(kept.version));
        }
        let mut after = kept.world.clone();
        let outcome = rules::act(&mut after, tool, arguments)?;
        let seen = World { dice: kept.world.dice, ..after.clone() } != kept.world;
        let before = std::mem::replace(&mut kept.world, after);
        if seen {
            kept.went_on_from(before);
        }
        let version = kept.version;
        self.save(&sessions);
        Ok((outcome, version))
    }

    /// Restores a session to an earlier version. This creates a new version.
    ///
    /// # Errors
    /// [`StorageError::Unknown`]: also if that version is no longer stored.
    pub fn restore(&self, session: &str, version: i64) -> Result<i64, StorageError> {
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(session).ok_or_else(|| no_session(session))?;
        if version != kept.version {
            let then = kept.past.iter().find(|(past, _)| *past == version);
            let (_, world) =
                then.ok_or_else(|| StorageError::Unknown(format!("version {version} any more")))?;
            let before = std::mem::replace(&mut kept.world, world.clone());
            kept.went_on_from(before);
        }
        let version = kept.version;
        self.save(&sessions);
        Ok(version)
    }

    /// Writes the whole file atomically.
    fn save(&self, sessions: &HashMap<String, StoredWorld>) {
        let Some(file) = &self.file else { return };
        let beside = file.with_extension("new");
        let written = serde_json::to_vec(sessions)
            .map_err(io::Error::other)
            .and_then(|bytes| write_private(&beside, &bytes))
            .and_then(|()| std::fs::rename(&beside, file));
        if let Err(error) = written {
            tracing::error!(%error, file = %file.display(), "cannot write the sessions");
        }
    }
}

/// Writes a file that only its owner can read, because worlds reveal what users did. One that an
/// earlier process left unfinished is replaced.
fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Err(error) = std::fs::remove_file(file)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(bytes)
}

impl StoredWorld {
    fn went_on_from(&mut self, before: World) {
        if self.past.len() == PAST_VERSIONS {
            self.past.pop_front();
        }
        self.past.push_back((self.version, before));
        self.version += 1;
    }
}

fn no_session(session: &str) -> StorageError {
    StorageError::Unknown(format!("session {session}"))
}

fn by_chance() -> u64 {
    getrandom::u64().unwrap_or_else(|_| std::process::id().into())
}
