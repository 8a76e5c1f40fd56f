//! Splits mixed sentences by the language, and therefore by the voice, of each part.

use hearken_base::language::is_han;

/// Language of a run of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// Mandarin.
    Chinese,
    /// English, and anything else written in Latin letters.
    English,
}

/// Part of a text in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Language of the part.
    pub language: Language,
    /// Words of the part, trimmed.
    pub text: String,
}

/// Splits `text` into runs of one language each. Digits, signs and punctuation belong to the words
/// before them; at the start, to the words after them. Units directly after a number (`20km`,
/// `36.5°C`) belong to the number if the text is Chinese. Text without letters is Chinese only if
/// it has Chinese punctuation. Text without spoken content has no runs.
pub fn split(text: &str) -> Vec<Run> {
    let chars: Vec<char> = text.chars().map(narrow).collect();
    let chinese = chars.iter().any(|c| is_han(*c) || matches!(c, '。' | '，' | '、' | '？' | '！'));
    let mut runs: Vec<Run> = Vec::new();
    let mut current = String::new();
    let mut language = None;
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let unit =
            if chinese && language != Some(Language::English) { unit_at(&chars, at) } else { 0 };
        let own = if unit > 0 || is_han(c) {
            Some(Language::Chinese)
        } else if c.is_alphabetic() {
            Some(Language::English)
        } else {
            None
        };
        if let (Some(own), Some(before)) = (own, language)
            && own != before
        {
            push(&mut runs, before, &current);
            current.clear();
        }
        language = own.or(language);
        if language.is_none() && chinese && c.is_ascii_digit() {
            language = Some(leading(&chars[at..]));
        }
        let take = unit.max(1);
        current.extend(&chars[at..at + take]);
        at += take;
    }
    let fallback = if chinese { Language::Chinese } else { Language::English };
    push(&mut runs, language.unwrap_or(fallback), &current);
    runs
}

/// Returns the language of the first letter.
fn leading(chars: &[char]) -> Language {
    match chars.iter().find(|c| c.is_alphabetic()) {
        Some(c) if !is_han(*c) => Language::English,
        _ => Language::Chinese,
    }
}

fn push(runs: &mut Vec<Run>, language: Language, text: &str) {
    let text = text.trim();
    if text.chars().any(char::is_alphanumeric) {
        runs.push(Run { language, text: text.to_owned() });
    } else if let Some(last) = runs.last_mut() {
        last.text.push_str(text);
    }
}

/// Converts full-width letters, digits and signs to plain ones, and control characters to spaces.
fn narrow(c: char) -> char {
    match c {
        '０'..='９' | 'Ａ'..='Ｚ' | 'ａ'..='ｚ' | '％' | '＋' | '－' | '＝' | '／' | '．' => {
            char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c)
        }
        c if c.is_control() => ' ',
        c => c,
    }
}

/// Returns the length of a unit sign at `at` that is directly after a digit; otherwise 0.
fn unit_at(chars: &[char], at: usize) -> usize {
    if at == 0 || !chars[at - 1].is_ascii_digit() {
        return 0;
    }
    super::units::unit_at(chars, at).map_or(0, |unit| unit.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(text: &str) -> String {
        split(text)
            .into_iter()
            .map(|run| match run.language {
                Language::Chinese => format!("zh[{}]", run.text),
                Language::English => format!("en[{}]", run.text),
            })
            .collect()
    }

    #[test]
    fn sentences_split_by_script() {
        for (text, runs) in [
            ("你好，world！", "zh[你好，]en[world！]"),
            ("音量调到50%。", "zh[音量调到50%。]"),
            ("我用 iPhone 15 很久了", "zh[我用]en[iPhone 15]zh[很久了]"),
            ("It is 20 degrees.", "en[It is 20 degrees.]"),
            ("距离是20km，温度36.5°C。", "zh[距离是20km，温度36.5°C。]"),
            ("煮30min，电池5000mAh。", "zh[煮30min，电池5000mAh。]"),
            ("延迟100ms以内", "zh[延迟100ms以内]"),
            ("看5game吧", "zh[看5]en[game]zh[吧]"),
            ("3点开会", "zh[3点开会]"),
            ("3 people 来了", "en[3 people]zh[来了]"),
            ("42", "en[42]"),
            ("４２％。", "zh[42%。]"),
            ("……", ""),
            ("", ""),
            ("\u{0}hi", "en[hi]"),
            // This code point has no character.
            ("0\u{2fb62}d", "en[0\u{2fb62}d]"),
        ] {
            assert_eq!(show(text), runs, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_letter_is_lost(text in "[a-c0-9你好，。 %!]{0,40}") {
            let spoken = |s: &str| s.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            let joined: String = split(&text).into_iter().map(|run| run.text).collect();
            prop_assert_eq!(spoken(&joined), spoken(&text));
        }

        #[test]
        fn no_text_causes_a_panic(text in any::<String>()) {
            for run in split(&text) {
                prop_assert!(!run.text.contains('\0'));
            }
        }
    }
}
