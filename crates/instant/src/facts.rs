//! Facts that do not change, in tables whose rows are found by their names. Not for the sentences that ask for them, which are in
//! the files of templates.

use std::collections::HashMap;
use std::sync::LazyLock;

use hearken_base::language::{Language, is_han};
use serde::Deserialize;

use crate::normalise::words_of;

/// The facts of the crate's file, which a test reads.
pub(crate) static FACTS: LazyLock<Facts> = LazyLock::new(|| Facts::builtin().unwrap_or_default());

/// Fewest letters of an English word that may also have an `s` at its end.
const FEWEST_LETTERS: usize = 3;

/// Sign before what a recogniser writes for the first name of a column.
const MISHEARD: char = '~';

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FactsFile {
    tables: Vec<TableEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableEntry {
    slots: Vec<String>,
    rows: Vec<String>,
}

/// Row that was found by a name of one of its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    table: usize,
    row: usize,
    column: usize,
    /// The name, as it is written.
    name: String,
}

/// Name of a row.
#[derive(Debug, Clone)]
struct Name {
    words: Vec<String>,
    written: String,
    row: usize,
}

/// Column by whose names rows are found.
#[derive(Debug, Clone)]
struct Column {
    slot: String,
    table: usize,
    column: usize,
    /// Names by their first word, the longest first.
    names: HashMap<String, Vec<Name>>,
}

/// First names of a row: for each column in Chinese and in English.
type Row = Vec<(String, String)>;

/// All facts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    columns: Vec<Column>,
    tables: Vec<Vec<Row>>,
}

/// Returns the words of a name without the article.
fn name_words(name: &str) -> Vec<String> {
    let mut words = words_of(name).words;
    if words.len() > 1 && words.first().is_some_and(|word| is_article(word)) {
        words.remove(0);
    }
    words
}

fn is_article(word: &str) -> bool {
    matches!(word, "the" | "a" | "an")
}

/// Reports whether a word is the last one of a name, or its plural or genitive.
fn is_last(word: &str, wanted: &str) -> bool {
    let is_inflected = || {
        wanted.len() >= FEWEST_LETTERS
            && wanted.is_ascii()
            && word.strip_prefix(wanted).is_some_and(|end| matches!(end, "s" | "es"))
    };
    word == wanted || is_inflected()
}

impl Name {
    fn is_at(&self, words: &[String]) -> bool {
        let Some((last, before)) = self.words.split_last() else { return false };
        words.get(..before.len()).is_some_and(|start| start == before)
            && words.get(before.len()).is_some_and(|word| is_last(word, last))
    }
}

impl Facts {
    /// Reads the file of the crate; returns what is wrong with it.
    fn builtin() -> Result<Self, String> {
        let file: FactsFile =
            toml::from_str(include_str!("../templates/facts.toml")).map_err(|e| e.to_string())?;
        let mut facts = Self::default();
        for entry in &file.tables {
            facts.add(entry)?;
        }
        Ok(facts)
    }

    fn add(&mut self, entry: &TableEntry) -> Result<(), String> {
        let table = self.tables.len();
        let start = self.columns.len();
        for (column, slot) in entry.slots.iter().enumerate() {
            self.columns.push(Column { slot: slot.clone(), table, column, names: HashMap::new() });
        }
        let mut rows = Vec::new();
        for (row, text) in entry.rows.iter().enumerate() {
            let cells: Vec<&str> = text.split('|').collect();
            if !cells.len().is_multiple_of(2) {
                return Err(format!("`{text}`: a column has two parts; add a `|`"));
            }
            for (at, cell) in cells.iter().enumerate() {
                let Some(column) =
                    self.columns.get_mut(start..).and_then(|all| all.get_mut(at / 2))
                else {
                    break;
                };
                let spoken = cell.split('/').next().unwrap_or_default();
                for name in cell.split('/').filter(|name| !name.is_empty()) {
                    match name.strip_prefix(MISHEARD) {
                        Some(misheard) => column.add(misheard, spoken, row),
                        None => column.add(name, name, row),
                    }
                }
            }
            let first = |cell: &&str| cell.split('/').next().unwrap_or_default().to_owned();
            rows.push(
                cells
                    .chunks(2)
                    .map(|pair| {
                        (
                            pair.first().map(first).unwrap_or_default(),
                            pair.get(1).map(first).unwrap_or_default(),
                        )
                    })
                    .collect(),
            );
        }
        self.tables.push(rows);
        Ok(())
    }

    /// Returns the place of the slot that templates call so.
    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.slot == name)
    }

    /// Returns the names of all slots, for messages.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.slot.as_str())
    }

    /// Reads the longest name of a slot with which `words` begin: the number of words, and the row.
    pub(crate) fn read(&self, slot: usize, words: &[String]) -> Option<(usize, Fact)> {
        let column = self.columns.get(slot)?;
        let article = usize::from(words.len() > 1 && is_article(words.first()?));
        let words = words.get(article..)?;
        let first = words.first()?;
        let singular = first.strip_suffix("es").filter(|word| column.names.contains_key(*word));
        let keys = [Some(first.as_str()), first.strip_suffix('s'), singular];
        let found = keys.into_iter().flatten().filter_map(|key| column.names.get(key)).flatten();
        let name = found.filter(|name| name.is_at(words)).max_by_key(|name| name.words.len())?;
        let fact = Fact {
            table: column.table,
            row: name.row,
            column: column.column,
            name: name.written.clone(),
        };
        Some((article + name.words.len(), fact))
    }

    /// Returns what a column of a row says; `None` if it says nothing in the language.
    pub(crate) fn cell(&self, fact: &Fact, column: usize, language: Language) -> Option<&str> {
        let cell = self.tables.get(fact.table)?.get(fact.row)?.get(column)?;
        let text = if language == Language::Chinese { &cell.0 } else { &cell.1 };
        Some(text.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns a column of a row, as it was said if the row was found by it.
    pub(crate) fn said<'a>(
        &'a self,
        fact: &'a Fact,
        column: usize,
        language: Language,
    ) -> Option<&'a str> {
        let is_right = fact.name.chars().any(is_han) == (language == Language::Chinese);
        if column == fact.column && is_right {
            return Some(&fact.name);
        }
        self.cell(fact, column, language)
    }
}

impl Column {
    /// Adds a name of a row, and how it is written.
    fn add(&mut self, name: &str, written: &str, row: usize) {
        let words = name_words(name);
        let Some(first) = words.first().cloned() else { return };
        let name = Name { words, written: written.to_owned(), row };
        self.names.entry(first).or_default().push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_right_and_no_name_stands_for_two_rows() {
        let facts = Facts::builtin().unwrap();
        assert!(facts.tables.iter().map(Vec::len).sum::<usize>() > 1_000);
        for column in facts.columns.iter().filter(|column| column.column == 0) {
            for names in column.names.values() {
                for name in names {
                    let same = names.iter().filter(|other| other.words == name.words);
                    let rows: Vec<usize> = same.map(|other| other.row).collect();
                    let is_one = rows.iter().all(|row| *row == name.row);
                    assert!(is_one, "{}: {}", column.slot, name.written);
                }
            }
        }
    }

    #[test]
    fn names_are_read_with_article_plural_and_genitive() {
        let facts = Facts::builtin().unwrap();
        let read = |slot: &str, text: &str| {
            let (length, fact) =
                facts.read(facts.slot(slot).unwrap(), &words_of(text).words).unwrap();
            let value = facts.cell(&fact, 1, Language::from_key(text).unwrap_or_default());
            (length, value.unwrap_or_default().to_owned())
        };
        assert_eq!(read("country", "the netherlands"), (2, "Amsterdam".to_owned()));
        assert_eq!(read("country", "spain's capital"), (1, "Madrid".to_owned()));
        assert_eq!(read("country", "guinea bissau"), (2, "Bissau".to_owned()));
        assert_eq!(read("legs", "spiders have"), (1, "8 legs".to_owned()));
        assert_eq!(read("country", "几内亚比绍的首都"), (5, "比绍".to_owned()));
    }
}
