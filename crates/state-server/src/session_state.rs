//! World of a session: characters, places, and the current turn. Not for its rules, which are in
//! [`super::rules`], nor for storing and sending it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::dice::Dice;

/// Maximum number of characters, and of doors, in a world.
pub(super) const MAX_THINGS: usize = 200;

/// State of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct World {
    /// Name of the session, for users.
    pub name: String,
    /// Place of the players.
    pub location: String,
    /// Minutes since the start of the game.
    pub minutes: u64,
    /// Current fight, if there is one.
    pub combat: Option<Combat>,
    /// Characters by id.
    pub characters: BTreeMap<String, Character>,
    /// Ids of the doors that are open.
    pub open_doors: Vec<String>,
    /// Random generator. Clients do not see it.
    pub dice: Dice,
}

/// Character in the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Character {
    /// Id, for example `goblin_1`.
    pub id: String,
    /// Name, for users.
    pub name: String,
    /// `player`, `npc` or `monster`.
    pub kind: String,
    /// Hit points left.
    pub hp: i64,
    /// Hit points when unhurt.
    pub hp_max: i64,
    /// Minimum attack total that hits the character.
    pub armor_class: i64,
    /// Bonus of the character's attacks.
    pub attack_bonus: i64,
    /// Damage of the character's hits, for example `1d8+3`.
    pub damage: String,
    /// X coordinate, in squares from the map's corner.
    pub x: i64,
    /// Y coordinate, in squares from the map's corner.
    pub y: i64,
    /// True if the player rolls dice at the table.
    pub rolls_own_dice: bool,
}

/// A fight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Combat {
    /// Round, counted from 1.
    pub round: u64,
    /// Characters in the fight with their initiative, the first to act first.
    pub order: Vec<(String, i64)>,
    /// Index in `order` of the character whose turn it is.
    pub turn: usize,
}

impl World {
    /// Creates a world without characters.
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

    /// Returns the state for clients, without its version.
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

    /// Returns the time in the game, for example `day 1, 08:00`.
    pub fn game_time(&self) -> String {
        let day = self.minutes / 1_440 + 1;
        let minute = self.minutes % 1_440;
        format!("day {day}, {:02}:{:02}", minute / 60, minute % 60)
    }

    /// Returns the fight for clients, even if there is none.
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
    /// Returns true if the character cannot act any more.
    pub fn is_down(&self) -> bool {
        self.hp <= 0
    }

    /// Returns the character for clients.
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
