//! The stream of an answer that ends at a sentence when its time is over. Not for the checks of
//! sentences.

use std::collections::VecDeque;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_base::language::speech_seconds;
use hearken_ports::{LlmDelta, ProviderError};

use crate::text::{end_of_sentence, is_long_text};

/// Minimum length of a requested story, poem or recipe, in seconds of speech.
const STORY_SECONDS: u32 = 100;

type Delta = Result<LlmDelta, ProviderError>;

struct Limited {
    /// The model's stream; `None` once the answer has ended.
    model: Option<BoxStream<'static, Delta>>,
    seconds: f64,
    /// Time to speak what has been passed on, in seconds.
    spoken: f64,
    /// Text after the last end of a sentence.
    begun: String,
    /// Part of `begun` that has been passed on, in bytes.
    passed: usize,
    ready: VecDeque<Delta>,
}

/// Ends an answer before the sentence with which it would be longer than this many seconds. The
/// first sentence is always spoken.
pub(crate) fn limited(
    model: BoxStream<'static, Delta>,
    seconds: u32,
    question: &str,
) -> BoxStream<'static, Delta> {
    let seconds = if is_long_text(question) { seconds.max(STORY_SECONDS) } else { seconds };
    let state = Limited {
        model: Some(model),
        seconds: f64::from(seconds),
        spoken: 0.0,
        begun: String::new(),
        passed: 0,
        ready: VecDeque::new(),
    };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(delta) = state.ready.pop_front() {
                return Some((delta, state));
            }
            match state.model.as_mut()?.next().await {
                Some(Ok(LlmDelta::Text(text))) => state.take(&text),
                Some(delta) => {
                    state.pass(state.begun.len());
                    state.ready.push_back(delta);
                }
                None => state.model = None,
            }
        }
    })
    .boxed()
}

impl Limited {
    fn take(&mut self, text: &str) {
        self.begun.push_str(text);
        while let Some(end) = end_of_sentence(&self.begun) {
            let spoken = self.spoken + speech_seconds(&self.begun[..end]);
            if spoken > self.seconds && self.spoken > 0.0 {
                return self.end();
            }
            self.pass(end);
            self.spoken = spoken;
            self.begun.drain(..end);
            self.passed = 0;
        }
        // A sentence that certainly fits is passed on while it is written.
        let fits = self.spoken + speech_seconds(&self.begun) < self.seconds / 2.0;
        let has_begun = self.passed > 0;
        if fits || has_begun {
            self.pass(self.begun.len());
        }
    }

    /// Passes on the text up to `end`.
    fn pass(&mut self, end: usize) {
        if let Some(text) = self.begun.get(self.passed..end).filter(|text| !text.is_empty()) {
            self.ready.push_back(Ok(LlmDelta::Text(text.to_owned())));
            self.passed = end;
        }
    }

    /// Ends the answer, which cancels the model's.
    fn end(&mut self) {
        self.model = None;
        self.ready.push_back(Ok(LlmDelta::Finished { truncated: false, usage: None }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn said(question: &str, seconds: u32, pieces: &[String]) -> String {
        let deltas = pieces.iter().map(|piece| Ok(LlmDelta::Text(piece.clone())));
        let end = Ok(LlmDelta::Finished { truncated: false, usage: None });
        let model = stream::iter(deltas.chain([end]).collect::<Vec<_>>()).boxed();
        let all: Vec<Delta> = limited(model, seconds, question).collect().await;
        assert!(matches!(all.last(), Some(Ok(LlmDelta::Finished { .. }))), "{all:?}");
        let text = |delta: &Delta| match delta {
            Ok(LlmDelta::Text(text)) => text.clone(),
            _ => String::new(),
        };
        all.iter().map(text).collect()
    }

    /// An answer of this many sentences, each of which takes 4 s.
    fn sentences(count: usize) -> String {
        (0..count)
            .map(|n| format!("Sentence {n:02} takes four seconds, as each of these does. "))
            .collect()
    }

    #[tokio::test]
    async fn an_answer_ends_at_the_last_sentence_that_fits() {
        let whole = sentences(40);
        for size in [1, 3, 7, 60, 5_000] {
            let chars: Vec<char> = whole.chars().collect();
            let pieces: Vec<String> =
                chars.chunks(size).map(|chunk| chunk.iter().collect()).collect();
            let answer = said("why is the sky blue", 30, &pieces).await;
            assert!(
                whole.starts_with(&answer) && answer.trim_end().ends_with('.'),
                "{size}: {answer}"
            );
            let seconds = speech_seconds(&answer);
            assert!((24.0..=30.0).contains(&seconds), "{size}: {seconds} s");
            let story = said("tell me a story", 30, &pieces).await;
            assert!((92.0..=100.0).contains(&speech_seconds(&story)), "{size}");
        }
    }

    #[tokio::test]
    async fn what_fits_is_unchanged_and_the_first_sentence_always_spoken() {
        let short = sentences(3);
        assert_eq!(said("why", 30, std::slice::from_ref(&short)).await, short);
        let unended = "a few words without an end".to_owned();
        assert_eq!(said("why", 30, std::slice::from_ref(&unended)).await, unended);
        let long = format!("{}. And more. ", "word ".repeat(100));
        let answer = said("why", 5, std::slice::from_ref(&long)).await;
        assert_eq!(answer.trim_end(), format!("{}.", "word ".repeat(100)));
    }
}
