//! Names the arguments of a call in plain words of the person's language, so that a person agrees
//! to what they hear. Not for the act itself: see [`super::act`].

use std::fmt::Write as _;

use hearken_base::language::{Language, is_han};
use hearken_ports::Tool;
use serde_json::{Map, Value};

use super::risk::spaced;
use super::secret_arguments::is_secret;

/// Maximum length of one value, of its first and its last part if it is longer, and of all
/// arguments together, in characters.
const MAX_VALUE_CHARS: usize = 40;
const MAX_HEAD_CHARS: usize = 24;
const MAX_TAIL_CHARS: usize = 12;
const MAX_ALL_CHARS: usize = 140;
/// Maximum length of a label, in characters.
const MAX_LABEL_CHARS: usize = 24;
/// Maximum depth of arguments whose values are named.
const MAX_DEPTH: usize = 4;
/// Maximum number of values that are looked at.
const MAX_VALUES: usize = 256;

/// Arguments that name the object of a call, the most informative first.
const OBJECT_KEYS: [&str; 21] = [
    "action",
    "service",
    "command",
    "name",
    "entity",
    "entity_id",
    "device",
    "device_id",
    "target",
    "item",
    "object",
    "title",
    "file",
    "filename",
    "path",
    "url",
    "device_class",
    "domain",
    "amount",
    "area",
    "room",
];
/// Arguments that are named before others: who gets something, and where.
const FIRST_KEYS: [&str; 14] = [
    "to",
    "recipient",
    "recipients",
    "payee",
    "contact",
    "phone",
    "number",
    "email",
    "address",
    "account",
    "from",
    "destination",
    "location",
    "currency",
];
/// Home Assistant domains that are omitted from names because they are obvious.
const PLAIN_DOMAINS: [&str; 6] =
    ["light", "switch", "fan", "media_player", "scene", "input_boolean"];

/// Labels of arguments: the words of the key, and the label in English and in Chinese. An empty
/// label is omitted.
const LABELS: [(&str, &str, &str); 105] = [
    ("action", "", ""),
    ("service", "", ""),
    ("command", "", ""),
    ("name", "", ""),
    ("entity", "", ""),
    ("entity id", "", ""),
    ("device", "", ""),
    ("device id", "", ""),
    ("target", "", ""),
    ("item", "", ""),
    ("object", "", ""),
    ("title", "", ""),
    ("file", "", ""),
    ("filename", "", ""),
    ("path", "", ""),
    ("url", "", ""),
    ("device class", "", ""),
    ("domain", "", ""),
    ("area", "in", "在"),
    ("area id", "in", "在"),
    ("room", "in", "在"),
    ("floor", "on floor", "楼层"),
    ("location", "in", "在"),
    ("place", "in", "在"),
    ("to", "to", "给"),
    ("recipient", "to", "给"),
    ("recipients", "to", "给"),
    ("payee", "to", "给"),
    ("contact", "contact", "联系人"),
    ("phone", "phone", "电话"),
    ("number", "number", "号码"),
    ("email", "email", "邮箱"),
    ("address", "address", "地址"),
    ("account", "account", "账户"),
    ("from", "from", "来自"),
    ("source", "from", "来自"),
    ("destination", "to", "到"),
    ("cc", "copy to", "抄送"),
    ("bcc", "hidden copy to", "密送"),
    ("amount", "amount", "金额"),
    ("currency", "currency", "货币"),
    ("price", "price", "价格"),
    ("quantity", "quantity", "数量"),
    ("count", "number", "数量"),
    ("temperature", "temperature", "温度"),
    ("brightness", "brightness", "亮度"),
    ("brightness pct", "brightness", "亮度"),
    ("volume", "volume", "音量"),
    ("volume level", "volume", "音量"),
    ("position", "position", "位置"),
    ("level", "level", "档位"),
    ("speed", "speed", "速度"),
    ("percent", "percent", "百分比"),
    ("percentage", "percent", "百分比"),
    ("value", "value", "数值"),
    ("color", "color", "颜色"),
    ("colour", "color", "颜色"),
    ("mode", "mode", "模式"),
    ("state", "state", "状态"),
    ("status", "state", "状态"),
    ("duration", "duration", "时长"),
    ("seconds", "seconds", "秒数"),
    ("minutes", "minutes", "分钟数"),
    ("hours", "hours", "小时数"),
    ("days", "days", "天数"),
    ("delay", "delay", "延迟"),
    ("time", "time", "时间"),
    ("date", "date", "日期"),
    ("start", "from", "开始于"),
    ("start time", "from", "开始于"),
    ("end", "until", "结束于"),
    ("end time", "until", "结束于"),
    ("message", "text", "内容"),
    ("text", "text", "内容"),
    ("body", "text", "内容"),
    ("content", "text", "内容"),
    ("description", "description", "说明"),
    ("note", "note", "备注"),
    ("subject", "subject", "主题"),
    ("code", "code", "密码"),
    ("pin", "code", "密码"),
    ("password", "password", "密码"),
    ("token", "token", "令牌"),
    ("secret", "secret", "密钥"),
    ("id", "number", "编号"),
    ("ids", "numbers", "编号"),
    ("key", "key", "键"),
    ("enabled", "enabled", "启用"),
    ("enable", "enabled", "启用"),
    ("on", "on", "打开"),
    ("open", "open", "打开"),
    ("locked", "locked", "上锁"),
    ("lock", "locked", "上锁"),
    ("force", "by force", "强制"),
    ("recursive", "with everything in it", "包括其中的一切"),
    ("all", "all", "全部"),
    ("confirm", "confirmed", "已确认"),
    ("permanent", "for good", "永久"),
    ("public", "public", "公开"),
    ("notify", "with a notice", "通知"),
    ("language", "language", "语言"),
    ("user", "user", "用户"),
    ("group", "group", "群组"),
    ("reason", "reason", "原因"),
    ("instead of", "instead of", "而不是"),
];

/// Signs with their names in English and in Chinese.
const SIGNS: [(char, &str, &str); 16] = [
    ('*', "star", "星号"),
    ('@', "at", "at"),
    ('/', "slash", "斜杠"),
    ('\\', "backslash", "反斜杠"),
    ('.', "dot", "点"),
    ('~', "tilde", "波浪号"),
    ('#', "hash", "井号"),
    ('?', "question mark", "问号"),
    ('!', "exclamation mark", "感叹号"),
    ('-', "dash", "横线"),
    ('_', "underscore", "下划线"),
    ('+', "plus", "加号"),
    ('$', "dollars", "美元"),
    ('€', "euros", "欧元"),
    ('£', "pounds", "英镑"),
    ('¥', "yuan", "元"),
];
/// Signs that are named beside letters and digits, too: without them, the value is another one.
const TELLING_SIGNS: [char; 6] = ['*', '@', '$', '€', '£', '¥'];

/// Arguments of a call, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Object of the act.
    pub(super) object: Option<Object>,
    /// The other arguments.
    pub(super) others: Option<String>,
}

/// Value that may be the object of a verb.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// The value alone, behind a verb.
    pub(super) bare: String,
    /// The value with its label.
    pub(super) labelled: String,
}

/// Argument that is named: its key, and its value.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    key: &'a str,
    value: &'a Value,
    /// Whether the tool declares the argument.
    is_declared: bool,
}

/// Names all arguments, up to a length that a listener can follow, who hears if there is more.
/// Arguments that the tool does not declare come last, and are no object: a model can invent them,
/// but a tool that does not refuse them may follow them.
pub(super) fn named(tool: &Tool, arguments: &Map<String, Value>, language: Language) -> Named {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let declared = |key: &str| properties.is_none_or(|p| p.is_empty() || p.contains_key(key));
    let mut is_cut = false;
    let mut leaves = Vec::new();
    for (key, value) in arguments {
        let leaf = Leaf { key, value, is_declared: declared(key) };
        is_cut |= !collect(leaf, MAX_DEPTH, &mut leaves);
    }
    leaves.sort_by_key(rank);
    let mut named = Named::default();
    let mut others: Vec<String> = Vec::new();
    let mut left = MAX_ALL_CHARS;
    let mut last_label = String::new();
    for leaf in leaves {
        let Some((bare, labelled, is_short)) = words_of(tool, &leaf, language) else { continue };
        is_cut |= is_short;
        let length = labelled.chars().count();
        if length > left {
            is_cut = true;
            continue;
        }
        if leaf.is_declared && named.object.is_none() && OBJECT_KEYS.contains(&leaf.key) {
            left -= length;
            named.object = Some(Object { bare, labelled });
            continue;
        }
        let is_object = named.object.as_ref().is_some_and(|object| object.labelled == labelled);
        if is_object || others.contains(&labelled) {
            continue;
        }
        left -= length;
        // A list has its label once.
        let is_listed = last_label == leaf.key && leaf.value.is_string();
        leaf.key.clone_into(&mut last_label);
        others.push(if is_listed { bare } else { labelled });
    }
    let (separator, more) = match language {
        Language::English => (", ", "and more"),
        Language::Chinese => ("，", "等等"),
    };
    if is_cut {
        match (others.last_mut(), language, &mut named.object) {
            (Some(last), Language::English, _) => _ = write!(last, " {more}"),
            (Some(last), Language::Chinese, _) => last.push_str(more),
            (None, Language::English, Some(object)) => _ = write!(object.bare, " {more}"),
            (None, Language::Chinese, Some(object)) => object.bare.push_str(more),
            (None, _, None) => others.push(more.to_owned()),
        }
    }
    named.others = Some(others.join(separator)).filter(|others| !others.is_empty());
    named
}

/// Adds the values in a value. Returns false if it contains more.
fn collect<'a>(leaf: Leaf<'a>, depth: usize, found: &mut Vec<Leaf<'a>>) -> bool {
    match leaf.value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::String(_) if found.len() < MAX_VALUES => {
            found.push(leaf);
            true
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        // The values after an incomplete one are added, too.
        Value::Array(values) if depth > 0 => {
            let inner = values.iter().map(|value| Leaf { value, ..leaf });
            inner.filter(|inner| !collect(*inner, depth - 1, found)).count() == 0
        }
        Value::Object(values) if depth > 0 => {
            let inner = values.iter().map(|(key, value)| Leaf { key, value, ..leaf });
            inner.filter(|inner| !collect(*inner, depth - 1, found)).count() == 0
        }
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
    }
}

/// Returns the place of a value among the others: what it is about, who gets it, how much, and then
/// the texts, which may be long.
fn rank(Leaf { key, value, is_declared }: &Leaf<'_>) -> usize {
    let place = |keys: &[&str]| keys.iter().position(|known| known == key);
    let texts = OBJECT_KEYS.len() + FIRST_KEYS.len();
    match (place(&OBJECT_KEYS), place(&FIRST_KEYS)) {
        _ if !is_declared => texts + 2,
        (Some(at), _) => at,
        (None, Some(at)) => OBJECT_KEYS.len() + at,
        (None, None) if !value.is_string() => texts,
        (None, None) => texts + 1,
    }
}

/// Returns the words of a value, the same with its label, and whether the value was shortened.
/// `None` if it is empty.
fn words_of(tool: &Tool, leaf: &Leaf<'_>, language: Language) -> Option<(String, String, bool)> {
    let mut label = label(tool, leaf.key, language);
    if !leaf.is_declared && label.is_empty() {
        label = key_words(leaf.key);
    }
    let (value, is_short) = match leaf.value {
        Value::Bool(is_set) => {
            let said = match (language, is_set) {
                (Language::English, true) => "yes",
                (Language::English, false) => "no",
                (Language::Chinese, true) => "是",
                (Language::Chinese, false) => "否",
            };
            let label = if label.is_empty() { key_words(leaf.key) } else { label };
            let labelled = match language {
                Language::English => format!("{label}: {said}"),
                Language::Chinese => format!("{label}：{said}"),
            };
            return Some((labelled.clone(), labelled, false));
        }
        Value::String(text) if text.is_empty() => return None,
        value if is_secret(leaf.key, value) => {
            let label = if label.is_empty() { key_words(leaf.key) } else { label };
            return Some((label.clone(), label, false));
        }
        // From `light.kitchen_lamp`, the name only; from `lock.front`, whose name a light may
        // share, both parts.
        Value::String(text) if leaf.key == "entity_id" => {
            let name = text.split_once('.').filter(|(domain, _)| PLAIN_DOMAINS.contains(domain));
            let name = name.map_or(text.replace('.', " "), |(_, name)| name.to_owned());
            value_words(&name, language)
        }
        Value::String(text) => value_words(text, language),
        Value::Number(number) => shortened(&number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    if value.is_empty() {
        return None;
    }
    let labelled = joined(&label, &value, language);
    Some((value, labelled, is_short))
}

/// Joins a label and a value.
fn joined(label: &str, value: &str, language: Language) -> String {
    let is_latin = |c: Option<char>| c.is_some_and(|c| !is_han(c));
    let is_spaced = language == Language::English || is_latin(label.chars().next_back());
    match label {
        "" => value.to_owned(),
        _ if is_spaced => format!("{label} {value}"),
        _ => format!("{label}{value}"),
    }
}

/// Returns the label of an argument. Without a known one: in Chinese, the first words of its
/// description if these are Chinese and few; else the words of its key.
fn label(tool: &Tool, key: &str, language: Language) -> String {
    let words = key_words(key);
    if let Some((_, english, chinese)) = LABELS.iter().find(|(known, ..)| *known == words) {
        return match language {
            Language::English => (*english).to_owned(),
            Language::Chinese => (*chinese).to_owned(),
        };
    }
    let described = || {
        let property = tool.parameters.get("properties")?.get(key)?;
        let text = property.get("description").or_else(|| property.get("title"))?.as_str()?;
        let is_end = |c: char| !(c.is_alphanumeric() || c == ' ');
        let first = text.split(is_end).next()?.trim();
        let is_chinese = first.chars().any(is_han);
        let fits = |most: usize| (1..=most).contains(&first.chars().count());
        (language == Language::Chinese && is_chinese && fits(8)).then(|| first.to_owned())
    };
    described().unwrap_or(words)
}

/// Returns the words of a key, in lower case.
fn key_words(key: &str) -> String {
    let spaced = spaced(key);
    let words = spaced.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(MAX_LABEL_CHARS).collect()
}

/// Returns a text with its middle left out if it is too long, and whether it is. Its end stays: that
/// of an address or a path tells where something goes.
fn shortened(text: &str) -> (String, bool) {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= MAX_VALUE_CHARS {
        return (text.to_owned(), false);
    }
    let head: String = chars[..MAX_HEAD_CHARS].iter().collect();
    let tail: String = chars[chars.len() - MAX_TAIL_CHARS..].iter().collect();
    (format!("{} … {}", head.trim_end(), tail.trim_start()), true)
}

/// Returns the words of a text, without its middle if they are too long, and whether they are.
fn value_words(text: &str, language: Language) -> (String, bool) {
    if text.chars().any(char::is_alphanumeric) {
        shortened(&plain(text, language))
    } else {
        signs(text, language)
    }
}

/// Returns the names of the signs of a text without letters and digits, without those in the middle
/// if they are too long, and whether they are. Each name is whole, also the last one: a `*` at the
/// end of a path means everything in it.
fn signs(text: &str, language: Language) -> (String, bool) {
    let signs = text.chars().filter(|c| !c.is_whitespace() && !c.is_control());
    let names: Vec<&str> = signs.map(|sign| name_of(sign, language)).collect();
    let all = names.join(" ");
    if all.chars().count() <= MAX_VALUE_CHARS {
        return (all, false);
    }
    let head = fitting(names.iter().copied(), MAX_HEAD_CHARS);
    let tail = names.len() - fitting(names.iter().rev().copied(), MAX_TAIL_CHARS);
    (format!("{} … {}", names[..head].join(" "), names[tail..].join(" ")), true)
}

/// Returns how many of these names fit in a length, at least one.
fn fitting<'a>(names: impl Iterator<Item = &'a str>, most_chars: usize) -> usize {
    let lengths = names.scan(0, |length, name| {
        *length += name.chars().count() + 1;
        Some(*length - 1)
    });
    lengths.take_while(|length| *length <= most_chars).count().max(1)
}

/// Returns the name of a sign.
fn name_of(sign: char, language: Language) -> &'static str {
    let known = SIGNS.iter().copied().find(|(known, ..)| *known == sign);
    match (known, language) {
        (Some((_, english, _)), Language::English) => english,
        (Some((_, _, chinese)), Language::Chinese) => chinese,
        (None, Language::English) => "a sign",
        (None, Language::Chinese) => "符号",
    }
}

/// Returns a text as plain words, with the names of signs without which it would be another one.
fn plain(text: &str, language: Language) -> String {
    // `photos/..` is not `photos`.
    let dot = name_of('.', language);
    let parts = text.split_inclusive(['/', '\\']).map(|part| match part.strip_prefix("..") {
        Some("" | "/" | "\\") => format!(" {dot} {dot} "),
        _ => part.to_owned(),
    });
    let text: String = parts.collect();
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut words = String::with_capacity(text.len());
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        // `19.99`, `6:30` and `-5` are numbers.
        let is_of_number = matches!(c, '.' | ':') && is_digit(before) && is_digit(next)
            || c == '-' && is_digit(next) && before.is_none_or(char::is_whitespace);
        if c.is_alphanumeric() || c == '\'' || is_of_number {
            words.push(c);
        } else if c == '%' && is_digit(before) && language == Language::Chinese {
            let number = words.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').len();
            words.insert_str(number, "百分之");
        } else if c == '%' && is_digit(before) {
            words.push_str(" percent ");
        } else if TELLING_SIGNS.contains(&c) || c == '.' && is_letter(before) && is_letter(next) {
            let name = name_of(c, language);
            let is_joined = language == Language::Chinese && name.chars().all(is_han);
            _ = if is_joined { write!(words, "{name}") } else { write!(words, " {name} ") };
        } else {
            words.push(' ');
        }
        before = Some(c);
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what a person hears of these arguments, each of them declared.
    fn heard(arguments: &Value, language: Language) -> String {
        let properties: Map<String, Value> = arguments
            .as_object()
            .unwrap()
            .keys()
            .map(|key| (key.clone(), json!({"description": "the thing"})))
            .collect();
        let tool = Tool {
            name: "do_it".into(),
            description: String::new(),
            parameters: json!({"properties": properties}),
            finishes: false,
            destructive: true,
        };
        let Named { object, others } = named(&tool, arguments.as_object().unwrap(), language);
        let object = object.map(|object| object.bare);
        [object, others].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn every_argument_is_named_in_the_persons_language() {
        for (arguments, english, chinese) in [
            (json!({"temperature": 30}), "temperature 30", "温度30"),
            (json!({"name": "lamp", "brightness": 5}), "lamp; brightness 5", "lamp; 亮度5"),
            (json!({"name": "前门", "locked": false}), "前门; locked: no", "前门; 上锁：否"),
            (json!({"recursive": true}), "with everything in it: yes", "包括其中的一切：是"),
            (json!({"to": "Eve", "amount": 5}), "5; to Eve", "5; 给Eve"),
            (json!({"path": "/"}), "slash", "斜杠"),
            (json!({"path": "*.txt"}), "star txt", "星号 txt"),
            (json!({"path": "a/.."}), "a dot dot", "a 点 点"),
            (json!({"path": "../a.b/.../..c"}), "dot dot a dot b c", "点 点 a点b c"),
            (json!({"to": "a.b@c.org"}), "to a dot b at c dot org", "给a点b at c点org"),
            (json!({"amount": "50%"}), "50 percent", "百分之50"),
            (json!({"amount": "$5"}), "dollars 5", "美元5"),
            (json!({"time": "6:30"}), "time 6:30", "时间6:30"),
            (json!({"password": "hush"}), "password", "密码"),
            (json!({"passcode": 1234}), "passcode", "passcode"),
            (json!({"secretary": "Ann"}), "secretary Ann", "secretary Ann"),
            (json!({"token_recipient": "Eve"}), "token recipient Eve", "token recipient Eve"),
            (json!({"tokens": "5000"}), "tokens 5000", "tokens 5000"),
            (json!({"tokenAmount": "5"}), "token amount 5", "token amount 5"),
            (json!({"tokens": ["a1", "a2"]}), "tokens", "tokens"),
            (json!({"dry_run": false}), "dry run: no", "dry run：否"),
            (json!({"retries": 3}), "retries 3", "retries 3"),
            (json!({"to": ["Ann", "Bob"]}), "to Ann, Bob", "给Ann，Bob"),
            (json!({"data": {"price": 9}}), "price 9", "价格9"),
            (json!({"name": null, "to": ""}), "", ""),
        ] {
            assert_eq!(heard(&arguments, Language::English), english, "{arguments}");
            assert_eq!(heard(&arguments, Language::Chinese), chinese, "{arguments}");
        }
    }

    #[test]
    fn a_chinese_description_is_the_label_of_an_unknown_argument() {
        let tool = Tool {
            name: "x".into(),
            description: String::new(),
            parameters: json!({"properties": {"wendu": {"description": "水温，摄氏度"}}}),
            finishes: false,
            destructive: true,
        };
        let arguments = json!({"wendu": 40});
        let arguments = arguments.as_object().unwrap();
        assert_eq!(named(&tool, arguments, Language::Chinese).others.unwrap(), "水温40");
        assert_eq!(named(&tool, arguments, Language::English).others.unwrap(), "wendu 40");
    }

    #[test]
    fn long_values_keep_their_end_and_the_listener_hears_of_the_rest() {
        let long = format!("https://{}.example/pay", "a".repeat(200));
        let said = heard(&json!({"url": long}), Language::English);
        assert!(said.contains("example") || said.contains("pay and more"), "{said}");
        assert!(said.chars().count() < 80, "{said}");
        let many: Map<String, Value> =
            (0..40).map(|n| (format!("key{n}"), json!("some words"))).collect();
        let many = Value::Object(many);
        for (language, more) in [(Language::English, " and more"), (Language::Chinese, "等等")] {
            let said = heard(&many, language);
            assert!(said.ends_with(more) && said.chars().count() < 220, "{said}");
        }
        for (path, english) in [
            ("../../*", "dot dot slash dot dot slash star"),
            ("../../../../*", "dot dot slash dot dot … slash star and more"),
            ("!!!!", "exclamation mark … exclamation mark and more"),
        ] {
            assert_eq!(heard(&json!({"path": path}), Language::English), english, "{path}");
        }
        let said = heard(&json!({"path": "../".repeat(99) + "*"}), Language::Chinese);
        assert!(said.ends_with("斜杠 星号等等"), "{said}");
        // The person who gets it is named, however much text there is.
        let said = heard(
            &json!({"body": "word ".repeat(99), "a": "b".repeat(99), "to": "Eve"}),
            Language::English,
        );
        assert!(said.starts_with("to Eve"), "{said}");
    }
}
