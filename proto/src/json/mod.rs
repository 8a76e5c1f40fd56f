//! Reads JSON that comes from outside: bytes to an object to a type, or which field is wrong and
//! what was expected there. Not for what a field may hold beyond its type, nor for answers of
//! services that we call, which `serde_json` reads as they come.
//!
//! - A body or message is one object in UTF-8. One byte order mark before it is passed over.
//! - A struct, also within another, is read from an object only.
//! - A name that stands twice in an object is refused, at any depth.
//! - A field that is null counts as absent. Null within free-form values and lists stays.
//! - A whole number may also be written as `5.0` or `5e0`.
//! - At most 127 levels.
//! - In free-form values numbers stay as they are written, but that an exponent has a small `e`
//!   and a sign.

mod text;
mod typed;

use std::fmt::{self, Write as _};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Number, Value};

/// Most characters that are told of a name or a number of the peer.
const MAX_SHOWN_CHARS: usize = 40;
/// Most steps of a path that are told.
const MAX_SHOWN_STEPS: usize = 8;

/// One step from a value to one within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The field of this name.
    Field(String),
    /// The item of this number, counted from 0.
    Item(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(&short(name)),
            Self::Item(number) => write!(f, "{number}"),
        }
    }
}

/// What is wrong with some JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// From the inside out.
    path: Vec<Step>,
    what: String,
    is_json: bool,
}

impl JsonError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { path: Vec::new(), what: what.into(), is_json: true }
    }

    fn no_json(what: impl Into<String>) -> Self {
        Self { is_json: false, ..Self::new(what) }
    }

    pub(crate) fn within(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    /// The text is JSON, but not what was expected.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Where it is, from the outside in; empty for the whole text.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.path.iter().rev()
    }

    /// What is wrong there, as the end of a sentence: `must be text, not a number`.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The field as a person would write it, `players[2].name`; none for the whole text.
    pub fn field(&self) -> Option<String> {
        let mut shown = String::new();
        for (number, step) in self.path().enumerate() {
            if number == MAX_SHOWN_STEPS {
                shown.push('…');
                break;
            }
            match step {
                Step::Field(name) => {
                    let dot = if shown.is_empty() { "" } else { "." };
                    shown.push_str(dot);
                    shown.push_str(&short(name));
                }
                // A `String` takes everything.
                Step::Item(number) => write!(shown, "[{number}]").unwrap_or_default(),
            }
        }
        (!self.path.is_empty()).then_some(shown)
    }

    /// The whole sentence, where the text as a whole has this name: `the body`.
    pub fn about(&self, whole: &str) -> String {
        match self.field() {
            Some(field) => format!("`{field}` {}", self.what),
            None => format!("{whole} {}", self.what),
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.about("the message"))
    }
}

impl std::error::Error for JsonError {}

/// Some characters of a stranger, fit for a log.
fn short(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(MAX_SHOWN_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown.replace(char::is_control, "�")
}

/// What a value is, for people.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// What is wrong with a value that should be something else, as the end of a sentence: `must be
/// text, not a number`.
pub fn mismatch(expected: &str, found: &Value) -> String {
    format!("must be {expected}, not {}", kind(found))
}

/// Reads an object as it stands.
///
/// # Errors
/// No UTF-8, no JSON, no object, nested too deep, or a name stands twice.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, JsonError> {
    match text::value(bytes)? {
        Value::Object(fields) => Ok(fields),
        other => Err(JsonError::new(mismatch("a JSON object", &other))),
    }
}

/// Reads a `T` from an object.
///
/// # Errors
/// As [`object`]; or a field is missing or is of another type.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    typed(object(bytes)?)
}

/// Reads a `T` from an object that may be left out: nothing, blanks and null are none.
///
/// # Errors
/// As [`read`].
pub fn read_optional<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, JsonError> {
    match bytes.trim_ascii() {
        b"" | b"null" => Ok(None),
        _ => read(bytes).map(Some),
    }
}

/// Reads a `T` from the fields of an object.
///
/// # Errors
/// A field is missing or is of another type.
pub fn typed<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, JsonError> {
    T::deserialize(typed::Node(Value::Object(fields)))
}

/// Takes a text out of an object, by which the rest is read: its `type`.
///
/// # Errors
/// It is missing, or no text.
pub fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<String, JsonError> {
    let wrong = |what: String| JsonError::new(what).within(Step::Field(name.to_owned()));
    match fields.remove(name) {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => Err(wrong("is missing".into())),
        Some(other) => Err(wrong(mismatch("text", &other))),
    }
}

/// Reads a float field of a type that is told apart by a `tag`: what stands beside the tag is kept
/// first, numbers as their text.
///
/// # Errors
/// It is no number, or beyond a float.
pub fn float<'de, D: Deserializer<'de>>(json: D) -> Result<f64, D::Error> {
    let number = Number::deserialize(json)?;
    number.as_f64().ok_or_else(|| D::Error::custom("the number is too large"))
}

/// The same of a field that may be absent.
///
/// # Errors
/// As [`float`].
pub fn optional_float<'de, D: Deserializer<'de>>(json: D) -> Result<Option<f64>, D::Error> {
    let number = Option::<Number>::deserialize(json)?;
    number.map(float).transpose().map_err(D::Error::custom)
}

/// A field that holds none of the words that are known there.
pub(crate) fn unknown(name: &str, known: &'static [&'static str], word: &str) -> JsonError {
    let error = <JsonError as serde::de::Error>::unknown_variant(word, known);
    error.within(Step::Field(name.to_owned()))
}

#[cfg(test)]
mod tests;
