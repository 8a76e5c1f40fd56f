//! List of all tables and columns, for backups and checks. Not for the meaning of a table.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Text that is JSON.
    Json,
    Number,
    /// Bytes, in backups as base64.
    Bytes,
}

/// Column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// True if it can be null.
    pub(super) nullable: bool,
}

/// Table. Its rows refer to rows of earlier tables only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    /// Columns that order its rows, as SQL.
    pub(super) key: &'static str,
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text, nullable: false }
}

const fn json(name: &'static str) -> Column {
    Column { name, kind: Kind::Json, nullable: false }
}

const fn number(name: &'static str) -> Column {
    Column { name, kind: Kind::Number, nullable: false }
}

const fn bytes(name: &'static str) -> Column {
    Column { name, kind: Kind::Bytes, nullable: false }
}

const fn maybe(column: Column) -> Column {
    Column { nullable: true, ..column }
}

/// All tables of the store.
pub(super) const TABLES: [Table; 27] = [
    Table {
        name: "devices",
        columns: &[
            text("device_id"),
            text("client_id"),
            text("name"),
            text("board"),
            text("chip"),
            text("serial_number"),
            text("firmware_version"),
            number("first_seen_ms"),
            number("last_seen_ms"),
            number("bound"),
            json("tools_off"),
            text("agent"),
            text("system_prompt"),
            text("address"),
            text("role_id"),
        ],
        key: "device_id",
    },
    Table {
        name: "activations",
        columns: &[
            text("device_id"),
            text("client_id"),
            maybe(text("code")),
            text("challenge"),
            number("expires_ms"),
            text("address"),
        ],
        key: "device_id, client_id",
    },
    Table {
        name: "revocations",
        columns: &[text("device_id"), number("until_ms")],
        key: "device_id",
    },
    Table {
        name: "provisioning",
        columns: &[text("serial_number"), bytes("hmac_key")],
        key: "serial_number",
    },
    Table {
        name: "tool_servers",
        columns: &[text("name"), maybe(json("settings")), number("enabled")],
        key: "name",
    },
    Table {
        name: "tool_pins",
        columns: &[text("agent"), text("source"), text("tool"), text("hash")],
        key: "agent, source, tool",
    },
    Table {
        name: "tool_tokens",
        columns: &[
            text("serial"),
            text("agent"),
            text("name"),
            maybe(number("made_ms")),
            text("made_by"),
            maybe(number("revoked_ms")),
        ],
        key: "serial",
    },
    Table {
        name: "sessions",
        columns: &[text("session_id"), text("state"), number("last_used_ms")],
        key: "session_id",
    },
    Table {
        name: "chat_sessions",
        columns: &[
            text("session_id"),
            text("name"),
            text("creator_id"),
            text("dm_user_id"),
            text("status"),
            number("max_players"),
            json("players"),
            number("message_count"),
            maybe(number("state_version")),
            number("fence"),
            number("created_ms"),
            number("updated_ms"),
            number("last_access_ms"),
            text("owner"),
            number("stored_bytes"),
            number("refused_number"),
            number("refused_ns"),
        ],
        key: "session_id",
    },
    Table {
        name: "chat_people",
        columns: &[text("session_id"), text("user_id")],
        key: "session_id, user_id",
    },
    Table {
        name: "chat_messages",
        columns: &[text("session_id"), number("number"), json("message")],
        key: "session_id, number",
    },
    Table {
        name: "chat_turns",
        columns: &[
            text("session_id"),
            text("request_key"),
            text("answer"),
            text("request_hash"),
            number("fence"),
        ],
        key: "session_id, request_key",
    },
    Table {
        name: "chat_snapshots",
        columns: &[
            text("snapshot_id"),
            text("session_id"),
            text("name"),
            number("message_count"),
            maybe(number("state_version")),
            number("created_ms"),
            number("stored_bytes"),
        ],
        key: "snapshot_id",
    },
    Table {
        name: "chat_snapshot_messages",
        columns: &[text("snapshot_id"), number("number"), json("message")],
        key: "snapshot_id, number",
    },
    Table {
        name: "chat_snapshot_turns",
        columns: &[
            text("snapshot_id"),
            text("request_key"),
            text("answer"),
            text("request_hash"),
            number("fence"),
        ],
        key: "snapshot_id, request_key",
    },
    Table {
        name: "chat_pending_events",
        // Their numbers are reassigned in this order: PostgreSQL accepts no explicit ones.
        columns: &[text("session_id"), json("event")],
        key: "number",
    },
    Table {
        name: "museum_sessions",
        columns: &[
            text("session_id"),
            json("metadata"),
            json("functions"),
            json("history"),
            number("created_ms"),
            number("last_used_ms"),
            number("expires_ms"),
            number("requests"),
            text("address"),
        ],
        key: "session_id",
    },
    // The numbers of these tables and of history are also reassigned.
    Table {
        name: "persons",
        columns: &[text("person_id"), text("name"), number("created_ms"), text("role_id")],
        key: "number",
    },
    Table { name: "person_voices", columns: &[text("person_id"), bytes("voice")], key: "number" },
    Table {
        name: "person_memories",
        columns: &[text("person_id"), text("kind"), json("memory")],
        key: "number",
    },
    Table {
        name: "history",
        columns: &[
            text("turn_id"),
            text("kind"),
            text("client"),
            number("began_ms"),
            text("outcome"),
            text("heard"),
            text("said"),
            text("searched"),
            json("timing"),
            json("sounds"),
            number("sound_bytes"),
        ],
        key: "number",
    },
    Table {
        name: "history_sounds",
        columns: &[text("turn_id"), text("side"), bytes("packets")],
        key: "number",
    },
    Table {
        name: "roles",
        columns: &[
            text("role_id"),
            text("name"),
            number("version"),
            json("settings"),
            number("updated_ms"),
        ],
        key: "role_id",
    },
    Table {
        name: "role_versions",
        columns: &[
            text("role_id"),
            number("version"),
            text("name"),
            json("settings"),
            number("updated_ms"),
        ],
        key: "role_id, version",
    },
    Table {
        name: "daily_usage",
        columns: &[
            text("day"),
            text("kind"),
            text("client"),
            text("role_id"),
            number("turns"),
            number("refused"),
            number("prompt_tokens"),
            number("completion_tokens"),
            number("heard_ms"),
            number("said_ms"),
            number("said_chars"),
            number("cost_nano"),
        ],
        key: "day, kind, client, role_id",
    },
    Table { name: "settings", columns: &[text("name"), json("value")], key: "name" },
    Table {
        name: "audit",
        columns: &[number("number"), number("at_ms"), text("who"), text("what"), json("details")],
        key: "number",
    },
];

// All names come from this file: statements built from them are safe.
impl Table {
    /// Returns the statement that selects all rows, in order.
    pub(super) fn select(&self) -> AssertSqlSafe<String> {
        AssertSqlSafe(format!("SELECT {} FROM {} ORDER BY {}", self.names(), self.name, self.key))
    }

    /// Returns the statement that inserts this number of rows.
    pub(super) fn insert(&self, rows: usize) -> AssertSqlSafe<String> {
        let width = self.columns.len();
        let row = |row: usize| {
            let places: Vec<String> =
                (1..=width).map(|column| format!("${}", row * width + column)).collect();
            format!("({})", places.join(", "))
        };
        let rows: Vec<String> = (0..rows).map(row).collect();
        let name = self.name;
        let columns = self.names();
        AssertSqlSafe(format!("INSERT INTO {name} ({columns}) VALUES {}", rows.join(", ")))
    }

    /// Returns the statement that counts the rows.
    pub(super) fn count(&self) -> AssertSqlSafe<String> {
        AssertSqlSafe(format!("SELECT COUNT(*) FROM {}", self.name))
    }

    /// Returns the statement that deletes all rows.
    pub(super) fn clear(&self) -> AssertSqlSafe<String> {
        AssertSqlSafe(format!("DELETE FROM {}", self.name))
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name).collect();
        names.join(", ")
    }
}

impl Column {
    /// Reads this column of a row of [`Table::select`].
    pub(super) fn read(&self, row: &AnyRow) -> Result<Value, sqlx::Error> {
        Ok(match self.kind {
            Kind::Text | Kind::Json => row.try_get::<Option<String>, _>(self.name)?.into(),
            Kind::Number => row.try_get::<Option<i64>, _>(self.name)?.into(),
            Kind::Bytes => {
                let bytes: Option<Vec<u8>> = row.try_get(self.name)?;
                bytes.map(|bytes| STANDARD.encode(bytes)).into()
            }
        })
    }

    /// Converts a value for a statement; none if the column cannot contain it.
    pub(super) fn write(&self, value: &Value) -> Option<Field> {
        if value.is_null() && !self.nullable {
            return None;
        }
        let text = || value.as_str().map(str::to_owned);
        let field = match self.kind {
            Kind::Text | Kind::Json => Field::Text(text()),
            Kind::Number => Field::Number(value.as_i64()),
            Kind::Bytes => Field::Bytes(text().and_then(|text| STANDARD.decode(text).ok())),
        };
        (field.is_some() != value.is_null()).then_some(field)
    }

    /// Returns a description of the column's type for error messages.
    pub(super) fn wanted(&self) -> &'static str {
        match self.kind {
            Kind::Text => "a string",
            Kind::Json => "a string of JSON",
            Kind::Number => "a whole number",
            Kind::Bytes => "a base64 string",
        }
    }
}

/// Value as a parameter of a statement.
#[derive(Debug)]
pub(super) enum Field {
    Text(Option<String>),
    Number(Option<i64>),
    Bytes(Option<Vec<u8>>),
}

impl Field {
    fn is_some(&self) -> bool {
        match self {
            Self::Text(text) => text.is_some(),
            Self::Number(number) => number.is_some(),
            Self::Bytes(bytes) => bytes.is_some(),
        }
    }
}
