//! Recovers text frames that are invalid JSON because the device joined strings without escaping
//! them (78/xiaozhi-esp32, `main/protocols/protocol.cc` and `main/mcp_server.cc`): a wake word or
//! an error text that contains quotes, backslashes or control characters. Never changes a frame
//! that is valid JSON. Works in one pass. Guesses nothing except `listen`, `abort` and the answers
//! of `mcp`.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Uplink;

/// Text of the error that replaces an unreadable answer.
const UNREADABLE: &str = "the device's answer is not valid JSON";

/// Fields of `listen` and `abort`. A broken string ends early only before one of these.
const FIELDS: [&str; 6] = ["session_id", "type", "state", "mode", "text", "reason"];

/// Returns the intended message, if it is clear.
pub(super) fn recover(text: &str) -> Option<Uplink> {
    // Clients in C also send the terminating zero of the string.
    let bare = text.trim_start_matches('\u{feff}').trim_end_matches('\0');
    if bare.len() < text.len()
        && let Ok(Value::Object(object)) = serde_json::from_str(bare)
    {
        return Some(Uplink::from_object(object));
    }
    let text = bare.trim();
    let mut found = Map::new();
    let mut members = Members::from_text(text, false)?;
    while let Some((key, value)) = members.next() {
        let string = match value {
            Found::Text(raw) => unescape(raw),
            Found::Other(_) => continue,
            Found::Nested(at) => {
                let mcp = key == "payload" && found.get("type") == Some(&"mcp".into());
                return if mcp { answer(&text[at..]) } else { None };
            }
            Found::Broken(at) => {
                let (raw, after) = broken_string(text, at)?;
                members.at = after;
                unescape(raw)
            }
        };
        // The first value of a field is used: firmware writes the person's words last.
        found.entry(key).or_insert(Value::String(string));
    }
    if !members.is_done() {
        return None;
    }
    let kind = found.get("type").and_then(Value::as_str)?;
    let listen = kind == "listen" && found.contains_key("state");
    (listen || kind == "abort").then(|| Uplink::from_object(found))
}

/// Converts an unreadable answer to an error, which fails its request at once instead of after a
/// timeout. Works only if the id precedes the broken part, as firmware writes it.
fn answer(text: &str) -> Option<Uplink> {
    let mut id: Option<i64> = None;
    let mut message = UNREADABLE.to_owned();
    for (key, value) in Members::from_text(text, true)? {
        match (key, value) {
            ("id", Found::Other(number)) => id = id.or(number.parse().ok()),
            ("method", _) => return None,
            ("error", Found::Nested(at)) => {
                message = error_message(&text[at..]).unwrap_or(message);
                break;
            }
            (_, Found::Nested(_) | Found::Broken(_)) => break,
            _ => {}
        }
    }
    let payload = json!({"jsonrpc": "2.0", "id": id?, "error": {"message": message}});
    Some(Uplink::Mcp { payload })
}

/// Returns an error response in place of an answer of `mcp` that takes too much memory to be
/// parsed. `None` for any other frame.
pub(super) fn unread(text: &str, why: &str) -> Option<Value> {
    /// The fields that are read.
    #[derive(Deserialize)]
    struct Frame {
        payload: Payload,
    }
    #[derive(Deserialize)]
    struct Payload {
        id: i64,
        method: Option<IgnoredAny>,
    }
    let Frame { payload: Payload { id, method } } = serde_json::from_str(text).ok()?;
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"message": why}});
    method.is_none().then_some(error)
}

fn error_message(text: &str) -> Option<String> {
    for (key, value) in Members::from_text(text, true)? {
        match (key, value) {
            ("message", Found::Text(raw)) => return Some(unescape(raw)),
            ("message", Found::Broken(at)) => {
                let closers = |c: char| c == '}' || c.is_whitespace();
                let raw = text[at..].trim_end_matches(closers).strip_suffix('"')?;
                return Some(unescape(raw));
            }
            (_, Found::Nested(_) | Found::Broken(_)) => return None,
            _ => {}
        }
    }
    None
}

/// Finds the end of a string with unescaped quotes: before the next known field, else before the
/// brace that ends the text. Returns the string and the position after it.
fn broken_string(text: &str, start: usize) -> Option<(&str, usize)> {
    for (quote, _) in text[start..].match_indices('"') {
        let after = skip_blanks(text, start + quote + 1);
        let Some(rest) = text[after..].strip_prefix(',') else { continue };
        let next = rest.trim_start();
        let known = |field: &str| {
            let key = next.strip_prefix('"').and_then(|n| n.strip_prefix(field));
            key.is_some_and(|n| n.starts_with('"'))
        };
        if FIELDS.iter().any(|field| known(field)) {
            return Some((&text[start..start + quote], text.len() - next.len()));
        }
    }
    let inner = text[start..].strip_suffix('}')?.trim_end().strip_suffix('"')?;
    Some((inner, text.len() - 1))
}

/// Returns true if a quoted name of letters, digits and `_` and a colon come next.
fn begins_member(text: &str) -> bool {
    let name = text.strip_prefix('"').unwrap_or_default();
    let end = name.bytes().take(32).position(|b| !b.is_ascii_alphanumeric() && b != b'_');
    end.is_some_and(|end| {
        end > 0 && name[end..].strip_prefix('"').is_some_and(|n| n.trim_start().starts_with(':'))
    })
}

fn skip_blanks(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start().len()
}

/// Unescapes the characters between two quotes. If any escape is not valid JSON, returns the
/// characters unchanged.
fn unescape(raw: &str) -> String {
    serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned())
}

/// Value of one member, as far as it could be read. Positions are those of the first character
/// after the opening quote, or of the opening bracket.
enum Found<'a> {
    /// String, without its quotes.
    Text(&'a str),
    /// Number or literal.
    Other(&'a str),
    /// Object or array, not read. Nothing after it is read either.
    Nested(usize),
    /// String without an end, or followed by something other than `,` or `}`.
    Broken(usize),
}

/// Iterator over the members of one object, in order, up to the first that cannot be read.
struct Members<'a> {
    text: &'a str,
    at: usize,
    /// True if the object is part of another.
    inner: bool,
}

impl<'a> Members<'a> {
    /// Returns the members of the object at the start of the text.
    fn from_text(text: &'a str, inner: bool) -> Option<Self> {
        text.starts_with('{').then_some(Self { text, at: 1, inner })
    }

    /// Returns true if only the object's end is left.
    fn is_done(&self) -> bool {
        self.text[self.at..].trim_start() == "}"
    }

    fn rest(&mut self) -> &'a str {
        self.at = skip_blanks(self.text, self.at);
        &self.text[self.at..]
    }

    /// Reads the string whose opening quote comes next.
    fn string(&mut self) -> Option<&'a str> {
        let rest = self.rest().strip_prefix('"')?;
        let mut escaped = false;
        let end = rest.bytes().position(|b| {
            let ends = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends
        })?;
        self.at += end + 2;
        Some(&rest[..end])
    }

    /// Returns true if the value ends here, and consumes the comma. After it comes another member
    /// or the object's end. For the outermost object that is the end of the text.
    fn value_ends(&mut self) -> bool {
        let rest = self.rest();
        match rest.strip_prefix(',') {
            Some(next) => {
                self.at += 1;
                begins_member(next.trim_start())
            }
            None => rest.starts_with('}') && (self.inner || rest.len() == 1),
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Found<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let begin = self.at;
        let key = self.string().filter(|_| self.rest().starts_with(':'));
        let Some(key) = key else {
            self.at = begin;
            return None;
        };
        self.at += 1;
        let rest = self.rest();
        let start = self.at;
        let found = if rest.starts_with(['{', '[']) {
            Found::Nested(start)
        } else if rest.starts_with('"') {
            match self.string() {
                Some(raw) if self.value_ends() => Found::Text(raw),
                _ => Found::Broken(start + 1),
            }
        } else {
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            self.at += end;
            self.value_ends();
            Found::Other(rest[..end].trim_end())
        };
        Some((key, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ListenMode;
    use proptest::prelude::*;

    fn detect(text: &str) -> Option<Uplink> {
        Some(Uplink::ListenDetect { text: text.into() })
    }

    fn failed(id: i64, message: &str) -> Option<Uplink> {
        let payload = json!({"jsonrpc": "2.0", "id": id, "error": {"message": message}});
        Some(Uplink::Mcp { payload })
    }

    #[test]
    fn an_unescaped_wake_word_is_recovered() {
        let said = |word: &str| {
            format!(
                "{{\"session_id\":\"s\",\"type\":\"listen\",\"state\":\"detect\",\"text\":\"{word}\"}}"
            )
        };
        for word in [
            "say \"hi\"",
            "\"",
            "\"\"",
            "a\",\"b",
            "a\"}",
            "tab\there",
            "C:\\x",
            "end\\",
            "\n",
            "{\"type\":\"abort\"}",
            "a \"b\", \"c\":\"d\" e",
            "a\",\"\":\"b",
        ] {
            assert_eq!(recover(&said(word)), detect(word), "{word}");
        }
        let more = r#"{"type":"listen","state":"detect","text":"a "b" c", "mode":"auto"}"#;
        assert_eq!(recover(more), detect("a \"b\" c"));
        let start = r#"{"session_id":"a"b","type":"listen","state":"start","mode":"manual"}"#;
        assert_eq!(recover(start), Some(Uplink::ListenStart { mode: ListenMode::Manual }));
        let abort = r#"{"type":"abort","reason":"she said "stop""}"#;
        let reason = Some("she said \"stop\"".into());
        assert_eq!(recover(abort), Some(Uplink::Abort { reason }));
    }

    #[test]
    fn a_final_zero_and_a_byte_order_mark_are_ignored() {
        assert_eq!(recover("{\"type\":\"goodbye\"}\0"), Some(Uplink::Goodbye));
        assert_eq!(recover("\u{feff}{\"type\":\"goodbye\"}"), Some(Uplink::Goodbye));
    }

    #[test]
    fn a_broken_answer_fails_its_request() {
        let answer = |rest: &str| {
            recover(&format!(
                "{{\"session_id\":\"s\",\"type\":\"mcp\",\"payload\":{{\"jsonrpc\":\"2.0\",{rest}"
            ))
        };
        let quoted = "Unknown tool: \"x\"";
        assert_eq!(
            answer(&format!("\"id\":7,\"error\":{{\"message\":\"{quoted}\"}}}}}}")),
            failed(7, quoted)
        );
        assert_eq!(answer(r#""id":7,"error":{"code":-1,"message":"a"b"}}}"#), failed(7, "a\"b"));
        assert_eq!(answer(r#""id":7,"error":{"message":"cut o"#), failed(7, UNREADABLE));
        let readable = r#""id":7,"error":{"code":"a\"b","message":"m"},"x":"c"d"}}"#;
        assert_eq!(answer(readable), failed(7, "m"));
        assert_eq!(
            answer(r#""id":7,"result":{"tools":[{"name":"a"b"}]}}}"#),
            failed(7, UNREADABLE)
        );
        assert_eq!(
            answer(&format!("\"id\":7,\"result\":{}", "[".repeat(300))),
            failed(7, UNREADABLE)
        );
        for hopeless in [
            r#""id":"7","error":{"message":"a"b"}}}"#,
            r#""error":{"message":"a"b"},"id":7}}"#,
            r#""id":7,"method":"x","params":{"a":"b"c"}}}"#,
            r#""method":"x","id":7,"params":{"a":"b"c"}}}"#,
            "",
        ] {
            assert_eq!(answer(hopeless), None, "{hopeless}");
        }
    }

    #[test]
    fn unclear_frames_are_refused() {
        for text in [
            "",
            "{",
            "hello",
            "{\"type\":\"listen\"",
            "{\"type\":\"listen\",\"state\":\"start\",\"mode\":\"au",
            "{\"type\":\"listen\",\"state\":\"start\",\"mode\":\"auto\"",
            "{\"type\":\"listen\",\"text\":\"a\"b\"}",
            "{\"type\":\"abort\"}{\"type\":\"goodbye\"}",
            "{\"type\":\"abort\",\"n\":1}}",
            "{\"type\":\"hello\",\"text\":\"a\"b\"}",
            "{\"type\":\"iot\",\"states\":[{\"name\":\"a\"b\"}]}",
            "{\"payload\":{\"id\":1,\"result\":\"a\"b\"},\"type\":\"mcp\"}",
        ] {
            assert_eq!(recover(text), None, "{text}");
        }
    }

    fn plain() -> impl Strategy<Value = String> {
        // Words that cannot be followed by a known field.
        "[a-z \"\\\\\t你{}:]{0,30}"
    }

    proptest! {
        #[test]
        fn any_wake_word_survives(word in plain()) {
            let text = format!("{{\"session_id\":\"\",\"type\":\"listen\",\"state\":\"detect\",\"text\":\"{word}\"}}");
            let read = Uplink::decode(&text);
            // If the text happens to be valid JSON, escapes have their JSON meaning.
            match serde_json::from_str::<Value>(&text) {
                Ok(value) => {
                    let said = value["text"].as_str().unwrap().to_owned();
                    prop_assert_eq!(read, Ok(Uplink::ListenDetect { text: said }));
                }
                Err(_) => prop_assert_eq!(read, Ok(Uplink::ListenDetect { text: unescape(&word) })),
            }
        }

        #[test]
        fn any_error_text_fails_the_request(id: i32, word in "[a-z \"\\\\\t你:,]{0,30}") {
            let text = format!("{{\"type\":\"mcp\",\"payload\":{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"message\":\"{word}\"}}}}}}");
            let Ok(Uplink::Mcp { payload }) = Uplink::decode(&text) else { panic!("{text}") };
            prop_assert_eq!(payload["id"].as_i64(), Some(id.into()));
            prop_assert!(payload["error"]["message"].is_string());
        }

        #[test]
        fn valid_json_is_never_touched(
            kind in "(listen|abort|mcp|hello|iot|goodbye|x)",
            text in ".{0,40}",
            id: i32,
        ) {
            let message = json!({
                "type": kind, "state": "detect", "text": text, "reason": text,
                "payload": {"id": id, "error": {"message": text}},
            });
            let Value::Object(object) = message.clone() else { unreachable!() };
            prop_assert_eq!(Uplink::decode(&message.to_string()), Ok(Uplink::from_object(object)));
        }

        #[test]
        fn nothing_panics(text in "[{}\\[\\]\":,\\\\ \0a1]{0,60}", kind in "(listen|abort|mcp)") {
            for head in ["", "{\"session_id\":\"\",\"type\":\"", "{\"type\":\"mcp\",\"payload\":{\"id\":1,"] {
                let text = format!("{head}{kind}\",\"state\":\"detect\",\"text\":\"{text}");
                let whole = format!("{text}\"}}");
                for text in [text, whole] {
                    let read = recover(&text);
                    prop_assert!(read.is_none_or(|m| !matches!(m, Uplink::Hello(_) | Uplink::Iot(_))));
                }
            }
        }
    }
}
