//! The store: one contract for each port, run on a SQLite file, on SQLite in memory and on a real
//! PostgreSQL; backups and checks. Not for what servers do with it.
//!
//! PostgreSQL is the server that `HEARKEN_TEST_POSTGRES` names, `scripts/services` starts one;
//! without it those tests skip.

mod backup;
mod chat;
mod cli;
mod devices;
mod killed;
mod migrations;
mod museum;
mod requests;
mod sessions;
mod settings;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use hearken::config::env::{EnvVars as _, ProcessEnv};
use hearken_store::SqlStore;
use jiff::Timestamp;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tempfile::TempDir;

/// The address of a PostgreSQL on which databases may be made.
pub(crate) const POSTGRES: &str = "HEARKEN_TEST_POSTGRES";

/// Where a test's store is; empty at first.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) folder: TempDir,
    database: Option<(String, String)>,
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self::with("sqlite::memory:".into(), None)
    }

    pub(crate) fn file() -> Self {
        let mut place = Self::memory();
        place.url = format!("sqlite://{}", place.folder.path().join("new/hearken.db").display());
        place
    }

    /// A database of its own; none where there is no server for tests.
    pub(crate) async fn postgres() -> Option<Self> {
        let Some(server) = ProcessEnv.get(POSTGRES) else {
            eprintln!("skipped: no PostgreSQL, see scripts/services ({POSTGRES})");
            return None;
        };
        let name = format!("hearken_{}", uuid::Uuid::new_v4().simple());
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let mut url = url::Url::parse(&server).expect("an address");
        url.set_path(&name);
        Some(Self::with(url.into(), Some((server, name))))
    }

    fn with(url: String, database: Option<(String, String)>) -> Self {
        Self { url, folder: tempfile::tempdir().unwrap(), database }
    }

    pub(crate) fn open(&self) -> SqlStore {
        SqlStore::at(&self.url).unwrap()
    }

    pub(crate) fn is_shared(&self) -> bool {
        !self.url.contains(":memory:")
    }

    /// Drops the database.
    async fn end(&self) {
        if let Some((server, name)) = &self.database {
            execute(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        }
    }
}

async fn execute(server: &str, sql: &str) {
    let mut connection = PgConnection::connect(server).await.expect("PostgreSQL for tests");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Runs a test on a place, which is gone afterwards however the test ends.
pub(crate) async fn on<F, T>(place: Option<Place>, test: F)
where
    F: FnOnce(Arc<Place>) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    let Some(place) = place.map(Arc::new) else { return };
    let ended = tokio::spawn(test(Arc::clone(&place))).await;
    place.end().await;
    if let Err(failed) = ended {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// Each named test, on every kind of store.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                use crate::store::{Place, on};

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn in_memory() {
                    on(Some(Place::memory()), super::$test).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn in_a_file() {
                    on(Some(Place::file()), super::$test).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_postgres() {
                    on(Place::postgres().await, super::$test).await;
                }
            }
        )+
    };
}
use on_every_store;

const HOUR: Duration = Duration::from_secs(3_600);

/// A time, so many seconds after one that all tests share.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}
