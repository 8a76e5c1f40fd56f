//! The rules of one language: which words mean which topic, and which words mean none. Not for what is replied.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;

use crate::Topic;
use crate::pattern::{Candidates, Compiler, List, Patterns, Text};
use crate::victim::{self, Beings, Victim};
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
    beings: victim::Written,
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
    without: List,
    say: List,
    unless: List,
    amid: List,
}

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finding<'a> {
    pub(crate) topic: Topic,
    pub(crate) reply: Option<&'a str>,
    /// Who is in danger; `None` if the words do not tell it.
    pub(crate) victim: Option<Victim>,
}

/// The compiled rules of one language.
#[derive(Debug)]
pub(crate) struct Rules {
    /// In the order of their topics.
    rules: Vec<Rule>,
    /// What the rules are about, in the order of the rules.
    said: List,
    harmless: List,
    distant: List,
    aside: List,
    asking: List,
    own: List,
    near: List,
    urgent: List,
    further: List,
    beings: Beings,
    patterns: Patterns,
}

impl Rule {
    /// Reports whether a text has what this rule is about, in words that nothing in the whole text makes harmless. A word that
    /// does so elsewhere changes nothing: the phone that does not respond lies beside the person who does not.
    fn holds(&self, text: &Text, whole: &Text, candidates: &Candidates<'_>) -> bool {
        // Few texts have any of it, and hiding words adds none.
        if !candidates.has(&self.say, text) {
            return false;
        }
        if !self.without.is_empty() && !candidates.has(&self.say, &self.seen(text, candidates)) {
            return false;
        }
        if self.topic.is_declined() {
            return !candidates.has(&self.unless, whole) && !candidates.has(&self.amid, whole);
        }
        !self.dangers(text, whole, candidates).is_empty()
    }

    /// Returns a text without the words that this rule does not see.
    fn seen<'a>(&self, text: &'a Text, candidates: &Candidates<'_>) -> Cow<'a, Text> {
        let mut text = Cow::Borrowed(text);
        for pattern in candidates.of(&self.without) {
            text.to_mut().hide(&pattern);
        }
        text
    }

    /// Returns what this rule is about in a text, in words that nothing in the whole text makes harmless.
    fn dangers(&self, text: &Text, whole: &Text, candidates: &Candidates<'_>) -> Vec<Range<usize>> {
        let excuses = self.excuses(whole, candidates);
        let mut dangers = candidates.matches(&self.say, &self.seen(text, candidates));
        dangers.retain(|said| !excuses.iter().any(|excuse| meet(excuse, said)));
        dangers
    }

    /// Returns the parts of a text whose words this rule must not rest on.
    fn excuses(&self, whole: &Text, candidates: &Candidates<'_>) -> Vec<Range<usize>> {
        let mut excuses = candidates.matches_in_clauses(&self.unless, whole);
        excuses.extend(candidates.matches(&self.amid, whole));
        excuses
    }
}

/// Reports whether two parts of a text share a word.
fn meet(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Rules {
    /// Compiles a file of rules; an error names each wrong pattern.
    pub(crate) fn read(toml: &str, splitter: &Splitter) -> Result<Self, String> {
        let mut file: File = toml::from_str(toml).map_err(|e| format!("rules: {e}"))?;
        file.rule.sort_by_key(|rule| rule.topic);
        let mut compiler = Compiler::new(splitter, &file.sets);
        // Together, so that the rules that may hold for a text are found in their order.
        let say: Vec<List> = file.rule.iter().map(|rule| compiler.list(&rule.say)).collect();
        let said = 0..say.last().map_or(0, |last| last.end);
        let mut rules = Vec::new();
        for (written, say) in file.rule.into_iter().zip(say) {
            rules.push(Rule {
                topic: written.topic,
                firm: written.firm,
                without: compiler.list(&written.without),
                say,
                unless: compiler.list(&written.unless),
                amid: compiler.list(&written.amid),
                reply: written.reply,
            });
        }
        Ok(Self {
            rules,
            said,
            harmless: compiler.list(&file.harmless),
            distant: compiler.list(&file.distant),
            aside: compiler.list(&file.aside),
            asking: compiler.list(&file.asking),
            own: compiler.list(&file.own),
            near: compiler.list(&file.near),
            urgent: compiler.list(&file.urgent),
            further: compiler.list(&file.further),
            beings: Beings::compile(&file.beings, &mut compiler),
            patterns: compiler.finish()?,
        })
    }

    /// Reports whether these words go on with a talk about a danger, and bring up nothing else.
    pub(crate) fn goes_on(&self, words: &[String]) -> bool {
        // A part of a sentence is not enough.
        let words: Vec<String> = words.iter().filter(|word| *word != PAUSE).cloned().collect();
        let text = Text::new(&words, &self.patterns);
        self.patterns.candidates(&text).has(&self.further, &text)
    }

    /// Returns the topic of these words: of several, the first one in the order of [`Topic`].
    pub(crate) fn judge(&self, words: &[String]) -> Option<Finding<'_>> {
        let whole = Text::new(words, &self.patterns);
        self.finding(&whole, &self.patterns.candidates(&whole))
    }

    /// Returns the topic of a text in which only these patterns may match.
    fn finding(&self, whole: &Text, candidates: &Candidates<'_>) -> Option<Finding<'_>> {
        let is_urgent = candidates.has(&self.urgent, whole);
        let mut told =
            if is_urgent { whole.clone() } else { self.without_distant(whole, candidates) };
        let mut text = whole.clone();
        for pattern in candidates.of(&self.harmless) {
            text.hide_in_clauses(&pattern);
            told.hide_in_clauses(&pattern);
        }
        let seen = |rule: &Rule| if rule.firm { &text } else { &told };
        let rule = self.tried(candidates).find(|rule| rule.holds(seen(rule), whole, candidates))?;
        let victim = if rule.reply.as_deref() == Some(SPEAKER) {
            // An animal or a baby beside the speaker is in no danger.
            Some(Victim::Person)
        } else if rule.topic.is_declined() {
            None
        } else {
            self.beings.victim(&rule.dangers(seen(rule), whole, candidates), whole, candidates)
        };
        Some(Finding { topic: rule.topic, reply: rule.reply.as_deref(), victim })
    }

    /// Returns the rules that may hold, in their order.
    fn tried(&self, candidates: &Candidates<'_>) -> impl Iterator<Item = &Rule> {
        let mut from = self.said.start;
        std::iter::from_fn(move || {
            let branch = candidates.first(&(from..self.said.end))?;
            let rule = self.rules.partition_point(|rule| rule.say.end <= branch);
            let rule = self.rules.get(rule)?;
            from = rule.say.end;
            Some(rule)
        })
    }

    /// Returns a text without what is distant: a sentence with words of a story, and each clause with words of what people do
    /// besides. Another sentence or clause stays: people who call for help also say what they have just watched.
    fn without_distant(&self, whole: &Text, candidates: &Candidates<'_>) -> Text {
        let mut text = whole.clone();
        for sentence in whole.sentences() {
            let said = whole.only(&sentence);
            let mut rest = said.clone();
            candidates.of(&self.near).for_each(|pattern| rest.hide(&pattern));
            let is_asked = candidates.has(&self.asking, &rest) && !candidates.has(&self.own, &said);
            if is_asked || !candidates.matches_in_clauses(&self.distant, &rest).is_empty() {
                text.leave_out(&sentence);
                continue;
            }
            for found in candidates.matches_in_clauses(&self.aside, &rest) {
                text.leave_out(&whole.clause(found.start));
            }
        }
        text
    }

    /// Returns each topic and reply that a rule names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Topic, &str)> {
        self.rules.iter().filter_map(|rule| Some((rule.topic, rule.reply.as_deref()?)))
    }
}

#[cfg(test)]
mod tests;
