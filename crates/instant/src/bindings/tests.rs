//! Tests of the bindings: tools of many makers, and what they must not be taken for.

use serde_json::{Value, json};

use super::*;
use crate::normalise::words_of;

/// Tool of a test.
struct Owned {
    name: String,
    description: String,
    parameters: Value,
}

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> Owned {
    Owned {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    }
}

fn bindings(tools: &[Owned]) -> Bindings {
    let borrowed = tools.iter().map(|tool| OfferedTool {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.parameters,
    });
    Bindings::of(&borrowed.collect::<Vec<_>>())
}

fn wanted(room: Option<&Room>) -> Wanted<'_> {
    Wanted { room, last: None, domain: Some(("light", true)) }
}

fn room(name: &str) -> Room {
    let words = words_of(name).words;
    Room { said: name.to_owned(), group: NAMES.room(&words), words }
}

fn arguments(
    tools: &[Owned],
    topic: &Topic,
    room: Option<&Room>,
    value: Option<i64>,
) -> Option<String> {
    let bindings = bindings(tools);
    let is_topic = |of: &Topic| match (of, topic) {
        (Topic::Switch { kind: None, is_on }, Topic::Switch { is_on: wanted, .. }) => {
            is_on == wanted
        }
        (of, topic) => of == topic,
    };
    let bound = bindings.find(is_topic, wanted(room))?;
    let all = match value {
        Some(value) => bound.with_number(Fraction::whole(value))?,
        None => bound.arguments(),
    };
    Some(format!("{}{}", bound.effect.tool, serde_json::to_string(&all).unwrap()))
}

fn light(is_on: bool) -> Topic {
    Topic::Switch { kind: NAMES.device("light"), is_on }
}

#[test]
fn volume_is_found_whatever_it_is_called() {
    let percent = json!({"type": "integer", "minimum": 0, "maximum": 100});
    for (name, description, parameter) in [
        ("set_volume", "Set the volume", "level"),
        ("speaker.setVolume", "", "value"),
        ("audio_output", "Adjust the loudness of the speaker", "percent"),
        ("yinliang", "设置音量，0到100", "v"),
        ("device.set", "Sets a property of the device", "volume"),
    ] {
        let tools = [tool(name, description, json!({parameter: percent}), &[parameter])];
        assert_eq!(
            arguments(&tools, &Topic::Volume, None, Some(30)),
            Some(format!("{name}{{\"{parameter}\":30}}")),
            "{name}"
        );
    }
    for (name, description, properties, required) in [
        ("get_volume", "Returns the volume", json!({}), vec![]),
        ("set_alarm_volume", "Volume of the alarm", json!({"level": percent}), vec!["level"]),
        ("mic_volume", "Volume of the microphone", json!({"level": percent}), vec!["level"]),
        (
            "set_volume",
            "Set the volume",
            json!({"level": {"type": "integer", "minimum": 0, "maximum": 10}}),
            vec!["level"],
        ),
        (
            "set_volume",
            "Set the volume",
            json!({"level": percent, "channel": {"type": "string"}}),
            vec!["level", "channel"],
        ),
        (
            "set_volume",
            "Set the volume",
            json!({"left": percent, "right": percent}),
            vec!["left", "right"],
        ),
    ] {
        let tools = [tool(name, description, properties, &required)];
        assert_eq!(arguments(&tools, &Topic::Volume, None, Some(30)), None, "{name} {description}");
    }
    let two = [
        tool("set_volume", "Set the volume", json!({"level": percent}), &["level"]),
        tool("tv_volume", "Volume of the television", json!({"level": percent}), &["level"]),
    ];
    assert_eq!(arguments(&two, &Topic::Volume, None, Some(30)), None);
}

#[test]
fn lights_are_found_in_many_schemas() {
    let garage = room("garage");
    let text = json!({"type": "string"});
    for (tools, shown) in [
        (
            vec![tool(
                "switch_light",
                "Switch the light of a room",
                json!({"room": text, "state": {"type": "string", "enum": ["on", "off"]}}),
                &["room", "state"],
            )],
            r#"switch_light{"room":"garage","state":"on"}"#,
        ),
        (
            vec![tool(
                "lights",
                "Lights of the house",
                json!({"zone": {"type": "string", "enum": ["GARAGE", "ATTIC"]}, "power": {"type": "boolean"}}),
                &["zone", "power"],
            )],
            r#"lights{"power":true,"zone":"GARAGE"}"#,
        ),
        (
            vec![tool(
                "set_lamp",
                "Lamps: garage_lamp or attic_lamp",
                json!({"lamp": {"type": "string", "enum": ["garage_lamp", "attic_lamp"]}, "on": {"type": "boolean"}}),
                &["lamp", "on"],
            )],
            r#"set_lamp{"lamp":"garage_lamp","on":true}"#,
        ),
        (
            vec![
                tool("garage_light_on", "", json!({}), &[]),
                tool("garage_light_off", "", json!({}), &[]),
            ],
            "garage_light_on{}",
        ),
        (
            vec![tool(
                "device",
                "Controls a device",
                json!({"device": {"type": "string", "enum": ["garage_light", "attic_fan"]}, "command": {"type": "string", "enum": ["turn_on", "turn_off"]}}),
                &["device", "command"],
            )],
            r#"device{"command":"turn_on","device":"garage_light"}"#,
        ),
    ] {
        assert_eq!(arguments(&tools, &light(true), Some(&garage), None).as_deref(), Some(shown));
    }
    let single =
        [tool("led.power", "Power of the LED", json!({"on": {"type": "boolean"}}), &["on"])];
    assert_eq!(
        arguments(&single, &light(false), None, None).as_deref(),
        Some(r#"led.power{"on":false}"#)
    );
    assert_eq!(arguments(&single, &light(false), Some(&garage), None), None);
    let rooms = [tool(
        "switch_light",
        "Switch the light of a room",
        json!({"room": {"type": "string", "enum": ["attic"]}, "on": {"type": "boolean"}}),
        &["room", "on"],
    )];
    assert_eq!(arguments(&rooms, &light(true), Some(&garage), None), None);
    let optional = [tool(
        "switch_light",
        "Switch lights",
        json!({"room": text, "on": {"type": "boolean"}}),
        &["on"],
    )];
    assert_eq!(arguments(&optional, &light(true), None, None), None);
}

#[test]
fn covers_whose_zero_is_open_are_not_bound() {
    let percent = json!({"type": "integer", "minimum": 0, "maximum": 100});
    for (description, is_bound) in [
        ("Position of the blind: 0 closed, 100 open", true),
        ("Position of the blind: 0 is open and 100 is closed", false),
        ("Position of the blind, 100 closed", false),
        ("窗帘位置，0为关，100为开", true),
        ("窗帘位置，0为全开，100为全关", false),
    ] {
        let tools =
            [tool("blind_position", description, json!({"position": percent}), &["position"])];
        assert_eq!(
            arguments(&tools, &Topic::Cover(NAMES.device("blind")), None, Some(50)).is_some(),
            is_bound,
            "{description}"
        );
    }
}

#[test]
fn a_schema_that_cannot_be_read_binds_nothing() {
    for parameters in [
        json!(null),
        json!([]),
        json!({"properties": 3}),
        json!({"properties": {}, "required": ["gone"]}),
        json!({"properties": {"volume": {"anyOf": []}}}),
    ] {
        let tools =
            [Owned { name: "set_volume".to_owned(), description: "volume".to_owned(), parameters }];
        assert_eq!(arguments(&tools, &Topic::Volume, None, Some(3)), None);
    }
}
