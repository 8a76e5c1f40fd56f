//! Whether the disk of a store's file can be written: SQLite finds out only when it commits. Not for
//! what is written.

use std::io::{Error, ErrorKind};
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};

/// Least free space for a store to be usable, in bytes: about what a long turn adds to SQLite's log.
const LEAST_FREE: u64 = 256 << 10;

/// Checks that the file is there, and that its disk takes more.
///
/// # Errors
/// The file is gone, or its disk is full or read-only.
pub(super) fn check(file: &Path) -> Result<(), Error> {
    if !file.try_exists()? {
        return Err(Error::new(ErrorKind::NotFound, format!("{} is gone", file.display())));
    }
    let disk = statvfs(file)?;
    if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let why = format!("the disk of {} is read-only", file.display());
        return Err(Error::new(ErrorKind::ReadOnlyFilesystem, why));
    }
    if disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_FREE {
        let why = format!("the disk of {} is full: make room on it", file.display());
        return Err(Error::new(ErrorKind::StorageFull, why));
    }
    Ok(())
}
