//! Decides which characters are spoken, by their Unicode properties. Not for Markdown marks, which
//! are ordinary characters elsewhere.

use unicode_properties::{EmojiStatus, GeneralCategory, UnicodeEmoji, UnicodeGeneralCategory};

/// Symbols that are spoken, though their Unicode category is "other symbol".
const SPOKEN_SYMBOLS: &str = "°℃℉№©®™";

/// Treatment of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// Spoken, or shapes how its sentence is spoken.
    Said,
    /// Part of another character, or invisible: joiners and selectors.
    Part,
    /// Emoji or ornament, removed.
    Ornament,
    /// Separator: arrows, lines and bars.
    Parting,
    /// Number in a circle.
    Number(u32),
}

/// Returns the treatment of `c`, which is no white space.
pub(super) fn voice(c: char) -> Voice {
    match c {
        ' '..='~' | '\u{4e00}'..='\u{9fff}' | '，' | '。' | '、' | '\u{ff01}'..='\u{ff5e}' => {
            Voice::Said
        }
        '\0'..='\u{9f}' => Voice::Part,
        // Joiners, variation selectors, tags.
        '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => {
            Voice::Part
        }
        // Units in one square, such as ㎏ and ㎡.
        '\u{3371}'..='\u{33df}' => Voice::Said,
        '①'..='⑳' => Voice::Number(c as u32 - '①' as u32 + 1),
        '❶'..='❿' => Voice::Number(c as u32 - '❶' as u32 + 1),
        '➀'..='➉' => Voice::Number(c as u32 - '➀' as u32 + 1),
        '➊'..='➓' => Voice::Number(c as u32 - '➊' as u32 + 1),
        // Arrows; boxes and blocks.
        '\u{2190}'..='\u{21ff}'
        | '\u{2794}'..='\u{27be}'
        | '\u{27f0}'..='\u{27ff}'
        | '\u{2900}'..='\u{297f}'
        | '\u{2b00}'..='\u{2b11}'
        | '\u{2500}'..='\u{259f}' => Voice::Parting,
        // Geometric shapes, and bullets that Unicode counts as punctuation.
        '\u{25a0}'..='\u{26ff}' | '•' | '‣' | '⁃' | '※' | '†' | '‡' => Voice::Ornament,
        c if SPOKEN_SYMBOLS.contains(c) => Voice::Said,
        c => by_properties(c),
    }
}

/// Reports whether `c` is an emoji. Digits and ASCII signs are not.
pub(in crate::dialogue) fn is_emoji(c: char) -> bool {
    voice(c) == Voice::Ornament && !matches!(c.emoji_status(), EmojiStatus::NonEmoji)
}

fn by_properties(c: char) -> Voice {
    if !matches!(c.emoji_status(), EmojiStatus::NonEmoji) {
        return Voice::Ornament;
    }
    match c.general_category() {
        GeneralCategory::OtherSymbol if c.is_alphanumeric() => Voice::Said,
        GeneralCategory::OtherSymbol
        | GeneralCategory::ModifierSymbol
        | GeneralCategory::EnclosingMark
        | GeneralCategory::PrivateUse => Voice::Ornament,
        GeneralCategory::Format | GeneralCategory::Control | GeneralCategory::Unassigned => {
            Voice::Part
        }
        _ => Voice::Said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_units_and_money_are_said() {
        for c in "aé你한あ5%$€￥¥°℃㎡㎏²½×÷±≈≤∞、。！…—·“《〇々№™".chars()
        {
            assert_eq!(voice(c), Voice::Said, "{c}");
        }
    }

    #[test]
    fn emoji_and_ornaments_are_not() {
        for c in "😊👍🇨🎉❤☀⭐✅★☆◆◇●■□▲△▼▽※♪•🅰ℹⓂ㊗〰⌚🏽🆗".chars()
        {
            assert_eq!(voice(c), Voice::Ornament, "{c}");
        }
        for c in "\u{200d}\u{fe0f}\u{e0067}\u{ad}\u{feff}".chars() {
            assert_eq!(voice(c), Voice::Part, "{c:?}");
        }
        for c in "→⇒➡⬇│█".chars() {
            assert_eq!(voice(c), Voice::Parting, "{c}");
        }
        assert_eq!(voice('③'), Voice::Number(3));
        assert_eq!(voice('❿'), Voice::Number(10));
    }
}
