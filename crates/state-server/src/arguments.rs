//! Arguments of a call, checked while they are read. Not for their use.

use serde_json::{Map, Value};

use super::dice::Throw;

/// Maximum length of a name or id, in characters.
const MAX_NAME_CHARS: usize = 100;

/// Reason that a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such tool.
    #[error("there is no tool `{0}`: GET /tools lists what there is")]
    NoTool(String),
    /// An argument is missing or has the wrong type.
    #[error("`{0}` must be {1}")]
    Argument(&'static str, &'static str),
    /// The rules of the world do not allow it.
    #[error("{0}")]
    Rules(String),
}

/// Arguments of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Arguments<'a> {
    fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Reads a name or an id.
    pub(super) fn name(self, key: &'static str) -> Result<&'a str, CallError> {
        self.name_or(key, "")
            .and_then(|name| if name.is_empty() { Err(no_name(key)) } else { Ok(name) })
    }

    /// Reads a name or an id; `or` if it is missing.
    pub(super) fn name_or(self, key: &'static str, or: &'a str) -> Result<&'a str, CallError> {
        let Some(value) = self.get(key) else { return Ok(or) };
        let name = value.as_str().map(str::trim).ok_or(no_name(key))?;
        if name.chars().count() > MAX_NAME_CHARS { Err(no_name(key)) } else { Ok(name) }
    }

    /// Reads a whole number from -1000000 to 1000000. Models also write numbers as text.
    pub(super) fn number(self, key: &'static str) -> Result<Option<i64>, CallError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
        match number.filter(|number| number.abs() <= 1_000_000) {
            Some(number) => Ok(Some(number)),
            None => Err(CallError::Argument(key, "a whole number of at most 1000000")),
        }
    }

    /// Reads a boolean; false if it is missing.
    pub(super) fn yes(self, key: &'static str) -> Result<bool, CallError> {
        match self.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or(CallError::Argument(key, "true or false")),
        }
    }

    /// Reads dice; `or` if they are missing.
    pub(super) fn dice_or(
        self,
        key: &'static str,
        or: &'a str,
    ) -> Result<(&'a str, Throw), CallError> {
        let text = self.name_or(key, or)?;
        let throw = Throw::parse(text);
        throw.map(|throw| (text, throw)).ok_or(CallError::Argument(key, "dice such as 2d6+3"))
    }

    /// Reads a list of ids; empty if it is missing.
    pub(super) fn names(self, key: &'static str) -> Result<Vec<&'a str>, CallError> {
        const IDS: &str = "a list of ids";
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or(CallError::Argument(key, IDS))?;
        list.iter().map(|id| id.as_str().ok_or(CallError::Argument(key, IDS))).collect()
    }
}

fn no_name(key: &'static str) -> CallError {
    CallError::Argument(key, "a text of 1 to 100 characters")
}
