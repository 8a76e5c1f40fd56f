//! The stream of a small model's answer, whose sentences are checked before they go on. If none
//! remains, the model is asked once more. Not for the checks.

use std::collections::VecDeque;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_ports::{LlmDelta, ProviderError, Usage};

use crate::checks::{Checks, Decision};
use crate::text::end_of_sentence;

type Delta = Result<LlmDelta, ProviderError>;

/// The second try of an answer.
pub(crate) type Retry = Box<dyn FnOnce() -> BoxStream<'static, Delta> + Send>;

struct Checked {
    /// The model's stream; `None` once the answer has ended.
    model: Option<BoxStream<'static, Delta>>,
    retry: Option<Retry>,
    /// Usage of the first try.
    spent: Option<Usage>,
    checks: Checks,
    /// Begun sentence.
    text: String,
    ready: VecDeque<Delta>,
    has_spoken: bool,
    has_called: bool,
}

/// Checks the sentences of an answer. `retry` begins another one if none of them can be spoken.
pub(crate) fn checked(
    model: BoxStream<'static, Delta>,
    retry: Retry,
    checks: Checks,
) -> BoxStream<'static, Delta> {
    let state = Checked {
        model: Some(model),
        retry: Some(retry),
        spent: None,
        checks,
        text: String::new(),
        ready: VecDeque::new(),
        has_spoken: false,
        has_called: false,
    };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(delta) = state.ready.pop_front() {
                return Some((delta, state));
            }
            match state.model.as_mut()?.next().await {
                Some(delta) => state.take(delta),
                None => state.model = None,
            }
        }
    })
    .boxed()
}

impl Checked {
    fn take(&mut self, delta: Delta) {
        match delta {
            Ok(LlmDelta::Text(text)) => {
                self.text.push_str(&text);
                while let Some(end) = end_of_sentence(&self.text) {
                    let rest = self.text.split_off(end);
                    let sentence = std::mem::replace(&mut self.text, rest);
                    self.pass(&sentence);
                }
            }
            Ok(LlmDelta::Finished { truncated, usage }) => {
                self.pass_rest();
                if self.model.is_none() {
                    return; // The last sentence was replaced, which has ended the answer.
                }
                let is_empty = !self.has_spoken && !self.has_called;
                if is_empty && let Some(retry) = self.retry.take() {
                    self.spent = usage;
                    self.model = Some(retry());
                    return;
                }
                if is_empty {
                    self.speak(self.checks.without_sentence());
                }
                let usage = sum(self.spent, usage);
                self.ready.push_back(Ok(LlmDelta::Finished { truncated, usage }));
            }
            Ok(LlmDelta::Calling | LlmDelta::Call(_)) => {
                self.pass_rest();
                if self.model.is_some() {
                    self.has_called = true;
                    self.ready.push_back(delta);
                }
            }
            Ok(LlmDelta::Rule(_)) | Err(_) => {
                self.pass_rest();
                if self.model.is_some() {
                    self.ready.push_back(delta);
                }
            }
        }
    }

    fn pass_rest(&mut self) {
        let rest = std::mem::take(&mut self.text);
        if !rest.trim().is_empty() {
            self.pass(&rest);
        }
    }

    fn speak(&mut self, text: String) {
        self.has_spoken = true;
        self.ready.push_back(Ok(LlmDelta::Text(text)));
    }

    /// Ends the answer, which cancels the model's.
    fn end(&mut self) {
        self.model = None;
        self.text.clear();
        self.ready.push_back(Ok(LlmDelta::Finished { truncated: false, usage: None }));
    }

    fn pass(&mut self, sentence: &str) {
        if self.model.is_none() {
            return;
        }
        match self.checks.judge(sentence) {
            Decision::Keep => {
                let is_empty = sentence.trim().is_empty();
                self.ready.push_back(Ok(LlmDelta::Text(sentence.to_owned())));
                self.has_spoken |= !is_empty;
            }
            Decision::Drop => {}
            Decision::Replace(text) => {
                self.speak(text);
                self.end();
            }
        }
    }
}

/// Returns the usage of both tries.
fn sum(first: Option<Usage>, second: Option<Usage>) -> Option<Usage> {
    let (Some(first), Some(second)) = (first, second) else { return first.or(second) };
    Some(Usage {
        prompt_tokens: first.prompt_tokens + second.prompt_tokens,
        completion_tokens: first.completion_tokens + second.completion_tokens,
        cost_nano: first.cost_nano + second.cost_nano,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream_of(pieces: &[&str]) -> BoxStream<'static, Delta> {
        let deltas = pieces.iter().map(|piece| Ok(LlmDelta::Text((*piece).into())));
        let usage = Some(Usage { prompt_tokens: 5, completion_tokens: 2, cost_nano: 0 });
        let end = Ok(LlmDelta::Finished { truncated: false, usage });
        stream::iter(deltas.chain([end]).collect::<Vec<_>>()).boxed()
    }

    /// Returns the spoken text of an answer and of its second try, and the prompt tokens of both.
    async fn tried(question: &str, first: &[&str], second: &[&str]) -> (String, u64) {
        let again = stream_of(second);
        let checks = Checks::new(question, "Mira", false);
        let all: Vec<Delta> =
            checked(stream_of(first), Box::new(move || again), checks).collect().await;
        let ends = all.iter().filter(|d| matches!(d, Ok(LlmDelta::Finished { .. }))).count();
        assert_eq!(ends, 1, "{all:?}");
        let Some(Ok(LlmDelta::Finished { usage, .. })) = all.last() else { panic!("{all:?}") };
        let text = |delta: &Delta| match delta {
            Ok(LlmDelta::Text(text)) => text.clone(),
            _ => String::new(),
        };
        (all.iter().map(text).collect(), usage.map_or(0, |usage| usage.prompt_tokens))
    }

    async fn said(question: &str, pieces: &[&str]) -> String {
        tried(question, pieces, pieces).await.0
    }

    #[tokio::test]
    async fn a_right_answer_is_unchanged() {
        for (question, pieces) in [
            ("what is pi", &["Pi is ", "about 3.1", "4. It is a", " number."][..]),
            ("圆周率是多少", &["圆周率约", "等于3.14。它是", "一个常数"]),
        ] {
            assert_eq!(said(question, pieces).await, pieces.concat());
        }
    }

    #[tokio::test]
    async fn what_follows_a_wrong_sentence_is_not_spoken() {
        let answer =
            said("who are you", &["Hello. I am Qwen, ", "made by Alibaba. I can ", "fly."]);
        assert_eq!(answer.await, "Hello.I'm Mira, a voice assistant.");
    }

    #[tokio::test]
    async fn a_sentence_that_is_replaced_ends_the_answer_once() {
        for pieces in [&["I am Qwen."][..], &["I am Qwen. ", "And more."]] {
            assert_eq!(said("who are you", pieces).await, "I'm Mira, a voice assistant.");
        }
    }

    #[tokio::test]
    async fn an_answer_without_a_sentence_is_tried_once_more() {
        let question = "why is the sky blue";
        let blue = "The air scatters blue light.";
        let (text, tokens) =
            tried(question, &["因为空气散射蓝光，", "所以天是蓝的。"], &[blue]).await;
        assert_eq!((text.as_str(), tokens), (blue, 10));
        let (text, tokens) = tried(question, &[blue], &["never asked"]).await;
        assert_eq!((text.as_str(), tokens), (blue, 5));
    }

    #[tokio::test]
    async fn an_answer_without_a_sentence_declines() {
        assert_eq!(
            said("where is my cat now", &["Where is your cat", " now?"]).await,
            "Sorry, I don't know that."
        );
        assert_eq!(said("猫在哪里睡觉", &[]).await, "抱歉，这个我不知道。");
    }
}
