//! What the server offers: each tool's name, what it does, and the schema of its arguments. What
//! they do is in [`super::rules`].

use serde_json::{Map, Value, json};

/// The answer of `GET /tools`.
pub fn list() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let number = |about: &str| json!({ "type": "integer", "description": about });
    let id = |about: &str| text(about);
    let tools = [
        tool(
            "roll_dice",
            "Rolls dice.",
            &["dice"],
            &[("dice", text("Such as 1d20 or 2d6+3.")), ("character_id", id("Who rolls."))],
        ),
        tool(
            "create_character",
            "Puts somebody into the world.",
            &["name"],
            &[
                ("name", text("What people call them.")),
                ("id", id("Their id; left out, it is made from the name: goblin_1.")),
                ("kind", one_of(&["player", "npc", "monster"])),
                ("hp_max", number("Hit points when unhurt, 10 if left out.")),
                ("armor_class", number("An attack hits that reaches this, 12 if left out.")),
                ("attack_bonus", number("Added to their attacks, 3 if left out.")),
                ("damage", text("Dice of their hits, 1d6+1 if left out.")),
                ("x", number("Where they stand.")),
                ("y", number("Where they stand.")),
                (
                    "rolls_own_dice",
                    json!({ "type": "boolean", "description": "The player rolls for their attacks." }),
                ),
            ],
        ),
        tool(
            "update_hp",
            "Hurts or heals somebody.",
            &["character_id", "change"],
            &[
                ("character_id", id("Who.")),
                ("change", number("Hit points to add; below 0 hurts.")),
            ],
        ),
        tool(
            "move_character",
            "Moves somebody on the map.",
            &["character_id", "x", "y"],
            &[("character_id", id("Who.")), ("x", number("Where to.")), ("y", number("Where to."))],
        ),
        tool("list_characters", "Tells who is in the world and how they are.", &[], &[]),
        tool(
            "open_door",
            "Opens a door.",
            &["door_id"],
            &[("door_id", id("Which.")), ("character_id", id("Who opens it."))],
        ),
        tool(
            "travel_to",
            "Takes the players to another place.",
            &["location"],
            &[
                ("location", text("Where to.")),
                ("minutes", number("How long it takes, 10 if left out.")),
            ],
        ),
        tool(
            "start_combat",
            "Begins a fight: rolls initiative and sets the order of turns.",
            &[],
            &[(
                "participants",
                json!({ "type": "array", "items": { "type": "string" }, "description": "Ids of who fights; left out, all who stand." }),
            )],
        ),
        tool(
            "resolve_attack",
            "Resolves an attack. Where the answer has requires_roll, ask the player to roll, then call again with what fell as roll.",
            &["attacker_id", "target_id"],
            &[
                ("attacker_id", id("Who attacks.")),
                ("target_id", id("Who is attacked.")),
                ("attack_type", one_of(&["melee", "ranged"])),
                ("advantage", one_of(&["none", "advantage", "disadvantage"])),
                ("roll", number("What fell on the player's own d20, without the bonus.")),
            ],
        ),
        tool("next_turn", "Ends the turn of whose it is.", &[], &[]),
        tool("end_combat", "Ends the fight.", &[], &[]),
    ];
    json!({ "tools": tools })
}

fn tool(name: &str, description: &str, required: &[&str], arguments: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        arguments.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let parameters = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "name": name, "description": description, "parameters": parameters })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}
