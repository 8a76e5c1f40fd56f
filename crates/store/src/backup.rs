//! Backups: every table as lines of JSON, from one consistent read while servers are running. Not
//! for restoring a backup, nor for the place it is written to.
//!
//! ```text
//! {"format":"hearken-store","version":1,"schema":11,"made_at":"...","tables":["devices",...]}
//! {"table":"devices","row":{"device_id":"...","bound":1,...}}       one line per row
//! {"end":{"devices":1,...}}                                         rows per table
//! ```
//!
//! Columns have the values of the database: times in milliseconds, JSON as text; bytes as base64. A
//! backup does not depend on the kind of database: it can be restored into the other kind.

use std::collections::BTreeMap;
use std::io::{self, Write};

use futures_util::TryStreamExt as _;
use hearken_ports::store::{StoreError, StoreErrorKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::sql::migrations::SCHEMA;
use super::sql::{SqlStore, StoreTransaction};
use super::tables::{TABLES, Table};
use crate::sql::error::SqlError;

/// Name of the format.
pub(super) const FORMAT: &str = "hearken-store";
/// Version of the format.
pub(super) const VERSION: u32 = 1;

/// Number of rows of each table.
pub type RowCounts = BTreeMap<String, u64>;

/// Function that receives the name of a table and the number of its rows processed so far.
pub type Progress<'a> = &'a mut (dyn FnMut(&str, u64) + Send);

/// Reason why a backup was not made or not restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The backup cannot be written.
    #[error("cannot write the backup")]
    Write(#[source] io::Error),
    /// The backup cannot be read.
    #[error("cannot read the backup")]
    Read(#[source] io::Error),
    /// A line of the backup cannot be used: its number, from 1, and the reason.
    #[error("line {0}: {1}")]
    Line(u64, String),
    /// The store to restore into is not empty: its content.
    #[error("the store is not empty ({0}): use --replace to replace its content with the backup")]
    NotEmpty(String),
    /// There is no store at the address.
    #[error("there is no store yet: run `hearken store migrate` to create it")]
    Missing,
    /// The tables of the store are those of an earlier program: their version.
    #[error("the store has version {0}, not {SCHEMA}: run `hearken store migrate` to upgrade it")]
    Version(i64),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SqlError> for BackupError {
    fn from(error: SqlError) -> Self {
        Self::Store(error.into())
    }
}

impl From<sqlx::Error> for BackupError {
    fn from(error: sqlx::Error) -> Self {
        SqlError::from(error).into()
    }
}

/// First line of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) schema: i64,
    pub(super) made_at: Timestamp,
    pub(super) tables: Vec<String>,
}

/// Line with one row.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowLine {
    pub(super) table: String,
    pub(super) row: Map<String, Value>,
}

impl SqlStore {
    /// Writes a consistent copy of the whole store while servers read and write. Returns the number
    /// of rows.
    ///
    /// # Errors
    /// Fails if there is no store, if it has another version, or if the store or the output fails.
    pub async fn back_up(
        &self,
        out: &mut (dyn Write + Send),
        now: Timestamp,
        progress: Progress<'_>,
    ) -> Result<RowCounts, BackupError> {
        self.must_be_current().await?;
        let mut work = self.begin_reading().await?;
        let header = Header {
            format: FORMAT.into(),
            version: VERSION,
            schema: SCHEMA,
            made_at: now,
            tables: TABLES.iter().map(|t| t.name.to_owned()).collect(),
        };
        write_line(out, &header)?;
        let mut counts = RowCounts::new();
        for table in &TABLES {
            let rows = write_table(&mut work, table, out, progress).await?;
            counts.insert(table.name.to_owned(), rows);
        }
        write_line(out, &json!({"end": counts}))?;
        out.flush().map_err(BackupError::Write)?;
        Ok(counts)
    }

    /// Returns an error unless the store has the version of this program.
    pub(super) async fn must_be_current(&self) -> Result<(), BackupError> {
        match self.version().await? {
            None => Err(BackupError::Missing),
            Some(SCHEMA) => Ok(()),
            Some(version) if version > SCHEMA => Err(self.is_later(version).into()),
            Some(version) => Err(BackupError::Version(version)),
        }
    }
}

async fn write_table(
    work: &mut StoreTransaction,
    table: &Table,
    out: &mut (dyn Write + Send),
    progress: Progress<'_>,
) -> Result<u64, BackupError> {
    let mut written = 0;
    progress(table.name, written);
    let mut rows = sqlx::query(table.select()).fetch(&mut **work);
    while let Some(found) = rows.try_next().await? {
        let mut row = Map::new();
        for column in table.columns {
            row.insert(column.name.to_owned(), column.read(&found)?);
        }
        write_line(out, &RowLine { table: table.name.to_owned(), row })?;
        written += 1;
        progress(table.name, written);
    }
    Ok(written)
}

fn write_line(out: &mut (dyn Write + Send), line: &impl Serialize) -> Result<(), BackupError> {
    let mut text =
        serde_json::to_vec(line).map_err(|e| SqlError::because(StoreErrorKind::Unusable, e))?;
    text.push(b'\n');
    out.write_all(&text).map_err(BackupError::Write)
}
