//! What an interruption means: words that end a reply, words that only show that somebody listens, words that want silence
//! and no answer. Settings, lists and the decision; pure. Not for pausing and resuming: that is `actors::device`.

use std::time::Duration;

use hearken_base::language::bare;
use hearken_base::ms;
use serde::{Deserialize, Serialize};

/// Words that change nothing beside a word that ends a reply: "please stop", "可以了，别说了".
const BESIDE_STOP: [&str; 13] = [
    "please",
    "ok",
    "okay",
    "now",
    "hey",
    "thanks",
    "thank you",
    "请",
    "好",
    "好了",
    "可以了",
    "行了",
    "谢谢",
];

/// Before the end of a reply, a backchannel is an answer to it.
pub const LAST_WORDS: Duration = Duration::from_secs(1);

/// Section `[interruption]`: voice while a reply is played in realtime mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InterruptionSettings {
    /// True if voice pauses the reply until it is known what was said; false if it ends it.
    pub pause: bool,
    /// Time after the end of the voice at which the reply is resumed, though it is not known what was said. Words that
    /// are known later end it all the same.
    #[serde(rename = "resume_after_ms", with = "ms")]
    pub resume_after: Duration,
    /// Words that only show that somebody listens, in Chinese; compared without case, spaces and punctuation.
    pub backchannels_zh: Vec<String>,
    /// The same in English and all other languages.
    pub backchannels_en: Vec<String>,
    /// Words that end a reply and are not answered, in Chinese.
    pub stop_words_zh: Vec<String>,
    /// The same in English and all other languages.
    pub stop_words_en: Vec<String>,
}

impl Default for InterruptionSettings {
    fn default() -> Self {
        let list = |words: &str| words.split(',').map(|word| word.trim().to_owned()).collect();
        Self {
            pause: true,
            resume_after: Duration::from_secs(2),
            backchannels_zh: list(
                "嗯, 唔, 呃, 哦, 噢, 啊, 哈, 对, 是, 是的, 好, 好的, 行, 明白, 知道了",
            ),
            backchannels_en: list(
                "uh-huh, mm-hmm, mhm, mm, hmm, uh, um, ah, oh, yeah, yes, yep, ok, okay, right, sure, \
                 I see, got it",
            ),
            stop_words_zh: list(
                "停, 停下, 停一下, 停止, 停止播放, 别说了, 别讲了, 别播了, 别放了, 不要说了, 不要讲了, 不用说了, 不说了, 闭嘴, \
                 安静, 够了, 打住",
            ),
            stop_words_en: list(
                "stop, stop it, stop talking, stop playing, be quiet, quiet, shut up, enough, that's enough, cancel",
            ),
        }
    }
}

/// What the words of an interruption mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// They are to be answered.
    Words,
    /// They only show that somebody listens.
    Backchannel,
    /// They want silence.
    Stop,
}

impl InterruptionSettings {
    /// Returns what these words mean. If the reply `asked` something or is nearly over, a backchannel is an answer.
    pub fn meaning(&self, words: &str, asked: bool) -> Meaning {
        let stops = || self.stop_words_zh.iter().chain(&self.stop_words_en).map(String::as_str);
        let backchannels = self.backchannels_zh.iter().chain(&self.backchannels_en);
        let stops_politely = consists_of(words, stops().chain(BESIDE_STOP));
        if stops_politely && !consists_of(words, BESIDE_STOP.into_iter()) {
            Meaning::Stop
        } else if !asked && consists_of(words, backchannels.map(String::as_str)) {
            Meaning::Backchannel
        } else {
            Meaning::Words
        }
    }
}

/// Reports whether a sentence is a question.
pub fn is_question(sentence: &str) -> bool {
    let end = sentence.rsplit(char::is_alphanumeric).next();
    end.is_some_and(|end| end.contains(['?', '？']))
}

/// Reports whether a text is a row of these words, and nothing else.
fn consists_of<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> bool {
    let text = bare(text);
    let words: Vec<String> = words.map(bare).filter(|word| !word.is_empty()).collect();
    // Whether the text up to each byte is such a row.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for at in 0..text.len() {
        if !reached[at] {
            continue;
        }
        for word in words.iter().filter(|word| text[at..].starts_with(word.as_str())) {
            reached[at + word.len()] = true;
        }
    }
    !text.is_empty() && reached[text.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meaning(words: &str) -> Meaning {
        InterruptionSettings::default().meaning(words, false)
    }

    #[test]
    fn backchannels_may_be_repeated_and_joined_and_nothing_more() {
        for words in
            ["嗯。", "嗯嗯", "对对，好的！", "Uh-huh.", "uh huh, yeah", "OK, right.", "I see"]
        {
            assert_eq!(meaning(words), Meaning::Backchannel, "{words}");
        }
        for words in ["嗯，我想问", "对了", "Okay, but why?", "yeah no", "right now", "好的吧", "1"]
        {
            assert_eq!(meaning(words), Meaning::Words, "{words}");
        }
    }

    #[test]
    fn stop_words_mean_silence_unless_more_is_said() {
        for words in [
            "停！",
            "别说了。",
            "Stop.",
            "Stop, stop it!",
            "Be quiet",
            "停停停",
            "別說了",
            "别讲了",
            "停止播放",
        ]
        .into_iter()
        .chain([
            "Please stop.",
            "OK, stop.",
            "可以了，别说了",
            "好了好了，停",
            "Stop, please. Thank you.",
        ]) {
            assert_eq!(meaning(words), Meaning::Stop, "{words}");
        }
        for words in
            ["stop the timer", "停车场在哪里", "Enough for two?", "please", "OK, thanks", "请停车"]
        {
            assert_eq!(meaning(words), Meaning::Words, "{words}");
        }
    }

    #[test]
    fn after_a_question_a_backchannel_is_an_answer_and_stop_still_means_stop() {
        let asked = |words| InterruptionSettings::default().meaning(words, true);
        assert_eq!([asked("Yes."), asked("好的")], [Meaning::Words; 2]);
        assert_eq!(asked("stop"), Meaning::Stop);
    }

    #[test]
    fn questions_end_with_their_mark() {
        for text in ["Really?", "好吗？", "\"Is it?\" ", "What?!"] {
            assert!(is_question(text), "{text}");
        }
        for text in ["Really.", "Why? Because.", "", "好"] {
            assert!(!is_question(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_words_mean_something(words in any::<String>(), list in proptest::collection::vec(any::<String>(), 0..5)) {
            let settings = InterruptionSettings { backchannels_en: list, ..InterruptionSettings::default() };
            settings.meaning(&words, false);
            is_question(&words);
        }
    }
}
