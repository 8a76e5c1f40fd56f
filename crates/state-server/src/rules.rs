//! Rules of a world outside combat. Pure: a world and a call in; a changed world, an answer and
//! events out. Combat is in `combat`.

use serde_json::{Map, Value, json};

use super::arguments::{Arguments, CallError};
use super::characters::{CallOutcome, character, hurt};
use super::combat;
use super::session_state::{Character, MAX_THINGS, World};

/// Carries out a call of a tool. After an error, discard the world: it may be partially changed.
///
/// # Errors
/// There is no such tool, its arguments are wrong, or the rules do not allow it.
pub fn act(
    world: &mut World,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<CallOutcome, CallError> {
    let arguments = Arguments(arguments);
    match tool {
        "roll_dice" => roll_dice(world, arguments),
        "create_character" => create_character(world, arguments),
        "update_hp" => update_hp(world, arguments),
        "move_character" => move_character(world, arguments),
        "list_characters" => Ok(list_characters(world)),
        "open_door" => open_door(world, arguments),
        "travel_to" => travel_to(world, arguments),
        "start_combat" => combat::start(world, arguments),
        "resolve_attack" => combat::attack(world, arguments),
        "next_turn" => combat::next_turn(world),
        "end_combat" => combat::end(world),
        other => Err(CallError::NoTool(other.chars().take(100).collect())),
    }
}

fn roll_dice(world: &mut World, arguments: Arguments<'_>) -> Result<CallOutcome, CallError> {
    let (dice, throw) = arguments.dice_or("dice", "1d20")?;
    let who = arguments.name_or("character_id", "")?;
    let thrown = world.dice.throw(throw);
    let mut result = json!({ "dice": dice, "rolls": thrown.rolls, "total": thrown.total });
    if !who.is_empty() {
        result["character_id"] = who.into();
    }
    Ok(CallOutcome::new(result.clone()).event("dice.rolled", result))
}

fn create_character(world: &mut World, arguments: Arguments<'_>) -> Result<CallOutcome, CallError> {
    let name = arguments.name("name")?;
    let kind = arguments.name_or("kind", "monster")?;
    if !["player", "npc", "monster"].contains(&kind) {
        return Err(CallError::Argument("kind", "player, npc or monster"));
    }
    let id = match arguments.name_or("id", "")? {
        "" => free_id(world, name),
        id if world.characters.contains_key(id) => {
            return Err(CallError::Rules(format!("there is a character `{id}` already")));
        }
        id => id.to_owned(),
    };
    if world.characters.len() >= MAX_THINGS {
        return Err(CallError::Rules("there is no room for more characters in this world".into()));
    }
    let hp_max = arguments.number("hp_max")?.unwrap_or(10);
    if hp_max < 1 {
        return Err(CallError::Argument("hp_max", "at least 1"));
    }
    let character = Character {
        id: id.clone(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        hp: hp_max,
        hp_max,
        armor_class: arguments.number("armor_class")?.unwrap_or(12),
        attack_bonus: arguments.number("attack_bonus")?.unwrap_or(3),
        damage: arguments.dice_or("damage", "1d6+1")?.0.to_owned(),
        x: arguments.number("x")?.unwrap_or(0),
        y: arguments.number("y")?.unwrap_or(0),
        rolls_own_dice: arguments.yes("rolls_own_dice")?,
    };
    let outcome = CallOutcome::new(json!({ "character": character.shown() }))
        .changed(&id, json!({ "hp": hp_max, "hp_max": hp_max }));
    world.characters.insert(id, character);
    Ok(outcome)
}

/// Returns a free id: `goblin_1` for a goblin, `goblin_2` for the next. Characters without Latin
/// letters are numbered.
fn free_id(world: &World, name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect();
    let plain = plain.trim_matches('_');
    let stem = if plain.is_empty() { "character" } else { plain };
    let ids = (1..).map(|n| format!("{stem}_{n}"));
    ids.into_iter().find(|id| !world.characters.contains_key(id)).unwrap_or_default()
}

fn update_hp(world: &mut World, arguments: Arguments<'_>) -> Result<CallOutcome, CallError> {
    let id = arguments.name("character_id")?;
    let change =
        arguments.number("change")?.ok_or(CallError::Argument("change", "a whole number"))?;
    let outcome = CallOutcome::new(json!({ "character_id": id, "change": change }));
    hurt(character(world, id)?, change, outcome)
}

fn move_character(world: &mut World, arguments: Arguments<'_>) -> Result<CallOutcome, CallError> {
    let id = arguments.name("character_id")?;
    let who = character(world, id)?;
    if who.is_down() {
        return Err(CallError::Rules(format!("`{id}` is down and cannot move")));
    }
    let from = json!({ "x": who.x, "y": who.y });
    who.x = arguments.number("x")?.unwrap_or(who.x);
    who.y = arguments.number("y")?.unwrap_or(who.y);
    let to = json!({ "x": who.x, "y": who.y });
    let about = json!({ "character_id": id, "from": from, "to": to });
    let moved = from != to;
    let outcome = CallOutcome::new(about.clone());
    if !moved {
        return Ok(outcome);
    }
    Ok(outcome.changed(id, json!({ "position": to })).event("character.moved", about))
}

fn list_characters(world: &World) -> CallOutcome {
    let all: Vec<Value> = world.characters.values().map(Character::shown).collect();
    CallOutcome::new(json!({ "characters": all }))
}

fn open_door(world: &mut World, arguments: Arguments<'_>) -> Result<CallOutcome, CallError> {
    let id = arguments.name("door_id")?;
    if world.open_doors.iter().any(|door| door == id) {
        return Ok(CallOutcome::new(json!({ "door_id": id, "was_open": true })));
    }
    if world.open_doors.len() >= MAX_THINGS {
        return Err(CallError::Rules("no more doors can be opened in this world".into()));
    }
    world.open_doors.push(id.to_owned());
    let who = arguments.name_or("character_id", "")?;
    let about = json!({ "door_id": id, "character_id": who });
    let outcome = CallOutcome::new(json!({ "door_id": id, "was_open": false }));
    Ok(outcome.changed(id, json!({ "open": true })).event("map.door_opened", about))
}

fn travel_to(world: &mut World, arguments: Arguments<'_>) -> Result<CallOutcome, CallError> {
    if world.combat.is_some() {
        return Err(CallError::Rules("the players cannot leave during a fight".into()));
    }
    let place = arguments.name("location")?;
    let minutes = arguments.number("minutes")?.unwrap_or(10);
    let minutes =
        u64::try_from(minutes).map_err(|_| CallError::Argument("minutes", "0 or more"))?;
    world.location = place.to_owned();
    world.minutes = world.minutes.saturating_add(minutes);
    let result = json!({ "location": place, "game_time": world.game_time() });
    Ok(CallOutcome::new(result.clone()).changed("location", result))
}
