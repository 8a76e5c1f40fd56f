//! A value that must not be printed. Not for reading it from anywhere: configuration does that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A key or password. `Debug` and `Display` print `***`, or nothing if it is empty.
///
/// It serialises in plain text: code that prints a configuration masks it first.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text unchanged.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself. Only for code that sends it to the service.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if there is no secret.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text that may be printed instead of the secret.
    fn mask(&self) -> &'static str {
        if self.0.is_empty() { "" } else { "***" }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.mask())
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.mask())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let key = Secret::new("sk-1234");
        assert_eq!(format!("{key} {key:?}"), "*** \"***\"");
        assert_eq!(key.expose(), "sk-1234");
        assert_eq!(format!("{}", Secret::default()), "");
    }
}
