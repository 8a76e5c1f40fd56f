//! Streamed Markdown of a model, made plain for speech: the same however it is cut into chunks,
//! without blanks at its ends or doubled, and no longer than it was.

use hearken_base::fuzzing::text_pieces;
use hearken_dialogue::Cleaner;

/// Tries one input.
///
/// # Panics
/// Panics if a promise above is broken.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let whole = Cleaner::whole(text);
    let mut cleaner = Cleaner::default();
    let mut cut: String = text_pieces(text).into_iter().map(|piece| cleaner.push(piece)).collect();
    cut.push_str(&cleaner.finish());
    assert_eq!(cut, whole);
    // It is ready for the next answer.
    assert_eq!(cleaner.push(text) + &cleaner.finish(), whole);
    assert_eq!(whole, whole.trim_matches([' ', '\n']));
    assert!(!whole.contains("  ") && !whole.contains("\n\n\n"), "{whole:?}");
    assert!(whole.len() <= 3 * text.len(), "{} bytes became {}", text.len(), whole.len());
}
