//! Names of things that cross wires, as types that cannot be mixed up. Not for generating them
//! from anything but randomness.

use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it stands.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text of the id.
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
    /// A device: its Wi-Fi MAC address, lower case, as in the `Device-Id` header.
    DeviceId
}

string_id! {
    /// A stored dialogue; under 64 bytes, since clients keep it in fixed buffers.
    SessionId
}

impl SessionId {
    /// A fresh random id (UUID v4, 36 characters).
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

/// A turn, counted from 1 within one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u64);

impl std::fmt::Display for TurnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
