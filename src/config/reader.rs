//! Reads the configuration: defaults, then the file, then the environment; then checks the values.
//! Errors name the file or variable, the key and the remedy.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::document::{self, Document};
use super::env::{ALIASES, EnvVars, PREFIX};
use super::error::ConfigError;
use super::schema::{self, reference};
use super::{Config, check, llm, names, tool_servers};

/// Configuration that was read.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Origin of each value that is not the default, by path.
    pub origins: BTreeMap<String, Origin>,
    /// Warnings about old names of keys.
    pub warnings: Vec<String>,
}

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// This line of the file.
    File(usize),
    /// This environment variable.
    Environment(String),
}

/// Reads the file, if one is given, and the environment.
///
/// # Errors
/// See [`ConfigError`].
pub fn load(file: Option<&Path>, env: &dyn EnvVars) -> Result<Config, ConfigError> {
    load_with_origins(file, env).map(|loaded| loaded.config)
}

/// Reads the file, if one is given, and the environment, and returns where each value comes from.
///
/// # Errors
/// See [`ConfigError`].
pub fn load_with_origins(file: Option<&Path>, env: &dyn EnvVars) -> Result<Loaded, ConfigError> {
    let Some(file) = file else { return merge(None, env) };
    let text = std::fs::read_to_string(file)
        .map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
    merge(Some((file, &text)), env)
}

/// Reads the text of a file, as [`load`] does, and the environment.
///
/// # Errors
/// See [`ConfigError`].
pub fn load_text(text: Option<(&Path, &str)>, env: &dyn EnvVars) -> Result<Config, ConfigError> {
    merge(text, env).map(|loaded| loaded.config)
}

fn merge(text: Option<(&Path, &str)>, env: &dyn EnvVars) -> Result<Loaded, ConfigError> {
    let document = text.map(|(file, text)| document::read(file, text)).transpose()?;
    let Document { mut table, lines, mut warnings } = document.unwrap_or_default();
    let mut origins: BTreeMap<String, Origin> =
        lines.into_iter().map(|(path, line)| (path, Origin::File(line))).collect();
    let defaults = Table::try_from(Config::default()).expect("the defaults are plain TOML");
    for Variable { name, key, path, value } in variables(env, &defaults)? {
        warnings.extend(names::resolve(&key).warning(&key).map(|w| format!("{name}: {w}")));
        set(&mut table, &path, value).map_err(|expected| ConfigError::Variable {
            name: name.clone(),
            key,
            expected,
        })?;
        origins.insert(path, Origin::Environment(name));
    }
    let mut config: Config = Value::Table(table).try_into().map_err(|e: toml::de::Error| {
        let file = text.map_or_else(|| "environment".into(), |(file, _)| file.to_owned());
        ConfigError::File { file, reason: e.to_string().trim_end().to_owned() }
    })?;
    let checked = llm::resolve(&mut config.llm.fallback, env)
        .and_then(|()| tool_servers::resolve(&mut config.tools.servers, env))
        .and_then(|()| check::check(&config));
    checked.map_err(|error| placed(error, &origins, text.map(|(file, _)| file)))?;
    config.from_environment = origins
        .iter()
        .filter(|(_, origin)| matches!(origin, Origin::Environment(_)))
        .map(|(path, _)| path.clone())
        .collect();
    Ok(Loaded { config, origins, warnings })
}

/// Names the file and line, or the variable, of an unusable value.
fn placed(
    error: ConfigError,
    origins: &BTreeMap<String, Origin>,
    file: Option<&Path>,
) -> ConfigError {
    let ConfigError::Value { key, value, remedy, .. } = error else { return error };
    let place = match (origins.get(&names::resolve(&key).path), file) {
        (Some(Origin::File(line)), Some(file)) => format!("{}, line {line}: ", file.display()),
        (Some(Origin::Environment(name)), _) => format!("environment variable {name}: "),
        _ => String::new(),
    };
    ConfigError::Value { place, key, value, remedy }
}

/// A variable that sets a key.
struct Variable {
    name: String,
    /// Name of the key, as the variable has it.
    key: String,
    path: String,
    value: Value,
}

/// Returns the settings of the environment. Exact names take precedence over well-known ones.
fn variables(env: &dyn EnvVars, defaults: &Table) -> Result<Vec<Variable>, ConfigError> {
    let mut found = Vec::new();
    let all = env.all();
    for alias in ALIASES {
        let name = alias.name.to_owned();
        let key = names::written(alias.key);
        if let Some(text) = all.get(alias.name).filter(|v| !v.is_empty()) {
            let text = if alias.seconds { milliseconds(text) } else { text.clone() };
            found.push((name, key, text));
        } else if let Some(file) = all.get(&format!("{}_FILE", alias.name)) {
            found.push((format!("{name}_FILE"), key, read_secret(file)?));
        }
    }
    let is_key = |key: &str| lookup(defaults, &names::resolve(key).path).is_some();
    for (name, text) in &all {
        let Some(key) = name.strip_prefix(PREFIX) else { continue };
        let key = key.to_lowercase().replace("__", ".");
        match key.strip_suffix("_file").filter(|key| is_key(key)) {
            Some(secret) if !is_key(&key) => {
                found.push((name.clone(), secret.to_owned(), read_secret(text)?));
            }
            _ => found.push((name.clone(), key, text.clone())),
        }
    }
    found.into_iter().map(|(name, key, text)| typed(defaults, name, key, &text)).collect()
}

fn milliseconds(seconds: &str) -> String {
    seconds.trim().parse::<u64>().map_or_else(|_| seconds.to_owned(), |s| (s * 1_000).to_string())
}

fn read_secret(file: &str) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| ConfigError::Unreadable { file: file.into(), source })?;
    Ok(text.trim_end().to_owned())
}

/// Parses the text as the type of the key's default.
fn typed(defaults: &Table, name: String, key: String, text: &str) -> Result<Variable, ConfigError> {
    let path = names::resolve(&key).path;
    let Some(default) = lookup(defaults, &path) else {
        let nearest = reference().nearest(&key).map(|known| schema::variable(&known));
        return Err(ConfigError::UnknownVariable { name, key, nearest });
    };
    let text = text.trim();
    let (value, expected) = match default {
        Value::Integer(_) => (text.parse().ok().map(Value::Integer), "a whole number"),
        Value::Float(_) => (text.parse().ok().map(Value::Float), "a number"),
        Value::Boolean(_) => (truth(text).map(Value::Boolean), "true or false"),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|s| !s.is_empty());
            let items = items.map(|s| Value::String(s.to_owned()));
            (Some(Value::Array(items.collect())), "a list, with commas between")
        }
        Value::Table(_) => (None, "one of its keys: this is a section"),
        _ => (Some(Value::String(text.to_owned())), "text"),
    };
    match value {
        Some(value) => fits(Variable { name, key, path, value }),
        None => Err(ConfigError::Variable { name, key, expected: expected.to_owned() }),
    }
}

/// Checks that the key accepts the value: one of an enumeration, or a number in range.
fn fits(variable: Variable) -> Result<Variable, ConfigError> {
    let mut alone = Table::new();
    let Variable { name, key, path, value } = variable;
    let wrong = match set(&mut alone, &path, value.clone()) {
        Ok(()) => Value::Table(alone).try_into::<Config>().err().map(|e| e.message().to_owned()),
        Err(expected) => Some(expected),
    };
    let Some(wrong) = wrong else { return Ok(Variable { name, key, path, value }) };
    let expected = wrong.split_once("expected ").map_or(wrong.as_str(), |(_, expected)| expected);
    Err(ConfigError::Variable { name, key, expected: format!("{expected}, not {value}") })
}

/// Parses a boolean as people and other programs write it in an environment.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn lookup<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Sets the value at a path of a table; fails if the path leads through a value.
pub(super) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            let inner = inner.as_table_mut().ok_or("in a section")?;
            set(inner, rest, value)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn environment_wins_over_file_over_defaults() {
        let file = file("[server]\nport = 1\nworkers = 3\n[llm]\nmodel = \"from-file\"\n");
        let vars = env(&[
            ("CLOUD_PORT", "2"),
            ("HEARKEN__SERVER__PORT", "3"),
            ("LLM_TIMEOUT", "7"),
            ("HEARKEN__ASR__POOL__MAX_IDLE", "5"),
            ("HEARKEN__DEVICE__WAKE_WORDS", "hello, 你好"),
            ("HEARKEN__ASR__MORE_URLS", "ws://a:1, wss://b/asr"),
            ("LLM_API_KEY", "sk-1"),
        ]);
        let config = load(Some(file.path()), &vars).unwrap();
        assert_eq!((config.server.port, config.server.workers), (3, 3));
        assert_eq!(config.server.host, "0.0.0.0");
        assert_eq!((config.llm.model.as_str(), config.llm.timeout_ms), ("from-file", 7_000));
        assert_eq!(config.asr.pool.max_idle, 5);
        assert!(config.from_environment.contains("llm.timeout_ms"));
        assert!(!config.from_environment.contains("llm.model"));
        assert_eq!(config.device.wake_words, ["hello", "你好"]);
        assert_eq!(config.asr.more_urls, ["ws://a:1", "wss://b/asr"]);
        assert!(!format!("{config:?}").contains("sk-1"));
    }

    #[test]
    fn secrets_may_come_from_files() {
        let key = file("sk-from-file\n");
        let path = key.path().to_str().unwrap();
        for name in ["LLM_API_KEY_FILE", "HEARKEN__LLM__API_KEY_FILE"] {
            let config = load(None, &env(&[(name, path)])).unwrap();
            assert_eq!(config.llm.api_key, hearken_base::Secret::new("sk-from-file"), "{name}");
        }
    }

    #[test]
    fn errors_name_the_place_and_the_remedy() {
        let message = |file: Option<&Path>, vars: &[(&str, &str)]| {
            load(file, &env(vars)).unwrap_err().to_string()
        };
        let wrong = file("[server]\nport = 1\nprot = 2\n");
        let told = message(Some(wrong.path()), &[]);
        assert!(told.contains("line 3") && told.contains("prot"), "{told}");
        let told = message(None, &[("HEARKEN__SERVER__PROT", "2")]);
        assert!(told.contains("did you mean HEARKEN__SERVER__PORT?"), "{told}");
        let told = message(None, &[("CLOUD_PORT", "many")]);
        assert_eq!(told, "environment variable CLOUD_PORT: `server.port` must be a whole number");
        let told = message(None, &[("HEARKEN__SERVER__PORT", "70000")]);
        let expected =
            "environment variable HEARKEN__SERVER__PORT: `server.port` must be u16, not 70000";
        assert_eq!(told, expected);
        let told = message(None, &[("HEARKEN__SPEAKING__PACKET_MS", "30")]);
        let expected = "environment variable HEARKEN__SPEAKING__PACKET_MS: `speaking.packet_ms` is 30: use 20, 40 or 60";
        assert_eq!(told, expected);
        for (name, key, wrong, right) in [
            (
                "CLOUD_LOG_FORMAT",
                "log.format",
                "jsn",
                "one of `TEXT`, `Text`, `text`, `JSON`, `Json`, `json`",
            ),
            (
                "HEARKEN__AUTH__REQUIRED",
                "auth.required",
                "allways",
                "one of `auto`, `always`, `never`",
            ),
            ("HEARKEN__DIALOGUE__LANGUAGE", "dialogue.language", "zn", "`zh` or `en`"),
            ("HEARKEN__LLM__PROVIDER", "llm.provider", "opanai", "`openai` or `anthropic`"),
        ] {
            let told = message(None, &[(name, wrong)]);
            let expected =
                format!("environment variable {name}: `{key}` must be {right}, not \"{wrong}\"");
            assert_eq!(told, expected);
        }
        let told = message(None, &[("CLOUD_LOG_LEVEL", "wran")]);
        assert!(
            told.starts_with(
                "environment variable CLOUD_LOG_LEVEL: `log.level` is wran: use error, warn,"
            ),
            "{told}"
        );
        let told = message(None, &[("MCP_PROTOCOL_VERSION", "2025-06-17")]);
        assert!(told.contains("`tools.mcp_protocol_version` is 2025-06-17: use "), "{told}");
        let wrong = file("[[tools.servers]]\nname = \"a\"\nprotocol = \"litmcp\"\n");
        let told = message(Some(wrong.path()), &[]);
        assert!(told.contains("line 3") && told.contains("`mcp` or `litemcp`"), "{told}");
        let told = message(Some("/no/such/file".as_ref()), &[]);
        assert_eq!(told, "cannot read /no/such/file");
    }
}
