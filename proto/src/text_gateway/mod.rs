//! Messages of the text gateway in both directions, and the rules for names of client tools. Not for
//! the time of sending, nor for sessions.
//!
//! Decoding is lenient where existing clients need it. Encoding writes every field that the
//! document names, as a string where it says that: a client in C crashes on a missing field.

mod client;
mod server;

pub use client::{ClientMessage, Configure, ReadError, RegisteredTool, ToolRefusal, ToolResult};
pub use server::{CallShown, ErrorCode, Registration, ServerMessage, Status};

/// Maximum length of a client tool's name, in characters.
pub const MAX_TOOL_NAME_CHARS: usize = 64;

/// Maximum length of the instructions of one session or device, in characters.
pub const MAX_SYSTEM_PROMPT_CHARS: usize = 8_000;

/// Maximum length of a text to answer, in characters.
pub const MAX_TEXT_CHARS: usize = 16_384;

/// Maximum length of an answer that a client may request, in tokens.
pub const MAX_TOKENS: u32 = 2_048;

/// Returns true if a client's tool may have this name: a letter or underscore, then letters,
/// digits, underscores and dots; no dot at the end, nor two in a row; at most 64 characters.
pub fn is_tool_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let goes_on = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    let dots = name.ends_with('.') || name.contains("..");
    begins && goes_on && !dots && name.len() <= MAX_TOOL_NAME_CHARS
}

#[cfg(test)]
mod tests {
    use super::is_tool_name;

    #[test]
    fn names_of_tools_follow_the_rules() {
        let longest = "a".repeat(64);
        for good in [
            "get_battery",
            "device.light.turn_on",
            "weather.get_current",
            "sensor.temperature.read",
            "_x",
            "A1",
            "a._b",
            &longest,
        ] {
            assert!(is_tool_name(good), "{good}");
        }
        let too_long = "a".repeat(65);
        for bad in
            ["", "1tool", "tool.", "tool..name", ".tool", "a-b", "a b", "电量", "a/b", &too_long]
        {
            assert!(!is_tool_name(bad), "{bad}");
        }
    }
}
