//! The tools that a small model is offered for an utterance: those that share a subject with it. A
//! small model calls whatever it is offered, and reads long descriptions slowly. Not for large
//! models, which are offered all tools.

use std::sync::Arc;

use hearken_ports::OfferedTool;
use serde_json::json;

/// Subjects of utterances and tools: words that mean the same in Chinese and English. Latin words
/// match whole words, also as their plural; Han words match anywhere.
const SUBJECTS: [&[&str]; 26] = [
    &[
        "volume", "loud", "louder", "quiet", "quieter", "loudness", "mute", "音量", "声音", "大声",
        "小声", "静音",
    ],
    &[
        "brightness",
        "bright",
        "brighter",
        "dim",
        "dimmer",
        "darker",
        "backlight",
        "亮度",
        "太亮",
        "太暗",
        "调亮",
        "调暗",
    ],
    &["light", "lamp", "lighting", "bulb", "dark", "灯", "太暗", "太黑"],
    &["theme", "appearance", "skin", "主题", "外观", "模式"],
    &["battery", "charge", "charging", "电量", "电池", "充电"],
    &["status", "state", "condition", "状态"],
    &[
        "temperature",
        "heating",
        "heat",
        "thermostat",
        "climate",
        "ac",
        "warm",
        "warmer",
        "cold",
        "colder",
        "cool",
        "hot",
        "温度",
        "空调",
        "暖气",
        "恒温",
        "冷",
        "热",
    ],
    &["humidity", "湿度", "加湿", "除湿"],
    &["fan", "风扇", "电扇", "新风"],
    &["curtain", "blind", "cover", "shutter", "shade", "窗帘", "百叶", "卷帘"],
    &["door", "lock", "garage", "gate", "门", "锁", "车库"],
    &["alarm", "wake", "闹钟", "叫醒", "起床"],
    &["timer", "countdown", "计时", "倒计时", "定时"],
    &["remind", "reminder", "calendar", "schedule", "appointment", "提醒", "日程", "日历", "预约"],
    &["music", "song", "play", "playlist", "album", "artist", "track", "音乐", "歌", "播放", "曲"],
    &["radio", "news", "podcast", "电台", "新闻", "播客", "广播"],
    &["scene", "mode", "routine", "场景", "情景", "模式"],
    &["weather", "forecast", "rain", "snow", "umbrella", "天气", "下雨", "下雪", "预报", "雨伞"],
    &["photo", "picture", "camera", "see", "look", "拍照", "照片", "摄像", "看看", "看到"],
    &["search", "web", "internet", "lookup", "搜索", "查一下", "上网", "百科"],
    &["list", "shopping", "todo", "note", "memo", "清单", "待办", "购物", "备忘", "记一下"],
    &["message", "call", "phone", "email", "text", "短信", "电话", "消息", "邮件", "微信"],
    &["robot", "vacuum", "clean", "walk", "move", "dance", "机器人", "扫地", "走", "跳舞", "动作"],
    &["screen", "display", "屏幕", "显示"],
    &["document", "file", "knowledge", "manual", "文档", "资料", "知识", "说明书"],
    &["exhibit", "museum", "artifact", "展品", "展览", "文物", "博物馆"],
];

/// Words that a language tool needs: the language of answers is changed only if it is named.
const LANGUAGE_WORDS: [&str; 24] = [
    "language",
    "languages",
    "english",
    "chinese",
    "mandarin",
    "cantonese",
    "japanese",
    "korean",
    "french",
    "german",
    "spanish",
    "italian",
    "russian",
    "语言",
    "英文",
    "英语",
    "中文",
    "汉语",
    "普通话",
    "粤语",
    "日语",
    "韩语",
    "法语",
    "德语",
];
/// Words that a role-play tool needs.
const ROLE_WORDS: [&str; 14] = [
    "role",
    "roleplay",
    "character",
    "characters",
    "pretend",
    "persona",
    "act",
    "角色",
    "扮演",
    "人物",
    "假装",
    "演",
    "模仿",
    "身份",
];
/// Words that a clock tool needs.
const CLOCK_WORDS: [&str; 10] =
    ["time", "clock", "date", "day", "hour", "几点", "时间", "日期", "几号", "星期"];
/// Words that a location tool needs.
const PLACE_WORDS: [&str; 9] =
    ["where", "location", "place", "city", "address", "哪里", "哪儿", "位置", "地址"];
/// Name of the built-in clock.
const CLOCK: &str = "get_current_time";
/// Words that name another place.
const ELSEWHERE: [&str; 8] = ["in", "at", "zone", "timezone", "时区", "那边", "那里", "当地"];
/// Built-in tools that change how the conversation goes on, with the words that each of them needs.
const OF_CONVERSATION: [(&str, &[&str]); 7] = [
    ("set_response_language", &LANGUAGE_WORDS),
    ("get_response_language", &LANGUAGE_WORDS),
    ("list_supported_languages", &LANGUAGE_WORDS),
    ("enter_roleplay_mode", &ROLE_WORDS),
    ("exit_roleplay_mode", &ROLE_WORDS),
    ("get_roleplay_status", &ROLE_WORDS),
    ("list_available_characters", &ROLE_WORDS),
];
/// Other built-in tools with the words that each of them needs.
const OF_PLACE: [(&str, &[&str]); 2] = [(CLOCK, &CLOCK_WORDS), ("get_location", &PLACE_WORDS)];
/// Latin words of a tool's text that are too common to name its subject.
const COMMON: [&str; 40] = [
    "this",
    "that",
    "with",
    "from",
    "have",
    "what",
    "when",
    "which",
    "will",
    "your",
    "about",
    "into",
    "than",
    "then",
    "they",
    "them",
    "there",
    "user",
    "used",
    "using",
    "value",
    "name",
    "string",
    "number",
    "integer",
    "tool",
    "tools",
    "function",
    "parameter",
    "device",
    "current",
    "given",
    "returns",
    "return",
    "make",
    "want",
    "please",
    "could",
    "would",
    "should",
];
/// Shortest Latin word that names a subject.
const MIN_WORD_BYTES: usize = 4;
/// Number of Han characters that an utterance and a tool must share in sequence.
const HAN_SEQUENCE: usize = 2;

/// Reports whether a tool changes how the conversation goes on, such as its language or role. Rules
/// ignore it: "play" and "stop" of a character are no music.
pub(crate) fn is_of_conversation(tool: &OfferedTool) -> bool {
    OF_CONVERSATION.iter().any(|(name, _)| *name == tool.name)
}

/// A text as it is compared: its Latin words, and its Han characters.
struct Text {
    words: Vec<String>,
    han: String,
}

impl Text {
    fn of(text: &str) -> Self {
        let mut spaced = String::new();
        let mut was_lower = false;
        for c in text.chars() {
            if c.is_uppercase() && was_lower {
                spaced.push(' ');
            }
            was_lower = c.is_lowercase();
            spaced.extend(c.to_lowercase());
        }
        let words = spaced
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(|word| word.strip_suffix('s').filter(|rest| rest.len() > 2).unwrap_or(word))
            .map(str::to_owned)
            .collect();
        Self { words, han: spaced.chars().filter(|c| !c.is_ascii()).collect() }
    }

    fn mentions(&self, name: &str) -> bool {
        if name.is_ascii() {
            let name = name.strip_suffix('s').filter(|rest| rest.len() > 2).unwrap_or(name);
            self.words.iter().any(|word| word == name)
        } else {
            self.han.contains(name)
        }
    }

    fn mentions_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.mentions(name))
    }

    /// Reports whether two texts share a word, or Han characters in sequence.
    fn shares_with(&self, other: &Self) -> bool {
        let is_telling =
            |word: &&String| word.len() >= MIN_WORD_BYTES && !COMMON.contains(&word.as_str());
        if self.words.iter().filter(is_telling).any(|word| other.words.contains(word)) {
            return true;
        }
        let han: Vec<char> = self.han.chars().collect();
        han.windows(HAN_SEQUENCE).any(|part| other.han.contains(&part.iter().collect::<String>()))
    }
}

/// Reports whether a tool has to do with an utterance.
fn fits(tool: &OfferedTool, said: &Text) -> bool {
    let mut builtin = OF_CONVERSATION.iter().chain(&OF_PLACE);
    if let Some((_, needed)) = builtin.find(|(name, _)| *name == tool.name) {
        return said.mentions_any(needed);
    }
    let tool = Text::of(&format!("{} {}", tool.name, tool.description));
    SUBJECTS.iter().any(|subject| said.mentions_any(subject) && tool.mentions_any(subject))
        || said.shares_with(&tool)
}

/// Returns a tool as it is offered for an utterance: the clock of another place only if one is named,
/// because a small model invents a time zone.
fn narrowed(tool: &OfferedTool, said: &Text) -> OfferedTool {
    if tool.name == CLOCK && !said.mentions_any(&ELSEWHERE) {
        let parameters = json!({"type": "object", "properties": {}});
        return OfferedTool { parameters, ..tool.clone() };
    }
    tool.clone()
}

/// Returns the tools that have to do with an utterance, in their order.
pub(crate) fn fitting(tools: &Arc<[OfferedTool]>, words: &str) -> Arc<[OfferedTool]> {
    let said = Text::of(words);
    tools.iter().filter(|tool| fits(tool, &said)).map(|tool| narrowed(tool, &said)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(words: &str) -> Vec<String> {
        let tool = |name: &str, description: &str| OfferedTool {
            name: name.into(),
            description: description.into(),
            parameters: json!({"type": "object"}),
        };
        let tools: Arc<[OfferedTool]> = [
            tool("set_response_language", "Set the language of the answers. 设置回复语言。"),
            tool("enter_roleplay_mode", "Play a character. 进入角色扮演。"),
            tool("speaker_loudness", "Sets the volume of the loudspeaker."),
            tool("findRecipe", "Finds a recipe by its ingredients."),
            tool("zhanpin", "查询展厅里的展品"),
        ]
        .into();
        fitting(&tools, words).iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn the_clock_has_a_time_zone_only_for_another_place() {
        let zone = json!({"type": "object", "properties": {"timezone": {"type": "string"}}});
        let clock = OfferedTool {
            name: CLOCK.into(),
            description: String::new(),
            parameters: zone.clone(),
        };
        let parameters =
            |words: &str| fitting(&[clock.clone()].into(), words)[0].parameters.clone();
        assert_eq!(parameters("what date was yesterday")["properties"], json!({}));
        assert_eq!(parameters("is it day time in Reykjavik"), zone);
        assert_eq!(parameters("雷克雅未克那边几点"), zone);
    }

    #[test]
    fn only_tools_of_the_subject_are_offered() {
        for (words, tools) in [
            ("how many legs does a spider have", &[][..]),
            ("give me a long story", &[]),
            ("please answer in French from now on", &["set_response_language"]),
            ("从现在起用英语回答", &["set_response_language"]),
            ("pretend to be a pirate", &["enter_roleplay_mode"]),
            ("it is much too loud", &["speaker_loudness"]),
            ("声音有点吵", &["speaker_loudness"]),
            ("any recipes with pumpkin", &["findRecipe"]),
            ("展厅里有什么", &["zhanpin"]),
        ] {
            assert_eq!(offered(words), tools, "{words}");
        }
    }
}
