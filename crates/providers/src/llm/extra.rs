//! Vendor-specific request fields from the settings, such as `enable_thinking`. Not for fields that
//! the server itself sets.

use hearken_outbound::SettingError;
use serde_json::Value;
use toml::Table;

/// Fields of either API that the server itself sets.
const OWN: [&str; 14] = [
    "messages",
    "model",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "system",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "n",
    "functions",
    "function_call",
    "prompt",
];

/// Maximum size of the JSON of all these fields, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// Checks the fields of the section that `key` names.
///
/// # Errors
/// A field is one that the server itself sets, or the fields are too long.
pub(crate) fn check(key: &'static str, extra: &Table) -> Result<(), SettingError> {
    if let Some(own) = extra.keys().find(|name| OWN.contains(&name.as_str())) {
        let allowed = "fields that the server does not set itself";
        return Err(SettingError::value(key, own, allowed));
    }
    let bytes = serde_json::to_string(extra).map_or(usize::MAX, |text| text.len());
    if bytes > MAX_BYTES {
        let value = format!("{bytes} bytes");
        return Err(SettingError::value(key, value, "at most 16384 bytes of JSON"));
    }
    Ok(())
}

/// Adds these fields to a request.
pub(crate) fn add(order: &mut Value, extra: &Table) {
    let extra = serde_json::to_value(extra).unwrap_or_default();
    if let (Some(order), Value::Object(extra)) = (order.as_object_mut(), extra) {
        order.extend(extra);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_the_server_sets_are_refused() {
        let extra = |text: &str| toml::from_str::<Table>(text).unwrap();
        let told = |text: &str| check("llm.extra", &extra(text)).err().map(|e| e.to_string());
        assert_eq!(told("enable_thinking = false"), None);
        for own in OWN {
            let told = told(&format!("{own} = 1")).unwrap();
            assert!(told.starts_with(&format!("`llm.extra` is `{own}`: use fields")), "{told}");
        }
        assert!(told(&format!("x = '{}'", "y".repeat(20_000))).unwrap().contains("16384"));
        let mut order = json!({ "model": "m" });
        add(&mut order, &extra("top_p = 0.9\nchat_template_kwargs.enable_thinking = false"));
        let expected = json!({ "model": "m", "top_p": 0.9,
            "chat_template_kwargs": { "enable_thinking": false } });
        assert_eq!(order, expected);
    }
}
