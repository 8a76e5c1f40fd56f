//! A value that must not be printed. Not for reading it from anywhere: configuration does that.

use serde::{Deserialize, Serialize};

/// A key or password. `Debug` and `Display` print `***` (nothing where it is empty).
///
/// It serialises as it is, so whoever prints a configuration masks it first.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes the text as it stands.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What may be shown of it.
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
    fn it_is_never_printed() {
        let key = Secret::new("sk-1234");
        assert_eq!(format!("{key} {key:?}"), "*** \"***\"");
        assert_eq!(key.expose(), "sk-1234");
        assert_eq!(format!("{}", Secret::default()), "");
    }
}
