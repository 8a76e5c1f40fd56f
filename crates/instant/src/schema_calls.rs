//! Calls of tools that no topic knows, from their schemas: an utterance that names the tool and gives each required argument is a
//! call. Only for a small model. Not for tools that read, and not for what other rules do.

use hearken_base::language::{Language, is_han};
use serde_json::{Map, json};

use crate::act::Act;
use crate::bindings::{Accepts, Parameter, Tool, words_of_name};
use crate::lenient::{Command, stem};
use crate::names::NAMES;
use crate::normalise::words_of;
use crate::phrases::{Sentence, Subject};
use crate::referent::Call;
use crate::value::Value;

/// Fewest points of a call.
const FEWEST_POINTS: u32 = 3;
/// Words of names and descriptions that name nothing.
const EMPTY: [&str; 65] = [
    "set", "sets", "get", "gets", "turn", "turns", "switch", "switches", "control", "controls",
    "the", "a", "an", "of", "to", "on", "off", "in", "at", "for", "and", "or", "device", "devices",
    "home", "house", "this", "that", "it", "is", "are", "as", "with", "by", "from", "self", "tool",
    "all", "value", "start", "stop", "run", "create", "add", "level", "target", "new", "some",
    "not", "without", "only", "when", "then", "must", "may", "can", "will", "should", "which",
    "what", "how", "why", "who", "was", "has",
];
/// Words of questions and negations in Chinese: no description explains them.
const NOT_NAMED: [&str; 14] =
    ["不", "没", "无", "别", "吗", "么", "呢", "否", "谁", "哪", "几", "是", "有", "了"];
/// Words that lock and unlock, in both languages.
const LOCK: [&str; 4] = ["lock", "锁", "锁上", "锁好"];
const UNLOCK: [&str; 3] = ["unlock", "开锁", "解锁"];
/// Options of tools, and the words that mean them, in both languages.
const OPTIONS: [(&[&str], &[&str]); 14] = [
    (
        &["on", "true", "start", "enable", "yes", "kai", "dakai"],
        &["on", "start", "打开", "开", "启动", "开始", "开启"],
    ),
    (
        &["off", "false", "stop", "disable", "no", "guan", "guanbi"],
        &["off", "stop", "关", "关闭", "停", "停止"],
    ),
    (
        &["open", "up", "raise", "unfold"],
        &["open", "up", "raise", "lift", "打开", "开", "升", "收起来"],
    ),
    (
        &["close", "closed", "down", "lower", "shut", "fold"],
        &["close", "shut", "down", "lower", "关", "关上", "放下", "降"],
    ),
    (&["pause", "hold", "paused"], &["pause", "hold", "wait", "暂停", "先停"]),
    (
        &["dock", "home", "return", "charge", "base", "return_to_base"],
        &["dock", "home", "charge", "charger", "back", "base", "回去", "充电", "回充", "回家"],
    ),
    (
        &["clean", "start_cleaning", "vacuum"],
        &["clean", "cleaning", "vacuum", "hoover", "sweep", "start", "扫", "打扫", "清扫", "吸"],
    ),
    (&["lock", "locked"], &LOCK),
    (&["unlock", "unlocked"], &UNLOCK),
    (
        &["low", "slow", "quiet", "silent", "min"],
        &["low", "lowest", "slow", "quiet", "silent", "低", "低档", "小", "一档", "静音"],
    ),
    (&["medium", "mid", "normal", "middle"], &["medium", "middle", "normal", "中", "中档", "二档"]),
    (
        &["high", "fast", "strong", "max", "turbo"],
        &[
            "high", "highest", "fast", "full", "strong", "turbo", "高", "高档", "大", "强", "三档",
            "最大",
        ],
    ),
    (&["auto", "automatic"], &["auto", "automatic", "自动"]),
    (&["eco", "saving"], &["eco", "energy saving", "节能"]),
];
/// Household nouns in Chinese and English, for tools in the other language.
const NOUNS: [(&str, &str); 45] = [
    ("洒水", "sprinkler"),
    ("浇水", "water"),
    ("浇", "water"),
    ("灌溉", "irrigation"),
    ("泳池", "pool"),
    ("车库门", "garage door"),
    ("大门", "gate"),
    ("门锁", "lock"),
    ("锁", "lock"),
    ("加湿", "humidifier"),
    ("除湿", "dehumidifier"),
    ("扫地", "vacuum"),
    ("吸尘", "vacuum"),
    ("热水器", "water heater"),
    ("热水器", "boiler"),
    ("风扇", "fan"),
    ("电扇", "fan"),
    ("投影", "projector"),
    ("香薰", "diffuser"),
    ("净化", "purifier"),
    ("洗衣", "washer"),
    ("洗衣", "laundry"),
    ("烘干", "dryer"),
    ("洗碗", "dishwasher"),
    ("烤箱", "oven"),
    ("咖啡", "coffee"),
    ("喂食", "feeder"),
    ("喂", "feed"),
    ("鱼缸", "aquarium"),
    ("警报", "alarm"),
    ("摄像", "camera"),
    ("门铃", "doorbell"),
    ("水壶", "kettle"),
    ("电热毯", "blanket"),
    ("马桶", "toilet"),
    ("割草", "mower"),
    ("草坪", "lawn"),
    ("喷泉", "fountain"),
    ("壁炉", "fireplace"),
    ("桑拿", "sauna"),
    ("浴缸", "bath"),
    ("收音机", "radio"),
    ("电视", "tv"),
    ("床", "bed"),
    ("书桌", "desk"),
];

/// Call with the points for what of it was named.
struct Found {
    call: Call,
    points: u32,
}

/// Returns the one call that an utterance names.
pub(crate) fn call(command: &Command<'_>) -> Option<Vec<Act>> {
    if command.is_later() {
        return None;
    }
    let bindings = command.setting.context.bindings;
    // A number for a tool that a topic knows is what the topic takes for one: `sixty percent in the office` is no brightness.
    let is_open = |tool: &&Tool| {
        !is_for_entities(tool) && (command.numbers() == 0 || !bindings.knows(&tool.name))
    };
    let tools = bindings.acting().iter().filter(is_open);
    let mut found: Vec<Found> = tools.filter_map(|tool| read(tool, command)).collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.points));
    let first = found.first().filter(|first| first.points >= FEWEST_POINTS)?;
    if found.get(1).is_some_and(|second| second.points == first.points) {
        return None;
    }
    let subject = Subject::fixed(
        Sentence::new("好的，已经办好了。", "Okay, that's done."),
        Sentence::new("抱歉，没能办成。", "Sorry, that didn't work."),
    );
    Some(vec![Act::Do { call: first.call.clone(), subject, referent: None }])
}

/// Reports whether a tool is for the entities of a home: without one that is named it changes others.
fn is_for_entities(tool: &Tool) -> bool {
    ["name", "area"].iter().all(|name| tool.parameters.iter().any(|one| one.name == *name))
}

fn read(tool: &Tool, command: &Command<'_>) -> Option<Found> {
    let mut arguments = Map::new();
    let mut points = subject_points(tool, command);
    let mut is_stated = false;
    let mut numbers = 0;
    for parameter in &tool.parameters {
        let value = match &parameter.accepts {
            Accepts::Options(options) => option(options, command).map(|(value, is_named)| {
                points += if is_named { 2 } else { 0 };
                is_stated |= !is_named;
                json!(value)
            }),
            Accepts::Flag => flag(parameter, tool, command).map(|is_on| {
                is_stated = true;
                json!(is_on)
            }),
            Accepts::Number { is_integer, min, max } => {
                let number = number(parameter, command).filter(|number| {
                    min.is_none_or(|min| *number >= min) && max.is_none_or(|max| *number <= max)
                });
                numbers += u32::from(number.is_some());
                number.and_then(|number| {
                    #[expect(clippy::cast_possible_truncation, reason = "a number that was spoken")]
                    if *is_integer && number.fract() == 0.0 {
                        Some(json!(number as i64))
                    } else if *is_integer {
                        None
                    } else {
                        Some(json!(number))
                    }
                })
            }
            Accepts::Text | Accepts::List | Accepts::Other => None,
        };
        match value {
            Some(value) => {
                arguments.insert(parameter.name.clone(), value);
            }
            None if parameter.is_required => return None,
            None => {}
        }
    }
    // Each number that was said has to be used.
    let said = u32::try_from(command.numbers()).unwrap_or(u32::MAX);
    let is_named = in_state(tool, command, is_stated)?;
    if said != numbers || !is_explained(tool, command) {
        return None;
    }
    points += u32::from(is_named);
    let call = Call { tool: tool.name.clone(), arguments };
    Some(Found { call, points: points + numbers })
}

/// Reports whether each word is one of the tool's, one of its acts or numbers, or a filler.
fn is_explained(tool: &Tool, command: &Command<'_>) -> bool {
    let options = || {
        tool.parameters.iter().flat_map(|parameter| match &parameter.accepts {
            Accepts::Options(options) => options.as_slice(),
            _ => &[],
        })
    };
    let has_rooms = options().any(|option| command.has_room(&words_of_name(option)))
        || tool.name_words.iter().any(|word| command.has_room(std::slice::from_ref(word)));
    let mut of_options: Vec<String> = Vec::new();
    for option in options() {
        of_options.extend(words_of_name(option));
        let lower = option.to_lowercase();
        for entry in OPTIONS.iter().filter(|entry| entry.0.contains(&lower.as_str())) {
            of_options.extend(entry.1.iter().flat_map(|phrase| words_of(phrase).words));
        }
    }
    if tool.mentions(&["lock", "unlock"]) {
        let phrases = LOCK.iter().chain(&UNLOCK);
        of_options.extend(phrases.flat_map(|phrase| words_of(phrase).words));
    }
    let is_option = |word: &str| of_options.iter().any(|option| stem(option) == stem(word));
    let described = [&tool.name_words, &tool.words].into_iter();
    let described = described.chain(
        tool.parameters.iter().flat_map(|parameter| [&parameter.name_words, &parameter.words]),
    );
    let described: Vec<&Vec<String>> = described.collect();
    let is_named = |at: usize| {
        let Some(word) = command.words.get(at) else { return false };
        let word = word.as_str();
        if command.setting.language == Language::Chinese {
            return is_option(word) || is_named_in_chinese(tool, &described, command.words, at);
        }
        let is_content = |word: &str| !EMPTY.contains(&word) && word.len() > 2;
        let is_in = |words: &&Vec<String>| words.iter().any(|one| stem(one) == stem(word));
        is_option(word)
            || tool.name_words.iter().any(|one| stem(one) == stem(word))
            || is_content(word) && described.iter().any(is_in)
    };
    command.is_explained(has_rooms, is_named)
}

/// Reports whether a character is a part of a word of the tool: of two characters that its texts have, or of a noun for it.
fn is_named_in_chinese(
    tool: &Tool,
    described: &[&Vec<String>],
    words: &[String],
    at: usize,
) -> bool {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    if NOT_NAMED.contains(&word(at)) {
        return false;
    }
    // 洒水器: what it is called with such an ending.
    if matches!(word(at), "机" | "器") && at > 0 {
        return is_named_in_chinese(tool, described, words, at - 1);
    }
    let texts: Vec<String> = described.iter().map(|words| words.concat()).collect();
    let is_described = |from: usize| {
        let pair = [word(from), word(from + 1)];
        let is_word = pair.iter().all(|one| one.chars().all(is_han) && !NOT_NAMED.contains(one));
        let pair = pair.concat();
        is_word && pair.chars().count() == 2 && texts.iter().any(|text| text.contains(&pair))
    };
    let is_noun = |noun: &(&str, &str)| {
        let length = noun.0.chars().count();
        let covers = |from: usize| {
            words.get(from..from + length).is_some_and(|part| part.concat() == noun.0)
        };
        (at.saturating_sub(length - 1)..=at).any(covers) && tool.mentions(&[noun.1])
    };
    is_described(at) || at > 0 && is_described(at - 1) || NOUNS.iter().any(is_noun)
}

/// Returns whether the name of a tool says on or off as the utterance does, such as `radio_stop`; `None` if it says the opposite.
fn in_state(tool: &Tool, command: &Command<'_>, is_stated: bool) -> Option<bool> {
    let named = |words: &[&str]| tool.name_words.iter().any(|word| words.contains(&word.as_str()));
    let is_off = named(&["off", "stop", "close", "disable", "halt", "cancel", "remove", "delete"]);
    // What runs is not begun once more: `cancel the ten minute sprinkler`.
    let is_meant = is_off || named(&["pause", "hold", "add", "extend", "change"]);
    if command.is_about_what_is_there() && !is_meant || command.halts() && !(is_meant || is_stated)
    {
        return None;
    }
    let is_on = named(&["on", "start", "open", "enable", "run"]);
    match command.state() {
        Some(true) => (!is_off).then_some(is_on),
        Some(false) => (!is_on || is_off || is_stated).then_some(is_off),
        None => (!(is_off || is_on && tool.parameters.is_empty())).then_some(false),
    }
}

/// Returns the points for words of the tool that are in the utterance: those of its name count twice.
fn subject_points(tool: &Tool, command: &Command<'_>) -> u32 {
    let is_said = |word: &String| command.says(word);
    let content =
        |word: &&String| !EMPTY.contains(&word.as_str()) && (word.len() > 2 || !word.is_ascii());
    let is_zh = command.setting.language == Language::Chinese;
    let mut points = 0;
    let in_name = tool.name_words.iter().filter(content).filter(|word| is_said(word)).count();
    points += if in_name > 0 { 2 } else { 0 };
    if is_zh {
        let said = command.words.concat();
        let described: String = tool.words.concat();
        let chars: Vec<char> = described.chars().collect();
        let pairs = chars.windows(2).filter(|pair| pair.iter().all(|c| is_han(*c)));
        let shared = pairs
            .filter(|pair| said.contains(&pair.iter().collect::<String>()) && !is_common(pair))
            .count();
        points += if shared > 0 { 2 } else { 0 };
        let translated = NOUNS.iter().any(|(zh, en)| {
            // 床 of 床头灯 and of 起床 is no bed.
            let parts = ["灯", "头"].map(|part| format!("{zh}{part}"));
            let said =
                parts.iter().fold(said.replace("起床", ""), |said, part| said.replace(part, ""));
            said.contains(zh) && tool.mentions(&[en])
        });
        points += if translated && shared == 0 { 2 } else { 0 };
    } else if in_name == 0 {
        let in_text = tool.words.iter().filter(content).filter(|word| is_said(word)).count();
        points += if in_text > 0 { 1 } else { 0 };
    }
    points
}

/// Pairs of characters that name nothing.
fn is_common(pair: &[char]) -> bool {
    const COMMON: [&str; 24] = [
        "打开", "关闭", "关掉", "设置", "设定", "调整", "控制", "开关", "家里", "设备", "当前",
        "本机", "一个", "某处", "目标", "开始", "停止", "查询", "信息", "可以", "所有", "的灯",
        "照明", "状态",
    ];
    let pair: String = pair.iter().collect();
    COMMON.contains(&pair.as_str())
}

/// Returns the option that is named, and whether it is by name; `None` if none is, or more than one.
fn option(options: &[String], command: &Command<'_>) -> Option<(String, bool)> {
    let named: Vec<&String> = options
        .iter()
        .filter(|option| {
            let words = words_of_name(option);
            let is_state =
                OPTIONS.iter().any(|entry| entry.0.contains(&option.to_lowercase().as_str()));
            !is_state && (NAMES.says(command.words, &words) || command.has_room(&words))
        })
        .collect();
    match named.as_slice() {
        [one] => return Some(((*one).clone(), true)),
        [] => {}
        many => {
            // `front door` is named by `front door`, not by `door`.
            let longest = many.iter().max_by_key(|option| words_of_name(option).len())?;
            let most = words_of_name(longest).len();
            let count = many.iter().filter(|option| words_of_name(option).len() == most).count();
            return (count == 1).then(|| ((*longest).clone(), true));
        }
    }
    let meant: Vec<&String> = options
        .iter()
        .filter(|option| {
            let entry =
                OPTIONS.iter().find(|entry| entry.0.contains(&option.to_lowercase().as_str()));
            entry.is_some_and(|entry| entry.1.iter().any(|word| command.says_phrase(word)))
        })
        .collect();
    if let [one] = meant.as_slice() {
        return Some(((*one).clone(), false));
    }
    // 升起来 is on or open for whatever goes up.
    let is_on = command.state().filter(|_| meant.is_empty())?;
    let wanted = OPTIONS.get(usize::from(!is_on))?;
    let mut found =
        options.iter().filter(|option| wanted.0.contains(&option.to_lowercase().as_str()));
    let first = found.next()?;
    found.next().is_none().then(|| (first.clone(), false))
}

fn flag(parameter: &Parameter, tool: &Tool, command: &Command<'_>) -> Option<bool> {
    if parameter.mentions(&["locked", "lock"]) || tool.mentions(&["unlock"]) {
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| command.says_phrase(phrase));
        return if says(&UNLOCK) { Some(false) } else { says(&LOCK).then_some(true) };
    }
    command.state()
}

/// Returns the number for a parameter, in its unit.
fn number(parameter: &Parameter, command: &Command<'_>) -> Option<f64> {
    let size = if parameter.mentions(&["seconds", "second", "secs", "秒"]) {
        Some(1.0)
    } else if parameter.mentions(&["minutes", "minute", "mins", "分钟"]) {
        Some(60.0)
    } else if parameter.mentions(&["hours", "hour", "小时"]) {
        Some(3_600.0)
    } else {
        None
    };
    if let Some(size) = size {
        let [Value::Duration(length)] = command.durations() else { return None };
        #[expect(clippy::cast_precision_loss, reason = "a length that was spoken")]
        let seconds = (length.seconds + length.days * 86_400) as f64;
        return (length.months == 0).then_some(seconds / size);
    }
    command.level().map(|level| level.0.as_f64())
}
