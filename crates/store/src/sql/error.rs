//! Errors of SQL statements inside this crate, which convert from the driver's errors. Callers of
//! the ports get a `StoreError`.

use std::error::Error as _;

use hearken_ports::BoxError;
use hearken_ports::store::{StoreError, StoreErrorKind};

/// Failed operation of the store.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct SqlError(#[from] StoreError);

impl SqlError {
    /// Creates an error without a cause.
    pub(crate) fn new(kind: StoreErrorKind) -> Self {
        Self(StoreError::new(kind))
    }

    /// Creates an error with its cause.
    pub(crate) fn because(kind: StoreErrorKind, source: impl Into<BoxError>) -> Self {
        Self(StoreError::because(kind, source))
    }

    /// Returns the kind of the error.
    pub(crate) fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// Returns true if a value that must be unique already exists.
    pub(crate) fn is_taken(&self) -> bool {
        let source = self.0.source().and_then(|source| source.downcast_ref());
        matches!(source, Some(sqlx::Error::Database(error)) if error.is_unique_violation())
    }
}

impl From<sqlx::Error> for SqlError {
    fn from(error: sqlx::Error) -> Self {
        let kind = match &error {
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::Decode(_) => StoreErrorKind::Unusable,
            _ => StoreErrorKind::Unavailable,
        };
        Self::because(kind, error)
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        error.0
    }
}
