//! What a device's voice is given: an answer as it comes, made plain and then cut into sentences.
//! Not for how either is done.

use super::sentence::SentenceSplitter;
use super::speakable::{Cleaner, Outlet};

/// Sentences to say, from one answer. They hold the same words as [`Cleaner::whole`] of it, and
/// come as soon as they are certain, however the answer was chunked.
#[derive(Debug, Default)]
pub(super) struct SpokenSentences {
    cleaner: Cleaner,
    splitter: SentenceSplitter,
}

/// Plain text on its way into sentences.
struct Cut<'a> {
    splitter: &'a mut SentenceSplitter,
    done: Vec<String>,
}

impl Outlet for Cut<'_> {
    fn put(&mut self, c: char) {
        self.splitter.add(c, &mut self.done);
    }

    fn gap(&mut self, line_ends: bool) {
        self.done.extend(self.splitter.gap(line_ends));
    }
}

impl SpokenSentences {
    /// Takes a chunk and returns the sentences that are now complete.
    pub(super) fn push(&mut self, chunk: &str) -> Vec<String> {
        let mut cut = Cut { splitter: &mut self.splitter, done: Vec::new() };
        self.cleaner.feed(chunk, &mut cut);
        sayable(cut.done)
    }

    /// The answer has ended or pauses: returns the rest of it, and begins anew.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut cut = Cut { splitter: &mut self.splitter, done: Vec::new() };
        self.cleaner.end(&mut cut);
        let mut done = cut.done;
        done.extend(self.splitter.finish());
        sayable(done)
    }
}

/// Sentences with a word in them, without the white space around them.
fn sayable(sentences: Vec<String>) -> Vec<String> {
    sentences
        .into_iter()
        .map(|sentence| sentence.trim().to_owned())
        .filter(|sentence| sentence.chars().any(char::is_alphanumeric))
        .collect()
}
