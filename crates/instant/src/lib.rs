//! Answers to common commands of a household without a model: normalises an utterance, compares the whole of it with templates,
//! binds it to the offered tools, and plans calls and an answer. Pure: makes no call, reads no clock and no file. What calls the
//! tools and asks the model is in `dialogue`.

mod abilities;
mod act;
mod arithmetic;
mod asked;
mod bindings;
mod calendar;
mod casual;
mod catalog;
mod day_parts;
mod entity;
mod exact;
mod facts;
mod forecast;
mod jokes;
mod length;
mod lenient;
mod mentions;
mod misheard;
mod names;
mod normalise;
mod numbers;
mod outcome;
mod phrasebook;
mod phrases;
mod plan;
mod referent;
mod retraction;
mod rules;
mod schema_calls;
mod slots;
mod state;
mod template;
mod times;
mod value;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use hearken_base::language::Language;
use jiff::Zoned;

use act::Act;
use catalog::Catalog;
use normalise::{Normaliser, Words};
use retraction::Retraction;
use rules::{Class, Setting};
use slots::Reader;

pub use bindings::{Bindings, OfferedTool};
pub use catalog::TemplateError;
pub use mentions::mentions_change;
pub use outcome::{Outcome, has_done};
pub use phrases::FIXED;
pub use plan::{Answer, Next, Plan};
pub use referent::{Call, REMEMBERED, Referent};

/// Which rules may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// None.
    Off,
    /// Time, date, arithmetic of numbers alone, stop, and commands that name all they need and have one binding.
    Commands,
    /// All.
    #[default]
    Whole,
}

/// What an utterance is understood with.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// Present time, in the zone of the person.
    pub now: Zoned,
    /// What the offered tools can do.
    pub bindings: &'a Bindings,
    /// Target of the last instant answer of the conversation.
    pub last: Option<&'a Referent>,
    /// Which rules may answer.
    pub scope: Scope,
    /// True if the last answer of the assistant was a question: then nothing is answered.
    pub after_question: bool,
    /// True if the assistant plays a role: then nothing is answered.
    pub in_character: bool,
    /// Configured name of the assistant.
    pub name: &'a str,
    /// True if commands among other words are understood, too: better than a small model does.
    pub is_lenient: bool,
    /// Last answer that was spoken.
    pub last_answer: Option<&'a str>,
    /// Language of an utterance that does not determine one; `None` if it is not known.
    pub language: Option<Language>,
}

impl<'a> Context<'a> {
    /// Creates the context of a first utterance, in which all rules may answer.
    pub fn new(now: Zoned, bindings: &'a Bindings) -> Self {
        Self {
            now,
            bindings,
            last: None,
            scope: Scope::Whole,
            after_question: false,
            in_character: false,
            is_lenient: false,
            name: "",
            last_answer: None,
            language: None,
        }
    }
}

/// Name of an assistant without a configured one.
pub const DEFAULT_NAME: &str = "Hearken";
/// Most parts of one utterance.
const MOST_PARTS: usize = 4;

/// Files of reasons that stand before or behind a command.
const REASONS: [(&str, &str, Language); 2] = [
    ("reason_zh.toml", include_str!("../templates/reason_zh.toml"), Language::Chinese),
    ("reason_en.toml", include_str!("../templates/reason_en.toml"), Language::English),
];
/// Most words of an utterance with a reason, or of commands without a link between them.
const MOST_WORDS: usize = 40;
/// Fewest characters of a command without a link, in Chinese.
const FEWEST_WORDS: usize = 3;

/// Words between two parts of an utterance, the longest first.
const ZH_LINKS: [&str; 16] = [
    "然后再",
    "然后把",
    "然后",
    "接着",
    "并且",
    "同时",
    "顺便",
    "顺手",
    "顺带",
    "还有",
    "另外",
    "之后",
    "再",
    "并",
    "也",
    "还",
];
const EN_LINKS: [&str; 8] =
    ["and then", "and also", "after that", "and now", "then", "and", "also", "plus"];

/// Path, text and language of a file of sentences.
macro_rules! sentences {
    ($($language:ident $file:literal),+ $(,)?) => {
        /// The crate's sentences: file, text, and language. A file may use the named words of those
        /// before it, and its sentences come after theirs.
        const FILES: &[(&str, &str, Language)] =
            &[$(($file, include_str!(concat!("../", $file)), Language::$language)),+];
    };
}
sentences!(
    Chinese "templates/zh.toml",
    English "templates/en.toml",
    Chinese "templates/media_zh.toml",
    English "templates/media_en.toml",
    Chinese "templates/weather_zh.toml",
    English "templates/weather_en.toml",
    Chinese "templates/language_zh.toml",
    English "templates/language_en.toml",
    Chinese "templates/talk_zh.toml",
    English "templates/talk_en.toml",
    Chinese "templates/general_zh.toml",
    English "templates/general_en.toml",
    Chinese "templates/state_zh.toml",
    English "templates/state_en.toml",
    Chinese "templates/facts_zh.toml",
    English "templates/facts_en.toml",
    Chinese "templates/medicine_zh.toml",
    English "templates/medicine_en.toml",
    Chinese "templates/decline_zh.toml",
    English "templates/decline_en.toml",
    Chinese "templates/unknown_zh.toml",
    English "templates/unknown_en.toml",
);

/// Rules and names of a part that was understood.
struct Part {
    rule: String,
    acts: Vec<Act>,
}

/// The answers that are known.
#[derive(Debug, Clone)]
pub struct Answers {
    catalog: Catalog,
    reasons: Catalog,
    normaliser: Normaliser,
    zh_links: Vec<Vec<String>>,
    en_links: Vec<Vec<String>>,
}

impl Answers {
    /// Returns the answers of this crate.
    pub fn builtin() -> Self {
        let mut catalog = Catalog::default();
        for &(file, text, language) in FILES {
            // A test compiles the crate's own files: they are right.
            let _right = catalog.add(Path::new(file), text, Some(language));
        }
        let mut reasons = Catalog::default();
        for (file, text, language) in REASONS {
            let _reasons = reasons.add(Path::new(file), text, Some(language));
        }
        let links =
            |texts: &[&str]| texts.iter().map(|text| normalise::words_of(text).words).collect();
        Self {
            catalog,
            reasons,
            normaliser: Normaliser::new(kept_words),
            zh_links: links(&ZH_LINKS),
            en_links: links(&EN_LINKS),
        }
    }

    /// Returns the answers of this crate, compiled once in a process. The first call takes
    /// milliseconds.
    pub fn shared() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Answers>> = LazyLock::new(|| Arc::new(Answers::builtin()));
        Arc::clone(&SHARED)
    }

    /// Returns the answers of this crate, and those to the sentences of a file in its format.
    ///
    /// # Errors
    /// If the file is wrong: with the line, what is wrong, and the remedy.
    pub fn with_templates(file: &Path, text: &str) -> Result<Self, TemplateError> {
        let mut answers = Self::builtin();
        answers.add(file, text)?;
        Ok(answers)
    }

    /// Adds the sentences of a file.
    ///
    /// # Errors
    /// If the file is wrong: with the line, what is wrong, and the remedy.
    pub fn add(&mut self, file: &Path, text: &str) -> Result<(), TemplateError> {
        self.catalog.add(file, text, None)
    }

    /// Returns the number of templates.
    pub fn templates(&self) -> usize {
        self.catalog.len()
    }

    /// Returns what an utterance leads to; `None` if it is for the model.
    pub fn plan(&self, text: &str, context: &Context<'_>) -> Option<Plan> {
        if context.scope == Scope::Off || context.after_question || context.in_character {
            return None;
        }
        let language = Language::of_words(text, context.language).unwrap_or_default();
        let last =
            context.last.filter(|last| last.age <= REMEMBERED && context.scope == Scope::Whole);
        let setting = Setting { language, context, last };
        let parts = self.not_taken_back(text, &setting)?;
        let rules: Vec<&str> = parts.iter().map(|part| part.rule.as_str()).collect();
        let rule = rules.join("+");
        Some(Plan::new(rule, language, parts.into_iter().flat_map(|part| part.acts).collect()))
    }

    /// Understands a text, but makes no call that its own words take back: `turn on the lamp, no wait, don't`.
    fn not_taken_back(&self, text: &str, setting: &Setting<'_>) -> Option<Vec<Part>> {
        let parts = || self.understood(text, setting);
        let said = normalise::words_of(text);
        let Some(retraction) = retraction::of(&said, setting.language) else { return parts() };
        let acts = |from: usize, to: usize| {
            let part = retraction::text_of(&said.part(from, to));
            self.understood(&part, setting).is_some_and(|parts| parts.iter().any(changes))
        };
        let all = parts();
        let is_title = |parts: &[Part]| matches!(parts, [part] if part.rule == "play");
        // 开灯，哦不，算了: what follows the command is understood as a courtesy.
        let is_left = |parts: &[Part]| {
            parts.iter().any(changes) && parts.last().is_some_and(|last| !changes(last))
        };
        match retraction {
            // A title may end with such a word.
            Retraction::AtEnd { is_weak: true, .. } if all.as_deref().is_some_and(is_title) => all,
            Retraction::AtEnd { from, .. }
                if acts(0, from) || all.as_deref().is_some_and(is_left) =>
            {
                let zh = "好的，那就不做了。".to_owned();
                let acts = Setting::answer(setting.say(zh, "Okay, I won't do that.".to_owned()));
                Some(vec![Part { rule: "stop".to_owned(), acts }])
            }
            // Without these words it is no command: they are a part of it, which no correction takes away (`kept_words`).
            Retraction::AtEnd { .. } => all,
            // 太亮了，算了，关灯: what is taken back is no command, but what follows is one.
            Retraction::Within { from, to } if !acts(0, from) && acts(to, said.words.len()) => all,
            Retraction::Within { .. } => all.filter(|parts| !parts.iter().any(changes)),
        }
    }

    /// Understands a text.
    fn understood(&self, text: &str, setting: &Setting<'_>) -> Option<Vec<Part>> {
        let context = setting.context;
        let name = if context.name.trim().is_empty() { DEFAULT_NAME } else { context.name };
        let readings = self.normaliser.readings(text, setting.language, name);
        let whole = |words: &Words| self.parts(words, setting, MOST_PARTS).map(without_courtesy);
        let parts = readings.iter().find_map(whole);
        let is_lenient = context.is_lenient
            && context.scope == Scope::Whole
            && !normalise::asks_whether_done(text);
        parts.or_else(|| {
            let is_told_of =
                |said: &Words| lenient::is_told_of(&said.words, setting, &reader(said, setting));
            let is_lenient = is_lenient && !readings.first().is_some_and(is_told_of);
            let lenient = |words: &Words| self.lenient(words, setting, MOST_PARTS);
            is_lenient.then(|| readings.iter().find_map(lenient)).flatten()
        })
    }

    /// Understands commands among other words.
    fn lenient(&self, words: &Words, setting: &Setting<'_>, most: usize) -> Option<Vec<Part>> {
        if words.words.len() > MOST_WORDS {
            return None;
        }
        let first = |words: &Words| self.lenient_part(words, setting);
        let rest = |words: &Words, next: &Setting<'_>| self.lenient(words, next, most - 1);
        if most <= 1 {
            return first(words).map(|part| vec![part]);
        }
        self.linked(words, setting, first, rest)
            .or_else(|| first(words).map(|part| vec![part]))
            .or_else(|| self.beside_reason(words, setting, rest))
    }

    /// Understands words as one command, whole or among other words.
    fn lenient_part(&self, words: &Words, setting: &Setting<'_>) -> Option<Part> {
        if let Some(part) = self.part(words, setting).filter(is_deed) {
            return Some(part);
        }
        let reader = reader(words, setting);
        let command = lenient::Command::of(&words.words, setting, &reader)?;
        let frame = command.frame().ok()?;
        let of_rule = |understood: lenient::Understood| {
            let frame = understood.frame;
            if is_of_one_lamp(frame.0, &words.words, setting) {
                return None;
            }
            let acts = with_said(rules::acts(frame.0, &frame.1, setting)?, &words.words);
            let part = Part { rule: frame.0.to_owned(), acts: with_left(acts, &understood.left)? };
            is_deed(&part).then_some(part)
        };
        let of_schema = || {
            let acts = schema_calls::call(&command)?;
            Some(Part { rule: "tool".to_owned(), acts })
        };
        let of_name = || {
            let switch = command.named_switch()?;
            let acts = rules::devices::switch_named(switch.0, setting)?;
            let acts = with_left(with_said(acts, &words.words), &switch.1)?;
            Some(Part { rule: "switch".to_owned(), acts })
        };
        frame
            .and_then(of_rule)
            .or_else(of_schema)
            .or_else(of_name)
            .or_else(|| command.reference().and_then(of_rule))
    }

    /// Understands words as one part, or as several.
    fn parts(&self, words: &Words, setting: &Setting<'_>, most: usize) -> Option<Vec<Part>> {
        if let Some(part) = self.part(words, setting) {
            return Some(vec![part]);
        }
        if most <= 1 {
            return None;
        }
        let first = |words: &Words| self.part(words, setting);
        let rest = |words: &Words, next: &Setting<'_>| self.parts(words, next, most - 1);
        if let Some(all) = self.linked(words, setting, first, rest) {
            return Some(all);
        }
        if setting.context.scope != Scope::Whole || words.words.len() > MOST_WORDS {
            return None;
        }
        self.beside_reason(words, setting, rest).or_else(|| self.unlinked(words, setting, most))
    }

    /// Understands words as a part and the rest behind a link.
    fn linked(
        &self,
        words: &Words,
        setting: &Setting<'_>,
        first: impl Fn(&Words) -> Option<Part>,
        rest: impl Fn(&Words, &Setting<'_>) -> Option<Vec<Part>>,
    ) -> Option<Vec<Part>> {
        let places = 1..words.words.len();
        places.flat_map(|at| self.links(words, at, setting.language)).find_map(|(start, end)| {
            with_rest(first(&words.part(0, start))?, words, end, setting, &rest)
        })
    }

    /// Understands a command with its reason: 要睡觉了关灯, `turn the heating up it is cold`.
    fn beside_reason(
        &self,
        words: &Words,
        setting: &Setting<'_>,
        rest: impl Fn(&Words, &Setting<'_>) -> Option<Vec<Part>>,
    ) -> Option<Vec<Part>> {
        let end = words.words.len();
        for at in (1..end).rev() {
            let splits = [
                (words.part(0, at), words.part(at, end)),
                (words.part(at, end), words.part(0, at)),
            ];
            for (why, command) in splits {
                let Some(rooms) = self.reason(&why, setting) else { continue };
                let place = Referent::new(referent::About::Number, rooms, None);
                let last = if place.rooms.is_empty() { setting.last } else { Some(&place) };
                let parts = rest(&command, &Setting { last, ..*setting });
                if let Some(parts) = parts.filter(|parts| parts.iter().all(is_deed)) {
                    return Some(parts);
                }
            }
        }
        None
    }

    /// Returns the rooms of a reason; `None` if the words are none.
    fn reason(&self, words: &Words, setting: &Setting<'_>) -> Option<Vec<value::Room>> {
        let reader = Reader::new(
            &words.words,
            setting.language,
            &names::NAMES,
            setting.context.bindings,
            None,
        );
        self.reasons
            .find(&words.words, setting.language, &reader, |_, slots| Some(Setting::rooms(slots)))
    }

    /// Understands commands that follow one another without a link, as in Chinese: 打开灯音量三十.
    fn unlinked(&self, words: &Words, setting: &Setting<'_>, most: usize) -> Option<Vec<Part>> {
        let end = words.words.len();
        // 不要播放 would leave a title behind.
        let negates = |word: &String| matches!(word.as_str(), "不" | "别" | "没" | "甭");
        if setting.language != Language::Chinese
            || end < 2 * FEWEST_WORDS
            || words.words.first().is_some_and(negates)
        {
            return None;
        }
        let is_end = |at: &usize| !numbers::is_within_zh_approximate(&words.words, *at);
        (FEWEST_WORDS..=end - FEWEST_WORDS).filter(is_end).find_map(|at| {
            let first = self.part(&words.part(0, at), setting).filter(is_deed)?;
            let rest = |words: &Words, next: &Setting<'_>| self.parts(words, next, most - 1);
            let all = with_rest(first, words, at, setting, rest)?;
            all.iter().all(is_deed).then_some(all)
        })
    }

    /// Returns the places at which a part may end at `at`, and the next one begins.
    fn links(&self, words: &Words, at: usize, language: Language) -> Vec<(usize, usize)> {
        let links = if language == Language::Chinese { &self.zh_links } else { &self.en_links };
        let is_at = |link: &&Vec<String>| {
            words.words.get(at..at + link.len()).is_some_and(|part| part == link.as_slice())
        };
        let mut found: Vec<_> = links
            .iter()
            .filter(is_at)
            .map(|link| (at, at + link.len()))
            .filter(|link| link.1 < words.words.len())
            .collect();
        if words.clauses.contains(&at) && !numbers::is_within_zh_approximate(&words.words, at) {
            found.push((at, at));
        }
        found
    }

    /// Understands words as one part.
    fn part(&self, words: &Words, setting: &Setting<'_>) -> Option<Part> {
        let reader = reader(words, setting);
        self.catalog.find(&words.words, setting.language, &reader, |rule, slots| {
            if is_of_one_lamp(rule, &words.words, setting) {
                return None;
            }
            let acts = with_said(rules::acts(rule, slots, setting)?, &words.words);
            is_allowed(rule, &acts, setting.context.scope)
                .then(|| Part { rule: rule.to_owned(), acts })
        })
    }
}

/// Returns the words of a language that no correction may take away: without them, more would be done than was asked for.
fn kept_words(language: Language) -> Vec<Vec<String>> {
    [retraction::phrases(language), mentions::against(language)].concat()
}

/// Understands the words from `from` on, after a part that was understood.
fn with_rest(
    first: Part,
    words: &Words,
    from: usize,
    setting: &Setting<'_>,
    rest: impl Fn(&Words, &Setting<'_>) -> Option<Vec<Part>>,
) -> Option<Vec<Part>> {
    let said = first.acts.iter().rev().find_map(referent_of);
    let last = said.or(setting.last).filter(|_| setting.context.scope == Scope::Whole);
    let next = Setting { last, ..*setting };
    let mut all = rest(&words.part(from, words.words.len()), &next)?;
    // 十分钟的计时器取消了 begins none.
    if first.rule == "timer" && all.first().is_some_and(|next| next.rule == "timer_cancel") {
        return None;
    }
    all.insert(0, first);
    Some(all)
}

/// Returns a reader of the slots in words.
fn reader<'a>(words: &'a Words, setting: &Setting<'a>) -> Reader<'a> {
    let number = setting.last.and_then(Referent::number);
    Reader::new(&words.words, setting.language, &names::NAMES, setting.context.bindings, number)
}

/// Reports whether the brightness of one sort of lamp is to change in a home with entities, where a rule changes all lights of a room.
fn is_of_one_lamp(rule: &str, words: &[String], setting: &Setting<'_>) -> bool {
    let is_sort = |kind: &usize| {
        let device = names::NAMES.devices.get(*kind);
        device.is_some_and(|device| device.domain == "light" && device.of.is_some())
    };
    matches!(rule, "brightness" | "brightness_change")
        && setting.context.bindings.entities().is_some()
        && names::NAMES.things_in(words).kinds.iter().any(is_sort)
}

/// Adds the words of the utterance, in which the names of entities are looked for.
fn with_said(mut acts: Vec<Act>, words: &[String]) -> Vec<Act> {
    for act in &mut acts {
        if let Act::Entity { target, .. } = act {
            target.said = words.to_vec();
        }
    }
    acts
}

/// Keeps the words that a command leaves for the name of the entity that is meant; `None` if it means no entity by its name.
fn with_left(mut acts: Vec<Act>, words: &[String]) -> Option<Vec<Act>> {
    if words.is_empty() {
        return Some(acts);
    }
    for act in &mut acts {
        let Act::Entity { left, .. } = act else { return None };
        *left = words.to_vec();
    }
    Some(acts)
}

/// Removes what is not answered beside other parts: a greeting, and the same sentence once more.
fn without_courtesy(mut parts: Vec<Part>) -> Vec<Part> {
    let is_greeting = |part: &Part| part.rule == "greeting";
    if !parts.iter().all(is_greeting) {
        parts.retain(|part| !is_greeting(part));
    }
    let is_talk =
        |part: &Part| matches!(part.rule.as_str(), "greeting" | "stop" | "thanks" | "goodbye");
    parts.dedup_by(|next, before| is_talk(next) && next.rule == before.rule);
    parts
}

/// Reports whether a part does something and says nothing else.
fn is_deed(part: &Part) -> bool {
    part.acts
        .iter()
        .all(|act| matches!(act, Act::Do { .. } | Act::Change { .. } | Act::Entity { .. }))
}

/// Reports whether a part changes something.
fn changes(part: &Part) -> bool {
    part.acts
        .iter()
        .any(|act| matches!(act, Act::Do { .. } | Act::Change { .. } | Act::Entity { .. }))
}

/// Returns what the next part of the same utterance refers to.
fn referent_of(act: &Act) -> Option<&Referent> {
    match act {
        Act::Say { referent, .. } | Act::Do { referent, .. } => referent.as_ref(),
        Act::Change { referent, .. } | Act::Entity { referent, .. } => Some(referent),
        Act::Ask { .. } | Act::Query { .. } | Act::Fail { .. } => None,
    }
}

/// Reports whether a rule may answer in a scope.
fn is_allowed(rule: &str, acts: &[Act], scope: Scope) -> bool {
    let is_call = acts.iter().all(|act| matches!(act, Act::Do { .. }));
    match (scope, rules::class(rule)) {
        (Scope::Off, _) | (_, None) => false,
        (Scope::Whole, _) => true,
        (Scope::Commands, Some(Class::Time | Class::Arithmetic | Class::Stop)) => true,
        (Scope::Commands, Some(Class::Command)) => is_call,
        (Scope::Commands, Some(Class::Other)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_templates_are_right() {
        let mut catalog = Catalog::default();
        for &(file, text, language) in FILES {
            let before = catalog.len();
            assert_eq!(catalog.add(Path::new(file), text, Some(language)), Ok(()));
            assert!(catalog.len() > before, "{file}");
        }
        for (file, text, language) in REASONS {
            assert_eq!(catalog.add(Path::new(file), text, Some(language)), Ok(()));
        }
    }

    /// Returns the texts in which a word stands before, behind and across the end and the beginning of another.
    fn beside(part: &[String], word: &[String]) -> Vec<Vec<String>> {
        let across = |one: &[String], other: &[String]| -> Vec<Vec<String>> {
            let lengths = 1..one.len().min(other.len() + 1);
            let ends = lengths.filter(|length| one.ends_with(other.get(..*length).unwrap()));
            ends.map(|length| [one, other.get(length..).unwrap()].concat()).collect()
        };
        let mut all = vec![[part, word].concat(), [word, part].concat()];
        all.extend(across(part, word));
        all.extend(across(word, part));
        all
    }

    #[test]
    fn no_correction_takes_away_a_word_of_retraction_negation_condition_or_time() {
        let normaliser = Normaliser::new(kept_words);
        let none = Normaliser::new(|_| Vec::new());
        let has = |all: &[String], part: &[String]| all.windows(part.len()).any(|one| one == part);
        let mut guarded = 0;
        for (language, errors) in [
            (Language::Chinese, &misheard::ZH_ERRORS[..]),
            (Language::English, &misheard::EN_ERRORS[..]),
        ] {
            let kept = kept_words(language);
            assert!(kept.len() > 150, "{language:?}");
            for (error, _) in errors {
                let error = normalise::words_of(error).words;
                for word in &kept {
                    // What is lit by a light is not set: 被光调 is no passive.
                    let is_backlight = *word == ["被"] && error.starts_with(&["被".to_owned()]);
                    assert!(!has(&error, word) || is_backlight, "{error:?} has {word:?}");
                    for words in beside(&error, word) {
                        let said = Words { words, clauses: Vec::new() };
                        let is_kept = |corrected: Option<Words>| {
                            is_backlight
                                || corrected.is_none_or(|corrected| has(&corrected.words, word))
                        };
                        assert!(is_kept(normaliser.corrected(&said, language)), "{said:?}");
                        guarded += usize::from(!is_kept(none.corrected(&said, language)));
                    }
                }
            }
        }
        assert!(guarded > 0);
    }

    #[test]
    fn no_filler_is_a_piece_of_a_word_of_retraction_negation_condition_or_time() {
        let normaliser = Normaliser::new(kept_words);
        for word in kept_words(Language::Chinese) {
            let text = format!("把灯{}", word.concat());
            let first = normaliser.readings(&text, Language::Chinese, "").swap_remove(0);
            assert!(first.words.ends_with(&word), "{text}: {first:?}");
        }
    }
}
