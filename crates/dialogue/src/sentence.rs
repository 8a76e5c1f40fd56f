//! Splits streamed plain text into sentences, Chinese and English, as early as possible. The cuts
//! depend only on the characters, never on the chunks of the stream. Not for converting text to
//! plain text.

use hearken_base::language::is_han;

/// Minimum weight of a first clause that is cut at a comma (a Han character weighs 2, others 1).
const FIRST_CLAUSE_WEIGHT: usize = 10;
/// Maximum weight of a sentence. Above it the sentence is cut at the next comma, above twice the
/// weight at the next space, above three times anywhere. This bounds every sentence.
const LONG_WEIGHT: usize = 120;

/// Words of English, German, Spanish, French and Russian that end in a full stop without ending a sentence.
const ABBREVIATIONS: [&str; 47] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "e.g", "i.e", "no", "approx", "inc", "ltd",
    "co", "jr", "sr", "u.s", "sra", "srta", "dra", "ud", "uds", "bzw", "ca", "nr", "str", "hr",
    "z.b", "d.h", "u.a", "i.d.r", "mme", "mlle", "av", "avda", "blvd", "ave", "dept", "bhf", "cf",
    "vgl", "mio", "mrd", "tsd", "г", "ул",
];
/// Words whose full stop does not end a sentence if a number follows: `Jan. 5`, `Fig. 3`.
const NUMBERED: [&str; 41] = [
    "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "fig",
    "figs", "eq", "p", "pp", "vol", "ch", "sec", "art", "tel", "ext", "max", "min", "abs", "pág",
    "págs", "pag", "núm", "num", "janv", "févr", "avr", "juil", "déc", "д", "кв", "стр", "рис",
    "гл",
];
/// Titles and names of days, whose full stop does not end a sentence if a name or a number follows:
/// `Gen. Lee`, `Sat. Jan. 5`. Capitalised, as in text.
const TITLES: [&str; 35] = [
    "Mt", "Mts", "Ft", "Gen", "Capt", "Cpt", "Lt", "Col", "Maj", "Sgt", "Cpl", "Cmdr", "Adm",
    "Rev", "Hon", "Sen", "Rep", "Gov", "Pres", "Supt", "Msgr", "Sig", "Dott", "Ing", "Srs", "Dres",
    "Fa", "Frl", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Hrn",
];
/// German words before the number of a day or another ordinal: `am 3. Oktober`.
const BEFORE_ORDINALS: [&str; 54] = [
    "am",
    "vom",
    "zum",
    "bis",
    "ab",
    "seit",
    "beim",
    "der",
    "die",
    "das",
    "dem",
    "den",
    "des",
    "und",
    "im",
    "zur",
    "mein",
    "meine",
    "meinem",
    "meinen",
    "meiner",
    "dein",
    "deine",
    "deinem",
    "deinen",
    "deiner",
    "sein",
    "seine",
    "seinem",
    "seinen",
    "seiner",
    "unser",
    "unsere",
    "ihr",
    "ihre",
    "ihrem",
    "ihren",
    "ihrer",
    "jeder",
    "jede",
    "jedes",
    "jeden",
    "heute",
    "morgen",
    "gestern",
    "woche",
    "monat",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonntag",
];

/// Splitter of one reply into sentences.
#[derive(Debug, Default)]
pub struct SentenceSplitter {
    /// Text of the current, incomplete sentence.
    buffer: String,
    weight: usize,
    /// Set if the last character may end the sentence. The next character decides.
    ending: Option<Ending>,
    /// Set after the first cut.
    begun: bool,
    /// Number of the last list item.
    listed: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// End mark. Chinese ones end at once, English ones need a space after them.
    Stop { needs_space: bool },
    /// Full stop. The next letter decides: a lower-case letter continues the sentence, as does a
    /// number after some words, and a capital after an ordinal.
    FullStop { follows: Follows, spaced: bool },
    /// Comma at which the clause may be cut.
    Comma { needs_space: bool },
    /// Full stop after the number of the next list item. The item starts at byte `at`.
    Item { at: usize },
}

/// Text before a full stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    Word,
    /// A word of [`NUMBERED`].
    Numbered,
    /// A number after a word of [`BEFORE_ORDINALS`].
    Ordinal,
    /// A word of [`TITLES`].
    Title,
}

impl SentenceSplitter {
    /// Adds text and returns the sentences that are now complete, untrimmed.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        let mut done = Vec::new();
        text.chars().for_each(|c| self.add(c, &mut done));
        done
    }

    /// Adds one character. Appends the sentences that are now complete to `done`.
    pub(super) fn add(&mut self, c: char, done: &mut Vec<String>) {
        if self.cut_before(c) {
            done.extend(self.cut());
        }
        self.buffer.push(c);
        self.weight += weight(c);
        self.ending = match self.ending {
            Some(Ending::FullStop { follows, .. }) if c.is_whitespace() => {
                Some(Ending::FullStop { follows, spaced: true })
            }
            _ => self.ending_at(c),
        };
        if c == '\n' || self.weight > 3 * LONG_WEIGHT {
            done.extend(self.take());
        }
    }

    /// Handles subsequent white space or a line end. Returns the sentence that it ends.
    pub(super) fn gap(&mut self, line_ends: bool) -> Option<String> {
        if line_ends {
            return self.take();
        }
        self.cut_before(' ').then(|| self.cut()).flatten()
    }

    /// Ends the text and returns the rest as the last sentence.
    pub fn finish(&mut self) -> Option<String> {
        let last = self.take();
        *self = Self::default();
        last
    }

    /// Reports whether the current sentence ends before this character.
    fn cut_before(&self, next: char) -> bool {
        let Some(ending) = self.ending else { return false };
        if is_stop(next) || is_closer(next) {
            return false;
        }
        let parts_words = next.is_whitespace() || is_han(next);
        match ending {
            Ending::Stop { needs_space } => !needs_space || parts_words,
            Ending::FullStop { spaced: false, .. } => is_han(next),
            Ending::FullStop { spaced: true, .. }
                if next.is_whitespace() || next.is_lowercase() =>
            {
                false
            }
            Ending::FullStop { follows, .. } => match follows {
                Follows::Word => true,
                Follows::Numbered => !next.is_numeric(),
                Follows::Ordinal => !next.is_uppercase(),
                Follows::Title => !(next.is_uppercase() || next.is_numeric()),
            },
            Ending::Comma { needs_space } => {
                (!needs_space || parts_words) && !(next.is_numeric() && self.number_before_mark())
            }
            Ending::Item { .. } => parts_words,
        }
    }

    /// Reports whether a digit precedes the mark at the end, as in `10：30`.
    fn number_before_mark(&self) -> bool {
        self.buffer.chars().rev().nth(1).is_some_and(char::is_numeric)
    }

    /// Removes and returns the finished sentence. The next list item stays in the buffer.
    fn cut(&mut self) -> Option<String> {
        let Some(Ending::Item { at }) = self.ending else { return self.take() };
        let item = self.buffer.split_off(at);
        let done = self.take();
        self.weight = item.chars().map(weight).sum();
        self.buffer = item;
        self.listed += 1;
        done
    }

    fn ending_at(&mut self, c: char) -> Option<Ending> {
        match c {
            '。' | '！' | '？' | '；' | '…' | '।' | '؟' | '۔' => {
                Some(Ending::Stop { needs_space: false })
            }
            '!' | '?' => Some(Ending::Stop { needs_space: true }),
            '.' => match self.item() {
                Some(item) => item,
                None if self.is_abbreviation() => None,
                None if self.buffer.ends_with("..") => Some(Ending::Stop { needs_space: true }),
                None => Some(Ending::FullStop { follows: self.follows(), spaced: false }),
            },
            c if is_closer(c) => self.ending,
            '、' if self.number_before_mark() => None,
            '，' | '、' | '：' if self.may_cut_clause() => {
                Some(Ending::Comma { needs_space: false })
            }
            ',' | ';' | ':' if self.may_cut_clause() => Some(Ending::Comma { needs_space: true }),
            ' ' if self.weight > 2 * LONG_WEIGHT => Some(Ending::Comma { needs_space: false }),
            _ => None,
        }
    }

    fn may_cut_clause(&self) -> bool {
        let needed = if self.begun { LONG_WEIGHT } else { FIRST_CLAUSE_WEIGHT };
        self.weight >= needed
    }

    /// Handles a full stop at the end that follows a number. A number alone or after 第 does not end
    /// a sentence. The next number of a list ends the sentence before it.
    #[allow(clippy::option_option, reason = "no number of this kind, or one that ends nothing")]
    fn item(&mut self) -> Option<Option<Ending>> {
        let text = self.buffer.strip_suffix('.')?;
        let at =
            text.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| text.ceil_char_boundary(i + 1));
        let before = text[..at].trim_end();
        let number = text[at..].parse::<u32>().ok()?;
        if before.is_empty() || before.ends_with('第') {
            self.listed = number;
            return Some(None);
        }
        let parted = !text[..at].ends_with(|c: char| c.is_alphanumeric() && !is_han(c) || c == '.');
        let begins = number == 1 && before.ends_with([':', '：']);
        let listed = if self.listed > 0 { self.listed } else { first_item(text) };
        let next = listed > 0 && number == listed.saturating_add(1);
        if begins || next {
            self.listed = number - 1;
        }
        (parted && (begins || next)).then_some(Some(Ending::Item { at }))
    }

    /// Returns the kind of text before the full stop at the end.
    fn follows(&self) -> Follows {
        let text = self.buffer.trim_end_matches('.');
        let mut words = text
            .rsplit(|c: char| c.is_whitespace() || is_han(c))
            .map(|word| word.trim_start_matches(is_opener));
        let written = words.next().unwrap_or_default();
        if TITLES.contains(&written) {
            return Follows::Title;
        }
        let mut words = words.map(|word| word.trim_end_matches(',').to_lowercase());
        let last = written.to_lowercase();
        let before = words.next().unwrap_or_default();
        // `et al. 2020`, but not `Ask Al. 5 know`.
        if NUMBERED.contains(&last.as_str()) || last == "al" && before == "et" {
            return Follows::Numbered;
        }
        let is_number =
            !last.is_empty() && last.len() <= 4 && last.bytes().all(|byte| byte.is_ascii_digit());
        // `I am 5.` is no date.
        let is_english = before == "am" && words.next().is_some_and(|word| word == "i");
        match is_number && !is_english && BEFORE_ORDINALS.contains(&before.as_str()) {
            true => Follows::Ordinal,
            false => Follows::Word,
        }
    }

    /// Reports whether the full stop at the end of the buffer belongs to an abbreviation or to
    /// initials.
    fn is_abbreviation(&self) -> bool {
        let text = self.buffer.trim_end_matches('.');
        let word = text.rsplit(|c: char| c.is_whitespace() || is_han(c)).next().unwrap_or("");
        let word = word.trim_start_matches(is_opener);
        let one =
            |letter: &str| letter.len() == 1 && letter.chars().all(|c| c.is_ascii_uppercase());
        let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
        let initials = word.split('.').all(one);
        // The plural of initials, as in `EE. UU.`
        let mut letters = word.chars();
        let doubled = match (letters.next(), letters.next(), letters.next()) {
            (Some(one), Some(other), None) => one == other && one.is_uppercase(),
            _ => false,
        };
        let word = word.to_lowercase();
        // German streets are one word: `Bahnhofstr. 5`.
        initial
            || initials
            || doubled
            || word.ends_with("str")
            || ABBREVIATIONS.contains(&word.as_str())
    }

    fn take(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.buffer);
        (self.weight, self.ending) = (0, None);
        if text.trim().is_empty() {
            return None;
        }
        self.begun = true;
        Some(text)
    }
}

/// Returns the number of the list item that starts this text, in its plain form: `1、` or `1, `;
/// else 0.
fn first_item(text: &str) -> u32 {
    let text = text.trim_start();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let is_item = text[digits..].starts_with('、') || text[digits..].starts_with(", ");
    text[..digits].parse().ok().filter(|_| is_item).unwrap_or_default()
}

/// Returns the weight of a character in a sentence's length.
fn weight(c: char) -> usize {
    if is_han(c) { 2 } else { 1 }
}

fn is_stop(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '；' | '…' | '.' | '!' | '?' | '।' | '؟' | '۔')
}

fn is_closer(c: char) -> bool {
    matches!(c, '”' | '’' | '」' | '』' | '）' | '》' | '】' | '"' | '\'' | ')' | ']')
}

fn is_opener(c: char) -> bool {
    matches!(c, '“' | '‘' | '「' | '『' | '（' | '《' | '【' | '"' | '\'' | '(' | '[')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut splitter = SentenceSplitter::default();
        let mut out = splitter.push(text);
        out.extend(splitter.finish());
        out.iter().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()
    }

    #[test]
    fn chinese_and_english_text_is_split_into_sentences() {
        assert_eq!(split("你好！今天天气不错。去哪儿？"), ["你好！", "今天天气不错。", "去哪儿？"]);
        assert_eq!(
            split("It is 3.5 degrees. Really? Yes!"),
            ["It is 3.5 degrees.", "Really?", "Yes!"]
        );
        assert_eq!(split("他说：“好。”然后走了。"), ["他说：“好。”", "然后走了。"]);
        assert_eq!(split("Wait... what?! No."), ["Wait...", "what?!", "No."]);
        assert_eq!(split("好的.我来了"), ["好的.", "我来了"]);
    }

    #[test]
    fn only_the_first_clause_is_cut_at_a_comma() {
        assert_eq!(
            split("今天北京的天气很好，适合出门，记得带水，谢谢。"),
            ["今天北京的天气很好，", "适合出门，记得带水，谢谢。"]
        );
        assert_eq!(split("好，我来帮你。"), ["好，我来帮你。"]);
        assert_eq!(
            split("Once upon a time, there was a cat, a dog."),
            ["Once upon a time,", "there was a cat, a dog."]
        );
        assert_eq!(split("Exactly 1,000,000 people came."), ["Exactly 1,000,000 people came."]);
    }

    #[test]
    fn abbreviations_initials_and_addresses_do_not_end_a_sentence() {
        assert_eq!(
            split("Dr. Smith met J. Doe at 5 p.m. sharp."),
            ["Dr. Smith met J. Doe at 5 p.m. sharp."]
        );
        assert_eq!(
            split("See www.example.com/a.b for more."),
            ["See www.example.com/a.b for more."]
        );
        assert_eq!(split("1. Open it.\n2. Close it."), ["1. Open it.", "2. Close it."]);
    }

    #[test]
    fn numbers_times_versions_and_list_items_are_not_split() {
        for (text, sentences) in [
            ("今天的会议是在上午10：30开始的。", &["今天的会议是在上午10：30开始的。"][..]),
            ("明天的比赛结果是１０：３０吗？", &["明天的比赛结果是１０：３０吗？"]),
            ("请把闹钟都改到：7点。", &["请把闹钟都改到：", "7点。"]),
            ("一共有一万两千人即12，000人。", &["一共有一万两千人即12，000人。"]),
            ("他们依次住在房间1、2、3。", &["他们依次住在房间1、2、3。"]),
            ("1、打开电视机。2、按下按钮。", &["1、打开电视机。", "2、按下按钮。"]),
            ("1. open 2. press 3. wait", &["1. open", "2. press", "3. wait"]),
            ("1、打开盖子 2. 按下按钮 3. 等待", &["1、打开盖子", "2. 按下按钮", "3. 等待"]),
            ("1, open it 2. press it", &["1, open it", "2. press it"]),
            ("1. mix 2.5 cups 2. bake", &["1. mix 2.5 cups", "2. bake"]),
            ("1.打开 2.按下 3.等待", &["1.打开", "2.按下", "3.等待"]),
            ("Steps: 1. open 2. press", &["Steps:", "1. open", "2. press"]),
            ("第1. 打开它，第2. 关上它。", &["第1. 打开它，", "第2. 关上它。"]),
            ("I am 5. You are 7. So?", &["I am 5.", "You are 7.", "So?"]),
            ("It was in 1990. Then it ended.", &["It was in 1990.", "Then it ended."]),
            ("Take v1.2. It is 3.5 MB.", &["Take v1.2.", "It is 3.5 MB."]),
            ("Call me at 5 p.m. tomorrow. Bye.", &["Call me at 5 p.m. tomorrow.", "Bye."]),
            ("It ends at 5 p.m. Then we go.", &["It ends at 5 p.m.", "Then we go."]),
            (
                "It is on Jan. 5 here. In Jan. It snows.",
                &["It is on Jan. 5 here.", "In Jan.", "It snows."],
            ),
            ("See Fig. 3 there.", &["See Fig. 3 there."]),
            (
                "Am 3. Oktober ist frei. Und am 4. nicht.",
                &["Am 3. Oktober ist frei.", "Und am 4. nicht."],
            ),
            ("Nimm z.B. Milch. Gut.", &["Nimm z.B. Milch.", "Gut."]),
            ("Er wohnt Bahnhofstr. 5. Dort.", &["Er wohnt Bahnhofstr. 5.", "Dort."]),
            ("Vive en la Av. Corrientes. Sí.", &["Vive en la Av. Corrientes.", "Sí."]),
            ("La Sra. Gómez llega. Sí.", &["La Sra. Gómez llega.", "Sí."]),
            ("यह एक है। वह दो है।", &["यह एक है।", "वह दो है।"]),
            ("كيف حالك؟ أنا بخير.", &["كيف حالك؟", "أنا بخير."]),
            ("The U.S. and the U.K. agree.", &["The U.S. and the U.K. agree."]),
            ("See http://a.b:80/c?d=1;e:2 now.", &["See http://a.b:80/c?d=1;e:2 now."]),
            ("It is 10:30 now, or 22:30:15.", &["It is 10:30 now,", "or 22:30:15."]),
            (
                "Mt. Everest is high. Ft. Worth is not.",
                &["Mt. Everest is high.", "Ft. Worth is not."],
            ),
            ("Gen. Lee met Capt. Kirk and Lt. Dan.", &["Gen. Lee met Capt. Kirk and Lt. Dan."]),
            (
                "Ask Rev. King or Sen. Warren. Then go.",
                &["Ask Rev. King or Sen. Warren.", "Then go."],
            ),
            ("One more rep. Then rest.", &["One more rep.", "Then rest."]),
            ("Is it Sat. Jan. 5 today?", &["Is it Sat. Jan. 5 today?"]),
            ("Im 19. Jahrhundert. Gut.", &["Im 19. Jahrhundert.", "Gut."]),
            ("Mein 2. Auto ist rot.", &["Mein 2. Auto ist rot."]),
            ("Das sind 3 Mio. Euro. Gut.", &["Das sind 3 Mio. Euro.", "Gut."]),
            ("Die Fa. Meier. Siehe Abs. 3 dort.", &["Die Fa. Meier.", "Siehe Abs. 3 dort."]),
            ("EE. UU. es grande.", &["EE. UU. es grande."]),
            ("La pág. 5 y núm. 5. Sí.", &["La pág. 5 y núm. 5.", "Sí."]),
            ("Sig. Rossi e Dott. Bianchi.", &["Sig. Rossi e Dott. Bianchi."]),
            ("В 2024 г. Москва росла.", &["В 2024 г. Москва росла."]),
            ("Дом, д. 5 там. Да.", &["Дом, д. 5 там.", "Да."]),
            ("I want 2. They want 3. Fine.", &["I want 2.", "They want 3.", "Fine."]),
            ("It is hot at max. The end.", &["It is hot at max.", "The end."]),
        ] {
            assert_eq!(split(text), sentences, "{text}");
        }
    }

    #[test]
    fn no_sentence_is_unbounded() {
        for text in ["哈".repeat(2_000), "a ".repeat(2_000), "x".repeat(5_000)] {
            let longest = split(&text).iter().map(|s| s.chars().count()).max();
            assert!(longest <= Some(3 * LONG_WEIGHT + 1), "{longest:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_chunks_do_not_matter(
            text in "([a-zA-Z0-9.,!?: \n\"')(*]|[123]\\. |你|好|第|。|，|、|：|！|”|“|…){0,120}",
            cuts in prop::collection::vec(0usize..120, 0..8),
        ) {
            let mut whole = SentenceSplitter::default();
            let mut expected = whole.push(&text);
            expected.extend(whole.finish());
            let squeeze = |s: &str| s.split_whitespace().collect::<String>();
            prop_assert_eq!(squeeze(&expected.concat()), squeeze(&text));

            let mut chunked = SentenceSplitter::default();
            let chars: Vec<char> = text.chars().collect();
            let mut points: Vec<usize> = cuts.into_iter().map(|c| c.min(chars.len())).collect();
            points.extend([0, chars.len()]);
            points.sort_unstable();
            let mut got = Vec::new();
            for pair in points.windows(2) {
                got.extend(chunked.push(&chars[pair[0]..pair[1]].iter().collect::<String>()));
            }
            got.extend(chunked.finish());
            prop_assert_eq!(got, expected);
        }
    }
}
