//! Patterns of words, and texts that they are looked for in. All places of a text are tried at once, as bits, so that the time
//! grows with the length of text and pattern only. Not for what a match means.
//!
//! A pattern is a sequence of words; in Chinese each character is one. `(a|b c)` is one of several, `(a)?` may be left out,
//! `<name>` is a set of the file, `*3` stands for up to three words, `^` and `$` for the begin and the end of a sentence
//! or of a clause. Nothing goes across the end of a sentence; pauses inside one are no words.

use std::collections::HashMap;
use std::ops::Range;

use crate::words::{BREAK, MOST_WORDS, PAUSE, Splitter};

/// Machine words that have a bit for each place of the longest text, its end included.
const CHUNKS: usize = MOST_WORDS / 64 + 1;

/// Deepest nesting of groups and sets.
const DEEPEST: usize = 12;

/// Most words that a gap stands for.
const LONGEST_GAP: u32 = 20;

/// A set of places between the words of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Places([u64; CHUNKS]);

impl Places {
    fn add(&mut self, place: usize) {
        if let Some(chunk) = self.0.get_mut(place / 64) {
            *chunk |= 1 << (place % 64);
        }
    }

    fn has(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|chunk| chunk >> (place % 64) & 1 == 1)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|chunk| *chunk == 0)
    }

    /// Returns these places, the last one excluded.
    fn between(from: usize, to: usize) -> Self {
        let mut places = Self::default();
        (from..to).for_each(|place| places.add(place));
        places
    }

    fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine &= theirs);
        self
    }

    fn without(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine &= !theirs);
        self
    }

    fn or(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
        self
    }

    /// Moves each place behind the next word.
    fn next(mut self) -> Self {
        let mut carry = 0;
        for chunk in &mut self.0 {
            let top = *chunk >> 63;
            *chunk = *chunk << 1 | carry;
            carry = top;
        }
        self
    }

    fn first(&self) -> Option<usize> {
        (0..CHUNKS * 64).find(|place| self.has(*place))
    }

    fn last(&self) -> Option<usize> {
        self.last_by(CHUNKS * 64 - 1)
    }

    /// Returns the last place up to this one.
    fn last_by(&self, most: usize) -> Option<usize> {
        (0..=most).rev().find(|place| self.has(*place))
    }
}

/// Numbers of the words that patterns know.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary(HashMap<String, usize>);

impl Vocabulary {
    fn number(&mut self, word: String) -> usize {
        let next = self.0.len();
        *self.0.entry(word).or_insert(next)
    }
}

/// A text in which patterns are looked for.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// For each word of the vocabulary 0, or one more than the index of its places.
    indices: Vec<u16>,
    places: Vec<Places>,
    /// The words of the vocabulary that the text has.
    present: Vec<usize>,
    /// Places before words that a gap may go over.
    open: Places,
    starts: Places,
    ends: Places,
    length: usize,
    /// The places behind the last word of each sentence and of each clause.
    sentences: Vec<usize>,
    clauses: Vec<usize>,
}

impl Text {
    pub(crate) fn new(words: &[String], vocabulary: &Vocabulary) -> Self {
        let mut text = Self {
            indices: vec![0; vocabulary.0.len()],
            places: Vec::new(),
            present: Vec::new(),
            open: Places::default(),
            starts: Places::default(),
            ends: Places::default(),
            length: 0,
            sentences: Vec::new(),
            clauses: Vec::new(),
        };
        text.starts.add(0);
        for word in words {
            if word == PAUSE {
                text.clauses.push(text.length);
                text.ends.add(text.length);
                text.starts.add(text.length);
                continue;
            }
            let place = text.length;
            text.length += 1;
            if word == BREAK {
                text.ends.add(place);
                text.starts.add(place + 1);
                text.sentences.push(place);
                text.clauses.push(place);
                continue;
            }
            text.open.add(place);
            if let Some(number) = vocabulary.0.get(word) {
                text.add(*number, place);
            }
        }
        text.ends.add(text.length);
        text.sentences.push(text.length);
        text.clauses.push(text.length);
        text
    }

    /// Notes that the word of this number is at this place.
    fn add(&mut self, number: usize, place: usize) {
        let Some(index) = self.indices.get_mut(number) else { return };
        if *index == 0 {
            self.places.push(Places::default());
            self.present.push(number);
            *index = u16::try_from(self.places.len()).unwrap_or_default();
        }
        if let Some(places) =
            usize::from(*index).checked_sub(1).and_then(|at| self.places.get_mut(at))
        {
            places.add(place);
        }
    }

    fn places(&self, number: usize) -> Option<&Places> {
        let index = usize::from(*self.indices.get(number)?);
        self.places.get(index.checked_sub(1)?)
    }

    /// Returns the places of each sentence.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = Range<usize>> {
        parts(&self.sentences)
    }

    /// Returns the places of the clause that a place is in.
    pub(crate) fn clause(&self, place: usize) -> Range<usize> {
        parts(&self.clauses).find(|clause| clause.contains(&place)).unwrap_or(place..place)
    }

    /// Reports whether a part goes across a pause.
    pub(crate) fn has_pause(&self, part: &Range<usize>) -> bool {
        self.clauses.iter().any(|end| part.start < *end && *end < part.end)
    }

    /// Returns this part of the text: the rest is hidden, and its begin and end are those of a sentence.
    pub(crate) fn only(&self, part: &Range<usize>) -> Self {
        let mut kept = Places::default();
        part.clone().for_each(|place| kept.add(place));
        let mut text = self.clone();
        text.keep(&kept);
        text.starts.add(part.start);
        text.ends.add(part.end);
        text
    }

    /// Takes this part out of the text. What is beside it begins or ends a sentence.
    pub(crate) fn leave_out(&mut self, part: &Range<usize>) {
        let mut kept = Places::default();
        (0..self.length).filter(|place| !part.contains(place)).for_each(|place| kept.add(place));
        self.keep(&kept);
        self.ends.add(part.start);
        self.starts.add(part.end);
    }

    fn keep(&mut self, kept: &Places) {
        self.open = self.open.and(kept);
        self.places.iter_mut().for_each(|places| *places = places.and(kept));
    }

    /// Takes the words that a pattern matches out of the text: no other pattern finds them, or goes over them.
    pub(crate) fn hide(&mut self, pattern: &Pattern) {
        let mut hidden = Places::default();
        self.matched(pattern, 0, self.length, &mut hidden);
        if hidden.is_empty() {
            return;
        }
        self.open = self.open.without(&hidden);
        self.places.iter_mut().for_each(|places| *places = places.without(&hidden));
    }

    /// Adds the words of each match that begins at one of these places, the last one excluded. All of them are tried at once, and
    /// halved as long as one of them matches: most patterns match nowhere or at few places.
    fn matched(&self, pattern: &Pattern, from: usize, to: usize, words: &mut Places) {
        let Some(end) = pattern.after(&Places::between(from, to), self).last() else { return };
        if to - from == 1 {
            *words = words.or(&Places::between(from, end));
            return;
        }
        let middle = usize::midpoint(from, to);
        self.matched(pattern, from, middle, words);
        self.matched(pattern, middle, to, words);
    }

    /// The same, where a pattern matches inside one clause.
    pub(crate) fn hide_in_clauses(&mut self, pattern: &Pattern) {
        if !pattern.is_in(self) {
            return;
        }
        let mut hidden = Places::default();
        for clause in parts(&self.clauses) {
            pattern.cover(self, &clause, clause.end, &mut hidden);
        }
        let mut kept = Places::default();
        let others = (0..self.length).filter(|place| !hidden.has(*place));
        others.for_each(|place| kept.add(place));
        self.keep(&kept);
    }
}

/// Returns the parts that end at these places, each without the break behind it.
fn parts(ends: &[usize]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| start..*end)
}

/// Part of a pattern.
#[derive(Debug, Clone)]
enum Part {
    Word(usize),
    Sequence(Vec<Part>),
    OneOf(Choices),
    Optional(Box<Part>),
    Gap(u32),
    Start,
    End,
}

/// Parts of which one is enough. Most of hundreds begin with a word that the text does not have: they are not tried.
#[derive(Debug, Clone, Default)]
struct Choices {
    /// Those that begin with a word, in the order of its number.
    by_first_word: Vec<(usize, Part)>,
    others: Vec<Part>,
}

impl Choices {
    fn new(parts: Vec<Part>) -> Self {
        let mut choices = Self::default();
        parts.into_iter().for_each(|part| choices.add(part));
        choices.by_first_word.sort_by_key(|(word, _)| *word);
        choices
    }

    /// Adds a part; of one that is only choices, each of them.
    fn add(&mut self, part: Part) {
        match part {
            Part::Sequence(mut parts) if parts.len() == 1 => {
                parts.drain(..).for_each(|part| self.add(part));
            }
            Part::OneOf(inner) => {
                self.by_first_word.extend(inner.by_first_word);
                self.others.extend(inner.others);
            }
            part => match part.first_word() {
                Some(word) => self.by_first_word.push((word, part)),
                None => self.others.push(part),
            },
        }
    }

    fn after(&self, before: &Places, text: &Text) -> Places {
        let mut places = Places::default();
        for word in &text.present {
            let from = self.by_first_word.partition_point(|(first, _)| first < word);
            let same = self.by_first_word[from..].iter().take_while(|(first, _)| first == word);
            places = same.fold(places, |places, (_, part)| places.or(&part.after(before, text)));
        }
        self.others.iter().fold(places, |places, part| places.or(&part.after(before, text)))
    }
}

impl Part {
    /// Returns the word with which every match of this part begins, if there is one.
    fn first_word(&self) -> Option<usize> {
        match self {
            Self::Word(number) => Some(*number),
            Self::Sequence(parts) => parts.first()?.first_word(),
            _ => None,
        }
    }

    /// Returns words of which every match of this part has at least one, if there are such words.
    fn needed(&self) -> Option<Vec<usize>> {
        match self {
            Self::Word(number) => Some(vec![*number]),
            // The fewest are the rarest.
            Self::Sequence(parts) => parts.iter().filter_map(Self::needed).min_by_key(Vec::len),
            Self::OneOf(choices) => {
                let begun = choices.by_first_word.iter().map(|(_, part)| part);
                let needed: Option<Vec<_>> =
                    begun.chain(&choices.others).map(Self::needed).collect();
                needed.map(|needed| needed.concat())
            }
            Self::Optional(_) | Self::Gap(_) | Self::Start | Self::End => None,
        }
    }

    /// Returns the places behind this part, for each place before it.
    fn after(&self, before: &Places, text: &Text) -> Places {
        match self {
            Self::Word(number) => match text.places(*number) {
                Some(there) => before.and(there).next(),
                None => Places::default(),
            },
            Self::Sequence(parts) => {
                let mut places = *before;
                for part in parts {
                    if places.is_empty() {
                        break;
                    }
                    places = part.after(&places, text);
                }
                places
            }
            Self::OneOf(choices) => choices.after(before, text),
            Self::Optional(part) => before.or(&part.after(before, text)),
            Self::Gap(most) => {
                let mut places = *before;
                for _ in 0..*most {
                    places = places.or(&places.and(&text.open).next());
                }
                places
            }
            Self::Start => before.and(&text.starts),
            Self::End => before.and(&text.ends),
        }
    }
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    part: Part,
    /// Words of which every match has at least one, in the order of their numbers. Most texts have none of them: the pattern is
    /// not tried then.
    needed: Option<Vec<usize>>,
}

impl Pattern {
    fn new(part: Part) -> Self {
        let needed = part.needed().map(|mut words| {
            words.sort_unstable();
            words.dedup();
            words
        });
        Self { part, needed }
    }

    /// Reports whether the text has words that match.
    pub(crate) fn is_in(&self, text: &Text) -> bool {
        !self.after(&Places::between(0, text.length + 1), text).is_empty()
    }

    /// Returns the places behind matches that begin at these places.
    fn after(&self, before: &Places, text: &Text) -> Places {
        let has =
            |words: &Vec<usize>| text.present.iter().any(|word| words.binary_search(word).is_ok());
        if self.needed.as_ref().is_none_or(has) {
            self.part.after(before, text)
        } else {
            Places::default()
        }
    }

    /// Returns the shortest match from each place.
    pub(crate) fn matches(&self, text: &Text) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.find(text, &(0..text.length + 1), &mut found);
        found
    }

    /// Adds the shortest match from each of these places. All are tried at once, and halved as long as one matches.
    fn find(&self, text: &Text, from: &Range<usize>, found: &mut Vec<Range<usize>>) {
        let mut before = Places::default();
        from.clone().for_each(|place| before.add(place));
        let Some(end) = self.after(&before, text).first() else { return };
        if from.len() == 1 {
            found.push(from.start..end);
            return;
        }
        let middle = usize::midpoint(from.start, from.end);
        self.find(text, &(from.start..middle), found);
        self.find(text, &(middle..from.end), found);
    }

    /// Adds the words of the longest match from each of these places that ends by a place.
    fn cover(&self, text: &Text, from: &Range<usize>, by: usize, words: &mut Places) {
        let mut before = Places::default();
        from.clone().for_each(|place| before.add(place));
        let Some(end) = self.after(&before, text).last_by(by) else { return };
        if from.len() <= 1 {
            (from.start..end).for_each(|place| words.add(place));
            return;
        }
        let middle = usize::midpoint(from.start, from.end);
        self.cover(text, &(from.start..middle), by, words);
        self.cover(text, &(middle..from.end), by, words);
    }
}

/// Compiler of the patterns of one file.
pub(crate) struct Compiler<'a> {
    pub(crate) splitter: &'a Splitter,
    pub(crate) vocabulary: &'a mut Vocabulary,
    /// The sets of the file, as they are written.
    pub(crate) sets: &'a HashMap<String, String>,
}

impl Compiler<'_> {
    /// Compiles a pattern; an error names it and what is wrong in it.
    pub(crate) fn pattern(&mut self, written: &str) -> Result<Pattern, String> {
        let compiled = self.whole(written, 0).map_err(|why| format!("`{written}`: {why}"))?;
        Ok(Pattern::new(compiled))
    }

    fn whole(&mut self, written: &str, depth: usize) -> Result<Part, String> {
        if depth > DEEPEST {
            return Err("is nested too deeply".to_owned());
        }
        let characters: Vec<char> = written.chars().collect();
        let mut at = 0;
        let part = self.choices(&characters, &mut at, depth)?;
        if at < characters.len() { Err("closes what is not open".to_owned()) } else { Ok(part) }
    }

    /// Reads sequences with bars between them, up to the end or a closing parenthesis.
    fn choices(&mut self, written: &[char], at: &mut usize, depth: usize) -> Result<Part, String> {
        let mut choices = vec![self.sequence(written, at, depth)?];
        while written.get(*at) == Some(&'|') {
            *at += 1;
            choices.push(self.sequence(written, at, depth)?);
        }
        if choices.len() > 1 {
            return Ok(Part::OneOf(Choices::new(choices)));
        }
        choices.pop().ok_or_else(|| "is empty".to_owned())
    }

    fn sequence(&mut self, written: &[char], at: &mut usize, depth: usize) -> Result<Part, String> {
        let mut parts = Vec::new();
        while let Some(c) = written.get(*at).copied().filter(|c| !matches!(c, '|' | ')')) {
            *at += 1;
            match c {
                '(' => {
                    let group = self.choices(written, at, depth + 1)?;
                    if written.get(*at) != Some(&')') {
                        return Err("does not close a parenthesis".to_owned());
                    }
                    *at += 1;
                    parts.push(group);
                }
                '?' => {
                    let part = parts.pop().ok_or("has `?` behind nothing")?;
                    parts.push(Part::Optional(Box::new(part)));
                }
                '<' => parts.push(self.set(written, at, depth)?),
                '*' => {
                    let digits = written[*at..].iter().take_while(|c| c.is_ascii_digit()).count();
                    let most: String = written[*at..*at + digits].iter().collect();
                    let most = most.parse().ok().filter(|most| (1..=LONGEST_GAP).contains(most));
                    parts.push(Part::Gap(most.ok_or("has `*` without a number up to 20")?));
                    *at += digits;
                }
                '^' => parts.push(Part::Start),
                '$' => parts.push(Part::End),
                ' ' => {}
                _ => {
                    *at -= 1;
                    self.literal(written, at, &mut parts)?;
                }
            }
        }
        if parts.is_empty() {
            Err("has an empty choice".to_owned())
        } else {
            Ok(Part::Sequence(parts))
        }
    }

    fn set(&mut self, written: &[char], at: &mut usize, depth: usize) -> Result<Part, String> {
        let name: String = written[*at..].iter().take_while(|c| **c != '>').collect();
        *at += name.chars().count() + 1;
        let set = self.sets.get(&name).ok_or_else(|| format!("has no set <{name}>"))?;
        let set = set.clone();
        self.whole(&set, depth + 1)
    }

    /// Reads words up to the next sign of the notation. A `?` belongs to the last character of Chinese, the last word of English.
    fn literal(
        &mut self,
        written: &[char],
        at: &mut usize,
        parts: &mut Vec<Part>,
    ) -> Result<(), String> {
        let is_sign = |c: &char| "|()<>*^$?".contains(*c);
        let words: String = written[*at..].iter().take_while(|c| !is_sign(c)).collect();
        *at += words.chars().count();
        let split = self.splitter.words(&words);
        if split.is_empty() {
            return Err(format!("has `{words}`, which is no word"));
        }
        parts.extend(split.into_iter().map(|word| Part::Word(self.vocabulary.number(word))));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
