//! Whether a store's file is still the one that was opened, and its disk can be written: SQLite finds
//! out only when it commits, or never. Not for what is written.

use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};

/// Least free space for a store to be usable, in bytes: about what a long turn adds to SQLite's log.
const LEAST_FREE: u64 = 256 << 10;

/// Identity of a file, whatever its path: device and inode.
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

/// Checks that the file is there, and is the one that was opened if one was.
///
/// # Errors
/// It is gone, or another one is in its place.
pub(super) fn is_opened(file: &Path, opened: Option<&FileId>) -> Result<(), Error> {
    let found = FileId::of(file)?;
    if opened.is_some_and(|opened| *opened != found) {
        let why = format!(
            "{} is another file than the one that was opened: put that one back, or start again",
            file.display()
        );
        return Err(Error::other(why));
    }
    Ok(())
}

/// Checks that the file's disk takes more.
///
/// # Errors
/// The disk is full or read-only.
pub(super) fn check(file: &Path) -> Result<(), Error> {
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
