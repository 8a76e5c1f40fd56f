//! Parses written text that is not spoken: emoticons, as `(≧▽≦)`, and stage directions, as `（微笑着）`
//! and `*laughs*`. Not for emoji, nor for brackets with words.

use hearken_base::language::is_han;

use super::Found;

/// Maximum length of an emoticon, and of a stage direction, in characters.
const FACE_MAX: usize = 12;
const DIRECTION_MAX: usize = 32;
/// Maximum number of words of an English direction, and of characters of a Chinese one.
const DIRECTION_WORDS: usize = 5;
const DIRECTION_HAN: usize = 12;

/// Letters that can be eyes, cheeks or a mouth, in an emoticon with other signs. Text with other
/// letters is a word.
const FACE_LETTERS: &str = "TtOoXxUuVvQqwWωДдヮワㅂㅅㅁㅇㄒㅠㅜᴗᵕツシ๑ಠಥლºᴥʖʕʔง٩وヽノﾉづゞﾟᴥ";
/// Arms before an emoticon, and after it.
const LEFT_ARMS: &str = "ヽ٩╰";
const RIGHT_ARMS: &str = "وノﾉづ۶彡✧ゞ╯";
/// Maximum number of arms after an emoticon.
const MAX_ARMS: usize = 3;
/// Non-ASCII signs that do not indicate an emoticon: punctuation, units and mathematics.
const ORDINARY_SIGNS: &str = "，。！？、；：“”‘’«»„‚‹›（）《》〈〉【】「」…—–·～%℃°×÷±≈≤≥≠∞√∑∏∫πµ→←↑↓⋅⊗⊕∘∗∈∉⊂⊆∪∂€£¥￥§№™©®²³";

/// English words that start a direction, alone or before others: actions of a speaker.
const ACTIONS: [&str; 52] = [
    "blinks",
    "blushes",
    "blushing",
    "bows",
    "chuckles",
    "chuckling",
    "clapping",
    "claps",
    "clears",
    "coughs",
    "cries",
    "crying",
    "gasps",
    "giggles",
    "giggling",
    "grinning",
    "grins",
    "groans",
    "hugs",
    "humming",
    "hums",
    "laughing",
    "laughs",
    "leans",
    "nodding",
    "nods",
    "pauses",
    "pausing",
    "shakes",
    "shrugging",
    "shrugs",
    "sighing",
    "sighs",
    "smiles",
    "smiling",
    "smirks",
    "sniffles",
    "sniffs",
    "sobbing",
    "sobs",
    "stretches",
    "thinking",
    "tilts",
    "waves",
    "waving",
    "whispering",
    "whispers",
    "winking",
    "winks",
    "yawning",
    "yawns",
    "frowns",
];
/// Marks for synthesisers, in square brackets.
const SOUNDS: [&str; 8] =
    ["pause", "laughter", "laugh", "sigh", "chuckle", "breath", "cough", "gasp"];
/// Chinese words that identify a direction.
const ACTIONS_ZH: [&str; 56] = [
    "微笑",
    "笑着",
    "笑了",
    "大笑",
    "轻笑",
    "輕笑",
    "笑笑",
    "偷笑",
    "傻笑",
    "苦笑",
    "笑嘻嘻",
    "笑眯眯",
    "笑道",
    "叹气",
    "嘆氣",
    "叹了",
    "叹息",
    "眨眼",
    "眨了眨",
    "眨眨",
    "点头",
    "點頭",
    "点了点头",
    "点点头",
    "摇头",
    "搖頭",
    "摇了摇头",
    "摇摇头",
    "挥手",
    "揮手",
    "挥了挥手",
    "挥挥手",
    "鞠躬",
    "脸红",
    "臉紅",
    "红着脸",
    "歪头",
    "歪着头",
    "耸肩",
    "聳肩",
    "皱眉",
    "皺眉",
    "害羞地",
    "沉默",
    "停顿",
    "停頓",
    "轻声",
    "輕聲",
    "小声",
    "小聲",
    "温柔地",
    "溫柔地",
    "开心地",
    "開心地",
    "清嗓",
    "打哈欠",
];

/// Chinese characters that mark a statement about such an action, or a request for it: `（沉默是金）`.
const STATING_ZH: [char; 7] = ['是', '会', '要', '能', '请', '請', '为'];
/// Chinese words that mark bracketed text as advice or a notice.
const NOTICES_ZH: [&str; 10] =
    ["禁止", "保持", "不可", "不得", "点儿", "點兒", "秒", "分钟", "分鐘", "可以"];
/// English words that turn an action and the words after it into a statement.
const STATING: [&str; 14] = [
    "are", "can", "could", "does", "has", "have", "helps", "is", "may", "must", "should", "was",
    "were", "will",
];

/// Parses an emoticon with its arms. `rest` starts with a round bracket or an arm. Returns its
/// length in bytes.
pub(super) fn face(rest: &str, end: bool) -> Found<usize> {
    let arm = rest.chars().next().filter(|c| is_left_arm(*c)).map_or(0, char::len_utf8);
    let body = &rest[arm..];
    let Some(open) = body.chars().next() else { return Found::ran_out(end) };
    let is_close = match open {
        '(' | '（' => |c: char| matches!(c, ')' | '）'),
        'ʕ' => |c: char| c == 'ʔ',
        _ => return Found::No,
    };
    for (count, (at, c)) in body.char_indices().skip(1).enumerate() {
        if is_close(c) {
            let inner = &body[open.len_utf8()..at];
            return match open == 'ʕ' || is_face(inner) {
                true => behind_arms(rest, arm + at + c.len_utf8(), end),
                false => Found::No,
            };
        }
        if count == FACE_MAX || !fits_in_face(c) {
            return Found::No;
        }
    }
    Found::ran_out(end)
}

/// Parses an emoticon of two or three signs such as `:)` and `:-D`, which no word precedes. Returns
/// its length in bytes.
pub(super) fn smiley(rest: &str, end: bool) -> Found<usize> {
    let nose = if rest[1..].starts_with('-') { 2 } else { 1 };
    let Some(mouth) = rest[nose..].chars().next() else { return Found::ran_out(end) };
    if !")(DPp".contains(mouth) {
        return Found::No;
    }
    match rest[nose + 1..].chars().next() {
        None if !end => Found::Wait,
        Some(next) if next.is_alphanumeric() && !is_han(next) => Found::No,
        _ => Found::Yes(nose + 1),
    }
}

pub(super) fn is_left_arm(c: char) -> bool {
    LEFT_ARMS.contains(c)
}

fn behind_arms(rest: &str, face: usize, end: bool) -> Found<usize> {
    let behind = rest[face..].chars();
    let arms = behind.take_while(|c| RIGHT_ARMS.contains(*c)).take(MAX_ARMS);
    let (count, len) = arms.fold((0, face), |(count, len), c| (count + 1, len + c.len_utf8()));
    match rest[len..].chars().next() {
        // More arms may come.
        None if !end && count < MAX_ARMS => Found::Wait,
        // No arm, but the first letter of a word.
        Some(c @ ('\u{3041}'..='\u{30ff}' | '\u{600}'..='\u{6ff}'))
            if count > 0 && !RIGHT_ARMS.contains(c) =>
        {
            Found::Yes(face)
        }
        _ => Found::Yes(len),
    }
}

fn fits_in_face(c: char) -> bool {
    !(c == '\n' || c.is_ascii_digit() || is_han(c))
        && (!c.is_alphabetic() || FACE_LETTERS.contains(c))
}

fn is_face(inner: &str) -> bool {
    let strange = |c: &char| {
        !c.is_ascii()
            && !c.is_alphanumeric()
            && !c.is_whitespace()
            && !('\u{300}'..='\u{36f}').contains(c)
            && !ORDINARY_SIGNS.contains(*c)
    };
    let eyes: Vec<char> = inner.chars().collect();
    let of_ascii = match eyes[..] {
        [one, mouth, other] => {
            (one == other && "^T;@-=OoXxQ>".contains(one) || (one, other) == ('>', '<'))
                && "_.ωo".contains(mouth)
        }
        _ => false,
    };
    of_ascii || inner.chars().filter(strange).count() >= 2
}

/// Parses a stage direction at the start of a sentence: in brackets, or between asterisks. In
/// square brackets, which also mark placeholders, only an English one. Returns its length in bytes.
pub(super) fn direction(rest: &str, end: bool) -> Found<usize> {
    let Some(open) = rest.chars().next() else { return Found::ran_out(end) };
    let is_close = |c: char| match open {
        '(' | '（' => matches!(c, ')' | '）'),
        '【' => c == '】',
        '[' => c == ']',
        _ => c == open,
    };
    for (count, (at, c)) in rest.char_indices().skip(1).enumerate() {
        if is_close(c) {
            let inner = &rest[open.len_utf8()..at];
            let len = at + c.len_utf8();
            let counts = match open {
                '[' => inner.is_ascii() && (is_direction(inner) || is_sound(inner)),
                _ => is_direction(inner),
            };
            if !counts {
                return Found::No;
            }
            // `*Thinking* is hard` has an emphasised word, which starts the sentence.
            let next = rest[len..].chars().take(2).find(|c| *c != ' ');
            return match next {
                _ if !inner.starts_with(char::is_uppercase) => Found::Yes(len),
                None if !end && rest[len..].len() < 2 => Found::Wait,
                Some(next) if next.is_lowercase() => Found::No,
                _ => Found::Yes(len),
            };
        }
        if count == DIRECTION_MAX || !(c.is_alphabetic() || matches!(c, ' ' | '\'' | '，' | ',')) {
            return Found::No;
        }
    }
    Found::ran_out(end)
}

/// Reports whether this is a mark for a synthesiser, which renders the sound.
fn is_sound(inner: &str) -> bool {
    SOUNDS.contains(&inner.to_lowercase().as_str())
}

fn is_direction(inner: &str) -> bool {
    let lower = inner.trim().to_lowercase();
    if lower.chars().any(is_han) {
        let short = lower.chars().count() <= DIRECTION_HAN;
        let states =
            lower.contains(STATING_ZH) || NOTICES_ZH.iter().any(|notice| lower.contains(notice));
        return lower == "笑"
            || short && !states && ACTIONS_ZH.iter().any(|action| lower.contains(action));
    }
    let words: Vec<&str> = lower.split_whitespace().collect();
    // `softly laughs` as well as `laughs softly`.
    let acts = |word: &str| ACTIONS.contains(&word.trim_end_matches(','));
    let Some(verb) = words.iter().take(2).position(|word| acts(word)) else { return false };
    // `waves and wind` and `crying can help` are not actions.
    let states = match words[verb + 1..] {
        ["and", next, ..] => !(acts(next) || next.ends_with("ly")),
        [next, ..] => STATING.contains(&next),
        [] => false,
    };
    words.len() <= DIRECTION_WORDS && (verb == 0 || words[0].ends_with("ly")) && !states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoticons_are_distinguished_from_words_and_formulas() {
        for (text, len) in [
            ("(≧▽≦)！", "(≧▽≦)".len()),
            ("(๑•̀ㅂ•́)و✧", "(๑•̀ㅂ•́)و✧".len()),
            ("（＾▽＾）ノ好", "（＾▽＾）ノ".len()),
            ("ヽ(´▽`)ノ", "ヽ(´▽`)ノ".len()),
            ("(^_^)", 5),
            ("(>_<)", 5),
            ("(T_T)", 5),
            ("（＾▽＾）ノート", "（＾▽＾）".len()),
            ("(^_^)ノノノノ", "(^_^)ノノノ".len()),
            ("ヽ(✿ﾟ▽ﾟ)ノ", "ヽ(✿ﾟ▽ﾟ)ノ".len()),
            ("ʕ•ᴥ•ʔ", "ʕ•ᴥ•ʔ".len()),
        ] {
            assert_eq!(face(text, true), Found::Yes(len), "{text}");
        }
        for text in [
            "(中国的首都)",
            "(a+b)",
            "(α≤β)",
            "(x_y)",
            "(25°C)",
            "(…)",
            "()",
            "(℃)",
            "ヽ",
            "(привет!)",
            "(3)",
            "(→)",
            "(see)",
            "(हिन्दी)",
            "(สวัสดี)",
            "(u⋅v⋅w)",
            "(V⊗W⊗V)",
            "(«u»)",
            "(xin cha\u{300}o\u{301})",
        ] {
            assert_eq!(face(text, true), Found::No, "{text}");
        }
        assert_eq!(face("(≧▽", false), Found::Wait);
        assert_eq!(face("(≧▽≦)", false), Found::Wait, "arms may follow");
        assert_eq!(face("(the", false), Found::No, "words are not held back");
    }

    #[test]
    fn directions_are_distinguished_from_words_in_brackets() {
        for text in [
            "（微笑着）",
            "（笑）",
            "(laughs)",
            "*laughs*",
            "*softly sighs*",
            "(smiling warmly at you)",
            "(waves at you)",
            "*waves hello*",
            "*leans closer*",
            "(laughs, shaking his head)",
            "*sighs, then smiles*",
            "(smiles and nods)",
            "(clears throat)",
            "（眨了眨眼睛）",
            "*Smiles*",
            "[laughs]",
            "[pause]",
            "【微笑】",
        ] {
            assert_eq!(direction(text, true), Found::Yes(text.len()), "{text}");
        }
        for text in [
            "（注意）",
            "（中国的首都）",
            "*Note*",
            "(see page 3)",
            "（笑话）",
            "*very important*",
            "(the laughs)",
            "（保持沉默）",
            "（停顿五秒）",
            "（禁止大笑）",
            "（小声点儿）",
            "(waves and wind)",
            "(crying can help)",
            "（他说他昨天在公园里笑着看见了一只猫）",
            "（沉默是金）",
            "*Thinking* is hard.",
            "[笑]",
            "[your name]",
            "【注意】",
            "*Waves* are high.",
        ] {
            assert_eq!(direction(text, true), Found::No, "{text}");
        }
        assert_eq!(direction("*Smiles* Hello", true), Found::Yes("*Smiles*".len()));
        assert_eq!(direction("*Smiles* ", false), Found::Wait, "the next word decides");
    }
}
