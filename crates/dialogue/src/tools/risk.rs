//! Recognises tools and arguments that need care by their names: cameras, and what records, opens,
//! pays or deletes. Not for what follows from it: see [`super::policy`].

use serde_json::Value;

/// Words in the names of tools that take pictures of their surroundings or of a screen.
const CAMERA_WORDS: [&str; 8] =
    ["camera", "capture", "webcam", "photo", "photograph", "selfie", "snapshot", "screenshot"];
/// Verbs that take a picture together with a word of the next list: `take_picture`, `shoot video`.
const TAKING_WORDS: [&str; 4] = ["take", "shoot", "snap", "grab"];
const PICTURE_WORDS: [&str; 5] = ["picture", "pic", "image", "video", "frame"];
/// The same in Chinese, which has no spaces between words.
const CAMERA_WORDS_ZH: [&str; 7] = ["摄像", "相机", "拍照", "拍摄", "截屏", "截图", "录像"];

/// Words in the names of other tools that need consent after an untrusted result, whatever their
/// annotations: tools that listen, open, pay or delete.
const RISKY_WORDS: [&str; 40] = [
    "alarm",
    "bid",
    "buy",
    "checkout",
    "delete",
    "destroy",
    "disarm",
    "donate",
    "door",
    "eavesdrop",
    "erase",
    "firmware",
    "garage",
    "gate",
    "install",
    "invoice",
    "lock",
    "mic",
    "microphone",
    "overwrite",
    "pay",
    "payment",
    "purchase",
    "purge",
    "recording",
    "refund",
    "remove",
    "reset",
    "revoke",
    "shutdown",
    "subscribe",
    "transfer",
    "truncate",
    "uninstall",
    "unlock",
    "upgrade",
    "valve",
    "wipe",
    "withdraw",
    "reboot",
];
/// Objects of the verb `record`, which also names the entry of a database.
const RECORDED_WORDS: [&str; 8] =
    ["audio", "call", "clip", "conversation", "sound", "speech", "video", "voice"];
/// Verbs with objects that make them risky, in tool names only: in arguments the words are
/// ordinary.
const RISKY_ACTS: [(&[&str], &[&str]); 7] = [
    (&["capture", "grab", "rec", "stream"], &["audio", "conversation", "speech", "video", "voice"]),
    (&["get"], &["audio"]),
    (&["listen"], &["in", "room"]),
    (&["send", "spend", "wire"], &["cash", "coin", "crypto", "fund", "gift", "money"]),
    (&["place"], &["bet", "bid", "order"]),
    (
        &["clear", "drop", "empty", "flush"],
        &[
            "all", "bin", "data", "database", "db", "history", "inbox", "log", "memory", "table",
            "trash",
        ],
    ),
    (&["format"], &["card", "device", "disk", "drive", "partition", "storage"]),
];
/// Words that are risky only as a tool's whole name, or at its start.
const RISKY_BEGINNINGS: [&str; 7] = ["del", "eavesdrop", "film", "order", "rm", "shred", "unlink"];
/// Verbs that a name may join to their object without a separator.
const JOINED_VERBS: [&str; 5] = ["open", "record", "send", "start", "take"];
const RISKY_WORDS_ZH: [&str; 27] = [
    "录音",
    "麦克风",
    "监听",
    "开门",
    "关门",
    "大门",
    "房门",
    "车门",
    "车库",
    "门锁",
    "开锁",
    "解锁",
    "上锁",
    "警报",
    "布防",
    "撤防",
    "支付",
    "付款",
    "转账",
    "购买",
    "下单",
    "充值",
    "提现",
    "删除",
    "清空",
    "格式化",
    "卸载",
];

/// Things in arguments with which a tool does what the words above name.
const RISKY_THINGS_ZH: [&str; 6] = ["门", "锁", "保险箱", "保险柜", "阀", "闸"];
/// The same in other languages, in which a household may have named them.
const RISKY_THINGS_ELSEWHERE: [&str; 16] = [
    "tresor",
    "porte",
    "serrure",
    "verrou",
    "portail",
    "puerta",
    "cerradura",
    "portón",
    "porta",
    "serratura",
    "cancello",
    "fechadura",
    "portão",
    "deur",
    "дверь",
    "замок",
];
/// The same in languages that write several words as one.
const COMPOUNDED: [&str; 6] = ["tür", "tuer", "schloss", "schloß", "ドア", "鍵"];
/// Words in the names of tools that act on one kind of thing other than locks.
const HARMLESS_KINDS: [&str; 12] = [
    "light",
    "brightness",
    "media",
    "volume",
    "vacuum",
    "climate",
    "temperature",
    "fan",
    "shopping",
    "list",
    "timer",
    "music",
];
/// Arguments that name a place, and those that restrict what is affected in it.
const PLACES: [&str; 6] = ["area", "area_id", "floor", "floor_id", "room", "location"];
const KINDS: [&str; 5] = ["name", "domain", "device_class", "entity", "entity_id"];
/// Reports whether a tool of this name takes pictures of its surroundings or of a screen.
pub fn is_camera(name: &str) -> bool {
    let words = words(name);
    CAMERA_WORDS_ZH.iter().any(|word| name.contains(word))
        || has_word(&words, &CAMERA_WORDS)
        || has_word(&words, &TAKING_WORDS) && has_word(&words, &PICTURE_WORDS)
}

/// Reports whether a tool of this name takes pictures, records, opens, pays or deletes.
pub(super) fn is_risky(name: &str) -> bool {
    is_camera(name)
        || RISKY_WORDS_ZH.iter().any(|word| name.contains(word))
        || has_word(&words(name), &RISKY_WORDS)
        || has_word(&words(name), &["record"]) && has_word(&words(name), &RECORDED_WORDS)
}

/// Reports whether a tool of this name takes pictures, records, opens, pays or deletes, by its verb
/// and its object.
pub(super) fn is_risky_tool(name: &str) -> bool {
    let words = words(name);
    let is_act = |(acts, things): &(&[&str], &[&str])| {
        has_word(&words, acts) && has_word(&words, things) && !has_word(&words, &HARMLESS_KINDS)
    };
    let is_thing = |thing: &str| {
        RISKY_WORDS.contains(&thing)
            || CAMERA_WORDS.contains(&thing)
            || PICTURE_WORDS.contains(&thing)
            || RECORDED_WORDS.contains(&thing)
            || thing == "money"
    };
    let is_joined = |word: &String| {
        JOINED_VERBS.iter().any(|verb| word.strip_prefix(verb).is_some_and(is_thing))
    };
    is_risky(name)
        || RISKY_ACTS.iter().any(is_act)
        || words.first().is_some_and(|first| RISKY_BEGINNINGS.contains(&first.as_str()))
        || words.iter().any(is_joined)
}

/// Reports whether a tool of this name acts on things of one harmless kind.
pub(super) fn is_of_one_kind(name: &str) -> bool {
    has_word(&words(name), &HARMLESS_KINDS)
}

/// Reports whether arguments name a lock, a payment and the like, or, if `place_counts`, a whole
/// place, which may contain one. Arguments that cannot be parsed count as risky.
pub(super) fn name_risk(arguments: &str, place_counts: bool) -> bool {
    fn is_or_holds_risk(value: &Value) -> bool {
        let names = |text: &str| {
            let words = words(text);
            let compound = |word: &String| {
                COMPOUNDED.iter().any(|thing| word.starts_with(thing) || word.ends_with(thing))
            };
            is_risky(text)
                || RISKY_THINGS_ZH.iter().any(|thing| text.contains(thing))
                || has_word(&words, &RISKY_THINGS_ELSEWHERE)
                || words.iter().any(compound)
        };
        match value {
            Value::String(text) => names(text),
            Value::Array(values) => values.iter().any(is_or_holds_risk),
            Value::Object(members) => {
                members.iter().any(|(key, value)| names(key) || is_or_holds_risk(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    super::parsed_arguments::parsed_arguments(arguments).map_or(true, |arguments| {
        let arguments = Value::Object(arguments);
        let is_broad = holds_key(&arguments, &PLACES) && !holds_key(&arguments, &KINDS);
        place_counts && is_broad || is_or_holds_risk(&arguments)
    })
}

/// Reports whether one of these keys has a non-empty value, at any depth.
fn holds_key(value: &Value, keys: &[&str]) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match value {
        Value::Array(values) => values.iter().any(|value| holds_key(value, keys)),
        Value::Object(members) => members.iter().any(|(key, value)| {
            keys.contains(&key.as_str()) && !is_empty(value) || holds_key(value, keys)
        }),
        _ => false,
    }
}

fn has_word(words: &[String], list: &[&str]) -> bool {
    words.iter().any(|word| list.contains(&word.as_str()))
}

/// Returns the words of a name, in lower case and the singular.
fn words(name: &str) -> Vec<String> {
    let spaced = spaced(name);
    let words = spaced.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    words.map(|word| word.strip_suffix('s').unwrap_or(word).to_owned()).collect()
}

/// Returns a name in lower case, with a space before each capital that starts a word.
pub(super) fn spaced(name: &str) -> String {
    let mut spaced = String::with_capacity(name.len() + 8);
    let mut before_is_lower = false;
    for c in name.chars() {
        if before_is_lower && c.is_uppercase() {
            spaced.push(' ');
        }
        before_is_lower = c.is_lowercase();
        spaced.extend(c.to_lowercase());
    }
    spaced
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cameras_are_recognised_by_their_names() {
        for name in [
            "self.camera.take_photo",
            "takePhoto",
            "front_cameras",
            "Webcam-Snapshot",
            "self.screen.snapshot",
            "手机拍照",
            "take_picture",
            "capture_image",
            "shootVideo",
        ] {
            assert!(is_camera(name), "{name}");
        }
        for name in [
            "self.audio_speaker.set_volume",
            "photography_news",
            "cameraman",
            "天气",
            "show_picture",
            "",
        ] {
            assert!(!is_camera(name), "{name}");
        }
    }

    #[test]
    fn a_risk_in_arguments_is_found_at_any_depth() {
        for risky in [
            r#"{"domain": ["lock"]}"#,
            r#"{"entity_id": "lock.front"}"#,
            r#"{"name": "\u524d\u95e8"}"#,
            r#"{"of": {"what": ["a", {"pay": 3}]}}"#,
            r#"{"name": "Haustür"}"#,
            r#"{"area": "Flur"}"#,
            r#"{"area": "Flur", "domain": []}"#,
            r#"{"target": {"area_id": "hall"}}"#,
            "\"{\\\"name\\\": \\\"garage\\\"}\"",
            "{broken",
        ] {
            assert!(name_risk(risky, true), "{risky}");
        }
        let of_area = r#"{"area": "Flur", "domain": ["light"]}"#;
        for plain in ["", "{}", r#"{"name": "desk lamp", "brightness": 4, "on": true}"#, of_area] {
            assert!(!name_risk(plain, true), "{plain}");
        }
        assert!(!name_risk(r#"{"location": "Berlin"}"#, false));
        for word in ["imported", "time slot", "natürlich"] {
            assert!(!name_risk(&serde_json::json!({"name": word}).to_string(), true), "{word}");
        }
    }
}
