//! Secrets of remote tool servers: reads them from variables and files. Not for checking the settings of a server.

use hearken_base::Secret;
use hearken_tool_sources::ToolServer;

use super::env::EnvVars;
use super::error::ConfigError;

/// Reads the bearer tokens from variables and files.
pub(super) fn resolve(servers: &mut [ToolServer], env: &dyn EnvVars) -> Result<(), ConfigError> {
    for server in servers {
        let file = server.bearer_file.as_path();
        let ways = [
            !server.bearer.is_empty(),
            !server.bearer_env.is_empty(),
            !file.as_os_str().is_empty(),
        ];
        if ways.iter().filter(|w| **w).count() > 1 {
            let remedy = "use one of `bearer`, `bearer_env` and `bearer_file`".to_owned();
            return Err(wrong(&server.name, remedy));
        }
        if ways[1] {
            let Some(token) = env.get(&server.bearer_env) else {
                let remedy = format!("set the variable {}, which it names", server.bearer_env);
                return Err(wrong(&server.name, remedy));
            };
            server.bearer = Secret::new(token.trim());
        }
        if ways[2] {
            let token = std::fs::read_to_string(file)
                .map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
            server.bearer = Secret::new(token.trim());
        }
    }
    Ok(())
}

fn wrong(server: &str, remedy: String) -> ConfigError {
    ConfigError::value("tools.servers", format!("wrong for `{server}`"), remedy)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{load, masked};

    fn loaded(text: &str, env: &[(&str, &str)]) -> Result<crate::config::Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let env: BTreeMap<String, String> =
            env.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        load(Some(file.path()), &env)
    }

    #[test]
    fn a_bearer_token_comes_from_where_it_is_said_to_be() {
        let server = "[[tools.servers]]\nname = 'a'\nurl = 'http://a/'\n";
        let kept = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(kept.path(), "from-file\n").unwrap();
        let file = format!("{server}bearer_file = '{}'", kept.path().display());
        let variable = format!("{server}bearer_env = 'KEY'");
        for (text, token) in [
            (format!("{server}bearer = 'b'"), "b"),
            (variable.clone(), "from-env"),
            (file.clone(), "from-file"),
        ] {
            let config = loaded(&text, &[("KEY", "from-env")]).unwrap();
            assert_eq!(config.tools.servers[0].bearer.expose(), token);
            assert!(!masked(&config).unwrap().contains(token) || token == "b");
        }
        let told = loaded(&variable, &[]).unwrap_err().to_string();
        let expected =
            "line 1: `tools.servers` is wrong for `a`: set the variable KEY, which it names";
        assert!(told.ends_with(expected), "{told}");
        let told = loaded(&format!("{file}\nbearer = 'b'"), &[]).unwrap_err().to_string();
        assert!(told.ends_with("use one of `bearer`, `bearer_env` and `bearer_file`"), "{told}");
    }

    #[test]
    fn headers_and_variables_of_servers_are_masked() {
        let text = "[[tools.servers]]\nname = 'a'\nurl = 'http://a/'\nheaders = { K = 'sk-1' }\n\
                    [[tools.servers]]\nname = 'b'\ncommand = 'c'\nenv = { K = 'sk-2' }";
        let shown = masked(&loaded(text, &[]).unwrap()).unwrap();
        assert!(!shown.contains("sk-") && shown.contains("K = \"***\""), "{shown}");
    }
}
