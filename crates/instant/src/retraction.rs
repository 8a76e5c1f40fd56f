//! Commands that are taken back in the same breath: `turn on the lamp, no wait, don't`, 开灯，算了不用了. Finds the words that take
//! back, and where they begin. Not for corrections that name another value, which are in `lenient`.

use std::sync::LazyLock;

use hearken_base::language::Language;

use crate::normalise::{Words, words_of};

/// Words that take back at the end of an utterance, in English; without apostrophes.
const EN_AT_END: [&str; 79] = [
    "no",
    "nope",
    "nah",
    "no thanks",
    "no thank you",
    "no need",
    "there is no need",
    "theres no need",
    "not needed",
    "dont",
    "do not",
    "dont do it",
    "do not do it",
    "dont do that",
    "do not do that",
    "dont bother",
    "do not bother",
    "dont worry about it",
    "never mind",
    "nevermind",
    "forget it",
    "forget that",
    "forget about it",
    "forget about that",
    "forget i said that",
    "scratch that",
    "strike that",
    "cancel that",
    "undo that",
    "take that back",
    "take it back",
    "i take that back",
    "i take it back",
    "ignore that",
    "ignore me",
    "disregard",
    "disregard that",
    "on second thought",
    "on second thoughts",
    "second thoughts",
    "hold on",
    "hang on",
    "wait",
    "wait a second",
    "wait a sec",
    "wait a minute",
    "wait a moment",
    "hold off",
    "not now",
    "not yet",
    "not anymore",
    "not any more",
    "not really",
    "not that",
    "or not",
    "better not",
    "rather not",
    "i would rather not",
    "id rather not",
    "maybe not",
    "perhaps not",
    "actually not",
    "actually no",
    "leave it be",
    "leave it as it is",
    "let it be",
    "i changed my mind",
    "ive changed my mind",
    "i have changed my mind",
    "changed my mind",
    "just kidding",
    "im kidding",
    "im just kidding",
    "only joking",
    "just joking",
    "im joking",
    "i did not mean that",
    "i didnt mean that",
    "i mean no",
];
/// Words that take back wherever they are behind a command, in English.
const EN_WITHIN: [&str; 26] = [
    "never mind",
    "nevermind",
    "forget it",
    "forget about it",
    "forget i said that",
    "cancel that",
    "take that back",
    "take it back",
    "ignore that",
    "disregard that",
    "on second thought",
    "on second thoughts",
    "better not",
    "rather not",
    "maybe not",
    "or not",
    "actually no",
    "actually dont",
    "no dont",
    "wait dont",
    "dont bother",
    "changed my mind",
    "change my mind",
    "just kidding",
    "only joking",
    "no need",
];
/// Words beside those that take back, in English: alone they take back nothing.
const EN_BESIDE: [&str; 27] = [
    "please",
    "thanks",
    "thank you",
    "sorry",
    "actually",
    "oh",
    "ok",
    "okay",
    "well",
    "just",
    "then",
    "now",
    "and",
    "but",
    "um",
    "uh",
    "er",
    "its fine",
    "it is fine",
    "thats fine",
    "its ok",
    "its okay",
    "it is okay",
    "im good",
    "im fine",
    "my bad",
    "all good",
];
/// Words that take back at the end only as a clause of their own, in English.
const EN_CLAUSES: [&str; 7] = ["stop", "stop it", "stop that", "cancel", "undo", "not", "leave it"];
/// Words that take back at the end of an utterance, in Chinese.
const ZH_AT_END: [&str; 88] = [
    "算了",
    "算啦",
    "算了吧",
    "还是算了",
    "还是算了吧",
    "就算了",
    "那算了",
    "不用了",
    "不用啦",
    "不用了吧",
    "先不用",
    "先不用了",
    "不必了",
    "不需要了",
    "不要了",
    "还是不要",
    "还是不要了",
    "先不要",
    "先别",
    "先不",
    "还是别",
    "还是别了",
    "还是不了",
    "不了",
    "别了",
    "别",
    "不要",
    "别开",
    "别关",
    "别开了",
    "别关了",
    "先别开",
    "先别关",
    "先别开了",
    "先别关了",
    "还是别开了",
    "还是别关了",
    "别动",
    "别动了",
    "不开",
    "不关",
    "不开了",
    "不关了",
    "先不开了",
    "先不关了",
    "还是不开了",
    "还是不关了",
    "不想开了",
    "不想关了",
    "不想听了",
    "不听了",
    "没事",
    "没事了",
    "没什么",
    "没什么了",
    "当我没说",
    "就当我没说",
    "当我没说过",
    "我改主意了",
    "改主意了",
    "我改变主意了",
    "改变主意了",
    "我反悔了",
    "反悔了",
    "不对",
    "不对不对",
    "错了",
    "说错了",
    "我说错了",
    "搞错了",
    "我搞错了",
    "弄错了",
    "口误",
    "等等",
    "等一等",
    "等一下",
    "等下",
    "等会",
    "等会儿",
    "慢着",
    "且慢",
    "住手",
    "撤销",
    "撤回",
    "开玩笑的",
    "我开玩笑的",
    "逗你的",
    "逗你玩的",
];
/// Words that take back wherever they are behind a command, in Chinese.
const ZH_WITHIN: [&str; 14] = [
    "算了",
    "当我没说",
    "改主意",
    "改变主意",
    "反悔了",
    "还是别",
    "还是不要",
    "还是不用",
    "先别开",
    "先别关",
    "别开了",
    "别关了",
    "开玩笑的",
    "逗你的",
];
/// Words beside those that take back, in Chinese.
const ZH_BESIDE: [&str; 26] = [
    "吧",
    "啊",
    "呀",
    "哦",
    "噢",
    "喔",
    "嗯",
    "呃",
    "哎",
    "唉",
    "诶",
    "啦",
    "了",
    "那",
    "我",
    "还是",
    "好",
    "好吧",
    "好了",
    "谢谢",
    "谢谢你",
    "对不起",
    "不好意思",
    "抱歉",
    "那就",
    "哎呀",
];
/// Words that take back at the end only as a clause of their own, in Chinese.
const ZH_CLAUSES: [&str; 6] = ["停", "停下", "不", "不是", "取消", "不用"];

/// How an utterance takes back what was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retraction {
    /// The words from this place to the end take back. `is_weak` if one word does, and no clause of its own.
    AtEnd { from: usize, is_weak: bool },
    /// The words from the first place to the second take back, and more follows.
    Within { from: usize, to: usize },
}

/// Words of one language, longest first.
#[derive(Debug)]
struct Lists {
    at_end: Vec<Vec<String>>,
    within: Vec<Vec<String>>,
    beside: Vec<Vec<String>>,
    clauses: Vec<Vec<String>>,
}

static EN: LazyLock<Lists> =
    LazyLock::new(|| Lists::of(&EN_AT_END, &EN_WITHIN, &EN_BESIDE, &EN_CLAUSES));
static ZH: LazyLock<Lists> =
    LazyLock::new(|| Lists::of(&ZH_AT_END, &ZH_WITHIN, &ZH_BESIDE, &ZH_CLAUSES));

impl Lists {
    fn of(at_end: &[&str], within: &[&str], beside: &[&str], clauses: &[&str]) -> Self {
        let list = |texts: &[&str]| {
            let mut all: Vec<Vec<String>> = texts.iter().map(|text| words_of(text).words).collect();
            all.sort_by_key(|words| std::cmp::Reverse(words.len()));
            all
        };
        Self {
            at_end: list(at_end),
            within: list(within),
            beside: list(beside),
            clauses: list(clauses),
        }
    }
}

/// Returns the words of a language that take back.
pub(crate) fn phrases(language: Language) -> Vec<Vec<String>> {
    let lists = if language == Language::Chinese { &*ZH } else { &*EN };
    [&lists.at_end, &lists.within, &lists.clauses].into_iter().flatten().cloned().collect()
}

/// Returns how an utterance takes back what was said before; `None` if it does not, or has nothing to take back.
pub(crate) fn of(said: &Words, language: Language) -> Option<Retraction> {
    let lists = if language == Language::Chinese { &*ZH } else { &*EN };
    at_end(said, lists).or_else(|| within(said, lists))
}

/// Returns the longest phrase that ends at `end`.
fn ending<'a>(words: &[String], end: usize, phrases: &'a [Vec<String>]) -> Option<&'a [String]> {
    let ends = |phrase: &&Vec<String>| words.get(..end).is_some_and(|part| part.ends_with(phrase));
    phrases.iter().find(ends).map(Vec::as_slice)
}

fn at_end(said: &Words, lists: &Lists) -> Option<Retraction> {
    let words = &said.words;
    let is_clause = |at: usize| at == 0 || said.clauses.contains(&at);
    let mut end = words.len();
    let mut taking = 0;
    let mut from = end;
    while end > 0 {
        if let Some(phrase) = ending(words, end, &lists.at_end) {
            end -= phrase.len();
            taking += phrase.len();
            from = end;
            continue;
        }
        let own = ending(words, end, &lists.clauses);
        if let Some(phrase) = own.filter(|phrase| is_clause(end - phrase.len())) {
            end -= phrase.len();
            taking += phrase.len();
            from = end;
            continue;
        }
        let Some(phrase) = ending(words, end, &lists.beside) else { break };
        end -= phrase.len();
    }
    // Nothing stands before the words but courtesies: they answer what was said earlier.
    if taking == 0 || end == 0 {
        return None;
    }
    let is_weak = taking == 1 && !is_clause(from);
    Some(Retraction::AtEnd { from: end, is_weak })
}

fn within(said: &Words, lists: &Lists) -> Option<Retraction> {
    let words = &said.words;
    let at = |from: usize| {
        let rest = words.get(from..).unwrap_or_default();
        let phrase = lists.within.iter().find(|phrase| rest.starts_with(phrase))?;
        Some(Retraction::Within { from, to: from + phrase.len() })
    };
    // Courtesies before the words are nothing to take back.
    let mut first = 0;
    while let Some(phrase) = lists
        .beside
        .iter()
        .find(|phrase| words.get(first..).is_some_and(|rest| rest.starts_with(phrase)))
    {
        first += phrase.len();
    }
    (first.max(1)..words.len()).filter(|from| *from > first).find_map(at)
}

/// Returns the text of words, with the ends of their clauses.
pub(crate) fn text_of(words: &Words) -> String {
    let mut text = String::new();
    for (at, word) in words.words.iter().enumerate() {
        if at > 0 {
            text.push_str(if words.clauses.contains(&at) { ", " } else { " " });
        }
        text.push_str(word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<Retraction> {
        of(&words_of(text), Language::from_key(text).unwrap_or_default())
    }

    #[test]
    fn words_that_take_back_are_found_behind_others() {
        for text in [
            "lamp on, no wait, don't",
            "lamp on no actually never mind sorry",
            "lamp on, stop",
            "lamp on scratch that thanks",
            "开灯，算了不用了",
            "开灯算了吧",
            "开灯不对",
            "开灯等一下",
            "开灯，停",
        ] {
            assert!(matches!(found(text), Some(Retraction::AtEnd { .. })), "{text}");
        }
        for text in ["lamp on, never mind, it is bright", "开灯算了太亮了", "开灯还是别这么亮"]
        {
            assert!(matches!(found(text), Some(Retraction::Within { .. })), "{text}");
        }
    }

    #[test]
    fn alone_or_behind_courtesies_they_take_back_nothing() {
        for text in [
            "never mind",
            "okay, never mind",
            "no, stop",
            "算了",
            "好吧，算了不用了",
            "没事了谢谢",
            "never mind, lamp on",
            "算了开灯",
            "make the music stop",
            "把音乐停",
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
