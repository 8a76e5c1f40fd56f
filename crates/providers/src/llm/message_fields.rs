//! Fields that a model sends with a message and requires in the next request, collected from the
//! pieces of its answer: reasoning and signatures. Not for the fields of a single call.

use std::sync::Arc;

use serde_json::{Map, Value};

/// Maximum size of all fields that are returned with the calls of one answer, in bytes.
pub(super) const MAX_RETURNED_BYTES: usize = 256 << 10;

/// Text fields of details that are sent in pieces.
const TEXTS: [&str; 4] = ["text", "summary", "data", "signature"];

/// Fields of a message so far.
#[derive(Default)]
pub(super) struct MessageFields {
    fields: Map<String, Value>,
    bytes: usize,
}

impl MessageFields {
    /// Adds a piece of a text.
    pub(super) fn add_text(&mut self, key: &str, piece: &str) {
        if !piece.is_empty() && self.fits(piece.len()) {
            append(&mut self.fields, key, piece);
        }
    }

    /// Returns a text so far.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.fields.get(key)?.as_str()
    }

    /// Adds pieces of a list. Pieces of one entry follow each other, with its type and index.
    pub(super) fn add_details(&mut self, key: &str, pieces: &[Value]) {
        for piece in pieces.iter().filter_map(Value::as_object) {
            if !self.fits(size(piece)) {
                return;
            }
            let Some(list) = self.list(key) else { return };
            let same = |last: &Value| {
                ["type", "index", "id"].iter().all(|key| {
                    let value = piece.get(*key).filter(|value| !value.is_null());
                    value.is_none_or(|value| last.get(*key).is_none_or(|known| known == value))
                })
            };
            // Without an index, each piece is an entry.
            let last = list.last_mut().filter(|last| piece.contains_key("index") && same(last));
            let Some(Value::Object(last)) = last else {
                list.push(Value::Object(piece.clone()));
                continue;
            };
            for (key, value) in piece {
                match value {
                    Value::Null => {}
                    Value::String(more) if TEXTS.contains(&key.as_str()) => append(last, key, more),
                    value => {
                        last.insert(key.clone(), value.clone());
                    }
                }
            }
        }
    }

    /// Starts an entry of a list.
    pub(super) fn add_entry(&mut self, key: &str, entry: &Map<String, Value>) {
        if self.fits(size(entry))
            && let Some(list) = self.list(key)
        {
            list.push(Value::Object(entry.clone()));
        }
    }

    /// Adds a piece of a text to the last entry of a list.
    pub(super) fn add_to_entry(&mut self, key: &str, field: &str, piece: &str) {
        if self.fits(piece.len())
            && let Some(Value::Object(entry)) = self.list(key).and_then(|list| list.last_mut())
        {
            append(entry, field, piece);
        }
    }

    /// Returns the fields, and removes them. Without all of its pieces, none of them is valid.
    pub(super) fn take(&mut self) -> Arc<Map<String, Value>> {
        let Self { fields, bytes } = std::mem::take(self);
        if bytes > MAX_RETURNED_BYTES {
            return Arc::default();
        }
        Arc::new(fields)
    }

    /// Returns false if the fields are larger than the maximum.
    fn fits(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_RETURNED_BYTES {
            self.fields.clear();
        }
        self.bytes <= MAX_RETURNED_BYTES
    }

    fn list(&mut self, key: &str) -> Option<&mut Vec<Value>> {
        let list = self.fields.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut()
    }
}

/// Returns the size of these fields as JSON, in bytes.
pub(super) fn size(fields: &Map<String, Value>) -> usize {
    serde_json::to_string(fields).map_or(usize::MAX, |json| json.len())
}

fn append(fields: &mut Map<String, Value>, key: &str, more: &str) {
    match fields.get_mut(key) {
        Some(Value::String(text)) => text.push_str(more),
        _ => {
            fields.insert(key.to_owned(), more.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_are_joined_by_their_index() {
        let mut fields = MessageFields::default();
        for piece in [
            json!({ "type": "reasoning.text", "text": "They ", "index": 0, "format": null }),
            json!({ "type": "reasoning.text", "text": "ask.", "index": 0, "format": "f" }),
            json!({ "type": "reasoning.text", "signature": "s", "index": 0 }),
            json!({ "type": "reasoning.encrypted", "data": "d", "index": 1 }),
            json!({ "type": "reasoning.encrypted", "data": "e" }),
        ] {
            fields.add_details("reasoning_details", &[piece]);
        }
        let expected = json!({ "reasoning_details": [
            { "type": "reasoning.text", "text": "They ask.", "index": 0, "format": "f", "signature": "s" },
            { "type": "reasoning.encrypted", "data": "d", "index": 1 },
            { "type": "reasoning.encrypted", "data": "e" },
        ] });
        assert_eq!(json!(*fields.take()), expected);
    }

    #[test]
    fn fields_that_are_too_long_are_not_returned() {
        let mut fields = MessageFields::default();
        let piece = "x".repeat(MAX_RETURNED_BYTES);
        fields.add_text("reasoning_content", &piece);
        assert_eq!(fields.take().len(), 1);
        fields.add_text("reasoning_content", &piece);
        fields.add_text("reasoning_content", "y");
        fields.add_text("reasoning_content", "z");
        assert!(fields.take().is_empty());
    }
}
