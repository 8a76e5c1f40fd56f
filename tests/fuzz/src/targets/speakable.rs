//! Streamed Markdown of a model, converted to plain text for speech: independent of the chunks,
//! without leading, trailing or double blanks, and no longer than the input.

use hearken_base::fuzzing::text_pieces;
use hearken_dialogue::Cleaner;

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let whole = Cleaner::whole(text);
    let mut cleaner = Cleaner::default();
    let mut cut: String = text_pieces(text).into_iter().map(|piece| cleaner.push(piece)).collect();
    cut.push_str(&cleaner.finish());
    assert_eq!(cut, whole);
    // The cleaner is ready for the next answer.
    assert_eq!(cleaner.push(text) + &cleaner.finish(), whole);
    assert_eq!(whole, whole.trim_matches([' ', '\n']));
    assert!(!whole.contains("  ") && !whole.contains("\n\n\n"), "{whole:?}");
    assert!(whole.len() <= 3 * text.len(), "{} bytes became {}", text.len(), whole.len());
}
