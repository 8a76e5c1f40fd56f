//! The values in use, and where each comes from, for `hearken config show`. Secrets are masked. Not
//! for reading them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::check::value_of;
use super::mask::masked_table;
use super::reader::Origin;
use super::schema::{Key, reference};
use super::{Config, ConfigError};

/// A key with its value.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// Name of the key, as it is written in a file.
    pub key: String,
    /// Its value; a secret is `***`.
    pub value: Value,
    /// Where the value comes from: `default`, a file with its line, a variable, or `run time`.
    pub source: String,
}

/// Returns the value of every key. `run_time` are paths of settings that were changed at run time.
///
/// # Errors
/// A value cannot be written as TOML. The checks of a configuration refuse such values.
pub fn shown(
    config: &Config,
    origins: &BTreeMap<String, Origin>,
    file: Option<&Path>,
    run_time: &[&str],
) -> Result<Vec<Shown>, ConfigError> {
    let values = json!(masked_table(config)?);
    let source = |path: &str| match origins.get(path) {
        Some(Origin::Environment(name)) => name.clone(),
        _ if run_time.contains(&path) => "run time".to_owned(),
        Some(Origin::File(line)) => {
            format!("{}:{line}", file.map(Path::display).map(|f| f.to_string()).unwrap_or_default())
        }
        None => "default".to_owned(),
    };
    let keys = reference().keys.values().filter(|key| !key.is_in_list());
    let one = |key: &Key| Shown {
        key: key.name(),
        value: value_of(&values, key).clone(),
        source: source(&key.path),
    };
    Ok(keys.map(one).collect())
}

/// Renders them as a file, with the source of each value as a comment behind it.
pub fn as_toml(shown: &[Shown]) -> String {
    let mut by_section: BTreeMap<(bool, &str), Vec<(&str, &Shown)>> = BTreeMap::new();
    for one in shown {
        let (section, name) = one.key.rsplit_once('.').unwrap_or(("", &one.key));
        by_section.entry((section.starts_with("expert"), section)).or_default().push((name, one));
    }
    let mut text = String::new();
    for ((_, section), keys) in by_section {
        let _infallible = writeln!(text, "[{section}]");
        for (name, Shown { value, source, .. }) in keys {
            let _infallible = writeln!(text, "{name} = {}  # {source}", inline(value));
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Renders a value of TOML in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{} = {}", json!(name), inline(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        // A string of JSON is one of TOML, too.
        other => other.to_string(),
    }
}
