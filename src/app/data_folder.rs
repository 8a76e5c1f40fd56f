//! Permissions of the data folder. Not for what creates the files in it.

use std::path::Path;

use hearken_base::private_files;

use crate::http::{ADMIN_TOKEN_FILE, SECRET_FILE};

/// Takes the permissions of others from the server's files in the data folder, and from the folder
/// unless it holds something that others may read. Earlier versions, copies and restored backups
/// may have left them.
pub(super) fn tighten(folder: &Path) {
    let secrets = [SECRET_FILE, ADMIN_TOKEN_FILE];
    private_files::tighten_folder(folder, |name| {
        secrets.contains(&name) || name.starts_with(hearken_store::FILE_NAME)
    });
}
