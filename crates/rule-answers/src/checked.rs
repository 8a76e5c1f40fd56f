//! The stream of a small model's answer, whose sentences are checked before they go on. If none
//! remains, the model is asked once more. Not for the checks.

use std::collections::VecDeque;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_ports::{LlmDelta, ProviderError, Usage};

use crate::checks::{Checks, Decision};
use crate::text::{MAX_UNSPOKEN_BYTES, end_of_sentence};

type Delta = Result<LlmDelta, ProviderError>;

/// The second try of an answer.
pub(crate) type Retry = Box<dyn FnOnce() -> BoxStream<'static, Delta> + Send>;

/// What happens with the text of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Each sentence is judged.
    Speaks,
    /// The first sentence of the text claims a deed: it is judged once a call or the end follows.
    Waits,
    /// A sentence was replaced: nothing more is spoken.
    Over,
}

struct Checked {
    /// The model's stream; `None` once the answer has ended.
    model: Option<BoxStream<'static, Delta>>,
    retry: Option<Retry>,
    /// Usage of the first try.
    spent: Option<Usage>,
    checks: Checks,
    phase: Phase,
    /// Begun sentence, and in [`Phase::Waits`] all text from the claim on.
    text: String,
    /// Text that was read in [`Phase::Over`], in bytes.
    unspoken: usize,
    ready: VecDeque<Delta>,
    has_spoken: bool,
    has_called: bool,
}

/// Checks the sentences of an answer. `retry` begins another one if none of them can be spoken.
/// Calls are passed on whatever happens with the text.
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
        phase: Phase::Speaks,
        text: String::new(),
        unspoken: 0,
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
            Ok(LlmDelta::Text(text)) => self.take_text(&text),
            Ok(LlmDelta::Finished { truncated, usage }) => self.finish(truncated, usage),
            Ok(LlmDelta::Calling | LlmDelta::Call(_)) => {
                self.has_called = true;
                self.checks.note_call();
                if self.phase == Phase::Waits {
                    self.phase = Phase::Speaks;
                }
                self.pass_sentences();
                self.pass_rest();
                self.ready.push_back(delta);
            }
            Ok(LlmDelta::Rule(_)) => self.ready.push_back(delta),
            Err(_) => {
                // A claim of an answer that failed is not spoken: the apology follows.
                self.pass_rest();
                self.ready.push_back(delta);
            }
        }
    }

    fn take_text(&mut self, text: &str) {
        if self.phase == Phase::Over {
            self.unspoken += text.len();
        } else {
            self.text.push_str(text);
            self.pass_sentences();
        }
        let held = if self.phase == Phase::Waits { self.text.len() } else { self.unspoken };
        if held > MAX_UNSPOKEN_BYTES {
            self.decline_claim();
            self.model = None;
            let usage = self.spent;
            self.ready.push_back(Ok(LlmDelta::Finished { truncated: false, usage }));
        }
    }

    fn finish(&mut self, truncated: bool, usage: Option<Usage>) {
        self.pass_rest();
        self.decline_claim();
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

    /// Replaces a claim that no call follows.
    fn decline_claim(&mut self) {
        if self.phase == Phase::Waits {
            self.replace(self.checks.declined());
        }
    }

    /// Speaks this text, and nothing more of the model's. The model is read on for its calls and
    /// its usage.
    fn replace(&mut self, text: String) {
        self.speak(text);
        self.phase = Phase::Over;
        self.unspoken = self.text.len();
        self.text.clear();
    }

    fn speak(&mut self, text: String) {
        self.has_spoken = true;
        self.ready.push_back(Ok(LlmDelta::Text(text)));
    }

    /// Passes on the complete sentences of the text, up to a claim.
    fn pass_sentences(&mut self) {
        while self.phase == Phase::Speaks
            && let Some(end) = end_of_sentence(&self.text)
        {
            let rest = self.text.split_off(end);
            let sentence = std::mem::replace(&mut self.text, rest);
            self.pass(sentence);
        }
    }

    /// Passes on a sentence without an end, unless a claim is before it.
    fn pass_rest(&mut self) {
        if self.phase == Phase::Speaks && !self.text.trim().is_empty() {
            let rest = std::mem::take(&mut self.text);
            self.pass(rest);
        }
    }

    fn pass(&mut self, sentence: String) {
        match self.checks.judge(&sentence) {
            Decision::Keep => {
                self.has_spoken |= !sentence.trim().is_empty();
                self.ready.push_back(Ok(LlmDelta::Text(sentence)));
            }
            Decision::Drop => {}
            Decision::Wait => {
                self.text.insert_str(0, &sentence);
                self.phase = Phase::Waits;
            }
            Decision::Replace(text) => self.replace(text),
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
    use hearken_ports::{ToolRequest, TurnLanguage};

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
        let checks = Checks::new(question, TurnLanguage::default(), "Mira", false);
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

    fn call() -> LlmDelta {
        LlmDelta::Call(ToolRequest { name: "light".into(), ..ToolRequest::default() })
    }

    /// Returns the spoken text of an answer of these pieces, and everything else of it.
    async fn passed(question: &str, deltas: Vec<LlmDelta>) -> (String, Vec<LlmDelta>) {
        let model = stream::iter(deltas.into_iter().map(Ok)).boxed();
        let retry = || stream_of(&["never asked"]);
        let checks = Checks::new(question, TurnLanguage::default(), "Mira", false);
        let all: Vec<Delta> = checked(model, Box::new(retry), checks).collect().await;
        let mut text = String::new();
        let mut others = Vec::new();
        for delta in all {
            match delta.unwrap() {
                LlmDelta::Text(piece) => text.push_str(&piece),
                other => others.push(other),
            }
        }
        (text, others)
    }

    #[tokio::test]
    async fn a_call_behind_any_text_is_made() {
        const NAME: &str = "I'm Mira, a voice assistant.";
        const LIGHT: &str = "could you do the hall light";
        let usage = Some(Usage { prompt_tokens: 5, completion_tokens: 2, cost_nano: 0 });
        let end = LlmDelta::Finished { truncated: false, usage };
        // Promises are spoken before the call, and claims of what is not done yet are not.
        for (question, said, spoken) in [
            ("打开灯", "好的，我来帮你打开灯。", "好的，我来帮你打开灯。"),
            ("打开灯", "好的。我来帮你打开灯。请稍等。", "好的。我来帮你打开灯。请稍等。"),
            ("打开灯", "马上为您打开", "马上为您打开"),
            ("打开灯", "好的，已经为您打开灯。", ""),
            (LIGHT, "I'll turn on the light.", "I'll turn on the light."),
            (LIGHT, "Okay. I'll set it to red.", "Okay. I'll set it to red."),
            (LIGHT, "I've turned on the light. Wait.", " Wait."),
            (LIGHT, "The light is now on.", ""),
            (LIGHT, "I am Qwen. I'll turn it on.", NAME),
        ] {
            for before in [vec![LlmDelta::Calling, call()], vec![call()], vec![call(), call()]] {
                for size in [1, 5, 100] {
                    let chars: Vec<char> = said.chars().collect();
                    let text = chars.chunks(size).map(|c| LlmDelta::Text(c.iter().collect()));
                    let all = text.chain(before.clone()).chain([end.clone()]).collect();
                    let (text, others) = passed(question, all).await;
                    let calls = before.iter().chain([&end]).cloned().collect::<Vec<_>>();
                    assert_eq!((text.as_str(), others), (spoken, calls), "{said}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_claim_without_a_call_is_replaced_once_at_the_end() {
        for (question, said, spoken) in [
            ("打开灯", "我来帮你打开灯。灯很亮。", "抱歉，这个我做不到。"),
            ("打开灯", "好的。马上为您打开", "好的。抱歉，这个我做不到。"),
            ("turn on the light", "I've turned it on. Enjoy.", "Sorry, I can't do that."),
        ] {
            let usage = Some(Usage { prompt_tokens: 5, completion_tokens: 2, cost_nano: 0 });
            for truncated in [false, true] {
                let end = LlmDelta::Finished { truncated, usage };
                let all = vec![LlmDelta::Text(said.into()), end.clone()];
                assert_eq!(passed(question, all).await, (spoken.to_owned(), vec![end]));
            }
        }
    }

    #[tokio::test]
    async fn a_model_that_only_writes_on_is_cancelled() {
        for (question, first, spoken) in [
            ("turn on the light", "I've turned it on. ", "Sorry, I can't do that."),
            ("who are you", "I am Qwen. ", "I'm Mira, a voice assistant."),
        ] {
            let first = stream::iter([Ok(LlmDelta::Text(first.into()))]);
            let endless = stream::repeat_with(|| Ok(LlmDelta::Text("And so on. ".into())));
            let model = first.chain(endless).boxed();
            let retry = || stream_of(&["never asked"]);
            let checks = Checks::new(question, TurnLanguage::default(), "Mira", false);
            let all: Vec<Delta> = checked(model, Box::new(retry), checks).collect().await;
            let end = LlmDelta::Finished { truncated: false, usage: None };
            let expected = vec![LlmDelta::Text(spoken.into()), end];
            assert_eq!(all.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
        }
    }

    #[tokio::test]
    async fn a_claim_of_an_answer_that_fails_is_not_spoken() {
        let kind = hearken_ports::ProviderErrorKind::Unavailable;
        let text = LlmDelta::Text("I've turned it on. And ".into());
        let model = stream::iter([Ok(text), Err(ProviderError::new("model", kind))]).boxed();
        let checks = Checks::new("turn on the light", TurnLanguage::default(), "Mira", false);
        let retry = || stream_of(&["never asked"]);
        let all: Vec<Delta> = checked(model, Box::new(retry), checks).collect().await;
        assert!(matches!(all[..], [Err(_)]), "{all:?}");
    }
}
