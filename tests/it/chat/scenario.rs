//! The scenario of the document, a fight in a dungeon, from start to end. Not for its parts.

use serde_json::{Value, json};

use super::Table;
use super::events::Watcher;

#[actix_web::test]
async fn a_fight_can_be_played_to_its_end() {
    let table = Table::start().await;
    let session = table.session().await;
    let mut watcher = Watcher::connect(&table, &session.id, "").await;
    assert_eq!(watcher.next().await["type"], "connected");
    let (status, state) = session.get("/state").await;
    assert_eq!((status, &state["session_id"]), (200, &json!(session.id)));
    assert_eq!(session.get("/combat").await.1["active"], false);
    // The party gathers: several concurrent tools in one round.
    let gather = "call create_character {\"name\": \"Hero\", \"id\": \"hero\", \"kind\": \"player\", \"hp_max\": 30, \"attack_bonus\": 15, \"damage\": \"1d4+1\"}\n\
        call create_character {\"name\": \"Goblin\", \"id\": \"goblin_1\", \"kind\": \"monster\", \"hp_max\": 13}\n\
        call travel_to {\"location\": \"地下城\"}";
    let told = session.say(gather).await;
    assert!(told["response"].as_str().unwrap().starts_with("You said "), "{told}");
    assert_eq!(session.get("/characters").await.1["characters"].as_array().unwrap().len(), 2);
    assert_eq!(session.get("/state").await.1["location"], "地下城");
    let told = session.say("call start_combat {}").await;
    assert_eq!(told["turn_info"]["active"], true, "{told}");
    assert_eq!(told["turn_info"]["round"], 1);
    assert_eq!(session.get("/combat").await.1["active"], true);
    let whose = told["turn_info"]["current_turn"].as_str().unwrap().to_owned();
    if whose != "hero" {
        let told = session.say("call next_turn {}").await;
        assert_eq!(told["turn_info"]["current_turn"], "hero");
    }
    let attack = r#"call resolve_attack {"attacker_id": "hero", "target_id": "goblin_1", "attack_type": "melee"}"#;
    let told = session.say(attack).await;
    let goblin = &told["state_changes"]["goblin_1"];
    assert_eq!(goblin["hp_max"], 13, "{told}");
    assert!(goblin["hp"].as_i64().unwrap() < 13, "{told}");
    assert_eq!(told["requires_roll"], false);
    let told = session.say("call end_combat {}").await;
    assert!(told.get("turn_info").is_none(), "{told}");
    // The watcher received all events, in order, and none of other sessions.
    let other = table.session().await;
    other.say("call roll_dice {\"dice\": \"1d6\"}").await;
    session.say("thanks").await;
    let events = watcher.until("chat.answered", "thanks").await;
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    for kind in ["combat.started", "combat.attack_resolved", "character.hp_changed"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    let begun = kinds.iter().position(|k| *k == "combat.started").unwrap();
    let hit = kinds.iter().position(|k| *k == "combat.attack_resolved").unwrap();
    assert!(begun < hit);
    assert!(events.iter().all(|e| e["session_id"] == json!(session.id)));
    assert!(
        !kinds.contains(&"dice.rolled")
            || kinds.iter().filter(|k| **k == "dice.rolled").count() < 8
    );
    let ids: std::collections::HashSet<&Value> = events.iter().map(|e| &e["id"]).collect();
    assert_eq!(ids.len(), events.len(), "each once");
    table.server.stop().await;
}

#[actix_web::test]
async fn a_player_rolls_for_themselves() {
    let table = Table::start().await;
    let session = table.session().await;
    session
        .say("call create_character {\"name\": \"Hero\", \"id\": \"hero\", \"kind\": \"player\", \"rolls_own_dice\": true}\ncall create_character {\"name\": \"Goblin\", \"id\": \"goblin_1\"}")
        .await;
    let attack = r#"call resolve_attack {"attacker_id": "hero", "target_id": "goblin_1"}"#;
    assert_eq!(session.say(attack).await["requires_roll"], true);
    let attack =
        r#"call resolve_attack {"attacker_id": "hero", "target_id": "goblin_1", "roll": 20}"#;
    assert_eq!(session.say(attack).await["requires_roll"], false);
    table.server.stop().await;
}
