//! A session's world: who is in it, where, and whose turn it is. What may be done in it is in
//! [`super::rules`]; keeping and sending it are elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::dice::Dice;

/// Most characters, and most doors, of a world.
pub(super) const MAX_THINGS: usize = 200;

/// What is true in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct World {
    /// What people call the session.
    pub name: String,
    /// Where the players are.
    pub location: String,
    /// Since the game began.
    pub minutes: u64,
    /// Who fights, while there is a fight.
    pub combat: Option<Combat>,
    /// By their ids, in the order of the ids.
    pub characters: BTreeMap<String, Character>,
    /// Doors that somebody opened.
    pub open_doors: Vec<String>,
    /// What chance brings next; not shown.
    pub dice: Dice,
}

/// Somebody in the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Character {
    /// For example `goblin_1`.
    pub id: String,
    /// What people call them.
    pub name: String,
    /// `player`, `npc` or `monster`.
    pub kind: String,
    /// Hit points left.
    pub hp: i64,
    /// Hit points when unhurt.
    pub hp_max: i64,
    /// An attack hits that reaches this.
    pub armor_class: i64,
    /// Added to their attacks.
    pub attack_bonus: i64,
    /// What their hits cost, for example `1d8+3`.
    pub damage: String,
    /// Squares from the map's corner.
    pub x: i64,
    /// Squares from the map's corner.
    pub y: i64,
    /// The person behind them throws their dice.
    pub rolls_own_dice: bool,
}

/// A fight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Combat {
    /// Counted from 1.
    pub round: u64,
    /// Who fights and their initiative, the first to act first.
    pub order: Vec<(String, i64)>,
    /// Whose turn it is, as a place in the order.
    pub turn: usize,
}

impl World {
    /// An empty world in which nobody is yet.
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            location: "the entrance".into(),
            minutes: 8 * 60,
            combat: None,
            characters: BTreeMap::new(),
            open_doors: Vec::new(),
            dice: Dice::new(seed),
        }
    }

    /// What a client sees of it, but for its version.
    pub fn shown(&self, session: &str) -> Map<String, Value> {
        let characters: Vec<Value> = self.characters.values().map(Character::shown).collect();
        let state = json!({
            "session_id": session,
            "name": self.name,
            "location": self.location,
            "game_time": self.game_time(),
            "combat": self.combat_shown(),
            "characters": characters,
            "open_doors": self.open_doors,
        });
        match state {
            Value::Object(state) => state,
            _ => Map::new(),
        }
    }

    /// For example `day 1, 08:00`.
    pub fn game_time(&self) -> String {
        let (day, minute) = (self.minutes / 1_440 + 1, self.minutes % 1_440);
        format!("day {day}, {:02}:{:02}", minute / 60, minute % 60)
    }

    /// The fight as clients see it; also when there is none.
    pub fn combat_shown(&self) -> Value {
        let Some(combat) = &self.combat else {
            return json!({ "active": false, "round": 0, "current_turn": null, "order": [] });
        };
        let order: Vec<Value> = combat
            .order
            .iter()
            .map(|(id, initiative)| json!({ "id": id, "initiative": initiative }))
            .collect();
        json!({
            "active": true,
            "round": combat.round,
            "current_turn": combat.order.get(combat.turn).map(|(id, _)| id),
            "order": order,
        })
    }
}

impl Character {
    /// They cannot act any more.
    pub fn is_down(&self) -> bool {
        self.hp <= 0
    }

    /// What a client sees of them.
    pub fn shown(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "hp": self.hp,
            "hp_max": self.hp_max,
            "armor_class": self.armor_class,
            "attack_bonus": self.attack_bonus,
            "damage": self.damage,
            "position": { "x": self.x, "y": self.y },
            "down": self.is_down(),
        })
    }
}
