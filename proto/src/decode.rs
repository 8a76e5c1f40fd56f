//! Why some bytes or some JSON are not a message of ours. Not for errors of providers or faults
//! told to clients.

use crate::json::JsonError;

/// What was wrong with a message, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not JSON at all, or not a JSON object.
    #[error("not a JSON object: {reason}")]
    NotJson {
        /// What the parser says.
        reason: String,
    },
    /// The text is JSON, but a field is missing, is of another type, or stands twice.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A field is absent, of the wrong type, or out of range.
    #[error("field `{field}`: {reason}")]
    Field {
        /// Name of the field as it stands on the wire.
        field: &'static str,
        /// What was expected.
        reason: String,
    },
    /// A binary message ends before its header or its payload does.
    #[error("{what}: need {need} bytes, have {have}")]
    Short {
        /// The part that is cut.
        what: &'static str,
        /// Bytes needed for it.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// A binary header holds a value that no version of the protocol knows.
    #[error("{what}: unexpected value {value}")]
    Header {
        /// The header field.
        what: &'static str,
        /// The value found.
        value: u64,
    },
}

impl DecodeError {
    /// A field of the wrong type or range.
    pub fn field(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Field { field, reason: reason.into() }
    }
}

impl From<serde_json::Error> for DecodeError {
    fn from(e: serde_json::Error) -> Self {
        Self::NotJson { reason: e.to_string() }
    }
}
