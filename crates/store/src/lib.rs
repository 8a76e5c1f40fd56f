//! Persistent data in SQLite or PostgreSQL: the SQL behind the ports of the store, its upgrades,
//! backup and restore. Not for the ports, nor for access control.

mod backup;
mod check;
mod config;
mod restore;
mod sql;
mod tables;

use std::path::Path;
use std::sync::Arc;

use hearken_base::Secret;
use hearken_ports::store::StoreError;

pub use backup::{BackupError, Progress, RowCounts};
pub use check::CheckReport;
pub use config::StoreConfig;
pub use sql::{FILE_NAME, SqlStore};

/// Opens the store at this address; an empty one means `hearken.db` in the data folder. The
/// connection is made at first use, and again after a failure: a server starts without it.
///
/// # Errors
/// Fails if the address cannot be parsed or is of an unknown kind.
pub fn open(url: &Secret, data_dir: &Path) -> Result<Arc<SqlStore>, StoreError> {
    Ok(Arc::new(SqlStore::configured(url.expose(), data_dir)?))
}
