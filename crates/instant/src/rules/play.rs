//! Rules that start music: with a title, a singer or a style, or any. Not for what is done with music that plays, see `devices`.

use hearken_base::language::{Language, is_han};
use serde_json::{Map, json};

use super::Setting;
use super::devices::media_one;
use crate::act::Act;
use crate::bindings::Action;
use crate::normalise::words_of;
use crate::phrases::{Sentence, Subject};
use crate::referent::{About, Call, Referent};
use crate::template::Slots;

/// Longest title, in words and in characters.
const MOST_WORDS: usize = 10;
const MOST_CHARS: usize = 18;

/// Words before and behind what is to be played.
const EN_BEFORE: [&str; 26] = [
    "me",
    "us",
    "some",
    "a",
    "an",
    "the song called",
    "the song",
    "song called",
    "a song called",
    "song by",
    "songs by",
    "song",
    "songs from",
    "music by",
    "music from",
    "music of",
    "something by",
    "something",
    "track",
    "tune by",
    "bit of",
    "little",
    "any",
    "more",
    "few",
    "tunes by",
];
const EN_BEHIND: [&str; 11] = [
    "for me",
    "for us",
    "please",
    "on repeat",
    "will you",
    "would you",
    "thanks",
    "thank you",
    "next",
    "can you",
    "could you",
];
/// Times behind a short title.
const EN_TIMES: [&str; 6] = ["right now", "now", "again", "then", "today", "tonight"];
const ZH_BEFORE: [&str; 24] = [
    "一首叫",
    "一首",
    "首",
    "一曲",
    "一支",
    "几首",
    "两首",
    "一点儿",
    "一点",
    "点儿",
    "点",
    "一些",
    "些",
    "歌曲",
    "歌手",
    "音乐",
    "个",
    "一个",
    "那首",
    "这首",
    "一下",
    "我",
    "叫",
    "歌",
];
const ZH_BEHIND: [&str; 19] = [
    "的歌曲",
    "的歌儿",
    "的歌",
    "的音乐",
    "的曲子",
    "的专辑",
    "这首歌曲",
    "这首歌",
    "这首曲子",
    "那首歌",
    "这首",
    "来听听",
    "听听",
    "听",
    "吧",
    "好吗",
    "好不好",
    "可以吗",
    "谢谢",
];

/// Words with which no title begins, or that make it something else than music.
const NO_START: [&str; 74] = [
    "with",
    "dumb",
    "dead",
    "nice",
    "fair",
    "along",
    "hide",
    "tag",
    "cards",
    "chess",
    "poker",
    "it",
    "this",
    "that",
    "them",
    "on",
    "next",
    "previous",
    "last",
    "again",
    "me a trick",
    "trick",
    "dice",
    "truth",
    "trivia",
    "simon",
    "rock paper",
    "football",
    "soccer",
    "tennis",
    "basketball",
    "hangman",
    "piano",
    "guitar",
    "drums",
    "part",
    "role",
    "louder",
    "quieter",
    "else",
    "different",
    "about",
    "you",
    "your",
    "what",
    "why",
    "how",
    "who",
    "whether",
    "from",
    "if",
    "i spy",
    "tic tac",
    "twenty questions",
    "20 questions",
    "everything",
    "anything",
    "nothing",
    "fool",
    "by ear",
    "possum",
    "off",
    "lottery",
    "violin",
    "odds",
    "flute",
    "trumpet",
    "drum",
    "cello",
    "sports",
    "a sport",
    "pretend",
    "house",
    "doctor",
];
const NO_WORDS: [&str; 60] = [
    "game",
    "games",
    "story",
    "stories",
    "joke",
    "jokes",
    "news",
    "radio",
    "podcast",
    "podcasts",
    "audiobook",
    "book",
    "video",
    "videos",
    "movie",
    "movies",
    "film",
    "films",
    "episode",
    "episodes",
    "show",
    "cartoon",
    "channel",
    "station",
    "recording",
    "message",
    "messages",
    "voicemail",
    "trick",
    "tricks",
    "riddle",
    "quiz",
    "my",
    "our",
    "same",
    "when i",
    "if it",
    "if you",
    "until",
    "every",
    "tomorrow",
    "o clock",
    "oclock",
    "minutes",
    "hours",
    "minute",
    "opinion",
    "noise",
    "sounds",
    "volume",
    "playlist",
    "weather",
    "sermon",
    "poem",
    "poems",
    "netflix",
    "youtube",
    "match",
    "lecture",
    "do i",
];
const NO_HAN: [&str; 74] = [
    "电影",
    "电视",
    "视频",
    "新闻",
    "故事",
    "笑话",
    "相声",
    "评书",
    "小说",
    "广播",
    "电台",
    "天气",
    "录音",
    "下一",
    "上一",
    "动画",
    "有声",
    "播客",
    "诗",
    "戏法",
    "游戏",
    "列表",
    "收藏",
    "关于",
    "什么",
    "怎么",
    "为什么",
    "你",
    "妈妈说",
    "爸爸说",
    "讲",
    "谜语",
    "脑筋",
    "绕口令",
    "成语",
    "英语",
    "课",
    "每天",
    "每晚",
    "的时候",
    "如果",
    "分钟后",
    "小时后",
    "之后",
    "以前那",
    "声音",
    "噪音",
    "雨声",
    "消息",
    "留言",
    "真话",
    "实话",
    "意见",
    "建议",
    "放松",
    "手机",
    "鞭炮",
    "烟花",
    "风筝",
    "烟火",
    "酱油",
    "一遍",
    "一次",
    "解释",
    "他说",
    "她说",
    "听书",
    "掌声",
    "提示音",
    "铃声",
    "我说",
    "宋词",
    "元曲",
    "放器",
];
/// What is put on and is no music.
const NO_MUSIC: [&str; 24] = [
    "water",
    "kettle",
    "coffee",
    "tea",
    "toast",
    "rice",
    "pasta",
    "potatoes",
    "dinner",
    "lunch",
    "clothes",
    "shoes",
    "socks",
    "makeup",
    "weight",
    "heat",
    "heating",
    "cream",
    "sunscreen",
    "light",
    "lights",
    "eggs",
    "washing",
    "lipstick",
];
/// Words between two commands.
const EN_LINKS: [&str; 14] = [
    "and turn",
    "and set",
    "and switch",
    "and open",
    "and close",
    "and dim",
    "and tell",
    "and then",
    "and stop",
    "and wake",
    "and remind",
    "and what",
    "and make",
    "then turn",
];
/// Ends of a title that make it music whatever stands before.
const MUSICAL: [&str; 14] = [
    "音乐", "歌曲", "乐", "曲", "歌", "爵士", "摇滚", "民谣", "古典", "钢琴", "说唱", "嘻哈",
    "京剧", "歌剧",
];
const ZH_LINKS: [&str; 13] = [
    "然后",
    "顺便",
    "接着",
    "并且",
    "同时",
    "再把",
    "再打开",
    "再关",
    "把灯",
    "并把",
    "并打开",
    "还有把",
    "打开灯",
];

fn strip(text: &mut String, before: &[&str], behind: &[&str], gap: &str) {
    for _ in 0..4 {
        let start = before.iter().find_map(|part| {
            let rest = text.strip_prefix(part)?.strip_prefix(gap)?;
            (!rest.is_empty()).then(|| rest.to_owned())
        });
        let end = behind.iter().find_map(|part| {
            let rest = text.strip_suffix(part)?.strip_suffix(gap)?;
            (!rest.is_empty()).then(|| rest.to_owned())
        });
        match (start, end) {
            (Some(rest), _) | (None, Some(rest)) => *text = rest,
            (None, None) => break,
        }
    }
}

/// Returns the contractions that people write, which normalised words do not have.
fn contracted(text: &str) -> String {
    let mut text = format!(" {text} ");
    for (long, short) in [
        (" do not ", " don't "),
        (" can not ", " can't "),
        (" will not ", " won't "),
        (" is not ", " isn't "),
        (" it is ", " it's "),
        (" that is ", " that's "),
        (" let us ", " let's "),
    ] {
        text = text.replace(long, short);
    }
    text.trim().to_owned()
}

fn english_title(said: &str) -> Option<String> {
    let mut text = said.to_owned();
    strip(&mut text, &EN_BEFORE, &EN_BEHIND, " ");
    // A longer title may end so.
    let short = EN_TIMES.iter().find_map(|time| text.strip_suffix(time)?.strip_suffix(' '));
    if let Some(rest) = short.filter(|rest| rest.split(' ').count() <= 2) {
        text = rest.to_owned();
    }
    let padded = format!(" {text} ");
    let starts = |word: &str| padded.trim_start().starts_with(&format!("{word} "));
    let has = |word: &str| padded.contains(&format!(" {word} "));
    let is_other = ["the ", ""].iter().any(|the| {
        let rest = text.strip_prefix(the).unwrap_or(&text);
        NO_START.iter().any(|word| format!("{rest} ").starts_with(&format!("{word} ")))
    });
    let said = format!(" {said} ");
    if is_other
        || NO_START.iter().any(|word| starts(word))
        || NO_WORDS.iter().any(|word| has(word) || said.contains(&format!(" {word} ")))
        || EN_LINKS.iter().any(|link| has(link))
        || text.split(' ').count() > MOST_WORDS
        || ["music", "song", "songs", "tune", "tunes", "thing", "stuff", "one", "me", "the"]
            .contains(&text.as_str())
    {
        return None;
    }
    Some(contracted(&text))
}

fn chinese_title(said: &str, is_bare: bool) -> Option<String> {
    if is_bare && !MUSICAL.iter().any(|end| said.ends_with(end))
        || said.starts_with("我的")
        || said.starts_with('器')
    {
        return None;
    }
    let mut text = said.to_owned();
    strip(&mut text, &ZH_BEFORE, &ZH_BEHIND, "");
    if NO_HAN.iter().any(|word| said.contains(word))
        || ZH_LINKS.iter().any(|link| said.contains(link))
        || text.chars().count() > MOST_CHARS
        || text.chars().count() == 1 && text.chars().all(is_han)
        || ["音乐", "歌曲", "歌", "曲子", "的", "这个", "那个", "别的", "其他"]
            .contains(&text.as_str())
    {
        return None;
    }
    Some(text)
}

fn subject(done: Sentence) -> Subject {
    Subject::fixed(done, Sentence::new("抱歉，没能播放。", "Sorry, I couldn't play that."))
}

fn music() -> Option<Referent> {
    Some(Referent::new(About::Music, Vec::new(), None))
}

pub(super) fn play(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let tool = setting.context.bindings.play()?;
    let said = slots.text("title");
    let is_latin = !said.chars().any(is_han);
    let title = if setting.language == Language::Chinese && !is_latin {
        chinese_title(said, slots.text("need") == "music")?
    } else {
        english_title(said)?
    };
    // A room is none that this tool knows.
    let words = words_of(&title).words;
    if slots.text("need") == "song" && words.iter().any(|word| NO_MUSIC.contains(&word.as_str())) {
        return None;
    }
    let is_in_room = words.iter().enumerate().any(|(at, word)| {
        matches!(word.as_str(), "in" | "on" | "at")
            && crate::names::longest(crate::names::NAMES.rooms.iter(), without_the(&words, at + 1))
                .is_some()
    });
    if is_in_room {
        return None;
    }
    let arguments = Map::from_iter([(tool.parameter.clone(), json!(title))]);
    let call = Call { tool: tool.tool.clone(), arguments };
    let done = Sentence::new(format!("好的，播放{title}。"), format!("Okay, playing {title}."));
    Some(vec![Act::Do { call, subject: subject(done), referent: music() }])
}

/// Returns the words from a place on, without an article.
fn without_the(words: &[String], at: usize) -> &[String] {
    let words = words.get(at..).unwrap_or_default();
    let the = usize::from(words.first().is_some_and(|word| word == "the"));
    words.get(the..).unwrap_or_default()
}

pub(super) fn play_any(_: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let optional = setting.context.bindings.play().filter(|tool| !tool.is_required);
    let Some(tool) = optional else { return Some(vec![media_one(Action::Resume, setting)?]) };
    let call = Call { tool: tool.tool.clone(), arguments: Map::new() };
    let subject = subject(Sentence::new("好的，播放音乐。", "Okay, playing music."));
    Some(vec![Act::Do { call, subject, referent: music() }])
}
