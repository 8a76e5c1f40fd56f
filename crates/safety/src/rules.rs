//! The rules of one language: which words mean which topic, and which words mean none. Not for what is replied.

use std::collections::HashMap;

use serde::Deserialize;

use crate::Topic;
use crate::pattern::{Compiler, Pattern, Text, Vocabulary};
use crate::words::{BREAK, Splitter};

/// A file of rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Patterns that others name.
    sets: HashMap<String, String>,
    /// Idioms and other words without danger: no rule sees them.
    harmless: Vec<String>,
    /// Words of stories, games, news, translations: only firm rules hold for a sentence that has them.
    distant: Vec<String>,
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
    #[serde(default)]
    unless: Vec<String>,
}

#[derive(Debug)]
struct Rule {
    topic: Topic,
    reply: Option<String>,
    firm: bool,
    without: Vec<Pattern>,
    say: Vec<Pattern>,
    unless: Vec<Pattern>,
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

/// Reports whether a text has one of these patterns.
fn has(patterns: &[Pattern], text: &Text) -> bool {
    patterns.iter().any(|pattern| pattern.is_in(text))
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
        let text = Text::new(words, &self.vocabulary);
        self.further.iter().any(|pattern| pattern.is_in(&text))
    }

    /// Returns the topic of these words: of several, the first one in the order of [`Topic`].
    pub(crate) fn judge(&self, words: &[String]) -> Option<Finding<'_>> {
        let whole = Text::new(words, &self.vocabulary);
        let animal = has(&self.animals, &whole) && !has(&self.people, &whole);
        let infant = has(&self.infants, &whole);
        let mut text = whole.clone();
        let mut told = if has(&self.urgent, &whole) {
            whole.clone()
        } else {
            Text::new(&self.without_distant(words), &self.vocabulary)
        };
        for pattern in &self.harmless {
            text.hide(pattern);
            told.hide(pattern);
        }
        let says = |rule: &Rule| {
            let text = if rule.firm { &text } else { &told };
            match rule.without.as_slice() {
                [] => has(&rule.say, text),
                without => {
                    let mut rest = text.clone();
                    without.iter().for_each(|pattern| rest.hide(pattern));
                    has(&rule.say, &rest)
                }
            }
        };
        let holds = |rule: &&Rule| says(rule) && !has(&rule.unless, &whole);
        let rule = self.rules.iter().find(holds)?;
        let victim = match (animal, infant) {
            (true, _) => Victim::Animal,
            (_, true) => Victim::Infant,
            _ => Victim::Anybody,
        };
        Some(Finding { topic: rule.topic, reply: rule.reply.as_deref(), victim })
    }

    /// Returns the sentences of these words that are not distant. One that is does not make another so: people who call for help
    /// also ask what is going on, and say what they have just watched.
    fn without_distant(&self, words: &[String]) -> Vec<String> {
        let sentences = words.split(|word| word == BREAK);
        let near: Vec<&[String]> = sentences.filter(|words| !self.is_distant(words)).collect();
        near.join(&BREAK.to_owned())
    }

    /// Reports whether a sentence is about something that does not happen here and now.
    fn is_distant(&self, words: &[String]) -> bool {
        let text = Text::new(words, &self.vocabulary);
        let mut rest = text.clone();
        self.near.iter().for_each(|pattern| rest.hide(pattern));
        has(&self.distant, &rest) || has(&self.asking, &rest) && !has(&self.own, &text)
    }

    /// Returns each topic and reply that a rule names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Topic, &str)> {
        self.rules.iter().filter_map(|rule| Some((rule.topic, rule.reply.as_deref()?)))
    }
}
