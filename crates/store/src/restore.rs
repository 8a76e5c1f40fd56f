//! Restoring a backup into a store, completely or not at all. Not for making one.

use std::io::{BufRead, Read as _};

use serde_json::Value;
use sqlx::Any;
use sqlx::any::AnyArguments;
use sqlx::query::Query;

use super::backup::{BackupError, FORMAT, Header, Progress, RowCounts, RowLine, VERSION};
use super::sql::migrations::SCHEMA;
use super::sql::{SqlStore, StoreTransaction};
use super::tables::{Field, TABLES, Table};

/// Maximum number of rows per insert.
const AT_ONCE: usize = 64;

/// Maximum size of a line, in bytes.
const MAX_LINE_BYTES: u64 = 64 << 20;

impl SqlStore {
    /// Restores a backup into the store, and creates missing tables. With `replace`, deletes
    /// existing rows first. Returns the number of rows.
    ///
    /// # Errors
    /// Fails if the store is not empty, if it fails, or if the backup cannot be read. The store is
    /// then unchanged.
    pub async fn restore(
        &self,
        backup: &mut (dyn BufRead + Send),
        replace: bool,
        progress: Progress<'_>,
    ) -> Result<RowCounts, BackupError> {
        let mut lines = Lines { input: backup, number: 0 };
        // Before any change to the store: this may be the wrong file.
        read_header(&mut lines)?;
        let mut work = self.begin_alone(TABLES.iter().map(|t| t.name)).await?;
        if replace {
            for table in TABLES.iter().rev() {
                sqlx::query(table.clear()).execute(&mut *work).await?;
            }
        } else {
            must_be_empty(&mut work).await?;
        }
        let counts = read_rows(&mut work, &mut lines, progress).await?;
        self.count_on(&mut work).await?;
        work.commit().await?;
        Ok(counts)
    }
}

/// Lines of a backup, with their number.
struct Lines<'a> {
    input: &'a mut (dyn BufRead + Send),
    number: u64,
}

impl Lines<'_> {
    /// Returns the next line as JSON. `None` at the end.
    fn next(&mut self) -> Result<Option<Value>, BackupError> {
        let mut line = Vec::new();
        self.input.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(BackupError::Read)?;
        if line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if line.last() != Some(&b'\n') {
            return Err(self.wrong("the line has no end: the file is truncated, or not a backup"));
        }
        serde_json::from_slice(&line).map(Some).map_err(|e| self.wrong(&format!("not JSON: {e}")))
    }

    fn wrong(&self, why: &str) -> BackupError {
        BackupError::Line(self.number.max(1), why.to_owned())
    }
}

fn read_header(lines: &mut Lines<'_>) -> Result<(), BackupError> {
    let foreign = "this is no backup of `hearken store backup`";
    let first = match lines.next() {
        Ok(Some(first)) => first,
        Ok(None) | Err(BackupError::Line(..)) => return Err(lines.wrong(foreign)),
        Err(error) => return Err(error),
    };
    if first["format"] != FORMAT {
        return Err(lines.wrong(foreign));
    }
    if first["version"] != VERSION {
        let why = format!("the backup's format has version {}, not {VERSION}", first["version"]);
        return Err(lines.wrong(&why));
    }
    let header: Header =
        serde_json::from_value(first).map_err(|e| lines.wrong(&format!("{foreign}: {e}")))?;
    if header.schema != SCHEMA {
        let why = format!(
            "the backup is of a store of version {}, this program has {SCHEMA}: \
             restore it with the program that made it, then migrate",
            header.schema
        );
        return Err(lines.wrong(&why));
    }
    let unknown = header.tables.iter().find(|name| !TABLES.iter().any(|t| t.name == *name));
    unknown.map_or(Ok(()), |name| Err(lines.wrong(&format!("there is no table `{name}`"))))
}

async fn must_be_empty(work: &mut StoreTransaction) -> Result<(), BackupError> {
    let mut found = Vec::new();
    for table in &TABLES {
        let rows: i64 = sqlx::query_scalar(table.count()).fetch_one(&mut **work).await?;
        if rows > 0 {
            found.push(format!("{rows} {}", table.name));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(BackupError::NotEmpty(found.join(", "))) }
}

/// Rows of one table that are to be inserted.
struct PendingRows {
    table: &'static Table,
    fields: Vec<Field>,
    /// Line number of the first row.
    from: u64,
}

async fn read_rows(
    work: &mut StoreTransaction,
    lines: &mut Lines<'_>,
    progress: Progress<'_>,
) -> Result<RowCounts, BackupError> {
    let mut counts: RowCounts = TABLES.iter().map(|t| (t.name.to_owned(), 0)).collect();
    let mut waiting: Option<PendingRows> = None;
    loop {
        let Some(mut line) = lines.next()? else {
            return Err(lines.wrong("the file ends too early: its last lines are missing"));
        };
        if let Some(end) = line.get_mut("end").map(Value::take) {
            put(work, waiting.take(), lines.number).await?;
            return ended(&end, counts, lines);
        }
        let (table, fields) = row(line, lines)?;
        if waiting.as_ref().is_some_and(|w| w.is_full() || w.table.name != table.name) {
            put(work, waiting.take(), lines.number).await?;
        }
        let rows = counts.entry(table.name.to_owned()).or_default();
        *rows += 1;
        progress(table.name, *rows);
        waiting
            .get_or_insert_with(|| PendingRows { table, fields: Vec::new(), from: lines.number })
            .fields
            .extend(fields);
    }
}

/// Checks the row counts of the last line, and that nothing follows.
fn ended(end: &Value, counts: RowCounts, lines: &mut Lines<'_>) -> Result<RowCounts, BackupError> {
    if *end != serde_json::json!(counts) {
        return Err(lines.wrong("rows are missing: there are fewer or more than were written"));
    }
    match lines.next()? {
        Some(_) => Err(lines.wrong("there is data after the end")),
        None => Ok(counts),
    }
}

/// Parses a row: its table, and its fields in the table's order.
fn row(line: Value, lines: &Lines<'_>) -> Result<(&'static Table, Vec<Field>), BackupError> {
    let RowLine { table, row } =
        serde_json::from_value(line).map_err(|e| lines.wrong(&format!("not a row: {e}")))?;
    let known = TABLES.iter().find(|t| t.name == table);
    let known = known.ok_or_else(|| lines.wrong(&format!("there is no table `{table}`")))?;
    let stray = row.keys().find(|name| !known.columns.iter().any(|c| c.name == *name));
    if let Some(stray) = stray {
        return Err(lines.wrong(&format!("table `{table}` has no column `{stray}`")));
    }
    let field = |column: &super::tables::Column| {
        let value = row.get(column.name).unwrap_or(&Value::Null);
        column.write(value).ok_or_else(|| {
            let name = column.name;
            let wanted = column.wanted();
            lines.wrong(&format!("`{name}` of a row of `{table}` must be {wanted}"))
        })
    };
    Ok((known, known.columns.iter().map(field).collect::<Result<_, _>>()?))
}

impl PendingRows {
    fn is_full(&self) -> bool {
        self.fields.len() >= AT_ONCE * self.table.columns.len()
    }
}

/// Inserts pending rows. `line` is the number of the last line read.
async fn put(
    work: &mut StoreTransaction,
    waiting: Option<PendingRows>,
    line: u64,
) -> Result<(), BackupError> {
    let Some(PendingRows { table, fields, from }) = waiting else { return Ok(()) };
    let rows = fields.len() / table.columns.len();
    let query = fields.into_iter().fold(sqlx::query(table.insert(rows)), bind);
    query.execute(&mut **work).await.map_err(|error| match error {
        sqlx::Error::Database(why) if is_refusal(why.as_ref()) => {
            let last = line.saturating_sub(1);
            let why =
                format!("the store refuses the rows of `{}` up to line {last}: {why}", table.name);
            BackupError::Line(from, why)
        }
        other => other.into(),
    })?;
    Ok(())
}

/// Returns true if the rows caused the error, not the store.
fn is_refusal(error: &dyn sqlx::error::DatabaseError) -> bool {
    !matches!(error.kind(), sqlx::error::ErrorKind::Other)
}

fn bind(
    query: Query<'static, Any, AnyArguments>,
    field: Field,
) -> Query<'static, Any, AnyArguments> {
    match field {
        Field::Text(text) => query.bind(text.map(|text| super::sql::text(&text))),
        Field::Number(number) => query.bind(number),
        Field::Bytes(bytes) => query.bind(bytes),
    }
}
