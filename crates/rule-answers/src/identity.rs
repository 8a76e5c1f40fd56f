//! Sentences in which a small model says that it is another assistant, or another maker's. Not for
//! sentences that only mention one.

use crate::text::{contains_any, words};

/// Makers and models that a small model takes itself for, from the texts that it learned.
const OTHERS: [&str; 25] = [
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
    "llama",
    "baidu",
    "tencent",
    "meta",
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
];
/// Further ones whose names are words of their own: they count only as a maker.
const MAKERS: [&str; 1] = ["小米"];

/// Words with which the assistant begins to tell what it is.
const SELF: [&[&str]; 18] = [
    &["i", "am"],
    &["i'm"],
    &["i", "was"],
    &["i", "have", "been"],
    &["i've", "been"],
    &["my", "name", "is"],
    &["my", "name's"],
    &["my", "maker", "is"],
    &["my", "makers", "are"],
    &["my", "creator", "is"],
    &["my", "creators", "are"],
    &["my", "developer", "is"],
    &["my", "developers", "are"],
    &["my", "company", "is"],
    &["call", "me"],
    &["as", "an", "ai"],
    &["as", "a", "language", "model"],
    &["as", "a", "large", "language", "model"],
];
/// Words between them and the name.
const BETWEEN: [&str; 59] = [
    "a",
    "an",
    "the",
    "your",
    "is",
    "was",
    "also",
    "actually",
    "just",
    "really",
    "indeed",
    "in",
    "fact",
    "called",
    "named",
    "known",
    "as",
    "ai",
    "artificial",
    "intelligence",
    "large",
    "language",
    "model",
    "models",
    "voice",
    "virtual",
    "digital",
    "smart",
    "helpful",
    "friendly",
    "assistant",
    "chatbot",
    "bot",
    "program",
    "system",
    "service",
    "product",
    "software",
    "agent",
    "made",
    "created",
    "developed",
    "trained",
    "built",
    "designed",
    "powered",
    "produced",
    "provided",
    "launched",
    "based",
    "by",
    "from",
    "of",
    "at",
    "on",
    "company",
    "team",
    "people",
    "one",
];
/// Deeds of a maker, in English.
const MAKES: [&str; 6] = ["made", "created", "developed", "trained", "built", "designed"];
/// Words between a name and such a deed.
const BEHIND: [&str; 6] = ["has", "have", "team", "engineers", "company", "ai"];

/// Words with which the assistant begins to tell what it is, in Chinese.
const SELF_ZH: [&str; 20] = [
    "我是",
    "我叫",
    "我名叫",
    "我就是",
    "我其实是",
    "我由",
    "我来自",
    "我出自",
    "我属于",
    "我基于",
    "本人是",
    "我的名字",
    "我的开发者",
    "我的创造者",
    "我的制造商",
    "我的公司",
    "我的开发团队",
    "我的研发团队",
    "叫我",
    "我被",
];
/// Words between them and the name, the longest first.
const BETWEEN_ZH: [&str; 48] = [
    "人工智能",
    "机器学习",
    "大语言模型",
    "语言模型",
    "大模型",
    "机器人",
    "来自",
    "基于",
    "名字",
    "名叫",
    "一个",
    "一款",
    "一种",
    "一名",
    "一位",
    "智能",
    "语音",
    "助手",
    "助理",
    "聊天",
    "程序",
    "产品",
    "模型",
    "公司",
    "集团",
    "科技",
    "团队",
    "开发",
    "研发",
    "训练",
    "打造",
    "创造",
    "制造",
    "推出",
    "提供",
    "旗下",
    "中国",
    "美国",
    "ai",
    "是",
    "由",
    "叫",
    "为",
    "的",
    "所",
    "个",
    "自",
    "款",
];
/// Deeds of a maker, in Chinese.
const MAKES_ZH: [&str; 9] =
    ["开发", "研发", "训练", "创造", "打造", "设计", "制造", "创建", "推出"];
/// Words before a maker, with which a clause may begin.
const MAKERS_BEGIN_ZH: [&str; 3] = ["由", "来自", "基于"];
/// Kinds of what a small model says that it is.
const KINDS_ZH: [&str; 5] = ["模型", "助手", "助理", "人工智能", "ai"];

/// Reports whether a text names another assistant or maker.
pub(crate) fn names_others(lower: &str) -> bool {
    let is_one = |word: &&str| is_other(word);
    words(lower).iter().any(is_one) || han_names().any(|name| lower.contains(name))
}

/// Reports whether a sentence, in lower case, says that the assistant is another one or another
/// maker's.
pub(crate) fn is_of_others(lower: &str) -> bool {
    let text = with_makers(lower);
    let clauses = text.split([',', ';', ':', '，', '；', '：', '。', '！', '？', '\n']);
    let mut clauses = clauses.map(str::trim).filter(|clause| !clause.is_empty());
    let tells_of_itself = text.contains('我');
    clauses.any(|clause| is_claim_en(clause) || is_claim_zh(clause, tells_of_itself))
}

/// Joins the maker to the clause before it: `a model, trained by`, 一个助手，由.
fn with_makers(lower: &str) -> String {
    let text = MAKES.iter().fold(lower.to_owned(), |text, makes| {
        text.replace(&format!(", {makes} "), &format!(" {makes} "))
    });
    MAKERS_BEGIN_ZH.iter().fold(text, |text, begin| text.replace(&format!("，{begin}"), begin))
}

fn han_names() -> impl Iterator<Item = &'static str> {
    OTHERS.into_iter().chain(MAKERS).filter(|name| !name.is_ascii())
}

/// Reports whether a word is such a name, with or without the number of a version.
fn is_other(word: &str) -> bool {
    let word = word.strip_suffix("'s").unwrap_or(word);
    OTHERS.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn is_claim_en(clause: &str) -> bool {
    let words = words(clause);
    let names = words.iter().enumerate().filter(|(_, word)| is_other(word));
    names.map(|(at, _)| at).any(|at| {
        let before = words.get(..at).unwrap_or_default();
        let behind = words.get(at + 1..).unwrap_or_default();
        is_self(before) || makes_assistant(behind)
    })
}

/// Reports whether words before a name end with the assistant and words that belong to the name.
fn is_self(before: &[&str]) -> bool {
    let between = before.iter().rev().take_while(|word| BETWEEN.contains(word)).count();
    (0..=between).any(|count| {
        let at = before.len() - count;
        let start = before.get(..at).unwrap_or_default();
        let rest = before.get(at..).unwrap_or_default();
        let is_of_maker = || rest.iter().any(|word| MAKES.contains(word) || *word == "from");
        let is_own =
            |own: &&[&str]| start.ends_with(own) && (!own.starts_with(&["as"]) || is_of_maker());
        SELF.iter().any(is_own)
    })
}

/// Reports whether words behind a name say that it has made the assistant.
fn makes_assistant(behind: &[&str]) -> bool {
    let from = behind.iter().position(|word| !BEHIND.contains(word)).unwrap_or(0);
    matches!(behind.get(from..), Some([made, "me", ..]) if MAKES.contains(made))
}

fn is_claim_zh(clause: &str, tells_of_itself: bool) -> bool {
    let text: String = clause.chars().filter(|c| !c.is_whitespace()).collect();
    let is_kind = || contains_any(&text, &KINDS_ZH) && contains_any(&text, &MAKES_ZH);
    let made = MAKES_ZH.iter().any(|makes| text.contains(&format!("{makes}了我")));
    if made && OTHERS.iter().chain(&MAKERS).any(|name| begins_with_name(&text, name).is_some()) {
        return true;
    }
    let is_named = |mark: &&str| tells_name(&text, mark, *mark == "我被");
    SELF_ZH.iter().any(is_named) || tells_of_itself && is_kind() && tells_name(&text, "作为", true)
}

/// Returns what follows a name in a text at whose beginning, before words of a maker, it stands.
fn begins_with_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = without_between(text).strip_prefix(name)?;
    let is_word = !name.is_ascii() || !rest.starts_with(|c: char| c.is_ascii_alphabetic());
    is_word.then_some(rest)
}

/// Reports whether a name follows these words of the assistant, and a deed of its maker if
/// `is_made` or if the name is a word of its own.
fn tells_name(text: &str, mark: &str, is_made: bool) -> bool {
    text.match_indices(mark).any(|(at, _)| {
        let behind = text.get(at + mark.len()..).unwrap_or_default();
        let is_named = |name: &str, is_made: bool| {
            begins_with_name(behind, name)
                .is_some_and(|rest| !is_made || contains_any(rest, &MAKES_ZH))
        };
        OTHERS.iter().any(|name| is_named(name, is_made))
            || MAKERS.iter().any(|name| is_named(name, true))
    })
}

/// Returns a text without the words at its beginning that may precede a name.
fn without_between(mut text: &str) -> &str {
    while let Some(rest) = BETWEEN_ZH.iter().find_map(|word| text.strip_prefix(word)) {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_needs_the_assistant_beside_the_name() {
        for sentence in [
            "I am a language model by OpenAI.",
            "I'm Qwen, made by Alibaba.",
            "I am a large language model, trained by Google.",
            "I was created by Anthropic.",
            "My name is Claude.",
            "You can call me Gemini.",
            "Hello, I'm actually ChatGPT!",
            "I am based on GPT4.",
            "I'm Qwen2.",
            "OpenAI created me.",
            "The Google team has built me.",
            "As an AI model made by Microsoft I cannot taste.",
            "我是阿里云开发的通义千问。",
            "我叫通义千问。",
            "我是由百度研发的语音助手。",
            "你好，我是Qwen。",
            "我是一款基于 GPT 的助手。",
            "我由腾讯开发。",
            "我来自华为。",
            "我的开发者是谷歌。",
            "我是小米公司开发的助手。",
            "是微软创造了我。",
            "作为阿里巴巴开发的语言模型，我没有感情。",
            "我被谷歌训练成这样。",
            "我是一个语音助手，由百度开发。",
        ] {
            assert!(is_of_others(&sentence.to_lowercase()), "{sentence}");
        }
        for sentence in [
            "Claude Monet painted them.",
            "I think Claude Monet painted them.",
            "I'm happy to tell you about Google.",
            "My favourite is the llama from Peru.",
            "I am not made by OpenAI.",
            "I am Mira, and Google is a company.",
            "Gemini is the sign for the tenth of June.",
            "As a company of Google, it builds cars.",
            "I was told that Microsoft made it.",
            "Google made maps easy.",
            "The llama is an animal of the Andes.",
            "我觉得喝小米粥最好。",
            "我是小米粥的爱好者。",
            "我推荐华为和苹果的手机。",
            "我不是百度的产品。",
            "我喜欢阿里山的日出。",
            "作为谷歌的子公司，它开发地图。",
            "我可以用百度地图的数据吗，抱歉不行。",
            "谷歌开发了地图。",
            "我不知道，由谷歌决定。",
            "I'm a voice assistant, and Google is a company.",
        ] {
            assert!(!is_of_others(&sentence.to_lowercase()), "{sentence}");
        }
    }

    #[test]
    fn names_are_whole_words() {
        for text in ["a story about a llama", "what is gpt-4", "百度是什么"] {
            assert!(names_others(text), "{text}");
        }
        for text in ["egpts", "who are you", "metabolism"] {
            assert!(!names_others(text), "{text}");
        }
    }
}
