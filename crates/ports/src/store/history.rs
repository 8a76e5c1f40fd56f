//! Storage of what was said in turns: the port and its types. Not for what is kept, nor for how long.

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// Most turns that one call deletes.
pub const MOST_DELETED: u32 = 500;

/// Who is heard in a sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The person.
    Heard,
    /// The answer.
    Said,
}

impl Side {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::Said => "said",
        }
    }
}

/// Where a sound is in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoundPlace {
    /// Who is heard.
    pub side: Side,
    /// When it begins, in milliseconds since the turn began; negative for what was said before.
    pub start_ms: i64,
    /// Length, from its first packet to the end of its last one, in milliseconds.
    pub length_ms: i64,
}

/// Sound of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSound {
    /// Where it is.
    pub place: SoundPlace,
    /// Its packets of Opus, each after its time in milliseconds since the turn began (32 bits, signed) and its length in
    /// bytes (16 bits), big-endian.
    pub packets: Bytes,
}

/// A turn that has ended, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryTurn {
    /// Place among all turns; later ones have higher numbers. Assigned by the store, and ignored when a turn is stored.
    pub number: i64,
    /// Id of the turn.
    pub turn_id: String,
    /// Kind of its client.
    pub kind: String,
    /// Id of its device or session.
    pub client: String,
    /// When it began, to the millisecond.
    pub began: Timestamp,
    /// What became of it.
    pub outcome: String,
    /// What the person said; empty if that is unknown.
    pub heard: String,
    /// What was answered; empty for nothing.
    pub said: String,
    /// Times of its stages, as JSON.
    pub timing: String,
    /// Its sounds. Ignored when a turn is stored: those that are stored with it count.
    pub sounds: Vec<SoundPlace>,
}

/// Which turns are asked for. Empty fields are no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Id of the device or session.
    pub client: String,
    /// Kind of the client.
    pub kind: String,
    /// What became of them.
    pub outcome: String,
    /// Part of what was heard or said, in any case.
    pub words: String,
    /// Only those with lower numbers.
    pub before: Option<i64>,
}

/// What is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryPart {
    /// One turn.
    Turn(String),
    /// All turns of a client.
    Client(String),
    /// All turns that began before this time.
    Before(Timestamp),
    /// All turns but so many last ones.
    Surplus(u64),
    /// Everything.
    All,
}

/// A client of whom turns are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryClient {
    /// Id of the device or session.
    pub client: String,
    /// Its kind.
    pub kind: String,
    /// Number of its turns.
    pub turns: u64,
    /// When the last one began.
    pub last: Timestamp,
}

/// What is kept in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistorySummary {
    /// Number of turns.
    pub turns: u64,
    /// Size of their sound.
    pub sound_bytes: u64,
    /// When the oldest began.
    pub oldest: Option<Timestamp>,
    /// Clients, those with the latest turn first, as many as were asked for.
    pub clients: Vec<HistoryClient>,
}

/// Storage of what was said. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait HistoryStore: Send + Sync {
    /// Adds a turn with its sounds. One that is there stays as it is. One that began before it, its client's turns, or all
    /// were deleted is not added.
    async fn add_turn(&self, turn: &HistoryTurn, sounds: &[TurnSound]) -> Result<(), StoreError>;

    /// Returns the last turns that fit, newest first.
    async fn turns(
        &self,
        filter: &HistoryFilter,
        most: u32,
    ) -> Result<Vec<HistoryTurn>, StoreError>;

    /// Returns a turn.
    async fn turn(&self, turn_id: &str) -> Result<Option<HistoryTurn>, StoreError>;

    /// Returns the packets of a sound of a turn.
    async fn sound(&self, turn_id: &str, side: Side) -> Result<Option<Bytes>, StoreError>;

    /// Returns what was deleted after this time, at any instance, and when: a turn, the turns of a client, or all.
    /// Deletions of more than an hour ago are not known any more.
    async fn deletions_after(
        &self,
        after: Timestamp,
    ) -> Result<Vec<(HistoryPart, Timestamp)>, StoreError>;

    /// Deletes turns with their sounds, at once and for good, the oldest first, at most [`MOST_DELETED`]. Returns their
    /// number.
    async fn delete_turns(&self, part: &HistoryPart) -> Result<u64, StoreError>;

    /// Deletes the sounds of the oldest turns, at once and for good, so that at most so many bytes of sound remain. Returns
    /// the number of turns that lost theirs, at most [`MOST_DELETED`].
    async fn trim_sounds(&self, most_bytes: u64) -> Result<u64, StoreError>;

    /// Returns what is kept in all, with at most so many clients.
    async fn history_summary(&self, most_clients: u32) -> Result<HistorySummary, StoreError>;
}
