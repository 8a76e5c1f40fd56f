//! Arguments of calls whose values are secret by their names: a question does not say them, and the
//! list of pending confirmations masks them. Not for secrets in settings and messages, see
//! [`hearken_base::redaction`], whose names count here, too.

use hearken_base::redaction::{MASK, is_secret_name, redact};
use serde_json::Value;

use super::parsed_arguments::parsed_arguments;
use super::risk::spaced;

/// Last words of keys with secret numbers. Numbers of other keys are amounts, or pins of a board.
const SECRET_NUMBERS: [&str; 4] = ["passcode", "passcodes", "password", "passwords"];

/// Reports whether the value of an argument is secret. Only the last word of the key counts: a
/// `token_recipient` is a person. A number of `tokens` is an amount, also as a text.
pub(super) fn is_secret(key: &str, value: &Value) -> bool {
    let spaced = spaced(key);
    let last = spaced.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    let last = last.unwrap_or_default();
    match value {
        Value::String(text) if text.is_empty() => false,
        Value::String(text) => {
            let is_token = last == "tokens" && text.trim().parse::<f64>().is_err();
            is_secret_name(key) || is_token || matches!(last, "pin" | "pins" | "secrets")
        }
        Value::Number(_) => SECRET_NUMBERS.contains(&last),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Returns the arguments of a call with their secrets masked, for others than the person who is
/// asked; unchanged if there are none.
pub(super) fn masked(arguments: &str) -> String {
    let Ok(fields) = parsed_arguments(arguments) else {
        // JSON that cannot be parsed could hide a secret.
        return MASK.to_owned();
    };
    let before = Value::Object(fields);
    let mut after = before.clone();
    redact(&mut after);
    mask("", &mut after);
    if after == before { arguments.to_owned() } else { after.to_string() }
}

/// Masks a value if it is secret, and the secrets within it. The values of a list have its key.
fn mask(key: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| mask(key, value)),
        Value::Array(values) => values.iter_mut().for_each(|value| mask(key, value)),
        value if is_secret(key, value) => *value = MASK.into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_secret_by_the_last_word_of_their_key() {
        for (key, value) in [
            ("token", json!("a1")),
            ("token", json!("123456")),
            ("apiToken", json!("a1")),
            ("access_tokens", json!("a1")),
            ("client-secret", json!("a1")),
            ("api_key", json!("a1")),
            ("passwords", json!("a1")),
            ("passphrase", json!("a1")),
            ("login_credentials", json!("a1")),
            ("passcode", json!(1234)),
            ("wifi password", json!(1234)),
            ("userPIN", json!("0412")),
        ] {
            assert!(is_secret(key, &value), "{key} {value}");
        }
        for (key, value) in [
            ("secretary", json!("Ann")),
            ("token_recipient", json!("Eve")),
            ("tokenAmount", json!("5000")),
            ("tokens", json!("5000")),
            ("tokens", json!(" 0.5 ")),
            ("tokens", json!(5000)),
            ("token", json!(5)),
            ("pin", json!(13)),
            ("pin_mode", json!("output")),
            ("spin", json!("fast")),
            ("password", json!("")),
            ("password", json!(true)),
            ("password_reset", json!("Eve")),
            ("", json!("a1")),
        ] {
            assert!(!is_secret(key, &value), "{key} {value}");
        }
    }

    #[test]
    fn only_the_secrets_of_arguments_are_masked() {
        for (arguments, shown) in [
            (r#"{"password": "hush"}"#, r#"{"password":"***"}"#),
            (r#"{"passcode": 1234}"#, r#"{"passcode":"***"}"#),
            (r#"{"passwords": ["a", "b"]}"#, r#"{"passwords":["***","***"]}"#),
            (r#"{"of": [{"pin": "0412", "to": "Ann"}]}"#, r#"{"of":[{"pin":"***","to":"Ann"}]}"#),
            (r#"{"body": "{\"token\": \"a1\"}"}"#, r#"{"body":"{\"token\":\"***\"}"}"#),
            (r#""{\"token\": \"a1\"}""#, r#"{"token":"***"}"#),
            (r#"{"password": "hush""#, "***"),
            (
                r#"{ "token_recipient": "Eve", "tokens": "5" }"#,
                r#"{ "token_recipient": "Eve", "tokens": "5" }"#,
            ),
            ("", ""),
        ] {
            assert_eq!(masked(arguments), shown, "{arguments}");
        }
    }
}
