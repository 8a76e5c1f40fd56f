//! Wording of comments, documents and the console's texts: markers of unidiomatic English that have
//! a plain replacement (see "Words" in CONTRIBUTING.md). Not for names in code.

use super::tidy::{complain, files};

/// Most uses of "tell" in 10,000 words of comments and documents.
const MOST_TELL: f64 = 2.0;

/// Banned phrases, in lower case, and what to write instead. A phrase matches whole words.
const BANNED: [(&str, &str); 14] = [
    ("anew", "again"),
    ("of now", "current"),
    ("so many", "this many, up to N"),
    ("so few", "this few"),
    ("for so long", "for this long"),
    ("one more is", "further ones are"),
    ("one more waits", "further ones wait"),
    ("stands in", "is in"),
    ("stands there", "is there"),
    ("stands beside", "is beside"),
    ("a yes", "consent, confirmation"),
    ("nobody knows", "is unknown"),
    ("somebody else than", "someone other than"),
    ("tells of", "reports"),
];

/// Returns the prose of a file: comments, or the whole text of a document, without code in
/// backticks.
fn prose(extension: &str, text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        fenced ^= line.trim_start_matches(['/', '!', ' ']).starts_with("```");
        let words = match extension {
            "rs" | "ts" | "svelte" => line.strip_prefix("//"),
            "toml" | "sh" | "yml" | "" => line.strip_prefix('#'),
            _ => Some(line),
        };
        let Some(words) = words.filter(|_| !fenced) else { continue };
        // Every second part is code or a quoted phrase.
        let outside = words.split(['`', '"']).step_by(2).collect::<Vec<_>>().join(" ");
        lines.push((number + 1, outside.to_lowercase()));
    }
    lines
}

/// Returns the words of a line, with one space between.
fn words(line: &str) -> String {
    let parts: Vec<&str> =
        line.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|w| !w.is_empty()).collect();
    format!(" {} ", parts.join(" "))
}

#[test]
fn comments_and_documents_use_the_words_of_the_field() {
    let mut faults = Vec::new();
    let mut total = 0_u32;
    let mut tell = 0_u32;
    for (path, text) in files(&["rs", "md", "toml", "sh", "yml", "ts", "svelte", ""]) {
        let name = path.display().to_string();
        // Generated, licences, or the list of banned phrases itself.
        let foreign = ["LICENSE", "dist/", "api-schema.ts", "words.rs", "fixtures/config"];
        if foreign.iter().any(|part| name.contains(part)) {
            continue;
        }
        let extension = path.extension().map(|x| x.to_string_lossy().into_owned());
        for (number, line) in prose(&extension.unwrap_or_default(), &text) {
            let line = words(&line);
            let mut said = line.split(' ').filter(|word| !word.is_empty());
            total += u32::try_from(said.clone().count()).unwrap_or(0);
            let is_tell = |word: &&str| matches!(*word, "tell" | "tells" | "told" | "telling");
            tell += u32::try_from(said.clone().filter(is_tell).count()).unwrap_or(0);
            if said.next().is_none() {
                continue;
            }
            for (phrase, instead) in BANNED {
                if line.contains(&format!(" {phrase} ")) {
                    faults.push(format!("{name}:{number}: \"{phrase}\": write \"{instead}\""));
                }
            }
        }
    }
    complain(faults);
    let rate = f64::from(tell) * 10_000.0 / f64::from(total);
    assert!(
        rate <= MOST_TELL,
        "\"tell\" and its forms: {rate:.1} in 10,000 words, at most {MOST_TELL}"
    );
}
