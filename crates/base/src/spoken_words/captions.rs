//! Captions of sounds: `[Music]`, `（掌声）`, `*sighs*`. Not for credits.

use super::LONGEST_MARK_CHARS;
use crate::language::{bare, is_han};

/// Words of sounds, in several languages; each annotation of a sound contains one.
const SOUNDS: [&str; 107] = [
    "applause",
    "audio",
    "background",
    "beep",
    "beeping",
    "beeps",
    "blank",
    "breathing",
    "breaths",
    "buzzing",
    "cheering",
    "cheers",
    "chuckles",
    "chuckling",
    "clapping",
    "clears",
    "click",
    "clicking",
    "clicks",
    "cough",
    "coughing",
    "coughs",
    "crosstalk",
    "crying",
    "footsteps",
    "gasps",
    "giggles",
    "groans",
    "grunts",
    "humming",
    "inaudible",
    "indistinct",
    "laughing",
    "laughs",
    "laughter",
    "music",
    "musical",
    "noise",
    "noises",
    "pause",
    "ringing",
    "screaming",
    "screams",
    "sigh",
    "sighing",
    "sighs",
    "silence",
    "singing",
    "sneezes",
    "sniffles",
    "sniffs",
    "sobbing",
    "static",
    "typing",
    "unintelligible",
    "unk",
    "whistles",
    "whistling",
    "musik",
    "música",
    "musica",
    "musique",
    "müzik",
    "muziek",
    "muzyka",
    "музыка",
    "applaus",
    "aplausos",
    "applaudissements",
    "applausi",
    "аплодисменты",
    "alkış",
    "lachen",
    "gelächter",
    "risas",
    "risa",
    "rires",
    "rire",
    "risate",
    "смех",
    "stille",
    "silencio",
    "silêncio",
    "silenzio",
    "тишина",
    "geräusch",
    "geräusche",
    "rauschen",
    "ruido",
    "bruit",
    "шум",
    "husten",
    "tos",
    "toux",
    "кашель",
    "seufzt",
    "suspiro",
    "soupir",
    "вздох",
    "음악",
    "박수",
    "웃음",
    "웃음소리",
    "침묵",
    "소음",
    "bgm",
    "sfx",
];
/// The same in Chinese and Japanese, which do not separate words; as [`bare`] returns them.
const EAST_ASIAN_SOUNDS: [&str; 21] = [
    "音乐",
    "掌声",
    "鼓掌",
    "笑",
    "咳嗽",
    "叹气",
    "叹息",
    "噪音",
    "杂音",
    "静音",
    "无声",
    "沉默",
    "听不清",
    "声",
    "音楽",
    "拍手",
    "笑い",
    "笑い声",
    "无音",
    "雑音",
    "咳",
];
/// Maximum number of words, or Han characters, of an annotation.
const LONGEST_SOUND: usize = 8;
/// Words that may accompany a sound if a whole text is a caption.
const BESIDE_SOUNDS: [&str; 10] =
    ["playing", "plays", "upbeat", "soft", "gentle", "dramatic", "loud", "sad", "in", "the"];

/// Brackets of any script, and signs on both sides of a caption.
const BRACKETS: &str = "[]()（）【】［］〔〕「」『』〈〉《》{}｛｝<>＜＞";
const SIGNS_AROUND: &str = "-_~#*—♪♫♬♩🎵🎶🎼";

/// Returns true if a text is only the caption of a sound, in brackets of any script, closed or not,
/// or between signs. Words without either are speech.
pub(super) fn is_caption(text: &str) -> bool {
    let text = text.trim().trim_end_matches(['.', '。', '…', '!', '！', ' ']);
    let inner = text.trim_matches(|c: char| !c.is_alphanumeric());
    let (Some(first), Some(last)) = (text.chars().next(), text.chars().next_back()) else {
        return false;
    };
    let is_marked = BRACKETS.contains(first)
        || BRACKETS.contains(last)
        || SIGNS_AROUND.contains(first) && SIGNS_AROUND.contains(last);
    is_marked && inner.len() <= 4 * LONGEST_MARK_CHARS && names_only_sounds(inner)
}

fn names_only_sounds(inner: &str) -> bool {
    if inner.chars().any(is_han) {
        return EAST_ASIAN_SOUNDS.contains(&bare(inner).as_str());
    }
    let lower = inner.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_sound = |word: &str| SOUNDS.contains(&word);
    words.iter().any(|word| is_sound(word))
        && words.iter().all(|word| is_sound(word) || BESIDE_SOUNDS.contains(word))
}

/// Removes annotations of sounds: `[Music]`, `(applause)`, `*sighs*`. A text that consists only of
/// annotations becomes empty. Other brackets stay: `打开(客厅)的灯`.
pub(super) fn without_sounds(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut outside = String::new();
    let mut rest = text;
    while let Some(open) = rest.find(['[', '(', '（', '【', '［', '〔', '*']) {
        kept.push_str(&rest[..open]);
        outside.push_str(&rest[..open]);
        rest = &rest[open..];
        match annotation(rest) {
            Some((inner, length)) => {
                if !is_sound(inner) {
                    kept.push_str(&rest[..length]);
                }
                rest = &rest[length..];
            }
            None => {
                let first = rest.chars().next().map_or(0, char::len_utf8);
                kept.push_str(&rest[..first]);
                rest = &rest[first..];
            }
        }
    }
    kept.push_str(rest);
    outside.push_str(rest);
    if bare(&outside).is_empty() { String::new() } else { kept.trim().to_owned() }
}

/// Returns the content of the brackets or asterisks at the start of the text, and the length of the
/// whole in bytes.
fn annotation(text: &str) -> Option<(&str, usize)> {
    let open = text.chars().next()?;
    let close = match open {
        '[' => ']',
        '(' => ')',
        '（' => '）',
        '【' => '】',
        '［' => '］',
        '〔' => '〕',
        other => other,
    };
    let inside = &text[open.len_utf8()..];
    let (end, _) = inside.char_indices().take(LONGEST_MARK_CHARS).find(|(_, c)| *c == close)?;
    let inner = &inside[..end];
    // `2*3*4` is a product, `*sighs*` a sound.
    let is_word = |c: char| c.is_alphabetic() || c == ' ' || c == '-';
    if open == '*' && (inner.trim().is_empty() || !inner.chars().all(is_word)) {
        return None;
    }
    Some((inner, open.len_utf8() + end + close.len_utf8()))
}

/// Returns true if this names a sound, or is a time or a mark of a model: `_BEG_`, `00:01.000 -->
/// 00:02.500`.
fn is_sound(inner: &str) -> bool {
    let inner = inner.trim();
    if inner.starts_with("_BEG_") || inner.starts_with("_TT_") {
        return true;
    }
    if inner.contains(':') && inner.chars().all(|c| c.is_ascii_digit() || ":.,-> s".contains(c)) {
        return true;
    }
    if inner.chars().any(is_han) {
        let inner = bare(inner);
        let short = inner.chars().count() <= LONGEST_SOUND;
        return short && EAST_ASIAN_SOUNDS.iter().any(|sound| inner.ends_with(sound));
    }
    let lower = inner.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.len() <= LONGEST_SOUND && words.iter().any(|word| SOUNDS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compared_words_are_bare() {
        for word in SOUNDS.into_iter().chain(EAST_ASIAN_SOUNDS) {
            assert_eq!(bare(word), word);
        }
    }

    #[test]
    fn a_whole_text_is_a_caption_if_it_is_marked_as_one() {
        for text in ["(Music", "Music]", "「音楽」", "~music~", "♪ upbeat music ♪", "<music>."]
        {
            assert!(is_caption(text), "{text}");
        }
        for text in
            ["music", "- music", "「开灯」", "打开「音乐」", "", "()", "[the]", "(turn on music)"]
        {
            assert!(!is_caption(text), "{text}");
        }
    }
}
