//! Messages of text clients to the text gateway: any input is read or refused, values are within
//! their bounds, and only streaming clients may cancel.

use hearken_proto::text_gateway::{
    ClientMessage, Configure, MAX_TOKENS, MAX_TOOL_NAME_CHARS, ReadError, is_tool_name,
};
use hearken_proto::json;
use serde_json::Value;

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let read = ClientMessage::decode(text, true);
    let without = ClientMessage::decode(text, false);
    match &read {
        Ok(ClientMessage::Cancel) => assert_eq!(without, Err(ReadError::Unknown("cancel".into()))),
        _ => assert_eq!(read, without, "streaming changes nothing but `cancel`"),
    }
    // Independent of whitespace and of a byte order mark.
    if let Ok(value) = json::object(text.trim().as_bytes()).map(Value::Object) {
        assert_eq!(read, ClientMessage::decode(&value.to_string(), true), "{value}");
    }
    match read {
        Ok(ClientMessage::TextInput { text, .. }) => assert!(!text.trim().is_empty()),
        Ok(ClientMessage::Configure(Configure { temperature, max_tokens, .. })) => {
            assert!(temperature.is_none_or(|t| (0.0..=1.0).contains(&t)));
            assert!(max_tokens.is_none_or(|n| (1..=MAX_TOKENS).contains(&n)));
        }
        Ok(ClientMessage::RegisterTools { tools }) => {
            for tool in tools {
                match tool {
                    Ok(tool) => assert!(is_tool_name(&tool.name) && tool.parameters.is_object()),
                    Err(refusal) => {
                        assert!(refusal.name.chars().count() <= 2 * MAX_TOOL_NAME_CHARS);
                        assert!(!refusal.error.is_empty());
                    }
                }
            }
        }
        Err(ReadError::Unknown(kind)) => assert!(kind.chars().count() <= 64),
        _ => {}
    }
}
