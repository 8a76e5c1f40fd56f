//! Commands that name a thing which no entity has: whatever the entities are called and wherever they are, no other thing is switched.
//! Not for commands that are carried out, see the corpora.

use std::sync::LazyLock;

use hearken_instant::{Answers, Bindings, Call, Context};
use proptest::prelude::*;

use crate::support::{bind, house, now, play, shown};

static ANSWERS: LazyLock<Answers> = LazyLock::new(Answers::builtin);
static HUB: LazyLock<Bindings> = LazyLock::new(|| bind(&house("hub")));

/// Thing of a household: its words in English and Chinese, and its domain of Home Assistant.
struct Thing {
    en: &'static str,
    zh: &'static str,
    domain: &'static str,
}

const fn thing(en: &'static str, zh: &'static str, domain: &'static str) -> Thing {
    Thing { en, zh, domain }
}

/// Things of which none is another, nor a sort of it.
static THINGS: [Thing; 26] = [
    thing("tv", "电视", "media_player"),
    thing("speaker", "音箱", "media_player"),
    thing("radio", "收音机", "media_player"),
    thing("fan", "风扇", "fan"),
    thing("air purifier", "空气净化器", "fan"),
    thing("cooker hood", "油烟机", "fan"),
    thing("extractor fan", "排气扇", "fan"),
    thing("evaporative cooler", "空调扇", "fan"),
    thing("heating", "暖气", "climate"),
    thing("air conditioner", "空调", "climate"),
    thing("water heater", "热水器", "water_heater"),
    thing("boiler", "锅炉", "switch"),
    thing("curtains", "窗帘", "cover"),
    thing("shutters", "卷闸窗", "cover"),
    thing("awning", "遮阳棚", "cover"),
    thing("garage door", "车库门", "cover"),
    thing("gate", "大门", "cover"),
    thing("humidifier", "加湿器", "humidifier"),
    thing("dehumidifier", "除湿机", "humidifier"),
    thing("vacuum", "扫地机器人", "vacuum"),
    thing("kettle", "电水壶", "switch"),
    thing("coffee machine", "咖啡机", "switch"),
    thing("oven", "烤箱", "switch"),
    thing("microwave", "微波炉", "switch"),
    thing("socket", "插座", "switch"),
    thing("power strip", "插排", "switch"),
];
/// Sorts of a thing, each of which is no other.
static SORTS: [Thing; 12] = [
    thing("desk lamp", "台灯", "light"),
    thing("floor lamp", "落地灯", "light"),
    thing("bedside lamp", "床头灯", "light"),
    thing("light strip", "灯带", "light"),
    thing("ceiling fan", "吊扇", "fan"),
    thing("floor fan", "落地扇", "fan"),
    thing("radiator", "暖气片", "climate"),
    thing("underfloor heating", "地暖", "climate"),
    thing("blinds", "百叶窗", "cover"),
    thing("sheer curtains", "纱帘", "cover"),
    thing("blackout curtains", "遮光帘", "cover"),
    thing("roller blinds", "卷帘", "cover"),
];
/// Rooms in English and Chinese.
static ROOMS: [(&str, &str); 5] = [
    ("dining room", "餐厅"),
    ("office", "办公室"),
    ("bathroom", "浴室"),
    ("kitchen island", "岛台"),
    ("guest room", "客房"),
];
/// Commands with `@`, the thing, and `#`, its room.
static EN: [&str; 10] = [
    "turn off the @ in the #",
    "turn on the # @",
    "switch the @ in the # off",
    "# @ off",
    "open the # @",
    "close the @ in the #",
    "please turn the # @ on now",
    "it is late so turn off the @ in the # would you",
    "turn off the @",
    "stop the @ in the #",
];
static ZH: [&str; 8] = [
    "关掉#的@",
    "打开#@",
    "把#的@关了",
    "#@打开",
    "拉上#的@",
    "太晚了你把#的@关掉吧",
    "打开@",
    "停掉#的@",
];

/// Returns the list of Home Assistant with entities: names, domain and area.
fn context(entities: &[(String, &str, String)]) -> String {
    let mut text = "Live Context:\n".to_owned();
    for (names, domain, area) in entities {
        text.push_str(&format!(
            "- names: {names}\n  domain: {domain}\n  state: 'on'\n  areas: {area}\n"
        ));
    }
    text
}

/// Returns the calls that an utterance leads to, other than the reading of the entities.
fn calls(bindings: &Bindings, said: &str, is_lenient: bool, list: &str) -> Vec<Call> {
    let asked = Context { is_lenient, ..Context::new(now(), bindings) };
    let Some(plan) = ANSWERS.plan(said, &asked) else { return Vec::new() };
    let read = |tool: &str| (tool == "assist__GetLiveContext").then(|| list.to_owned());
    play(plan, &read).map_or_else(Vec::new, |played| played.calls)
}

/// Returns the names of the entities that calls switch; those of an area and a domain, too.
fn switched(calls: &[Call], entities: &[(String, &str, String)]) -> Vec<String> {
    let is_switched = |entity: &&(String, &str, String)| {
        calls.iter().any(|call| {
            let text = |key: &str| call.arguments.get(key).and_then(|value| value.as_str());
            let domains = call.arguments.get("domain").and_then(|value| value.as_array());
            text("name").is_none_or(|name| entity.0 == name)
                && text("area").is_none_or(|area| entity.2.eq_ignore_ascii_case(area))
                && domains.is_none_or(|domains| domains.iter().any(|one| one == entity.1))
        })
    };
    entities.iter().filter(is_switched).map(|entity| entity.0.clone()).collect()
}

/// Returns an entity of a thing, which is called by itself, with its room or as its room: names, domain and area. One of the domain of
/// what is wanted is not called as its room, since it could be what is wanted.
fn entity(
    thing: &Thing,
    wanted: &Thing,
    room: (&str, &str),
    form: usize,
    is_zh: bool,
) -> (String, &'static str, String) {
    let name = if is_zh { thing.zh } else { thing.en };
    let area = if is_zh { room.1 } else { room.0 };
    let names = match form {
        0 => name.to_owned(),
        2 if thing.domain != wanted.domain => area.to_owned(),
        1 | 2 if is_zh => format!("{area}{name}"),
        1 | 2 => format!("{area} {name}"),
        _ if is_zh => format!("{area}的{name}, 我的{name}"),
        _ => format!("my {name}, {area} {name}"),
    };
    (names, thing.domain, area.to_owned())
}

/// Returns a command with its thing and room.
fn said(template: &str, thing: &Thing, room: (&str, &str), is_zh: bool) -> String {
    let name = if is_zh { thing.zh } else { thing.en };
    let area = if is_zh { room.1 } else { room.0 };
    template.replace('@', name).replace('#', area)
}

/// Returns what was switched though another thing was named.
fn faults(things: &[Thing]) -> Vec<String> {
    let mut faults = Vec::new();
    for (is_zh, templates) in [(false, &EN[..]), (true, &ZH[..])] {
        for (at, wanted) in things.iter().enumerate() {
            for (other_at, other) in things.iter().enumerate().filter(|other| other.0 != at) {
                let room = ROOMS[(at + other_at) % ROOMS.len()];
                let entities = [entity(other, wanted, room, (at + other_at) % 4, is_zh)];
                let template = templates[(at * 3 + other_at) % templates.len()];
                let text = said(template, wanted, room, is_zh);
                for is_lenient in [false, true] {
                    let calls = calls(&HUB, &text, is_lenient, &context(&entities));
                    if !switched(&calls, &entities).is_empty() {
                        faults.push(format!("{text}: {} {}", entities[0].0, shown(&calls)));
                    }
                }
            }
        }
    }
    faults
}

#[test]
fn the_only_entity_is_not_switched_for_another_thing() {
    for things in [&THINGS[..], &SORTS[..]] {
        let faults = faults(things);
        assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
    }
}

#[test]
fn the_thing_that_is_named_is_switched_among_others_of_its_domain() {
    let entities = [
        ("Office".to_owned(), "climate", "Office".to_owned()),
        ("Office Fan".to_owned(), "fan", "Office".to_owned()),
        ("Office Purifier".to_owned(), "fan", "Office".to_owned()),
        ("Left Curtain".to_owned(), "cover", "Office".to_owned()),
        ("Right Curtain".to_owned(), "cover", "Office".to_owned()),
        ("Garage Door".to_owned(), "cover", "Garage".to_owned()),
        ("Left Blind".to_owned(), "cover", "Dining Room".to_owned()),
        ("Awning".to_owned(), "cover", "Dining Room".to_owned()),
        ("Kettle".to_owned(), "switch", "Kitchen Island".to_owned()),
        ("Desk Lamp".to_owned(), "switch", "Office".to_owned()),
        ("Front Door".to_owned(), "lock", "Hall".to_owned()),
    ];
    let commands: [(&str, &[&str]); 11] = [
        ("turn off the fan in the office", &["Office Fan"]),
        ("turn on the office purifier", &["Office Purifier"]),
        ("close the curtains in the office", &["Left Curtain", "Right Curtain"]),
        ("open the dining room blinds", &["Left Blind"]),
        ("turn on the kettle", &["Kettle"]),
        ("turn on the desk lamp in the office", &["Desk Lamp"]),
        ("turn off the tv in the office", &[]),
        ("open the curtains in the garage", &[]),
        ("turn on the coffee machine", &[]),
        ("turn off the front door light", &[]),
        ("turn off the floor lamp in the office", &[]),
    ];
    for (text, wanted) in commands {
        for is_lenient in [false, true] {
            let calls = calls(&HUB, text, is_lenient, &context(&entities));
            assert_eq!(switched(&calls, &entities), wanted, "{text}: {}", shown(&calls));
        }
    }
}

#[test]
fn the_brightness_of_one_lamp_changes_no_other() {
    for text in [
        "set the light strip in the office to fifty percent",
        "set the ceiling light in the office to fifty percent",
        "make the night light in the office brighter",
        "把办公室的落地灯调到百分之五十",
        "办公室的台灯亮度百分之五十",
        "把办公室的灯带调亮一点",
    ] {
        for is_lenient in [false, true] {
            let list = context(&[("Office Light".to_owned(), "light", "Office".to_owned())]);
            let calls = calls(&HUB, text, is_lenient, &list);
            assert!(calls.is_empty(), "{text}: {}", shown(&calls));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_entity_is_switched_for_a_thing_that_is_not_there(
        wanted in 0..THINGS.len(),
        others in prop::collection::vec((0..THINGS.len(), 0..ROOMS.len(), 0_usize..4), 1..6),
        room in 0..ROOMS.len(),
        template in 0_usize..40,
        is_zh in any::<bool>(),
        is_lenient in any::<bool>(),
    ) {
        let templates = if is_zh { &ZH[..] } else { &EN[..] };
        let there = others.iter().filter(|other| other.0 != wanted);
        let entities: Vec<(String, &str, String)> = there
            .map(|(thing, room, form)| {
                entity(&THINGS[*thing], &THINGS[wanted], ROOMS[*room], *form, is_zh)
            })
            .collect();
        let text = said(templates[template % templates.len()], &THINGS[wanted], ROOMS[room], is_zh);
        let calls = calls(&HUB, &text, is_lenient, &context(&entities));
        let switched = switched(&calls, &entities);
        prop_assert!(switched.is_empty(), "{}: {:?} {}", text, switched, shown(&calls));
    }
}
