//! Failures of statements, inside of the store: they know the driver's errors. Callers of the ports get a `StoreError`.

use hearken_ports::BoxError;
use hearken_ports::store::{StoreError, StoreErrorKind};

/// Failed work on the store.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub(crate) struct SqlError {
    pub(crate) kind: StoreErrorKind,
    #[source]
    source: Option<BoxError>,
}

impl SqlError {
    /// Creates an error without a cause.
    pub(crate) fn new(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Creates an error with its cause.
    pub(crate) fn because(kind: StoreErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// Returns true if a value that must be unique exists already.
    pub(crate) fn is_taken(&self) -> bool {
        let source = self.source.as_ref().and_then(|source| source.downcast_ref());
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
    fn from(SqlError { kind, source }: SqlError) -> Self {
        Self { kind, source }
    }
}

impl From<StoreError> for SqlError {
    fn from(StoreError { kind, source }: StoreError) -> Self {
        Self { kind, source }
    }
}
