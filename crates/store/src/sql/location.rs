//! Address of a store, and the setup of its connections. Not for the connections.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use hearken_base::private_files;
use hearken_ports::store::StoreErrorKind;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::error::SqlError;
use super::{Dialect, FILE_NAME, Timeouts};

/// Location of a store.
pub(super) struct Location {
    pub(super) dialect: Dialect,
    /// Address in the driver's format.
    pub(super) url: String,
    /// Path of the file, if the store is one.
    pub(super) file: Option<PathBuf>,
    /// Name in errors: the path, or the address without its password.
    pub(super) name: String,
}

impl Location {
    pub(super) fn configured(url: &str, data_dir: &Path) -> Result<Self, SqlError> {
        match url {
            "" => Self::file(&data_dir.join(FILE_NAME)),
            url => Self::at(url),
        }
    }

    pub(super) fn file(path: &Path) -> Result<Self, SqlError> {
        let text = path.to_str().ok_or_else(|| {
            let why = format!("{} is not UTF-8", path.display());
            SqlError::because(StoreErrorKind::Address, why)
        })?;
        // Slashes are encoded too: this makes the address opaque, so that no part of the path is
        // parsed.
        let encode = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).into(),
            other => format!("%{other:02X}"),
        };
        let encoded: String = text.bytes().map(encode).collect();
        let url = format!("sqlite:{encoded}?mode=rw");
        let file = Some(path.to_owned());
        let name = text.to_owned();
        Ok(Self { dialect: Dialect::Sqlite, url, file, name })
    }

    pub(super) fn at(url: &str) -> Result<Self, SqlError> {
        let wrong = |e| SqlError::because(StoreErrorKind::Address, e);
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let name = name_of(&PgConnectOptions::from_str(url).map_err(wrong)?);
            return Ok(Self { dialect: Dialect::Postgres, url: url.to_owned(), file: None, name });
        }
        if !url.starts_with("sqlite:") {
            return Err(SqlError::new(StoreErrorKind::Address));
        }
        let options = SqliteConnectOptions::from_str(url).map_err(wrong)?;
        let in_memory = url.contains(":memory:") || url.contains("mode=memory");
        let file = (!in_memory).then(|| options.get_filename().to_owned());
        // Connections never create the file: if it were moved away, some of the store's connections
        // would continue in a new empty file. `make_private` creates it.
        let url = match (in_memory || url.contains("mode="), url.contains('?')) {
            (true, _) => url.replace("mode=rwc", "mode=rw"),
            (false, true) => format!("{url}&mode=rw"),
            (false, false) => format!("{url}?mode=rw"),
        };
        let name = file.as_ref().map_or("memory".into(), |file| file.display().to_string());
        Ok(Self { dialect: Dialect::Sqlite, url, file, name })
    }
}

/// Returns the address of a PostgreSQL server without its password.
fn name_of(server: &PgConnectOptions) -> String {
    let user = server.get_username();
    let host = server.get_host();
    let port = server.get_port();
    let database = server.get_database().unwrap_or(user);
    format!("postgres://{user}@{host}:{port}/{database}")
}

/// Returns the statements that each connection runs first.
pub(super) fn opening(location: &Location, waits: Timeouts) -> String {
    let busy = waits.busy.as_millis();
    match (location.dialect, &location.file) {
        // FULL: a committed transaction is on disk even if the machine loses power.
        (Dialect::Sqlite, Some(_)) => format!(
            "PRAGMA busy_timeout = {busy}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"
        ),
        (Dialect::Sqlite, None) => format!("PRAGMA busy_timeout = {busy}"),
        (Dialect::Postgres, _) => format!(
            "SET lock_timeout = {busy}; SET statement_timeout = {0}; \
             SET idle_in_transaction_session_timeout = {0}; SET TIME ZONE 'UTC'",
            waits.statement.as_millis()
        ),
    }
}

/// Creates a file that only its owner can read, and its folder, if they are missing: it will
/// contain devices' keys. SQLite gives the files beside it the same permissions. Removes the
/// permissions of others from existing files.
pub(super) fn make_private(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent().filter(|f| !f.as_os_str().is_empty()) {
        private_files::create_folder(folder)?;
    }
    match private_files::create_new(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let beside = |suffix: &str| {
                let mut path = file.as_os_str().to_owned();
                path.push(suffix);
                path.into()
            };
            private_files::tighten(["", "-wal", "-shm", "-journal"].map(beside));
            Ok(())
        }
        made => made.map(drop),
    }
}
