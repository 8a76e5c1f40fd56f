//! Tools of the server: each one's name, description, and the schema of its arguments. Not for
//! their effects, which are in [`super::rules`].

use serde_json::{Map, Value, json};

/// Returns the answer of `GET /tools`.
pub fn list() -> Value {
    let tools: Vec<Value> = of_the_world().into_iter().chain(of_fights()).collect();
    json!({ "tools": tools })
}

fn of_the_world() -> [Value; 7] {
    let own_dice =
        json!({ "type": "boolean", "description": "The player rolls for their attacks." });
    let roll = [("dice", text("Such as 1d20 or 2d6+3.")), ("character_id", text("Who rolls."))];
    let created = [
        ("name", text("What people call them.")),
        ("id", text("Their id; left out, it is made from the name: goblin_1.")),
        ("kind", one_of(&["player", "npc", "monster"])),
        ("hp_max", number("Hit points when unhurt, 10 if left out.")),
        ("armor_class", number("An attack hits that reaches this, 12 if left out.")),
        ("attack_bonus", number("Added to their attacks, 3 if left out.")),
        ("damage", text("Dice of their hits, 1d6+1 if left out.")),
        ("x", number("Where they stand.")),
        ("y", number("Where they stand.")),
        ("rolls_own_dice", own_dice),
    ];
    let hurt =
        [("character_id", text("Who.")), ("change", number("Hit points to add; below 0 hurts."))];
    let moved =
        [("character_id", text("Who.")), ("x", number("Where to.")), ("y", number("Where to."))];
    let door = [("door_id", text("Which.")), ("character_id", text("Who opens it."))];
    let way = [
        ("location", text("Where to.")),
        ("minutes", number("How long it takes, 10 if left out.")),
    ];
    [
        tool("roll_dice", "Rolls dice.", &["dice"], roll),
        tool("create_character", "Puts somebody into the world.", &["name"], created),
        tool("update_hp", "Hurts or heals somebody.", &["character_id", "change"], hurt),
        tool("move_character", "Moves somebody on the map.", &["character_id", "x", "y"], moved),
        tool("list_characters", "Tells who is in the world and how they are.", &[], []),
        tool("open_door", "Opens a door.", &["door_id"], door),
        tool("travel_to", "Takes the players to another place.", &["location"], way),
    ]
}

fn of_fights() -> [Value; 4] {
    let participants = json!({
        "type": "array", "items": { "type": "string" },
        "description": "Ids of who fights; left out, all who stand.",
    });
    let attack = [
        ("attacker_id", text("Who attacks.")),
        ("target_id", text("Who is attacked.")),
        ("attack_type", one_of(&["melee", "ranged"])),
        ("advantage", one_of(&["none", "advantage", "disadvantage"])),
        ("roll", number("What fell on the player's own d20, without the bonus.")),
    ];
    let begin = "Begins a fight: rolls initiative and sets the order of turns.";
    let resolve = "Resolves an attack. Where the answer has requires_roll, ask the player to \
                   roll, then call again with what fell as roll.";
    [
        tool("start_combat", begin, &[], [("participants", participants)]),
        tool("resolve_attack", resolve, &["attacker_id", "target_id"], attack),
        tool("next_turn", "Ends the turn of whose it is.", &[], []),
        tool("end_combat", "Ends the fight.", &[], []),
    ]
}

fn tool<const N: usize>(
    name: &str,
    description: &str,
    required: &[&str],
    arguments: [(&str, Value); N],
) -> Value {
    let properties: Map<String, Value> =
        arguments.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let parameters = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "name": name, "description": description, "parameters": parameters })
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn number(about: &str) -> Value {
    json!({ "type": "integer", "description": about })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}
