//! Claims and promises of deeds in a small model's sentences, and whether an utterance is a command:
//! only then a sentence on a state is a claim. Not for what is spoken in their place.

use hearken_base::language::Language;
use hearken_instant::mentions_change;

use crate::complaints::is_complaint;
use crate::text::{contains_any, words};

/// Longest sentence that claims a state, in characters.
const MAX_STATE_CHARS: usize = 40;
/// Most characters between the beginning of a Chinese claim and the end of its deed.
const MAX_CLAIM_CHARS: usize = 16;
/// Longest utterance that needs no word of a change to be a command, such as 好的, in words and in
/// characters.
const MAX_SHORT_WORDS: usize = 3;
const MAX_SHORT_CHARS: usize = 4;

/// Deeds that are only true if a tool was called, in English; the assistant is named before each.
const DEEDS: [&str; 42] = [
    "set",
    "turned",
    "switched",
    "added",
    "sent",
    "called",
    "ordered",
    "booked",
    "played",
    "started",
    "scheduled",
    "reminded",
    "opened",
    "closed",
    "paused",
    "stopped",
    "saved",
    "created",
    "cancelled",
    "canceled",
    "adjusted",
    "increased",
    "decreased",
    "lowered",
    "raised",
    "dimmed",
    "changed",
    "noted",
    "recorded",
    "updated",
    "activated",
    "enabled",
    "disabled",
    "locked",
    "unlocked",
    "remind",
    "wake",
    "notify",
    "alert",
    "call",
    "send",
    "order",
];
/// Words between the assistant and a deed that was done.
const HAS_DONE: [&str; 9] = [
    "i have ",
    "i've ",
    "i just ",
    "i have just ",
    "i've just ",
    "i have already ",
    "i've already ",
    "i have now ",
    "i've now ",
];
/// Words between the assistant and a deed that it promises.
const PROMISES: [&str; 7] = [
    "i will ",
    "i'll ",
    "i am going to ",
    "i'm going to ",
    "i will be sure to ",
    "i'll be sure to ",
    "i will now ",
];
/// Further ones that the assistant promises in the answer to a command.
const PROMISED: [&str; 16] = [
    "turn", "switch", "dim", "lock", "unlock", "close", "activate", "enable", "disable", "mute",
    "lower", "pause", "schedule", "adjust", "increase", "decrease",
];
/// Claims in English that name no person.
const CLAIMS_EN: [&str; 20] = [
    "been set to",
    "has been set",
    "been turned on",
    "been turned off",
    "been switched",
    "have been set",
    "has been turned",
    "have been turned",
    "has been added",
    "has been sent",
    "has been ordered",
    "has been booked",
    "has been scheduled",
    "is now set to",
    "is now on.",
    "is now off.",
    "are now on.",
    "are now off.",
    "now playing",
    "reminder set",
];
/// Words after `by` that name no agent.
const NO_AGENTS: [&str; 8] = ["me", "us", "myself", "default", "now", "then", "request", "voice"];
/// Words of a deed that is claimed or promised in Chinese.
const DEEDS_ZH: [&str; 26] = [
    "打开", "关闭", "关掉", "关上", "设置", "设定", "调整", "调到", "调高", "调低", "播放", "发送",
    "预订", "预定", "添加", "拨打", "取消", "提醒", "定好", "记录", "下单", "安排", "切换", "开启",
    "叫醒", "通知",
];
/// Words before a deed in Chinese that was done.
const HAS_DONE_ZH: [&str; 7] = ["已经为", "已为", "已经帮", "已帮", "已经给", "已给", "我已"];
/// Words before a deed in Chinese that is promised, or that has begun.
const PROMISES_ZH: [&str; 11] = [
    "正在为",
    "正在帮",
    "正在播放",
    "马上为",
    "马上帮",
    "我会",
    "我将",
    "我来帮",
    "这就为",
    "这就帮",
    "到时候我",
];
/// States in Chinese with which a sentence ends.
const STATES_ZH: [&str; 8] =
    ["打开了", "关掉了", "关上了", "关闭了", "关了", "停了", "设好了", "调好了"];

/// Words that may precede a question or a command in English.
const FILLERS: [&str; 14] = [
    "hey", "hi", "hello", "ok", "okay", "so", "and", "but", "well", "um", "uh", "please", "now",
    "then",
];
/// Beginnings of a request for words in English.
const TELLS: [&str; 16] = [
    "tell me",
    "tell us",
    "let me know",
    "i wonder",
    "i want to know",
    "i would like to know",
    "i'd like to know",
    "do you know",
    "can you tell",
    "could you tell",
    "can you explain",
    "could you explain",
    "explain",
    "describe",
    "name",
    "any idea",
];
/// Beginnings of a request that has the form of a question.
const REQUESTS: [&str; 18] = [
    "can you",
    "could you",
    "will you",
    "would you",
    "can i have",
    "could i have",
    "can we have",
    "could we have",
    "can i get",
    "can we get",
    "what about",
    "how about",
    "do you mind",
    "do it",
    "do that",
    "do this",
    "do the same",
    "have the",
];
/// First words of a question in English.
const ASKS: [&str; 39] = [
    "who", "whom", "whose", "what", "when", "where", "why", "how", "which", "who's", "what's",
    "when's", "where's", "how's", "is", "are", "am", "was", "were", "isn't", "aren't", "wasn't",
    "do", "does", "did", "doesn't", "didn't", "has", "have", "had", "hasn't", "haven't", "can",
    "could", "will", "would", "shall", "should", "may",
];
/// Words of a report of others in English.
const REPORTS: [&str; 5] = ["heard", "said", "says", "told", "apparently"];
/// First words of such a report.
const OTHER_PEOPLE: [&str; 6] = ["they", "he", "she", "someone", "somebody", "nobody"];
/// Words of a report in English, unless a deed is asked for beside it.
const PAST: [&str; 5] = ["has", "was", "were", "had", "did"];
/// Deeds that are asked for in English.
const ASKED_DEEDS: [&str; 42] = [
    "set", "send", "order", "book", "add", "schedule", "remind", "play", "lock", "unlock", "call",
    "put", "make", "dim", "change", "save", "create", "cancel", "note", "record", "adjust",
    "activate", "wake", "message", "water", "clean", "turn", "switch", "open", "close", "start",
    "stop", "pause", "mute", "raise", "lower", "increase", "decrease", "enable", "disable",
    "notify", "alert",
];
/// Words of a question, or of a request for words, in Chinese.
const ASKS_ZH: [&str; 47] = [
    "什么",
    "怎么",
    "怎样",
    "如何",
    "为啥",
    "干嘛",
    "干吗",
    "谁",
    "哪",
    "多少",
    "几点",
    "几个",
    "几度",
    "几岁",
    "几年",
    "几月",
    "几号",
    "几次",
    "星期几",
    "周几",
    "何时",
    "何地",
    "多久",
    "多长",
    "多大",
    "多高",
    "多远",
    "多重",
    "多快",
    "是不是",
    "有没有",
    "是否",
    "啥",
    "告诉我",
    "介绍",
    "解释",
    "说说",
    "讲讲",
    "聊聊",
    "说一下",
    "讲一下",
    "说一说",
    "讲一讲",
    "推荐",
    "知不知道",
    "你知道",
    "想知道",
];
/// Words of a request in Chinese that has the form of a question.
const REQUESTS_ZH: [&str; 11] =
    ["能不能", "可不可以", "可以", "能", "帮", "把", "给我", "请", "麻烦", "好吗", "行吗"];
/// Words of a report of others in Chinese.
const REPORTS_ZH: [&str; 8] = ["听说", "据说", "他说", "她说", "他们", "她们", "人家", "新闻说"];
/// Words with which a Chinese utterance that ends with a state is no report.
const URGES_ZH: [&str; 12] =
    ["把", "给", "请", "吧", "得", "该", "都", "帮", "快", "要", "别", "可以"];
/// Further words of a deed that is asked for in Chinese.
const ASKED_DEEDS_ZH: [&str; 15] =
    ["把", "帮", "给我", "请", "发", "订", "买", "加", "记", "锁", "调", "放", "换", "定", "叫我"];

/// Claim of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The deed will be done, or is being done.
    Promised,
    /// The deed is done.
    Done,
}

/// Returns what a sentence claims. In the answer to a command (`is_command`), also what it says of a
/// state without a person: elsewhere that is knowledge.
pub(crate) fn claim(lower: &str, is_command: bool) -> Option<Claim> {
    let is_state = || {
        is_command
            && !names_agent(lower)
            && (contains_any(lower, &CLAIMS_EN) || is_state_claim(lower))
    };
    let is_done = is_deed_after(lower, &HAS_DONE, &[])
        || is_deed_after_zh(lower, &HAS_DONE_ZH, is_command)
        || is_state();
    if is_done {
        return Some(Claim::Done);
    }
    let promised: &[&str] = if is_command { &PROMISED } else { &[] };
    let is_promised = is_deed_after(lower, &PROMISES, promised)
        || is_deed_after_zh(lower, &PROMISES_ZH, is_command);
    is_promised.then_some(Claim::Promised)
}

/// Reports whether the assistant is said to do a deed, or one of `further` ones, in English.
fn is_deed_after(lower: &str, starts: &[&str], further: &[&str]) -> bool {
    let text = format!(" {lower}");
    starts.iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            let is_word =
                text.get(..at).is_some_and(|t| !t.ends_with(|c: char| c.is_alphanumeric()));
            let rest = text.get(at + start.len()..).unwrap_or_default();
            let verb = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            is_word && (DEEDS.contains(&verb) || further.contains(&verb))
        })
    })
}

/// Reports whether a deed follows one of these words in Chinese. Those that name neither the
/// assistant nor the person may be about others, unless a deed was asked for.
fn is_deed_after_zh(lower: &str, starts: &[&str], is_command: bool) -> bool {
    starts.iter().any(|start| {
        lower.match_indices(start).any(|(at, _)| {
            let begun = lower.get(at..).unwrap_or_default();
            let behind = begun.get(start.len()..).unwrap_or_default();
            let is_own = start.contains('我') || behind.starts_with(['您', '你']);
            let after: String = begun.chars().take(MAX_CLAIM_CHARS).collect();
            (is_own || is_command)
                && !contains_any(&after, &["不会", "不能", "无法"])
                && contains_any(&after, &DEEDS_ZH)
        })
    })
}

/// Reports whether a short sentence ends with a new state: `The first one is off.`, 窗帘调到百分之百了。
fn is_state_claim(lower: &str) -> bool {
    let end = lower.trim_end().trim_end_matches(['.', '!', '。', '！', ' ']);
    end.chars().count() <= MAX_STATE_CHARS
        && (end.ends_with(" is off")
            || end.ends_with(" is on")
            || STATES_ZH.iter().any(|state| end.ends_with(state))
            || end.ends_with('了') && end.contains("调到"))
}

/// Reports whether a sentence names somebody else who has done something: `by Marconi`, 被警察关了。
fn names_agent(lower: &str) -> bool {
    let words = words(lower);
    let in_english = words.windows(2).any(|pair| {
        let is_number = pair[1].starts_with(|c: char| c.is_ascii_digit());
        pair[0] == "by" && !is_number && !NO_AGENTS.contains(&pair[1])
    });
    let is_agent = |mark: &str| {
        lower.match_indices(mark).any(|(at, _)| {
            let behind = lower.get(at + mark.len()..).unwrap_or_default();
            let before = lower.get(..at).unwrap_or_default();
            !behind.is_empty()
                && !behind.starts_with(['我', '于'])
                && !before.ends_with(['自', '理', '缘', '棉'])
        })
    };
    in_english || is_agent("被") || is_agent("由")
}

/// Reports whether an utterance asks for a deed, also by a complaint that it is not done. One that
/// neither asks nor tells something counts as such if it mentions a change, or is too short to
/// mention one: `yes please`.
pub(crate) fn is_command(question: &str, language: Language) -> bool {
    let lower = question.to_lowercase().replace('’', "'");
    if is_complaint(&lower, language) {
        return true;
    }
    let is_command = match language {
        Language::Chinese => is_command_zh(&lower),
        Language::English => is_command_en(&lower),
    };
    is_command.unwrap_or_else(|| mentions_change(question))
}

/// Reports whether an English utterance asks for a deed; `None` if that depends on what it mentions.
fn is_command_en(lower: &str) -> Option<bool> {
    let words = words(lower);
    let from = words.iter().position(|word| !FILLERS.contains(word)).unwrap_or(0);
    let words = words.get(from..).unwrap_or_default();
    let text = format!("{} ", words.join(" "));
    let begins = |starts: &[&str]| {
        starts
            .iter()
            .any(|start| text.strip_prefix(start).is_some_and(|rest| rest.starts_with(' ')))
    };
    let is_question = begins(&TELLS) || !begins(&REQUESTS) && begins(&ASKS);
    let says = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let asks_deed = says(&ASKED_DEEDS);
    let is_report = says(&REPORTS) || begins(&OTHER_PEOPLE) || says(&PAST) && !asks_deed;
    if is_question || is_report {
        return Some(false);
    }
    (asks_deed || words.len() <= MAX_SHORT_WORDS).then_some(true)
}

/// Reports whether a Chinese utterance asks for a deed; `None` if that depends on what it mentions.
fn is_command_zh(lower: &str) -> Option<bool> {
    // It is polite in questions, too.
    let lower = lower.replace("请问", "");
    let lower = lower.as_str();
    let end = lower.trim_end_matches(|c: char| !c.is_alphanumeric());
    let is_request = contains_any(lower, &REQUESTS_ZH);
    let is_question = contains_any(lower, &ASKS_ZH)
        || !is_request && ["吗", "么", "没有", "了没"].iter().any(|mark| end.ends_with(mark));
    let states = ["停了", "开了", "关了", "掉了", "上了", "灭了", "亮了", "熄了", "闭了"];
    let is_report = contains_any(lower, &REPORTS_ZH)
        || !contains_any(lower, &URGES_ZH) && states.iter().any(|state| end.ends_with(state));
    if is_question || is_report {
        return Some(false);
    }
    let is_short = end.chars().filter(|c| c.is_alphanumeric()).count() <= MAX_SHORT_CHARS;
    let asks_deed = contains_any(lower, &DEEDS_ZH) || contains_any(lower, &ASKED_DEEDS_ZH);
    (asks_deed || is_short).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(question: &str) -> bool {
        is_command(question, Language::from_key(question).unwrap())
    }

    #[test]
    fn commands_are_told_from_questions_and_reports() {
        for question in [
            "turn on the hall light",
            "could you open the blinds",
            "what about the guest room",
            "yes please",
            "now the first one off",
            "do you mind closing the garage",
            "it is far too dark in here",
            "can we have the heating on",
            "so put the lamp out",
            "把窗帘拉上",
            "能不能把灯打开",
            "可以帮我关灯吗",
            "还是全打开吧",
            "好的",
            "卧室的灯呢",
            "太暗了",
            "别开着了，都关了",
        ] {
            assert!(commands(question), "{question}");
        }
        for question in [
            "who holds the record",
            "tell me who set the record",
            "do you know how the lamp was invented",
            "how do I know the oven is hot",
            "is the shop on the corner shut",
            "can a light bulb explode",
            "I heard they set a new record",
            "the strike has ended at last",
            "雨什么时候停",
            "外面雨停了",
            "听说工厂关了",
            "雨停了吗",
            "介绍一下电灯的历史",
            "你知道博物馆几点关门吗",
        ] {
            assert!(!commands(question), "{question}");
        }
    }
}
