//! Location of a test's store: SQLite in memory, a SQLite file, or a separate PostgreSQL database.
//! Not for its content.
//!
//! PostgreSQL is the server of `HEARKEN_TEST_POSTGRES`, which `scripts/services` starts; without it
//! those tests are skipped.

use std::sync::Arc;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tempfile::TempDir;

use crate::variable;

/// Variable with the URL of a PostgreSQL server on which databases may be created.
pub const POSTGRES: &str = "HEARKEN_TEST_POSTGRES";

/// Location of a test's store, which is empty at first.
pub struct Place {
    /// Its URL.
    pub url: String,
    /// A folder for files of the test.
    pub folder: TempDir,
    database: Option<(String, String)>,
}

impl Place {
    /// SQLite in memory.
    pub fn memory() -> Self {
        Self::with("sqlite::memory:".into(), None)
    }

    /// A SQLite file in a folder that does not exist yet, in memory where the system has such
    /// folders: a disk that others use delays each commit, up to the store's time limit.
    pub fn file() -> Self {
        let mut place = Self::memory();
        if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
            place.folder = folder;
        }
        place.url = format!("sqlite://{}", place.folder.path().join("new/hearken.db").display());
        place
    }

    /// A separate database; `None` if there is no server for tests.
    pub async fn postgres() -> Option<Self> {
        let Some(server) = variable(POSTGRES) else {
            eprintln!("skipped: no PostgreSQL, see scripts/services ({POSTGRES})");
            return None;
        };
        let name = format!("hearken_{}", uuid::Uuid::new_v4().simple());
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let mut url = url::Url::parse(&server).expect("a URL");
        url.set_path(&name);
        Some(Self::with(url.into(), Some((server, name))))
    }

    fn with(url: String, database: Option<(String, String)>) -> Self {
        Self { url, folder: tempfile::tempdir().unwrap(), database }
    }

    /// Whether two stores that are opened here share their data.
    pub fn is_shared(&self) -> bool {
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

/// Runs a test on a place, which is removed afterwards, even if the test fails.
pub async fn on<F, T>(place: Option<Place>, test: F)
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
