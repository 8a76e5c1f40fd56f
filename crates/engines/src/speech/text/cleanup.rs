//! Cleans up a recogniser's text: removes endless repeats and text invented for silence, converts
//! to simplified characters.

use hearken_base::language::is_han;

/// Texts that Whisper models are known to write over noise and music: credits of the subtitles they
/// were trained on. Compared without spaces and punctuation, in lower case.
const CREDITS: [&str; 12] = [
    "谢谢观看",
    "感谢观看",
    "谢谢大家观看",
    "请不吝点赞订阅转发打赏支持明镜与点点栏目",
    "明镜与点点栏目",
    "字幕由amaraorg社区提供",
    "中文字幕志愿者",
    "优优独播剧场yoyotelevisionseriesexclusive",
    "thankyouforwatching",
    "thanksforwatching",
    "subtitlesbytheamaraorgcommunity",
    "pleasesubscribetomychannel",
];

/// Cleans up a transcript: simplified characters, trimmed, repeats collapsed. Empty if it is no
/// speech at all.
pub fn tidy(text: &str) -> String {
    let simplified = usual_particle(&hanconv::tw2s(text.trim()));
    let collapsed = collapse_repeats(&strip_marks(&simplified));
    let bare: String =
        collapsed.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if bare.is_empty() || CREDITS.contains(&bare.as_str()) { String::new() } else { collapsed }
}

/// Writes 么 where a model wrote 幺 behind a word that the particle belongs to: Whisper has learnt 什幺 from old conversions.
fn usual_particle(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        let is_particle = c == '幺' && before.is_some_and(|b| "什甚怎这那多要".contains(b));
        out.push(if is_particle { '么' } else { c });
        before = Some(c);
    }
    out
}

/// Removes annotations of sounds: `[Music]`, `(applause)`, `♪`.
fn strip_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(['[', '(', '（', '【']) {
        let close = match rest[open..].chars().next() {
            Some('[') => ']',
            Some('(') => ')',
            Some('（') => '）',
            _ => '】',
        };
        let Some(end) = rest[open..].find(close) else { break };
        out.push_str(&rest[..open]);
        rest = &rest[open + end + close.len_utf8()..];
    }
    out.push_str(rest);
    out.replace(['♪', '♫'], "").trim().to_owned()
}

/// Collapses the repeats of a looping decoder to one occurrence: a phrase of two or more long words
/// (or four or more characters) said twice in a row, a shorter one said four times, a single one
/// said six times. Whole words only; short doubled words (`看看`, `谢谢谢谢`, `no no`) stay.
pub fn collapse_repeats(text: &str) -> String {
    let tokens = tokens(text);
    let keys: Vec<String> = tokens.iter().map(|t| key(t)).collect();
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

fn key(token: &str) -> String {
    token.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
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
    fn transcripts_come_out_simplified_and_without_credits() {
        for (heard, out) in [
            ("播放周杰倫的晴天", "播放周杰伦的晴天"),
            ("看看這個是什麼", "看看这个是什么"),
            ("看看这个是什幺,怎幺办", "看看这个是什么,怎么办"),
            ("他姓幺", "他姓幺"),
            ("裡面乾淨嗎?頭髮很長,隻有一點", "里面干净吗?头发很长,只有一点"),
            ("他看著我,我看着他,很著名", "他看着我,我看着他,很著名"),
            ("打開臥室的燈,關閉檯燈", "打开卧室的灯,关闭台灯"),
            ("請不吝點贊 訂閱 轉發 打賞支持明鏡與點點欄目", ""),
            ("[Music]", ""),
            ("(upbeat music) Hello.", "Hello."),
            ("Thank you.", "Thank you."),
            (" . ", ""),
        ] {
            assert_eq!(tidy(heard), out, "{heard}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_tidied(text in any::<String>()) {
            tidy(&text);
        }
    }
}
