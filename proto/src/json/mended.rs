//! Repairs text that programs write as JSON although it is not valid: escaped halves of surrogate
//! pairs (from texts that were cut between them), NaN and Infinity, and unescaped control
//! characters. Not for text that is not JSON at all.

/// First and last code of the first and of the second half of a surrogate pair in UTF-16.
const FIRST_HALF: std::ops::RangeInclusive<u32> = 0xD800..=0xDBFF;
const SECOND_HALF: std::ops::RangeInclusive<u32> = 0xDC00..=0xDFFF;
/// Numbers that JSON does not have.
const NO_NUMBERS: [&str; 4] = ["-Infinity", "Infinity", "-NaN", "NaN"];

/// Returns the text with these faults repaired: half a surrogate pair becomes U+FFFD, NaN and
/// Infinity become null, and a control character its escape. `None` if it has none of them.
pub fn mended(text: &str) -> Option<String> {
    let mut mended = String::new();
    // Start of the text that is not copied yet.
    let mut from = 0;
    let mut is_string = false;
    let mut at = 0;
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let (length, instead) = match byte {
            b'"' => {
                is_string = !is_string;
                (1, None)
            }
            b'\\' if is_string => escape(rest),
            0..0x20 if is_string => (1, Some(format!("\\u{byte:04x}"))),
            b'-' | b'I' | b'N' if !is_string => {
                let word = NO_NUMBERS.iter().find(|word| rest.starts_with(**word));
                word.map_or((1, None), |word| (word.len(), Some("null".to_owned())))
            }
            _ => (1, None),
        };
        if let Some(instead) = instead {
            mended.push_str(text.get(from..at).unwrap_or_default());
            mended.push_str(&instead);
            from = at + length;
        }
        at += length;
    }
    if from == 0 {
        return None;
    }
    mended.push_str(text.get(from..).unwrap_or_default());
    Some(mended)
}

/// Returns the length of the escape at the start of a text, and its replacement, if it needs one.
fn escape(rest: &str) -> (usize, Option<String>) {
    let Some(code) = escaped_code(rest) else { return (2, None) };
    let is_pair =
        || rest.get(6..).and_then(escaped_code).is_some_and(|second| SECOND_HALF.contains(&second));
    if FIRST_HALF.contains(&code) && is_pair() {
        (12, None)
    } else if FIRST_HALF.contains(&code) || SECOND_HALF.contains(&code) {
        (6, Some("\\ufffd".to_owned()))
    } else {
        (6, None)
    }
}

/// Returns the code of an escape of four digits at the start of a text.
pub fn escaped_code(rest: &str) -> Option<u32> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn invalid_json_of_programs_is_repaired() {
        for (text, value) in [
            (r#"{"a":"x\ud83d"}"#, json!({"a": "x\u{fffd}"})),
            (r#"{"a":"\ude00x"}"#, json!({"a": "\u{fffd}x"})),
            (r#"["\ud83d\ud83d\ude00"]"#, json!(["\u{fffd}😀"])),
            (r#"["\ud83dé"]"#, json!(["\u{fffd}é"])),
            (
                r#"{"a":NaN,"b":-Infinity,"c":[Infinity]}"#,
                json!({"a": null, "b": null, "c": [null]}),
            ),
            ("[\"a\tb\nc\u{0}\"]", json!(["a\tb\nc\u{0}"])),
            ("{\"NaN\": \"-Infinity\n\"}", json!({"NaN": "-Infinity\n"})),
        ] {
            let mended = mended(text).unwrap_or_else(|| panic!("{text} is repaired"));
            assert_eq!(serde_json::from_str::<Value>(&mended).ok(), Some(value), "{mended}");
        }
    }

    #[test]
    fn valid_json_and_other_text_stay_unchanged() {
        for text in [
            r#"{"a":"😀 \ud83d\ude00 \" \\u \\ud83d NaN","b":-1,"c":"é"}"#,
            "",
            "Not JSON",
            r#"{"a":"#,
            r#"{"a":"\"#,
            r#"{"a":"\u12"#,
        ] {
            assert_eq!(mended(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_handled_and_json_stays_unchanged(text in any::<String>(), parts in proptest::collection::vec(r#"[\\"u0-9a-fN-]{0,6}|NaN|\PC"#, 0..20)) {
            prop_assert_eq!(mended(&serde_json::to_string(&text).unwrap()), None);
            for text in [text, parts.concat()] {
                if let Some(once) = mended(&text) {
                    prop_assert_eq!(mended(&once), None);
                }
            }
        }
    }
}
