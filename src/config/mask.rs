//! Shows the configuration without its secrets. Not for reading them.

use super::{Config, llm, tool_servers};

/// Keys that hold secrets, in whatever section.
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

/// Masks the password within a section's address; all of it where it cannot be read.
fn mask_address(table: &mut toml::Table, section: &str) {
    let Some(url) = table.get_mut(section).and_then(|s| s.get_mut("url")) else { return };
    let Some(shown) = url.as_str().filter(|u| !u.is_empty()) else { return };
    *url = without_password(shown).unwrap_or_else(|| "***".into()).into();
}

/// An address in which no password stands; none where there may be one that is not found.
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
