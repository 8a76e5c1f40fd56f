//! Comparison of names given by people, and of search words. Not for identifiers, which are
//! compared literally.

use unicode_normalization::UnicodeNormalization as _;

/// Returns true if a character is invisible: joiners, direction marks, soft hyphens, variation
/// selectors.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a text in the form for comparison: without regard to case, Unicode form, width and
/// invisible characters, and with single spaces between words.
pub fn folded(text: &str) -> String {
    let one_form =
        |text: &str| text.nfkc().filter(|c| !is_invisible(*c)).nfkc().collect::<String>();
    let lower = one_form(text).to_lowercase();
    one_form(&lower).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true if two names look the same to people.
pub fn are_same(one: &str, other: &str) -> bool {
    one == other || folded(one) == folded(other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_look_the_same_are_the_same() {
        for (one, other) in [
            ("Küche", "Ku\u{308}che"),
            ("KÜCHE", "küche"),
            ("calc", "CALC"),
            ("calc ", " calc"),
            ("living  room", "Living\troom"),
            ("ＡＢＣ", "abc"),
            ("가", "\u{1100}\u{1161}"),
            ("Küche", "Kü\u{200b}ch\u{ad}e\u{feff}"),
            ("Küche", "\u{202e}Ku\u{200d}\u{308}che"),
        ] {
            assert!(are_same(one, other), "{one} {other}");
        }
        for (one, other) in [("Kuche", "Küche"), ("客厅", "客房"), ("ab", "a b"), ("", "x")] {
            assert!(!are_same(one, other), "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn folding_is_idempotent(text in ".{0,40}") {
            let once = folded(&text);
            prop_assert_eq!(folded(&once), once);
        }
    }
}
