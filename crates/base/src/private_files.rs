//! Files and folders that only their owner can read, whatever the process's umask: those that
//! contain keys or users' words are created here. Not for their content.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Mode of a private file.
const FILE_MODE: u32 = 0o600;
/// Mode of a private folder.
const FOLDER_MODE: u32 = 0o700;
/// Permission bits of the group and of other users.
const OTHERS: u32 = 0o077;

/// Creates a folder, and its parents if they are missing, for their owner only. A folder that
/// exists stays as it is.
///
/// # Errors
/// The folder cannot be created, or something else has its name.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Creates a file for its owner only, open for writing. Does not follow a symbolic link.
///
/// # Errors
/// The file cannot be created; [`io::ErrorKind::AlreadyExists`] if something has its name.
pub fn create_new(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(file)
}

/// Writes a new file for its owner only, to the disk. Does not follow a symbolic link.
///
/// # Errors
/// As of [`create_new`], or it cannot be written.
pub fn write_new(file: &Path, text: &str) -> io::Result<()> {
    let mut file = create_new(file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes other users' permissions from those of these files that exist. Files of another user,
/// symbolic links and files that cannot be changed stay unchanged. Changes and failures are logged.
pub fn tighten(files: impl IntoIterator<Item = PathBuf>) {
    let mut tightened = Vec::new();
    for file in files {
        match tighten_one(&file, FILE_MODE) {
            Ok(true) => tightened.push(file),
            Ok(false) => {}
            Err(error) => warn(&file, &error),
        }
    }
    if let Some(first) = tightened.first() {
        let count = tightened.len();
        let first = first.display();
        tracing::info!(count, %first, "other users can no longer read these files");
    }
}

/// Removes other users' permissions from the files of a folder whose names satisfy `ours`, then
/// from the folder itself, unless it contains a file that others may read.
pub fn tighten_folder(folder: &Path, ours: impl Fn(&str) -> bool) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return warn(folder, &error),
    };
    let is_ours = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(&ours) && !path.is_dir()
    };
    tighten(entries.iter().filter(|path| is_ours(path)).cloned());
    if !entries.iter().all(|path| is_private(path)) {
        return;
    }
    match tighten_one(folder, FOLDER_MODE) {
        Ok(true) => {
            tracing::info!(folder = %folder.display(), "other users can no longer read this folder");
        }
        Ok(false) => {}
        Err(error) => warn(folder, &error),
    }
}

fn warn(path: &Path, error: &io::Error) {
    let path = path.display();
    tracing::warn!(%path, %error, "other users may read this: give it to the server's user and run `chmod go=` on it");
}

/// Returns true if only the owner has access.
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.mode() & OTHERS == 0)
}

/// Returns true if the permissions changed.
fn tighten_one(path: &Path, mode: u32) -> io::Result<bool> {
    // Opened first, then changed, so that the file cannot be replaced in between. Opened without
    // blocking, because opening a pipe waits for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let open = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        // A symbolic link was created on purpose; its target stays as it is.
        Err(_) if path.is_symlink() => return Ok(false),
        open => open?,
    };
    let metadata = open.metadata()?;
    if metadata.mode() & OTHERS == 0 {
        return Ok(false);
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    open.set_permissions(Permissions::from_mode(metadata.mode() & mode)).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn wide(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn created_files_are_private_whatever_the_umask() {
        // The umask is process-wide: tests run in processes of their own.
        let before = rustix::process::umask(rustix::fs::Mode::empty());
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        create_folder(&inner).unwrap();
        create_folder(&inner).unwrap();
        drop(create_new(&inner.join("file")).unwrap());
        rustix::process::umask(before);
        assert_eq!((mode(&inner), mode(&folder.path().join("a"))), (0o700, 0o700));
        assert_eq!(mode(&inner.join("file")), 0o600);
        let again = create_new(&inner.join("file")).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(create_new(&link).is_err() && !target.exists());
        fs::write(&target, "of another").unwrap();
        wide(&target, 0o644);
        tighten([link]);
        assert_eq!(mode(&target), 0o644);
    }

    #[test]
    fn own_files_are_tightened_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a.jsonl", "b.jsonl", "notes.txt"] {
            fs::write(path(name), "").unwrap();
            wide(&path(name), 0o664);
        }
        wide(folder.path(), 0o755);
        let ours = |name: &str| name.ends_with(".jsonl");
        tighten_folder(folder.path(), ours);
        let modes = |names: [&str; 3]| names.map(|name| mode(&path(name)));
        assert_eq!(modes(["a.jsonl", "b.jsonl", "notes.txt"]), [0o600, 0o600, 0o664]);
        assert_eq!(mode(folder.path()), 0o755, "others may read the notes");
        fs::remove_file(path("notes.txt")).unwrap();
        tighten_folder(folder.path(), ours);
        assert_eq!(mode(folder.path()), 0o700);
        // Neither is an error.
        tighten([path("missing")]);
        tighten_folder(&path("missing"), ours);
    }
}
