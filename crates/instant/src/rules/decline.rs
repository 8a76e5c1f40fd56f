//! Rules that decline: deeds for which no tool is offered, facts that cannot be known, and the weather without a tool for it.
//! Not for what an ability is, nor for the words of the refusals, which are in `abilities`.

use hearken_base::language::Language;

use super::Setting;
use crate::abilities::ABILITIES;
use crate::act::Act;
use crate::names::NAMES;
use crate::normalise::words_of;
use crate::template::Slots;
use crate::value::Value;

/// Most words of a name of a person in English.
const LONGEST_NAME_EN: usize = 3;
/// Most characters of a name of a person or a place in Chinese.
const LONGEST_NAME_ZH: usize = 6;

/// Words of an open slot by which a sentence is about words, or a tale, or has a condition.
const OTHER_TALK_EN: [&str; 34] = [
    "story",
    "stories",
    "poem",
    "joke",
    "riddle",
    "lyrics",
    "essay",
    "mean",
    "means",
    "meaning",
    "translate",
    "translated",
    "spell",
    "spelled",
    "pronounce",
    "rhyme",
    "in french",
    "in spanish",
    "in german",
    "in chinese",
    "in japanese",
    "in italian",
    "in korean",
    "in english",
    "word",
    "words",
    "sentence",
    "movie called",
    "said",
    "says",
    "why",
    "how do",
    "how to",
    "or not",
];
const OTHER_TALK_ZH: [&str; 36] = [
    "怎么",
    "怎样",
    "什么",
    "为什么",
    "意思",
    "笔画",
    "这句",
    "这个词",
    "这首",
    "故事",
    "笑话",
    "英语",
    "英文",
    "日语",
    "法语",
    "翻译",
    "谜语",
    "作文",
    "歌词",
    "诗",
    "多少",
    "谁唱",
    "谁写",
    "是谁",
    "哪个",
    "哪家",
    "是不是",
    "好不好",
    "应该",
    "要不要",
    "的时候",
    "如果",
    "的话",
    "了没",
    "没有",
    "的人",
];
/// Words of an open slot that begin a command of its own.
const COMMANDS_EN: [&str; 22] = [
    "turn", "switch", "set", "play", "open", "close", "dim", "mute", "stop", "what", "what is",
    "how", "start", "make", "raise", "lower", "remind", "wake", "when", "where", "show", "give",
];
const LINKS_EN: [&str; 5] = ["and then", "and also", "and", "then", "after that"];
const LINKS_ZH: [&str; 7] = ["然后", "接着", "并且", "同时", "顺便", "另外", "再把"];
/// Words that are no name of a person.
const NO_NAMES_EN: [&str; 62] = [
    "me", "it", "that", "this", "a", "an", "you", "yourself", "off", "out", "up", "down", "back",
    "for", "of", "in", "on", "upon", "into", "to", "is", "was", "are", "the", "my", "your", "his",
    "her", "its", "and", "or", "if", "when", "what", "how", "who", "which", "where", "why", "not",
    "no", "center", "centers", "girl", "waiting", "sign", "number", "numbers", "duty", "now",
    "again", "us", "him", "them", "so", "all", "some", "any", "these", "those", "too", "as",
];
const NO_NAMES_ZH: [&str; 14] =
    ["我", "你", "他", "她", "它", "谁", "这", "那", "电话", "了", "的", "是", "不", "没"];
/// What is played without a sound: games and roles.
const GAMES_EN: [&str; 44] = [
    "game",
    "games",
    "with",
    "along",
    "dead",
    "dumb",
    "chess",
    "checkers",
    "cards",
    "poker",
    "trivia",
    "quiz",
    "hangman",
    "tic",
    "twenty questions",
    "rock paper scissors",
    "i spy",
    "hide and seek",
    "tag",
    "catch",
    "truth or dare",
    "would you rather",
    "role",
    "part",
    "football",
    "soccer",
    "tennis",
    "basketball",
    "outside",
    "fair",
    "safe",
    "trick",
    "tricks",
    "joke",
    "character",
    "puzzle",
    "word",
    "doctor",
    "house",
    "riddle",
    "news",
    "headlines",
    "weather",
    "forecast",
];
const GAMES_ZH: [&str; 27] = [
    "游戏",
    "成语",
    "接龙",
    "猜",
    "角色",
    "扮演",
    "谜",
    "棋",
    "牌",
    "故事",
    "笑话",
    "诗",
    "剪刀",
    "真心话",
    "下一",
    "上一",
    "一放",
    "假",
    "心",
    "松",
    "新闻",
    "天气",
    "脑筋",
    "绕口令",
    "段子",
    "惊喜",
    "拥抱",
];

/// Reports whether one of `parts` is in `words`.
fn has(words: &[String], parts: &[&str]) -> bool {
    crate::bindings::schema::mentions(words, parts)
}

/// Reports whether the words of an open slot only go on with what was asked.
fn is_plain(words: &[String], language: Language) -> bool {
    if language == Language::Chinese {
        return !has(words, &OTHER_TALK_ZH) && !has(words, &LINKS_ZH);
    }
    let begins = |rest: &[String]| {
        COMMANDS_EN.iter().any(|command| rest.starts_with(&words_of(command).words))
    };
    let is_command = |at: usize| {
        let rest = words.get(at..).unwrap_or_default();
        let link = |link: &&str| {
            let link = words_of(link).words;
            rest.starts_with(&link) && begins(rest.get(link.len()..).unwrap_or_default())
        };
        LINKS_EN.iter().any(link)
    };
    !has(words, &OTHER_TALK_EN) && !(0..words.len()).any(is_command)
}

/// Reports whether words may be the name of a person or a place.
fn is_name(words: &[String], language: Language) -> bool {
    let first = words.first().map_or("", String::as_str);
    match language {
        Language::Chinese => words.len() <= LONGEST_NAME_ZH && !has(words, &NO_NAMES_ZH),
        Language::English => {
            let is_word = |word: &String| word.chars().all(char::is_alphabetic);
            words.len() <= LONGEST_NAME_EN
                && !NO_NAMES_EN.contains(&first)
                && !NO_NAMES_EN.contains(&words.last().map_or("", String::as_str))
                && !words.iter().any(|word| word == "of")
                && words.iter().all(is_word)
        }
    }
}

/// Reports whether words name what makes a sound.
fn is_sound(words: &[String], language: Language) -> bool {
    !has(words, if language == Language::Chinese { &GAMES_ZH } else { &GAMES_EN })
}

/// Reports whether words may be what is sought, and not the end of a sentence about words.
fn is_query(words: &[String], _: Language) -> bool {
    let first = words.first().map_or("", String::as_str);
    !matches!(first, "是" | "的" | "和" | "有" | "为" | "在")
        && !has(words, &["英语怎么说", "什么意思", "这句话", "怎么写"])
}

/// Returns the ability that is asked for: one of the template, or that of the device.
fn ability(slots: &Slots) -> Option<&str> {
    let named = slots.text("ability");
    if !named.is_empty() {
        return Some(named);
    }
    match slots.get("device") {
        Some(Value::Device(kind)) => Some(NAMES.devices.get(NAMES.general(*kind))?.key.as_str()),
        _ => None,
    }
}

/// Declines if no offered tool may provide what is asked for.
pub(super) fn decline(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let language = setting.language;
    let ability = ability(slots)?;
    if setting.context.bindings.may_provide(ability) {
        return None;
    }
    for (name, is_right) in [
        ("text", is_plain as fn(&[String], Language) -> bool),
        ("who", is_plain),
        ("who", is_name),
        ("query", is_query),
        ("what", is_plain),
        ("what", is_sound),
    ] {
        let is_fine = |value: &Value| match value {
            Value::Text(text) => is_right(&words_of(text).words, language),
            _ => true,
        };
        if !slots.all(name).all(is_fine) {
            return None;
        }
    }
    let refusal = ABILITIES.refusal(ability)?;
    Some(Setting::answer(setting.say(refusal.zh.to_owned(), refusal.en.to_owned())))
}
