//! Memory that parsed JSON takes, estimated from its text before parsing, and from parsed values.
//! Not for limits of stored data: see `hearken_base::memory_pool`.

use serde_json::Value;

/// Maximum memory of a value in addition to its text, in bytes: arrays double as they grow, and
/// start with capacity for four.
const VALUE_BYTES: usize = 64;
const ARRAY_BYTES: usize = 64;
/// Memory of an object with a field, and of each field in addition to its name and value, in bytes:
/// a node of the field tree has capacity for eleven, and at least five are used if there are more.
const OBJECT_BYTES: usize = 640;
const FIELD_BYTES: usize = 160;

/// Maximum weight of a message or body from a peer, in bytes of memory when parsed. A text of 1 MiB
/// takes little more than 1 MiB, but as a list of objects 126 times that.
pub const MAX_WEIGHT: usize = 4 << 20;
/// Length of a text, in bytes, at or above which it is parsed off the worker threads.
pub const LONG_TEXT: usize = 32 << 10;

/// Error: when parsed, a text takes more memory than its sender may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("takes more than {} KiB of memory when parsed: send fewer values", .max / 1_024)]
pub struct TooHeavy {
    /// The limit, in bytes.
    pub max: usize,
}

/// Returns the maximum memory of a value, in bytes.
pub fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        // The text of a number, which doubles while it is read.
        Value::Number(number) => 2 * number.as_str().len(),
        Value::Array(items) if items.is_empty() => 0,
        Value::Array(items) => ARRAY_BYTES + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) if fields.is_empty() => 0,
        Value::Object(fields) => {
            let field = |(name, field): (&String, _)| FIELD_BYTES + name.len() + weight(field);
            OBJECT_BYTES + fields.iter().map(field).sum::<usize>()
        }
        _ => 0,
    };
    VALUE_BYTES + inner
}

/// Estimates the memory that JSON takes when parsed: never less than [`weight`] of its value. The
/// text need not be valid. Stops reading once `max` is exceeded.
///
/// # Errors
/// The memory is more than `max` bytes.
pub fn weight_of_text(text: &[u8], max: usize) -> Result<usize, TooHeavy> {
    let mut total = 0_usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        let token = match byte {
            b'"' => string_bytes(rest),
            b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => word_bytes(rest),
            _ => 1,
        };
        total += match byte {
            b'"' => VALUE_BYTES + token,
            // An exponent gets a sign while it is read.
            b'-' | b'0'..=b'9' => VALUE_BYTES + 2 * (token + 1),
            // The preceding name was counted as a value.
            b':' => FIELD_BYTES - VALUE_BYTES,
            b'{' => VALUE_BYTES + if is_empty(rest, b'}') { 0 } else { OBJECT_BYTES },
            b'[' => VALUE_BYTES + if is_empty(rest, b']') { 0 } else { ARRAY_BYTES },
            b'a'..=b'z' | b'A'..=b'Z' => VALUE_BYTES,
            _ => 0,
        };
        if total > max {
            return Err(TooHeavy { max });
        }
        at += token;
    }
    Ok(total)
}

/// Returns the length of the string at the start of the text, with its quotes.
fn string_bytes(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// Returns the length of the number or literal at the start of the text.
fn word_bytes(text: &[u8]) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

/// Returns true if only blanks are between the first byte and `close`.
fn is_empty(text: &[u8], close: u8) -> bool {
    text.iter().skip(1).find(|byte| !byte.is_ascii_whitespace()) == Some(&close)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::json::tests::any_json;

    #[test]
    fn many_small_values_are_weighed_fully() {
        for (piece, times) in [(r#"{"a":0}"#, 100), ("[]", 20), ("1e9", 15), (r#""""#, 20)] {
            let text = format!("[{}]", vec![piece; 8_192].join(","));
            let estimated = weight_of_text(text.as_bytes(), usize::MAX).unwrap();
            assert!(estimated > times * text.len(), "{piece}: {estimated} for {}", text.len());
            assert_eq!(
                weight_of_text(text.as_bytes(), MAX_WEIGHT / 16),
                Err(TooHeavy { max: MAX_WEIGHT / 16 })
            );
        }
        let words = json!({"text": "x".repeat(1 << 20)}).to_string();
        assert!(weight_of_text(words.as_bytes(), MAX_WEIGHT).unwrap() < words.len() + 2_048);
    }

    proptest! {
        #[test]
        fn text_weighs_at_least_its_value_and_little_more(value in any_json()) {
            let text = value.to_string();
            let estimated = weight_of_text(text.as_bytes(), usize::MAX).unwrap();
            let weighs = weight(&value);
            prop_assert!(estimated >= weighs, "{estimated} < {weighs}: {text}");
            // Only quotes and escapes are counted in excess.
            prop_assert!(estimated <= weighs + 2 * text.len(), "{estimated} > {weighs}: {text}");
            prop_assert!(weight_of_text(text.as_bytes(), estimated).is_ok());
            prop_assert!(weight_of_text(text.as_bytes(), estimated - 1).is_err());
        }

        #[test]
        fn any_bytes_have_a_weight(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            weight_of_text(&bytes, usize::MAX).unwrap();
        }
    }
}
