//! Renders the configuration with its secrets masked. Not for reading them.

use hearken_base::redaction::{MASK, is_secret_name, shown};
use toml::Value;
use url::Url;

use super::reader::set;
use super::{Config, ConfigError, names};

/// Names of tables whose values may all be secret: headers and variables of tool servers.
const SECRET_TABLES: [&str; 2] = ["headers", "env"];

/// Returns the whole configuration as TOML, with its secrets masked and its expert keys in
/// `[expert]`: the text is a configuration file again.
///
/// # Errors
/// A value cannot be written as TOML. The checks of a configuration refuse such values.
pub fn masked(config: &Config) -> Result<String, ConfigError> {
    let mut table = masked_table(config)?;
    let mut expert = toml::Table::new();
    for path in names::EXPERT_PATHS {
        if let Some(value) = take(&mut table, path) {
            set(&mut expert, path, value).map_err(ConfigError::Unwritable)?;
        }
    }
    table.insert(names::EXPERT.to_owned(), Value::Table(expert));
    Ok(table.to_string())
}

/// Returns the whole configuration by path, with its secrets masked.
pub(super) fn masked_table(config: &Config) -> Result<toml::Table, ConfigError> {
    let written = toml::Table::try_from(config);
    let mut table = written.map_err(|error| ConfigError::Unwritable(error.to_string()))?;
    for section in ["store", "redis"] {
        mask_address(&mut table, section);
    }
    mask(&mut table);
    Ok(table)
}

fn take(table: &mut toml::Table, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => table.remove(path),
        Some((section, rest)) => take(table.get_mut(section)?.as_table_mut()?, rest),
    }
}

/// Masks the secrets of a table and of all within it.
fn mask(table: &mut toml::Table) {
    for (name, value) in table.iter_mut() {
        match value {
            Value::Table(all) if SECRET_TABLES.contains(&name.as_str()) => {
                all.iter_mut().for_each(|(_, value)| *value = MASK.into());
            }
            Value::String(text) if is_secret_name(name) && !text.is_empty() => {
                MASK.clone_into(text);
            }
            value => mask_within(value),
        }
    }
}

fn mask_within(value: &mut Value) {
    match value {
        Value::Table(table) => mask(table),
        Value::Array(values) => values.iter_mut().for_each(mask_within),
        Value::String(text) => {
            if let Ok(url) = Url::parse(text)
                && url.has_host()
            {
                *text = with_mask(text, &url);
            }
        }
        _ => {}
    }
}

/// Returns the address without its secrets, and unchanged if it has none.
fn with_mask(text: &str, url: &Url) -> String {
    if url.password().is_some() || url.query().is_some() { shown(url) } else { text.to_owned() }
}

/// Masks the whole address of a section if it cannot be parsed: it may contain a password that
/// cannot be found.
fn mask_address(table: &mut toml::Table, section: &str) {
    let Some(url) = table.get_mut(section).and_then(|s| s.get_mut("url")) else { return };
    let readable = |url: &str| {
        url.is_empty()
            || url.starts_with("sqlite:")
            || Url::parse(url).is_ok_and(|url| url.has_authority())
    };
    if !url.as_str().is_some_and(readable) {
        *url = MASK.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_toml_cannot_represent_is_an_error() {
        let mut config = Config::default();
        assert!(masked(&config).is_ok());
        config.usage.total_tokens = u64::MAX;
        let error = masked(&config).unwrap_err().to_string();
        assert!(error.starts_with("the configuration cannot be written as TOML: "), "{error}");
    }
}
