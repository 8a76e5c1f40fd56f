//! SQL of recent deletions, and of recent batches of usage. Turns that started before a deletion must
//! not store its data again, and a batch whose answer was lost must not be added again. Not for
//! deleting, nor for adding.

use std::collections::HashSet;

use hearken_base::wall_clock;
use hearken_ports::store::HistoryPart;
use jiff::{SignedDuration, Timestamp};

use super::error::SqlError;
use super::{SqlStore, StoreTransaction, text, time};

/// Time after a deletion when every turn that started before it has ended.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Maximum difference between the clocks of instances. A deletion that is further ahead was
/// recorded by a wrong clock, and is ignored.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(10);

/// Kind of deleted data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionKind {
    /// History of a client; of all clients if the name is empty.
    History,
    /// Turn, by its id.
    Turn,
    /// Device.
    Device,
    /// No deletion: a batch of usage that was added, by its id.
    UsageBatch,
}

impl DeletionKind {
    fn name(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Turn => "turn",
            Self::Device => "device",
            Self::UsageBatch => "usage",
        }
    }
}

/// Records a deletion in the transaction that deletes. That transaction has locked the table, and
/// writers query deletions after they have added a row: neither can miss the other.
pub(super) async fn note(
    work: &mut StoreTransaction,
    kind: DeletionKind,
    client: &str,
    now: Timestamp,
) -> Result<(), SqlError> {
    sqlx::query(
        "INSERT INTO deletions (kind, client, until_ms) VALUES ($1, $2, $3) \
         ON CONFLICT (kind, client) DO UPDATE SET until_ms = excluded.until_ms",
    )
    .bind(kind.name())
    .bind(text(client))
    .bind(now.as_millisecond())
    .execute(&mut **work)
    .await?;
    forget_old(work, now).await
}

/// Records a name, unless it is recorded. Returns false if it is. If another transaction has just
/// recorded it, waits for its end.
pub(super) async fn note_once(
    work: &mut StoreTransaction,
    kind: DeletionKind,
    name: &str,
    now: Timestamp,
) -> Result<bool, SqlError> {
    let sql = "INSERT INTO deletions (kind, client, until_ms) VALUES ($1, $2, $3) \
               ON CONFLICT (kind, client) DO NOTHING";
    let noted = sqlx::query(sql)
        .bind(kind.name())
        .bind(text(name))
        .bind(now.as_millisecond())
        .execute(&mut **work)
        .await?;
    Ok(noted.rows_affected() > 0)
}

/// Removes deletions that no running turn can precede, and those recorded by a clock that was
/// ahead. A clock that jumps ahead removes none: a running turn would store deleted data again.
pub(super) async fn forget_old(
    work: &mut StoreTransaction,
    now: Timestamp,
) -> Result<(), SqlError> {
    let before = now.min(wall_clock::earliest()).saturating_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
    sqlx::query("DELETE FROM deletions WHERE until_ms < $1 OR until_ms > $2")
        .bind(before.as_millisecond())
        .bind(latest(now))
        .execute(&mut **work)
        .await?;
    Ok(())
}

/// Returns the latest time that a recorded deletion can have.
fn latest(now: Timestamp) -> i64 {
    now.saturating_add(CLOCKS_DIFFER).unwrap_or(Timestamp::MAX).as_millisecond()
}

/// Returns the names whose data was deleted since this time. An empty name stands for the history
/// of all clients.
pub(super) async fn since(
    work: &mut StoreTransaction,
    kind: DeletionKind,
    began: Timestamp,
    now: Timestamp,
) -> Result<HashSet<String>, SqlError> {
    let sql = "SELECT client FROM deletions WHERE kind = $1 AND until_ms >= $2 AND until_ms <= $3";
    let clients: Vec<String> = sqlx::query_scalar(sql)
        .bind(kind.name())
        .bind(began.as_millisecond())
        .bind(latest(now))
        .fetch_all(&mut **work)
        .await?;
    Ok(clients.into_iter().collect())
}

/// Returns true if one of these deletions was recorded since this time.
pub(super) async fn any_since<const N: usize>(
    work: &mut StoreTransaction,
    all: [(DeletionKind, &str); N],
    began: Timestamp,
    now: Timestamp,
) -> Result<bool, SqlError> {
    let sql = "SELECT COUNT(*) FROM deletions \
               WHERE kind = $1 AND client = $2 AND until_ms >= $3 AND until_ms <= $4";
    for (kind, name) in all {
        let noted: i64 = sqlx::query_scalar(sql)
            .bind(kind.name())
            .bind(text(name))
            .bind(began.as_millisecond())
            .bind(latest(now))
            .fetch_one(&mut **work)
            .await?;
        if noted > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

impl SqlStore {
    /// Returns the deletions of history after this time, with their times.
    pub(super) async fn history_deletions(
        &self,
        after: Timestamp,
    ) -> Result<Vec<(HistoryPart, Timestamp)>, SqlError> {
        let sql = "SELECT kind, client, until_ms FROM deletions \
                   WHERE kind IN ('history', 'turn') AND until_ms > $1 AND until_ms <= $2";
        let rows: Vec<(String, String, i64)> = sqlx::query_as(sql)
            .bind(after.as_millisecond())
            .bind(latest(wall_clock::now()))
            .fetch_all(self.pool().await?)
            .await?;
        let part = |kind: String, name: String| match (kind.as_str(), name.as_str()) {
            ("turn", _) => HistoryPart::Turn(name),
            (_, "") => HistoryPart::All,
            _ => HistoryPart::Client(name),
        };
        rows.into_iter().map(|(kind, name, until)| Ok((part(kind, name), time(until)?))).collect()
    }
}
