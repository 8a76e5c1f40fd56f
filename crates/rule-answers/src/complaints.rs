//! Complaints about the state of a thing of the household, also in the form of a question: "why is the
//! light still off", 灯怎么还没开. They ask for a change. Not for commands, nor for other questions: see
//! [`crate::claims`].

use hearken_base::language::Language;

use crate::text::{contains_any, words};

/// Things of a household in English.
const THINGS: [&str; 46] = [
    "light",
    "lights",
    "lamp",
    "lamps",
    "bulb",
    "chandelier",
    "fan",
    "fans",
    "tv",
    "television",
    "telly",
    "radio",
    "music",
    "song",
    "alarm",
    "timer",
    "heating",
    "heater",
    "heaters",
    "radiator",
    "thermostat",
    "ac",
    "conditioner",
    "conditioning",
    "curtain",
    "curtains",
    "blind",
    "blinds",
    "shutter",
    "shutters",
    "door",
    "doors",
    "window",
    "windows",
    "gate",
    "garage",
    "lock",
    "oven",
    "stove",
    "kettle",
    "plug",
    "speaker",
    "screen",
    "vacuum",
    "humidifier",
    "sprinkler",
];
/// States of things in English.
const STATES: [&str; 20] = [
    "on", "off", "open", "closed", "shut", "locked", "unlocked", "playing", "running", "ringing",
    "beeping", "dark", "bright", "hot", "cold", "warm", "loud", "quiet", "muted", "paused",
];
/// Words that may follow a state at the end of a complaint in English.
const AFTER_STATE: [&str; 10] =
    ["yet", "again", "now", "here", "in", "upstairs", "downstairs", "then", "please", "why"];
/// What the assistant has not done to a thing, in English.
const HANDLED: [&str; 29] = [
    "turn", "turned", "turning", "switch", "switched", "open", "opened", "close", "closed", "shut",
    "start", "started", "stop", "stopped", "lock", "locked", "unlock", "unlocked", "dim", "dimmed",
    "mute", "muted", "pause", "paused", "play", "played", "put", "lower", "raise",
];
/// Words of a state that goes on, in English.
const PERSISTS: [&str; 5] = ["still", "yet", "again", "not", "never"];
/// Beginnings of a reminder of an earlier command in English, before its verb.
const TOLD: [&str; 8] = [
    " didn't i tell you to ",
    " didn't i ask you to ",
    " did i not tell you to ",
    " did i not ask you to ",
    " haven't i told you to ",
    " haven't i asked you to ",
    " i told you to ",
    " i asked you to ",
];

/// Things and places of a household in Chinese.
const THINGS_ZH: [&str; 29] = [
    "灯",
    "空调",
    "暖气",
    "风扇",
    "电扇",
    "电视",
    "窗帘",
    "窗户",
    "音乐",
    "歌",
    "收音机",
    "音箱",
    "闹钟",
    "热水器",
    "加湿器",
    "净化器",
    "扫地机",
    "洗衣机",
    "投影",
    "屏幕",
    "插座",
    "大门",
    "房门",
    "车库",
    "门锁",
    "房间",
    "屋里",
    "客厅",
    "卧室",
];
/// Words that contain one of a thing or a state, and mean neither.
const OTHERS_ZH: [&str; 22] = [
    "路灯",
    "红绿灯",
    "灯塔",
    "霓虹灯",
    "车灯",
    "电视剧",
    "电视台",
    "开心",
    "关心",
    "开学",
    "开会",
    "开始",
    "开玩笑",
    "开花",
    "开播",
    "开业",
    "开门",
    "关门",
    "关于",
    "停电",
    "不停地",
    "不停的",
];
/// Beginnings of a complaint in Chinese that names no thing.
const UNNAMED_ZH: [&str; 6] = ["怎么还", "怎么又", "怎么这么", "为什么还", "为啥还", "咋还"];
/// Words of a question for a reason in Chinese.
const ASKS_ZH: [&str; 5] = ["为什么", "为啥", "为何", "咋还", "怎么回事"];
/// Characters behind 怎么 that ask for a reason, not for a way.
const REASONS_ZH: [char; 8] = ['还', '又', '没', '不', '一', '这', '那', '仍'];
/// States and changes in Chinese; a longer one before its beginning.
const STATES_ZH: [&str; 25] = [
    "打开", "关上", "关掉", "关闭", "拉上", "拉开", "锁上", "停下", "开", "关", "停", "亮", "灭",
    "拉", "锁", "响", "放", "转", "动", "黑", "暗", "热", "冷", "吵", "闷",
];
/// Words of a state that goes on, in Chinese.
const PERSISTS_ZH: [&str; 5] = ["还是", "还", "又", "一直", "仍"];
/// Particles at the end of a state in Chinese.
const AFTER_STATE_ZH: [&str; 13] =
    ["着", "了", "呢", "啊", "呀", "吗", "嘛", "的", "啦", "吧", "起来", "上", "掉"];
/// Beginnings of a reminder of an earlier command in Chinese, before its verb.
const TOLD_ZH: [&str; 6] = ["不是让你", "不是叫你", "不是要你", "不是请你", "我让你", "我叫你"];

/// Reports whether an utterance, in lower case, complains about the state of a thing, or reminds of
/// an earlier command.
pub(crate) fn is_complaint(lower: &str, language: Language) -> bool {
    match language {
        Language::Chinese => is_complaint_zh(lower),
        Language::English => is_complaint_en(lower),
    }
}

fn is_complaint_en(lower: &str) -> bool {
    let words = words(lower);
    let text = format!(" {} ", words.join(" "));
    let reminds = TOLD.iter().any(|start| {
        let verb = text.split_once(start).and_then(|(_, rest)| rest.split(' ').next());
        verb.is_some_and(|verb| HANDLED.contains(&verb))
    });
    let says = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let asks = says(&["why"]) || text.contains(" how come ");
    let is_so = words.windows(2).any(|pair| pair[0] == "so" && STATES.contains(&pair[1]));
    let persists = is_so || says(&PERSISTS) || words.iter().any(|word| word.ends_with("n't"));
    let has_thing = says(&THINGS) || text.ends_with(" in here ");
    let state = words.iter().rposition(|word| STATES.contains(word));
    let ends_with_state =
        state.is_some_and(|at| words.get(at + 1).is_none_or(|next| AFTER_STATE.contains(next)));
    let blames = says(&["you"]) && says(&HANDLED);
    reminds || asks && persists && has_thing && (ends_with_state || blames)
}

fn is_complaint_zh(lower: &str) -> bool {
    let said: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
    let text = OTHERS_ZH.iter().fold(said.clone(), |text, other| text.replace(other, ""));
    let reminds = TOLD_ZH.iter().any(|start| {
        let verb = text.split_once(start).map(|(_, rest)| rest.strip_prefix('把').unwrap_or(rest));
        verb.is_some_and(|rest| contains_any(rest, &STATES_ZH))
    });
    let asks = contains_any(&text, &ASKS_ZH)
        || behind(&text, "怎么").any(|rest| rest.starts_with(REASONS_ZH));
    let has_thing = contains_any(&text, &THINGS_ZH)
        || text.starts_with('门')
        || UNNAMED_ZH.iter().any(|start| said.starts_with(start));
    reminds || asks && has_thing && (is_undone(&text) || is_unchanged(&text))
}

/// Returns the text behind each place of a mark.
fn behind<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).filter_map(move |(at, _)| text.get(at + mark.len()..))
}

/// Reports whether a change was not made: 没关, 没把灯关上, 还不开.
fn is_undone(text: &str) -> bool {
    let marks = ["没有", "没", "还不", "又不", "一直不", "怎么不"];
    marks.iter().any(|mark| {
        behind(text, mark).any(|rest| match rest.strip_prefix('把') {
            Some(rest) => contains_any(rest, &STATES_ZH),
            None => begins_with_state(rest),
        })
    })
}

/// Reports whether a state goes on: 还亮着, 怎么还这么暗.
fn is_unchanged(text: &str) -> bool {
    let begins = |rest: &str| {
        let plain = ["这么", "那么", "太"].iter().find_map(|so| rest.strip_prefix(so));
        begins_with_state(plain.unwrap_or(rest))
    };
    let is_so =
        ["怎么这么", "怎么那么"].iter().any(|mark| behind(text, mark).any(begins_with_state));
    is_so || PERSISTS_ZH.iter().any(|mark| behind(text, mark).any(begins))
}

/// Reports whether a text is a state, and nothing else but particles and things.
fn begins_with_state(text: &str) -> bool {
    let Some(mut rest) = STATES_ZH.iter().find_map(|state| text.strip_prefix(*state)) else {
        return false;
    };
    loop {
        let mut parts = AFTER_STATE_ZH.iter().chain(&THINGS_ZH);
        match parts.find_map(|part| rest.strip_prefix(*part)) {
            Some(behind) => rest = behind,
            None => return rest.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complains(text: &str) -> bool {
        let language = Language::from_key(text).unwrap_or_default();
        is_complaint(&text.to_lowercase().replace('’', "'"), language)
    }

    #[test]
    fn a_complaint_about_a_state_asks_for_a_change() {
        for complaint in [
            "why is the light still off",
            "Why is the hall lamp not on?",
            "why isn’t the fan on yet",
            "why haven't you turned off the tv",
            "why won't you open the garage",
            "why is it still so dark in here",
            "why is it so cold in here",
            "how come the music is still playing",
            "why are the blinds still closed",
            "why is the front door not locked yet",
            "the bedroom light is still on, why?",
            "why is the radio on again",
            "didn't I tell you to turn off the heating",
            "I told you to close the curtains",
            "灯怎么还没开",
            "为什么灯还亮着？",
            "空调怎么还没打开呢",
            "怎么还不关灯",
            "窗帘怎么还没拉上",
            "音乐怎么还没停",
            "灯为什么没关",
            "你怎么还没把灯关上",
            "电视怎么又开了",
            "门怎么还没锁",
            "屋里怎么还这么暗",
            "怎么这么黑啊",
            "不是让你关灯了吗",
            "我叫你把窗帘拉上",
        ] {
            assert!(complains(complaint), "{complaint}");
        }
    }

    #[test]
    fn a_question_that_wants_to_know_is_no_complaint() {
        for question in [
            "why is the sky still dark at six",
            "why is the moon still up in the morning",
            "why are shops not open on sundays",
            "why is gold still expensive",
            "why do moths still fly to the light",
            "why is the traffic light still red",
            "why is the window of a plane round",
            "why does a fan not cool the air",
            "why have you not got a body",
            "why don't you remember me",
            "is the light still on",
            "how do I turn off the heating",
            "who told you to open the door",
            "what is the light switch for",
            "my light has been turned off why",
            "turn on the light",
            "为什么天还没亮",
            "月亮为什么不发光",
            "为什么还没开学",
            "为什么商店还没关门",
            "为什么路灯白天还亮着",
            "为什么企鹅还没灭绝",
            "电视剧怎么还没播完",
            "灯泡为什么不亮",
            "灯泡为什么会发热",
            "为什么冬天开空调不热",
            "灯没电了怎么办",
            "怎么关灯",
            "怎么让灯一直亮着",
            "灯开了吗",
            "我让你开心了吗",
            "打开灯",
        ] {
            assert!(!complains(question), "{question}");
        }
    }
}
