//! Requests to the embedded language model, and its answers: any input is read or refused; prompt
//! and grammar are bounded, and the grammar refers only to its own rules; an answer does not depend
//! on how its bytes are split.

use std::collections::HashSet;

use hearken_base::fuzzing::pieces;
use hearken_engines::llm::answer::{AnswerParser, Part};
use hearken_engines::llm::generation::Generation;
use hearken_engines::llm::request::{self, RequestLimits};
use hearken_engines::llm::{chatml, grammar};

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let limits = RequestLimits::default();
    let asked = match request::parse(bytes, limits) {
        Ok(asked) => asked.generation,
        Err(error) => {
            assert!(!error.message.is_empty() && error.message.len() < 4_000);
            return;
        }
    };
    assert!((1..=limits.most_max_tokens).contains(&asked.max_tokens) && !asked.messages.is_empty());
    assert!(asked.stop.len() <= 16 && !asked.stop.iter().any(String::is_empty));
    if let Some(text) = grammar::for_request(&asked) {
        check_grammar(&text);
        // An enumerated range is the largest: 1,001 numbers for about 60 bytes of schema.
        assert!(text.len() <= 300 * bytes.len() + 2_000, "{} bytes", text.len());
    }
    let prompt = chatml::render(&asked.messages, &asked.tools);
    let count = |segments: &[chatml::Segment]| segments.len();
    let fitted = chatml::fit(&asked.messages, &asked.tools, prompt.len(), count);
    assert_eq!(fitted.map(|fitted| (fitted.dropped, fitted.segments)), Ok((0, prompt)));
    if let Ok(fitted) = chatml::fit(&asked.messages, &asked.tools, 6, count) {
        assert!(fitted.segments.len() <= 6 && fitted.dropped < asked.messages.len());
    }
    // The input itself as the output of the model.
    assert_eq!(read(&asked, &pieces(bytes)), read(&asked, &[bytes]));
}

/// Reads the output of a model in these pieces; returns the text and the calls.
fn read(asked: &Generation, pieces: &[&[u8]]) -> (String, Vec<(String, String)>) {
    let mut answer = AnswerParser::new(asked);
    let mut parts: Vec<Part> = pieces.iter().filter_map(|piece| answer.push(piece)).collect();
    parts.extend(answer.finish(false));
    let mut text = String::new();
    let mut calls = Vec::new();
    for part in parts {
        match part {
            Part::Text(more) => text.push_str(&more),
            Part::Call(call) => calls.push((call.name, call.arguments)),
        }
    }
    let stopped = asked.stop.iter().find(|stop| text.contains(stop.as_str()));
    assert_eq!(stopped, None, "{text:?}");
    (text, calls)
}

/// Checks that the grammar has each rule that it refers to, each once, one per line.
fn check_grammar(text: &str) {
    let mut rules = HashSet::new();
    for line in text.lines() {
        let (name, _) = line.split_once(" ::= ").unwrap_or_else(|| panic!("no rule: {line}"));
        assert!(rules.insert(name), "{name} is a duplicate");
    }
    assert!(rules.contains("root"));
    for line in text.lines() {
        let body = line.split_once(" ::= ").map_or("", |(_, body)| body);
        for name in named(body) {
            assert!(rules.contains(name.as_str()), "no rule {name} in {line}");
        }
    }
}

/// Names of rules in the body of a rule: words outside literals, classes and counts.
fn named(body: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut within = None;
    let mut signs = body.chars();
    while let Some(c) = signs.next() {
        match (within, c) {
            (Some('"' | ']'), '\\') => drop(signs.next()),
            (Some(end), c) if c == end => within = None,
            (Some(_), _) => {}
            (None, c) if c.is_ascii_alphanumeric() => name.push(c),
            (None, c) => {
                names.extend((!name.is_empty()).then(|| std::mem::take(&mut name)));
                within = match c {
                    '"' => Some('"'),
                    '[' => Some(']'),
                    '{' => Some('}'),
                    _ => None,
                };
            }
        }
    }
    assert_eq!(within, None, "a literal without end: {body}");
    names.extend((!name.is_empty()).then_some(name));
    names
}
