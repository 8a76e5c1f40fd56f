//! The words of a recogniser's text: what nobody said is removed. Not for the script that it is written in.

use crate::language::{bare, is_han};

/// Longest tag or annotation, in characters: what is longer is speech.
const LONGEST_MARK_CHARS: usize = 60;

/// Tags in angle brackets without bars, by which recognisers mark what is no word.
const TAGS: [&str; 14] = [
    "unk",
    "s",
    "sil",
    "silence",
    "noise",
    "spoken_noise",
    "nonspeech",
    "blank",
    "blk",
    "eps",
    "pad",
    "sos",
    "eos",
    "sos/eos",
];

/// Signs that SenseVoice writes for emotions and sounds, and that subtitles have for music.
const SIGNS: [char; 16] =
    ['🎼', '👏', '😀', '😭', '🤧', '😊', '😔', '😡', '😰', '🤢', '😮', '❓', '♪', '♫', '🎵', '🎶'];

/// Words of which one stands in each annotation of a sound.
const SOUNDS: [&str; 58] = [
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
];
/// The same in Chinese, where a word is not told from its neighbours.
const CHINESE_SOUNDS: [&str; 14] = [
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
];
/// Most words, or Chinese characters, of an annotation.
const LONGEST_SOUND: usize = 8;

/// Sentences that models write over noise and music: credits of the subtitles that they were trained on. Compared as
/// [`bare`] makes them.
const CREDITS: [&str; 22] = [
    "谢谢观看",
    "感谢观看",
    "感谢收看",
    "谢谢收看",
    "谢谢大家观看",
    "感谢大家观看",
    "感谢您的观看",
    "请订阅我的频道",
    "thankyouforwatching",
    "thankyousomuchforwatching",
    "thanksforwatching",
    "pleasesubscribe",
    "pleasesubscribetomychannel",
    "dontforgettolikeandsubscribe",
    "likeandsubscribe",
    "ご視聴ありがとうございました",
    "최종자막제공",
    "시청해주셔서감사합니다",
    "graciasporverelvideo",
    "suscribetealcanal",
    "merciavoirregardécettevidéo",
    "продолжениеследует",
];
/// Beginnings of such sentences, behind which a name stands.
const CREDITS_OF: [&str; 19] = [
    "字幕by",
    "字幕志愿者",
    "中文字幕志愿者",
    "请不吝点赞",
    "明镜与点点",
    "优优独播剧场",
    "subtitlesby",
    "subtitledby",
    "subtitlescreatedby",
    "captionsby",
    "captionedby",
    "transcribedby",
    "transcriptionby",
    "untertitelderamara",
    "untertitelungdes",
    "untertitelimauftrag",
    "sottotitolicreati",
    "субтитрысделал",
    "редакторсубтитров",
];
/// What stands in credits alone.
const CREDITS_WITH: [&str; 2] = ["amaraorg", "wwwmoojiorg"];

/// Returns what a person said: without tags of the model, annotations of sounds, credits and endless repeats. Empty if
/// nobody said anything.
pub fn spoken_words(text: &str) -> String {
    let mut words = without_tags(text);
    // What stood around a tag may be another one.
    loop {
        let fewer = without_tags(&words);
        if fewer == words {
            break;
        }
        words = fewer;
    }
    words.retain(|c| !SIGNS.contains(&c));
    let said = collapse_repeats(&without_credits(&without_sounds(&words)));
    if bare(&said).is_empty() { String::new() } else { said }
}

/// Removes `<|zh|>`, `< | HAPPY | >`, `<unk>`, and what stands behind `<|nospeech|>` up to the next language.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_speech = true;
    while let Some(open) = rest.find('<') {
        if is_speech {
            out.push_str(&rest[..open]);
        }
        rest = &rest[open..];
        let Some((name, length)) = tag(rest) else {
            if is_speech {
                out.push('<');
            }
            rest = &rest[1..];
            continue;
        };
        rest = &rest[length..];
        match name.as_str() {
            "nospeech" => is_speech = false,
            name if (2..=3).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase()) =>
            {
                is_speech = true
            }
            _ => {}
        }
        let between_words = out.ends_with(|c: char| c.is_ascii_alphanumeric())
            && rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        if between_words {
            out.push(' ');
        }
    }
    if is_speech {
        out.push_str(rest);
    }
    out
}

/// Returns the name of the tag with which this begins, and the tag's length in bytes; none if it begins with no tag.
fn tag(text: &str) -> Option<(String, usize)> {
    let (end, _) = text.char_indices().take(LONGEST_MARK_CHARS).find(|(_, c)| *c == '>')?;
    let inner = text[1..end].trim();
    let length = end + 1;
    if let Some(name) = inner.strip_prefix('|').and_then(|inner| inner.strip_suffix('|')) {
        let name: String = name.chars().filter(|c| !c.is_whitespace()).collect();
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c));
        return is_name.then_some((name, length));
    }
    let name = inner.trim_start_matches('/').to_ascii_lowercase();
    TAGS.contains(&name.as_str()).then_some((name, length))
}

/// Removes annotations of sounds, `[Music]`, `(applause)`, `*sighs*`; all, where a text has nothing else. Other brackets
/// stay: `打开(客厅)的灯`.
fn without_sounds(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut outside = String::new();
    let mut rest = text;
    while let Some(open) = rest.find(['[', '(', '（', '【', '*']) {
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

/// Returns what stands in the brackets or asterisks with which this begins, and the length of both in bytes.
fn annotation(text: &str) -> Option<(&str, usize)> {
    let open = text.chars().next()?;
    let close = match open {
        '[' => ']',
        '(' => ')',
        '（' => '）',
        '【' => '】',
        other => other,
    };
    let inside = &text[open.len_utf8()..];
    let (end, _) = inside.char_indices().take(LONGEST_MARK_CHARS).find(|(_, c)| *c == close)?;
    let inner = &inside[..end];
    // `2*3*4` is a sum, `*sighs*` a sound.
    let is_word = |c: char| c.is_alphabetic() || c == ' ' || c == '-';
    if open == '*' && (inner.trim().is_empty() || !inner.chars().all(is_word)) {
        return None;
    }
    Some((inner, open.len_utf8() + end + close.len_utf8()))
}

/// Reports whether this names a sound, or is a time or a mark of a model: `_BEG_`, `00:01.000 --> 00:02.500`.
fn is_sound(inner: &str) -> bool {
    let inner = inner.trim();
    if inner.starts_with("_BEG_") || inner.starts_with("_TT_") {
        return true;
    }
    if inner.contains(':') && inner.chars().all(|c| c.is_ascii_digit() || ":.,-> s".contains(c)) {
        return true;
    }
    if inner.chars().any(is_han) {
        let short = inner.chars().count() <= LONGEST_SOUND;
        return short
            && CHINESE_SOUNDS.iter().any(|sound| inner.ends_with(sound) || inner == *sound);
    }
    let lower = inner.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.len() <= LONGEST_SOUND && words.iter().any(|word| SOUNDS.contains(word))
}

/// Removes sentences that are credits.
fn without_credits(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sentence in sentences(text) {
        if !is_credit(&bare(sentence)) {
            out.push_str(sentence);
        }
    }
    // Some are two sentences: `Don't forget to like! And subscribe!`.
    if CREDITS.contains(&bare(text).as_str()) { String::new() } else { out.trim().to_owned() }
}

fn is_credit(bare: &str) -> bool {
    CREDITS.contains(&bare)
        || CREDITS_OF.iter().any(|beginning| bare.starts_with(beginning))
        || CREDITS_WITH.iter().any(|part| bare.contains(part))
        || bare.starts_with("字幕由") && bare.ends_with("提供")
}

/// Splits a text into sentences, each with what ends it. A full stop in a word ends none.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut begin = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        let ends = matches!(c, '。' | '！' | '？' | '!' | '?' | '\n')
            || c == '.' && next.is_none_or(char::is_whitespace);
        if ends {
            let end = at + c.len_utf8();
            sentences.push(&text[begin..end]);
            begin = end;
        }
    }
    sentences.push(&text[begin..]);
    sentences
}
/// Collapses the repeats of a looping decoder to one occurrence: a phrase of two or more long words
/// (or four or more characters) said twice in a row, a shorter one said four times, a single one
/// said six times. Whole words only; short doubled words (`看看`, `谢谢谢谢`, `no no`) stay.
fn collapse_repeats(text: &str) -> String {
    let tokens = tokens(text);
    let keys: Vec<String> = tokens.iter().map(|token| bare(token)).collect();
    let mut keep = vec![true; tokens.len()];
    let mut at = 0;
    while at < tokens.len() {
        let (len, times) = longest_repeat(&keys[at..]);
        if times > 1 {
            keep[at + len..at + len * times].fill(false);
            at += len * times;
        } else {
            at += 1;
        }
    }
    let kept: String = tokens.iter().zip(keep).filter_map(|(t, k)| k.then_some(*t)).collect();
    kept.trim().to_owned()
}

/// Finds the longest repeat that begins here. Returns its length in tokens and the number of
/// occurrences; `(1, 1)` for none.
fn longest_repeat(keys: &[String]) -> (usize, usize) {
    let most = (keys.len() / 2).min(60);
    for len in 1..=most {
        let unit = &keys[..len];
        if unit.iter().all(String::is_empty) || unit[0].is_empty() {
            continue;
        }
        let times = 1 + keys[len..].chunks_exact(len).take_while(|chunk| *chunk == unit).count();
        let words = unit.iter().filter(|k| !k.is_empty()).count();
        let letters: usize = unit.iter().map(|k| k.chars().count()).sum();
        let phrase = words >= 4 || words >= 2 && letters >= 10;
        let needed = match words {
            _ if phrase => 2,
            1 => 6,
            _ => 4,
        };
        if times >= needed {
            return (len, times);
        }
    }
    (1, 1)
}

/// Splits a text into single Chinese characters and other whole words, each with what follows up to
/// the next.
fn tokens(text: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    let mut in_word = false;
    for (index, c) in text.char_indices() {
        let word = c.is_alphanumeric() || c == '\'';
        if is_han(c) || word && !in_word {
            starts.push(index);
        }
        in_word = word && !is_han(c);
    }
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(from, to)| &text[*from..to]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loops_are_collapsed_and_speech_is_not() {
        for (heard, kept) in [
            ("看看这个是什么?看看这个是什么?看看这个是什么?", "看看这个是什么?"),
            ("看看这个", "看看这个"),
            ("谢谢谢谢", "谢谢谢谢"),
            ("哈哈哈哈哈哈哈哈", "哈"),
            ("no no no", "no no no"),
            ("Try again. Fail again. Fail better.", "Try again. Fail again. Fail better."),
            ("I want to go. I want to go. I want to go.", "I want to go."),
            ("一二一二一二", "一二一二一二"),
            ("", ""),
        ] {
            assert_eq!(collapse_repeats(heard), kept, "{heard}");
        }
    }

    #[test]
    fn what_nobody_said_is_removed() {
        for (heard, said) in [
            ("<|zh|><|NEUTRAL|><|Speech|><|withitn|>今天天气怎么样？", "今天天气怎么样？"),
            ("< | zh | > < | EMO _ UNKNOWN | > < | Speech | > 开灯", "开灯"),
            (
                "<|en|><|HAPPY|><|Speech|><|woitn|>turn on<|en|><|HAPPY|>the light",
                "turn on the light",
            ),
            ("<|nospeech|><|EMO_UNKNOWN|><|Event_UNK|><|woitn|>The.", ""),
            ("<|nospeech|><|Event_UNK|>the <|zh|><|Speech|>开灯", "开灯"),
            (
                "<|startoftranscript|><|en|><|transcribe|><|0.00|> Hello.<|2.50|><|endoftext|>",
                "Hello.",
            ),
            ("<|<|zh|>zh|>开灯", "开灯"),
            ("<unk>开<UNK>灯</s>", "开灯"),
            ("🎼你好😊", "你好"),
            ("[BLANK_AUDIO]", ""),
            ("[ Silence ]", ""),
            ("(upbeat music)", ""),
            ("（音乐）", ""),
            ("【掌声】 好的", "好的"),
            ("*sighs*", ""),
            ("*sighs* turn it off", "turn it off"),
            ("[Música]", ""),
            ("[speaking in foreign language]", ""),
            ("[00:00:00.000 --> 00:00:02.000] Hello.", "Hello."),
            ("[_BEG_] Hello.[_TT_100]", "Hello."),
            ("♪ ♪", ""),
            ("(laughs) (coughs)", ""),
            ("(upbeat music) Hello.", "Hello."),
            ("Thanks for watching!", ""),
            ("Thank you for watching.", ""),
            ("字幕由 Amara.org 社区提供", ""),
            ("开灯。字幕由Amara.org社区提供", "开灯。"),
            ("Subtitles by the Amara.org community", ""),
            ("Untertitel der Amara.org-Community", ""),
            ("中文字幕志愿者 李宗盛", ""),
            ("请不吝点赞 订阅 转发 打赏支持明镜与点点栏目", ""),
            (" . ", ""),
            ("", ""),
        ] {
            assert_eq!(spoken_words(heard), said, "{heard}");
        }
    }

    #[test]
    fn what_somebody_said_stays() {
        for said in [
            "Thank you.",
            "谢谢你。",
            "打开(客厅)的灯",
            "好好好，开灯",
            "3 < 5 对吗",
            "a < b and b > c",
            "x <| y",
            "play some music",
            "播放音乐。",
            "2*3*4等于多少",
            "what is 2 * 3 * 4",
            "Subtitles, please.",
            "中文字幕怎么打开",
            "3.5 plus 2.5.",
            "It costs 5 dollars (about 4 euros).",
            "[unclosed",
        ] {
            assert_eq!(spoken_words(said), said);
        }
    }

    /// Tags, annotations, credits, brackets without their other half, and words.
    fn scraps() -> impl Strategy<Value = String> {
        let all = [
            "<|zh|>",
            "<|nospeech|>",
            "<|",
            "|>",
            "<",
            ">",
            "< | en | >",
            "<unk>",
            "[",
            "]",
            "(music)",
            "(",
            ")",
            "*",
            "*sighs*",
            "【",
            "】",
            "♪",
            "😊",
            "谢谢观看",
            "。",
            ". ",
            "开灯",
            "hello",
            " ",
            "\n",
            "字幕由",
            "提供",
        ];
        prop::collection::vec(prop::sample::select(all.to_vec()), 0..24)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn anything_is_cleaned_and_gets_no_longer(text in prop_oneof![any::<String>(), scraps()]) {
            let said = spoken_words(&text);
            prop_assert!(said.len() <= text.len(), "{said:?}");
            prop_assert!(!said.contains("<|zh|>") && !said.contains('♪'), "{said:?}");
        }

        #[test]
        fn a_tag_more_or_less_changes_no_word(words in "[a-z]{1,8}( [a-z]{1,8}){0,4}", at in 0_usize..5) {
            let mut parts: Vec<&str> = words.split(' ').collect();
            parts.insert(at.min(parts.len()), "<|NEUTRAL|>");
            prop_assert_eq!(bare(&spoken_words(&parts.join(" "))), bare(&spoken_words(&words)));
        }
    }
}
