//! Patterns of words, and texts that they are looked for in. All places of a text are tried at once, as bits, so that the time
//! grows with the length of text and pattern only. An index from words to patterns leaves only those to be tried that may match.
//! Not for what a match means.
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

/// Patterns of one list of a file: the numbers of their branches, which follow each other.
pub(crate) type List = Range<usize>;

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
struct Vocabulary(HashMap<String, usize>);

impl Vocabulary {
    fn number(&mut self, word: String) -> usize {
        let next = self.0.len();
        *self.0.entry(word).or_insert(next)
    }
}

/// A text in which patterns are looked for.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// The words of the vocabulary that the text has, in the order of their numbers.
    present: Vec<usize>,
    /// The places of each of them.
    places: Vec<Places>,
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
    /// Returns the text of these words, for these patterns.
    pub(crate) fn new(words: &[String], patterns: &Patterns) -> Self {
        let mut text = Self {
            present: Vec::new(),
            places: Vec::new(),
            open: Places::default(),
            starts: Places::default(),
            ends: Places::default(),
            length: 0,
            sentences: Vec::new(),
            clauses: Vec::new(),
        };
        text.starts.add(0);
        let mut known = Vec::new();
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
            known.extend(patterns.vocabulary.0.get(word).map(|number| (*number, place)));
        }
        known.sort_unstable();
        for (number, place) in known {
            text.add(number, place);
        }
        text.ends.add(text.length);
        text.sentences.push(text.length);
        text.clauses.push(text.length);
        text
    }

    /// Notes that the word of this number is at this place. Words are added in the order of their numbers.
    fn add(&mut self, number: usize, place: usize) {
        if self.present.last() != Some(&number) {
            self.present.push(number);
            self.places.push(Places::default());
        }
        if let Some(places) = self.places.last_mut() {
            places.add(place);
        }
    }

    fn places(&self, number: usize) -> Option<&Places> {
        self.places.get(self.present.binary_search(&number).ok()?)
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

    /// Reports whether a part has a word that no pattern knows, such as the name of a person.
    pub(crate) fn has_unknown(&self, part: &Range<usize>) -> bool {
        let known = self.places.iter().fold(Places::default(), |all, places| all.or(places));
        let words = Places::between(part.start, part.end).and(&self.open);
        !words.without(&known).is_empty()
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
    pub(crate) fn hide(&mut self, pattern: &Pattern<'_>) {
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
    fn matched(&self, pattern: &Pattern<'_>, from: usize, to: usize, words: &mut Places) {
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
    pub(crate) fn hide_in_clauses(&mut self, pattern: &Pattern<'_>) {
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
#[derive(Debug)]
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
#[derive(Debug, Default)]
struct Choices {
    /// The first words of those that begin with a word, in the order of their numbers. They are apart from the parts, so that
    /// a search reads little memory.
    first_words: Vec<usize>,
    /// The parts that begin with them.
    begun: Vec<Part>,
    others: Vec<Part>,
}

impl Choices {
    fn new(parts: Vec<Part>) -> Self {
        let mut choices = Self::default();
        let mut begun = Vec::new();
        for part in parts.into_iter().flat_map(Part::branches) {
            match part.first_word() {
                Some(word) => begun.push((word, part)),
                None => choices.others.push(part),
            }
        }
        begun.sort_by_key(|(word, _)| *word);
        for (word, part) in begun {
            choices.first_words.push(word);
            choices.begun.push(part);
        }
        choices
    }

    fn after(&self, before: &Places, text: &Text) -> Places {
        let mut places = Places::default();
        for word in &text.present {
            let from = self.first_words.partition_point(|first| first < word);
            let begun = self.first_words[from..].iter().zip(&self.begun[from..]);
            let same = begun.take_while(|(first, _)| *first == word);
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

    /// Returns the parts of which one is enough: of a part that is only choices each of them, else the part itself.
    fn branches(self) -> Vec<Self> {
        match self {
            Self::Sequence(parts) if parts.len() == 1 => {
                parts.into_iter().flat_map(Self::branches).collect()
            }
            Self::OneOf(choices) => choices.begun.into_iter().chain(choices.others).collect(),
            part => vec![part],
        }
    }

    /// Returns words of which every match of this part has at least one, if there are such words: those that texts are least
    /// likely to have, by how often the patterns use each word. Words in many patterns are in many texts, too.
    fn needed(&self, uses: &[usize]) -> Option<Vec<usize>> {
        match self {
            Self::Word(number) => Some(vec![*number]),
            Self::Sequence(parts) => {
                let needed = parts.iter().filter_map(|part| part.needed(uses));
                needed.min_by_key(|words| -> usize { words.iter().map(|word| uses[*word]).sum() })
            }
            Self::OneOf(choices) => {
                let parts = choices.begun.iter().chain(&choices.others);
                let needed: Option<Vec<_>> = parts.map(|part| part.needed(uses)).collect();
                let mut words = needed?.concat();
                words.sort_unstable();
                words.dedup();
                Some(words)
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

/// A part of which a match is one of a whole pattern: a pattern of several choices has a branch for each.
#[derive(Debug)]
struct Branch {
    /// Number of the first branch of the same pattern.
    pattern: usize,
    part: Part,
}

/// The compiled patterns of one file.
#[derive(Debug)]
pub(crate) struct Patterns {
    vocabulary: Vocabulary,
    /// Pattern after pattern.
    branches: Vec<Branch>,
    /// For each word the branches that may match in a text with it. A branch is there for each word of one set of which every
    /// match has a word.
    by_word: Vec<Vec<usize>>,
    /// The branches without such a set.
    always: Vec<usize>,
}

impl Patterns {
    /// Returns the patterns that may match in a text, or in what is left of it when words are hidden. They are a few of
    /// thousands, and the others are not read.
    pub(crate) fn candidates(&self, text: &Text) -> Candidates<'_> {
        let mut branches = self.always.clone();
        branches.extend(text.present.iter().filter_map(|word| self.by_word.get(*word)).flatten());
        branches.sort_unstable();
        branches.dedup();
        Candidates { patterns: self, branches }
    }

    /// Returns the number of the pattern of a branch.
    fn pattern(&self, branch: usize) -> Option<usize> {
        self.branches.get(branch).map(|branch| branch.pattern)
    }
}

/// Patterns that may match in one text.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    patterns: &'a Patterns,
    /// Their branches that may match, by number.
    branches: Vec<usize>,
}

impl Candidates<'_> {
    fn branches(&self, list: &List) -> &[usize] {
        let from = self.branches.partition_point(|branch| *branch < list.start);
        let to = self.branches.partition_point(|branch| *branch < list.end);
        self.branches.get(from..to).unwrap_or_default()
    }

    /// Returns the first branch of a list.
    pub(crate) fn first(&self, list: &List) -> Option<usize> {
        self.branches(list).first().copied()
    }

    /// Returns the patterns of a list, in their order.
    pub(crate) fn of(&self, list: &List) -> impl Iterator<Item = Pattern<'_>> {
        let patterns = self.patterns;
        let same =
            move |one: &usize, next: &usize| patterns.pattern(*one) == patterns.pattern(*next);
        self.branches(list).chunk_by(same).map(move |branches| Pattern { patterns, branches })
    }

    /// Reports whether a text has a pattern of a list.
    pub(crate) fn has(&self, list: &List, text: &Text) -> bool {
        self.of(list).any(|pattern| pattern.is_in(text))
    }

    /// Returns the matches of the patterns of a list.
    pub(crate) fn matches(&self, list: &List, text: &Text) -> Vec<Range<usize>> {
        self.of(list).flat_map(|pattern| pattern.matches(text)).collect()
    }

    /// Returns those that go across no pause.
    pub(crate) fn matches_in_clauses(&self, list: &List, text: &Text) -> Vec<Range<usize>> {
        let mut found = self.matches(list, text);
        found.retain(|part| !text.has_pause(part));
        found
    }
}

/// A pattern that may match in a text.
#[derive(Debug)]
pub(crate) struct Pattern<'a> {
    patterns: &'a Patterns,
    /// The branches that may match.
    branches: &'a [usize],
}

impl Pattern<'_> {
    /// Reports whether the text has words that match.
    fn is_in(&self, text: &Text) -> bool {
        !self.after(&Places::between(0, text.length + 1), text).is_empty()
    }

    /// Returns the places behind matches that begin at these places.
    fn after(&self, before: &Places, text: &Text) -> Places {
        let all = &self.patterns.branches;
        let branches = self.branches.iter().filter_map(|number| all.get(*number));
        branches
            .fold(Places::default(), |places, branch| places.or(&branch.part.after(before, text)))
    }

    /// Returns the shortest match from each place.
    fn matches(&self, text: &Text) -> Vec<Range<usize>> {
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
    splitter: &'a Splitter,
    /// The sets of the file, as they are written.
    sets: &'a HashMap<String, String>,
    vocabulary: Vocabulary,
    /// How often the patterns have each word of the vocabulary.
    uses: Vec<usize>,
    branches: Vec<Branch>,
    faults: Vec<String>,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(splitter: &'a Splitter, sets: &'a HashMap<String, String>) -> Self {
        Self {
            splitter,
            sets,
            vocabulary: Vocabulary::default(),
            uses: Vec::new(),
            branches: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Compiles the patterns of a list.
    pub(crate) fn list(&mut self, written: &[String]) -> List {
        let first = self.branches.len();
        for one in written {
            match self.whole(one, 0) {
                Ok(part) => {
                    let pattern = self.branches.len();
                    let branches = part.branches().into_iter();
                    self.branches.extend(branches.map(|part| Branch { pattern, part }));
                }
                Err(why) => self.faults.push(format!("`{one}`: {why}")),
            }
        }
        first..self.branches.len()
    }

    /// Returns the compiled patterns; an error names each wrong pattern and what is wrong in it.
    pub(crate) fn finish(self) -> Result<Patterns, String> {
        if !self.faults.is_empty() {
            return Err(self.faults.join("; "));
        }
        let mut by_word = vec![Vec::new(); self.uses.len()];
        let mut always = Vec::new();
        for (number, branch) in self.branches.iter().enumerate() {
            match branch.part.needed(&self.uses) {
                Some(words) => words.into_iter().for_each(|word| by_word[word].push(number)),
                None => always.push(number),
            }
        }
        Ok(Patterns { vocabulary: self.vocabulary, branches: self.branches, by_word, always })
    }

    /// Returns the number of a word of a pattern.
    fn word(&mut self, word: String) -> usize {
        let number = self.vocabulary.number(word);
        if number == self.uses.len() {
            self.uses.push(0);
        }
        self.uses[number] += 1;
        number
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
        parts.extend(split.into_iter().map(|word| Part::Word(self.word(word))));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
