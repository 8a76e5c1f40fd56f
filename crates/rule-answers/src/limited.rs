//! The stream of an answer whose text ends at a sentence when its time is over. Not for the checks
//! of sentences.

use std::collections::VecDeque;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_base::language::speech_seconds;
use hearken_ports::{LlmDelta, ProviderError};

use crate::text::{MAX_UNSPOKEN_BYTES, end_of_sentence, is_long_text};

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
    /// Text that was read after the time was over, in bytes; `None` before that.
    unspoken: Option<usize>,
    ready: VecDeque<Delta>,
}

/// Ends the text of an answer before the sentence with which it would be longer than this many
/// seconds. The first sentence is always spoken, and calls behind the text are passed on.
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
        unspoken: None,
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
        if let Some(unspoken) = self.unspoken {
            return self.leave_out(unspoken + text.len());
        }
        self.begun.push_str(text);
        while let Some(end) = end_of_sentence(&self.begun) {
            let spoken = self.spoken + speech_seconds(&self.begun[..end]);
            if spoken > self.seconds && self.spoken > 0.0 {
                let unspoken = self.begun.len();
                self.begun.clear();
                return self.leave_out(unspoken);
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

    /// Counts text that is not spoken. The model is read on for its calls and its usage, and is
    /// cancelled if it only writes on.
    fn leave_out(&mut self, unspoken: usize) {
        self.unspoken = Some(unspoken);
        if unspoken > MAX_UNSPOKEN_BYTES {
            self.model = None;
            self.ready.push_back(Ok(LlmDelta::Finished { truncated: false, usage: None }));
        }
    }
}

#[cfg(test)]
mod tests {
    use hearken_ports::{ToolRequest, Usage};

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

    fn call(name: &str) -> LlmDelta {
        LlmDelta::Call(ToolRequest { name: name.into(), ..ToolRequest::default() })
    }

    fn text(text: &str) -> LlmDelta {
        LlmDelta::Text(text.to_owned())
    }

    #[tokio::test]
    async fn calls_and_usage_behind_a_text_that_is_too_long_are_passed_on() {
        let usage = Some(Usage { prompt_tokens: 5, completion_tokens: 9, cost_nano: 1 });
        let chinese = "这一句话说出来大约要用四秒钟的时间。".repeat(12);
        for whole in [sentences(12), chinese] {
            for (truncated, calls) in [
                (false, vec![LlmDelta::Calling, call("a"), call("b")]),
                (false, vec![call("a"), text("And more. "), call("b")]),
                (true, vec![LlmDelta::Calling]),
                (true, Vec::new()),
            ] {
                let end = LlmDelta::Finished { truncated, usage };
                let all = [vec![text(&whole)], calls.clone(), vec![end.clone()]].concat();
                let model = stream::iter(all.into_iter().map(Ok)).boxed();
                let passed: Vec<LlmDelta> =
                    limited(model, 30, "why").map(Result::unwrap).collect().await;
                let is_text = |delta: &&LlmDelta| matches!(delta, LlmDelta::Text(_));
                let spoken: String = passed
                    .iter()
                    .map(|delta| match delta {
                        LlmDelta::Text(text) => text.as_str(),
                        _ => "",
                    })
                    .collect();
                assert!(whole.starts_with(&spoken) && spoken.len() < whole.len(), "{spoken}");
                let others: Vec<_> = passed.iter().filter(|d| !is_text(d)).cloned().collect();
                let calls = calls.into_iter().filter(|delta| !is_text(&delta));
                assert_eq!(others, calls.chain([end]).collect::<Vec<_>>());
            }
        }
    }

    #[tokio::test]
    async fn a_model_that_only_writes_on_is_cancelled() {
        let endless = stream::repeat_with(|| Ok(text(&sentences(1)))).boxed();
        let all: Vec<Delta> = limited(endless, 30, "why").collect().await;
        let end = LlmDelta::Finished { truncated: false, usage: None };
        assert_eq!(all.last().unwrap().as_ref().unwrap(), &end);
    }
}
