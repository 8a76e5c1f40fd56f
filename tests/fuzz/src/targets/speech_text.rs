//! Texts of the speech service, for synthesis and from recognition: split into clauses without
//! losing a word and into runs of one language each, with numbers as words; cleaning a transcript
//! is idempotent.

use hearken_base::language::is_han;
use hearken_engines::speech::plan;
use hearken_engines::speech::text::script::{self, Language};
use hearken_engines::speech::text::{clauses, cleanup, normalise_zh};

/// Maximum weight of a clause: 241 characters, each of which may be a mark.
const MAX_WEIGHT: usize = 4 * (2 * 120 + 1);

fn words(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let pieces = clauses::split(text);
    assert_eq!(words(&pieces.concat()), words(text));
    for piece in &pieces {
        assert!(!words(piece).is_empty() && piece.trim() == piece);
        assert!(clauses::weight(piece) <= MAX_WEIGHT, "{piece:?}");
    }
    let normal = normalise_zh::normalise(text);
    assert!(!normal.contains(|c: char| c.is_ascii_digit()), "{normal:?}");
    assert_eq!(normalise_zh::normalise(&normal), normal);
    for run in script::split(text) {
        assert!(!words(&run.text).is_empty());
        let letters = run.text.chars().filter(|c| c.is_alphabetic());
        match run.language {
            Language::English => assert!(!run.text.contains(is_han), "{run:?}"),
            Language::Chinese => drop(letters),
        }
    }
    let units = plan::units(text);
    assert!(units.last().is_none_or(|last| last.pause.is_zero()));
    assert!(units.iter().all(|unit| !words(&unit.text).is_empty()));
    let tidy = cleanup::tidy(text);
    assert!(tidy.is_empty() || !words(&tidy).is_empty());
    assert_eq!(tidy.trim(), tidy);
}
