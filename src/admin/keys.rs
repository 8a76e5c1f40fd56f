//! Settings that may change at run time, and their fields in the configuration. Not for the allowed
//! values.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::Config;

/// Defines the list of keys, and a read and a write function that access their fields.
macro_rules! keys {
    ($($key:literal => $section:ident . $field:ident $(in $unit:ident)?),+ $(,)?) => {
        /// Every key that may change while the server runs.
        pub const CHANGEABLE: &[&str] = &[$($key),+];

        /// Returns the value of a key; `None` if it may not change at run time.
        pub(super) fn read(config: &Config, key: &str) -> Option<Value> {
            match key {
                $($key => Some($($unit::)?shown(&config.$section.$field)),)+
                _ => None,
            }
        }

        /// Sets a key. Returns `None` if it may not change at run time, and an error if the value
        /// has the wrong type.
        pub(super) fn write(
            config: &mut Config,
            key: &str,
            value: &Value,
        ) -> Option<Result<(), String>> {
            match key {
                $($key => Some($($unit::)?put(&mut config.$section.$field, value)),)+
                _ => None,
            }
        }
    };
}

keys! {
    "llm.model" => llm.model,
    "llm.temperature" => llm.temperature,
    "llm.max_tokens" => llm.max_tokens,
    "llm.price_per_million_input" => llm.price_per_million_input,
    "llm.price_per_million_output" => llm.price_per_million_output,
    "dialogue.system_prompt" => dialogue.system_prompt,
    "gateway.system_prompt" => gateway.system_prompt,
    "gateway.role" => gateway.role,
    "gateway.temperature" => gateway.temperature,
    "gateway.max_tokens" => gateway.max_tokens,
    "gateway.session_timeout_ms" => gateway.session_idle in milliseconds,
    "chat.system_prompt" => chat.system_prompt,
    "chat.role" => chat.role,
    "chat.temperature" => chat.temperature,
    "chat.max_tokens" => chat.max_tokens,
    "museum.system_prompt" => museum.system_prompt,
    "museum.temperature" => museum.temperature,
    "museum.max_tokens" => museum.max_tokens,
    "museum.session_timeout_ms" => museum.session_timeout in milliseconds,
    "history.keep" => history.keep,
    "history.retention_days" => history.retention_days,
    "history.max_turns" => history.max_turns,
    "history.max_audio_mib" => history.max_audio_mib,
    "usage.currency" => usage.currency,
    "usage.retention_days" => usage.retention_days,
    "usage.device_tokens" => usage.device_tokens,
    "usage.device_seconds" => usage.device_seconds,
    "usage.device_cost" => usage.device_cost,
    "usage.total_tokens" => usage.total_tokens,
    "usage.total_seconds" => usage.total_seconds,
    "usage.total_cost" => usage.total_cost,
    "usage.asr_price_per_hour" => usage.asr_price_per_hour,
    "usage.tts_price_per_million_chars" => usage.tts_price_per_million_chars,
    "tools.policy" => tools.policy,
    "tools.changed_definitions" => tools.changed_definitions,
    "log.level" => log.level,
}

fn shown(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn put<T: DeserializeOwned>(place: &mut T, value: &Value) -> Result<(), String> {
    *place = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    Ok(())
}

/// The same for times, which are whole milliseconds outside.
mod milliseconds {
    use std::time::Duration;

    use hearken_base::ms;
    use serde_json::Value;

    pub(super) fn shown(time: &Duration) -> Value {
        ms::in_ms(*time).into()
    }

    pub(super) fn put(place: &mut Duration, value: &Value) -> Result<(), String> {
        *place = ms::deserialize(value).map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_is_read_and_written_and_is_one_of_the_configuration() {
        let mut config = Config::default();
        let table = toml::Table::try_from(&config).unwrap();
        for key in CHANGEABLE {
            let (section, field) = key.split_once('.').unwrap();
            assert!(table[section].get(field).is_some(), "{key}");
            let value = read(&config, key).unwrap();
            assert_eq!(write(&mut config, key, &value), Some(Ok(())), "{key}");
            assert!(write(&mut config, key, &json!([])).unwrap().is_err(), "{key}");
        }
        assert_eq!(config, Config::default());
        assert_eq!(read(&config, "llm.temperature"), Some(json!(0.7)));
        assert_eq!(read(&config, "llm.api_key"), None);
        assert_eq!(write(&mut config, "auth.secret", &json!("x")), None);
    }
}
