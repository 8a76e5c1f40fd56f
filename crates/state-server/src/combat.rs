//! Combat: initiative, turns and attacks, by the fifth edition's rules in their simplest form.

use serde_json::{Value, json};

use super::arguments::{Arguments, CallError};
use super::characters::{CallOutcome, character, hurt};
use super::dice::Throw;
use super::session_state::{Combat, World};

const D20: Throw = Throw { count: 1, sides: 20, modifier: 0 };

/// Starts a fight between the named characters, or else all that are not down.
pub(super) fn start(world: &mut World, arguments: Arguments<'_>) -> Result<CallOutcome, CallError> {
    if world.combat.is_some() {
        return Err(CallError::Rules("there is a fight already".into()));
    }
    let named = arguments.names("participants")?;
    for id in &named {
        character(world, id)?;
    }
    let standing = world.characters.values().filter(|who| !who.is_down());
    let fighters: Vec<String> = standing
        .filter(|who| named.is_empty() || named.contains(&who.id.as_str()))
        .map(|who| who.id.clone())
        .collect();
    if fighters.len() < 2 {
        return Err(CallError::Rules(
            "a fight needs two characters that can act: create them first".into(),
        ));
    }
    let mut order: Vec<(String, i64)> = Vec::new();
    for id in fighters {
        order.push((id, world.dice.throw(D20).total));
    }
    // Characters with equal initiative are ordered by their ids.
    order.sort_by_key(|(_, initiative)| std::cmp::Reverse(*initiative));
    world.combat = Some(Combat { round: 1, order, turn: 0 });
    let fight = world.combat_shown();
    let outcome =
        CallOutcome::new(json!({ "combat": fight })).event("combat.started", fight.clone());
    Ok(outcome.changed("combat", fight))
}

/// Attacks another character. Players who roll their own dice are asked to roll first.
pub(super) fn attack(
    world: &mut World,
    arguments: Arguments<'_>,
) -> Result<CallOutcome, CallError> {
    let from = arguments.name("attacker_id")?;
    let at = arguments.name("target_id")?;
    let kind = arguments.name_or("attack_type", "melee")?;
    let attacker = character(world, from)?.clone();
    let target = character(world, at)?.clone();
    if attacker.is_down() || target.is_down() {
        let who = if attacker.is_down() { from } else { at };
        return Err(CallError::Rules(format!("`{who}` is down")));
    }
    let own = arguments.number("roll")?;
    if own.is_some_and(|roll| !(1..=20).contains(&roll)) {
        return Err(CallError::Argument("roll", "what fell on a d20, 1 to 20"));
    }
    if attacker.rolls_own_dice && own.is_none() {
        let dice = format!("1d20{:+}", attacker.attack_bonus);
        return Ok(CallOutcome::new(json!({
            "requires_roll": true,
            "roll": { "character_id": from, "dice": dice, "reason": "attack" },
            "target_id": at,
        })));
    }
    let natural = match own {
        Some(roll) => roll,
        None => throw_d20(world, arguments.name_or("advantage", "none")?)?,
    };
    let damage = Throw::parse(&attacker.damage).unwrap_or(D20);
    let hit =
        natural == 20 || natural != 1 && natural + attacker.attack_bonus >= target.armor_class;
    let dealt = match (hit, natural) {
        (false, _) => 0,
        (true, 20) => world.dice.throw(damage.doubled()).total.max(0),
        (true, _) => world.dice.throw(damage).total.max(0),
    };
    let result = json!({
        "attacker_id": from, "target_id": at, "attack_type": kind, "hit": hit,
        "critical": natural == 20, "natural_roll": natural,
        "attack_roll": natural + attacker.attack_bonus, "damage": dealt,
    });
    let outcome = CallOutcome::new(result.clone()).event("combat.attack_resolved", result);
    if hit { hurt(character(world, at)?, -dealt, outcome) } else { Ok(outcome) }
}

/// Rolls a d20: the better of two with an advantage, the worse of two with a disadvantage.
fn throw_d20(world: &mut World, advantage: &str) -> Result<i64, CallError> {
    let first = world.dice.throw(D20).total;
    match advantage {
        "none" => Ok(first),
        "advantage" => Ok(first.max(world.dice.throw(D20).total)),
        "disadvantage" => Ok(first.min(world.dice.throw(D20).total)),
        _ => Err(CallError::Argument("advantage", "none, advantage or disadvantage")),
    }
}

/// Gives the turn to the next character that is not down. After the last, a new round starts.
pub(super) fn next_turn(world: &mut World) -> Result<CallOutcome, CallError> {
    let down =
        |id: &str| world.characters.get(id).is_none_or(super::session_state::Character::is_down);
    let Some(combat) = &world.combat else { return Err(no_fight()) };
    let fighters = combat.order.len();
    let next = (1..=fighters)
        .map(|step| combat.turn + step)
        .find(|place| !down(&combat.order[place % fighters].0))
        .ok_or_else(|| CallError::Rules("all characters are down: end the fight".into()))?;
    if let Some(combat) = &mut world.combat {
        combat.round += u64::from(next >= fighters);
        combat.turn = next % fighters;
    }
    let fight = world.combat_shown();
    let result = json!({ "round": fight["round"], "current_turn": fight["current_turn"] });
    Ok(CallOutcome::new(result).changed("combat", fight))
}

/// Ends the fight.
pub(super) fn end(world: &mut World) -> Result<CallOutcome, CallError> {
    let fight = world.combat.take().ok_or_else(no_fight)?;
    let standing: Vec<Value> = fight
        .order
        .iter()
        .filter(|(id, _)| world.characters.get(id).is_some_and(|who| !who.is_down()))
        .map(|(id, _)| id.as_str().into())
        .collect();
    let result = json!({ "rounds": fight.round, "standing": standing });
    Ok(CallOutcome::new(result).changed("combat", world.combat_shown()))
}

fn no_fight() -> CallError {
    CallError::Rules("there is no fight: start_combat starts one".into())
}
