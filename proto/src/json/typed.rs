//! Deserialises a JSON value to a type. Errors name the field.

use std::fmt::Display;

use serde::Deserializer;
use serde::de::{self, DeserializeSeed, Expected, IntoDeserializer, Unexpected, Visitor};
use serde_json::{Map, Number, Value};

use super::{JsonError, Step, mismatch, short};

/// Value that is being deserialised.
pub(super) struct Node(pub(super) Value);

impl Node {
    fn no<T>(&self, expected: &str) -> Result<T, JsonError> {
        Err(JsonError::new(mismatch(expected, &self.0)))
    }
}

/// Deserialises free-form values and untagged enums.
fn as_it_stands<'de, V: Visitor<'de>>(value: Value, visitor: V) -> Result<V::Value, JsonError> {
    value.deserialize_any(visitor).map_err(|error| JsonError::new(format!("is wrong: {error}")))
}

/// Returns a whole number, also if written as `5.0`.
fn whole(number: &Number) -> Option<i128> {
    /// Maximum magnitude up to which every whole number has an exact float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let plain = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    plain.or_else(|| {
        let float = number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= EXACT)?;
        #[allow(clippy::cast_possible_truncation, reason = "a whole number of at most 2^53")]
        Some(float as i128)
    })
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            let least = <$type>::MIN;
            let most = <$type>::MAX;
            let expected = format!("a whole number from {least} to {most}");
            let Value::Number(number) = &self.0 else { return self.no(&expected) };
            match whole(number).and_then(|n| <$type>::try_from(n).ok()) {
                Some(n) => visitor.$visit(n),
                None => {
                    let found = short(&number.to_string());
                    Err(JsonError::new(format!("must be {expected}, not {found}")))
                }
            }
        }
    )*};
}

fn float(value: &Value, most: f64) -> Result<f64, JsonError> {
    let Value::Number(number) = value else {
        return Err(JsonError::new(mismatch("a number", value)));
    };
    let fits = number.as_f64().filter(|float| float.is_finite() && float.abs() <= most);
    fits.ok_or_else(|| {
        JsonError::new(format!("must be a smaller number than {}", short(&number.to_string())))
    })
}

impl<'de> Deserializer<'de> for Node {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        as_it_stands(self.0, visitor)
    }

    whole_numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::Bool(flag) => visitor.visit_bool(flag),
            _ => self.no("true or false"),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_f64(float(&self.0, f32::MAX.into())?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_f64(float(&self.0, f64::MAX)?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            _ => self.no("text"),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items(items.into_iter().enumerate())),
            _ => self.no("an array"),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::Object(fields) => visitor.visit_map(Fields::from_fields(fields)),
            _ => self.no("an object"),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        if let Value::Object(fields) = &mut self.0 {
            fields.retain(|_, value| !value.is_null());
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::String(word) => visitor.visit_enum(word.into_deserializer()),
            _ => self.no("text"),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { bytes byte_buf unit unit_struct identifier }
}

struct Items(std::iter::Enumerate<std::vec::IntoIter<Value>>);

impl<'de> de::SeqAccess<'de> for Items {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, JsonError> {
        let Some((number, value)) = self.0.next() else { return Ok(None) };
        let read = seed.deserialize(Node(value)).map(Some);
        read.map_err(|error| error.within(Step::Item(number)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Fields {
    left: serde_json::map::IntoIter,
    /// Field whose name was read and whose value was not.
    next: Option<(String, Value)>,
}

impl Fields {
    fn from_fields(fields: Map<String, Value>) -> Self {
        Self { left: fields.into_iter(), next: None }
    }
}

impl<'de> de::MapAccess<'de> for Fields {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, JsonError> {
        let Some((name, value)) = self.left.next() else { return Ok(None) };
        self.next = Some((name.clone(), value));
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, JsonError> {
        let (name, value) = self.next.take().unwrap_or_default();
        seed.deserialize(Node(value)).map_err(|error| error.within(Step::Field(name)))
    }
}

/// Lists names such as `a`, `b` or `c`.
fn one_of(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

impl de::Error for JsonError {
    fn custom<T: Display>(why: T) -> Self {
        Self::new(format!("is wrong: {why}"))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("must be {expected}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("must be {expected}"))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("must be {expected}, not of {length} entries"))
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("must be {}, not `{}`", one_of(known), short(word)))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        let what = format!("is not known here; known is {}", one_of(known));
        Self::new(what).within(Step::Field(name.to_owned()))
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new("is missing").within(Step::Field(name.to_owned()))
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new("stands twice").within(Step::Field(name.to_owned()))
    }
}
