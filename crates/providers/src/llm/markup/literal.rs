//! Values as Python and similar languages write them, in tool calls. Not for JSON, which is tried
//! first.

use serde_json::{Map, Value};

/// Maximum nesting of a value.
const MAX_DEPTH: usize = 16;
/// Maximum length of a number or word without quotes, in letters.
const LONGEST_WORD: usize = 64;
/// Tokens that some models write instead of quotes.
const QUOTES: [&str; 2] = ["<escape>", "<|\"|>"];

/// Reader of such values.
pub(super) struct Literal<'a> {
    /// Text that has not been read yet.
    pub(super) rest: &'a str,
}

impl<'a> Literal<'a> {
    /// Parses an object at the beginning of the text, and returns it with the text after it.
    pub(super) fn object(text: &'a str) -> Option<(Map<String, Value>, &'a str)> {
        let mut literal = Self { rest: text };
        let fields = if literal.take('{') { literal.fields(0)? } else { return None };
        Some((fields, literal.rest))
    }

    /// Parses `x=1, y=2)`.
    pub(super) fn keywords(&mut self) -> Option<Map<String, Value>> {
        let mut arguments = Map::new();
        loop {
            self.skip_blanks();
            if self.take(')') {
                return Some(arguments);
            }
            let name = self.name()?;
            self.skip_blanks();
            if !self.take('=') {
                return None;
            }
            arguments.insert(name, self.value(0)?);
            self.skip_blanks();
            if !self.take(',') && !self.rest.starts_with(')') {
                return None;
            }
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub(super) fn take(&mut self, wanted: char) -> bool {
        let behind = self.rest.strip_prefix(wanted);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    /// Reports whether a list, an object or a text in quotes follows.
    pub(super) fn delimits(&self) -> bool {
        self.rest.starts_with(['[', '{']) || self.quotes()
    }

    /// Parses the key of a field, with or without quotes, and the colon after it.
    pub(super) fn key(&mut self) -> Option<String> {
        let key = if self.quotes() { self.text()? } else { self.name()? };
        self.skip_blanks();
        self.take(':').then_some(key)
    }

    pub(super) fn value(&mut self, depth: usize) -> Option<Value> {
        self.skip_blanks();
        if depth > MAX_DEPTH {
            return None;
        }
        if self.quotes() {
            return self.text().map(Value::String);
        }
        if self.take('{') {
            return self.fields(depth).map(Value::Object);
        }
        if self.take('[') || self.take('(') {
            return self.items(depth).map(Value::Array);
        }
        let mut letters = self.rest.char_indices().take(LONGEST_WORD);
        let (end, _) = letters.find(|(_, c)| matches!(c, ',' | ')' | ']' | '}'))?;
        let (word, behind) = self.rest.split_at(end);
        self.rest = behind;
        match word.trim() {
            "True" => Some(true.into()),
            "False" => Some(false.into()),
            "None" => Some(Value::Null),
            word => serde_json::from_str(word).ok(),
        }
    }

    /// Parses the fields of an object, up to its end.
    fn fields(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let mut fields = Map::new();
        loop {
            self.skip_blanks();
            if self.take('}') {
                return Some(fields);
            }
            let key = self.key()?;
            fields.insert(key, self.value(depth + 1)?);
            self.skip_blanks();
            self.take(',');
        }
    }

    /// Parses the values of a list, up to its end.
    fn items(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            self.skip_blanks();
            if self.take(']') || self.take(')') {
                return Some(items);
            }
            items.push(self.value(depth + 1)?);
            self.skip_blanks();
            self.take(',');
        }
    }

    fn quotes(&self) -> bool {
        self.rest.starts_with(['"', '\'']) || QUOTES.iter().any(|mark| self.rest.starts_with(mark))
    }

    fn name(&mut self) -> Option<String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let behind = self.rest.trim_start_matches(is_name);
        let name = &self.rest[..self.rest.len() - behind.len()];
        self.rest = behind;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Parses a text in quotes.
    fn text(&mut self) -> Option<String> {
        for mark in QUOTES {
            if let Some(quoted) = self.rest.strip_prefix(mark) {
                let (text, behind) = quoted.split_once(mark)?;
                self.rest = behind;
                return Some(text.to_owned());
            }
        }
        let mut letters = self.rest.char_indices();
        let (_, quote) = letters.next()?;
        let mut text = String::new();
        while let Some((at, c)) = letters.next() {
            match c {
                '\\' => match letters.next()?.1 {
                    'n' => text.push('\n'),
                    'r' => text.push('\r'),
                    't' => text.push('\t'),
                    'u' => text.push(escaped(&mut letters)?),
                    other => text.push(other),
                },
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Some(text);
                }
                c => text.push(c),
            }
        }
        None
    }
}

/// Reads the digits of `\u4f60`, or of a surrogate pair.
fn escaped(letters: &mut impl Iterator<Item = (usize, char)>) -> Option<char> {
    let first = digits(letters)?;
    if let Some(c) = char::from_u32(first) {
        return Some(c);
    }
    if letters.next()?.1 != '\\' || letters.next()?.1 != 'u' {
        return None;
    }
    let second = digits(letters)?;
    let pair = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    char::decode_utf16(pair).next()?.ok()
}

fn digits(letters: &mut impl Iterator<Item = (usize, char)>) -> Option<u32> {
    let mut code = 0;
    for _ in 0..4 {
        code = code * 16 + letters.next()?.1.to_digit(16)?;
    }
    Some(code)
}
