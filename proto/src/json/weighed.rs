//! Parses JSON of peers and external services only after it was weighed. Not for messages of one
//! object in the server's own protocols: see [`super::read`].

use serde::de::DeserializeOwned;

use super::{MAX_WEIGHT, TooHeavy, weight_of_text};

/// Maximum memory of a parsed message of a speech service, whose texts may have megabytes.
pub const MAX_SPEECH_WEIGHT: usize = 16 << 20;

/// Reason that a text was not parsed.
#[derive(Debug, thiserror::Error)]
pub enum NotParsed {
    /// The text takes too much memory when parsed. It was not parsed.
    #[error("it {0}")]
    TooHeavy(#[from] TooHeavy),
    /// The text is not JSON, or not of the expected type.
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
}

/// Parses a text that takes at most [`MAX_WEIGHT`] bytes of memory when parsed.
///
/// # Errors
/// Returns an error for a text that is too heavy, not JSON, or not a `T`.
pub fn weighed<T: DeserializeOwned>(text: impl AsRef<[u8]>) -> Result<T, NotParsed> {
    weighed_within(text, MAX_WEIGHT)
}

/// Parses a text that takes at most `max` bytes of memory when parsed.
///
/// # Errors
/// Returns an error for a text that is too heavy, not JSON, or not a `T`.
pub fn weighed_within<T: DeserializeOwned>(
    text: impl AsRef<[u8]>,
    max: usize,
) -> Result<T, NotParsed> {
    let text = text.as_ref();
    weight_of_text(text, max)?;
    Ok(serde_json::from_slice(text)?)
}

/// Parses the value at the beginning of a text; the whole text takes at most [`MAX_WEIGHT`] bytes
/// of memory when parsed. Text after the value is ignored.
///
/// # Errors
/// Returns an error for a text that is too heavy, or does not begin with a `T`.
pub fn weighed_first<T: DeserializeOwned>(text: &str) -> Result<Option<T>, NotParsed> {
    weight_of_text(text.as_bytes(), MAX_WEIGHT)?;
    Ok(serde_json::Deserializer::from_str(text).into_iter().next().transpose()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::json::tests::any_json;

    /// Texts whose parsed values take many times their length.
    fn heavy() -> impl Iterator<Item = String> {
        ["[]", "{}", r#"{"a":0}"#, "0", "null", r#""""#, "[[[]]]", r#"{"a":{"b":[1]}}"#]
            .into_iter()
            .map(|piece| format!("[{}]", vec![piece; MAX_WEIGHT / 64 + 1].join(",")))
    }

    #[test]
    fn a_heavy_text_is_refused_before_it_is_parsed() {
        for text in heavy() {
            let start: String = text.chars().take(20).collect();
            let refused = |error: NotParsed| {
                assert!(matches!(error, NotParsed::TooHeavy(_)), "{start}: {error}");
                assert!(error.to_string().contains("4096 KiB"), "{error}");
            };
            refused(weighed::<Value>(&text).unwrap_err());
            refused(weighed_first::<Value>(&text).unwrap_err());
            // A text that is cut off is too heavy, too, rather than not JSON.
            refused(weighed::<Value>(&text[..text.len() - 1]).unwrap_err());
        }
    }

    proptest! {
        #[test]
        fn other_texts_are_parsed_as_before(value in any_json(), behind in "[ ]}]{0,2}") {
            let text = value.to_string();
            prop_assert_eq!(&weighed::<Value>(&text).unwrap(), &value);
            let found = weighed_first::<Value>(&format!("{text} {behind}")).unwrap();
            prop_assert_eq!(found, Some(value));
        }
    }
}
