//! Meaning of an interruption: stop words, backchannels, or words to answer. Settings, lists and
//! the decision; pure. Not for pausing and resuming: that is `actors::device`.

use std::time::Duration;

use hearken_base::language::{DEVICE_NAMES, bare};
use hearken_base::ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Words that may accompany a stop word: "please stop", "可以了，别说了".
const BESIDE_STOP: [&str; 29] = [
    "please",
    "ok",
    "okay",
    "now",
    "hey",
    "thanks",
    "thank you",
    "all right",
    "alright",
    "请",
    "好",
    "好了",
    "好的",
    "可以了",
    "行了",
    "算了",
    "谢谢",
    "bitte",
    "jetzt",
    "danke",
    "por favor",
    "ya",
    "gracias",
    "s'il te plaît",
    "s'il vous plaît",
    "merci",
    "пожалуйста",
    "お願い",
    "좀",
];
/// Words that may precede a stop word.
const BEFORE_STOP: [&str; 27] = [
    "no",
    "oh",
    "well",
    "just",
    "right",
    "you",
    "I said",
    "can you",
    "can you just",
    "could you",
    "will you",
    "would you",
    "你",
    "您",
    "先",
    "就",
    "快",
    "快点",
    "给我",
    "那",
    "那就",
    "嗯",
    "喂",
    "麻烦你",
    "能不能",
    "可不可以",
    "我说",
];
/// Particles that may follow a stop word: "停吧", "安静一下".
const BEHIND_STOP: [&str; 15] = [
    "啊",
    "吧",
    "呀",
    "啦",
    "嘛",
    "哈",
    "一下",
    "一下吧",
    "一会儿",
    "点",
    "点儿",
    "一点",
    "好吗",
    "already",
    "for now",
];

/// Endings of stop words that can also answer a question.
const ANSWERS: [&str; 8] =
    ["enough", "pause", "够了", "暂停", "basta", "para", "chega", "ça suffit"];

/// Stop words that may also be a command to what a call has started: music, a timer or a robot.
const COMMANDS: [&str; 35] = [
    "停",
    "停下",
    "停下来",
    "停一下",
    "停一停",
    "停止",
    "停止播放",
    "暂停",
    "别播了",
    "别放了",
    "别唱了",
    "不听了",
    "不想听了",
    "我不想听了",
    "stop",
    "stop it",
    "stop that",
    "stop playing",
    "cancel",
    "pause",
    "stopp",
    "halt",
    "hör auf",
    "aufhören",
    "arrête",
    "arrêtez",
    "para",
    "detente",
    "fermati",
    "стоп",
    "остановись",
    "ストップ",
    "止めて",
    "止まって",
    "멈춰",
];

/// Remaining length of a reply at or below which a backchannel is an answer to it.
pub const LAST_WORDS: Duration = Duration::from_secs(1);

/// Section `[interruption]`: voice while a reply is played in realtime mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InterruptionSettings {
    /// Pause a reply until the words spoken over it are known. `false` ends a reply at any
    /// voice that lasts `hearing.barge_in_ms`.
    pub pause: bool,
    /// Time from the end of the voice until a paused reply resumes, even if the words are
    /// not yet known. Words that are recognised later still end the reply.
    #[serde(rename = "resume_after_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 30_000))]
    pub resume_after: Duration,
    /// Words that only signal listening (Chinese), alone or in sequence. Case, spaces and
    /// punctuation are ignored.
    pub backchannels_zh: Vec<String>,
    /// Words that only signal listening (English and all other languages), alone or in
    /// sequence. Case, spaces and punctuation are ignored.
    pub backchannels_en: Vec<String>,
    /// Words that end a reply (Chinese), also in combination with a form of address, a courtesy
    /// ("please", "OK") or a particle, in either script. They are answered only if the reply
    /// has called a tool.
    pub stop_words_zh: Vec<String>,
    /// Words that end a reply (English and all other languages), also in combination with a form
    /// of address, a courtesy ("please", "OK") or a particle. They are answered only if the
    /// reply has called a tool.
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
                "停, 停下, 停下来, 停一下, 停一停, 停止, 停止播放, 停止播报, 停止说话, 停止讲话, 暂停, 别说, 别说了, 别讲, 别讲了, \
                 别播了, 别放了, 别念了, 别唱了, 别吵, 别吵了, 别说话, 别说话了, 别讲话, 别讲话了, 不要说了, 不要讲了, 不要说话, \
                 不要说话了, 不要讲话, 不用说了, 不用讲了, 不说了, 不听了, 不想听了, 我不想听了, 闭嘴, 住口, 住嘴, 收声, \
                 安静, 够了, 打住",
            ),
            stop_words_en: list(
                "stop, stop it, stop that, stop talking, stop speaking, stop reading, stop playing, be quiet, quiet, shut up, \
                 hush, silence, enough, that's enough, that is enough, cancel, pause, stopp, halt, hör auf, aufhören, sei still, \
                 sei ruhig, ruhe, arrête, arrêtez, arrête-toi, tais-toi, taisez-vous, ça suffit, para, detente, basta, cállate, \
                 silencio, chega, fermati, smettila, zitto, стоп, хватит, замолчи, остановись, тихо, ストップ, やめて, 止めて, \
                 止まって, 静かに, 静かにして, 黙って, 멈춰, 그만, 그만해, 조용히 해",
            ),
        }
    }
}

/// Meaning of the words of an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Words to answer.
    Words,
    /// Words that only signal listening.
    Backchannel,
    /// Words that end the reply, without an answer unless they may be a command.
    Stop,
}

impl InterruptionSettings {
    /// Returns the meaning of these words. If the reply `asked` something or is nearly over, a
    /// backchannel is an answer.
    pub fn meaning(&self, words: &str, asked: bool) -> Meaning {
        let stops = self.stop_words_zh.iter().chain(&self.stop_words_en).map(String::as_str);
        let backchannels = self.backchannels_zh.iter().chain(&self.backchannels_en);
        if stops_politely(words, stops) && !(asked && answers(words)) {
            Meaning::Stop
        } else if !asked && consists_of(words, backchannels.map(String::as_str)) {
            Meaning::Backchannel
        } else {
            Meaning::Words
        }
    }
}

/// Returns true if stop words may be meant for what a call has started, not only for the reply.
pub fn may_command(words: &str) -> bool {
    stops_politely(words, COMMANDS.into_iter())
}

/// Returns true if these words can answer a question: that it is enough, or which of two actions to
/// take.
fn answers(words: &str) -> bool {
    let words = bare(words);
    ANSWERS.iter().any(|answer| words.ends_with(&bare(answer)))
}

/// Returns true if a sentence is a question.
pub fn is_question(sentence: &str) -> bool {
    let end = sentence.rsplit(char::is_alphanumeric).next();
    end.is_some_and(|end| end.contains(['?', '？']))
}

/// Position in a sequence of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the first stop word.
    Before,
    /// Directly after a stop word, or after its particle.
    Behind,
    /// After further words behind a stop word.
    After,
}

/// Returns true if a text consists only of one or more of these words, with forms of address,
/// courtesies and particles in their positions.
fn stops_politely<'a>(text: &str, stops: impl Iterator<Item = &'a str>) -> bool {
    use Stage::{After, Before, Behind};
    // Variants with `再` ("别再说了") mean the same.
    let text = bare(text).replace("别再", "别").replace("不要再", "不要").replace("不用再", "不用");
    let stops = bare_words(stops);
    let beside = bare_words(BESIDE_STOP.into_iter().chain(DEVICE_NAMES));
    let before = bare_words(BEFORE_STOP.into_iter());
    let behind = bare_words(BEHIND_STOP.into_iter());
    let ends = row_ends(&text, |stage| {
        let beside_it = if stage == Before { Before } else { After };
        let mut next = vec![(stops.as_slice(), Behind), (beside.as_slice(), beside_it)];
        match stage {
            Before => next.push((before.as_slice(), Before)),
            Behind => next.push((behind.as_slice(), Behind)),
            After => {}
        }
        next
    });
    ends.into_iter().any(|stage| stage != Before)
}

/// Returns true if a text is a sequence of these words, and nothing else.
fn consists_of<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> bool {
    let text = bare(text);
    let words = bare_words(words);
    !text.is_empty() && !row_ends(&text, |stage| vec![(words.as_slice(), stage)]).is_empty()
}

/// Returns the stages that a sequence of words may have at the end of the text; none if the text is
/// not such a sequence. `next` returns the words that may follow a stage, and the stages after
/// them.
fn row_ends<'a>(text: &str, next: impl Fn(Stage) -> Vec<(&'a [String], Stage)>) -> Vec<Stage> {
    // Possible stages of the sequence at each byte.
    let mut reached: Vec<Vec<Stage>> = vec![Vec::new(); text.len() + 1];
    reached[0].push(Stage::Before);
    for at in 0..text.len() {
        for stage in std::mem::take(&mut reached[at]) {
            for (words, to) in next(stage) {
                for word in words.iter().filter(|word| text[at..].starts_with(word.as_str())) {
                    let stages = &mut reached[at + word.len()];
                    if !stages.contains(&to) {
                        stages.push(to);
                    }
                }
            }
        }
    }
    reached.pop().unwrap_or_default()
}

/// Returns words in the form for comparison, without those that have no letter.
fn bare_words<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    words.map(bare).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meaning(words: &str) -> Meaning {
        InterruptionSettings::default().meaning(words, false)
    }

    #[test]
    fn backchannels_may_be_repeated_and_joined_but_not_extended() {
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
    fn stop_words_end_a_reply_unless_more_is_said() {
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
                .into_iter()
                .chain([
                    "停小心",
                    "停了",
                    "安静了",
                    "停电了吗",
                    "暂停音乐",
                    "Pause the music.",
                    "Para que sirve",
                    "Halt mich fest",
                    "No.",
                    "Alexa",
                    "小智",
                    "你好",
                    "算了",
                    "Stop sign",
                    "现在别说",
                    "Ruhe in Frieden",
                    "就这样",
                    "别说话的是谁",
                    "好的，吧",
                ])
        {
            assert_eq!(meaning(words), Meaning::Words, "{words}");
        }
        let silent = InterruptionSettings {
            stop_words_zh: Vec::new(),
            stop_words_en: Vec::new(),
            ..InterruptionSettings::default()
        };
        assert_eq!(silent.meaning("Please stop.", false), Meaning::Words);
    }

    #[test]
    fn a_stop_word_may_have_an_address_a_courtesy_and_a_particle() {
        for words in [
            "停吧",
            "停下来",
            "停啊",
            "别说话了",
            "不要再说了",
            "别再说了",
            "安静点",
            "安静一下",
            "停止说话",
            "暂停",
            "住口",
            "你闭嘴",
            "算了别说了",
            "小智别说了",
            "小智，停",
            "先停一下",
            "別再講了",
            "暫停一下",
            "All right, stop.",
            "No, stop.",
            "Just stop.",
            "Stop speaking.",
            "That is enough.",
            "Could you please stop?",
            "Alexa, stop.",
            "Hey Jarvis, stop now.",
            "Enough already.",
            "Stopp!",
            "Halt",
            "Arrête",
            "Arrête, s'il te plaît.",
            "Para",
            "やめて",
            "Стоп",
            "그만",
        ] {
            assert_eq!(meaning(words), Meaning::Stop, "{words}");
        }
    }

    #[test]
    fn stop_words_may_command_unless_they_are_about_speech() {
        for words in [
            "停。",
            "别放了！",
            "停止播放",
            "不听了",
            "停下来吧",
            "别再放了",
            "Stop.",
            "stop playing, please",
            "Cancel.",
        ] {
            assert!(may_command(words), "{words}");
            assert_eq!(meaning(words), Meaning::Stop, "{words}");
        }
        for words in [
            "别说了",
            "安静",
            "停止说话",
            "够了",
            "Be quiet.",
            "Stop talking.",
            "Stop, be quiet.",
            "enough",
            "",
        ] {
            assert!(!may_command(words), "{words}");
        }
    }

    #[test]
    fn after_a_question_a_backchannel_is_an_answer_and_stop_words_still_stop() {
        let asked = |words| InterruptionSettings::default().meaning(words, true);
        assert_eq!([asked("Yes."), asked("好的")], [Meaning::Words; 2]);
        assert_eq!(asked("stop"), Meaning::Stop);
        for answer in ["Just enough.", "Pause.", "暂停", "那就够了", "No basta."] {
            assert_eq!(asked(answer), Meaning::Words, "{answer}");
        }
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
        fn any_words_have_a_meaning(words in any::<String>(), list in proptest::collection::vec(any::<String>(), 0..5)) {
            let settings = InterruptionSettings { backchannels_en: list, ..InterruptionSettings::default() };
            settings.meaning(&words, false);
            is_question(&words);
        }
    }
}
