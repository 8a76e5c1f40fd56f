//! Keys of the fallback models: reads them from variables. Not for checking the models,
//! which happens where they are built.

use hearken_base::Secret;
use hearken_providers::FallbackSettings;

use super::env::EnvVars;
use super::error::ConfigError;

/// Reads the keys from variables.
pub(super) fn resolve(
    models: &mut [FallbackSettings],
    env: &dyn EnvVars,
) -> Result<(), ConfigError> {
    for model in models.iter_mut().filter(|model| !model.api_key_env.is_empty()) {
        let wrong = |remedy: String| {
            ConfigError::value("llm.fallback", format!("wrong for `{}`", model.model), remedy)
        };
        if !model.api_key.is_empty() {
            return Err(wrong("use one of `api_key` and `api_key_env`".into()));
        }
        let Some(key) = env.get(&model.api_key_env) else {
            let remedy = format!("set the variable {}, which it names", model.api_key_env);
            return Err(wrong(remedy));
        };
        model.api_key = Secret::new(key.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hearken_providers::LlmProvider;

    use super::*;
    use crate::config::{Config, load, masked};

    fn loaded(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let env: BTreeMap<String, String> =
            env.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        load(Some(file.path()), &env)
    }

    #[test]
    fn models_behind_the_first_are_read_and_their_keys_hidden() {
        let text = "[[llm.fallback]]\nprovider = 'anthropic'\nbase_url = 'https://a'\nmodel = 'c'\n\
                    api_key_env = 'KEY'\ntimeout_ms = 5\n\
                    [[llm.fallback]]\nbase_url = 'http://b/v1'\nmodel = 'd'\napi_key = 'sk-2'";
        let config = loaded(text, &[("KEY", "sk-1")]).unwrap();
        let [first, second] = &config.llm.fallback[..] else { panic!("two models") };
        assert_eq!((first.provider, first.timeout_ms), (LlmProvider::Anthropic, Some(5)));
        assert_eq!((first.api_key.expose(), second.api_key.expose()), ("sk-1", "sk-2"));
        let shown = masked(&config).unwrap();
        assert!(!shown.contains("sk-") && shown.contains("timeout_ms = 5"), "{shown}");
        let again = loaded(text, &[]).unwrap_err().to_string();
        let expected =
            "line 1: `llm.fallback` is wrong for `c`: set the variable KEY, which it names";
        assert!(again.ends_with(expected), "{again}");
        let both = loaded(&format!("{text}\napi_key_env = 'KEY'"), &[("KEY", "x")]).unwrap_err();
        assert!(both.to_string().ends_with("use one of `api_key` and `api_key_env`"), "{both}");
        assert!(loaded("[[llm.fallback]]\nmodel = 'c'", &[]).is_err(), "it has an address");
    }
}
