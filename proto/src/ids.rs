//! Identifiers on the wire, as distinct types that cannot be confused. Not for generating ids,
//! except random ones.

use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Creates an id from a text, unchanged.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Returns the text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id! {
    /// Device id: its Wi-Fi MAC address in lower case, as in the `Device-Id` header.
    DeviceId
}

string_id! {
    /// Id of a stored dialogue. Under 64 bytes, because clients store it in fixed buffers.
    SessionId
}

impl SessionId {
    /// Returns the start of the id, for logs: a caller with the complete id could continue the
    /// session.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or_default()
    }

    /// Creates a random id (UUID v4, 36 characters).
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

/// Number of a turn within one connection, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u64);

impl std::fmt::Display for TurnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
