//! Rendering of settings, URLs and messages without the secrets in them. Not for values that are
//! secret as a whole: those are a [`Secret`](crate::Secret).

use serde_json::Value;
use url::Url;

/// Text that is shown instead of a secret.
pub const MASK: &str = "***";

/// Endings of names whose values are secret, in lower case and without separators.
const SECRET_NAMES: [&str; 13] = [
    "apikey",
    "authentication",
    "authorization",
    "bearer",
    "cookie",
    "credentials",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "secret",
    "token",
];

/// Returns true if a field, a key or a header with this name has a secret value: `api_key`,
/// `adminToken`, `Authorization`.
pub fn is_secret_name(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let bare: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    SECRET_NAMES.iter().any(|ending| bare.ends_with(ending))
}

/// Returns the URL as text, with `***` for its password and for each value in its query, which may
/// be a key.
pub fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    if url.password().is_some() && shown.set_password(Some(MASK)).is_err() {
        return format!("{}://...", url.scheme());
    }
    if let Some(query) = url.query() {
        let masked = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}={MASK}"),
            None => MASK.to_owned(),
        });
        shown.set_query(Some(&masked.collect::<Vec<_>>().join("&")));
    }
    shown.into()
}

/// Masks the secrets in a message: texts in fields with the name of a secret, and in URLs. Also in
/// texts that are themselves JSON, such as results of tools.
pub fn redact(message: &mut Value) {
    match message {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if is_secret_name(name) && !text.is_empty() => {
                        MASK.clone_into(text);
                    }
                    value => redact(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact),
        Value::String(text) => {
            if let Some(redacted) = redacted_text(text) {
                *text = redacted;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the text without the secrets in it; `None` if it is neither a URL nor JSON, or has none.
fn redacted_text(text: &str) -> Option<String> {
    if text.trim_start().starts_with(['{', '[']) {
        let before: Value = serde_json::from_str(text).ok()?;
        let mut after = before.clone();
        redact(&mut after);
        return (after != before).then(|| after.to_string());
    }
    let schemes = ["http://", "https://", "ws://", "wss://"];
    if !schemes.iter().any(|scheme| text.starts_with(scheme)) {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let has_secret = url.password().is_some() || url.query_pairs().any(|(n, _)| is_secret_name(&n));
    has_secret.then(|| shown(&url))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_secrets_are_recognised_in_every_spelling() {
        for name in [
            "token",
            "api_key",
            "API-Key",
            "adminToken",
            "Authorization",
            "Set-Cookie",
            "pass-phrase",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["max_tokens", "token_lifetime", "tokens", "key", "bearer_file", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a_url_is_shown_without_possible_keys() {
        for (url, expected) in [
            ("https://me:sk-1@a/mcp?key=sk-2&sk-3", "https://me:***@a/mcp?key=***&***"),
            ("http://a:1/b", "http://a:1/b"),
        ] {
            assert_eq!(shown(&Url::parse(url).unwrap()), expected);
        }
    }

    #[test]
    fn a_message_loses_its_secrets_and_nothing_else() {
        let mut message = json!({
            "type": "mcp",
            "vision": {"url": "http://v/explain?token=sk-1", "token": "sk-2"},
            "headers": [{"authorization": "Bearer sk-3"}],
            "text": "{\"password\": \"sk-4\", \"n\": 1}",
            "say": "https://h/song?id=7", "empty_token": "", "id_token": 5,
        });
        redact(&mut message);
        assert_eq!(
            message,
            json!({
                "type": "mcp",
                "vision": {"url": "http://v/explain?token=***", "token": "***"},
                "headers": [{"authorization": "***"}],
                "text": "{\"n\":1,\"password\":\"***\"}",
                "say": "https://h/song?id=7", "empty_token": "", "id_token": 5,
            })
        );
    }
}
