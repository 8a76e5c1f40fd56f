//! The data folder: its permissions, and the store that is in it by default. Not for the content of
//! files.

use std::path::Path;
use std::sync::Arc;

use hearken_base::private_files;
use hearken_store::{SqlStore, StoreError};

use crate::config::Config;
use crate::http::{ADMIN_TOKEN_FILE, SECRET_FILE};

/// Opens the store, after taking the permissions of others from the data folder.
///
/// # Errors
/// The store's address cannot be used.
pub(super) fn open_store(config: &Config) -> Result<Arc<SqlStore>, StoreError> {
    let folder = &config.server.data_dir;
    tighten(folder);
    hearken_store::open(&config.store.url, folder)
}

/// Takes the permissions of others from the server's files in the data folder, and from the folder
/// unless it holds something that others may read. Earlier versions, copies and restored backups
/// may have left them.
fn tighten(folder: &Path) {
    let secrets = [SECRET_FILE, ADMIN_TOKEN_FILE];
    private_files::tighten_folder(folder, |name| {
        secrets.contains(&name) || name.starts_with(hearken_store::FILE_NAME)
    });
}
