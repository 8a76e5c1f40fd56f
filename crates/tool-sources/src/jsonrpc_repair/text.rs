//! Text of a tool server: the JSON values in it, also after log output and several per line, and
//! the id in unreadable text. Not for the meaning of the values. Pure.

use hearken_proto::json::{mended, weighed_within, weight_of_text};
use serde_json::Value;

use super::MAX_BATCH;

/// Maximum number of places at which objects are searched for after other text: each may be parsed
/// to its end.
const MAX_GAPS: usize = 8;

/// Values found in a text.
pub(super) struct Found {
    pub(super) values: Vec<Value>,
    /// True if the text contains nothing else.
    pub(super) is_all: bool,
}

/// Returns the values of a text; none if it has none. Values after other text are weighed
/// separately: the weight of the whole text may have counted them as a string.
pub(super) fn values(text: &str, max_weight: usize) -> Option<Found> {
    // A mended text may weigh more than the text.
    let whole = |text: &str| -> Option<Value> { weighed_within(text, max_weight).ok() };
    let alone = |value: Value| Found { values: vec![value], is_all: true };
    if let Some(value) = whole(text) {
        return Some(alone(value));
    }
    let mended = mended(text);
    if let Some(value) = mended.as_deref().and_then(whole) {
        return Some(alone(value));
    }
    let found = |text: &str| Some(objects(text, max_weight)).filter(|f| !f.values.is_empty());
    found(text).or_else(|| found(&mended?))
}

/// Returns the objects in a text, with any text before and between them.
fn objects(text: &str, max_weight: usize) -> Found {
    let mut found = Found { values: Vec::new(), is_all: true };
    let mut gaps = 0;
    let mut at = 0;
    let mut is_weighed = false;
    while found.values.len() < MAX_BATCH {
        let rest = text.get(at..).unwrap_or_default();
        let Some(start) = object_start(rest) else {
            found.is_all &= rest.trim().is_empty();
            break;
        };
        let (between, rest) = rest.split_at(start);
        at += start;
        if !is_weighed || !between.trim().is_empty() {
            found.is_all &= between.trim().is_empty();
            gaps += 1;
            if gaps > MAX_GAPS || weight_of_text(rest.as_bytes(), max_weight).is_err() {
                found.is_all = false;
                break;
            }
            is_weighed = true;
        }
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        if let Some(Ok(value)) = values.next() {
            at += values.byte_offset();
            found.values.push(value);
        } else {
            found.is_all = false;
            is_weighed = false;
            at += 1;
        }
    }
    found
}

/// Returns the position of the first brace that a field name may follow.
fn object_start(text: &str) -> Option<usize> {
    let mut braces = text.match_indices('{').map(|(at, _)| at);
    braces.find(|at| text[at + 1..].trim_start().starts_with('"'))
}

/// Returns the digits of the id among the outermost fields of an unreadable text; none if they
/// include a method.
pub(super) fn outer_id(text: &str) -> Option<Value> {
    let bytes = text.as_bytes();
    let mut at = text.find('{')?;
    let mut depth = 0_usize;
    let mut id = None;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = string_end(bytes, at) else { break };
                if depth == 1
                    && let Some(value) = text.get(end + 1..).and_then(field_value)
                {
                    match text.get(at + 1..end) {
                        Some("method") => return None,
                        Some("id") => id = id.or_else(|| digits(value)),
                        _ => {}
                    }
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    id.map(Value::String)
}

/// Returns the position of the quote that ends the string starting at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut is_escaped = false;
    let inner = bytes.get(start + 1..)?;
    let length = inner.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(start + 1 + length)
}

/// Returns the text after the colon of a field.
fn field_value(rest: &str) -> Option<&str> {
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

/// Returns the digits at the start of a value.
fn digits(value: &str) -> Option<String> {
    let value = value.strip_prefix('"').unwrap_or(value);
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value.get(..end).filter(|digits| !digits.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> Option<(Vec<Value>, bool)> {
        values(text, 1 << 20).map(|found| (found.values, found.is_all))
    }

    #[test]
    fn values_are_found_after_and_between_other_text() {
        let one = json!({"id": 1});
        for (text, count, is_all) in [
            (r#"{"id":1}"#, 1, true),
            (r#"{"id":1}{"id":1}"#, 2, true),
            ("{\"id\":1}\n{ \"id\":1}\n", 2, true),
            (r#"calling tool... {"id":1}"#, 1, false),
            ("\u{1b}[32m{\"id\":1}\u{1b}[0m", 1, false),
            ("{\"id\":1}\0", 1, false),
            (r#"{a} {"x {"id":1} it's 5" {"id":1}"#, 2, false),
            ("data: {\"id\":1}\n\ndata: {\"id\":1}\n\n", 2, false),
        ] {
            assert_eq!(found(text), Some((vec![one.clone(); count], is_all)), "{text}");
        }
        for text in ["", "x", "{", "{x}", "{not json} 5", r#"{"id":"#, r#"{"a" {"b" {"#] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn nearly_valid_json_is_repaired() {
        for (text, value) in [
            (r#"{"a":"x\ud83d"}"#, json!({"a": "x\u{fffd}"})),
            (r#"{"a":NaN}"#, json!({"a": null})),
            ("{\"a\":\"x\ty\"}", json!({"a": "x\ty"})),
        ] {
            assert_eq!(found(text), Some((vec![value.clone()], true)), "{text}");
            assert_eq!(found(&format!("INFO {text}")), Some((vec![value], false)), "{text}");
        }
    }

    #[test]
    fn objects_after_other_text_are_weighed_separately() {
        let list = format!(r#"{{"a":[{}]}}"#, vec!["1"; 9_000].join(","));
        assert!(values(&list, 1 << 20).is_some());
        assert!(values(&format!("\" {list}"), 1 << 20).is_some());
        assert!(values(&format!("\" {list}"), 1 << 16).is_none());
    }

    #[test]
    fn the_id_of_unreadable_text_is_found() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":3,"result":{"content":["#, Some("3")),
            (r#"{"id": "3", "result": x}"#, Some("3")),
            (r#"{"result":{"id":4,"a":x},"id":3.0}"#, Some("3")),
            (r#"calling {"id":3,"result":"x"#, Some("3")),
            (r#"{"id":3,"method":"ping","#, None),
            (r#"{"method":"ping","id":3,"#, None),
            (r#"{"result":{"id":3"#, None),
            (r#"{"id":null,"#, None),
            (r#"{"a":"\"id\":3"#, None),
            (r#"["id",3"#, None),
            ("", None),
        ] {
            assert_eq!(outer_id(text), id.map(Value::from), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "(\\PC|[{}\\[\\]\":,\\\\id1 \n]){0,60}") {
            values(&text, 1 << 10);
            outer_id(&text);
        }
    }
}
