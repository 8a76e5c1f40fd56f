//! Parser of a model's output bytes into text and tool calls: joins characters that are split
//! between tokens, ends the answer at stop texts, recognises calls. Pure. The grammar that makes
//! calls valid is in [`super::grammar`].

use serde_json::Value;

use super::generation::{Generation, ToolCall};

/// Parsed part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Further text.
    Text(String),
    /// Complete tool call.
    Call(ToolCall),
}

/// Incremental parser of one answer.
#[derive(Debug)]
pub struct AnswerParser {
    stop: Vec<String>,
    tools: Vec<String>,
    bytes: Vec<u8>,
    held: String,
    shape: Shape,
    stopped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Unknown,
    Text,
    Call,
}

impl AnswerParser {
    /// Creates a parser for the answer to `request`.
    pub fn new(request: &Generation) -> Self {
        let shape = if request.tools.is_empty() { Shape::Text } else { Shape::Unknown };
        Self {
            stop: request.stop.clone(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            bytes: Vec::new(),
            held: String::new(),
            shape,
            stopped: false,
        }
    }

    /// Adds bytes. Returns the text that can no longer be part of a stop text or of a call, if any.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Part> {
        if self.stopped {
            return None;
        }
        self.bytes.extend_from_slice(bytes);
        take_characters(&mut self.bytes, &mut self.held);
        if let Some(end) = self.stop.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(end);
            self.stopped = true;
        }
        if self.shape == Shape::Unknown {
            self.shape = match self.held.trim_start().chars().next() {
                None => Shape::Unknown,
                Some('<' | '{' | '`') => Shape::Call,
                Some(_) => Shape::Text,
            };
        }
        if self.shape != Shape::Text {
            return None;
        }
        let certain = if self.stopped { self.held.len() } else { self.certain_length() };
        let text: String = self.held.drain(..certain).collect();
        (!text.is_empty()).then_some(Part::Text(text))
    }

    /// Returns true once a stop text was found. Everything after it is ignored.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns the remaining parts after the model has ended. `cut_short` is true if the answer was
    /// truncated at its token limit.
    pub fn finish(mut self, cut_short: bool) -> Vec<Part> {
        if !self.bytes.is_empty() && !self.stopped {
            self.held.push_str(&String::from_utf8_lossy(&self.bytes));
        }
        if self.shape == Shape::Call {
            let calls = read_calls(&self.held, &self.tools);
            if !calls.is_empty() {
                return calls.into_iter().map(Part::Call).collect();
            }
            if cut_short {
                // An incomplete call is useless, and must not be read aloud.
                return Vec::new();
            }
        }
        if self.held.is_empty() { Vec::new() } else { vec![Part::Text(self.held)] }
    }

    /// Returns the length in bytes of the held text that cannot be the beginning of a stop text.
    fn certain_length(&self) -> usize {
        let boundaries = self.held.char_indices().map(|(index, _)| index);
        let mut uncertain = boundaries.filter(|&index| {
            let tail = &self.held[index..];
            self.stop.iter().any(|stop| stop.starts_with(tail))
        });
        uncertain.next().unwrap_or(self.held.len())
    }
}

/// Moves every complete character from `bytes` to `text`. Replaces byte sequences that can never
/// become a character.
fn take_characters(bytes: &mut Vec<u8>, text: &mut String) {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                bytes.clear();
                return;
            }
            Err(error) => {
                let valid = error.valid_up_to();
                text.push_str(&String::from_utf8_lossy(&bytes[..valid]));
                let Some(broken) = error.error_len() else {
                    bytes.drain(..valid);
                    return;
                };
                text.push(char::REPLACEMENT_CHARACTER);
                bytes.drain(..valid + broken);
            }
        }
    }
}

/// Parses the calls of known tools in an answer: tagged, fenced or bare.
fn read_calls(text: &str, tools: &[String]) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let mut values = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else { break };
        rest = &rest[start + values.byte_offset()..];
        let Some(name) = value.get("name").and_then(Value::as_str) else { continue };
        if !tools.iter().any(|tool| tool == name) {
            continue;
        }
        let arguments = match value.get("arguments") {
            Some(arguments @ Value::Object(_)) => arguments.to_string(),
            None | Some(Value::Null) => "{}".to_owned(),
            Some(_) => continue,
        };
        calls.push(ToolCall { name: name.to_owned(), arguments });
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::generation::{Sampling, Tool, ToolChoice};
    use proptest::prelude::*;
    use serde_json::json;

    fn request(tools: &[&str], stop: &[&str]) -> Generation {
        let tool = |name: &&str| Tool {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({}),
        };
        Generation {
            messages: Vec::new(),
            tools: tools.iter().map(tool).collect(),
            tool_choice: ToolChoice::Auto,
            sampling: Sampling::default(),
            max_tokens: 8,
            stop: stop.iter().map(|s| (*s).to_owned()).collect(),
            gives_way: false,
        }
    }

    fn read(request: &Generation, pieces: &[&[u8]], cut_short: bool) -> Vec<Part> {
        let mut answer = AnswerParser::new(request);
        let mut parts: Vec<Part> = pieces.iter().filter_map(|piece| answer.push(piece)).collect();
        parts.extend(answer.finish(cut_short));
        parts
    }

    fn text(parts: &[Part]) -> String {
        parts.iter().map(|p| if let Part::Text(t) = p { t.as_str() } else { "[call]" }).collect()
    }

    fn call(name: &str, arguments: &str) -> Part {
        Part::Call(ToolCall { name: name.into(), arguments: arguments.into() })
    }

    #[test]
    fn a_character_split_between_tokens_comes_out_whole() {
        let bytes = "好的😀".as_bytes();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        let parts = read(&request(&[], &[]), &pieces, false);
        assert_eq!(parts.len(), 3);
        assert_eq!(text(&parts), "好的😀");
    }

    #[test]
    fn bytes_that_are_not_characters_are_replaced_and_the_rest_is_unchanged() {
        assert_eq!(
            text(&read(&request(&[], &[]), &[b"a\xff", b"b\xe5"], false)),
            "a\u{fffd}b\u{fffd}"
        );
    }

    #[test]
    fn a_stop_text_ends_the_answer_even_split() {
        let request = request(&[], &["END", "。"]);
        let mut answer = AnswerParser::new(&request);
        assert_eq!(answer.push(b"one E"), Some(Part::Text("one ".into())));
        assert_eq!(answer.push(b"N"), None);
        assert_eq!(answer.push(b"D two"), None);
        assert!(answer.is_stopped());
        assert_eq!(answer.finish(false), []);
        assert_eq!(text(&read(&request, &[b"E", b"N", b"X"], false)), "ENX");
    }

    #[test]
    fn calls_are_read_tagged_fenced_or_bare() {
        let request = request(&["set_volume"], &[]);
        let body = r#"{"name": "set_volume", "arguments": {"volume": 40}}"#;
        for written in [
            format!("<tool_call>\n{body}\n</tool_call>"),
            format!("```json\n{body}\n```"),
            body.to_owned(),
        ] {
            let pieces: Vec<&[u8]> = written.as_bytes().chunks(3).collect();
            assert_eq!(read(&request, &pieces, false), [call("set_volume", r#"{"volume":40}"#)]);
        }
    }

    #[test]
    fn text_other_than_a_call_of_a_known_tool_is_unchanged() {
        let request = request(&["set_volume"], &[]);
        let other = r#"{"name": "reboot", "arguments": {}}"#;
        assert_eq!(text(&read(&request, &[other.as_bytes()], false)), other);
        assert_eq!(text(&read(&request, &[b"<3"], false)), "<3");
        assert_eq!(read(&request, &[br#"{"name": "set_vol"#], true), []);
    }

    proptest! {
        #[test]
        fn text_is_the_same_however_it_is_split(
            words in "\\PC{0,40}",
            cuts in prop::collection::vec(1usize..5, 0..60),
            stop in "[a-c。]{1,3}",
        ) {
            let request = request(&[], &[&stop]);
            let mut pieces = Vec::new();
            let mut rest = words.as_bytes();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                pieces.push(head);
                rest = tail;
            }
            pieces.push(rest);
            let expected = words.split(stop.as_str()).next().unwrap_or_default();
            prop_assert_eq!(text(&read(&request, &pieces, false)), expected);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let request = request(&["a"], &["x"]);
            let pieces: Vec<&[u8]> = bytes.chunks(7).collect();
            read(&request, &pieces, true);
        }
    }
}
