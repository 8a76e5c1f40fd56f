//! Parser of the JSON of an answer's events. It accepts characters that a server split in two, and
//! values that JSON does not have. Not for the meaning of an event.
//!
//! - Half a character at the end of a text is joined with the other half at the beginning of a text
//!   in the next event. An unmatched half is dropped.
//! - Input that is not JSON is skipped: servers send various words to keep a connection open, and
//!   one line must not lose the answer.

use hearken_ports::ProviderError;
use hearken_proto::json::{NotParsed, escaped_code, mended, weighed};
use serde_json::Value;

use super::base::violated;

/// Length of an escaped half: `\ud83d`.
const HALF_BYTES: usize = 6;

/// Events of one answer.
#[derive(Default)]
pub(super) struct EventJson {
    /// Escaped first half of a character, from the end of a text in the last event.
    half: Option<String>,
    has_read: bool,
    has_passed_over: bool,
}

/// Half of a character in UTF-16.
#[derive(Debug, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

impl EventJson {
    /// Returns the next event; none if it is not JSON.
    pub(super) fn read(&mut self, event: &str) -> Option<Value> {
        let half = self.half.take();
        let value = match weighed(event) {
            Ok(value) => Some(value),
            Err(NotParsed::TooHeavy(error)) => {
                tracing::warn!(%error, bytes = event.len(), "skipped an event of a model");
                None
            }
            Err(NotParsed::NotJson(_)) => self.mend(event, half),
        };
        match &value {
            Some(value) => self.has_read |= value.is_object() || value.is_array(),
            None => {
                // The event's text may repeat the user's words.
                tracing::debug!(bytes = event.len(), "skipped an event that is not JSON");
                self.has_passed_over = true;
            }
        }
        value
    }

    /// Returns an error if events arrived and none could be read.
    pub(super) fn unreadable(&self, provider: &'static str) -> Option<ProviderError> {
        let is_unreadable = self.has_passed_over && !self.has_read;
        is_unreadable.then(|| violated(provider, "the answer is not JSON"))
    }

    fn mend(&mut self, event: &str, half: Option<String>) -> Option<Value> {
        let joined = self.joined(event, half);
        let read = weighed(&joined).ok();
        read.or_else(|| weighed(mended(&joined)?).ok())
    }

    /// Returns an event without halves of characters. `half` is the one at the end of the last
    /// event.
    fn joined(&mut self, event: &str, mut half: Option<String>) -> String {
        let mut joined = String::with_capacity(event.len() + HALF_BYTES);
        let mut rest = event;
        while let Some(at) = rest.find('\\') {
            let (ahead, escape) = rest.split_at(at);
            joined.push_str(ahead);
            let Some(found) = half_of(escape) else {
                // The character after a backslash does not start another escape.
                let end = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
                let (known, behind) = escape.split_at(end);
                joined.push_str(known);
                rest = behind;
                continue;
            };
            let (written, behind) = escape.split_at(HALF_BYTES);
            rest = behind;
            match found {
                Half::First if half_of(behind) == Some(Half::Second) => {
                    let (second, behind) = behind.split_at(HALF_BYTES);
                    joined.push_str(written);
                    joined.push_str(second);
                    rest = behind;
                }
                Half::First if behind.starts_with('"') => self.half = Some(written.to_owned()),
                Half::Second if joined.ends_with('"') => {
                    if let Some(first) = half.take() {
                        joined.push_str(&first);
                        joined.push_str(written);
                    }
                }
                Half::First | Half::Second => {}
            }
        }
        joined.push_str(rest);
        joined
    }
}

/// Returns the half of a character at the beginning of a text, if it is escaped.
fn half_of(escape: &str) -> Option<Half> {
    match escaped_code(escape)? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns the texts of these events, each with its quotes, and `-` for skipped ones.
    fn texts(events: &[&str]) -> Vec<String> {
        let mut reader = EventJson::default();
        let text = |value: Value| value["t"].as_str().unwrap_or("?").to_owned();
        events.iter().map(|event| reader.read(event).map_or("-".to_owned(), text)).collect()
    }

    #[test]
    fn halves_of_characters_are_joined_or_dropped() {
        for (events, expected) in [
            (&[r#"{"t":"a\ud83d"}"#, r#"{"t":"\ude00b"}"#][..], &["a", "😀b"][..]),
            (&[r#"{"t":"a\uD83D"}"#, r#"{"t":"\uDE00"}"#], &["a", "😀"]),
            (&[r#"{"t":"a\ud83d"}"#, r#"{"t":"b"}"#], &["a", "b"]),
            (&[r#"{"t":"a\ud83d"}"#, r#"{"t":"b"}"#, r#"{"t":"\ude00c"}"#], &["a", "b", "c"]),
            (&[r#"{"t":"\ude00b"}"#], &["b"]),
            (&[r#"{"t":"a\ud83db"}"#, r#"{"t":"\ude00"}"#], &["ab", ""]),
            (&[r#"{"t":"\ud83d\ude00\ud83d"}"#, r#"{"t":"\ude01"}"#], &["😀", "😁"]),
            // Ordinary escapes are unchanged, and so is text about escapes.
            (&[r#"{"t":"\ud83d\ude00\n\"\\ud83d\u4f60"}"#], &["😀\n\"\\ud83d你"]),
            (&[r#"{"t":"\\\ud83d"}"#, r#"{"t":"\ude00"}"#], &["\\", "😀"]),
        ] {
            assert_eq!(texts(events), expected, "{events:?}");
        }
    }

    #[test]
    fn input_that_is_not_json_is_skipped_and_an_error_if_nothing_else_came() {
        let told = |events: &[&str]| {
            let mut reader = EventJson::default();
            for event in events {
                reader.read(event);
            }
            reader.unreadable("model").map(|error| error.to_string())
        };
        let wrong = Some("model: protocol violation: the answer is not JSON".to_owned());
        for (events, expected) in [
            (&[][..], None),
            (&["connected"][..], wrong.clone()),
            (&["connected", "1", "\"ping\"", "null"], wrong),
            (&["connected", "{}", "[PING]"], None),
            (&["{}"], None),
            (&["1"], None),
        ] {
            assert_eq!(told(events), expected, "{events:?}");
        }
        let words = ["[START]", ": PROCESSING", "keep_alive", r#"{"t":"a"}"#, r#"{"t":"#, "\\"];
        assert_eq!(texts(&words), ["-", "-", "-", "a", "-", "-"]);
    }

    proptest! {
        #[test]
        fn no_event_causes_a_panic_and_json_is_read_unchanged(text in ".{0,20}", odd in "[\\\\ud8e0\"{}a]{0,24}") {
            let mut reader = EventJson::default();
            reader.read(&odd);
            let value = json!({ "t": text });
            prop_assert_eq!(reader.read(&value.to_string()), Some(value));
        }
    }

    #[test]
    fn heavy_json_of_a_service_is_not_parsed() {
        for piece in ["[]", "{}", r#"{"a":0}"#, "0", "NaN", r#""\ud83d""#] {
            let items = vec![piece; hearken_proto::json::MAX_WEIGHT / 64].join(",");
            assert_eq!(texts(&[&format!(r#"{{"t":[{items}]}}"#), r#"{"t":"a"}"#]), ["-", "a"]);
        }
    }
}
