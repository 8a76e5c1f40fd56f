//! Checks that a store's file is still the one that was opened, and that its disk can be written:
//! SQLite detects this only at a commit, or never. Not for reading or writing the file.

use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};

/// Minimum free space for a store to be usable, in bytes: about what a long turn adds to SQLite's
/// log.
const LEAST_FREE: u64 = 256 << 10;

/// Identity of a file, independent of its path: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    /// Returns the identity of the file at this path.
    pub(super) fn of(file: &Path) -> Result<Self, Error> {
        let found = file.metadata().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::new(ErrorKind::NotFound, format!("{} is gone", file.display()))
            }
            _ => error,
        })?;
        Ok(Self(found.dev(), found.ino()))
    }
}

/// Checks that the file exists, and is the one that was opened if one was.
///
/// # Errors
/// Fails if it is gone, or replaced by another file.
pub(super) fn is_opened(file: &Path, opened: Option<&FileId>) -> Result<(), Error> {
    let found = FileId::of(file)?;
    if opened.is_some_and(|opened| *opened != found) {
        let why = format!(
            "{} is not the file that was opened: restore that file, or restart the program",
            file.display()
        );
        return Err(Error::other(why));
    }
    Ok(())
}

/// Checks that the file's disk has space.
///
/// # Errors
/// Fails if the disk is full or read-only.
pub(super) fn check(file: &Path) -> Result<(), Error> {
    let disk = statvfs(file)?;
    if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let why = format!("the disk of {} is read-only", file.display());
        return Err(Error::new(ErrorKind::ReadOnlyFilesystem, why));
    }
    if disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_FREE {
        let why = format!("the disk of {} is full: free some space on it", file.display());
        return Err(Error::new(ErrorKind::StorageFull, why));
    }
    Ok(())
}
