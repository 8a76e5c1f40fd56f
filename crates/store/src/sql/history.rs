//! SQL of the history of turns. Not for retention rules. Deleted data is erased as described in
//! [`super::people`].

use async_trait::async_trait;
use bytes::Bytes;
use hearken_base::names::folded;
use hearken_base::wall_clock;
use hearken_ports::store::{
    HistoryClient, HistoryFilter, HistoryPart, HistoryStore, HistorySummary, HistoryTurn,
    MOST_DELETED, Side, SoundPlace, StoreError, TurnSound,
};
use jiff::Timestamp;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::deletions::{self, DeletionKind};
use super::error::SqlError;
use super::{SqlStore, StoreTransaction, in_time, text, time, unusable};

/// Statement that reads turns with a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT number, turn_id, kind, client, began_ms, outcome, heard, said, timing, sounds \
             FROM history WHERE ",
            $condition
        )
    };
}

fn stored(row: &AnyRow) -> Result<HistoryTurn, SqlError> {
    let sounds = serde_json::from_str(&row.try_get::<String, _>("sounds")?).map_err(unusable)?;
    Ok(HistoryTurn {
        number: row.try_get("number")?,
        turn_id: row.try_get("turn_id")?,
        kind: row.try_get("kind")?,
        client: row.try_get("client")?,
        began: time(row.try_get("began_ms")?)?,
        outcome: row.try_get("outcome")?,
        heard: row.try_get("heard")?,
        said: row.try_get("said")?,
        timing: row.try_get("timing")?,
        sounds,
    })
}

fn count(number: i64) -> Result<u64, SqlError> {
    number.try_into().map_err(unusable)
}

/// Returns the `LIKE` pattern for texts that contain these words. Empty for no words.
fn pattern(words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    // Words are searched as substrings: Chinese has no spaces that an index could use. Decision
    // 0071.
    let mut pattern = String::from("%");
    for character in words.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    text(&pattern)
}

/// Returns search words in the form of the searched texts. Words of invisible characters alone have
/// no such form: they find nothing, not everything.
fn searched_for(words: &str) -> String {
    let searched = folded(words);
    if searched.is_empty() { words.to_owned() } else { searched }
}

#[async_trait]
impl HistoryStore for SqlStore {
    async fn add_turn(&self, turn: &HistoryTurn, sounds: &[TurnSound]) -> Result<(), StoreError> {
        in_time(self.insert_turn(turn, sounds)).await
    }

    async fn turns(
        &self,
        filter: &HistoryFilter,
        most: u32,
    ) -> Result<Vec<HistoryTurn>, StoreError> {
        in_time(async {
            let rows = sqlx::query(select!(
                "($1 = '' OR client = $1) AND ($2 = '' OR kind = $2) \
                 AND ($3 = '' OR outcome = $3) AND ($4 = '' OR searched LIKE $4 ESCAPE '\\' OR searched LIKE $7 ESCAPE '\\') \
                 AND number < $5 ORDER BY number DESC LIMIT $6"
            ))
            .bind(text(&filter.client))
            .bind(text(&filter.kind))
            .bind(text(&filter.outcome))
            .bind(pattern(&searched_for(&filter.words)))
            .bind(filter.before.unwrap_or(i64::MAX))
            .bind(i64::from(most))
            // Turns of earlier versions are searchable in lower case only.
            .bind(pattern(&filter.words.to_lowercase()))
            .fetch_all(self.pool().await?)
            .await?;
            rows.iter().map(stored).collect()
        })
        .await
    }

    async fn turn(&self, turn_id: &str) -> Result<Option<HistoryTurn>, StoreError> {
        in_time(async {
            let row = sqlx::query(select!("turn_id = $1"))
                .bind(text(turn_id))
                .fetch_optional(self.pool().await?)
                .await?;
            row.as_ref().map(stored).transpose()
        })
        .await
    }

    async fn sound(&self, turn_id: &str, side: Side) -> Result<Option<Bytes>, StoreError> {
        in_time(async {
            let sql = "SELECT packets FROM history_sounds WHERE turn_id = $1 AND side = $2";
            let packets: Option<Vec<u8>> = sqlx::query_scalar(sql)
                .bind(text(turn_id))
                .bind(side.name())
                .fetch_optional(self.pool().await?)
                .await?;
            Ok(packets.map(Bytes::from))
        })
        .await
    }

    async fn delete_turns(&self, part: &HistoryPart) -> Result<u64, StoreError> {
        in_time(async {
            // Exclusive: a concurrent turn is either deleted with the others or finds the deletion
            // recorded.
            let mut work = self.begin_alone(["history"].into_iter()).await?;
            work.overwrite(self.dialect).await?;
            let deleted = delete(&mut work, part).await?;
            let noted = match part {
                HistoryPart::Turn(turn_id) => Some((DeletionKind::Turn, turn_id.as_str())),
                HistoryPart::Client(client) => Some((DeletionKind::History, client.as_str())),
                HistoryPart::All => Some((DeletionKind::History, "")),
                _ => None,
            };
            let now = wall_clock::now();
            match noted {
                Some((kind, name)) => deletions::note(&mut work, kind, name, now).await?,
                None => deletions::forget_old(&mut work, now).await?,
            }
            work.commit().await?;
            if deleted > 0 {
                self.empty_log().await;
            }
            Ok(deleted)
        })
        .await
    }

    async fn deletions_after(
        &self,
        after: Timestamp,
    ) -> Result<Vec<(HistoryPart, Timestamp)>, StoreError> {
        in_time(self.history_deletions(after)).await
    }

    async fn trim_sounds(&self, most_bytes: u64) -> Result<u64, StoreError> {
        in_time(self.delete_sounds(most_bytes.try_into().unwrap_or(i64::MAX))).await
    }

    async fn history_summary(&self, most_clients: u32) -> Result<HistorySummary, StoreError> {
        in_time(self.summary(most_clients)).await
    }
}

/// Deletes the oldest turns of a selection, at most [`MOST_DELETED`].
async fn delete(work: &mut StoreTransaction, part: &HistoryPart) -> Result<u64, SqlError> {
    let (condition, word, number) = match part {
        HistoryPart::Turn(turn_id) => ("turn_id = $1", turn_id.as_str(), 0),
        HistoryPart::Client(client) => ("client = $1", client.as_str(), 0),
        HistoryPart::Before(when) => ("began_ms < $2", "", when.as_millisecond()),
        HistoryPart::Surplus(most) => (
            "number <= (SELECT number FROM history ORDER BY number DESC LIMIT 1 OFFSET $2)",
            "",
            (*most).try_into().unwrap_or(i64::MAX),
        ),
        HistoryPart::All => ("$1 = ''", "", 0),
    };
    // Both parameters are used, so that each database can infer their types.
    let sql = format!(
        "DELETE FROM history WHERE number IN (SELECT number FROM history WHERE {condition} \
         AND CAST($1 AS TEXT) = $1 AND CAST($2 AS BIGINT) = $2 ORDER BY number LIMIT $3)"
    );
    let deleted = sqlx::query(AssertSqlSafe(sql))
        .bind(text(word))
        .bind(number)
        .bind(i64::from(MOST_DELETED))
        .execute(&mut **work)
        .await?;
    Ok(deleted.rows_affected())
}

impl SqlStore {
    /// Deletes the history of a session that is being purged.
    pub(super) async fn delete_history_of(&self, client: &str) -> Result<(), SqlError> {
        // Even if there is none: a turn may still be waiting to be stored, here or on another
        // instance.
        let part = HistoryPart::Client(client.into());
        while self.delete_turns(&part).await? == u64::from(MOST_DELETED) {}
        Ok(())
    }

    async fn insert_turn(&self, turn: &HistoryTurn, sounds: &[TurnSound]) -> Result<(), SqlError> {
        let size = sounds.iter().map(|sound| sound.packets.len()).sum::<usize>();
        let places: Vec<SoundPlace> = sounds.iter().map(|sound| sound.place).collect();
        let places = serde_json::to_string(&places).map_err(unusable)?;
        let searched = folded(&format!("{}\n{}", turn.heard, turn.said));
        let mut work = self.begin_overwriting().await?;
        let added = sqlx::query(
            "INSERT INTO history (turn_id, kind, client, began_ms, outcome, heard, said, searched, \
             timing, sounds, sound_bytes) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
             ON CONFLICT (turn_id) DO NOTHING",
        )
        .bind(text(&turn.turn_id))
        .bind(text(&turn.kind))
        .bind(text(&turn.client))
        .bind(turn.began.as_millisecond())
        .bind(text(&turn.outcome))
        .bind(text(&turn.heard))
        .bind(text(&turn.said))
        .bind(text(&searched))
        .bind(text(&turn.timing))
        .bind(places)
        .bind(i64::try_from(size).map_err(unusable)?)
        .execute(&mut *work)
        .await?;
        let now = wall_clock::now();
        let deleted = [
            (DeletionKind::History, turn.client.as_str()),
            (DeletionKind::History, ""),
            (DeletionKind::Turn, turn.turn_id.as_str()),
        ];
        if deletions::any_since(&mut work, deleted, turn.began, now).await? {
            // The turn started before it or its client's history was deleted, here or on another
            // instance.
            return work.rollback().await;
        }
        let sounds = if added.rows_affected() > 0 { sounds } else { &[] };
        for sound in sounds {
            sqlx::query("INSERT INTO history_sounds (turn_id, side, packets) VALUES ($1, $2, $3)")
                .bind(text(&turn.turn_id))
                .bind(sound.place.side.name())
                .bind(&sound.packets[..])
                .execute(&mut *work)
                .await?;
        }
        work.commit().await
    }

    async fn delete_sounds(&self, most_bytes: i64) -> Result<u64, SqlError> {
        let mut work = self.begin_overwriting().await?;
        let last: Option<i64> = sqlx::query_scalar(
            "SELECT MAX(number) FROM (SELECT number, SUM(sound_bytes) OVER (ORDER BY number DESC) \
             AS total FROM history WHERE sound_bytes > 0) sums WHERE total > $1",
        )
        .bind(most_bytes)
        .fetch_one(&mut *work)
        .await?;
        let Some(last) = last else {
            work.rollback().await?;
            return Ok(0);
        };
        let most = i64::from(MOST_DELETED);
        let oldest: Vec<String> = sqlx::query_scalar(
            "SELECT turn_id FROM history WHERE sound_bytes > 0 AND number <= $1 \
             ORDER BY number LIMIT $2",
        )
        .bind(last)
        .bind(most)
        .fetch_all(&mut *work)
        .await?;
        for turn_id in &oldest {
            for sql in [
                "DELETE FROM history_sounds WHERE turn_id = $1",
                "UPDATE history SET sounds = '[]', sound_bytes = 0 WHERE turn_id = $1",
            ] {
                sqlx::query(sql).bind(turn_id).execute(&mut *work).await?;
            }
        }
        work.commit().await?;
        self.empty_log().await;
        oldest.len().try_into().map_err(unusable)
    }

    async fn summary(&self, most_clients: u32) -> Result<HistorySummary, SqlError> {
        self.pool().await?;
        let mut work = self.begin_reading().await?;
        let all = sqlx::query(
            "SELECT COUNT(*) AS turns, CAST(COALESCE(SUM(sound_bytes), 0) AS BIGINT) AS bytes, \
             MIN(began_ms) AS oldest FROM history",
        )
        .fetch_one(&mut *work)
        .await?;
        let rows = sqlx::query(
            "SELECT client, kind, COUNT(*) AS turns, MAX(began_ms) AS last FROM history \
             GROUP BY client, kind ORDER BY last DESC, client LIMIT $1",
        )
        .bind(i64::from(most_clients))
        .fetch_all(&mut *work)
        .await?;
        work.rollback().await?;
        let mut clients = Vec::new();
        for row in rows {
            clients.push(HistoryClient {
                client: row.try_get("client")?,
                kind: row.try_get("kind")?,
                turns: count(row.try_get("turns")?)?,
                last: time(row.try_get("last")?)?,
            });
        }
        let oldest = all.try_get::<Option<i64>, _>("oldest")?.map(time).transpose()?;
        Ok(HistorySummary {
            turns: count(all.try_get("turns")?)?,
            sound_bytes: count(all.try_get("bytes")?)?,
            oldest,
            clients,
        })
    }
}
