//! Errors on the way from a name in the catalogue to a finished model folder. Not for the steps
//! themselves. Every error names its model and a remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why a model could not be fetched, read or checked.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The built-in catalogue is inconsistent; the text names the place.
    #[error("the model catalogue is wrong: {0}")]
    Catalogue(String),
    /// The catalogue does not have this name.
    #[error("no model is called \"{name}\"{hint}; `hearken models list` shows all names")]
    Unknown {
        /// Requested name.
        name: String,
        /// Empty, or the nearest known name as part of the sentence.
        hint: String,
    },
    /// A file or folder could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file's hash differs from the catalogue; the file has been deleted.
    #[error(
        "{what} has sha256 {actual}, expected {expected}; it was deleted, fetch again to download it"
    )]
    Corrupt {
        /// Name of the file or package archive.
        what: String,
        /// Sha256 in the catalogue, in hex.
        expected: String,
        /// Sha256 of the file, in hex.
        actual: String,
    },
    /// A package archive cannot be opened or lacks a member.
    #[error("{archive}: {reason}; delete it and fetch again")]
    Archive {
        /// Path of the archive.
        archive: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// A download from a hub failed.
    #[error("{url}: {reason}")]
    Hub {
        /// Requested URL.
        url: String,
        /// Description of the error.
        reason: String,
        /// True if no connection to the host could be opened.
        unreachable: bool,
    },
    /// A program that fetches or converts failed.
    #[error("{what}: {reason}; {remedy}")]
    Program {
        /// Action that failed, with the name of the package or program.
        what: String,
        /// Last lines of the program's output, or the reason why it did not start.
        reason: String,
        /// Advice on what to do.
        remedy: String,
    },
    /// Every source of an input failed.
    #[error("model {model}: cannot get {input} from any source: {reasons}")]
    NoSource {
        /// Name of the model.
        model: String,
        /// Name of the input.
        input: String,
        /// Reason of each source's failure, in the order tried.
        reasons: String,
    },
}

impl ModelError {
    /// Returns a closure that converts an I/O error at a path into this type.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Converts the loss of a blocking thread (it panicked, or the runtime is ending) into this
    /// type.
    pub(super) fn lost(what: &str, error: &tokio::task::JoinError) -> Self {
        Self::Program {
            what: what.to_owned(),
            reason: error.to_string(),
            remedy: "try again".to_owned(),
        }
    }
}
