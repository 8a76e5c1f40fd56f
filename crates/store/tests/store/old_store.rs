//! The store of 0.1.0 in `fixtures/store`, and a dump of a store's content as text. Not for the
//! meaning of its content.

use std::path::{Path, PathBuf};

use hearken_test_support::places::Place;
use sqlx::any::AnyPoolOptions;
use sqlx::migrate::Migrator;
use sqlx::{AnyPool, AssertSqlSafe, Connection as _};

/// Number of the last migration of 0.1.0.
pub(super) const VERSION: i64 = 7;
/// Time of its first row; see `scripts/fixtures/store.py`.
pub(super) const BEGIN_MS: i64 = 1_763_900_000_000;

/// Returns the kind of database of an address.
pub(super) fn kind(url: &str) -> &'static str {
    if url.starts_with("sqlite") { "sqlite" } else { "postgres" }
}

/// Connects to a database without the store.
pub(super) async fn connect(place: &Place) -> AnyPool {
    sqlx::any::install_default_drivers();
    let mut url = place.url.clone();
    if kind(&url) == "sqlite" {
        let file = PathBuf::from(url.trim_start_matches("sqlite://"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        url += "?mode=rwc";
    }
    let pool = AnyPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    if kind(&url) == "sqlite" {
        // As in every version.
        sqlx::raw_sql("PRAGMA journal_mode = WAL").execute(&pool).await.unwrap();
    }
    pool
}

/// Executes these statements.
pub(super) async fn execute(place: &Place, statements: &str) {
    let pool = connect(place).await;
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&pool).await.unwrap();
    pool.close().await;
}

/// Loads the store of 0.1.0 into a place.
pub(super) async fn load(place: &Place) {
    let file = format!("fixtures/store/0.1.0.{}.sql", kind(&place.url));
    let statements =
        std::fs::read_to_string(hearken_test_support::repository().join(file)).unwrap();
    execute(place, &statements).await;
}

/// Runs the migrations up to this one, each by itself, as the versions in between would have.
pub(super) async fn migrate_to(place: &Place, version: i64) {
    let folder = Path::new("migrations").join(kind(&place.url));
    let mut steps = Migrator::new(folder).await.unwrap();
    steps.set_locking(false);
    let pool = connect(place).await;
    let mut connection = pool.acquire().await.unwrap();
    for step in VERSION..=version {
        let mut work = connection.begin().await.unwrap();
        steps.run_direct(Some(step), &mut *work, false).await.unwrap();
        work.commit().await.unwrap();
    }
    drop(connection);
    pool.close().await;
}

/// Returns the whole content of a store: its tables, indexes and triggers, and every row.
pub(super) async fn dump(place: &Place) -> Vec<String> {
    let pool = connect(place).await;
    let lines = async |sql: String| -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&pool).await.unwrap()
    };
    let (definitions, tables) = match kind(&place.url) {
        "sqlite" => (
            vec![
                "SELECT type || ' ' || name || ' ' || COALESCE(sql, '') FROM sqlite_master ORDER BY 1",
            ],
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1",
        ),
        _ => (
            vec![
                "SELECT table_name || ' ' || column_name || ' ' || data_type || ' ' || \
                 COALESCE(column_default, '') || ' ' || is_nullable FROM information_schema.columns \
                 WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
                "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
                "SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint \
                 WHERE connamespace = 'public'::regnamespace ORDER BY 1",
                "SELECT tgname || ' ' || pg_get_triggerdef(oid) FROM pg_trigger ORDER BY 1",
            ],
            "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
        ),
    };
    let mut all = Vec::new();
    for definition in definitions {
        all.extend(lines(definition.to_owned()).await);
    }
    for table in lines(tables.to_owned()).await {
        let rows = if kind(&place.url) == "sqlite" {
            let columns =
                format!("SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')");
            let columns = lines(columns).await.join(" || ',' || ");
            format!("SELECT {columns} FROM {table} ORDER BY 1")
        } else {
            format!("SELECT t::text FROM {table} t ORDER BY 1")
        };
        all.extend(lines(rows).await.into_iter().map(|row| format!("{table}: {row}")));
    }
    pool.close().await;
    all
}
