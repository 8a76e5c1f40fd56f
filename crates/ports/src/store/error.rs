//! Errors of the store. Not for the answer to a client.

use std::fmt;

use crate::BoxError;

/// Kind of failure, for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The store cannot be reached, is locked, or did not answer in time. A later attempt may
    /// succeed.
    Unavailable,
    /// The maximum number of pending codes is reached.
    Full,
    /// The store did not understand a request, or contains a value that cannot be read.
    Unusable,
    /// The store's address cannot be used.
    Address,
    /// The store was upgraded by a later version of this program.
    Later,
    /// The store's tables could not be created or upgraded. They are as they were before.
    Upgrade,
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "the store cannot be reached",
            Self::Full => "too many devices wait to be bound",
            Self::Unusable => "the store holds something unexpected",
            Self::Address => {
                "`store.url` cannot be used: give sqlite:///folder/file.db or \
                 postgres://user:password@host/database, or leave it empty"
            }
            Self::Later => "the store is of a later version of this program",
            Self::Upgrade => "the store cannot be upgraded, and is as it was before",
        })
    }
}

/// Error of the store. `kind` is for code, the source for people.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct StoreError {
    /// Kind of failure.
    pub kind: StoreErrorKind,
    #[source]
    source: Option<BoxError>,
}

impl StoreError {
    /// Creates an error without a cause.
    pub fn new(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Creates an error with its cause.
    pub fn because(kind: StoreErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: Some(source.into()) }
    }
}
