//! Consistency check of the store. It changes nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::TryStreamExt as _;
use hearken_proto::chat::{ChatStatus, Message};
use serde_json::Value;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::backup::{BackupError, Progress, RowCounts};
use super::sql::{Dialect, SqlStore, StoreTransaction, people};
use super::tables::{Column, Kind, TABLES, Table};

/// Maximum number of faults that are listed. Further ones are only counted.
const TOLD: usize = 100;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Number of rows of each table.
    pub rows: RowCounts,
    /// Faults, one sentence each, at most 100.
    pub faults: Vec<String>,
    /// Number of further faults.
    pub untold: u64,
}

impl CheckReport {
    /// Returns true if there are no faults.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    fn add(&mut self, fault: String) {
        if self.faults.len() < TOLD {
            self.faults.push(fault);
        } else {
            self.untold += 1;
        }
    }
}

/// Tables whose rows belong to rows of another table: child, parent, and the column that refers to
/// the parent.
const BELONGS: [(&str, &str, &str); 11] = [
    ("chat_people", "chat_sessions", "session_id"),
    ("chat_messages", "chat_sessions", "session_id"),
    ("chat_turns", "chat_sessions", "session_id"),
    ("chat_snapshots", "chat_sessions", "session_id"),
    ("chat_snapshot_messages", "chat_snapshots", "snapshot_id"),
    ("chat_snapshot_turns", "chat_snapshots", "snapshot_id"),
    ("chat_pending_events", "chat_sessions", "session_id"),
    ("person_voices", "persons", "person_id"),
    ("person_memories", "persons", "person_id"),
    ("history_sounds", "history", "turn_id"),
    ("role_versions", "roles", "role_id"),
];

/// Tables whose messages are numbered without gaps: owner table, message table, and the key of
/// both.
const NUMBERED: [(&str, &str, &str); 2] = [
    ("chat_sessions", "chat_messages", "session_id"),
    ("chat_snapshots", "chat_snapshot_messages", "snapshot_id"),
];

impl SqlStore {
    /// Checks one consistent view of the whole store while servers are running.
    ///
    /// # Errors
    /// Fails if there is no store, if it has another version, or if it fails.
    pub async fn check(&self, progress: Progress<'_>) -> Result<CheckReport, BackupError> {
        self.must_be_current().await?;
        let mut report = CheckReport::default();
        let mut work = self.begin_reading().await?;
        if self.dialect() == Dialect::Sqlite {
            progress("the file", 0);
            let told: Vec<String> =
                sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&mut *work).await?;
            for fault in told.into_iter().filter(|told| told != "ok") {
                report.add(format!("the file is damaged: {fault}"));
            }
        }
        for table in &TABLES {
            look_through(&mut work, table, &mut report, progress).await?;
        }
        for (of, to, key) in BELONGS {
            find_strays(&mut work, of, to, key, &mut report).await?;
        }
        for (of, messages, key) in NUMBERED {
            find_gaps(&mut work, of, messages, key, &mut report).await?;
        }
        Ok(report)
    }
}

/// Reads and checks every row.
async fn look_through(
    work: &mut StoreTransaction,
    table: &Table,
    report: &mut CheckReport,
    progress: Progress<'_>,
) -> Result<(), BackupError> {
    let mut read = 0;
    progress(table.name, read);
    let mut rows = sqlx::query(table.select()).fetch(&mut **work);
    while let Some(row) = rows.try_next().await? {
        for column in table.columns {
            if let Err(why) = look_at(table, column, &row) {
                let first = table.columns[0].read(&row).unwrap_or_default();
                report.add(format!(
                    "table {}, the row of {first}: {} {why}",
                    table.name, column.name
                ));
            }
        }
        read += 1;
        progress(table.name, read);
    }
    report.rows.insert(table.name.to_owned(), read);
    Ok(())
}

/// Checks a value. Returns a description of the fault, if there is one.
fn look_at(table: &Table, column: &Column, row: &AnyRow) -> Result<(), String> {
    let value = column.read(row).map_err(|e| format!("cannot be read: {e}"))?;
    if value.is_null() && !column.nullable {
        return Err("is empty".into());
    }
    let no_json = |e: serde_json::Error| format!("is not the JSON expected here: {e}");
    match (column.kind, &value) {
        (Kind::Json, Value::String(text)) if column.name == "message" => {
            serde_json::from_str::<Message>(text).map(drop).map_err(no_json)
        }
        (Kind::Json, Value::String(text)) if matches!(column.name, "players" | "tools_off") => {
            serde_json::from_str::<Vec<String>>(text).map(drop).map_err(no_json)
        }
        (Kind::Json, Value::String(text)) if column.name == "memory" => {
            people::memory(text).map(drop).map_err(no_json)
        }
        (Kind::Json, Value::String(text)) => {
            serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(no_json)
        }
        (Kind::Text, Value::String(text))
            if (table.name, column.name) == ("chat_sessions", "status") =>
        {
            ChatStatus::from_word(text).map(drop).ok_or_else(|| format!("is invalid: {text}"))
        }
        (Kind::Bytes, Value::String(text)) if column.name == "voice" => {
            let voice = STANDARD.decode(text).ok().and_then(|bytes| people::voice(&bytes));
            voice.map(drop).ok_or_else(|| "is invalid".into())
        }
        (Kind::Number, Value::Number(ms)) if column.name.ends_with("_ms") => {
            let time = ms.as_i64().map(jiff::Timestamp::from_millisecond);
            time.filter(Result::is_ok).map(drop).ok_or_else(|| format!("is not a valid time: {ms}"))
        }
        _ => Ok(()),
    }
}

/// Finds rows whose parent row is missing.
async fn find_strays(
    work: &mut StoreTransaction,
    of: &str,
    to: &str,
    key: &str,
    report: &mut CheckReport,
) -> Result<(), BackupError> {
    let sql = format!(
        "SELECT child.{key} AS owner, COUNT(*) AS strays FROM {of} child WHERE NOT EXISTS \
         (SELECT 1 FROM {to} parent WHERE parent.{key} = child.{key}) \
         GROUP BY child.{key} ORDER BY child.{key}"
    );
    let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(&mut **work);
    while let Some(row) = rows.try_next().await? {
        let owner: String = row.try_get("owner")?;
        let strays: i64 = row.try_get("strays")?;
        report.add(format!("table {of}: {strays} rows of {owner}, which is not in {to}"));
    }
    Ok(())
}

/// Finds conversations whose messages are not numbered from 1 to their stored count.
async fn find_gaps(
    work: &mut StoreTransaction,
    of: &str,
    messages: &str,
    key: &str,
    report: &mut CheckReport,
) -> Result<(), BackupError> {
    let sql = format!(
        "SELECT owner.{key} AS owner, owner.message_count AS told, COUNT(m.number) AS found, \
         COALESCE(MAX(m.number), 0) AS last FROM {of} owner \
         LEFT JOIN {messages} m ON m.{key} = owner.{key} \
         GROUP BY owner.{key}, owner.message_count \
         HAVING COUNT(m.number) <> owner.message_count \
         OR COALESCE(MAX(m.number), 0) <> owner.message_count OR COALESCE(MIN(m.number), 1) <> 1 \
         ORDER BY owner.{key}"
    );
    let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(&mut **work);
    while let Some(row) = rows.try_next().await? {
        let owner: String = row.try_get("owner")?;
        let number = |name| row.try_get::<i64, _>(name);
        report.add(format!(
            "table {messages}: {owner} should have {} messages and has {}, the last of number {}",
            number("told")?,
            number("found")?,
            number("last")?
        ));
    }
    Ok(())
}
