//! The language of templates: words, `[optional]`, `(one|another)`, `{slot}`, `{name=text}` and `<words>`, compiled to a program
//! that matches a whole sentence by backtracking. Not for what slots accept, nor for files of templates.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::normalise::words_of;
use crate::value::{Kind, Value};

/// Most steps of one match: a template that needs more does not match.
const MOST_STEPS: usize = 20_000;
/// Deepest nesting of brackets and named words.
const DEEPEST: usize = 24;
/// Most instructions of a compiled template.
const LONGEST_PROGRAM: usize = 4_000;

/// Most phrases of one choice that are kept as a table.
const MOST_PHRASES: usize = 600;

/// Part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Word(String),
    /// Choice of words alone.
    Phrases(Arc<Phrases>),
    Slot(String, Kind),
    Set(String, String),
    All(Vec<Part>),
    OneOf(Vec<Part>),
}

/// Phrases of a choice: their words, and their places in the choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Phrases {
    places: HashMap<Vec<String>, usize>,
    /// Most words of a phrase, by its first word.
    longest: HashMap<String, usize>,
    may_be_empty: bool,
}

impl Phrases {
    fn new(all: Vec<Vec<String>>) -> Self {
        let mut table = Self::default();
        for (place, phrase) in all.into_iter().enumerate() {
            match phrase.first() {
                Some(first) => {
                    let longest = table.longest.entry(first.clone()).or_default();
                    *longest = phrase.len().max(*longest);
                }
                None => table.may_be_empty = true,
            }
            table.places.entry(phrase).or_insert(place);
        }
        table
    }

    /// Returns the lengths of the phrases with which `words` begin, the last of the choice first.
    fn lengths(&self, words: &[String]) -> Vec<usize> {
        let longest = words.first().and_then(|first| self.longest.get(first));
        let Some(longest) = longest else {
            return if self.may_be_empty { vec![0] } else { Vec::new() };
        };
        let mut found: Vec<(usize, usize)> = (0..=(*longest).min(words.len()))
            .filter_map(|length| Some((*self.places.get(words.get(..length)?)?, length)))
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.into_iter().map(|phrase| phrase.1).collect()
    }
}

/// Returns the phrases that a part stands for; `None` if it has a slot or a value, or stands for too many.
fn phrases(part: &Part) -> Option<Vec<Vec<String>>> {
    let all = match part {
        Part::Word(word) => vec![vec![word.clone()]],
        Part::Phrases(table) => {
            let mut all: Vec<_> = table.places.iter().collect();
            all.sort_unstable_by_key(|phrase| phrase.1);
            all.into_iter().map(|phrase| phrase.0.clone()).collect()
        }
        Part::Slot(..) | Part::Set(..) => return None,
        Part::All(parts) => {
            let mut all = vec![Vec::new()];
            for part in parts {
                let next = phrases(part)?;
                if all.len() * next.len() > MOST_PHRASES {
                    return None;
                }
                all = all
                    .iter()
                    .flat_map(|start| next.iter().map(move |end| [&start[..], &end[..]].concat()))
                    .collect();
            }
            all
        }
        Part::OneOf(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.append(&mut phrases(part)?);
            }
            all
        }
    };
    (all.len() <= MOST_PHRASES).then_some(all)
}

/// Puts tables in the place of neighbouring alternatives that are words alone.
fn choice(alternatives: Vec<Part>) -> Part {
    let mut parts = Vec::new();
    let mut table: Vec<Vec<String>> = Vec::new();
    for part in alternatives {
        match phrases(&part) {
            Some(mut more) if table.len() + more.len() <= MOST_PHRASES => table.append(&mut more),
            found => {
                if !table.is_empty() {
                    parts.push(Part::Phrases(Arc::new(Phrases::new(std::mem::take(&mut table)))));
                }
                match found {
                    Some(more) => table = more,
                    None => parts.push(part),
                }
            }
        }
    }
    if !table.is_empty() {
        parts.push(Part::Phrases(Arc::new(Phrases::new(table))));
    }
    if parts.len() == 1 { parts.remove(0) } else { Part::OneOf(parts) }
}

/// Named words of a file, each parsed once.
#[derive(Debug, Default)]
pub(crate) struct NamedWords {
    texts: BTreeMap<String, String>,
    parsed: RefCell<HashMap<String, Part>>,
}

impl NamedWords {
    /// Creates the words of a file; `texts` are their templates.
    pub(crate) fn new(texts: BTreeMap<String, String>) -> Self {
        Self { texts, parsed: RefCell::default() }
    }
}

#[derive(Debug, Clone)]
enum Instruction {
    Word(String),
    Phrases(Arc<Phrases>),
    Slot(String, Kind),
    Set(String, String),
    Split(Vec<usize>),
    Jump(usize),
    End,
}

/// Values of the slots of a sentence, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Slots(Vec<(String, Value)>);

impl Slots {
    /// Returns the value of a name; of two, the last.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().rev().find(|slot| slot.0 == name).map(|slot| &slot.1)
    }

    /// Returns all values of a name, in the order of the sentence.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |slot| slot.0 == name).map(|slot| &slot.1)
    }

    /// Returns the text of a name that a template or its rule sets; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn push(&mut self, name: &str, value: Value) {
        self.0.push((name.to_owned(), value));
    }

    /// Adds a text, as a template sets it.
    pub(crate) fn push_text(&mut self, name: &str, text: &str) {
        self.push(name, Value::Text(text.to_owned()));
    }
}

/// Compiled template.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    program: Vec<Instruction>,
    /// Words with which a sentence may begin.
    pub(crate) first_words: BTreeSet<String>,
    /// True if a sentence may begin with a slot.
    pub(crate) begins_with_slot: bool,
    /// Words with which a sentence may end; `None` if it may end with a slot.
    last_words: Option<BTreeSet<String>>,
}

/// Reads the values of slots at a place in a sentence.
pub(crate) trait ReadSlot {
    /// Returns each possible number of words with its value, the likeliest first.
    fn read(&self, kind: Kind, at: usize) -> Vec<(usize, Value)>;
}

struct Parser<'a> {
    chars: Vec<char>,
    at: usize,
    words: &'a NamedWords,
    depth: usize,
}

/// Error in the text of a template: what is wrong, with its remedy.
pub(crate) type Fault = String;

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// Parses alternatives up to `end`, or up to the end of the text if it is `None`.
    fn alternatives(&mut self, end: Option<char>) -> Result<Part, Fault> {
        let mut all = Vec::new();
        let mut parts = Vec::new();
        loop {
            match self.peek() {
                None if end.is_none() => break,
                None => {
                    return Err(format!("a bracket is not closed; add `{}`", end.unwrap_or(')')));
                }
                Some(c) if Some(c) == end => {
                    self.at += 1;
                    break;
                }
                Some('|') => {
                    self.at += 1;
                    all.push(Part::All(std::mem::take(&mut parts)));
                }
                Some(c) => parts.extend(self.part(c)?),
            }
        }
        all.push(Part::All(parts));
        Ok(if all.len() == 1 { all.remove(0) } else { choice(all) })
    }

    fn part(&mut self, c: char) -> Result<Vec<Part>, Fault> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!(
                "brackets are nested more than {DEEPEST} deep; write several sentences"
            ));
        }
        let parts = match c {
            '[' => vec![choice(vec![self.alternatives(Some(']'))?, Part::All(Vec::new())])],
            '(' => vec![self.alternatives(Some(')'))?],
            '{' => vec![self.slot()?],
            '<' => vec![self.named()?],
            ']' | ')' | '}' | '>' => {
                return Err(format!("`{c}` closes nothing; remove it, or open the bracket"));
            }
            _ => {
                let start = self.at - 1;
                while self.peek().is_some_and(|c| !"[](){}<>|".contains(c)) {
                    self.at += 1;
                }
                let text: String =
                    self.chars.get(start..self.at).unwrap_or_default().iter().collect();
                words_of(&text).words.into_iter().map(Part::Word).collect()
            }
        };
        self.depth -= 1;
        Ok(parts)
    }

    fn until(&mut self, end: char) -> Result<String, Fault> {
        let start = self.at;
        while self.peek().is_some_and(|c| c != end) {
            self.at += 1;
        }
        if self.peek().is_none() {
            return Err(format!("a bracket is not closed; add `{end}`"));
        }
        self.at += 1;
        Ok(self.chars.get(start..self.at - 1).unwrap_or_default().iter().collect())
    }

    fn slot(&mut self) -> Result<Part, Fault> {
        let text = self.until('}')?;
        if let Some((name, value)) = text.split_once('=') {
            return Ok(Part::Set(name.trim().to_owned(), value.trim().to_owned()));
        }
        let (name, kind) = text.split_once(':').unwrap_or((&text, &text));
        let known = Kind::named(kind.trim());
        let known = known.ok_or_else(|| {
            format!("no slot is called `{}`; the slots are {}", kind.trim(), Kind::names())
        })?;
        Ok(Part::Slot(name.trim().to_owned(), known))
    }

    fn named(&mut self) -> Result<Part, Fault> {
        let name = self.until('>')?;
        if let Some(part) = self.words.parsed.borrow().get(&name) {
            return Ok(part.clone());
        }
        let text = self
            .words
            .texts
            .get(&name)
            .ok_or_else(|| format!("`<{name}>` is not defined; add it to [words]"))?;
        let mut inner =
            Parser { chars: text.chars().collect(), at: 0, words: self.words, depth: self.depth };
        let part = inner.alternatives(None).map_err(|fault| format!("in `<{name}>`: {fault}"))?;
        self.words.parsed.borrow_mut().insert(name, part.clone());
        Ok(part)
    }
}

fn emit(part: &Part, program: &mut Vec<Instruction>) {
    match part {
        Part::Word(word) => program.push(Instruction::Word(word.clone())),
        Part::Phrases(table) => program.push(Instruction::Phrases(Arc::clone(table))),
        Part::Slot(name, kind) => program.push(Instruction::Slot(name.clone(), *kind)),
        Part::Set(name, value) => program.push(Instruction::Set(name.clone(), value.clone())),
        Part::All(parts) => parts.iter().for_each(|part| emit(part, program)),
        Part::OneOf(parts) => {
            let split = program.len();
            program.push(Instruction::Split(Vec::new()));
            let mut starts = Vec::new();
            let mut jumps = Vec::new();
            for part in parts {
                starts.push(program.len());
                emit(part, program);
                jumps.push(program.len());
                program.push(Instruction::Jump(0));
            }
            let end = program.len();
            for jump in jumps {
                if let Some(place) = program.get_mut(jump) {
                    *place = Instruction::Jump(end);
                }
            }
            if let Some(place) = program.get_mut(split) {
                *place = Instruction::Split(starts);
            }
        }
    }
}

/// Returns the words behind which a program may end; `None` if it may end behind a slot. Jumps lead forward only.
fn last_words(program: &[Instruction]) -> Option<BTreeSet<String>> {
    let mut may_end = vec![false; program.len()];
    let mut words = BTreeSet::new();
    let mut has_slot = false;
    for (at, instruction) in program.iter().enumerate().rev() {
        let ends = |at: usize| may_end.get(at).copied().unwrap_or(false);
        let is_end = match instruction {
            Instruction::Word(word) => {
                if ends(at + 1) {
                    words.insert(word.clone());
                }
                false
            }
            Instruction::Phrases(table) => {
                if ends(at + 1) {
                    words.extend(table.places.keys().filter_map(|phrase| phrase.last().cloned()));
                }
                table.may_be_empty && ends(at + 1)
            }
            Instruction::Slot(..) => {
                has_slot |= ends(at + 1);
                false
            }
            Instruction::Set(..) => ends(at + 1),
            Instruction::Split(starts) => starts.iter().any(|start| ends(*start)),
            Instruction::Jump(to) => ends(*to),
            Instruction::End => true,
        };
        if let Some(place) = may_end.get_mut(at) {
            *place = is_end;
        }
    }
    (!has_slot).then_some(words)
}

impl Template {
    /// Compiles a template; `words` are its named words. Returns what is wrong with it, and the remedy.
    pub(crate) fn compile(text: &str, words: &NamedWords) -> Result<Self, Fault> {
        let mut parser = Parser { chars: text.chars().collect(), at: 0, words, depth: 0 };
        let part = parser.alternatives(None)?;
        let mut program = Vec::new();
        emit(&part, &mut program);
        if program.len() > LONGEST_PROGRAM {
            return Err(format!(
                "the sentence has more than {LONGEST_PROGRAM} parts; write several sentences"
            ));
        }
        program.push(Instruction::End);
        let last_words = last_words(&program);
        let mut template =
            Self { program, first_words: BTreeSet::new(), begins_with_slot: false, last_words };
        if template.find_first(0) {
            return Err(
                "the sentence may be empty; make one of its words no longer optional".to_owned()
            );
        }
        Ok(template)
    }

    /// Collects with what a sentence may begin, from an instruction on. Returns true if it may be empty.
    fn find_first(&mut self, from: usize) -> bool {
        let mut open = vec![from];
        let mut seen = BTreeSet::new();
        let mut may_be_empty = false;
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            match self.program.get(at) {
                Some(Instruction::Word(word)) => {
                    self.first_words.insert(word.clone());
                }
                Some(Instruction::Phrases(table)) => {
                    self.first_words.extend(table.longest.keys().cloned());
                    if table.may_be_empty {
                        open.push(at + 1);
                    }
                }
                Some(Instruction::Slot(..)) => self.begins_with_slot = true,
                Some(Instruction::Set(..)) => open.push(at + 1),
                Some(Instruction::Split(starts)) => open.extend(starts),
                Some(Instruction::Jump(to)) => open.push(*to),
                Some(Instruction::End) | None => may_be_empty = true,
            }
        }
        may_be_empty
    }

    /// Returns the slots of all ways in which the template matches the whole of `words`, at most `most`.
    pub(crate) fn matches(
        &self,
        words: &[String],
        slots: &dyn ReadSlot,
        most: usize,
    ) -> Vec<Slots> {
        let mut found = Vec::new();
        let may_end = |word: &String| self.last_words.as_ref().is_none_or(|all| all.contains(word));
        if !words.last().is_some_and(may_end) {
            return found;
        }
        let mut open = vec![(0_usize, 0_usize, Slots::default())];
        for _ in 0..MOST_STEPS {
            let Some((at, word, mut values)) = open.pop() else { break };
            match self.program.get(at) {
                Some(Instruction::Word(wanted)) if words.get(word) == Some(wanted) => {
                    open.push((at + 1, word + 1, values));
                }
                Some(Instruction::Phrases(table)) => {
                    let rest = words.get(word..).unwrap_or_default();
                    for length in table.lengths(rest) {
                        open.push((at + 1, word + length, values.clone()));
                    }
                }
                Some(Instruction::Slot(name, kind)) => {
                    for (length, value) in slots.read(*kind, word).into_iter().rev() {
                        let mut more = values.clone();
                        more.push(name, value);
                        open.push((at + 1, word + length, more));
                    }
                }
                Some(Instruction::Set(name, value)) => {
                    values.push(name, Value::Text(value.clone()));
                    open.push((at + 1, word, values));
                }
                Some(Instruction::Split(starts)) => {
                    open.extend(starts.iter().rev().map(|start| (*start, word, values.clone())));
                }
                Some(Instruction::Jump(to)) => open.push((*to, word, values)),
                Some(Instruction::End) if word == words.len() => {
                    found.push(values);
                    if found.len() == most {
                        break;
                    }
                }
                Some(Instruction::Word(_) | Instruction::End) | None => {}
            }
        }
        found
    }
}
