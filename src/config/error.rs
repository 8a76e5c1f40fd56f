//! Reasons that a configuration cannot be used. Not for reading it.

use std::path::PathBuf;

use super::names;

/// Reason why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or has an unknown key or a value of the wrong type.
    #[error("{}: {reason}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Description of the mistake, with its line.
        reason: String,
    },
    /// A variable with the prefix of the configuration names no key.
    #[error("environment variable {name}: there is no key `{key}`{hint}", hint = nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownVariable {
        /// Name of the variable.
        name: String,
        /// Key that it would set.
        key: String,
        /// Name of the variable that was probably meant.
        nearest: Option<String>,
    },
    /// A variable has a value of the wrong type.
    #[error("environment variable {name}: `{key}` must be {expected}")]
    Variable {
        /// Name of the variable.
        name: String,
        /// Key that it sets.
        key: String,
        /// Allowed values.
        expected: String,
    },
    /// The configuration cannot be written as TOML, for this reason.
    #[error("the configuration cannot be written as TOML: {0}")]
    Unwritable(String),
    /// A value is out of range.
    #[error("{place}`{key}` is {value}: {remedy}")]
    Value {
        /// File and line, or the variable, with a colon; empty if it is not known.
        place: String,
        /// Name of the key.
        key: String,
        /// Value of the key.
        value: String,
        /// Allowed values.
        remedy: String,
    },
}

impl ConfigError {
    /// Creates the error about a value of the key with this path.
    pub(super) fn value(path: &str, value: impl Into<String>, remedy: impl Into<String>) -> Self {
        let place = String::new();
        Self::Value { place, key: names::written(path), value: value.into(), remedy: remedy.into() }
    }
}
