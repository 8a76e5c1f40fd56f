//! Storage of the words and sound of turns: the port and its types. Not for the retention policy.

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// Maximum number of turns that one call deletes.
pub const MOST_DELETED: u32 = 500;

/// Side of the conversation.
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

/// Position of a sound in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoundPlace {
    /// Side that is heard.
    pub side: Side,
    /// Start, in milliseconds relative to the start of the turn; negative for earlier speech.
    pub start_ms: i64,
    /// Length, from its first packet to the end of its last one, in milliseconds.
    pub length_ms: i64,
}

/// Sound of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSound {
    /// Position of the sound.
    pub place: SoundPlace,
    /// Opus packets, each preceded by its time in milliseconds since the start of the turn (32
    /// bits, signed) and its length in bytes (16 bits), big-endian.
    pub packets: Bytes,
}

/// Stored turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryTurn {
    /// Number of the turn; later turns have higher numbers. Assigned by the store, and ignored when
    /// a turn is stored.
    pub number: i64,
    /// Id of the turn.
    pub turn_id: String,
    /// Kind of its client.
    pub kind: String,
    /// Id of its device or session.
    pub client: String,
    /// Start, to the millisecond.
    pub began: Timestamp,
    /// Outcome of the turn.
    pub outcome: String,
    /// Words of the person; empty if unknown.
    pub heard: String,
    /// Words of the answer; empty if there was none.
    pub said: String,
    /// Times of its stages, as JSON.
    pub timing: String,
    /// Positions of its sounds. Ignored when a turn is stored: the sounds stored with it count.
    pub sounds: Vec<SoundPlace>,
}

/// Filter of turns. Empty fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Id of the device or session.
    pub client: String,
    /// Kind of the client.
    pub kind: String,
    /// Outcome of the turns.
    pub outcome: String,
    /// Part of the words of either side, ignoring case.
    pub words: String,
    /// Maximum number, exclusive.
    pub before: Option<i64>,
}

/// Turns to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryPart {
    /// One turn.
    Turn(String),
    /// All turns of a client.
    Client(String),
    /// All turns that started before this time.
    Before(Timestamp),
    /// All turns except this many latest ones.
    Surplus(u64),
    /// All turns.
    All,
}

/// Client with stored turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryClient {
    /// Id of the device or session.
    pub client: String,
    /// Its kind.
    pub kind: String,
    /// Number of its turns.
    pub turns: u64,
    /// Start of the last turn.
    pub last: Timestamp,
}

/// Summary of all stored turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistorySummary {
    /// Number of turns.
    pub turns: u64,
    /// Size of their sound.
    pub sound_bytes: u64,
    /// Start of the oldest turn.
    pub oldest: Option<Timestamp>,
    /// Clients, latest turn first, up to the requested number.
    pub clients: Vec<HistoryClient>,
}

/// Storage of turns. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait HistoryStore: Send + Sync {
    /// Adds a turn with its sounds. An existing turn stays as it is. A turn is not added if it, its
    /// client's turns or all turns were deleted after its start.
    async fn add_turn(&self, turn: &HistoryTurn, sounds: &[TurnSound]) -> Result<(), StoreError>;

    /// Returns the latest turns that match the filter, newest first.
    async fn turns(
        &self,
        filter: &HistoryFilter,
        most: u32,
    ) -> Result<Vec<HistoryTurn>, StoreError>;

    /// Returns a turn.
    async fn turn(&self, turn_id: &str) -> Result<Option<HistoryTurn>, StoreError>;

    /// Returns the packets of a sound of a turn.
    async fn sound(&self, turn_id: &str, side: Side) -> Result<Option<Bytes>, StoreError>;

    /// Returns the deletions after this time, on any instance, with their times: of a turn, of a
    /// client's turns, or of all. Deletions are recorded for an hour.
    async fn deletions_after(
        &self,
        after: Timestamp,
    ) -> Result<Vec<(HistoryPart, Timestamp)>, StoreError>;

    /// Permanently deletes turns with their sounds, oldest first, at most [`MOST_DELETED`]. Returns
    /// their number.
    async fn delete_turns(&self, part: &HistoryPart) -> Result<u64, StoreError>;

    /// Permanently deletes the sounds of the oldest turns, so that at most `most_bytes` bytes of
    /// sound remain. Returns the number of turns that lost theirs, at most [`MOST_DELETED`].
    async fn trim_sounds(&self, most_bytes: u64) -> Result<u64, StoreError>;

    /// Returns the summary of all stored turns, with at most `most_clients` clients.
    async fn history_summary(&self, most_clients: u32) -> Result<HistorySummary, StoreError>;
}
