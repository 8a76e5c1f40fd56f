//! All environment variables that the server reads; no other file reads them. Tests pass a map
//! instead of the process's environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hearken_base::child_env::is_inherited;
use hearken_engines::models::default_root;

/// Prefix of the variables that name a key: `HEARKEN__SECTION__KEY`.
pub const PREFIX: &str = "HEARKEN__";
/// User's data folder (XDG base directory specification).
pub const DATA_HOME: &str = "XDG_DATA_HOME";
/// User's home folder.
pub const HOME: &str = "HOME";

/// Well-known name for a key.
#[derive(Debug, Clone, Copy)]
pub struct Alias {
    /// Name of the variable.
    pub name: &'static str,
    /// Key, with dots.
    pub key: &'static str,
    /// True if the variable is in seconds and the key in milliseconds.
    pub seconds: bool,
}

const fn alias(name: &'static str, key: &'static str) -> Alias {
    Alias { name, key, seconds: false }
}

const fn in_seconds(name: &'static str, key: &'static str) -> Alias {
    Alias { name, key, seconds: true }
}

/// Names from the documents of the text gateway and of the orchestrator, and the URLs of the speech
/// services.
pub const ALIASES: [Alias; 27] = [
    alias("CLOUD_HOST", "server.host"),
    alias("CLOUD_PORT", "server.port"),
    in_seconds("CLOUD_PING_INTERVAL", "gateway.ping_interval_ms"),
    in_seconds("CLOUD_PING_TIMEOUT", "gateway.ping_timeout_ms"),
    alias("CLOUD_MAX_CONNECTIONS", "gateway.max_connections"),
    in_seconds("CLOUD_SESSION_TIMEOUT", "gateway.session_timeout_ms"),
    alias("CLOUD_LOG_LEVEL", "log.level"),
    alias("CLOUD_LOG_FORMAT", "log.format"),
    alias("LLM_BASE_URL", "llm.base_url"),
    alias("LLM_MODEL", "llm.model"),
    alias("LLM_API_KEY", "llm.api_key"),
    in_seconds("LLM_TIMEOUT", "llm.timeout_ms"),
    alias("LLM_TEMPERATURE", "gateway.temperature"),
    alias("LLM_MAX_TOKENS", "gateway.max_tokens"),
    alias("LLM_ENABLE_CONTEXT", "gateway.enable_context"),
    alias("MCP_ENABLED", "gateway.mcp_enabled"),
    alias("MCP_SERVER_NAME", "tools.mcp_server_name"),
    alias("MCP_PROTOCOL_VERSION", "tools.mcp_protocol_version"),
    alias("CLIENT_TOOLS_ENABLED", "gateway.client_tools_enabled"),
    alias("CLIENT_TOOLS_MAX_COUNT", "gateway.client_tools_max_count"),
    in_seconds("CLIENT_TOOL_TIMEOUT", "gateway.client_tool_timeout_ms"),
    alias("CLIENT_TOOL_RESULT_QUEUE_SIZE", "gateway.client_tool_result_queue_size"),
    alias("MCP_SERVER_URL", "state.url"),
    alias("ASR_URL", "asr.url"),
    alias("TTS_URL", "tts.url"),
    alias("DATABASE_URL", "store.url"),
    alias("REDIS_URL", "redis.url"),
];

/// Source of environment variables.
pub trait EnvVars {
    /// Returns every variable, by name.
    fn all(&self) -> BTreeMap<String, String>;

    /// Returns one variable; an empty one counts as absent.
    fn get(&self, name: &str) -> Option<String> {
        self.all().remove(name).filter(|v| !v.is_empty())
    }
}

/// Environment of the process, without names and values that are not UTF-8.
pub struct ProcessEnv;

impl EnvVars for ProcessEnv {
    fn all(&self) -> BTreeMap<String, String> {
        let text = |s: std::ffi::OsString| s.into_string().ok();
        std::env::vars_os().filter_map(|(k, v)| Some((text(k)?, text(v)?))).collect()
    }
}

impl EnvVars for BTreeMap<String, String> {
    fn all(&self) -> BTreeMap<String, String> {
        self.clone()
    }
}

/// Returns the folder of the models: `configured`, else that of [`default_root`].
pub fn models_dir(configured: &std::path::Path, env: &dyn EnvVars) -> PathBuf {
    if configured.as_os_str().is_empty() {
        return default_root(|name| env.get(name));
    }
    configured.to_owned()
}

/// Returns the folder of the server's data: `configured`, else `hearken` in the user's data folder,
/// else `hearken-data` below the working directory.
pub fn data_dir(configured: &std::path::Path, env: &dyn EnvVars) -> PathBuf {
    if !configured.as_os_str().is_empty() {
        return configured.to_owned();
    }
    let kept = env.get(DATA_HOME).map(PathBuf::from);
    let kept = kept.or_else(|| Some(PathBuf::from(env.get(HOME)?).join(".local/share")));
    kept.map_or_else(|| "hearken-data".into(), |folder| folder.join("hearken"))
}

/// Returns the variables for tool servers that are started as programs, without any secret.
pub fn for_tool_servers(env: &dyn EnvVars) -> BTreeMap<String, String> {
    let mut all = env.all();
    all.retain(|name, _| is_inherited(name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_folder_is_looked_for_in_order() {
        let env = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
        };
        let none = std::path::Path::new("");
        let all = env(&[(DATA_HOME, "/d"), (HOME, "/h")]);
        assert_eq!(data_dir("/x".as_ref(), &all), PathBuf::from("/x"));
        assert_eq!(data_dir(none, &all), PathBuf::from("/d/hearken"));
        let home = env(&[(HOME, "/h")]);
        assert_eq!(data_dir(none, &home), PathBuf::from("/h/.local/share/hearken"));
        assert_eq!(data_dir(none, &env(&[])), PathBuf::from("hearken-data"));
    }

    #[test]
    fn a_configured_models_folder_comes_first() {
        let env: BTreeMap<String, String> = [("HEARKEN_MODELS".into(), "/m".into())].into();
        assert_eq!(models_dir("/x".as_ref(), &env), PathBuf::from("/x"));
        assert_eq!(models_dir("".as_ref(), &env), PathBuf::from("/m"));
        let empty: BTreeMap<String, String> =
            [("HEARKEN_MODELS".into(), String::new()), ("HOME".into(), "/h".into())].into();
        assert_eq!(models_dir("".as_ref(), &empty), PathBuf::from("/h/.cache/hearken/models"));
    }
}
