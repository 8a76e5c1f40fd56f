//! Every step from an empty database to the tables of today, in order, for both kinds. Not for
//! taking them.
//!
//! A step that was released never changes. Both kinds have the same tables after a step of the
//! same number; PostgreSQL came in with the sixth.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::Dialect;

/// The number of the last step.
pub(crate) const SCHEMA: i64 = 7;

const SQLITE: [(i64, &str, &str); 7] = [
    (1, "devices", include_str!("../../migrations/sqlite/0001_devices.sql")),
    (2, "tools", include_str!("../../migrations/sqlite/0002_tools.sql")),
    (3, "agents", include_str!("../../migrations/sqlite/0003_agents.sql")),
    (4, "device prompt", include_str!("../../migrations/sqlite/0004_device_prompt.sql")),
    (5, "sessions", include_str!("../../migrations/sqlite/0005_sessions.sql")),
    (
        6,
        "chat, museum, settings",
        include_str!("../../migrations/sqlite/0006_chat_museum_settings.sql"),
    ),
    (7, "requests", include_str!("../../migrations/sqlite/0007_requests.sql")),
];

const POSTGRES: [(i64, &str, &str); 2] = [
    (6, "all", include_str!("../../migrations/postgres/0006_all.sql")),
    (7, "requests", include_str!("../../migrations/postgres/0007_requests.sql")),
];

/// What takes the steps of this kind of database that it has not taken.
pub(super) fn steps(dialect: Dialect) -> Migrator {
    let steps: &[(i64, &str, &'static str)] = match dialect {
        Dialect::Sqlite => &SQLITE,
        Dialect::Postgres => &POSTGRES,
    };
    let all = steps.iter().map(|(version, name, sql)| {
        let kind = MigrationType::Simple;
        Migration::new(*version, (*name).into(), kind, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(all.collect());
    // Its lock would outlive a call that is given up; the store takes one of its own.
    migrator.set_locking(false);
    migrator
}
