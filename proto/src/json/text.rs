//! Parses bytes to a JSON value without duplicate names.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{JsonError, MAX_WEIGHT, Step, weight_of_text};

pub(super) fn value(bytes: &[u8]) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| JsonError::no_json("is no UTF-8 text, or is compressed"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(JsonError::no_json("is empty, but must be a JSON object"));
    }
    weight_of_text(text.as_bytes(), MAX_WEIGHT)
        .map_err(|heavy| JsonError::new(heavy.to_string()))?;
    let mut twice = None;
    let mut json = serde_json::Deserializer::from_str(text);
    let looked = Names(&mut twice).deserialize(&mut json).and_then(|()| json.end());
    match (twice, looked) {
        (Some(twice), _) => Err(twice),
        (None, Err(error)) => Err(unreadable(&error)),
        (None, Ok(())) => serde_json::from_str(text).map_err(|error| unreadable(&error)),
    }
}

fn unreadable(error: &serde_json::Error) -> JsonError {
    let why = error.to_string();
    if why.starts_with("recursion limit") {
        return JsonError::no_json("is nested deeper than 127 levels");
    }
    JsonError::no_json(format!("is not JSON: {why}"))
}

/// Visitor that finds a duplicate name in an object, at any depth, and stores the first.
struct Names<'a>(&'a mut Option<JsonError>);

impl<'a> Names<'a> {
    fn inner(&mut self) -> Names<'_> {
        Names(self.0)
    }

    /// Ends reading. Stores the duplicate, because it is more specific than this error.
    fn found<E: serde::de::Error>(self, step: Step, error: E) -> E {
        if let Some(twice) = self.0.take() {
            *self.0 = Some(twice.within(step));
        }
        error
    }
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        for number in 0.. {
            match items.next_element_seed(self.inner()) {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(error) => return Err(self.found(Step::Item(number), error)),
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            if names.contains(&name) {
                let twice = JsonError::new("stands twice").within(Step::Field(name));
                *self.0 = Some(twice);
                return Err(A::Error::custom("a name stands twice"));
            }
            if let Err(error) = fields.next_value_seed(self.inner()) {
                return Err(self.found(Step::Field(name), error));
            }
            names.insert(name);
        }
        Ok(())
    }
}
