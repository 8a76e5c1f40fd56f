//! The rules of one language: which words mean which topic, and which words mean none. Not for what is replied.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;

use crate::Topic;
use crate::pattern::{Compiler, Pattern, Text, Vocabulary};
use crate::words::{PAUSE, Splitter};

/// Name of the reply for a speaker who is in danger.
const SPEAKER: &str = "self";

/// A file of rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Patterns that others name.
    sets: HashMap<String, String>,
    /// Idioms and other words without danger: no rule sees them.
    harmless: Vec<String>,
    /// Words of stories, news, translations: only firm rules hold for a sentence that has them.
    distant: Vec<String>,
    /// Words of what people do besides: only firm rules hold for a clause that has them.
    aside: Vec<String>,
    /// Words of questions for knowledge: they are distant, too, unless the sentence tells what happened to the speaker's own.
    asking: Vec<String>,
    /// What happened to the speaker, their family or their home.
    own: Vec<String>,
    /// Phrases whose words are not distant: what people did when it happened, and questions about their own.
    near: Vec<String>,
    /// Words of a person who needs help now: with them, distant words do not count.
    urgent: Vec<String>,
    /// What people say next who were told what to do: that nothing has changed, or that they need more.
    further: Vec<String>,
    /// Words for babies, for animals, and for people of any age but the speaker.
    infants: Vec<String>,
    animals: Vec<String>,
    people: Vec<String>,
    rule: Vec<Written>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    topic: Topic,
    /// Name of the topic's reply for this case.
    reply: Option<String>,
    #[serde(default)]
    firm: bool,
    /// Patterns whose words this rule does not see.
    #[serde(default)]
    without: Vec<String>,
    say: Vec<String>,
    /// Patterns that make it harmless where they share words with what is said, in one clause.
    #[serde(default)]
    unless: Vec<String>,
    /// The same, across the clauses of a sentence.
    #[serde(default)]
    amid: Vec<String>,
}

#[derive(Debug)]
struct Rule {
    topic: Topic,
    reply: Option<String>,
    firm: bool,
    without: Vec<Pattern>,
    say: Vec<Pattern>,
    unless: Vec<Pattern>,
    amid: Vec<Pattern>,
}

/// Who is in danger, if it is neither the speaker nor another person who is no baby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Anybody,
    Infant,
    Animal,
}

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finding<'a> {
    pub(crate) topic: Topic,
    pub(crate) reply: Option<&'a str>,
    pub(crate) victim: Victim,
}

/// The compiled rules of one language.
#[derive(Debug)]
pub(crate) struct Rules {
    vocabulary: Vocabulary,
    harmless: Vec<Pattern>,
    distant: Vec<Pattern>,
    aside: Vec<Pattern>,
    asking: Vec<Pattern>,
    own: Vec<Pattern>,
    near: Vec<Pattern>,
    urgent: Vec<Pattern>,
    further: Vec<Pattern>,
    infants: Vec<Pattern>,
    animals: Vec<Pattern>,
    people: Vec<Pattern>,
    /// In the order of their topics.
    rules: Vec<Rule>,
}

impl Rule {
    /// Reports whether a text has what this rule is about, in words that nothing in the whole text makes harmless. A word that
    /// does so elsewhere changes nothing: the phone that does not respond lies beside the person who does not.
    fn holds(&self, text: &Text, whole: &Text) -> bool {
        // Few texts have any of it, and hiding words adds none.
        if !has(&self.say, text) {
            return false;
        }
        let mut text = Cow::Borrowed(text);
        for pattern in &self.without {
            text.to_mut().hide(pattern);
        }
        if !self.without.is_empty() && !has(&self.say, &text) {
            return false;
        }
        if self.topic.is_declined() {
            return !has(&self.unless, whole) && !has(&self.amid, whole);
        }
        let excuses = self.excuses(whole);
        let is_meant = |said: &Range<usize>| !excuses.iter().any(|excuse| meet(excuse, said));
        let mut said = self.say.iter().flat_map(|pattern| pattern.matches(&text));
        excuses.is_empty() || said.any(|said| is_meant(&said))
    }

    /// Returns the parts of a text whose words this rule must not rest on.
    fn excuses(&self, whole: &Text) -> Vec<Range<usize>> {
        let mut excuses = matches_in_clauses(&self.unless, whole);
        excuses.extend(self.amid.iter().flat_map(|pattern| pattern.matches(whole)));
        excuses
    }
}

/// Reports whether two parts of a text share a word.
fn meet(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Reports whether a text has one of these patterns.
fn has(patterns: &[Pattern], text: &Text) -> bool {
    patterns.iter().any(|pattern| pattern.is_in(text))
}

/// Returns the matches of these patterns that go across no pause.
fn matches_in_clauses(patterns: &[Pattern], text: &Text) -> Vec<Range<usize>> {
    let mut found: Vec<_> = patterns.iter().flat_map(|pattern| pattern.matches(text)).collect();
    found.retain(|part| !text.has_pause(part));
    found
}

impl Rules {
    /// Compiles a file of rules; an error names each wrong pattern.
    pub(crate) fn read(toml: &str, splitter: &Splitter) -> Result<Self, String> {
        let file: File = toml::from_str(toml).map_err(|e| format!("rules: {e}"))?;
        let mut vocabulary = Vocabulary::default();
        let mut compiler = Compiler { splitter, vocabulary: &mut vocabulary, sets: &file.sets };
        let mut faults = Vec::new();
        let mut compile = |written: &[String]| -> Vec<Pattern> {
            let compiled = written.iter().map(|pattern| compiler.pattern(pattern));
            compiled.filter_map(|pattern| pattern.map_err(|why| faults.push(why)).ok()).collect()
        };
        let harmless = compile(&file.harmless);
        let distant = compile(&file.distant);
        let aside = compile(&file.aside);
        let asking = compile(&file.asking);
        let own = compile(&file.own);
        let near = compile(&file.near);
        let urgent = compile(&file.urgent);
        let further = compile(&file.further);
        let infants = compile(&file.infants);
        let animals = compile(&file.animals);
        let people = compile(&file.people);
        let mut rules = Vec::new();
        for written in file.rule {
            rules.push(Rule {
                topic: written.topic,
                firm: written.firm,
                without: compile(&written.without),
                say: compile(&written.say),
                unless: compile(&written.unless),
                amid: compile(&written.amid),
                reply: written.reply,
            });
        }
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        rules.sort_by_key(|rule| rule.topic);
        Ok(Self {
            vocabulary,
            harmless,
            distant,
            aside,
            asking,
            own,
            near,
            urgent,
            further,
            infants,
            animals,
            people,
            rules,
        })
    }

    /// Reports whether these words go on with a talk about a danger, and bring up nothing else.
    pub(crate) fn goes_on(&self, words: &[String]) -> bool {
        // A part of a sentence is not enough.
        let words: Vec<String> = words.iter().filter(|word| *word != PAUSE).cloned().collect();
        has(&self.further, &Text::new(&words, &self.vocabulary))
    }

    /// Returns the topic of these words: of several, the first one in the order of [`Topic`].
    pub(crate) fn judge(&self, words: &[String]) -> Option<Finding<'_>> {
        let whole = Text::new(words, &self.vocabulary);
        let animal = has(&self.animals, &whole) && !has(&self.people, &whole);
        let infant = has(&self.infants, &whole);
        let mut text = whole.clone();
        let mut told = whole.clone();
        if !has(&self.urgent, &whole) {
            self.leave_out_distant(&mut told);
        }
        for pattern in &self.harmless {
            text.hide_in_clauses(pattern);
            told.hide_in_clauses(pattern);
        }
        let holds = |rule: &&Rule| rule.holds(if rule.firm { &text } else { &told }, &whole);
        let rule = self.rules.iter().find(holds)?;
        let victim = match (animal, infant) {
            // An animal or a baby beside the speaker is in no danger.
            _ if rule.reply.as_deref() == Some(SPEAKER) => Victim::Anybody,
            (true, _) => Victim::Animal,
            (_, true) => Victim::Infant,
            _ => Victim::Anybody,
        };
        Some(Finding { topic: rule.topic, reply: rule.reply.as_deref(), victim })
    }

    /// Takes what is distant out of a text: a sentence with words of a story, and each clause with words of what people do
    /// besides. Another sentence or clause stays: people who call for help also say what they have just watched.
    fn leave_out_distant(&self, text: &mut Text) {
        let whole = text.clone();
        for sentence in whole.sentences() {
            let said = whole.only(&sentence);
            let mut rest = said.clone();
            self.near.iter().for_each(|pattern| rest.hide(pattern));
            let is_asked = has(&self.asking, &rest) && !has(&self.own, &said);
            if is_asked || !matches_in_clauses(&self.distant, &rest).is_empty() {
                text.leave_out(&sentence);
                continue;
            }
            for found in matches_in_clauses(&self.aside, &rest) {
                text.leave_out(&whole.clause(found.start));
            }
        }
    }

    /// Returns each topic and reply that a rule names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Topic, &str)> {
        self.rules.iter().filter_map(|rule| Some((rule.topic, rule.reply.as_deref()?)))
    }
}
