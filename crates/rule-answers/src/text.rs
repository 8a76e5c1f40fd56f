//! Sentences and words of a text. Not for what an answer may say.

/// Longest text that is held back for the end of its sentence, in bytes.
const MAX_SENTENCE_BYTES: usize = 600;

/// Most text of a model's answer that is read behind its spoken end for a call that may follow, in
/// bytes.
pub(crate) const MAX_UNSPOKEN_BYTES: usize = 4 << 10;

/// Words of a request for a long text.
const LONG_TEXT: [&str; 14] = [
    "story", "tale", "poem", "song", "lyrics", "essay", "joke", "recipe", "故事", "童话", "诗",
    "歌词", "作文", "笑话",
];

/// Reports whether a text, in lower case, contains one of the parts.
pub(crate) fn contains_any(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

/// Returns the words of a text without punctuation, except apostrophes.
pub(crate) fn words(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).collect()
}

/// Reports whether a question asks for a long text.
pub(crate) fn is_long_text(question: &str) -> bool {
    contains_any(&question.to_lowercase(), &LONG_TEXT)
}

/// Returns where the first complete sentence of a text ends, in bytes.
pub(crate) fn end_of_sentence(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let ends = match c {
            '。' | '！' | '？' | '\n' => true,
            // A full stop may be in a number or a name: the next character decides.
            '.' | '!' | '?' => chars.peek().is_some_and(|(_, next)| next.is_whitespace()),
            _ => false,
        };
        if ends || end > MAX_SENTENCE_BYTES {
            return Some(end);
        }
    }
    None
}
