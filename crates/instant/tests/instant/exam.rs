//! Plays the household exam, where its folder is on this machine: which of the expected calls are planned, and that no other is.
//! Not for the words of answers, which the exam's own program judges.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hearken_instant::{Answers, Call, Context};
use serde_json::Value;

use crate::support::{Tool, bind, now, play};

/// Returns the folder of the exam; `None` elsewhere.
fn folder() -> Option<PathBuf> {
    let folder: PathBuf = ["/", "work", "shared", "data", "household"].iter().collect();
    folder.join("exam.jsonl").exists().then_some(folder)
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(folder()?.join(file)).ok()
}

/// Returns the items of the exam.
pub(crate) fn items() -> Option<Vec<Value>> {
    let text = read("exam.jsonl")?;
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Returns the houses of the exam.
pub(crate) fn houses() -> Option<Value> {
    Some(serde_json::from_str(&read("settings.json")?).unwrap())
}

fn tools(house: &Value) -> Vec<Tool> {
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let tool = |tool: &Value| Tool {
        name: text(tool, "name"),
        description: text(tool, "description"),
        parameters: tool["parameters"].clone(),
    };
    house["tools"].as_array().unwrap().iter().map(tool).collect()
}

/// Answers of the tools that read, from the state of a house.
fn state_of(house: &Value, changed: &Value, tool: &str) -> Option<String> {
    let all = house["tools"].as_array().unwrap();
    let kind = all.iter().find(|one| one["name"] == tool)?["impl"].as_str()?.to_owned();
    let mut state = house["state"].clone();
    for (key, value) in changed.as_object().into_iter().flatten() {
        state[key] = value.clone();
    }
    match kind.as_str() {
        "status" => Some(
            serde_json::json!({"audio_speaker": {"volume": state["volume"]}, "screen": {"brightness": state["brightness"], "theme": "light"},
                               "battery": {"level": 85}})
            .to_string(),
        ),
        "lights" => Some(state["lights"].to_string()),
        "temperature" | "timers" | "device_info" => Some("{}".to_owned()),
        "ha_context" => {
            let mut text = "Live Context: An overview of the areas and the devices in this smart home:\n".to_owned();
            for (key, entity) in state["entities"].as_object().unwrap() {
                let domain = key.split('.').next().unwrap();
                text.push_str(&format!(
                    "- names: {}\n  domain: {domain}\n  state: {}\n  areas: {}\n",
                    entity["name"].as_str().unwrap(),
                    entity["state"],
                    entity["area_name"].as_str().unwrap()
                ));
                for name in ["brightness", "position", "target", "current", "volume"] {
                    if let Some(value) = entity.get(name) {
                        text.push_str(&format!("  {name}: '{value}'\n"));
                    }
                }
            }
            Some(serde_json::json!({"success": true, "result": text}).to_string())
        }
        _ => None,
    }
}

const ROOMS: [(&str, &[&str]); 6] = [
    ("living room", &["living room", "客厅"]),
    ("kitchen", &["kitchen", "厨房"]),
    ("bedroom", &["bedroom", "卧室"]),
    ("study", &["study", "书房"]),
    ("hall", &["hall", "走廊"]),
    ("kids room", &["kids room", "儿童房"]),
];

fn is_argument(wanted: &Value, value: &Value) -> bool {
    if let Some(room) = wanted.get("room").and_then(Value::as_str) {
        let names = ROOMS.iter().find(|entry| entry.0 == room).map_or(&[][..], |entry| entry.1);
        return value.as_str().is_some_and(|value| names.contains(&value));
    }
    if let Some(range) = wanted.get("range") {
        return value.as_f64().is_some_and(|value| {
            value >= range[0].as_f64().unwrap() && value <= range[1].as_f64().unwrap()
        });
    }
    if let Some(pattern) = wanted.get("match").and_then(Value::as_str) {
        let plain = pattern.trim_matches(['^', '$', '(', ')']).replace("0?", "0");
        return value
            .as_str()
            .is_some_and(|value| plain.split('|').any(|part| value.contains(part)));
    }
    wanted == value || (wanted.is_number() && wanted.as_f64() == value.as_f64())
}

/// Entities that the arguments of a call mean.
fn targets(house: &Value, call: &Call, kind: &str) -> Vec<String> {
    let simple = |text: &str| {
        text.to_lowercase().replace([' ', '_', '的'], "").trim_end_matches('s').to_owned()
    };
    let mut found = Vec::new();
    for (key, entity) in house["state"]["entities"].as_object().into_iter().flatten() {
        let mut is_meant = true;
        if let Some(name) = call.arguments.get("name").and_then(Value::as_str) {
            let mut names = vec![simple(entity["name"].as_str().unwrap()), simple(key)];
            names.extend(
                entity["aliases"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|alias| simple(alias.as_str().unwrap())),
            );
            is_meant &= names.contains(&simple(name));
        }
        if let Some(area) = call.arguments.get("area").and_then(Value::as_str) {
            let room = ROOMS.iter().find(|entry| entry.1.contains(&area)).map(|entry| entry.0);
            is_meant &= room == entity["area"].as_str();
        }
        let own = match kind {
            "ha_light" => Some("light"),
            "ha_climate" => Some("climate"),
            "ha_volume" => Some("media_player"),
            _ => None,
        };
        let domains: Vec<&str> = match call.arguments.get("domain") {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one],
            _ => own.into_iter().collect(),
        };
        is_meant &= domains.is_empty() || domains.contains(&key.split('.').next().unwrap());
        if is_meant {
            found.push(key.clone());
        }
    }
    found
}

fn is_call(wanted: &Value, call: &Call, house: &Value) -> bool {
    if let Some(any) = wanted.get("any").and_then(Value::as_array) {
        return any.iter().any(|wanted| is_call(wanted, call, house));
    }
    let kind = house["tools"]
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == call.tool.as_str())
        .and_then(|tool| tool["impl"].as_str());
    let is_target = wanted.get("targets").is_none_or(|wanted| {
        let mut wanted: Vec<String> =
            wanted.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect();
        wanted.sort();
        wanted == targets(house, call, kind.unwrap_or_default())
    });
    let nothing = serde_json::Map::new();
    let arguments = wanted.get("args").and_then(Value::as_object).unwrap_or(&nothing);
    wanted["name"] == call.tool.as_str()
        && is_target
        && arguments.iter().all(|(key, wanted)| {
            call.arguments.get(key).is_some_and(|value| is_argument(wanted, value))
        })
}

/// Keeps the values that calls have set.
fn remember(state: &mut Value, calls: &[Call]) {
    for name in ["volume", "brightness"] {
        if let Some(value) = calls.iter().rev().find_map(|call| call.arguments.get(name)) {
            state[name] = value.clone();
        }
    }
}

#[test]
fn the_exam_is_answered_without_a_false_call() {
    let (Some(items), Some(houses)) = (items(), houses()) else {
        println!("skipped: the folder of the household exam is not on this machine");
        return;
    };
    let answers = Answers::builtin();
    let mut wanted_calls = 0;
    let mut made_calls = 0;
    let mut turns = 0;
    let mut answered = 0;
    let mut by_category: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut false_calls = Vec::new();
    for item in &items {
        let house = &houses[item["setting"]["house"].as_str().unwrap()];
        let bindings = bind(&tools(house));
        let mut changed = item["setting"]["state"].clone();
        let mut last = None;
        let mut last_answer: Option<String> = None;
        for turn in item["turns"].as_array().unwrap() {
            turns += 1;
            let said = turn["say"].as_str().unwrap();
            let expected = turn["expect"]["calls"].as_array().cloned().unwrap_or_default();
            let also = turn["expect"]["also"].as_array().cloned().unwrap_or_default();
            wanted_calls += expected.len();
            let context = Context {
                last: last.as_ref(),
                name: "Hearken",
                last_answer: last_answer.as_deref(),
                ..Context::new(now(), &bindings)
            };
            let played = answers
                .plan(said, &context)
                .and_then(|plan| play(plan, &|tool| state_of(house, &changed, tool)));
            let count =
                by_category.entry(item["category"].as_str().unwrap().to_owned()).or_default();
            count.1 += 1;
            let Some(played) = played else {
                println!("model   {said}");
                last = None;
                continue;
            };
            answered += 1;
            count.0 += 1;
            println!(
                "{:7} {said} -> {} [{}]",
                played.plan.rule(),
                played.answer,
                crate::support::shown(&played.calls)
            );
            made_calls += expected
                .iter()
                .filter(|wanted| played.calls.iter().any(|call| is_call(wanted, call, house)))
                .count();
            remember(&mut changed, &played.calls);
            for call in &played.calls {
                if !expected.iter().chain(&also).any(|wanted| is_call(wanted, call, house)) {
                    false_calls.push(format!(
                        "{said}: {}",
                        crate::support::shown(std::slice::from_ref(call))
                    ));
                }
            }
            last = played.referent;
            last_answer = Some(played.answer);
        }
    }
    println!(
        "{turns} turns, {answered} answered; {made_calls} of {wanted_calls} expected calls; {} false",
        false_calls.len()
    );
    for (category, (done, all)) in by_category {
        println!("{category}: {done} of {all}");
    }
    assert!(false_calls.is_empty(), "{}", false_calls.join("\n"));
    assert!(made_calls * 10 >= wanted_calls * 6, "{made_calls} of {wanted_calls}");
}
