//! Every step from an empty SQLite file to the tables of today, in order. Not for taking them.

/// Version, name and SQL of each step; a step that was released never changes.
pub(super) const ALL: [(i64, &str, &str); 5] = [
    (1, "devices", include_str!("../../migrations/sqlite/0001_devices.sql")),
    (2, "tools", include_str!("../../migrations/sqlite/0002_tools.sql")),
    (3, "agents", include_str!("../../migrations/sqlite/0003_agents.sql")),
    (4, "device prompt", include_str!("../../migrations/sqlite/0004_device_prompt.sql")),
    (5, "sessions", include_str!("../../migrations/sqlite/0005_sessions.sql")),
];
