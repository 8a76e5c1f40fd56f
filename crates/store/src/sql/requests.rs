//! SQL of requests with an idempotency key: recorded before they call tools, answered with their
//! turn, copied with a snapshot. Not for their content.

use hearken_ports::{KeptTurn, KnownRequest, RequestKey, StoreOutcome};
use hearken_proto::chat::ChatStatus;
use hearken_proto::ids::SessionId;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::error::SqlError;
use super::{SqlStore, StoreTransaction, text, unusable};

/// Maximum number of stored requests of a session. Beyond it, the oldest are deleted.
const MAX_KNOWN: i64 = 256;
/// Maximum number of requests that one statement deletes. Requests are added one at a time.
const FORGOTTEN_AT_ONCE: i64 = 16;

impl SqlStore {
    pub(super) async fn last_chat_fence(&self) -> Result<i64, SqlError> {
        let last = sqlx::query("SELECT COALESCE(MAX(fence), 0) AS fence FROM chat_sessions");
        Ok(last.fetch_one(self.pool().await?).await?.try_get("fence")?)
    }

    pub(super) async fn known_request(
        &self,
        id: &SessionId,
        key: &str,
    ) -> Result<Option<KnownRequest>, SqlError> {
        let row = sqlx::query(
            "SELECT request_hash, answer FROM chat_turns \
             WHERE session_id = $1 AND request_key = $2",
        )
        .bind(text(id.as_str()))
        .bind(text(key))
        .fetch_optional(self.pool().await?)
        .await?;
        let known = |row: AnyRow| {
            let answer: String = row.try_get("answer")?;
            let answer = Some(answer).filter(|answer| !answer.is_empty());
            Ok(KnownRequest { hash: row.try_get("request_hash")?, answer })
        };
        row.map(known).transpose()
    }

    pub(super) async fn begin_chat_request(
        &self,
        id: &SessionId,
        key: &RequestKey,
        fence: i64,
    ) -> Result<StoreOutcome, SqlError> {
        let id = text(id.as_str());
        let mut work = self.begin().await?;
        let taken = sqlx::query(
            "UPDATE chat_sessions SET fence = $2 \
             WHERE session_id = $1 AND status = 'active' AND fence <= $2",
        )
        .bind(&id)
        .bind(fence)
        .execute(&mut *work)
        .await?;
        if taken.rows_affected() == 0 {
            let why = why_not(&mut work, &id).await?;
            work.rollback().await?;
            return Ok(why);
        }
        if !note(&mut work, &id, key, "", fence).await? {
            work.rollback().await?;
            return Ok(StoreOutcome::Overtaken);
        }
        work.commit().await?;
        Ok(StoreOutcome::Kept)
    }

    pub(super) async fn forget_chat_request(
        &self,
        id: &SessionId,
        key: &str,
        fence: i64,
    ) -> Result<(), SqlError> {
        sqlx::query(
            "DELETE FROM chat_turns \
             WHERE session_id = $1 AND request_key = $2 AND fence = $3 AND answer = ''",
        )
        .bind(text(id.as_str()))
        .bind(text(key))
        .bind(fence)
        .execute(self.writer().await?.pool)
        .await?;
        Ok(())
    }
}

/// Stores the answer to the request of a turn, if it has a key, and subtracts the answers that are
/// deleted for it from the size of the session. Returns false if the key is already
/// stored, unless the request was recorded under the same lock.
pub(super) async fn answer(work: &mut StoreTransaction, turn: &KeptTurn) -> Result<bool, SqlError> {
    let Some(key) = &turn.key else { return Ok(true) };
    note(work, &text(turn.session_id.as_str()), key, &turn.answer, turn.fence).await
}

async fn note(
    work: &mut StoreTransaction,
    id: &str,
    key: &RequestKey,
    answer: &str,
    fence: i64,
) -> Result<bool, SqlError> {
    let noted = sqlx::query(
        "INSERT INTO chat_turns (session_id, request_key, answer, request_hash, fence) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session_id, request_key) DO UPDATE \
         SET answer = excluded.answer \
         WHERE chat_turns.answer = '' AND chat_turns.fence = excluded.fence \
         AND chat_turns.request_hash = excluded.request_hash",
    )
    .bind(id)
    .bind(text(&key.name))
    .bind(text(answer))
    .bind(&key.hash)
    .bind(fence)
    .execute(&mut **work)
    .await?;
    if noted.rows_affected() == 0 {
        return Ok(false);
    }
    let forgotten: Vec<String> = sqlx::query_scalar(
        "DELETE FROM chat_turns WHERE session_id = $1 AND request_key IN \
         (SELECT request_key FROM chat_turns WHERE session_id = $1 \
         ORDER BY fence DESC, request_key LIMIT $2 OFFSET $3) RETURNING answer",
    )
    .bind(id)
    .bind(FORGOTTEN_AT_ONCE)
    .bind(MAX_KNOWN)
    .fetch_all(&mut **work)
    .await?;
    let bytes: usize = forgotten.iter().map(String::len).sum();
    if bytes > 0 {
        // Answers of earlier versions were not counted.
        sqlx::query(
            "UPDATE chat_sessions SET stored_bytes = \
             CASE WHEN stored_bytes > $2 THEN stored_bytes - $2 ELSE 0 END WHERE session_id = $1",
        )
        .bind(id)
        .bind(i64::try_from(bytes).map_err(unusable)?)
        .execute(&mut **work)
        .await?;
    }
    Ok(true)
}

/// Copies a session's requests into a snapshot.
pub(super) async fn copy_to_snapshot(
    work: &mut StoreTransaction,
    id: &str,
    snapshot_id: &str,
) -> Result<(), SqlError> {
    sqlx::query(
        "INSERT INTO chat_snapshot_turns (snapshot_id, request_key, answer, request_hash, fence) \
         SELECT $1, request_key, answer, request_hash, fence FROM chat_turns WHERE session_id = $2",
    )
    .bind(snapshot_id)
    .bind(id)
    .execute(&mut **work)
    .await?;
    Ok(())
}

/// Replaces a session's requests with those of a snapshot. Later requests are deleted.
pub(super) async fn copy_from_snapshot(
    work: &mut StoreTransaction,
    id: &str,
    snapshot_id: &str,
) -> Result<(), SqlError> {
    sqlx::query("DELETE FROM chat_turns WHERE session_id = $1")
        .bind(id)
        .execute(&mut **work)
        .await?;
    sqlx::query(
        "INSERT INTO chat_turns (session_id, request_key, answer, request_hash, fence) \
         SELECT $1, request_key, answer, request_hash, fence FROM chat_snapshot_turns \
         WHERE snapshot_id = $2",
    )
    .bind(id)
    .bind(snapshot_id)
    .execute(&mut **work)
    .await?;
    Ok(())
}

/// Returns the reason why a turn of this session was not stored.
pub(super) async fn why_not(
    work: &mut StoreTransaction,
    id: &str,
) -> Result<StoreOutcome, SqlError> {
    let sql = "SELECT status FROM chat_sessions WHERE session_id = $1";
    let status: Option<String> =
        sqlx::query_scalar(sql).bind(id).fetch_optional(&mut **work).await?;
    let is_active = status.is_some_and(|status| status == ChatStatus::Active.as_str());
    Ok(if is_active { StoreOutcome::Overtaken } else { StoreOutcome::Closed })
}
