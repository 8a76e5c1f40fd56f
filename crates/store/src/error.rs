//! Why the store did not do what it was asked. Not for how a client is told.

use std::fmt;

/// What kind of failure it was, for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// It cannot be reached, is locked, or did not answer in time: later it may.
    Unavailable,
    /// It holds as many waiting codes as it may.
    Full,
    /// It was asked for something that it does not understand, or holds what we do not.
    Unusable,
    /// Its address cannot be used.
    Address,
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
        })
    }
}

/// Why the store did not do what it was asked. `kind` is for code, the source for people.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct StoreError {
    /// What kind of failure it was.
    pub kind: StoreErrorKind,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// A failure without a cause beneath it.
    pub fn new(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// A failure with its cause.
    pub fn because(
        kind: StoreErrorKind,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// Something that may be there once is there already.
    pub(super) fn is_taken(&self) -> bool {
        let source = self.source.as_ref().and_then(|source| source.downcast_ref());
        matches!(source, Some(sqlx::Error::Database(error)) if error.is_unique_violation())
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let kind = match &error {
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::Decode(_)
            | sqlx::Error::Migrate(_) => StoreErrorKind::Unusable,
            _ => StoreErrorKind::Unavailable,
        };
        Self::because(kind, error)
    }
}
