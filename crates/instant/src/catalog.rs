//! The sentences that are known: files of templates, compiled, and found by their first word. Not for the language of templates,
//! nor for what rules do.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use hearken_base::language::{Language, is_han};
use serde::Deserialize;
use toml::Spanned;

use crate::rules;
use crate::template::{NamedWords, ReadSlot, Slots, Template};
use crate::value::Value;

/// Most ways of one template to match a sentence.
const MOST_MATCHES: usize = 4;

/// A file of templates is wrong. The message says where, what, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {message}", file.display())]
pub struct TemplateError {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateFile {
    /// Named parts of sentences.
    #[serde(default)]
    words: BTreeMap<String, String>,
    #[serde(default)]
    rules: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    rule: Spanned<String>,
    /// Values that the sentences of the entry have in common.
    #[serde(default)]
    with: BTreeMap<String, String>,
    say: Vec<Spanned<String>>,
}

#[derive(Debug, Clone)]
struct Sentence {
    rule: String,
    with: Vec<(String, String)>,
    template: Template,
}

/// Sentences of a language.
#[derive(Debug, Clone, Default)]
struct Sentences {
    words: BTreeMap<String, String>,
    all: Vec<Sentence>,
    by_first_word: HashMap<String, Vec<usize>>,
    begin_with_slot: Vec<usize>,
}

/// The sentences of both languages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    zh: Sentences,
    en: Sentences,
}

fn line_at(text: &str, offset: usize) -> usize {
    text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1)
}

impl Sentences {
    fn add(&mut self, sentence: Sentence) {
        let at = self.all.len();
        for word in &sentence.template.first_words {
            self.by_first_word.entry(word.clone()).or_default().push(at);
        }
        if sentence.template.begins_with_slot {
            self.begin_with_slot.push(at);
        }
        self.all.push(sentence);
    }
}

impl Catalog {
    /// Adds the sentences of a file. `language` is that of all of them; if it is `None`, each tells its own.
    pub(crate) fn add(
        &mut self,
        file: &Path,
        text: &str,
        language: Option<Language>,
    ) -> Result<(), TemplateError> {
        let wrong = |offset: usize, message: String| TemplateError {
            file: file.to_owned(),
            line: line_at(text, offset),
            message,
        };
        let parsed: TemplateFile = toml::from_str(text).map_err(|error| {
            wrong(
                error.span().map_or(0, |span| span.start),
                format!("{}; the format is in the README of crates/instant", error.message()),
            )
        })?;
        let named = |sentences: &Sentences| {
            let mut words = sentences.words.clone();
            words.extend(parsed.words.iter().map(|(name, text)| (name.clone(), text.clone())));
            NamedWords::new(words)
        };
        let zh_words = named(&self.zh);
        let en_words = named(&self.en);
        for entry in parsed.rules {
            let rule = entry.rule.get_ref();
            if rules::class(rule).is_none() {
                return Err(wrong(
                    entry.rule.span().start,
                    format!("no rule is called `{rule}`; the rules are {}", rules::names()),
                ));
            }
            for say in &entry.say {
                let said = say.get_ref();
                let language = language.unwrap_or(if said.chars().any(is_han) {
                    Language::Chinese
                } else {
                    Language::English
                });
                let is_zh = language == Language::Chinese;
                let words = if is_zh { &zh_words } else { &en_words };
                let sentences = if is_zh { &mut self.zh } else { &mut self.en };
                let template = Template::compile(said, words)
                    .map_err(|fault| wrong(say.span().start, format!("`{said}`: {fault}")))?;
                let with =
                    entry.with.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                sentences.add(Sentence { rule: rule.clone(), with, template });
            }
        }
        if let Some(language) = language {
            let sentences = if language == Language::Chinese { &mut self.zh } else { &mut self.en };
            sentences.words.extend(parsed.words);
        }
        Ok(())
    }

    /// Returns the number of sentences.
    pub(crate) fn len(&self) -> usize {
        self.zh.all.len() + self.en.all.len()
    }

    /// Calls `found` with the rule and the slots of each match of the whole of `words`, until it returns a value.
    pub(crate) fn find<T>(
        &self,
        words: &[String],
        language: Language,
        slots: &dyn ReadSlot,
        mut found: impl FnMut(&str, &Slots) -> Option<T>,
    ) -> Option<T> {
        let sentences = if language == Language::Chinese { &self.zh } else { &self.en };
        let by_word = words.first().and_then(|word| sentences.by_first_word.get(word));
        let mut candidates: Vec<usize> =
            by_word.into_iter().flatten().chain(&sentences.begin_with_slot).copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        for at in candidates {
            let Some(sentence) = sentences.all.get(at) else { continue };
            for mut matched in sentence.template.matches(words, slots, MOST_MATCHES) {
                for (name, value) in &sentence.with {
                    matched.push(name, Value::Text(value.clone()));
                }
                if let Some(value) = found(&sentence.rule, &matched) {
                    return Some(value);
                }
            }
        }
        None
    }
}
