//! What can go wrong between a name in the catalogue and a finished model folder.
//! Not here: how each step works; every error says which model it met and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a model could not be fetched, read or checked.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The built-in catalogue contradicts itself; the text says where.
    #[error("the model catalogue is wrong: {0}")]
    Catalogue(String),
    /// A name that the catalogue does not have.
    #[error("no model is called \"{name}\"{hint}; `hearken models list` shows all names")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// Empty, or the nearest known name as part of the sentence.
        hint: String,
    },
    /// A file or folder could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Bytes that are not the ones the catalogue names; they have been deleted.
    #[error(
        "{what} has sha256 {actual}, expected {expected}; it was deleted, fetch again to download it anew"
    )]
    Corrupt {
        /// The file or package archive.
        what: String,
        /// The sha256 in the catalogue, in hex.
        expected: String,
        /// The sha256 found, in hex.
        actual: String,
    },
    /// A package archive that cannot be opened or lacks a member.
    #[error("{archive}: {reason}; delete it and fetch again")]
    Archive {
        /// The archive's path.
        archive: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A download from a hub failed.
    #[error("{url}: {reason}")]
    Hub {
        /// What was asked for.
        url: String,
        /// What happened.
        reason: String,
        /// True when no connection to the host came about.
        unreachable: bool,
    },
    /// A program that fetches or converts failed.
    #[error("{what}: {reason}; {remedy}")]
    Program {
        /// What was being done, with the name of the package or program.
        what: String,
        /// The last lines it wrote, or why it did not start.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// Every source of an input failed.
    #[error("model {model}: no source gave {input}: {reasons}")]
    NoSource {
        /// The model's name.
        model: String,
        /// The input's name.
        input: String,
        /// Each source's reason, in the order tried.
        reasons: String,
    },
}

impl ModelError {
    /// Makes a closure that turns an I/O error at a path into this type.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Turns the loss of a blocking thread (it panicked, or the runtime is ending) into this type.
    pub(super) fn lost(what: &str, error: &tokio::task::JoinError) -> Self {
        Self::Program {
            what: what.to_owned(),
            reason: error.to_string(),
            remedy: "try again".to_owned(),
        }
    }
}
