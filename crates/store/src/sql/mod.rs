//! Store in a SQLite file or on a PostgreSQL server, opened at first use, with the same SQL for
//! both. Their differences are here and in the migrations. Not for the content of tables.
//!
//! - Each decision is one statement or one transaction: two servers on one store cannot both
//!   decide.
//! - Every call has a deadline. The wait for another writer's lock is shorter.

mod chat;
mod chat_owners;
mod codes;
mod deletions;
mod devices;
mod disk;
pub(super) mod error;
mod history;
mod location;
pub(super) mod migrations;
mod museum;
mod pending_events;
pub(super) mod people;
mod requests;
mod revocations;
mod roles;
mod sessions;
mod settings;
mod snapshots;
mod tool_tokens;
mod tools;
mod upgrade;
mod usage;

use std::io;
use std::ops::{Deref, DerefMut};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use hearken_ports::BoxError;
use hearken_ports::store::{StoreError, StoreErrorKind};
use jiff::Timestamp;
use metrics::{counter, describe_counter};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{
    Any, AnyConnection, AnyPool, AssertSqlSafe, ConnectOptions as _, Connection as _, Transaction,
};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use self::disk::FileId;
use self::error::SqlError;
use self::location::{Location, opening};

/// Name of the store's file in the data folder.
pub const FILE_NAME: &str = "hearken.db";
/// Requests that failed because the store could not be reached or did not answer in time.
const FAILURES: &str = "hearken_store_failures_total";
/// Maximum wait for another writer.
const BUSY: Duration = Duration::from_secs(1);
/// Maximum wait for a connection.
const ACQUIRE: Duration = Duration::from_secs(3);
/// Maximum wait for the check of a pooled connection. A busy machine uses half of it.
const PING: Duration = Duration::from_secs(1);
/// Maximum time of a whole call.
const DEADLINE: Duration = Duration::from_secs(4);
/// Maximum wait for a lock in interactive commands: [`SqlStore::patient`].
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of connections to a file: one writes while others read.
const FILE_CONNECTIONS: u32 = 4;
/// Number of connections to a PostgreSQL server, which by default accepts 100 in total.
const SERVER_CONNECTIONS: u32 = 16;

/// Kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

/// Transaction on either database. It is rolled back unless it is committed.
pub(super) struct StoreTransaction {
    transaction: Transaction<'static, Any>,
    /// Write permit, held until the end.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Connection pool and permit for one writing statement.
struct Writer<'a> {
    pool: &'a AnyPool,
    /// Write permit, held until the end.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Time limits of a store.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    busy: Duration,
    acquire: Duration,
    /// Maximum time of one statement on a PostgreSQL server; zero is no limit.
    statement: Duration,
}

const BRISK: Timeouts = Timeouts { busy: BUSY, acquire: ACQUIRE, statement: DEADLINE };
const PATIENT: Timeouts = Timeouts { busy: PATIENCE, acquire: ACQUIRE, statement: Duration::ZERO };

/// The store in a SQLite file, in memory or on a PostgreSQL server.
pub struct SqlStore {
    pool: AnyPool,
    options: AnyConnectOptions,
    waits: Timeouts,
    /// Statements that each connection runs first.
    opening: String,
    dialect: Dialect,
    file: Option<PathBuf>,
    /// Identity of the file, once it was opened.
    opened: Arc<OnceLock<FileId>>,
    /// Name in errors.
    name: String,
    migrated: OnceCell<()>,
    /// Semaphore with one permit: writers of this process queue for a file. SQLite itself lets
    /// writers poll a locked file until one of them times out.
    writing: Arc<Semaphore>,
}

impl SqlStore {
    /// Creates a store in this SQLite file. The file and its folder are created if they are
    /// missing. Requires a tokio runtime.
    ///
    /// # Errors
    /// Fails if the path is not UTF-8.
    pub fn file(path: &Path) -> Result<Self, StoreError> {
        Self::with(&Location::file(path)?, BRISK)
    }

    /// Creates a store at a `sqlite:` or `postgres:` address; `sqlite::memory:` is a store in
    /// memory.
    ///
    /// # Errors
    /// Fails if the address has another form.
    pub fn at(url: &str) -> Result<Self, StoreError> {
        Self::with(&Location::at(url)?, BRISK)
    }

    /// Creates a store with long time limits, for interactive commands. An empty address means
    /// `hearken.db` in this folder.
    ///
    /// # Errors
    /// Fails if the address has another form.
    pub fn patient(url: &str, data_dir: &Path) -> Result<Self, StoreError> {
        Self::with(&Location::configured(url, data_dir)?, PATIENT)
    }

    /// Creates the store of a server. An empty address means `hearken.db` in this folder.
    pub(super) fn configured(url: &str, data_dir: &Path) -> Result<Self, StoreError> {
        describe_counter!(FAILURES, "requests to the store that failed");
        counter!(FAILURES).increment(0);
        Self::with(&Location::configured(url, data_dir)?, BRISK)
    }

    fn with(location: &Location, waits: Timeouts) -> Result<Self, StoreError> {
        // `Any` serves both databases, so that each statement exists once and is tested on both.
        // Decision 0038.
        sqlx::any::install_default_drivers();
        let options = AnyConnectOptions::from_str(&location.url)
            .map_err(|e| StoreError::because(StoreErrorKind::Address, e))?
            .disable_statement_logging();
        let mut pool = AnyPoolOptions::new().acquire_timeout(waits.acquire);
        pool = match (location.dialect, &location.file) {
            (Dialect::Postgres, _) => pool
                .max_connections(SERVER_CONNECTIONS)
                // The pool's own check has no timeout: it would wait forever on a connection whose
                // server vanished.
                .test_before_acquire(false)
                .before_acquire(|connection, _| Box::pin(answers(connection)))
                .after_release(|connection, _| Box::pin(answers(connection))),
            (Dialect::Sqlite, Some(_)) => {
                pool.max_connections(FILE_CONNECTIONS).after_release(move |connection, _| {
                    Box::pin(has_no_transaction(connection, waits.busy))
                })
            }
            // The store in memory lives exactly as long as its one connection.
            (Dialect::Sqlite, None) => {
                pool.max_connections(1).min_connections(1).idle_timeout(None).max_lifetime(None)
            }
        };
        let opening = opening(location, waits);
        let opened = Arc::new(OnceLock::new());
        let first = opening.clone();
        let expected = Arc::clone(&opened);
        let path = location.file.clone();
        let pool = pool.after_connect(move |connection, _| {
            let first = AssertSqlSafe(first.clone());
            // Connections must not write to one file and read from another.
            let same = path.as_deref().map_or(Ok(()), |p| disk::is_opened(p, expected.get()));
            Box::pin(async move {
                same?;
                sqlx::raw_sql(first).execute(connection).await.map(drop)
            })
        });
        Ok(Self {
            // The store opens at its first use: devices are answered without it. Decision 0037.
            pool: pool.connect_lazy_with(options.clone()),
            options,
            waits,
            opening,
            dialect: location.dialect,
            file: location.file.clone(),
            opened,
            name: location.name.clone(),
            migrated: OnceCell::new(),
            writing: Arc::new(Semaphore::new(1)),
        })
    }

    /// Returns the pool after the migrations.
    pub(super) async fn pool(&self) -> Result<&AnyPool, SqlError> {
        self.migrated.get_or_try_init(|| self.migrate()).await?;
        Ok(&self.pool)
    }

    /// Starts a transaction that writes. Until it ends, there are no other writers on SQLite, and
    /// no other changes to its rows on PostgreSQL.
    pub(super) async fn begin(&self) -> Result<StoreTransaction, SqlError> {
        self.pool().await?;
        self.begin_writing().await
    }

    /// Starts a transaction that writes, and overwrites the bytes of rows that it deletes or moves:
    /// an insertion moves rows, too.
    async fn begin_overwriting(&self) -> Result<StoreTransaction, SqlError> {
        let mut work = self.begin().await?;
        work.overwrite(self.dialect).await?;
        Ok(work)
    }

    /// Returns the pool and the permit for one writing statement.
    async fn writer(&self) -> Result<Writer<'_>, SqlError> {
        Ok(Writer { pool: self.pool().await?, _permit: self.permit().await })
    }

    /// Waits for the write permit. `None` on PostgreSQL, where writers run concurrently.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        match self.dialect {
            // The semaphore is never closed.
            Dialect::Sqlite => Arc::clone(&self.writing).acquire_owned().await.ok(),
            Dialect::Postgres => None,
        }
    }

    async fn begin_writing(&self) -> Result<StoreTransaction, SqlError> {
        let permit = self.permit().await;
        let begin = match self.dialect {
            // A transaction that reads before it writes would fail if another one wrote in between.
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres => "BEGIN",
        };
        Ok(StoreTransaction { transaction: self.pool.begin_with(begin).await?, _permit: permit })
    }

    /// Starts a transaction that writes, reads one value and rolls back. Fails if the file was
    /// deleted or moved, because SQLite would continue in a file without a path. Fails if its disk
    /// is full.
    async fn begin_and_read(&self) -> Result<(), SqlError> {
        let unavailable = |error: BoxError| SqlError::because(StoreErrorKind::Unavailable, error);
        self.pool().await?;
        if let Some(file) = self.file.clone() {
            let opened = Arc::clone(&self.opened);
            let check =
                move || disk::is_opened(&file, opened.get()).and_then(|()| disk::check(&file));
            let checked = tokio::task::spawn_blocking(check).await;
            checked.map_err(|e| unavailable(e.into()))?.map_err(|e| unavailable(e.into()))?;
        }
        let mut work = self.begin_writing().await?;
        sqlx::query("SELECT 1").execute(&mut *work).await?;
        Ok(())
    }

    /// Starts a transaction that reads a consistent snapshot, unaffected by concurrent writes.
    pub(super) async fn begin_reading(&self) -> Result<StoreTransaction, SqlError> {
        let begin = match self.dialect {
            Dialect::Sqlite => "BEGIN",
            Dialect::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        Ok(StoreTransaction { transaction: self.pool.begin_with(begin).await?, _permit: None })
    }

    /// Starts a transaction that is the only writer of these tables.
    pub(super) async fn begin_alone(
        &self,
        tables: impl Iterator<Item = &'static str>,
    ) -> Result<StoreTransaction, SqlError> {
        let mut work = self.begin().await?;
        if self.dialect == Dialect::Postgres {
            let tables: Vec<&str> = tables.collect();
            let lock = format!("LOCK TABLE {} IN EXCLUSIVE MODE", tables.join(", "));
            sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *work).await?;
        }
        Ok(work)
    }

    /// Continues the numbers of the audit after the highest one. SQLite does this by itself.
    pub(super) async fn count_on(&self, work: &mut StoreTransaction) -> Result<(), SqlError> {
        if self.dialect == Dialect::Postgres {
            sqlx::query(
                "SELECT setval(pg_get_serial_sequence('audit', 'number'), \
                 COALESCE(MAX(number), 0) + 1, false) FROM audit",
            )
            .execute(&mut **work)
            .await?;
        }
        Ok(())
    }

    /// Closes the store's connections, within the time limit of a call.
    pub async fn shut(&self) {
        if tokio::time::timeout(DEADLINE, self.pool.close()).await.is_err() {
            tracing::debug!("a connection to the store did not close in time");
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }
}

impl StoreTransaction {
    pub(super) async fn commit(self) -> Result<(), SqlError> {
        Ok(self.transaction.commit().await?)
    }

    /// Makes a SQLite file overwrite the data that this transaction deletes. This needs free disk
    /// space, so it is off for other deletions, which create free space.
    async fn overwrite(&mut self, dialect: Dialect) -> Result<(), SqlError> {
        if dialect == Dialect::Sqlite {
            sqlx::raw_sql("PRAGMA secure_delete = ON").execute(&mut *self.transaction).await?;
        }
        Ok(())
    }

    async fn rollback(self) -> Result<(), SqlError> {
        Ok(self.transaction.rollback().await?)
    }
}

impl Deref for StoreTransaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.transaction
    }
}

impl DerefMut for StoreTransaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }
}

/// Checks a connection of the pool. If this fails, the pool replaces it.
async fn answers(connection: &mut AnyConnection) -> sqlx::Result<bool> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(PING, connection.ping()).await.map_err(late)??;
    Ok(true)
}

/// Checks that a connection to a file can start another transaction. If not, the pool replaces it.
/// On an error such as a full disk, SQLite itself rolls back. The driver's rollback then fails, and
/// the driver considers the transaction open. Also resets the settings of
/// [`StoreTransaction::overwrite`] and [`SqlStore::empty_log`].
async fn has_no_transaction(connection: &mut AnyConnection, busy: Duration) -> sqlx::Result<bool> {
    let busy = busy.as_millis();
    let reset = format!("PRAGMA secure_delete = OFF; PRAGMA busy_timeout = {busy}");
    // Runs after a pending rollback.
    sqlx::raw_sql(AssertSqlSafe(reset)).execute(&mut *connection).await?;
    Ok(!connection.is_in_transaction())
}

/// Ends a call after [`DEADLINE`] with an error. A panic of the driver, which truncated answers
/// cause, is also an error.
async fn in_time<T>(call: impl Future<Output = Result<T, SqlError>>) -> Result<T, StoreError> {
    let done = match tokio::time::timeout(DEADLINE, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            let why = "the driver panicked at an answer of the server";
            Err(SqlError::because(StoreErrorKind::Unavailable, why))
        }
        Err(late) => Err(SqlError::because(StoreErrorKind::Unavailable, late)),
    };
    done.map_err(|error| {
        if error.kind() == StoreErrorKind::Unavailable && !error.is_taken() {
            counter!(FAILURES).increment(1);
        }
        error.into()
    })
}

/// Ends a call after [`DEADLINE`] with the error type of the ports that use `BoxError`.
async fn in_time_for_ports<T>(
    call: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, BoxError> {
    Ok(in_time(call).await?)
}

/// Replaces NUL characters, which PostgreSQL cannot store.
pub(super) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn time(milliseconds: i64) -> Result<Timestamp, SqlError> {
    Timestamp::from_millisecond(milliseconds).map_err(unusable)
}

/// Builds the error for a value that cannot be read.
fn unusable(error: impl Into<BoxError>) -> SqlError {
    SqlError::because(StoreErrorKind::Unusable, error)
}
