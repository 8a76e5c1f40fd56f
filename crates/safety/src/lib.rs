//! Recognises people in danger, and requests for what must not be explained, from their words; gives a fixed
//! reply in their language at once. Without a model, without waiting, without input or output. Not for diagnoses, and not for
//! questions about prevention or general knowledge: those are for the model.

mod pattern;
mod region;
mod replies;
mod rules;
mod victim;
mod words;

use std::sync::LazyLock;

use hearken_base::language::{Language, has_chinese, is_han};
use serde::Deserialize;

pub use region::Region;

use replies::Replies;
use rules::{Finding, Rules};
use victim::Victim;
use words::{Splitter, ends};

/// What a text is about. If it is about several, the first one in this order counts: the one whose first act must not be missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// The speaker wants to die, or hurts themselves.
    SelfHarm,
    /// The speaker fears that about another person.
    SelfHarmOther,
    /// Somebody touches, or has touched, something with electricity.
    ElectricShock,
    /// Something burns, or there is smoke.
    Fire,
    /// Carbon monoxide: an alarm, or people who feel ill beside a fire or an engine.
    CarbonMonoxide,
    /// A smell of gas, or a leak.
    GasSmell,
    /// Somebody is under water, or was.
    Drowning,
    /// Something blocks an airway.
    Choking,
    /// A severe allergic reaction.
    Anaphylaxis,
    /// Somebody does not breathe, hardly breathes, or is unconscious.
    NotBreathing,
    /// Signs of a stroke.
    Stroke,
    /// Pain in the chest, or a heart attack.
    HeartAttack,
    /// Heavy bleeding.
    Bleeding,
    /// An object was swallowed: a button battery, a magnet, something sharp.
    Swallowed,
    /// Somebody took medicine, a cleaning agent, a mushroom or another poison, or breathes its fumes.
    Poisoning,
    /// A burn or a scald.
    Burn,
    /// A baby is ill: limp, blue, in a fit, or with fever in its first months; or a person is about to shake it.
    Infant,
    /// A seizure of a child or an adult.
    Seizure,
    /// Somebody has fallen and cannot get up, or is badly hurt.
    Injury,
    /// A child or an animal is locked in a car.
    HotCar,
    /// A child is beaten, touched or neglected.
    ChildAbuse,
    /// Somebody is threatened, beaten, followed, or a stranger breaks in.
    Violence,
    /// Declined: sexual content about minors.
    SexualMinors,
    /// Declined: how to hurt or kill a person.
    HurtingSomebody,
    /// Declined: how to make explosives or weapons.
    Weapons,
    /// Declined: how to make poisons.
    Poisons,
    /// Declined: how to make or get drugs.
    Drugs,
    /// Declined: how to get into another person's house, car or account.
    BreakingIn,
}

impl Topic {
    /// All topics, in their order.
    pub const ALL: [Self; 28] = [
        Self::SelfHarm,
        Self::SelfHarmOther,
        Self::ElectricShock,
        Self::Fire,
        Self::CarbonMonoxide,
        Self::GasSmell,
        Self::Drowning,
        Self::Choking,
        Self::Anaphylaxis,
        Self::NotBreathing,
        Self::Stroke,
        Self::HeartAttack,
        Self::Bleeding,
        Self::Swallowed,
        Self::Poisoning,
        Self::Burn,
        Self::Infant,
        Self::Seizure,
        Self::Injury,
        Self::HotCar,
        Self::ChildAbuse,
        Self::Violence,
        Self::SexualMinors,
        Self::HurtingSomebody,
        Self::Weapons,
        Self::Poisons,
        Self::Drugs,
        Self::BreakingIn,
    ];

    /// Reports whether the text asks for what must not be explained; else a person is in danger.
    pub fn is_declined(self) -> bool {
        self >= Self::SexualMinors
    }
}

/// A topic and the reply to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Safe {
    /// What the text is about.
    pub topic: Topic,
    /// What to say: plain text for a voice, at most 320 characters, with numbers whose digits are said one by one.
    pub reply: String,
}

/// Everything that is read from the files of this crate.
#[derive(Debug)]
struct Data {
    splitter: Splitter,
    zh: Rules,
    en: Rules,
    zh_replies: Replies,
    en_replies: Replies,
}

impl Data {
    fn read() -> Result<Self, String> {
        let splitter = Splitter::read(include_str!("../data/script.toml"))?;
        let rules = |toml: &str, name: &str| {
            Rules::read(toml, &splitter).map_err(|why| format!("{name}: {why}"))
        };
        let zh = rules(include_str!("../data/zh.toml"), "zh.toml")?;
        let en = rules(include_str!("../data/en.toml"), "en.toml")?;
        let zh_replies = Replies::read(include_str!("../data/replies_zh.toml"), Language::Chinese)?;
        let en_replies = Replies::read(include_str!("../data/replies_en.toml"), Language::English)?;
        for (topic, name) in zh.named().chain(en.named()) {
            if !zh_replies.has(topic, name) || !en_replies.has(topic, name) {
                return Err(format!("{topic:?} has no reply `{name}` in both languages"));
            }
        }
        Ok(Self { splitter, zh, en, zh_replies, en_replies })
    }

    fn replies(&self, language: Language) -> &Replies {
        match language {
            Language::Chinese => &self.zh_replies,
            Language::English => &self.en_replies,
        }
    }
}

/// Panics if a file of this crate cannot be read; the tests read all.
static DATA: LazyLock<Data> = LazyLock::new(|| {
    Data::read().unwrap_or_else(|fault| panic!("correct the files of crates/safety/data: {fault}"))
});

/// Reports whether a text goes on with a talk about a danger, and brings up nothing else.
fn goes_on(text: &str) -> bool {
    let text = ends(text);
    let Some(language) = Language::of_words(&text, None) else { return false };
    let words = DATA.splitter.words(&text);
    match language {
        Language::Chinese => DATA.zh.goes_on(&words),
        Language::English => DATA.en.goes_on(&words),
    }
}

/// What a text is about, and the language of the reply to it.
#[derive(Debug, Clone, Copy)]
struct Found {
    finding: Finding<'static>,
    language: Language,
}

/// Returns what a text is about.
fn find(text: &str) -> Option<Found> {
    let text = ends(text);
    let words = DATA.splitter.words(&text);
    let chinese = has_chinese(&text).then(|| DATA.zh.judge(&words)).flatten();
    let language = if chinese.is_some() { Language::Chinese } else { Language::English };
    let has_letters =
        || words.iter().any(|word| word.chars().any(|c| c.is_alphabetic() && !is_han(c)));
    let english = || has_letters().then(|| DATA.en.judge(&words)).flatten();
    Some(Found { finding: chinese.or_else(english)?, language })
}

/// Judge of texts, for the people of one region.
#[derive(Debug, Clone)]
pub struct Safety {
    region: Region,
}

impl Safety {
    /// Makes a judge whose replies name the numbers of this region. The first judgement of a
    /// process compiles the rules, which takes milliseconds.
    pub fn new(region: Region) -> Self {
        Self { region }
    }

    /// Compiles the rules, so that the first judgement is as quick as the next ones.
    pub fn prepare() {
        LazyLock::force(&DATA);
    }

    /// Returns the topic of a text and the reply to it, in the language of the words that tell of it; nothing if no one is in
    /// danger and the text asks for nothing that must not be explained. Of a text of thousands of characters, the begin and the
    /// end are judged.
    pub fn judge(&self, text: &str) -> Option<Safe> {
        self.judge_after(text, [])
    }

    /// The same for a text behind others: what people said before, the last first. Of a text that names nobody, or only by a
    /// pronoun, the one in danger is the one who was before.
    pub fn judge_after<'a>(
        &self,
        text: &str,
        before: impl IntoIterator<Item = &'a str>,
    ) -> Option<Safe> {
        let mut found = find(text)?;
        if found.finding.victim.is_none() && !found.finding.topic.is_declined() {
            let mut earlier = before.into_iter().filter_map(find);
            found.finding.victim = earlier.find_map(|other| other.finding.victim);
        }
        let reply = self.reply(&found.finding, found.language);
        Some(Safe { topic: found.finding.topic, reply })
    }

    /// Returns the reply to a text that goes on with a talk about a danger: what people said before, the last first. It is that to
    /// the danger, which still holds; nothing if the text brings up something else, or nobody was in danger.
    pub fn judge_next<'a>(
        &self,
        text: &str,
        before: impl IntoIterator<Item = &'a str>,
    ) -> Option<Safe> {
        if !goes_on(text) {
            return None;
        }
        let before: Vec<&str> = before.into_iter().collect();
        let mut rest = before.as_slice();
        while let Some((said, earlier)) = rest.split_first() {
            if let Some(safe) = self.judge_after(said, earlier.iter().copied()) {
                return Some(safe).filter(|safe| !safe.topic.is_declined());
            }
            if !goes_on(said) {
                return None;
            }
            rest = earlier;
        }
        None
    }

    /// Returns every reply in this language, for those who review them.
    pub fn replies(&self, language: Language) -> Vec<Safe> {
        let all = DATA.replies(language).all(&self.region);
        all.into_iter().map(|(topic, reply)| Safe { topic, reply }).collect()
    }

    fn reply(&self, found: &Finding<'_>, language: Language) -> String {
        let victim = match found.victim {
            Some(Victim::Animal) => Some("animal"),
            Some(Victim::Infant) => Some("infant"),
            // In doubt it is a person.
            Some(Victim::Person) | None => None,
        };
        let names: Vec<&str> = victim.into_iter().chain(found.reply).collect();
        DATA.replies(language).reply(found.topic, &names, &self.region)
    }
}
