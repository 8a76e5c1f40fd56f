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
    /// English, and every language without Han characters.
    #[serde(rename = "en")]
    English,
}

impl Language {
    /// Returns the language of a text: Chinese if it contains a Han character and is not Japanese
    /// or Korean; `None` if it has no letters.
    pub fn from_key(text: &str) -> Option<Self> {
        if text.chars().any(is_han) && !text.chars().any(is_kana_or_hangul) && !is_kanji(text) {
            return Some(Self::Chinese);
        }
        text.chars().any(char::is_alphabetic).then_some(Self::English)
    }
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
