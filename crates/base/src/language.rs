//! Language of a text, normalisation of words for comparison, and the names by which devices are
//! addressed. Not for phrases, nor for the language of an answer.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Estimated characters spoken per second.
const HAN_PER_SECOND: f64 = 4.5;
const LATIN_PER_SECOND: f64 = 15.0;

/// Language of fixed phrases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Language {
    /// Chinese.
    #[default]
    #[serde(rename = "zh")]
    Chinese,
    /// English, and every other language than Chinese.
    #[serde(rename = "en")]
    English,
}

impl Language {
    /// Returns the language of a text; `None` if it has no letters, or only words that speakers of
    /// Chinese use, too: `OK`, `Hello`. A text with Han characters is Chinese unless it is Japanese
    /// or Korean, or its sentence is in another language and only a name or another piece of it is
    /// Chinese. Quoted text does not count.
    pub fn from_key(text: &str) -> Option<Self> {
        if has_chinese(text) && is_chinese_sentence(text) {
            return Some(Self::Chinese);
        }
        (has_letters(text) && !is_address(text)).then_some(Self::English)
    }

    /// Returns the language of a person's words in a conversation whose language before them is
    /// `known`: words that do not determine one have that of the conversation. A conversation that
    /// begins with `Hello` is English until other words follow.
    pub fn of_words(words: &str, known: Option<Self>) -> Option<Self> {
        let begun = || has_letters(words).then_some(Self::English);
        Self::from_key(words).or(known).or_else(begun)
    }
}

/// Returns true if a text contains Chinese, be it a name in another language: a Han character in a
/// text that is not Japanese or Korean.
pub fn has_chinese(text: &str) -> bool {
    text.chars().any(is_han) && !has_japanese_or_korean(text)
}

/// Returns true if a text has letters that only Japanese and Korean use, or is Japanese in Han
/// characters alone.
pub fn has_japanese_or_korean(text: &str) -> bool {
    text.chars().any(is_kana_or_hangul) || is_kanji(text)
}

fn has_letters(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}

/// Returns true if a text consists of words by which its language is not known.
fn is_address(text: &str) -> bool {
    let words = other_words(text);
    !words.is_empty() && !text.chars().any(is_han) && words.iter().all(|word| is_name(word))
}

/// Returns true if a word, as [`other_words`] returns it, does not show the language of a sentence.
fn is_name(word: &str) -> bool {
    ADDRESSES.contains(&word) || DEVICE_NAMES.contains(&word)
}

/// Returns true if the sentence around the pieces in other languages is Chinese: by the word with
/// which it begins, and by the number of Han characters and of other words.
fn is_chinese_sentence(text: &str) -> bool {
    let outside = without_quotes(text);
    let said = if has_letters(&outside) { outside.as_str() } else { text };
    let han = said.chars().filter(|c| is_han(*c)).count();
    let words = other_words(said);
    if han == 0 || words.is_empty() {
        return words.is_empty();
    }
    let first = said.chars().find(|c| c.is_alphabetic());
    if first.is_some_and(is_common) {
        return true;
    }
    let mut spoken = words.iter().map(String::as_str).filter(|word| !is_name(word));
    if spoken.next().is_some_and(|word| is_in(ENGLISH, word)) {
        return han > 3 * words.len() || han >= words.len() && ends_in_chinese(said);
    }
    let has_words = first.is_some_and(is_han) || said.chars().any(is_common);
    let needed = if has_words { words.len() } else { 2 * words.len() };
    han >= needed
}

/// Returns true if `word` is one of the words of a list that spaces divide.
pub(crate) fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|other| other == word)
}

/// Returns true if `c` is a character of common Chinese words.
fn is_common(c: char) -> bool {
    CHINESE.contains(c) || COMMON.contains(c)
}

/// Returns the words that are not in Han characters, in lower case; `20m` is a number.
fn other_words(text: &str) -> Vec<String> {
    let is_between = |c: char| is_han(c) || !c.is_alphanumeric() && !['\'', '’'].contains(&c);
    text.split(is_between).map(bare).filter(|word| word.starts_with(char::is_alphabetic)).collect()
}

/// Returns true if the Chinese at the end of a text makes a sentence of what stands before it:
/// `Let It Be 是谁唱的`.
fn ends_in_chinese(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| !c.is_alphanumeric());
    let end = text.trim_end_matches(is_han).len();
    let Some(tail) = text.get(end..) else { return false };
    tail.starts_with(|c: char| AFTER_TOPIC.contains(c))
        || tail.contains(|c: char| ASKING.contains(c))
}

/// Returns a text without its quoted parts.
fn without_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(|c: char| QUOTES.iter().any(|quotes| quotes.0 == c)) {
        let before = &rest[..open];
        let mut quoted = rest[open..].chars();
        let first = quoted.next();
        let close = QUOTES.iter().find(|quotes| Some(quotes.0) == first).map(|quotes| quotes.1);
        let Some(behind) = close.and_then(|close| quoted.as_str().split_once(close)) else { break };
        out.push_str(before);
        out.push(' ');
        rest = behind.1;
    }
    out.push_str(rest);
    out
}

/// Returns true if `c` is a Han character. Unassigned code points in the Han blocks are not.
pub fn is_han(c: char) -> bool {
    matches!(c, '〇' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
        && c.is_alphabetic()
}

/// Estimates the time to speak a text, in seconds: for a sentence whose duration is not known.
pub fn speech_seconds(text: &str) -> f64 {
    text.chars().map(|c| 1.0 / if is_han(c) { HAN_PER_SECOND } else { LATIN_PER_SECOND }).sum()
}

/// Returns true if `c` is a Japanese or Korean letter that Chinese texts do not use. Chinese texts
/// do use の, as decoration.
fn is_kana_or_hangul(c: char) -> bool {
    c != 'の' && matches!(c, 'ぁ'..='ゖ' | 'ァ'..='ヺ' | 'ｦ'..='ﾝ' | 'ᄀ'..='ᇿ' | '가'..='힣')
}

/// Characters of Japanese that neither Chinese script uses.
const JAPANESE: &str = "気円図駅働込発変楽薬読売鉄戻覧験検県広拡実対転伝帰塩圧囲応毎経軽継険権済雑従焼畳戦銭総騒蔵続帯滝択沢\
                        訳団弾徴聴稲闘徳悩脳拝廃髪抜払辺満黙様頼両緑涙齢歴録桜価仮覚単営労悪歩黒乗";
/// Japanese words whose characters all exist in Chinese, as [`bare`] returns them.
const JAPANESE_WORDS: [&str; 4] = ["今何时", "何时何分", "何月何日", "曜日"];
/// Characters of Chinese function words: a text with one of them is Chinese, and a Japanese word in
/// it is a name.
const CHINESE: &str = "的了吗嗎么麼这這你您们們我怎哪谁誰吧呢";

/// Characters of other common words, and of verbs with which commands begin.
const COMMON: &str = "是在不有把给給放播听聽打开開关關说說问問查搜唱叫找想要请請用帮幫几幾什啥多下首换換循翻连連\
                      设設调調加买買看读讀写寫记記订訂定启啟停暂暫继繼发發教讲講告转轉回来來去还還可";
/// Characters with which the rest of a sentence begins, after its topic.
const AFTER_TOPIC: &str = "的是用有在不唱叫";
/// Characters of question words and particles.
const ASKING: &str = "吗嗎呢吧么麼怎谁誰哪";
/// Words with which English sentences begin, divided by spaces; no titles or names.
const ENGLISH: &str = "what whats who whos where wheres when why how hows which is are am was were \
    do does did can could will would should may please call tell play turn switch set say give show \
    add remind open close the a an my i im ive id it its there theres this that let lets if put \
    start stop send find translate make you he she we they his her our your in on at to for from \
    with and of ask read text message email help go get take look dont";
/// Words alone or before a sentence by which its language is not known.
const ADDRESSES: [&str; 13] =
    ["ok", "okay", "hey", "hi", "hello", "so", "well", "um", "uh", "oh", "yes", "no", "bye"];
/// Pairs of quotation marks. An apostrophe is none.
const QUOTES: [(char, char); 8] = [
    ('"', '"'),
    ('“', '”'),
    ('„', '“'),
    ('「', '」'),
    ('『', '』'),
    ('《', '》'),
    ('〈', '〉'),
    ('«', '»'),
];

/// Returns true if a text of Han characters alone is Japanese.
fn is_kanji(text: &str) -> bool {
    let has = |characters: &str| text.chars().any(|c| characters.contains(c));
    if has(CHINESE) {
        return false;
    }
    let words = bare(text);
    has(JAPANESE) || JAPANESE_WORDS.iter().any(|word| words.contains(word))
}

/// Names by which people address a device, whatever it is called. Next to other words they do not
/// change the meaning.
pub const DEVICE_NAMES: [&str; 16] = [
    "小智",
    "小智小智",
    "小智同学",
    "小爱",
    "小爱同学",
    "小度",
    "小度小度",
    "小艺",
    "天猫精灵",
    "xiaozhi",
    "hearken",
    "alexa",
    "jarvis",
    "computer",
    "siri",
    "google",
];

/// Returns the letters and digits of a text, in lower case and simplified script. Texts are
/// compared in this form, so that spaces and punctuation do not matter.
pub fn bare(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    letters.map(simplified).collect()
}

/// Pairs of a traditional and a simplified character: those of the words that are compared by
/// default, and of other words that people say to a device.
const TRADITIONAL: &str = "別别說说講讲閉闭靜静夠够對对愛爱學学樂乐鴨鸭龍龙濱滨脈脉應应東东貓猫靈灵確确認认沒没問问題题當当請请謝谢開开關关\
                           這这個个嗎吗聲声麼么時时間间話话聽听給给號号單单們们還还過过進进電电燈灯後后來来會会機机興兴\
                           觀观點点贊赞讚赞閱阅訂订頻频詞词編编製制優优獨独劇剧場场鏡镜與与轉转發发賞赏暫暂結结煩烦許许執执\
                           繼继續续囉啰嘍喽噓嘘嘆叹雜杂無无讓让準准幫帮啟启鎖锁刪删設设動动錯错見见節节";

/// The pairs of [`TRADITIONAL`], in the order of the traditional characters.
static PAIRS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let characters: Vec<char> = TRADITIONAL.chars().collect();
    let mut pairs: Vec<_> = characters.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_unstable();
    pairs
});

fn simplified(c: char) -> char {
    let found = PAIRS.binary_search_by_key(&c, |(traditional, _)| *traditional);
    found.ok().and_then(|at| PAIRS.get(at)).map_or(c, |(_, simplified)| *simplified)
}

/// Returns true if two texts have the same words: case, spaces and punctuation do not matter.
pub fn are_same_words(one: &str, other: &str) -> bool {
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_a_text_determines_its_language() {
        assert_eq!(Language::from_key("播放 Jay 的歌"), Some(Language::Chinese));
        assert_eq!(Language::from_key("What time is it?"), Some(Language::English));
        for text in ["東京の天気は？", "明日は雨ですか", "カタカナ", "대한民國"]
        {
            assert_eq!(Language::from_key(text), Some(Language::English), "{text}");
        }
        for text in ["今何時", "今何時？", "明日天気", "今日何曜日", "音楽再生"]
        {
            assert_eq!(Language::from_key(text), Some(Language::English), "{text}");
        }
        for text in [
            "鲜の每日",
            "現在幾點",
            "何時出發",
            "何日君再来",
            "东京駅怎么走",
            "他有何要求",
            "今日天氣",
        ] {
            assert_eq!(Language::from_key(text), Some(Language::Chinese), "{text}");
        }
        assert_eq!(Language::from_key("…!? 12"), None);
    }

    #[test]
    fn words_of_every_speaker_do_not_change_the_language_of_a_conversation() {
        use Language::{Chinese, English};
        for text in ["OK", "Okay.", "Hello!", "Hi, Xiaozhi", "oh, yes", "No, no.", "Bye-bye", "12"]
        {
            assert_eq!(Language::from_key(text), None, "{text}");
            for known in [Chinese, English] {
                assert_eq!(Language::of_words(text, Some(known)), Some(known), "{text}");
            }
        }
        assert_eq!(Language::of_words("Hello!", None), Some(English));
        assert_eq!(Language::of_words("12", None), None);
        for (text, expected) in
            [("OK, stop", English), ("Yes please", English), ("OK 可以", Chinese), ("5km", English)]
        {
            assert_eq!(Language::from_key(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_foreign_piece_does_not_change_the_language_of_a_sentence() {
        for text in [
            "我想听 Taylor Swift 的 Love Story",
            "我想听 The Dark Side of the Moon",
            "播放 Shape of You",
            "打开 Netflix",
            "订阅 BBC News",
            "iPhone 怎么截图",
            "Taylor Swift 是谁？",
            "Let It Be 是谁唱的",
            "The Beatles 的歌",
            "I love you 用中文怎么说",
            "“How are you today”是什么意思",
            "OK 可以",
            "hi 乐鑫",
            "please 帮我打开客厅的灯",
            "“谢谢”",
        ] {
            assert_eq!(Language::from_key(text), Some(Language::Chinese), "{text}");
        }
        for text in [
            "What does 谢谢 mean?",
            "What does “我爱你” mean?",
            "what does 好好学习天天向上 mean",
            "How do you say 你好吗?",
            "Call 小明 and tell him dinner is ready",
            "Alexa, call 小明",
            "小爱同学, turn on the light",
            "turn on 厨房的灯",
            "play 周杰伦",
            "My son 小明 is not breathing",
            "小明 is at home and he wants dinner",
            "Who sang \"月亮代表我的心\"?",
            "Ruf 小明 an und sag ihm Bescheid",
        ] {
            assert_eq!(Language::from_key(text), Some(Language::English), "{text}");
        }
        assert!(has_chinese("Call 小明") && !has_chinese("今日何曜日") && !has_chinese("Call Tom"));
        for (text, expected) in
            [("東京です。", true), ("今日何曜日", true), ("Call 小明", false), ("Tom", false)]
        {
            assert_eq!(has_japanese_or_korean(text), expected, "{text}");
        }
    }

    #[test]
    fn words_are_the_same_in_both_scripts_of_chinese() {
        for (one, other) in [
            ("別說了！", "别说了"),
            ("小愛同學", "小爱同学"),
            ("OK, 閉嘴", "ok闭嘴"),
            ("謝謝觀看", "谢谢观看"),
        ] {
            assert!(are_same_words(one, other), "{one}");
        }
        assert!(!are_same_words("说", "话"));
    }

    #[test]
    fn character_pairs_fold_and_compared_words_are_folded() {
        assert!(TRADITIONAL.chars().all(is_han));
        for (traditional, simple) in PAIRS.iter().copied() {
            assert_eq!([traditional, simple].map(simplified), [simple; 2]);
        }
        assert_eq!(PAIRS.len() * 2, TRADITIONAL.chars().count());
        for words in JAPANESE_WORDS.into_iter().chain(DEVICE_NAMES) {
            assert_eq!(bare(words), words);
        }
    }
}
