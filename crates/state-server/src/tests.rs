//! Tests of the rules and of stored versions, without a socket.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::characters::CallOutcome;
use super::rules::act;
use super::session_state::World;
use super::storage::{PAST_VERSIONS, Storage, StorageError};
use super::{CallError, tools};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn did(world: &mut World, tool: &str, arguments: Value) -> CallOutcome {
    act(world, tool, &object(arguments)).unwrap()
}

fn why_not(world: &World, tool: &str, arguments: Value) -> String {
    act(&mut world.clone(), tool, &object(arguments)).unwrap_err().to_string()
}

fn kinds(outcome: &CallOutcome) -> Vec<&str> {
    outcome.events.iter().map(|(kind, _)| *kind).collect()
}

/// Creates a world with a hero, and a goblin that any hit defeats.
fn dungeon() -> World {
    let mut world = World::new("dungeon", 1);
    did(
        &mut world,
        "create_character",
        json!({
            "id": "hero", "name": "Ada", "kind": "player", "attack_bonus": 30, "damage": "2d6+13",
        }),
    );
    did(&mut world, "create_character", json!({ "name": "Goblin", "hp_max": 13 }));
    world
}

#[test]
fn a_fight_has_rounds_until_it_is_over() {
    let mut world = dungeon();
    let outcome = did(&mut world, "start_combat", json!({}));
    assert_eq!(kinds(&outcome), ["combat.started"]);
    let fight = world.combat_shown();
    assert_eq!((&fight["active"], &fight["round"]), (&json!(true), &json!(1)));
    let first = fight["current_turn"].clone();
    did(&mut world, "next_turn", json!({}));
    assert_ne!(world.combat_shown()["current_turn"], first);
    did(&mut world, "next_turn", json!({}));
    let fight = world.combat_shown();
    assert_eq!((&fight["current_turn"], &fight["round"]), (&first, &json!(2)));
    assert!(why_not(&world, "travel_to", json!({ "location": "x" })).contains("fight"));
    let blow = json!({ "attacker_id": "hero", "target_id": "goblin_1", "roll": 10 });
    let outcome = did(&mut world, "resolve_attack", blow.clone());
    let expected = ["combat.attack_resolved", "character.hp_changed", "combat.character_downed"];
    assert_eq!(kinds(&outcome), expected);
    assert_eq!(outcome.result["state_changes"], json!({ "goblin_1": { "hp": 0, "hp_max": 13 } }));
    assert_eq!(
        (&outcome.result["hit"], &outcome.result["attack_roll"]),
        (&json!(true), &json!(40))
    );
    assert_eq!(why_not(&world, "resolve_attack", blow), "`goblin_1` is down");
    // Only one character is not down: the turn returns to it, in a new round.
    did(&mut world, "next_turn", json!({}));
    assert_eq!(world.combat_shown()["current_turn"], "hero");
    let outcome = did(&mut world, "end_combat", json!({}));
    assert_eq!(outcome.result["standing"], json!(["hero"]));
    assert_eq!(world.combat_shown()["active"], false);
}

#[test]
fn attacks_follow_the_rolls() {
    let mut world = dungeon();
    let mut blow = |roll: i64| {
        did(&mut world, "update_hp", json!({ "character_id": "goblin_1", "change": 13 }));
        let about = json!({ "attacker_id": "hero", "target_id": "goblin_1", "roll": roll });
        did(&mut world, "resolve_attack", about).result
    };
    assert_eq!((&blow(1)["hit"], &blow(1)["damage"]), (&json!(false), &json!(0)));
    let hit = blow(2)["damage"].as_i64().unwrap();
    assert!((15..=25).contains(&hit), "{hit}");
    let critical = blow(20);
    assert_eq!(critical["critical"], true);
    assert!((17..=37).contains(&critical["damage"].as_i64().unwrap()));
}

#[test]
fn players_who_roll_their_own_dice_are_asked_to_roll() {
    let mut world = dungeon();
    let player = json!({ "id": "bo", "name": "Bo", "kind": "player", "rolls_own_dice": true });
    did(&mut world, "create_character", player);
    let before = world.clone();
    let blow = json!({ "attacker_id": "bo", "target_id": "goblin_1" });
    let outcome = did(&mut world, "resolve_attack", blow);
    assert_eq!(outcome.result["requires_roll"], true);
    assert_eq!(outcome.result["roll"]["dice"], "1d20+3");
    assert_eq!((world, outcome.events.len()), (before, 0));
}

#[test]
fn the_rest_of_the_world_can_be_changed_too() {
    let mut world = dungeon();
    assert_eq!(kinds(&did(&mut world, "roll_dice", json!({ "dice": "2d6+3" }))), ["dice.rolled"]);
    let outcome =
        did(&mut world, "move_character", json!({ "character_id": "hero", "x": 3, "y": "4" }));
    assert_eq!(kinds(&outcome), ["character.moved"]);
    assert_eq!(outcome.result["state_changes"]["hero"]["position"], json!({ "x": 3, "y": 4 }));
    let outcome = did(&mut world, "move_character", json!({ "character_id": "hero", "x": 3 }));
    assert_eq!(kinds(&outcome), [""; 0]);
    let door = || json!({ "door_id": "gate" });
    assert_eq!(kinds(&did(&mut world, "open_door", door())), ["map.door_opened"]);
    assert_eq!(kinds(&did(&mut world, "open_door", door())), [""; 0]);
    did(&mut world, "travel_to", json!({ "location": "地下城", "minutes": 1_000 }));
    let state = world.shown("s");
    assert_eq!(
        (&state["location"], &state["game_time"]),
        (&json!("地下城"), &json!("day 2, 00:40"))
    );
    assert_eq!(state["characters"].as_array().unwrap().len(), 2);
    did(&mut world, "create_character", json!({ "name": "哥布林" }));
    did(&mut world, "create_character", json!({ "name": "Goblin" }));
    assert!(
        world.characters.contains_key("character_1") && world.characters.contains_key("goblin_2")
    );
    let healed = did(&mut world, "update_hp", json!({ "character_id": "hero", "change": 99 }));
    assert_eq!(healed.result["hp"], 10);
}

#[test]
fn refused_calls_have_a_reason() {
    let world = dungeon();
    for (tool, arguments, why) in [
        ("dance", json!({}), "there is no tool `dance`: GET /tools lists what there is"),
        ("roll_dice", json!({ "dice": "many" }), "`dice` must be dice such as 2d6+3"),
        ("update_hp", json!({ "character_id": "hero" }), "`change` must be a whole number"),
        ("update_hp", json!({ "character_id": "x", "change": 1 }), "there is no character `x`"),
        ("create_character", json!({}), "`name` must be a text of 1 to 100 characters"),
        (
            "create_character",
            json!({ "name": "B", "id": "hero" }),
            "there is a character `hero` already",
        ),
        ("next_turn", json!({}), "there is no fight: start_combat starts one"),
        (
            "start_combat",
            json!({ "participants": ["hero"] }),
            "a fight needs two characters that can act: create them first",
        ),
    ] {
        assert_eq!(why_not(&world, tool, arguments), why);
    }
}

#[test]
fn the_same_seed_plays_the_same_game() {
    let play = |seed| {
        let mut world = World::new("w", seed);
        let mut told = Vec::new();
        for _ in 0..5 {
            told.push(did(&mut world, "roll_dice", json!({ "dice": "10d100" })).result);
        }
        told
    };
    assert_eq!(play(3), play(3));
    assert_ne!(play(3), play(4));
}

#[test]
fn versions_guard_a_session_and_can_be_restored() {
    let storage = Storage::new(Some(1));
    assert_eq!(storage.create("s", "w"), Ok(1));
    assert_eq!(storage.create("s", "w"), Err(StorageError::Taken));
    let call = |tool: &str, arguments: Value, version| {
        storage.call("s", tool, &object(arguments), version).map(|(_, version)| version)
    };
    let goblin = || json!({ "name": "Goblin" });
    assert_eq!(call("create_character", goblin(), Some(1)), Ok(2));
    assert_eq!(call("create_character", goblin(), Some(1)), Err(StorageError::Conflict(2)));
    // A roll of dice is not a visible change, and neither is a failed call.
    assert_eq!(call("roll_dice", json!({ "dice": "1d6" }), Some(2)), Ok(2));
    let failed = call("open_door", json!({}), None);
    assert!(
        matches!(failed, Err(StorageError::CallError(CallError::Argument("door_id", _)))),
        "{failed:?}"
    );
    assert_eq!(call("create_character", goblin(), None), Ok(3));
    assert_eq!(storage.restore("s", 1), Ok(4));
    let state = storage.state("s").unwrap();
    assert_eq!((&state["version"], &state["characters"]), (&json!(4), &json!([])));
    assert!(matches!(storage.restore("s", 99), Err(StorageError::Unknown(_))));
    for n in 0..PAST_VERSIONS {
        call("open_door", json!({ "door_id": n.to_string() }), None).unwrap();
    }
    assert!(matches!(storage.restore("s", 3), Err(StorageError::Unknown(_))));
    assert_eq!(storage.delete("s"), Ok(()));
    assert!(matches!(storage.state("s"), Err(StorageError::Unknown(_))));
}

#[test]
fn worlds_are_restored_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worlds.json");
    let storage = Storage::in_file(Some(1), &file).unwrap();
    storage.create("s", "w").unwrap();
    storage.call("s", "open_door", &object(json!({ "door_id": "gate" })), None).unwrap();
    let again = Storage::in_file(None, &file).unwrap();
    assert_eq!(again.state("s"), storage.state("s"));
    assert_eq!(again.restore("s", 1), Ok(3));
    std::fs::write(&file, "no JSON").unwrap();
    assert!(Storage::in_file(None, &file).is_err());
}

#[test]
fn every_offered_tool_exists_and_has_an_open_schema() {
    let list = tools::list();
    for tool in list["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let mut world = dungeon();
        let tried = act(&mut world, name, &Map::new());
        assert!(!matches!(tried, Err(CallError::NoTool(_))), "{name}");
        assert!(jsonschema_like(&tool["parameters"]), "{name}");
    }
}

/// Returns true for an object schema whose required arguments are all described.
fn jsonschema_like(schema: &Value) -> bool {
    let required = schema["required"].as_array().unwrap();
    schema["type"] == "object"
        && required.iter().all(|name| schema["properties"][name.as_str().unwrap()].is_object())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_sequence_of_calls_breaks_the_world(moves in prop::collection::vec(
        (0_usize..11, "[abh]{0,2}", -40_i64..40, 0_usize..3), 1..60)) {
        let list = tools::list();
        let names: Vec<&str> =
            list["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        let mut world = dungeon();
        for (tool, text, number, who) in moves {
            let id = ["hero", "goblin_1", "nobody"][who];
            let arguments = json!({
                "name": text, "character_id": id, "attacker_id": "hero", "target_id": id,
                "door_id": text, "location": text, "dice": "3d6", "change": number, "x": number,
            });
            let mut after = world.clone();
            if act(&mut after, names[tool], &object(arguments)).is_ok() {
                world = after;
            }
            for who in world.characters.values() {
                prop_assert!((0..=who.hp_max).contains(&who.hp));
            }
            if let Some(fight) = &world.combat {
                prop_assert!(fight.turn < fight.order.len());
            }
        }
    }
}
