//! Makes the words that templates are compared with: one form of width, case, script and spelling, without fillers, politeness
//! and names of devices. Not for numbers, which the slots read.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::casual::{
    EN_CASUAL, EN_CASUAL_BEGINNINGS, EN_CASUAL_ENDS, ZH_CASUAL, ZH_CASUAL_BEGINNINGS,
    ZH_CASUAL_ENDS,
};
use crate::misheard::{EN_ERRORS, ZH_BEHIND_LAMP, ZH_BESIDE_LAMP, ZH_ERRORS};
use hearken_base::language::{DEVICE_NAMES, Language, bare, is_han};
use unicode_normalization::UnicodeNormalization;

/// Longest text that is read, in characters: longer ones are no commands.
const LONGEST_CHARS: usize = 240;

/// Characters that `bare` leaves in traditional script, and the simplified ones for them.
const TRADITIONAL: &str = "報报號号調调廳厅廚厨臥卧書书畫画氣气溫温濕湿風风視视簾帘燈灯歲岁週周禮礼國国慶庆誕诞節节裡里裏里邊边\
                           幾几壓压響响亮亮顏颜藍蓝綠绿紅红黃黄紫紫銀银遠远長长圓圆寬宽斤斤畝亩釐厘磅磅盎盎呎呎哩哩\
                           極极強强弱弱數数減减乘乘於于餘余萬万億亿兩两零零雙双單单區区倫伦紐纽約约羅罗莫莫華华頓顿\
                           韓韩臺台灣湾廣广慶庆蘇苏寧宁貴贵陽阳鄭郑濟济爾尔尼尼陽阳臺台階阶樓楼衛卫間间陽阳臺台車车庫库\
                           買买賣卖價价錢钱塊块剩剩還还離离從从現现將将給给換换轉转變变擴扩縮缩攝摄華华氏氏師师態态\
                           讀读寫写觀观影影劇剧會会議议靜静鎖锁掃扫機机專专業业術术語语";

/// The pairs of [`TRADITIONAL`], of which the first of a character counts.
static SIMPLIFIED: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    let mut pairs = TRADITIONAL.chars();
    while let (Some(one), Some(other)) = (pairs.next(), pairs.next()) {
        all.entry(one).or_insert(other);
    }
    all
});

/// Fillers of Chinese, removed wherever they are.
const ZH_FILLERS: [&str; 23] = [
    "麻烦你",
    "麻烦您",
    "麻烦",
    "劳驾",
    "请问",
    "请",
    "帮忙",
    "帮我",
    "给我",
    "替我",
    "一下下",
    "一下儿",
    "一下",
    "嗯",
    "呃",
    "啊",
    "呀",
    "哦",
    "喔",
    "噢",
    "嘛",
    "呗",
    "啦",
];
/// Beginnings of a request in Chinese, which a second reading leaves out, together with an end of [`ZH_ENDS`].
const ZH_BEGINNINGS: [&str; 25] = [
    "你能不能",
    "你可不可以",
    "您能不能",
    "能不能",
    "可不可以",
    "你可以",
    "您可以",
    "你能",
    "您能",
    "可以",
    "能",
    "我想要",
    "我要",
    "我想",
    "那就",
    "那",
    "好的",
    "好",
    "喂",
    "嘿",
    "嗨",
    "你好",
    "现在",
    "快点",
    "快",
];
const ZH_ENDS: [&str; 8] = ["好吗", "好不好", "可以吗", "行吗", "谢谢你", "谢谢", "吧", "哈"];
/// Ends that make a question of a statement: left out only behind a beginning of [`ZH_BEGINNINGS`].
const ZH_QUESTION_ENDS: [&str; 2] = ["吗", "呢"];

const EN_FILLERS: [&str; 16] = [
    "please",
    "uh",
    "um",
    "uhm",
    "er",
    "erm",
    "hmm",
    "hm",
    "ah",
    "just",
    "kindly",
    "ok so",
    "pls",
    "quickly",
    "if you do not mind",
    "would you mind",
];
const EN_BEGINNINGS: [&str; 35] = [
    "i would like you to",
    "i want you to",
    "i need you to",
    "could you",
    "can you",
    "would you",
    "will you",
    "can we",
    "could we",
    "go ahead and",
    "i would like to",
    "i want to",
    "i need to",
    "hey",
    "hi",
    "hello",
    "okay",
    "ok",
    "so",
    "well",
    "now",
    "then",
    "alright",
    "all right",
    "right",
    "yeah",
    "yes",
    "yo",
    "you can",
    "you could",
    "oh",
    "and",
    "but",
    "let us",
    "lets",
];
const EN_ENDS: [&str; 12] = [
    "for me",
    "will you",
    "would you",
    "could you",
    "can you",
    "thank you",
    "thanks",
    "now",
    "right now",
    "again",
    "already",
    "then",
];
/// Contractions and spellings of one word or two, without apostrophes.
const EN_SPELLINGS: [(&str, &str); 70] = [
    ("didnt", "did not"),
    ("wasnt", "was not"),
    ("arent", "are not"),
    ("hasnt", "has not"),
    ("wouldnt", "would not"),
    ("todays", "today"),
    ("tomorrows", "tomorrow"),
    ("yesterdays", "yesterday"),
    ("whats", "what is"),
    ("thats", "that is"),
    ("whos", "who is"),
    ("wheres", "where is"),
    ("hows", "how is"),
    ("its", "it is"),
    ("whens", "when is"),
    ("theres", "there is"),
    ("lets", "let us"),
    ("im", "i am"),
    ("ive", "i have"),
    ("youre", "you are"),
    ("dont", "do not"),
    ("doesnt", "does not"),
    ("isnt", "is not"),
    ("cant", "can not"),
    ("cannot", "can not"),
    ("wont", "will not"),
    ("shouldnt", "should not"),
    ("couldnt", "could not"),
    ("id", "i would"),
    ("youd", "you would"),
    ("oclock", "oclock"),
    ("kilometres", "kilometers"),
    ("kilometre", "kilometer"),
    ("metres", "meters"),
    ("metre", "meter"),
    ("centimetres", "centimeters"),
    ("centimetre", "centimeter"),
    ("millimetres", "millimeters"),
    ("millimetre", "millimeter"),
    ("litres", "liters"),
    ("litre", "liter"),
    ("millilitres", "milliliters"),
    ("millilitre", "milliliter"),
    ("grammes", "grams"),
    ("gramme", "gram"),
    ("tonnes", "tons"),
    ("tonne", "ton"),
    ("colour", "color"),
    ("colours", "colors"),
    ("centre", "center"),
    ("grey", "gray"),
    ("forty", "forty"),
    ("fourty", "forty"),
    ("per cent", "percent"),
    ("air con", "air conditioning"),
    ("aircon", "air conditioning"),
    ("tv", "tv"),
    ("telly", "tv"),
    ("television", "tv"),
    ("livingroom", "living room"),
    ("bed room", "bedroom"),
    ("bath room", "bathroom"),
    ("hall way", "hallway"),
    ("favour", "favor"),
    ("programme", "program"),
    ("theatre", "theater"),
    ("metres per second", "meters per second"),
    ("celcius", "celsius"),
    ("farenheit", "fahrenheit"),
    ("centigrade", "celsius"),
];

/// Most beginnings and ends that readings of everyday speech leave out.
const MOST_CASUAL: usize = 4;

/// Normalised words of a text: one for each Han character, Latin word, number in digits and sign.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Words {
    /// The words.
    pub(crate) words: Vec<String>,
    /// Numbers of words before which a clause begins, ascending.
    pub(crate) clauses: Vec<usize>,
}

/// Returns the simplified character of a traditional one, and any other as it is.
fn simplified(c: char) -> char {
    if !is_han(c) {
        return c;
    }
    if let Some(other) = SIMPLIFIED.get(&c) {
        return *other;
    }
    bare(c.encode_utf8(&mut [0; 4])).chars().next().unwrap_or(c)
}

/// Splits a text into words, in the form in which they are compared. Empty if the text is too long.
pub(crate) fn words_of(text: &str) -> Words {
    if text.chars().count() > LONGEST_CHARS {
        return Words::default();
    }
    let text: String = text.nfkc().flat_map(char::to_lowercase).map(simplified).collect();
    let text = text
        .replace("a.m.", "am")
        .replace("p.m.", "pm")
        .replace("a.m", "am")
        .replace("p.m", "pm")
        .replace("第", "第 ");
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or(' ');
    let is_digit = |c: char| c.is_ascii_digit();
    let mut all = Words::default();
    let mut i = 0;
    while i < chars.len() {
        let c = at(i);
        let start = i;
        i += 1;
        if is_han(c) {
            all.words.push(c.to_string());
        } else if is_digit(c) {
            while is_digit(at(i)) || (matches!(at(i), '.' | ',') && is_digit(at(i + 1))) {
                let groups = at(i) != ','
                    || (is_digit(at(i + 2)) && is_digit(at(i + 3)) && !is_digit(at(i + 4)));
                if !groups {
                    break;
                }
                i += 1;
            }
            all.words.push(
                chars.get(start..i).unwrap_or_default().iter().filter(|c| **c != ',').collect(),
            );
        } else if c.is_alphabetic() {
            while at(i).is_alphabetic() && !is_han(at(i))
                || (matches!(at(i), '\'' | '’' | '`') && at(i + 1).is_alphabetic())
            {
                i += 1;
            }
            all.words.push(
                chars
                    .get(start..i)
                    .unwrap_or_default()
                    .iter()
                    .filter(|c| c.is_alphabetic())
                    .collect(),
            );
        } else if matches!(
            c,
            '%' | '+' | '*' | '×' | '÷' | '/' | '=' | '^' | '°' | ':' | '$' | '¥' | '€' | '£' | '−'
        ) || (c == '-'
            && !(at(i.wrapping_sub(2)).is_alphabetic() && at(i).is_alphabetic()))
        {
            all.words.push(if c == '−' { '-' } else { c }.to_string());
        } else if matches!(c, ',' | '.' | '!' | '?' | ';' | '。' | '、' | '…')
            && !all.words.is_empty()
            && all.clauses.last() != Some(&all.words.len())
        {
            all.clauses.push(all.words.len());
        }
    }
    all.clauses.retain(|at| *at < all.words.len());
    all
}

/// Particles that tell that something is done, or ask for agreement.
const ZH_DONE: [char; 5] = ['了', '吧', '喽', '咯', '啰'];

/// Reports whether Chinese words ask whether something is done, by the mark that a recogniser writes: 灯关了吧？
pub(crate) fn asks_whether_done(text: &str) -> bool {
    text.split_inclusive(['?', '？'])
        .filter_map(|part| part.strip_suffix(['?', '？']))
        .any(|asked| asked.trim_end().ends_with(ZH_DONE))
}

/// Reports whether everyday words that may tell of what is done are read as a command: 关了吧 as 关掉.
fn makes_command(part: &[String], with: &[String]) -> bool {
    let is_done = |word: &String| word.chars().next().is_some_and(|first| ZH_DONE.contains(&first));
    part.last().is_some_and(is_done) && with.last().is_some_and(|last| !is_done(last))
}

impl Words {
    fn of(text: &str) -> Vec<String> {
        words_of(text).words
    }

    /// Reports whether the words from `at` on begin with `part`.
    fn has_at(&self, at: usize, part: &[String]) -> bool {
        !part.is_empty() && self.words.get(at..at + part.len()).is_some_and(|words| words == part)
    }

    /// Puts `with` in the place of `length` words.
    fn replace(&mut self, at: usize, length: usize, with: &[String]) {
        self.words.splice(at..at + length, with.iter().cloned());
        for clause in &mut self.clauses {
            if *clause >= at + length {
                *clause = *clause + with.len() - length;
            } else if *clause > at {
                *clause = at;
            }
        }
        let end = self.words.len();
        self.clauses.retain(|at| *at > 0 && *at < end);
        self.clauses.dedup();
    }

    fn replace_all(&mut self, part: &[String], with: &[String]) {
        let mut at = 0;
        while at < self.words.len() {
            if self.has_at(at, part) {
                self.replace(at, part.len(), with);
                at += with.len();
            } else {
                at += 1;
            }
        }
    }

    /// Reports whether putting `with` in the place of `length` words takes away words of `kept` that reach beyond these.
    fn would_lose(&self, at: usize, length: usize, with: &[String], kept: &[Vec<String>]) -> bool {
        let end = at + length;
        let mut after = self.clone();
        after.replace(at, length, with);
        let is_lost = |kept: &Vec<String>, from: usize| {
            let reaches_beyond = from < at || from + kept.len() > end;
            let moved =
                if from < at { Some(from) } else { (from + with.len()).checked_sub(length) };
            reaches_beyond
                && self.has_at(from, kept)
                && !moved.is_some_and(|moved| after.has_at(moved, kept))
        };
        kept.iter()
            .any(|kept| (at.saturating_sub(kept.len() - 1)..end).any(|from| is_lost(kept, from)))
    }

    /// Reports whether 等 at this place may be 灯 misheard.
    fn may_be_lamp(&self, at: usize) -> bool {
        let ends = |at: usize| at >= self.words.len() || self.clauses.contains(&at);
        let begins_with = |at: usize, texts: &[&str]| {
            let parts = texts.iter().map(|text| Self::of(text));
            parts.filter(|part| self.has_at(at, part)).map(|part| part.len()).max().unwrap_or(0)
        };
        let behind = at + 1;
        let verb = behind + begins_with(behind, &ZH_BESIDE_LAMP);
        ends(behind) || begins_with(verb, &ZH_BEHIND_LAMP) > 0
    }

    fn without_beginning(&mut self, parts: &[Vec<String>]) -> bool {
        let Some(part) =
            parts.iter().find(|part| self.words.len() > part.len() && self.has_at(0, part))
        else {
            return false;
        };
        self.replace(0, part.len(), &[]);
        true
    }

    fn without_end(&mut self, parts: &[Vec<String>]) -> bool {
        let length = self.words.len();
        let Some(part) =
            parts.iter().find(|part| length > part.len() && self.has_at(length - part.len(), part))
        else {
            return false;
        };
        self.replace(length - part.len(), part.len(), &[]);
        true
    }

    /// Returns the words from `from` up to `to`.
    pub(crate) fn part(&self, from: usize, to: usize) -> Self {
        let words = self.words.get(from..to).unwrap_or_default().to_vec();
        let clauses =
            self.clauses.iter().filter(|at| **at > from && **at < to).map(|at| at - from).collect();
        Self { words, clauses }
    }
}

/// Tables of [`Normaliser`], as words.
#[derive(Debug, Clone)]
struct Tables {
    fillers: Vec<Vec<String>>,
    beginnings: Vec<Vec<String>>,
    ends: Vec<Vec<String>>,
    question_ends: Vec<Vec<String>>,
    spellings: Vec<(Vec<String>, Vec<String>)>,
    errors: Vec<(Vec<String>, Vec<String>)>,
    casual: Vec<(Vec<String>, Vec<String>)>,
    casual_beginnings: Vec<Vec<String>>,
    casual_ends: Vec<Vec<String>>,
    /// Words that take back, negate, or name a condition or a time: no piece of them is a filler or an error.
    kept: Vec<Vec<String>>,
}

/// What is said in everyday speech, beside requests.
struct Casual<'a> {
    words: &'a [(&'a str, &'a str)],
    beginnings: &'a [&'a str],
    ends: &'a [&'a str],
}

impl Tables {
    fn new(
        fillers: &[&str],
        beginnings: &[&str],
        ends: &[&str],
        spellings: &[(&str, &str)],
        errors: &[(&str, &str)],
        casual: &Casual<'_>,
        kept: Vec<Vec<String>>,
    ) -> Self {
        let list = |texts: &[&str]| texts.iter().map(|text| Words::of(text)).collect();
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|pair| (Words::of(pair.0), Words::of(pair.1))).collect()
        };
        let both = |some: &[&str], more: &[&str]| -> Vec<Vec<String>> {
            let mut all: Vec<Vec<String>> = list(some);
            all.extend(more.iter().map(|text| Words::of(text)));
            all.sort_by_key(|part| std::cmp::Reverse(part.len()));
            all
        };
        Self {
            fillers: list(fillers),
            beginnings: list(beginnings),
            ends: list(ends),
            question_ends: list(&ZH_QUESTION_ENDS),
            spellings: pairs(spellings),
            errors: pairs(errors),
            casual: pairs(casual.words),
            casual_beginnings: both(casual.beginnings, beginnings),
            casual_ends: both(casual.ends, ends),
            kept,
        }
    }

    /// Puts `with` in the place of each `part` that is no piece of kept words. Reports whether there was one.
    fn replace_all(&self, words: &mut Words, part: &[String], with: &[String]) -> bool {
        let is_lamp = part.last().is_some_and(|word| word == "等");
        let mut at = 0;
        let mut is_changed = false;
        while at < words.words.len() {
            let is_meant = words.has_at(at, part)
                && (!is_lamp || words.may_be_lamp(at + part.len() - 1))
                && !words.would_lose(at, part.len(), with, &self.kept);
            if is_meant {
                words.replace(at, part.len(), with);
                at += with.len();
                is_changed = true;
            } else {
                at += 1;
            }
        }
        is_changed
    }

    /// Returns the words with the errors of a recogniser corrected; `None` if there are none.
    fn corrected(&self, words: &Words) -> Option<Words> {
        let mut corrected = words.clone();
        let mut is_changed = false;
        for (part, with) in &self.errors {
            is_changed |= self.replace_all(&mut corrected, part, with);
        }
        is_changed.then_some(corrected)
    }
}

/// Makes readings of a text.
#[derive(Debug, Clone)]
pub(crate) struct Normaliser {
    zh: Tables,
    en: Tables,
    names: Vec<Vec<String>>,
}

impl Normaliser {
    /// Creates a normaliser; no piece of the words of `kept` is taken for a filler or an error.
    pub(crate) fn new(kept: fn(Language) -> Vec<Vec<String>>) -> Self {
        let mut names: Vec<_> = DEVICE_NAMES.iter().map(|name| Words::of(name)).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self {
            zh: Tables::new(
                &ZH_FILLERS,
                &ZH_BEGINNINGS,
                &ZH_ENDS,
                &[],
                &ZH_ERRORS,
                &Casual {
                    words: &ZH_CASUAL,
                    beginnings: &ZH_CASUAL_BEGINNINGS,
                    ends: &ZH_CASUAL_ENDS,
                },
                kept(Language::Chinese),
            ),
            en: Tables::new(
                &EN_FILLERS,
                &EN_BEGINNINGS,
                &EN_ENDS,
                &EN_SPELLINGS,
                &EN_ERRORS,
                &Casual {
                    words: &EN_CASUAL,
                    beginnings: &EN_CASUAL_BEGINNINGS,
                    ends: &EN_CASUAL_ENDS,
                },
                kept(Language::English),
            ),
            names,
        }
    }

    fn tables(&self, language: Language) -> &Tables {
        if language == Language::Chinese { &self.zh } else { &self.en }
    }

    /// Returns the words with the errors of a recogniser corrected; `None` if there are none.
    #[cfg(test)]
    pub(crate) fn corrected(&self, words: &Words, language: Language) -> Option<Words> {
        self.tables(language).corrected(words)
    }

    /// Returns the readings of a text, the likeliest first: as it was said, without politeness, then with the errors of a
    /// recogniser corrected.
    pub(crate) fn readings(&self, text: &str, language: Language, name: &str) -> Vec<Words> {
        let tables = self.tables(language);
        let mut plain = words_of(text);
        for (part, with) in &tables.spellings {
            plain.replace_all(part, with);
        }
        let spelled = plain.clone();
        for filler in &tables.fillers {
            if plain.words != *filler {
                tables.replace_all(&mut plain, filler, &[]);
            }
        }
        // An utterance of fillers alone is read as it is.
        if plain.words.is_empty() {
            plain = spelled;
        }
        let mut names = vec![Words::of(name)];
        names.extend(self.names.iter().cloned());
        let called = |words: &mut Words| {
            while words.without_beginning(&names) {}
            while words.without_end(&names) {}
        };
        // 你是小爱同学吗 asks for the name.
        let mut readings = vec![plain.clone()];
        called(&mut plain);
        readings.push(plain.clone());
        self.add_shorter(&mut readings, tables, &called);
        let casual = self.casual(&plain, tables, asks_whether_done(text));
        let more: Vec<Words> =
            readings.iter().filter_map(|words| tables.corrected(words)).collect();
        readings.extend(more);
        for words in casual {
            if !readings.contains(&words) {
                readings.push(words);
            }
        }
        let mut different: Vec<Words> = Vec::new();
        for words in readings {
            if !words.words.is_empty() && !different.contains(&words) {
                different.push(words);
            }
        }
        different
    }

    /// Returns the readings of everyday speech: standard words in the place of dialect, then without beginnings and ends, one
    /// less at a time. What asks whether something is done stays as it is.
    #[expect(clippy::unused_self, reason = "a part of `readings`")]
    fn casual(&self, plain: &Words, tables: &Tables, asks: bool) -> Vec<Words> {
        let mut words = tables.corrected(plain).unwrap_or_else(|| plain.clone());
        for (part, with) in &tables.casual {
            if words.words != *part && !(asks && makes_command(part, with)) {
                tables.replace_all(&mut words, part, with);
            }
        }
        let mut readings = vec![words.clone()];
        for _ in 0..MOST_CASUAL {
            let mut ended = words.clone();
            let has_end = ended.without_end(&tables.casual_ends);
            if has_end {
                readings.push(ended.clone());
            }
            let has_beginning = words.without_beginning(&tables.casual_beginnings);
            if has_beginning {
                readings.push(words.clone());
            }
            if has_end {
                words.without_end(&tables.casual_ends);
                readings.push(words.clone());
            }
            if !has_beginning && !has_end {
                break;
            }
        }
        // What is left of 然后呢 says nothing.
        readings.retain(|words| !matches!(words.words.as_slice(), [one] if !one.is_ascii()));
        readings
    }

    /// Adds the readings without beginnings and ends of requests, one less at a time.
    #[expect(clippy::unused_self, reason = "a part of `readings`")]
    fn add_shorter(&self, readings: &mut Vec<Words>, tables: &Tables, called: &dyn Fn(&mut Words)) {
        let Some(mut words) = readings.last().cloned() else { return };
        for _ in 0..4 {
            let mut begun = words.clone();
            let mut is_changed = begun.without_beginning(&tables.beginnings);
            called(&mut begun);
            if is_changed {
                readings.push(begun.clone());
            }
            let mut ended = words.clone();
            if ended.without_end(&tables.ends) {
                called(&mut ended);
                readings.push(ended);
                is_changed = true;
                begun.without_end(&tables.ends);
                readings.push(begun.clone());
            }
            // 能开灯吗 asks for it, 灯开了吗 does not.
            let mut asked = begun.clone();
            if begun != words && asked.without_end(&tables.question_ends) {
                readings.push(asked);
            }
            if !is_changed {
                break;
            }
            words = begun;
        }
    }
}
