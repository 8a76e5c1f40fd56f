//! Checks of a configuration beyond the types of its values: the ranges declared at the fields of
//! its sections, and limits that depend on more than one key. Settings of one provider are checked
//! where it is built.

use hearken_base::ms::in_ms;
use hearken_base::{Secret, log};
use serde_json::{Value, json};

use super::error::ConfigError;
use super::schema::{Key, Kind, plain, reference};
use super::{Config, Network};

/// Shortest accepted secret, in bytes.
const MIN_SECRET_BYTES: usize = 16;

/// Checks the values that no type checks.
///
/// # Errors
/// Returns the first unusable value, with its key and the allowed values.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    ranges(config)?;
    order(config)?;
    secrets(config)?;
    currency(config)?;
    consent(config)?;
    cors(config)?;
    proxies(config)?;
    redis(config)?;
    tls(config)?;
    log::filter(&config.log.level).map(drop).map_err(|_| {
        ConfigError::value("log.level", config.log.level.clone(), log::LevelError::REMEDY)
    })
}

/// Checks each value against the range of its key.
fn ranges(config: &Config) -> Result<(), ConfigError> {
    let values = json!(config);
    for key in reference().keys.values().filter(|key| !key.is_in_list()) {
        let value = value_of(&values, key);
        // JSON has no infinity and no NaN, which TOML and the environment do.
        if let (Value::Null, Kind::Number, Some(range)) = (value, key.kind, key.range()) {
            return Err(ConfigError::value(&key.path, "not finite", format!("use {range}")));
        }
        if let Some(remedy) = key.remedy_for(value) {
            let shown = match value {
                Value::Array(items) => format!("a list of {}", items.len()),
                value => plain(value),
            };
            return Err(ConfigError::value(&key.path, shown, remedy));
        }
    }
    Ok(())
}

/// Returns the value of a key in a configuration as JSON.
pub(super) fn value_of<'a>(values: &'a Value, key: &Key) -> &'a Value {
    key.path.split('.').fold(values, |inner, name| &inner[name])
}

/// Checks values that must not be below that of another key.
fn order(config: &Config) -> Result<(), ConfigError> {
    let turns = &config.turn_detection;
    let second = 1_000;
    for (key, value, least, other) in [
        (
            "turn_detection.middle_ms",
            in_ms(turns.middle),
            in_ms(turns.short),
            "turn_detection.short_ms",
        ),
        (
            "turn_detection.long_ms",
            in_ms(turns.long),
            in_ms(turns.middle),
            "turn_detection.middle_ms",
        ),
        (
            "device.dead_after_ms",
            in_ms(config.device.dead_after),
            in_ms(config.device.ping_every) + second,
            "device.ping_every_ms",
        ),
        (
            "gateway.ping_timeout_ms",
            in_ms(config.gateway.dead_after),
            in_ms(config.gateway.ping_every),
            "gateway.ping_interval_ms",
        ),
        (
            "chat.pong_timeout_ms",
            in_ms(config.chat.dead_after),
            in_ms(config.chat.ping_every),
            "chat.ping_interval_ms",
        ),
        (
            "admin.refresh_token_ms",
            config.admin.refresh_token_ms,
            config.admin.access_token_ms,
            "admin.access_token_ms",
        ),
    ] {
        if value < least {
            let remedy = format!("use at least {least}, because of `{other}`");
            return Err(ConfigError::value(key, value.to_string(), remedy));
        }
    }
    for (key, value, most, other) in [
        ("turn_detection.unlikely_zh", turns.unlikely_zh, turns.likely_zh, "likely_zh"),
        ("turn_detection.unlikely_en", turns.unlikely_en, turns.likely_en, "likely_en"),
    ] {
        if value > most {
            let remedy = format!("use at most {most}, which is `{other}`");
            return Err(ConfigError::value(key, value.to_string(), remedy));
        }
    }
    Ok(())
}

/// Checks that secrets are too long to be guessed.
fn secrets(config: &Config) -> Result<(), ConfigError> {
    let long_enough =
        |secret: &Secret| secret.is_empty() || secret.expose().len() >= MIN_SECRET_BYTES;
    for (key, secret) in [
        ("auth.secret", &config.auth.secret),
        ("auth.admin_token", &config.auth.admin_token),
        ("admin.password", &config.admin.password),
        ("gateway.token", &config.gateway.token),
        ("chat.token", &config.chat.token),
        ("museum.token", &config.museum.token),
    ] {
        if !long_enough(secret) {
            let remedy = format!("use at least {MIN_SECRET_BYTES} characters, or leave it empty");
            return Err(ConfigError::value(key, "too short", remedy));
        }
    }
    Ok(())
}

/// Checks the name of the currency, which is shown.
fn currency(config: &Config) -> Result<(), ConfigError> {
    let currency = &config.usage.currency;
    if currency.chars().count() <= 16 && !currency.chars().any(char::is_control) {
        return Ok(());
    }
    Err(ConfigError::value("usage.currency", currency, "use a name of at most 16 characters"))
}

/// Checks the policies of tools, and how the person is asked.
fn consent(config: &Config) -> Result<(), ConfigError> {
    let wrong = |(value, remedy): (String, String)| {
        ConfigError::value("tools.policy", format!("wrong at `{value}`"), remedy)
    };
    config.tools.policies().check().map_err(wrong)?;
    let phrases = &config.phrases;
    for (name, phrase) in [("ask_camera", &phrases.ask_camera), ("ask_tool", &phrases.ask_tool)] {
        for (language, text) in [("zh", &phrase.zh), ("en", &phrase.en)] {
            if text.is_empty() {
                let remedy = "write the question: the person must know what they are asked";
                return Err(ConfigError::value(
                    &format!("phrases.{language}.{name}"),
                    "empty",
                    remedy,
                ));
            }
        }
    }
    Ok(())
}

/// Checks the sites whose pages may send requests.
fn cors(config: &Config) -> Result<(), ConfigError> {
    for origin in &config.http.cors_origins {
        let site = url::Url::parse(origin).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.path() == "/" && url.query().is_none()
        });
        if site.is_none() && origin != "*" {
            let remedy = "use sites such as https://museum.example, or *";
            return Err(ConfigError::value("http.cors_origins", origin, remedy));
        }
    }
    Ok(())
}

/// Checks the networks of proxies.
fn proxies(config: &Config) -> Result<(), ConfigError> {
    for text in &config.server.trusted_proxies {
        if text.parse::<Network>().is_err() {
            let remedy = "use addresses or networks such as 10.0.0.5 or 10.0.0.0/8";
            return Err(ConfigError::value("server.trusted_proxies", text, remedy));
        }
    }
    Ok(())
}

/// Checks that a certificate has its key.
fn tls(config: &Config) -> Result<(), ConfigError> {
    let given = [&config.tls.certificate, &config.tls.key].map(|f| !f.as_os_str().is_empty());
    let missing = |key: &str, remedy: &str| Err(ConfigError::value(key, "empty", remedy));
    match given {
        [true, false] => missing("tls.key", "name the private key of `tls.certificate`"),
        [false, true] => missing("tls.certificate", "name the certificate of `tls.key`"),
        _ => Ok(()),
    }
}

/// Checks the settings of Redis.
fn redis(config: &Config) -> Result<(), ConfigError> {
    let url = config.redis.url.expose();
    let prefix = &config.redis.prefix;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !(1..=64).contains(&prefix.len()) || !prefix.chars().all(plain) {
        let remedy = "use 1 to 64 letters, digits, `-`, `_` and `.`";
        return Err(ConfigError::value("redis.prefix", prefix, remedy));
    }
    if !url.is_empty() && !url.starts_with("redis://") {
        let remedy = "use redis://HOST:PORT, or leave it empty (REDIS_URL); rediss://, which is \
                      Redis over TLS, is not supported: use a tunnel or a private network";
        return Err(ConfigError::value("redis.url", "another address", remedy));
    }
    Ok(())
}
