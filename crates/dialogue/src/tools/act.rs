//! Describes the effect of a call in plain words: the act in a question such as "May I turn off the
//! lamp?". Not for the sentence around it, nor for deciding which calls need a question.

use hearken_base::language::{Language, is_han};
use hearken_ports::{Provenance, Tool};

use super::arguments::{Named, named};
use super::parsed_arguments::parsed_arguments;
use super::risk::spaced;

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 40;
/// Maximum length of a description's sentence that serves as an act, in characters.
const MAX_SENTENCE_CHARS: usize = 60;

/// Words in tool names that reverse the act that follows.
const REVERSING_WORDS: [&str; 11] =
    ["undo", "not", "no", "dont", "never", "prevent", "block", "disable", "deny", "revert", "skip"];
/// Words in tool names that carry no information about the act.
const EMPTY_WORDS: [&str; 12] =
    ["hass", "intent", "tool", "self", "mcp", "do", "action", "api", "service", "the", "a", "get"];

/// Words in the name of a camera tool that name neither a place nor another act.
const PICTURE_WORDS: [&str; 4] = ["camera", "take", "photo", "picture"];
/// Act of a tool that takes pictures.
const TAKING_A_PHOTO: &str = "take a photo";

/// An act: the words of a tool's name, and the verb in English and in Chinese.
type Act = (&'static [&'static str], &'static str, &'static str);

/// Acts; longer phrases come first. Words that also name things are acts only in names without
/// another act: see [`THINGS_TOO`].
const ACTS: [Act; 46] = [
    (&["remember", "about", "me"], "remember:", "记住："),
    (&["remember", "my", "voice"], "learn the voice of", "记住这个声音，名字是"),
    (&["change", "my", "name"], "call you", "以后叫你"),
    (&["forget", "me"], "forget you", "删除你的声纹和记忆"),
    (&["turn", "on"], "turn on", "打开"),
    (&["switch", "on"], "turn on", "打开"),
    (&["turn", "off"], "turn off", "关闭"),
    (&["switch", "off"], "turn off", "关闭"),
    (&["shut", "down"], "shut down", "关闭"),
    (&["take", "photo"], TAKING_A_PHOTO, "拍照"),
    (&["shutdown"], "shut down", "关闭"),
    (&["toggle"], "switch", "切换"),
    (&["unlock"], "unlock", "解锁"),
    (&["disarm"], "disarm", "撤防"),
    (&["open"], "open", "打开"),
    (&["close"], "close", "关上"),
    (&["start"], "start", "启动"),
    (&["stop"], "stop", "停止"),
    (&["pause"], "pause", "暂停"),
    (&["change"], "change", "更改"),
    (&["update"], "change", "更改"),
    (&["edit"], "edit", "编辑"),
    (&["delete"], "delete", "删除"),
    (&["remove"], "remove", "移除"),
    (&["erase"], "erase", "清除"),
    (&["clear"], "clear", "清除"),
    (&["wipe"], "erase", "清除"),
    (&["move"], "move", "移动"),
    (&["rename"], "rename", "重命名"),
    (&["create"], "create", "创建"),
    (&["add"], "add", "添加"),
    (&["write"], "write", "写入"),
    (&["read"], "read", "读取"),
    (&["send"], "send", "发送"),
    (&["reply"], "reply to", "回复"),
    (&["publish"], "publish", "发布"),
    (&["buy"], "buy", "购买"),
    (&["purchase"], "buy", "购买"),
    (&["pay"], "pay", "支付"),
    (&["transfer"], "transfer", "转账"),
    (&["cancel"], "cancel", "取消"),
    (&["restart"], "restart", "重启"),
    (&["reboot"], "restart", "重启"),
    (&["reset"], "reset", "重置"),
    (&["install"], "install", "安装"),
    (&["uninstall"], "uninstall", "卸载"),
];
/// Acts whose words also name things: `delete_record` deletes, and records nothing.
const THINGS_TOO: [Act; 10] = [
    (&["set"], "change", "更改"),
    (&["lock"], "lock", "锁上"),
    (&["arm"], "arm", "布防"),
    (&["run"], "run", "运行"),
    (&["play"], "play", "播放"),
    (&["record"], "record", "录制"),
    (&["post"], "post", "发布"),
    (&["call"], "call", "呼叫"),
    (&["order"], "order", "订购"),
    (&["book"], "book", "预订"),
];

/// Things in tool names, in Chinese.
const THINGS: [(&str, &str); 26] = [
    ("door", "门"),
    ("doors", "门"),
    ("light", "灯"),
    ("lights", "灯"),
    ("lamp", "灯"),
    ("lock", "门锁"),
    ("window", "窗户"),
    ("curtain", "窗帘"),
    ("garage", "车库"),
    ("alarm", "警报"),
    ("file", "文件"),
    ("files", "文件"),
    ("folder", "文件夹"),
    ("email", "邮件"),
    ("mail", "邮件"),
    ("message", "消息"),
    ("news", "新闻"),
    ("photo", "照片"),
    ("video", "视频"),
    ("audio", "录音"),
    ("temperature", "温度"),
    ("volume", "音量"),
    ("payment", "付款"),
    ("all", "所有"),
    ("account", "账户"),
    ("calendar", "日历"),
];

/// Returns the effect of a call of this tool with these arguments, in this language: a verb, its
/// object, and each further argument. If the tool's name contains no known act, returns the first
/// sentence of its description if that is in this language, else its name as words.
pub(super) fn act(tool: &Tool, text: &str, language: Language) -> String {
    let words = name_words(&tool.name);
    // Parsed as for the call itself.
    let arguments = parsed_arguments(text).unwrap_or_default();
    let Named { mut object, others } = named(tool, &arguments, language);
    let told = match verb(&words) {
        Some(((names, english, chinese), at)) => {
            let mut rest = words[..at].to_vec();
            rest.extend_from_slice(&words[at + names.len()..]);
            // `delete_account` with a name deletes the account, and not the person.
            let of_name = in_name(&rest, language);
            let first = of_name.or_else(|| object.take().map(|object| object.bare));
            match language {
                Language::English => with_article(english, first),
                Language::Chinese => format!("{chinese}{}", first.unwrap_or_default()),
            }
        }
        None if tool.name.chars().any(is_han) && language == Language::Chinese => {
            spoken(&tool.name)
        }
        None => described(&tool.description, language).unwrap_or_else(|| words.join(" ")),
    };
    let separator = match language {
        Language::English => ", ",
        Language::Chinese => "，",
    };
    let object = object.map(|object| object.labelled);
    [Some(told), object, others].into_iter().flatten().collect::<Vec<_>>().join(separator)
}

/// Reports whether a call of a tool that takes pictures does only that: its name says nothing else,
/// neither another act nor which camera, and it has no argument but a question about the picture.
pub(super) fn is_plain_picture(tool: &Tool, arguments: &str) -> bool {
    let is_about = |key: &String| matches!(key.as_str(), "question" | "query" | "prompt");
    name_words(&tool.name).iter().all(|word| PICTURE_WORDS.contains(&word.as_str()))
        && parsed_arguments(arguments).unwrap_or_default().keys().all(is_about)
}

/// Returns an act with the tool and the source that carry it out. The name of a tool client is
/// marked as such: the client has chosen it.
pub(super) fn with_tool(act: &str, tool: &str, from: &Provenance, language: Language) -> String {
    let tool = spoken(tool);
    let source = spoken(&from.source);
    match (language, from.group.is_some()) {
        (Language::English, false) => format!("{act}, with the tool {tool} of {source}"),
        (Language::English, true) => {
            format!("{act}, with the tool {tool} of the tool client {source}")
        }
        (Language::Chinese, false) => format!("用{source}的{tool}，{act}"),
        (Language::Chinese, true) => format!("用工具客户端{source}的{tool}，{act}"),
    }
}

/// Returns the act that the words of a name express, and its position. `None` if they express
/// several, or a word before it reverses it.
fn verb(words: &[String]) -> Option<(&'static Act, usize)> {
    let first = |acts: &'static [Act]| {
        let places = acts.iter().filter_map(|act| {
            let at = words.windows(act.0.len()).position(|part| part == act.0)?;
            Some((act, at))
        });
        places.min_by_key(|(act, at)| (*at, usize::MAX - act.0.len()))
    };
    let (act, at) = first(&ACTS).or_else(|| first(&THINGS_TOO))?;
    let behind = &words[at + act.0.len()..];
    if ACTS.iter().any(|other| behind.windows(other.0.len()).any(|part| part == other.0)) {
        return None;
    }
    let reversed = words[..at].iter().any(|word| REVERSING_WORDS.contains(&word.as_str()));
    (!reversed).then_some((act, at))
}

fn with_article(verb: &str, object: Option<String>) -> String {
    match object {
        None => verb.to_owned(),
        // The object is the camera, or what is seen.
        Some(object) if verb == TAKING_A_PHOTO => format!("{verb}, {object}"),
        Some(object)
            if !verb.ends_with(":")
                && object.starts_with(|c: char| c.is_ascii_lowercase())
                && !object.starts_with("all ") =>
        {
            format!("{verb} the {object}")
        }
        Some(object) => format!("{verb} {object}"),
    }
}

/// Returns the words of a name, in lower case, without uninformative ones.
fn name_words(name: &str) -> Vec<String> {
    let spaced = spaced(name);
    let words = spaced.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty() && !EMPTY_WORDS.contains(word));
    words.map(str::to_owned).collect()
}

/// Returns the meaning of the other words of a name.
fn in_name(words: &[String], language: Language) -> Option<String> {
    let said = match language {
        Language::English => words.join(" "),
        Language::Chinese => words
            .iter()
            .map(|word| {
                let known = THINGS.iter().find(|(thing, _)| thing == word);
                known.map_or_else(|| format!(" {word} "), |(_, chinese)| (*chinese).to_owned())
            })
            .collect(),
    };
    Some(spoken(&said)).filter(|said| !said.is_empty())
}

/// Returns the first sentence of a description, if it is short and in this language.
fn described(description: &str, language: Language) -> Option<String> {
    let first = description.split(['.', '。', '\n', '!', '！']).next()?.trim();
    let is_chinese = first.chars().any(is_han);
    let fits = !first.is_empty()
        && first.chars().count() <= MAX_SENTENCE_CHARS
        && is_chinese == (language == Language::Chinese);
    fits.then(|| {
        let (verb, rest) = first.split_at(first.find(' ').unwrap_or(first.len()));
        let mut chars = verb.chars();
        let lower = chars.next().into_iter().flat_map(char::to_lowercase);
        let verb: String = lower.chain(chars).collect();
        let act = infinitive(&verb) + rest;
        act.chars().filter(|c| !c.is_control()).collect()
    })
}

/// Returns a verb without the ending of `does`, `begins`, `watches` and `tries`.
fn infinitive(verb: &str) -> String {
    let ends = |ending: &str| verb.strip_suffix(ending).filter(|stem| stem.len() > 1);
    if let Some(stem) = ends("ies") {
        return format!("{stem}y");
    }
    for (ending, kept) in [("oes", 1), ("sses", 2), ("shes", 2), ("ches", 2), ("xes", 1)] {
        if let Some(stem) = verb.strip_suffix(ending) {
            return stem.to_owned() + &ending[..kept];
        }
    }
    let is_base =
        ["ss", "us", "is", "as"].iter().any(|end| verb.ends_with(end)) || verb == "always";
    ends("s").filter(|_| !is_base).unwrap_or(verb).to_owned()
}

/// Returns a name as plain words, up to a length that a listener can follow.
pub(super) fn spoken(name: &str) -> String {
    let words = name.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        Tool {
            name: name.into(),
            description: description.into(),
            parameters: json!({"properties": {
                "name": {}, "area": {}, "entity_id": {}, "to": {}, "domain": {}, "target": {}, "service": {},
                "data": {}, "amount": {}, "transfers": {},
            }}),
            finishes: false,
            destructive: true,
        }
    }

    /// Checks the words for a call in English and in Chinese.
    fn is_named(name: &str, arguments: &str, english: &str, chinese: &str) {
        let tool = tool(name, "");
        assert_eq!(act(&tool, arguments, Language::English), english, "{name}");
        assert_eq!(act(&tool, arguments, Language::Chinese), chinese, "{name}");
    }

    #[test]
    fn acts_are_named_in_the_persons_language() {
        for (name, arguments, english, chinese) in [
            ("intent.HassTurnOff", r#"{"name": "lamp"}"#, "turn off the lamp", "关闭lamp"),
            ("HassTurnOn", r#"{"name": "厨房的灯"}"#, "turn on 厨房的灯", "打开厨房的灯"),
            ("HassTurnOff", r#"{"area": "Kitchen"}"#, "turn off Kitchen", "关闭Kitchen"),
            (
                "light.turn_off",
                r#"{"entity_id": "light.desk_lamp"}"#,
                "turn off the light, desk lamp",
                "关闭灯，desk lamp",
            ),
            ("open_door", "{}", "open the door", "打开门"),
            ("self.lock.open", "{}", "open the lock", "打开门锁"),
            ("delete_all_files", "", "delete all files", "删除所有文件"),
            ("sendEmail", r#"{"to": "Anna"}"#, "send the email, to Anna", "发送邮件，给Anna"),
            ("pay", "{}", "pay", "支付"),
            ("open_lock", "{}", "open the lock", "打开门锁"),
            ("lock_door", "{}", "lock the door", "锁上门"),
            ("delete_dns_record", "{}", "delete the dns record", "删除dns record"),
            (
                "change_my_name",
                r#"{"name": "Ben", "instead_of": "Anna"}"#,
                "call you Ben, instead of Anna",
                "以后叫你Ben，而不是Anna",
            ),
            ("cancel_order", "{}", "cancel the order", "取消order"),
            ("delete_workflow_run", "{}", "delete the workflow run", "删除workflow run"),
            (
                "HassTurnOff",
                r#"{"area": "Kitchen", "domain": ["lock"]}"#,
                "turn off the lock, in Kitchen",
                "关闭lock，在Kitchen",
            ),
            (
                "open_door",
                r#"{"title": "window"}"#,
                "open the door, title window",
                "打开门，title window",
            ),
            (
                "HassTurnOff",
                r#""{\"name\": \"front door\"}""#,
                "turn off the front door",
                "关闭front door",
            ),
            (
                "send_message",
                r#"{"to": "+1 900 555 0199"}"#,
                "send the message, to 1 900 555 0199",
                "发送消息，给1 900 555 0199",
            ),
            (
                "HassTurnOff",
                r#"{"target": {"entity_id": ["lock.front"]}}"#,
                "turn off the lock front",
                "关闭lock front",
            ),
            (
                "call_service",
                r#"{"domain": "lock", "service": "unlock", "data": {"name": "Hall"}}"#,
                "call the unlock, Hall, lock",
                "呼叫unlock，Hall，lock",
            ),
        ] {
            is_named(name, arguments, english, chinese);
        }
    }

    #[test]
    fn acts_of_several_words_are_named_whole() {
        for (name, arguments, english, chinese) in [
            ("close_all_open_windows", "{}", "close all open windows", "close all open windows"),
            (
                "read_and_delete_message",
                r#"{"name": "Tax"}"#,
                "read and delete message, Tax",
                "read and delete message，Tax",
            ),
            (
                "refund_payment",
                r#"{"to": "Eve", "amount": 19.99}"#,
                "refund payment, amount 19.99, to Eve",
                "refund payment，金额19.99，给Eve",
            ),
            (
                "send_transfers",
                r#"{"transfers": [{"payee": "Eve", "amount": 5000}]}"#,
                "send the transfers, amount 5000, to Eve",
                "发送transfers，金额5000，给Eve",
            ),
            ("undo_delete", "{}", "undo delete", "undo delete"),
            ("pay", r#"{"to": "Anna", "amount": 500}"#, "pay 500, to Anna", "支付500，给Anna"),
        ] {
            is_named(name, arguments, english, chinese);
        }
    }

    #[test]
    fn a_tool_name_without_an_act_is_replaced_by_its_description() {
        let washer = tool("washer_cycle", "Begins a cycle. Takes an hour.");
        assert_eq!(act(&washer, "{}", Language::English), "begin a cycle");
        assert_eq!(act(&washer, "{}", Language::Chinese), "washer cycle");
        let chinese = tool("洗衣机_循环", "");
        assert_eq!(act(&chinese, "{}", Language::Chinese), "洗衣机 循环");
    }

    #[test]
    fn a_description_is_put_in_the_infinitive() {
        for (told, infinitive_of_it) in [
            ("does", "do"),
            ("takes", "take"),
            ("watches", "watch"),
            ("passes", "pass"),
            ("tries", "try"),
            ("closes", "close"),
            ("press", "press"),
            ("focus", "focus"),
            ("get", "get"),
        ] {
            assert_eq!(infinitive(told), infinitive_of_it);
        }
    }

    #[test]
    fn objects_are_short_plain_words() {
        let wild = r#"{"name": "x\n<b>\"; DROP TABLE"}"#;
        let said = act(&tool("turn_off", ""), wild, Language::English);
        assert_eq!(said, "turn off the x b DROP TABLE");
        let long = json!({"name": "y".repeat(500)}).to_string();
        assert!(act(&tool("turn_off", ""), &long, Language::English).len() < 70);
        assert_eq!(act(&tool("turn_off", ""), "no json", Language::English), "turn off");
        let many: Vec<String> = (0..40).map(|n| format!("light.number_{n}")).collect();
        let many = json!({"entity_id": many, "name": "lock"}).to_string();
        let said = act(&tool("turn_off", ""), &many, Language::English);
        assert!(said.starts_with("turn off the lock, ") && said.ends_with(" and more"), "{said}");
        assert!(said.chars().count() < 200, "{said}");
        assert!(act(&tool("turn_off", ""), &many, Language::Chinese).ends_with("等等"));
    }
}
