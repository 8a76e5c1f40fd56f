//! Migrations from an empty database to the current tables, in order, for both kinds of database.
//! Not for running them.
//!
//! A released migration never changes. Migrations with the same number produce the same tables on
//! both kinds. PostgreSQL starts with number 6.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::Dialect;

/// Number of the last migration.
pub(crate) const SCHEMA: i64 = SQLITE[SQLITE.len() - 1].0;

const SQLITE: [(i64, &str, &str); 17] = [
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
    (8, "tool pins", include_str!("../../migrations/sqlite/0008_tool_pins.sql")),
    (9, "owners", include_str!("../../migrations/sqlite/0009_owners.sql")),
    (
        10,
        "chat pending events",
        include_str!("../../migrations/sqlite/0010_chat_pending_events.sql"),
    ),
    (11, "persons", include_str!("../../migrations/sqlite/0011_persons.sql")),
    (12, "history", include_str!("../../migrations/sqlite/0012_history.sql")),
    (13, "roles", include_str!("../../migrations/sqlite/0013_roles.sql")),
    (14, "usage", include_str!("../../migrations/sqlite/0014_usage.sql")),
    (15, "tool tokens", include_str!("../../migrations/sqlite/0015_tool_tokens.sql")),
    (
        16,
        "review, deletions",
        include_str!("../../migrations/sqlite/0016_review_and_deletions.sql"),
    ),
    (17, "refused messages", include_str!("../../migrations/sqlite/0017_refused_messages.sql")),
];

const POSTGRES: [(i64, &str, &str); 12] = [
    (6, "all", include_str!("../../migrations/postgres/0006_all.sql")),
    (7, "requests", include_str!("../../migrations/postgres/0007_requests.sql")),
    (8, "tool pins", include_str!("../../migrations/postgres/0008_tool_pins.sql")),
    (9, "owners", include_str!("../../migrations/postgres/0009_owners.sql")),
    (
        10,
        "chat pending events",
        include_str!("../../migrations/postgres/0010_chat_pending_events.sql"),
    ),
    (11, "persons", include_str!("../../migrations/postgres/0011_persons.sql")),
    (12, "history", include_str!("../../migrations/postgres/0012_history.sql")),
    (13, "roles", include_str!("../../migrations/postgres/0013_roles.sql")),
    (14, "usage", include_str!("../../migrations/postgres/0014_usage.sql")),
    (15, "tool tokens", include_str!("../../migrations/postgres/0015_tool_tokens.sql")),
    (
        16,
        "review, deletions",
        include_str!("../../migrations/postgres/0016_review_and_deletions.sql"),
    ),
    (17, "refused messages", include_str!("../../migrations/postgres/0017_refused_messages.sql")),
];

/// Returns the migrator for this kind of database, which runs the missing migrations.
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
    // The migrator's own lock would outlive a cancelled call. The store uses its own lock.
    migrator.set_locking(false);
    migrator
}
