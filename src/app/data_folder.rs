//! The data folder: its permissions, and the store that is in it by default. Not for the content of files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hearken_base::private_files;
use hearken_ports::store::{StoreError, StoreErrorKind};
use hearken_store::SqlStore;

use crate::config::Config;
use crate::http::{ADMIN_TOKEN_FILE, SECRET_FILE};

/// Maximum time for upgrading a store of an earlier version; a large one is read completely.
/// `TimeoutStartSec` of `deploy/hearken.service` is longer.
const UPGRADED_WITHIN: Duration = Duration::from_secs(600);

/// Upgrades a store of an earlier version before requests need it: they would time out during the
/// upgrade of a large store. Continues if the store cannot be reached.
///
/// # Errors
/// The store is of a later version, cannot be upgraded, or has an unusable address.
pub async fn upgrade_store(config: &Config) -> Result<(), StoreError> {
    let store = SqlStore::patient(config.store.url.expose(), &config.server.data_dir)?;
    let upgrading = tokio::time::timeout(UPGRADED_WITHIN, store.upgrade()).await;
    store.shut().await;
    match upgrading {
        Ok(Ok(before)) => tracing::debug!(before, "the store can be used"),
        Ok(Err(error)) => {
            if matches!(error.kind, StoreErrorKind::Later | StoreErrorKind::Upgrade) {
                return Err(error);
            }
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "starting without the store");
        }
        Err(_) => tracing::warn!(within = ?UPGRADED_WITHIN, "the store was not upgraded in time"),
    }
    Ok(())
}

/// Opens the store, after removing other users' permissions from the data folder.
///
/// # Errors
/// The store's address is unusable.
pub(super) fn open_store(config: &Config) -> Result<Arc<SqlStore>, StoreError> {
    let folder = &config.server.data_dir;
    tighten(folder);
    hearken_store::open(&config.store.url, folder)
}

/// Removes other users' permissions from the server's files in the data folder, and from the folder
/// unless it contains something that others may read. Earlier versions, copies and restored backups
/// may have left them.
fn tighten(folder: &Path) {
    let secrets = [SECRET_FILE, ADMIN_TOKEN_FILE];
    private_files::tighten_folder(folder, |name| {
        secrets.contains(&name) || name.starts_with(hearken_store::FILE_NAME)
    });
}
