//! JSON Schemas of strangers, with arguments: an input has the arguments on its first line and then
//! the schema. Any input is compiled or refused within the limits of time and memory, a validation
//! always has the same result, and its message is bounded.

use hearken_dialogue::tools::schema::Schema;
use hearken_ports::ToolError;
use hearken_proto::json::weight;
use serde_json::{Map, Value};

/// Maximum length of the message about invalid arguments, in characters: three errors of up to 300 each.
const MAX_CHARS: usize = 3 * 300 + 4;

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let arguments: Map<String, Value> = serde_json::from_slice(&bytes[..end]).unwrap_or_default();
    let Ok(parameters) = serde_json::from_slice::<Value>(&bytes[end..]) else { return };
    assert!(weight(&parameters) >= 64, "every value takes memory");
    let compiled = match Schema::of_object(&parameters) {
        Ok(compiled) => compiled,
        Err(refusal) => {
            assert!(!refusal.is_empty() && refusal.chars().count() < 400, "{refusal}");
            // The tool's own server may declare any schema; the tool then validates its arguments itself.
            Schema::of_server_tool(&parameters)
        }
    };
    let checked = compiled.check(&parameters, &arguments);
    match &checked {
        Ok(()) => {}
        Err(ToolError::Arguments(mistakes)) => {
            assert!(!mistakes.is_empty() && mistakes.chars().count() <= MAX_CHARS, "{mistakes}");
        }
        Err(other) => panic!("{other}"),
    }
    let again = Schema::of_server_tool(&parameters).check(&parameters, &arguments);
    assert_eq!(again, checked);
}
