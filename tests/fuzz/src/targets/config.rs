//! Configuration files: any input is read, or refused with an error that names the key; a value
//! that is read survives a round trip, and is shown without secrets.

use std::collections::BTreeMap;
use std::path::Path;

use hearken::config::{ConfigError, load_text, masked};

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = Path::new("config.toml");
    let nothing = BTreeMap::new();
    let config = match load_text(Some((file, text)), &nothing) {
        Ok(config) => config,
        Err(ConfigError::File { reason, .. }) => return assert!(!reason.is_empty()),
        Err(ConfigError::Value { key, remedy, .. }) => {
            return assert!(key.contains('.') && !remedy.is_empty());
        }
        Err(other) => panic!("the environment is empty: {other}"),
    };
    let written = toml::to_string(&config).expect("a configuration is plain TOML");
    let again = load_text(Some((file, &written)), &nothing);
    assert_eq!(again.unwrap_or_else(|error| panic!("{error}: {written}")), config);
    assert!(masked(&config).is_ok(), "{written}");
}
