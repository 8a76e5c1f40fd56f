//! Language of a text, and its words as they are compared. Not for phrases, nor for the language of an answer.

use serde::{Deserialize, Serialize};

/// Language of fixed phrases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// Returns the language of a text: Chinese if it contains a Han character and none of another script that uses them, as
    /// Japanese and Korean do; `None` if it has no letters.
    pub fn from_key(text: &str) -> Option<Self> {
        if text.chars().any(is_han) && !text.chars().any(is_kana_or_hangul) {
            return Some(Self::Chinese);
        }
        text.chars().any(char::is_alphabetic).then_some(Self::English)
    }
}

/// Reports whether `c` is a Han character. Numbers in the blocks of Unicode that stand for none yet are not.
pub fn is_han(c: char) -> bool {
    matches!(c, '〇' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
        && c.is_alphabetic()
}

/// Reports whether `c` is a letter of Japanese or Korean that Chinese texts do not have. They do have の, for its looks.
fn is_kana_or_hangul(c: char) -> bool {
    c != 'の' && matches!(c, 'ぁ'..='ゖ' | 'ァ'..='ヺ' | 'ｦ'..='ﾝ' | 'ᄀ'..='ᇿ' | '가'..='힣')
}

/// Returns the letters and digits of a text, in lower case and simplified script: words are compared so, whatever stands between
/// them.
pub fn bare(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    letters.map(simplified).collect()
}

/// Traditional characters and the simplified ones for them: those of the words that are compared as shipped, and others that
/// people say to a device.
const TRADITIONAL: &str = "別别說说講讲閉闭靜静夠够對对愛爱學学樂乐鴨鸭龍龙濱滨脈脉應应東东貓猫靈灵確确認认沒没問问題题當当請请謝谢開开關关\
                           這这個个嗎吗聲声麼么時时間间話话聽听給给號号單单們们還还過过進进電电燈灯後后來来會会機机興兴";

fn simplified(c: char) -> char {
    if !is_han(c) {
        return c;
    }
    let mut pairs = TRADITIONAL.chars();
    while let (Some(traditional), Some(simplified)) = (pairs.next(), pairs.next()) {
        if traditional == c {
            return simplified;
        }
    }
    c
}

/// Reports whether two texts have the same words: case, spaces and punctuation do not matter.
pub fn are_same_words(one: &str, other: &str) -> bool {
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_of_a_text_is_told_by_its_script() {
        assert_eq!(Language::from_key("播放 Jay 的歌"), Some(Language::Chinese));
        assert_eq!(Language::from_key("What time is it?"), Some(Language::English));
        for text in ["東京の天気は？", "明日は雨ですか", "カタカナ", "대한民國"]
        {
            assert_eq!(Language::from_key(text), Some(Language::English), "{text}");
        }
        assert_eq!(Language::from_key("鲜の每日"), Some(Language::Chinese));
        assert_eq!(Language::from_key("…!? 12"), None);
    }

    #[test]
    fn words_are_the_same_in_both_scripts_of_chinese() {
        for (one, other) in
            [("別說了！", "别说了"), ("小愛同學", "小爱同学"), ("OK, 閉嘴", "ok闭嘴")]
        {
            assert!(are_same_words(one, other), "{one}");
        }
        assert!(!are_same_words("说", "话"));
    }
}
