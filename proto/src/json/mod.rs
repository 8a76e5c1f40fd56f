//! Parses JSON from outside: bytes to an object, then to a type. Errors name the wrong field and
//! the expected value. JSON of external services is parsed with [`weighed()`]. Not for checks beyond
//! a field's type.
//!
//! - A body or message is one object in UTF-8. One leading byte order mark is skipped.
//! - A struct, also a nested one, is read from an object only.
//! - A duplicate name in an object is an error, at any depth.
//! - A field that is null counts as absent. Null within free-form values and lists stays.
//! - A whole number may also be written as `5.0` or `5e0`.
//! - At most 127 levels of nesting, and [`MAX_WEIGHT`] bytes of memory when parsed.
//! - Numbers in free-form values stay as they are written, except that an exponent gets a small `e`
//!   and a sign.

mod mended;
mod text;
mod typed;
mod weighed;
mod weight;

use std::fmt::{self, Write as _};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Number, Value};

pub use self::mended::{escaped_code, mended};
pub use self::weighed::{MAX_SPEECH_WEIGHT, NotParsed, weighed, weighed_first, weighed_within};
pub use self::weight::{LONG_TEXT, MAX_WEIGHT, TooHeavy, weight, weight_of_text};

/// Maximum number of characters of a peer's name or number in an error message.
const MAX_SHOWN_CHARS: usize = 40;
/// Maximum number of steps of a path in an error message.
const MAX_SHOWN_STEPS: usize = 8;

/// Step from a value to a nested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Field with this name.
    Field(String),
    /// Item with this index, counted from 0.
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

/// Mistake in JSON, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// Path from the inside out.
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

    /// Returns true if the text is JSON, although not the expected one.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Returns the path of the mistake, from the outside in. Empty for the whole text.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.path.iter().rev()
    }

    /// Returns the mistake as the end of a sentence: `must be text, not a number`.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the field in readable form, `players[2].name`. `None` for the whole text.
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
                // Writing to a `String` never fails.
                Step::Item(number) => write!(shown, "[{number}]").unwrap_or_default(),
            }
        }
        (!self.path.is_empty()).then_some(shown)
    }

    /// Returns the whole sentence. `whole` names the text as a whole: `the body`.
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

/// Shortens text from a peer for a log.
fn short(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(MAX_SHOWN_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown.replace(char::is_control, "�")
}

/// Returns the kind of a value, for people.
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

/// Returns true if a value counts as no value: null, false, zero, or empty.
pub fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Returns true if a value means true: any value except those of [`is_nothing`] and words such as
/// `no`.
pub fn is_true(value: &Value) -> bool {
    const FALSE: [&str; 6] = ["false", "no", "0", "null", "none", "undefined"];
    let is_false = |words: &str| FALSE.iter().any(|word| words.eq_ignore_ascii_case(word));
    !is_nothing(value) && !value.as_str().is_some_and(|words| is_false(words.trim()))
}

/// Describes a value of the wrong kind, as the end of a sentence: `must be text, not a number`.
pub fn mismatch(expected: &str, found: &Value) -> String {
    format!("must be {expected}, not {}", kind(found))
}

/// Parses an object.
///
/// # Errors
/// Returns an error for text that is not UTF-8, not JSON, not an object, too deeply nested, too
/// heavy, or contains a name twice.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, JsonError> {
    match text::value(bytes)? {
        Value::Object(fields) => Ok(fields),
        other => Err(JsonError::new(mismatch("a JSON object", &other))),
    }
}

/// Parses a `T` from an object.
///
/// # Errors
/// Returns the errors of [`object`], or an error if a field is missing or is of another type.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    typed(object(bytes)?)
}

/// Parses a `T` from an object that may be absent. Empty text, blanks and null mean `None`.
///
/// # Errors
/// Returns the errors of [`read`].
pub fn read_optional<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, JsonError> {
    match bytes.trim_ascii() {
        b"" | b"null" => Ok(None),
        _ => read(bytes).map(Some),
    }
}

/// Parses a `T` from the fields of an object.
///
/// # Errors
/// Returns an error if a field is missing or is of another type.
pub fn typed<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, JsonError> {
    T::deserialize(typed::Node(Value::Object(fields)))
}

/// Removes a text field such as `type` from an object. The remaining fields are parsed according to
/// it.
///
/// # Errors
/// Returns an error if the field is missing or not text.
pub fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<String, JsonError> {
    let wrong = |what: String| JsonError::new(what).within(Step::Field(name.to_owned()));
    match fields.remove(name) {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => Err(wrong("is missing".into())),
        Some(other) => Err(wrong(mismatch("text", &other))),
    }
}

/// Deserialises a float field of an enum with a `tag`. serde buffers the fields beside the tag,
/// with numbers as text.
///
/// # Errors
/// Returns an error if it is not a number, or too large for a float.
pub fn float<'de, D: Deserializer<'de>>(json: D) -> Result<f64, D::Error> {
    let number = Number::deserialize(json)?;
    number.as_f64().ok_or_else(|| D::Error::custom("the number is too large"))
}

/// Deserialises a float field that may be absent. See [`float`].
///
/// # Errors
/// Returns the errors of [`float`].
pub fn optional_float<'de, D: Deserializer<'de>>(json: D) -> Result<Option<f64>, D::Error> {
    let number = Option::<Number>::deserialize(json)?;
    number.map(float).transpose().map_err(D::Error::custom)
}

/// Returns the error for a field with an unknown word.
pub(crate) fn unknown(name: &str, known: &'static [&'static str], word: &str) -> JsonError {
    let error = <JsonError as serde::de::Error>::unknown_variant(word, known);
    error.within(Step::Field(name.to_owned()))
}

#[cfg(test)]
mod tests;
