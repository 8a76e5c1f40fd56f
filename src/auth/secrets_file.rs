//! Random secrets that are created at the first start and stored in files of the data folder,
//! readable only by their owner. Not for configured secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hearken_base::{Secret, private_files};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Length of a secret, in random bytes.
const SECRET_BYTES: usize = 32;

/// Reason why a secret could not be read or created.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The file or its folder cannot be used.
    #[error("cannot store a secret in {}: set `server.data_dir` to a writable folder", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The file exists, but is empty.
    #[error("{} is empty: delete it to have a new secret created", file.display())]
    Empty {
        /// Path of the file.
        file: PathBuf,
    },
    /// The system provides no random bytes.
    #[error("the system provides no random bytes for a secret")]
    Random(#[source] getrandom::Error),
}

/// Returns the secret of this name in this folder; creates it if it does not exist. Two servers
/// that start at the same time get the same secret.
///
/// # Errors
/// See [`SecretFileError`].
pub fn load_or_create(folder: &Path, name: &str) -> Result<Secret, SecretFileError> {
    let file = folder.join(name);
    let failed = |source| SecretFileError::File { file: file.clone(), source };
    match fs::read_to_string(&file) {
        Ok(text) if text.trim().is_empty() => return Err(SecretFileError::Empty { file }),
        Ok(text) => return Ok(Secret::new(text.trim())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random).map_err(SecretFileError::Random)?;
    let secret = URL_SAFE_NO_PAD.encode(random);
    private_files::create_folder(folder).map_err(failed)?;
    // Written to a temporary file and then linked to its final name, so that no incomplete file is read.
    let draft = folder.join(format!(".{name}.{}", uuid::Uuid::new_v4()));
    let linked =
        private_files::write_new(&draft, &secret).and_then(|()| fs::hard_link(&draft, &file));
    let removed = fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load_or_create(folder, name),
        Err(error) => Err(failed(error)),
        Ok(()) => removed.map_err(failed).map(|()| Secret::new(secret)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_created_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        let first = load_or_create(&inner, "secret").unwrap();
        assert_eq!(first.expose().len(), 43);
        assert_eq!(load_or_create(&inner, "secret").unwrap(), first);
        assert_ne!(load_or_create(&inner, "admin_token").unwrap(), first);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inner.join("secret")), 0o600);
        assert_eq!(mode(&inner), 0o700);
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 2, "no temporary files are left");
    }

    #[test]
    fn concurrent_starts_get_the_same_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let all: Vec<Secret> = std::thread::scope(|scope| {
            let makers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| load_or_create(path, "s").unwrap())).collect();
            makers.into_iter().map(|m| m.join().unwrap()).collect()
        });
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn an_unusable_folder_is_reported_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = load_or_create(&file.path().join("below"), "secret").unwrap_err().to_string();
        assert!(told.contains("`server.data_dir`"), "{told}");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), " \n").unwrap();
        let told = load_or_create(folder.path(), "secret").unwrap_err().to_string();
        assert!(told.ends_with("is empty: delete it to have a new secret created"), "{told}");
        // Creation fails at once if the name is taken by a folder, or too long for a temporary file.
        fs::create_dir(folder.path().join("admin_token")).unwrap();
        load_or_create(folder.path(), "admin_token").unwrap_err();
        load_or_create(folder.path(), &"s".repeat(250)).unwrap_err();
    }
}
