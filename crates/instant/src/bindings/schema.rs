//! A tool as it is read: the words of its name and description, and its parameters. Not for what a tool does, see `effects`.

use hearken_base::language::is_han;
use serde_json::Value;

use crate::normalise::words_of;

/// Tool that a device or a client offers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfferedTool<'a> {
    /// Name by which it is called.
    pub name: &'a str,
    /// Description for a model.
    pub description: &'a str,
    /// JSON schema of the arguments.
    pub parameters: &'a Value,
}

/// What a parameter accepts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Accepts {
    Number { is_integer: bool, min: Option<f64>, max: Option<f64> },
    Flag,
    Options(Vec<String>),
    Text,
    List,
    Other,
}

/// Parameter of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Words of the name.
    pub(crate) name_words: Vec<String>,
    pub(crate) description: String,
    /// Words of the description.
    pub(crate) words: Vec<String>,
    pub(crate) accepts: Accepts,
    pub(crate) is_required: bool,
}

/// Tool with its words.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) name_words: Vec<String>,
    pub(crate) description: String,
    pub(crate) words: Vec<String>,
    pub(crate) parameters: Vec<Parameter>,
}

/// Returns the words of a name in `snake_case`, `camelCase` or with points.
pub(crate) fn name_words(name: &str) -> Vec<String> {
    let mut text = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            text.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        text.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    words_of(&text).words
}

/// Reports whether one of `names` is in `words`: one word, several with spaces, or characters in Chinese.
pub(crate) fn mentions(words: &[String], names: &[&str]) -> bool {
    names.iter().any(|name| mentions_one(words, name))
}

fn mentions_one(words: &[String], name: &str) -> bool {
    // Nearly all names are plain: their words need no normalisation.
    if name.bytes().all(|b| b.is_ascii_lowercase() || b == b' ') {
        let mut parts = name.split(' ').filter(|part| !part.is_empty());
        let Some(first) = parts.next() else { return false };
        let rest: Vec<&str> = parts.collect();
        return words.iter().enumerate().any(|(at, word)| {
            word == first
                && (rest.is_empty()
                    || words.get(at + 1..at + 1 + rest.len()).is_some_and(|next| next == rest))
        });
    }
    if name.chars().all(is_han) {
        let count = name.chars().count();
        return words.windows(count).any(|part| {
            part.iter().zip(name.chars()).all(|(word, c)| {
                let mut chars = word.chars();
                chars.next() == Some(c) && chars.next().is_none()
            })
        });
    }
    let name = words_of(name).words;
    !name.is_empty() && words.windows(name.len()).any(|part| part == name)
}

fn accepts(schema: &Value) -> Accepts {
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        let texts: Vec<String> =
            options.iter().filter_map(|option| option.as_str().map(str::to_owned)).collect();
        return if texts.len() == options.len() { Accepts::Options(texts) } else { Accepts::Other };
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            let first = kinds.next().unwrap_or("");
            if kinds.next().is_some() { "" } else { first }
        }
        _ => "",
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    match kind {
        "integer" | "number" => Accepts::Number {
            is_integer: kind == "integer",
            min: bound("minimum"),
            max: bound("maximum"),
        },
        "boolean" => Accepts::Flag,
        "string" => Accepts::Text,
        "array" => Accepts::List,
        _ => Accepts::Other,
    }
}

impl Tool {
    /// Reads an offered tool; `None` if its schema is none of an object.
    pub(crate) fn read(offered: &OfferedTool<'_>) -> Option<Self> {
        let nothing = serde_json::Map::new();
        let properties = match offered.parameters.get("properties") {
            Some(properties) => properties.as_object()?,
            None => &nothing,
        };
        let required: Vec<&str> = match offered.parameters.get("required") {
            Some(required) => required.as_array()?.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
        };
        let parameter = |name: &String, schema: &Value| {
            let description =
                schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
            Parameter {
                name: name.clone(),
                name_words: name_words(name),
                words: words_of_long(&description),
                description,
                accepts: accepts(schema),
                is_required: required.contains(&name.as_str()),
            }
        };
        let parameters: Vec<_> =
            properties.iter().map(|property| parameter(property.0, property.1)).collect();
        let is_known =
            |name: &&str| parameters.iter().any(|parameter: &Parameter| parameter.name == *name);
        if !required.iter().all(is_known) {
            return None;
        }
        Some(Self {
            name: offered.name.to_owned(),
            name_words: name_words(offered.name),
            description: offered.description.to_owned(),
            words: words_of_long(offered.description),
            parameters,
        })
    }

    /// Reports whether the name or the description has one of `names`.
    pub(crate) fn mentions(&self, names: &[&str]) -> bool {
        mentions(&self.name_words, names) || mentions(&self.words, names)
    }

    /// Returns the parameters that a call must have, other than those called `filled`.
    pub(crate) fn unfilled<'a>(
        &'a self,
        filled: &'a [&str],
    ) -> impl Iterator<Item = &'a Parameter> {
        self.parameters.iter().filter(move |parameter| {
            parameter.is_required && !filled.contains(&parameter.name.as_str())
        })
    }
}

impl Parameter {
    /// Reports whether the name or the description has one of `names`.
    pub(crate) fn mentions(&self, names: &[&str]) -> bool {
        mentions(&self.name_words, names) || mentions(&self.words, names)
    }

    /// Reports whether it is a number whose bounds allow 0 (or 1) to 100.
    pub(crate) fn is_percent(&self) -> bool {
        matches!(self.accepts, Accepts::Number { min, max, .. } if min.is_none_or(|min| (0.0..=1.0).contains(&min)) && max.is_none_or(|max| (99.9..=100.1).contains(&max)))
    }

    /// Reports whether it is a percent, or a whole number on a scale of 0 to 10 or of a byte.
    pub(crate) fn is_level(&self) -> bool {
        let on_scale = |min: &Option<f64>, max: &Option<f64>| {
            min.is_none_or(|min| (0.0..=1.0).contains(&min))
                && max.is_some_and(|max| {
                    [10.0, 20.0, 254.0, 255.0].iter().any(|end| (max - end).abs() < 0.1)
                })
        };
        self.is_percent()
            || matches!(&self.accepts, Accepts::Number { is_integer: true, min, max } if on_scale(min, max))
    }

    /// Reports whether it is a number.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.accepts, Accepts::Number { .. })
    }
}

/// Returns the words of a description of any length.
pub(crate) fn words_of_long(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().take(2_000).collect();
    let mut words = Vec::new();
    let mut start = 0;
    while start < chars.len() {
        let mut end = (start + 150).min(chars.len());
        while end < chars.len()
            && end > start + 100
            && chars.get(end).is_some_and(|c| c.is_ascii_alphanumeric())
        {
            end -= 1;
        }
        let part: String = chars.get(start..end).unwrap_or_default().iter().collect();
        words.extend(words_of(&part).words);
        start = end;
    }
    words
}
