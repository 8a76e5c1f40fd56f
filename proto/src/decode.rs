//! Reasons for which bytes or JSON are not a valid message. Not for errors of providers or faults
//! sent to clients.

use crate::json::{JsonError, NotParsed, TooHeavy};

/// Mistake in a message, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not JSON at all, or not a JSON object.
    #[error("not a JSON object: {reason}")]
    NotJson {
        /// Message of the parser.
        reason: String,
    },
    /// The text is JSON, but a field is missing, is of another type, or occurs twice.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A field is absent, of the wrong type, or out of range.
    #[error("field `{field}`: {reason}")]
    Field {
        /// Name of the field on the wire.
        field: &'static str,
        /// Expected value.
        reason: String,
    },
    /// A binary message ends before the end of its header or payload.
    #[error("{what}: need {need} bytes, have {have}")]
    Short {
        /// Name of the part that is cut.
        what: &'static str,
        /// Bytes needed for it.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// A binary header contains a value that no version of the protocol knows.
    #[error("{what}: unexpected value {value}")]
    Header {
        /// The header field.
        what: &'static str,
        /// The value found.
        value: u64,
    },
}

impl DecodeError {
    /// Creates an error for a field of the wrong type or range.
    pub fn field(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Field { field, reason: reason.into() }
    }
}

impl From<TooHeavy> for DecodeError {
    fn from(heavy: TooHeavy) -> Self {
        Self::NotJson { reason: format!("it {heavy}") }
    }
}

impl From<NotParsed> for DecodeError {
    fn from(error: NotParsed) -> Self {
        Self::NotJson { reason: error.to_string() }
    }
}

impl From<serde_json::Error> for DecodeError {
    fn from(e: serde_json::Error) -> Self {
        Self::NotJson { reason: e.to_string() }
    }
}
