//! Characters as calls change them, and the outcome of a call. Not for the calls.

use serde_json::{Map, Value, json};

use super::arguments::CallError;
use super::session_state::{Character, World};

/// Outcome of a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallOutcome {
    /// Result for the model: a description, and `state_changes` by the changed thing.
    pub result: Map<String, Value>,
    /// Events in the world, in order: type and details.
    pub events: Vec<(&'static str, Value)>,
}

impl CallOutcome {
    pub(super) fn new(result: Value) -> Self {
        let result = match result {
            Value::Object(result) => result,
            other => Map::from_iter([("result".to_owned(), other)]),
        };
        Self { result, events: Vec::new() }
    }

    #[must_use]
    pub(super) fn event(mut self, kind: &'static str, about: Value) -> Self {
        self.events.push((kind, about));
        self
    }

    /// Adds the new state of one thing to `state_changes`.
    #[must_use]
    pub(super) fn changed(mut self, what: &str, now: Value) -> Self {
        let changes = self.result.entry("state_changes").or_insert_with(|| json!({}));
        if let Some(changes) = changes.as_object_mut() {
            changes.insert(what.to_owned(), now);
        }
        self
    }
}

/// Changes a character's hit points within their bounds, and adds the events.
pub(super) fn hurt(
    who: &mut Character,
    change: i64,
    outcome: CallOutcome,
) -> Result<CallOutcome, CallError> {
    let was_down = who.is_down();
    who.hp = (who.hp + change).clamp(0, who.hp_max);
    let points = json!({ "hp": who.hp, "hp_max": who.hp_max });
    let about = json!({
        "character_id": who.id, "hp": who.hp, "hp_max": who.hp_max, "change": change,
    });
    let mut outcome = outcome.changed(&who.id, points).event("character.hp_changed", about);
    outcome.result.insert("hp".into(), who.hp.into());
    if who.is_down() && !was_down {
        outcome = outcome.event("combat.character_downed", json!({ "character_id": who.id }));
    }
    Ok(outcome)
}

/// Returns the character with this id.
pub(super) fn character<'a>(
    world: &'a mut World,
    id: &str,
) -> Result<&'a mut Character, CallError> {
    let nobody = || CallError::Rules(format!("there is no character `{id}`"));
    world.characters.get_mut(id).ok_or_else(nobody)
}
