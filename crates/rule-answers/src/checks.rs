//! Checks of a small model's sentences before they are spoken: an echo of the question is no
//! answer, a deed needs a call, the assistant has one name, and an answer ends in time. Not for
//! large models, nor for the questions that a rule answers.

use hearken_base::language::{Language, is_han};
use hearken_instant::DEFAULT_NAME;

use crate::text::{contains_any, is_long_text};

/// Similarity from which a sentence is an echo.
const ECHO: f64 = 0.8;
/// Fewest characters of a question that can be echoed.
const MIN_ECHO_CHARS: usize = 4;
/// Longest sentence that claims a state, in characters.
const MAX_STATE_CHARS: usize = 40;
/// Fewest letters of a sentence whose language is compared with that of the question.
const MIN_LANGUAGE_LETTERS: usize = 12;

/// Makers and models that a small model takes itself for, from the texts that it learned.
const OTHERS: [&str; 26] = [
    "openai",
    "chatgpt",
    "gpt",
    "qwen",
    "alibaba",
    "anthropic",
    "claude",
    "deepseek",
    "google",
    "gemini",
    "microsoft",
    "meta ai",
    "llama",
    "baidu",
    "tencent",
    "通义",
    "千问",
    "阿里",
    "百度",
    "文心",
    "腾讯",
    "讯飞",
    "微软",
    "谷歌",
    "华为",
    "小米",
];
/// Marks of a sentence on the assistant itself.
const SELF: [&str; 7] = ["i am ", "i'm ", "my ", "i was ", "as an ai", "我", "本人"];

/// Deeds that are only true if a tool was called, in English; `i` stands before each.
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
/// Words between `i` and a deed.
const AUXILIARIES: [&str; 16] = [
    "i have ",
    "i've ",
    "i just ",
    "i have just ",
    "i've just ",
    "i have already ",
    "i've already ",
    "i will ",
    "i'll ",
    "i am going to ",
    "i'm going to ",
    "i will be sure to ",
    "i'll be sure to ",
    "i have now ",
    "i've now ",
    "i will now ",
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
/// Words of a deed that is claimed or promised in Chinese.
const DEEDS_ZH: [&str; 26] = [
    "打开", "关闭", "关掉", "关上", "设置", "设定", "调整", "调到", "调高", "调低", "播放", "发送",
    "预订", "预定", "添加", "拨打", "取消", "提醒", "定好", "记录", "下单", "安排", "切换", "开启",
    "叫醒", "通知",
];
/// Words before a deed that make it a claim or a promise in Chinese.
const CLAIMS_ZH: [&str; 18] = [
    "已经为",
    "已为",
    "已经帮",
    "已帮",
    "已经给",
    "已给",
    "我已",
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

/// Words of a request for another language.
const TRANSLATION: [&str; 30] = [
    "translate",
    "translation",
    " say ",
    " in chinese",
    " in english",
    " in french",
    " in german",
    " in spanish",
    " in japanese",
    " in korean",
    " in italian",
    " in russian",
    " in latin",
    "spell",
    "word for",
    "翻译",
    "英文",
    "英语",
    "日语",
    "法语",
    "德语",
    "韩语",
    "西班牙语",
    "意大利语",
    "俄语",
    "拉丁",
    "外语",
    "怎么拼",
    "单词",
    "拼写",
];

/// What happens with a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is spoken.
    Keep,
    /// It is left out.
    Drop,
    /// This text is spoken in its place, and the answer ends.
    Replace(String),
}

/// Checks of one answer.
#[derive(Debug)]
pub(crate) struct Checks {
    question: String,
    bare_question: Vec<char>,
    language: Language,
    name: String,
    /// True if a call of the turn succeeded, or the request is for a text in which deeds are told.
    may_claim: bool,
    has_succeeded: bool,
    any_language: bool,
    spoken: Vec<Vec<char>>,
}

/// Returns the letters and digits of a text, with persons exchanged alike: an echo may say "you".
fn bare(text: &str) -> Vec<char> {
    let lower = text.to_lowercase().replace(['您', '我'], "你");
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(|word| match word {
            "my" | "your" => "your",
            "i" | "me" | "you" => "you",
            "am" | "are" => "are",
            word => word,
        })
        .collect();
    words.concat().chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns the similarity of two texts: twice the shared pairs of characters by all pairs.
fn similarity(a: &[char], b: &[char]) -> f64 {
    let mut pairs: Vec<&[char]> = b.windows(2).collect();
    let all = a.len().saturating_sub(1) + pairs.len();
    if all == 0 {
        return f64::from(u8::from(a == b));
    }
    let mut shared = 0_u32;
    for pair in a.windows(2) {
        if let Some(at) = pairs.iter().position(|other| *other == pair) {
            pairs.swap_remove(at);
            shared += 1;
        }
    }
    f64::from(2 * shared) / f64::from(u32::try_from(all).unwrap_or(u32::MAX))
}

impl Checks {
    /// Creates the checks of an answer to a question. `has_succeeded` says whether a call of the
    /// turn has succeeded.
    pub(crate) fn new(question: &str, name: &str, has_succeeded: bool) -> Self {
        let lower = format!(" {} ", question.to_lowercase());
        let any_language = contains_any(&lower, &TRANSLATION);
        Self {
            bare_question: bare(question),
            language: Language::from_key(question).unwrap_or_default(),
            name: name.trim().into(),
            may_claim: has_succeeded || is_long_text(question) || any_language,
            has_succeeded,
            any_language,
            spoken: Vec::new(),
            question: lower,
        }
    }

    fn say(&self, zh: &str, en: &str) -> String {
        if self.language == Language::Chinese { zh.to_owned() } else { en.to_owned() }
    }

    /// Returns what the second try of an answer adds to the question.
    pub(crate) fn reminder(&self) -> &'static str {
        match self.language {
            Language::Chinese => "\n（请用一句中文直接回答，不要重复问题。不知道就说不知道。）",
            Language::English => {
                "\n(Answer in one English sentence. Do not repeat the question. If you do not know, say so.)"
            }
        }
    }

    /// Returns what is spoken if no sentence remains.
    pub(crate) fn without_sentence(&self) -> String {
        if self.has_succeeded {
            return self.say("好的。", "Okay, done.");
        }
        self.say("抱歉，这个我不知道。", "Sorry, I don't know that.")
    }

    /// Judges the next sentence.
    pub(crate) fn judge(&mut self, sentence: &str) -> Decision {
        let said = bare(sentence);
        if said.is_empty() {
            return Decision::Keep;
        }
        if self.is_echo(&said) || self.spoken.contains(&said) || self.is_other_language(sentence) {
            return Decision::Drop;
        }
        let lower = sentence.to_lowercase().replace('’', "'");
        if self.is_of_others(&lower) {
            let in_english = if self.name.is_empty() { DEFAULT_NAME } else { &self.name };
            let zh = format!("我是语音助手{}。", self.name);
            let en = format!("I'm {in_english}, a voice assistant.");
            return Decision::Replace(self.say(&zh, &en));
        }
        if !self.may_claim && is_claim(&lower) {
            return Decision::Replace(self.say("抱歉，这个我做不到。", "Sorry, I can't do that."));
        }
        self.spoken.push(said);
        Decision::Keep
    }

    fn is_echo(&self, said: &[char]) -> bool {
        self.bare_question.len() >= MIN_ECHO_CHARS
            && !self.any_language
            && similarity(said, &self.bare_question) >= ECHO
    }

    /// Reports whether a sentence is in the other language, though none was asked for.
    fn is_other_language(&self, sentence: &str) -> bool {
        let han = sentence.chars().filter(|c| is_han(*c)).count();
        let latin = sentence.chars().filter(char::is_ascii_alphabetic).count();
        !self.any_language
            && match self.language {
                Language::Chinese => han == 0 && latin >= MIN_LANGUAGE_LETTERS,
                Language::English => {
                    han > 0 && (latin == 0 || han >= MIN_LANGUAGE_LETTERS / 2 && han > latin)
                }
            }
    }

    /// Reports whether the sentence says that the assistant is somebody else's.
    fn is_of_others(&self, lower: &str) -> bool {
        let names = |text: &str| OTHERS.iter().any(|name| text.contains(name));
        let about = contains_any(lower, &SELF) || contains_any(&self.question, &[" you ", "你"]);
        let denies = contains_any(lower, &[" not ", "n't ", "不是", "并非"]);
        names(lower) && about && !denies && !names(&self.question)
            || names(lower) && contains_any(lower, &SELF) && !denies
    }
}

/// Reports whether a sentence claims or promises a deed.
fn is_claim(lower: &str) -> bool {
    let text = format!(" {lower}");
    let in_english = AUXILIARIES.iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            let is_word =
                text.get(..at).is_some_and(|t| !t.ends_with(|c: char| c.is_alphanumeric()));
            let rest = text.get(at + start.len()..).unwrap_or_default();
            let verb = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            is_word && DEEDS.contains(&verb)
        })
    });
    let in_chinese = CLAIMS_ZH.iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            let after: String = text.get(at..).unwrap_or_default().chars().take(16).collect();
            !contains_any(&after, &["不会", "不能", "无法"]) && contains_any(&after, &DEEDS_ZH)
        })
    });
    in_english || in_chinese || contains_any(lower, &CLAIMS_EN) || is_state_claim(lower)
}

/// Reports whether a short sentence ends with a new state: `The first one is off.`, 窗帘调到百分之百了。
fn is_state_claim(lower: &str) -> bool {
    let end = lower.trim_end().trim_end_matches(['.', '!', '。', '！', ' ']);
    let is_short = end.chars().count() <= MAX_STATE_CHARS;
    let chinese = ["打开了", "关掉了", "关上了", "关闭了", "关了", "停了", "设好了", "调好了"];
    is_short
        && (end.ends_with(" is off")
            || end.ends_with(" is on")
            || chinese.iter().any(|state| end.ends_with(state))
            || end.ends_with('了') && end.contains("调到"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(question: &str, sentence: &str) -> Decision {
        Checks::new(question, "Mira", false).judge(sentence)
    }

    #[test]
    fn right_answers_are_unchanged() {
        let mut count = 0;
        for line in include_str!("right_answers.txt").lines().filter(|l| !l.starts_with('#')) {
            let (question, answer) = line.split_once(" | ").unwrap();
            assert_eq!(judged(question, answer), Decision::Keep, "{question}: {answer}");
            count += 1;
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn an_echo_is_no_answer() {
        for (question, sentence) in [
            ("我家的猫在哪里", "您家的猫在哪里？"),
            ("what is the name of my dog", "What is the name of your dog?"),
        ] {
            assert_eq!(judged(question, sentence), Decision::Drop, "{sentence}");
        }
        for (question, sentence) in [
            ("what is the capital of Spain", "The capital of Spain is Madrid."),
            ("一公斤有多少克", "一公斤有一千克。"),
            ("hi", "Hi!"),
        ] {
            assert_eq!(judged(question, sentence), Decision::Keep, "{sentence}");
        }
    }

    #[test]
    fn the_assistant_is_no_product_of_others() {
        for (question, sentence) in [
            ("who are you", "I am a language model by OpenAI."),
            ("你是谁", "我是阿里云开发的通义千问。"),
            ("what is your name", "My name is Qwen."),
        ] {
            let decision = judged(question, sentence);
            assert!(
                matches!(&decision, Decision::Replace(text) if text.contains("Mira")),
                "{decision:?}"
            );
        }
        for (question, sentence) in [
            ("who founded Google", "Google was founded by Larry Page and Sergey Brin."),
            ("阿里巴巴是谁创办的", "阿里巴巴是马云创办的。"),
            ("are you Siri", "No, I am not made by OpenAI."),
        ] {
            assert_eq!(judged(question, sentence), Decision::Keep, "{sentence}");
        }
    }

    #[test]
    fn a_deed_needs_a_call() {
        for (question, sentence) in [
            ("remind me to water the roses", "Okay, I'll remind you tomorrow."),
            ("make it cosy", "I've dimmed the room for you."),
            ("把屋里弄暖和点", "好的，已为您调高温度。"),
            ("明早叫我", "好的，到时候我会叫醒您。"),
            ("now the first one off", "The first one is off."),
            ("还是全打开吧", "窗帘调到百分之一百了。"),
            ("the guest room as well", "The guest room has also been turned on."),
        ] {
            let decision = judged(question, sentence);
            assert!(matches!(decision, Decision::Replace(_)), "{sentence}: {decision:?}");
            let mut done = Checks::new(question, "Mira", true);
            assert_eq!(done.judge(sentence), Decision::Keep, "after a call: {sentence}");
        }
        for (question, sentence) in [
            ("can you sing", "I will do my best."),
            ("who invented the radio", "The prize has been awarded to Marconi."),
            ("怎么煮饭", "先打开锅盖，再加水。"),
            ("你会提醒我吗", "抱歉，我不会提醒您。"),
            ("tell me a story", "\"I have opened the gate,\" said the fox."),
        ] {
            assert_eq!(judged(question, sentence), Decision::Keep, "{sentence}");
        }
    }

    #[test]
    fn an_answer_has_one_language_and_no_sentence_twice() {
        assert_eq!(judged("为什么天是蓝的", "The sky is blue because of the air."), Decision::Drop);
        assert_eq!(judged("why is the sky blue", "因为空气散射了阳光里的蓝光。"), Decision::Drop);
        assert_eq!(judged("用英语说晚安吧", "Good night, sleep well."), Decision::Keep);
        let mut checks = Checks::new("why is the sky blue", "Mira", false);
        for decision in [Decision::Keep, Decision::Drop] {
            assert_eq!(checks.judge("The air scatters blue light."), decision);
        }
    }
}
