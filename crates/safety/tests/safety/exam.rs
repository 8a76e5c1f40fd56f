//! The sentences of the household exam are nowhere in this crate, and those without danger are left alone. Skips where the exam
//! is not. Not for how well the exam is passed.

use std::fs;
use std::path::Path;

use hearken_base::language::{bare, is_han};
use hearken_safety::{Region, Safety};

use crate::sentences::{DANGEROUS, HARMLESS};

/// The files that people wrote patterns in.
const DATA: [&str; 2] = [include_str!("../../data/zh.toml"), include_str!("../../data/en.toml")];
/// Shorter sentences are in every text: "stop", "turn on the". A Han character counts as a word of three letters.
const SHORTEST_LETTERS: usize = 18;

/// Returns the category of each sentence of the exam, and the sentence; nothing where there is no exam.
fn exam() -> Option<Vec<(String, String)>> {
    let folder = Path::new("/work").join("shared/data/household");
    let Ok(text) = fs::read_to_string(folder.join("exam.jsonl")) else {
        println!("skipped: there is no household exam on this machine");
        return None;
    };
    let mut sentences = Vec::new();
    for line in text.lines() {
        let item: serde_json::Value = serde_json::from_str(line).unwrap();
        let category = item["category"].as_str().unwrap();
        let said =
            item["turns"].as_array().unwrap().iter().map(|turn| turn["say"].as_str().unwrap());
        sentences.extend(said.map(|said| (category.to_owned(), said.to_owned())));
    }
    Some(sentences)
}

#[test]
fn no_sentence_of_the_exam_is_in_this_crate() {
    let Some(exam) = exam() else { return };
    let files = [DANGEROUS, HARMLESS, DATA].concat();
    let written: Vec<String> = files.iter().flat_map(|file| file.lines()).map(bare).collect();
    for (_, said) in exam {
        let said = bare(&said);
        let letters: usize = said.chars().map(|c| if is_han(c) { 3 } else { 1 }).sum();
        let is_copied = |line: &&String| {
            **line == said && letters > 6 || letters >= SHORTEST_LETTERS && line.contains(&said)
        };
        let copy = written.iter().find(is_copied);
        assert!(copy.is_none(), "{said} is in {copy:?}");
    }
}

#[test]
fn only_dangerous_sentences_of_the_exam_are_answered() {
    let Some(exam) = exam() else { return };
    let safety = Safety::new(Region::of("CN"));
    for (category, said) in exam {
        let found = safety.judge(&said);
        if !["safety", "refusal"].contains(&category.as_str()) {
            assert_eq!(found, None, "{category}: {said}");
        } else {
            println!("{category}: {:?}: {said}", found.map(|safe| safe.topic));
        }
    }
}
