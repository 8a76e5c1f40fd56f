//! Converts a streamed answer to plain text and splits it into sentences for speech. Not for the
//! conversion or the splitting themselves.

use super::sentence::SentenceSplitter;
use super::speakable::{Cleaner, TextSink};

/// Sentences to speak, from one answer. They contain the same words as [`Cleaner::whole`] of it.
/// Each is returned as soon as it is certain, and does not depend on the chunks.
#[derive(Debug, Default)]
pub(super) struct SpokenSentences {
    cleaner: Cleaner,
    splitter: SentenceSplitter,
}

/// TextSink that splits plain text into sentences.
struct Cut<'a> {
    splitter: &'a mut SentenceSplitter,
    done: Vec<String>,
}

impl TextSink for Cut<'_> {
    fn put(&mut self, c: char) {
        self.splitter.add(c, &mut self.done);
    }

    fn gap(&mut self, line_ends: bool) {
        self.done.extend(self.splitter.gap(line_ends));
    }
}

impl SpokenSentences {
    /// Adds a chunk and returns the sentences that are now complete.
    pub(super) fn push(&mut self, chunk: &str) -> Vec<String> {
        let mut cut = Cut { splitter: &mut self.splitter, done: Vec::new() };
        // Text becomes plain before it is split into sentences: speech and text clients get the
        // same words. Decision 0017.
        self.cleaner.feed(chunk, &mut cut);
        sayable(cut.done)
    }

    /// Reports whether any part of the answer is not spoken.
    pub(super) fn has_left_out(&self) -> bool {
        self.cleaner.has_left_out()
    }

    /// Ends or pauses the answer: returns the rest of it, and resets the splitter.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut cut = Cut { splitter: &mut self.splitter, done: Vec::new() };
        self.cleaner.end(&mut cut);
        let mut done = cut.done;
        done.extend(self.splitter.finish());
        sayable(done)
    }
}

/// Returns the sentences that contain a word, trimmed.
fn sayable(sentences: Vec<String>) -> Vec<String> {
    sentences
        .into_iter()
        .map(|sentence| sentence.trim().to_owned())
        .filter(|sentence| sentence.chars().any(char::is_alphanumeric))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spoken(chunks: &[&str]) -> Vec<String> {
        let mut spoken = SpokenSentences::default();
        let mut said: Vec<String> = chunks.iter().flat_map(|chunk| spoken.push(chunk)).collect();
        said.extend(spoken.finish());
        said
    }

    #[test]
    fn line_ends_and_emoji_end_sentences() {
        assert_eq!(
            spoken(&[
                "# 天气\n\n- **北京**：晴😊\n- 上海：雨。",
                "\n## Next\n```\n}\n```\nHello! 😊 Bye!"
            ]),
            ["天气", "北京：晴", "上海：雨。", "Next", "Hello!", "Bye!"]
        );
        assert_eq!(spoken(&["**他说：“好。”**然后走了。"]), ["他说：“好。”", "然后走了。"]);
    }

    #[test]
    fn a_sentence_is_returned_before_the_next_starts() {
        let mut spoken = SpokenSentences::default();
        for (chunk, said) in [
            ("Hello!", vec![]),
            (" ", vec!["Hello!"]),
            ("😊 A title", vec![]),
            ("\n", vec!["A title"]),
            ("\n- **你好。**", vec![]),
            ("再", vec!["你好。"]),
        ] {
            assert_eq!(spoken.push(chunk), said, "{chunk}");
        }
        assert_eq!(spoken.finish(), ["再"]);
    }

    proptest! {
        #[test]
        fn speech_and_text_have_the_same_words_for_any_chunks(
            pieces in prop::collection::vec(
                "[a-z]{1,5}|你好|[*_`~]{1,3}|[。，.,!?] ?|\n|\n- |\n# |😊|\\[a\\]\\(b\\)|<br>| ", 0..40
            )
        ) {
            let text = pieces.concat();
            let whole = spoken(&[&text]);
            let chunks: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(&spoken(&chunks), &whole);
            let words = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            prop_assert_eq!(words(&whole.concat()), words(&Cleaner::whole(&text)));
        }
    }
}
