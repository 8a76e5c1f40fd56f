//! Renders the configuration with its secrets masked. Not for reading them.

use super::{Config, llm, tool_servers};

/// Names of keys that contain secrets, in any section.
const SECRETS: [&str; 5] = ["api_key", "secret", "admin_token", "token", "password"];

/// Returns the whole configuration as TOML, with its secrets masked.
pub fn masked(config: &Config) -> String {
    let mut table = toml::Table::try_from(config).expect("a configuration is plain TOML");
    for section in table.iter_mut().filter_map(|(_, v)| v.as_table_mut()) {
        mask(section);
    }
    llm::mask(&mut table);
    tool_servers::mask(&mut table);
    mask_address(&mut table, "store");
    mask_address(&mut table, "redis");
    table.to_string()
}

/// Masks the secrets of one table.
pub(super) fn mask(table: &mut toml::Table) {
    for name in SECRETS {
        if let Some(key) = table.get_mut(name).filter(|k| k.as_str() != Some("")) {
            *key = "***".into();
        }
    }
}

/// Masks the password in a section's address; the whole address if it cannot be parsed.
fn mask_address(table: &mut toml::Table, section: &str) {
    let Some(url) = table.get_mut(section).and_then(|s| s.get_mut("url")) else { return };
    let Some(shown) = url.as_str().filter(|u| !u.is_empty()) else { return };
    *url = without_password(shown).unwrap_or_else(|| "***".into()).into();
}

/// Returns the address without its password; `None` if it may contain a password that cannot be
/// found.
fn without_password(url: &str) -> Option<String> {
    if url.starts_with("sqlite:") {
        return Some(url.to_owned());
    }
    let mut url = url::Url::parse(url).ok().filter(url::Url::has_authority)?;
    if url.password().is_some() {
        url.set_password(Some("***")).ok()?;
    }
    if url.query_pairs().any(|(key, _)| key.contains("password")) {
        url.set_query(None);
    }
    Some(url.into())
}
