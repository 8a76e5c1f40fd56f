//! Decides which characters are spoken, by their Unicode properties. Not for Markdown marks, which
//! are ordinary characters elsewhere.

use unicode_properties::{EmojiStatus, GeneralCategory, UnicodeEmoji, UnicodeGeneralCategory};

/// Symbols that are spoken, though their Unicode category is "other symbol".
const SPOKEN_SYMBOLS: &str = "°℃℉№©®™";

/// Treatment of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Spoken, or affects how its sentence is spoken.
    Said,
    /// Part of another character, or invisible: joiners and selectors.
    Part,
    /// Emoji or ornament, removed.
    Ornament,
    /// Separator: arrows, lines and bars.
    Separator,
    /// Number in a circle.
    Number(u32),
}

/// Returns the treatment of `c`, which is no white space.
pub(super) fn treatment(c: char) -> Treatment {
    match c {
        ' '..='~' | '\u{4e00}'..='\u{9fff}' | '，' | '。' | '、' | '\u{ff01}'..='\u{ff5e}' => {
            Treatment::Said
        }
        '\0'..='\u{9f}' => Treatment::Part,
        // Joiners, variation selectors, tags.
        '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => {
            Treatment::Part
        }
        // Units in one square, such as ㎏ and ㎡.
        '\u{3371}'..='\u{33df}' => Treatment::Said,
        '①'..='⑳' => Treatment::Number(c as u32 - '①' as u32 + 1),
        '❶'..='❿' => Treatment::Number(c as u32 - '❶' as u32 + 1),
        '➀'..='➉' => Treatment::Number(c as u32 - '➀' as u32 + 1),
        '➊'..='➓' => Treatment::Number(c as u32 - '➊' as u32 + 1),
        // Arrows; boxes and blocks.
        '\u{2190}'..='\u{21ff}'
        | '\u{2794}'..='\u{27be}'
        | '\u{27f0}'..='\u{27ff}'
        | '\u{2900}'..='\u{297f}'
        | '\u{2b00}'..='\u{2b11}'
        | '\u{2500}'..='\u{259f}' => Treatment::Separator,
        // Geometric shapes, and bullets that Unicode counts as punctuation.
        '\u{25a0}'..='\u{26ff}' | '•' | '‣' | '⁃' | '※' | '†' | '‡' => {
            Treatment::Ornament
        }
        c if SPOKEN_SYMBOLS.contains(c) => Treatment::Said,
        c => by_properties(c),
    }
}

/// Reports whether `c` is an emoji. Digits and ASCII signs are not.
pub(crate) fn is_emoji(c: char) -> bool {
    treatment(c) == Treatment::Ornament && !matches!(c.emoji_status(), EmojiStatus::NonEmoji)
}

fn by_properties(c: char) -> Treatment {
    if !matches!(c.emoji_status(), EmojiStatus::NonEmoji) {
        return Treatment::Ornament;
    }
    match c.general_category() {
        GeneralCategory::OtherSymbol if c.is_alphanumeric() => Treatment::Said,
        GeneralCategory::OtherSymbol
        | GeneralCategory::ModifierSymbol
        | GeneralCategory::EnclosingMark
        | GeneralCategory::PrivateUse => Treatment::Ornament,
        GeneralCategory::Format | GeneralCategory::Control | GeneralCategory::Unassigned => {
            Treatment::Part
        }
        _ => Treatment::Said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_units_and_money_are_spoken() {
        for c in "aé你한あ5%$€￥¥°℃㎡㎏²½×÷±≈≤∞、。！…—·“《〇々№™".chars()
        {
            assert_eq!(treatment(c), Treatment::Said, "{c}");
        }
    }

    #[test]
    fn emoji_and_ornaments_are_removed() {
        for c in "😊👍🇨🎉❤☀⭐✅★☆◆◇●■□▲△▼▽※♪•🅰ℹⓂ㊗〰⌚🏽🆗".chars()
        {
            assert_eq!(treatment(c), Treatment::Ornament, "{c}");
        }
        for c in "\u{200d}\u{fe0f}\u{e0067}\u{ad}\u{feff}".chars() {
            assert_eq!(treatment(c), Treatment::Part, "{c:?}");
        }
        for c in "→⇒➡⬇│█".chars() {
            assert_eq!(treatment(c), Treatment::Separator, "{c}");
        }
        assert_eq!(treatment('③'), Treatment::Number(3));
        assert_eq!(treatment('❿'), Treatment::Number(10));
    }
}
