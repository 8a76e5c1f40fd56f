//! The text of our own recogniser: its words, in simplified characters. Hallucinated text is
//! removed by `spoken_words` in base.

use hearken_base::spoken_words::spoken_words;

/// Cleans up a transcript: simplified characters, and only spoken words. Empty if it is not speech
/// at all.
pub fn tidy(text: &str) -> String {
    spoken_words(&usual_particle(&hanconv::tw2s(text.trim())))
}

/// Writes 么 for a 幺 that follows a word with that particle: Whisper has learnt 什幺 from old
/// conversions.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        ] {
            assert_eq!(tidy(heard), out, "{heard}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in any::<String>()) {
            tidy(&text);
        }
    }
}
