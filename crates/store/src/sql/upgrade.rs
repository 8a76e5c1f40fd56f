//! First connection to a store, and its tables: reading their version, creating and upgrading them.
//! Not for the migrations themselves.

use futures_util::future::BoxFuture;
use hearken_ports::store::{StoreError, StoreErrorKind};
use sqlx::migrate::MigrateError;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::disk::{self, FileId};
use super::error::SqlError;
use super::location::make_private;
use super::migrations::{self, SCHEMA};
use super::{ACQUIRE, DEADLINE, Dialect, SqlStore, in_time};

/// Advisory lock of PostgreSQL for migrations. An arbitrary number that only this program uses.
const MAKING_TABLES: i64 = 0x0068_6561_726b_656e;

/// Error code of SQLite's `SQLITE_BUSY`.
const SQLITE_BUSY: &str = "5";

impl SqlStore {
    /// Returns the number of the last executed migration, without running any. `None` if there is
    /// no store yet, or it is empty.
    ///
    /// # Errors
    /// Fails if the store does.
    pub async fn version(&self) -> Result<Option<i64>, StoreError> {
        if self.file.as_ref().is_some_and(|file| !file.exists()) {
            return Ok(None);
        }
        self.try_to_connect().await?;
        Ok(self.newest_migration().await?)
    }

    async fn newest_migration(&self) -> Result<Option<i64>, SqlError> {
        Ok(version_of(&mut *self.pool.acquire().await?, self.dialect).await?)
    }

    /// Upgrades a store of an earlier version, and checks that it is not of a later one. Does
    /// nothing if there is no store yet. Returns its version before the upgrade.
    ///
    /// # Errors
    /// Fails if the store fails, is of a later version, or cannot be upgraded.
    pub async fn upgrade(&self) -> Result<Option<i64>, StoreError> {
        let version = in_time(async { Ok(self.version().await?) }).await?;
        if version.is_some_and(|version| version != SCHEMA) {
            self.pool().await?;
        }
        Ok(version)
    }

    /// Creates or migrates the tables. Returns their version.
    ///
    /// # Errors
    /// Fails if the store fails or is of a later version.
    pub async fn bring_up_to_date(&self) -> Result<i64, StoreError> {
        self.pool().await?;
        Ok(SCHEMA)
    }

    pub(super) fn migrate(&self) -> BoxFuture<'_, Result<(), SqlError>> {
        Box::pin(async {
            let file = self.make_file().await?;
            self.make_tables().await?;
            if let Some(file) = file {
                self.opened.get_or_init(|| file);
            }
            Ok(())
        })
    }

    /// Creates the file if the store is one and it is missing. Returns its identity.
    async fn make_file(&self) -> Result<Option<FileId>, SqlError> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        let make = move || make_private(&file).and_then(|()| FileId::of(&file));
        let made = tokio::task::spawn_blocking(make).await.map_err(|e| self.unreachable(&e))?;
        made.map(Some).map_err(|e| self.unreachable(&e))
    }

    /// Runs the missing migrations, all or none. Servers that start at the same time wait for each
    /// other.
    async fn make_tables(&self) -> Result<(), SqlError> {
        self.try_to_connect().await?;
        let mut work = self.begin_writing().await?;
        if self.dialect == Dialect::Postgres {
            // Another server may be creating all tables, which takes longer than changing a row.
            let wait = self.waits.busy.max(DEADLINE).as_millis();
            let patience = AssertSqlSafe(format!("SET LOCAL lock_timeout = {wait}"));
            sqlx::raw_sql(patience).execute(&mut *work).await?;
            // The migrator's own lock would outlive a cancelled call.
            sqlx::query("SELECT pg_advisory_xact_lock($1)")
                .bind(MAKING_TABLES)
                .execute(&mut *work)
                .await?;
        }
        let before = version_of(&mut work, self.dialect).await?;
        if let Some(later) = before.filter(|before| *before > SCHEMA) {
            return Err(self.is_later(later));
        }
        let ran = migrations::steps(self.dialect).run_direct(None, &mut *work, false).await;
        ran.map_err(|error| self.not_upgraded(before, error))?;
        work.commit().await
    }

    /// Connects once outside the pool. The pool would retry until its deadline and then not report
    /// the reason.
    async fn try_to_connect(&self) -> Result<(), SqlError> {
        if self.dialect == Dialect::Sqlite && self.file.is_none() {
            return Ok(());
        }
        let connecting = tokio::time::timeout(ACQUIRE, self.options.connect());
        let connected = connecting.await.map_err(|_| {
            let why = format!("it does not answer within {ACQUIRE:?}");
            self.unreachable(&why)
        })?;
        let mut connection = connected.map_err(|e| self.unreachable(&e))?;
        let opening = AssertSqlSafe(self.opening.clone());
        match sqlx::raw_sql(opening).execute(&mut connection).await {
            // Another server is creating the file: the pool waits for it.
            Err(sqlx::Error::Database(error)) if error.code().is_some_and(|c| c == SQLITE_BUSY) => {
            }
            opened => {
                opened.map_err(|e| self.unreachable(&e))?;
            }
        }
        Ok(connection.close().await?)
    }

    /// Builds the error of a store that cannot be reached.
    fn unreachable(&self, why: &dyn std::fmt::Display) -> SqlError {
        // On a full disk, SQLite returns one of many errors, and most do not name the cause.
        let disk = self.file.as_deref().filter(|file| file.exists()).map(disk::check);
        let why = match disk {
            Some(Err(disk)) => format!("{disk} ({why})"),
            _ => format!("{}: {why}", self.name),
        };
        SqlError::because(StoreErrorKind::Unavailable, why)
    }

    /// Builds the error of a store whose tables were not created or upgraded.
    fn not_upgraded(&self, before: Option<i64>, error: MigrateError) -> SqlError {
        let (why, may_pass) = match error {
            MigrateError::ExecuteMigration(error, number) => {
                (format!("migration {number} failed: {error}"), may_pass(&error))
            }
            MigrateError::Execute(error) => (error.to_string(), may_pass(&error)),
            MigrateError::VersionMismatch(number) => {
                (format!("its migration {number} is from another program"), false)
            }
            other => (other.to_string(), false),
        };
        if may_pass {
            return self.unreachable(&why);
        }
        let name = &self.name;
        let from = before.map_or("it has no tables".into(), |before| format!("version {before}"));
        let why = format!(
            "{name}: {why} ({from}, to be version {SCHEMA}): remove the cause, and start again or \
             run `hearken store migrate`"
        );
        SqlError::because(StoreErrorKind::Upgrade, why)
    }

    /// Builds the error of a store of a later version.
    pub(crate) fn is_later(&self, later: i64) -> SqlError {
        let name = &self.name;
        let why = format!(
            "{name} has version {later}, this program knows versions up to {SCHEMA}: use the \
             program that upgraded it, or restore a backup from before the upgrade into an empty \
             store"
        );
        SqlError::because(StoreErrorKind::Later, why)
    }
}

/// Returns the number of the last executed migration. `None` if there are no tables.
async fn version_of(
    connection: &mut AnyConnection,
    dialect: Dialect,
) -> Result<Option<i64>, sqlx::Error> {
    let found: i64 = sqlx::query_scalar(match dialect {
        Dialect::Sqlite => "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'",
        Dialect::Postgres => {
            "SELECT COUNT(*) FROM pg_catalog.pg_tables \
             WHERE tablename = '_sqlx_migrations' AND schemaname = current_schema()"
        }
    })
    .fetch_one(&mut *connection)
    .await?;
    if found == 0 {
        return Ok(None);
    }
    let sql = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";
    sqlx::query_scalar(sql).fetch_one(connection).await
}

/// Returns true if a retry may succeed without an operator's action: the connection was lost, or a
/// lock was held.
fn may_pass(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return true };
    let code = error.code().unwrap_or_default();
    // PostgreSQL: operator intervention, lock not available, deadlock.
    code == SQLITE_BUSY
        || code.starts_with("57P")
        || code == "57014"
        || code == "55P03"
        || code == "40P01"
}
