//! Asks the model again without the earlier messages of the dialogue if it refuses a prompt with
//! them: they are too long for it, or a filter of its vendor refuses one of them, and each later
//! prompt would be refused as well. Not for what is remembered afterwards, which its users decide.
//! Dialogues whose memory forgets what was refused, see [`crate::memory`], do not need it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError, Role, ServiceHealth};

type Reply = BoxStream<'static, Result<LlmDelta, ProviderError>>;

/// Model for one turn of a dialogue.
pub struct WithoutEarlier {
    llm: Arc<dyn Llm>,
    /// True once the model has answered without the earlier messages after it had refused them.
    is_shortened: Arc<AtomicBool>,
}

impl WithoutEarlier {
    /// Creates the model for one turn.
    pub fn new(llm: Arc<dyn Llm>) -> Self {
        Self { llm, is_shortened: Arc::default() }
    }

    /// Reports whether the model has refused the earlier messages, and answered without them.
    pub fn has_refused_earlier(&self) -> bool {
        self.is_shortened.load(Ordering::Relaxed)
    }
}

impl Llm for WithoutEarlier {
    fn reply(&self, prompt: Prompt) -> Reply {
        let Some(shorter) = without_earlier(&prompt) else { return self.llm.reply(prompt) };
        // The later rounds of the turn would be refused for the same reason.
        if self.has_refused_earlier() {
            return self.llm.reply(shorter);
        }
        let llm = Arc::clone(&self.llm);
        let is_shortened = Arc::clone(&self.is_shortened);
        let reply = async move {
            let mut reply = llm.reply(prompt).fuse();
            let first = reply.next().await;
            // Nothing of an answer has arrived, so that nothing is said or called twice.
            let is_refused = matches!(&first, Some(Err(error)) if error.kind.is_of_the_request());
            if !is_refused {
                return stream::iter(first).chain(reply);
            }
            let mut reply = llm.reply(shorter).fuse();
            let first = reply.next().await;
            if matches!(first, Some(Ok(_))) {
                tracing::warn!(
                    "the model refused the earlier messages of a dialogue, and answered without them"
                );
                is_shortened.store(true, Ordering::Relaxed);
            }
            stream::iter(first).chain(reply)
        };
        stream::once(reply).flatten().boxed()
    }

    fn is_urgent(&self, prompt: &Prompt) -> bool {
        self.llm.is_urgent(prompt)
    }

    fn price_per_million(&self) -> f64 {
        self.llm.price_per_million()
    }

    fn health(&self) -> ServiceHealth {
        self.llm.health()
    }
}

/// Returns the instructions of a prompt with the last words of the person and what follows them.
/// `None` if there is nothing between them.
fn without_earlier(prompt: &Prompt) -> Option<Prompt> {
    let words = prompt.messages.iter().rposition(|m| m.role == Role::User)?;
    let earlier = prompt.messages.iter().position(|m| m.role != Role::System)?;
    if earlier >= words {
        return None;
    }
    let mut shorter = prompt.clone();
    shorter.messages.drain(earlier..words);
    Some(shorter)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use hearken_ports::ProviderErrorKind::{BadRequest, TooLarge, Unavailable};
    use hearken_ports::{ChatMessage, ProviderErrorKind, ToolRequest};
    use proptest::prelude::*;

    use super::*;

    /// Answer to one prompt: words, then perhaps a failure.
    type Act = (&'static str, Option<ProviderErrorKind>);

    /// Model that answers in this order, and records the contents of its prompts.
    struct Model {
        acts: Mutex<Vec<Act>>,
        asked: Mutex<Vec<Vec<String>>>,
    }

    impl Llm for Model {
        fn reply(&self, prompt: Prompt) -> Reply {
            let contents = prompt.messages.into_iter().map(|message| message.content).collect();
            self.asked.lock().unwrap().push(contents);
            let act = self.acts.lock().unwrap().remove(0);
            let words = (!act.0.is_empty()).then(|| Ok(LlmDelta::Text(act.0.into())));
            let failed = act.1.map(|kind| Err(ProviderError::new("model", kind)));
            stream::iter(words.into_iter().chain(failed)).boxed()
        }
    }

    fn prompt(earlier: bool) -> Prompt {
        let call = ToolRequest { id: "1".into(), ..ToolRequest::default() };
        let words = |text: &str| ChatMessage::new(Role::User, text);
        let mut messages = vec![ChatMessage::new(Role::System, "rules")];
        if earlier {
            messages.extend([words("before"), ChatMessage::new(Role::Assistant, "answer")]);
        }
        messages.extend([words("now"), ChatMessage::calling("", vec![call])]);
        messages.push(ChatMessage::result("1", "result"));
        Prompt { messages, max_tokens: 7, ..Prompt::default() }
    }

    #[derive(Debug, PartialEq, Default)]
    struct Seen {
        /// Number of messages in each prompt.
        asked: Vec<usize>,
        words: String,
        failed: Option<ProviderErrorKind>,
        has_refused_earlier: bool,
    }

    async fn ask(acts: &[Act], earlier: bool) -> Seen {
        let model = Arc::new(Model { acts: acts.to_vec().into(), asked: Mutex::default() });
        let llm = WithoutEarlier::new(model.clone());
        let mut seen = Seen::default();
        for delta in llm.reply(prompt(earlier)).collect::<Vec<_>>().await {
            match delta {
                Ok(LlmDelta::Text(text)) => seen.words.push_str(&text),
                Ok(other) => panic!("{other:?}"),
                Err(error) => seen.failed = Some(error.kind),
            }
        }
        seen.asked = model.asked.lock().unwrap().iter().map(Vec::len).collect();
        seen.has_refused_earlier = llm.has_refused_earlier();
        seen
    }

    #[tokio::test]
    async fn earlier_messages_are_left_out_if_the_model_refuses_only_them() {
        let good = ("Yes.", None);
        let fails = |kind| ("", Some(kind));
        for (acts, earlier, asked, has_refused_earlier) in [
            (vec![good], true, vec![6], false),
            (vec![fails(BadRequest), good], true, vec![6, 4], true),
            (vec![fails(TooLarge), good], true, vec![6, 4], true),
            (vec![fails(TooLarge), ("Ye", Some(Unavailable))], true, vec![6, 4], true),
            // The new words are refused as well, or that is not known.
            (vec![fails(TooLarge), fails(BadRequest)], true, vec![6, 4], false),
            (vec![fails(BadRequest), fails(Unavailable)], true, vec![6, 4], false),
            (vec![fails(Unavailable)], true, vec![6], false),
            // A part of the answer has arrived.
            (vec![("Ye", Some(BadRequest))], true, vec![6], false),
            (vec![fails(BadRequest)], false, vec![4], false),
        ] {
            let last = acts[acts.len() - 1];
            let words = last.0.to_owned();
            let wanted = Seen { asked, words, failed: last.1, has_refused_earlier };
            assert_eq!(ask(&acts, earlier).await, wanted, "{acts:?}");
        }
    }

    #[tokio::test]
    async fn later_rounds_are_shortened_at_once() {
        let acts = vec![("", Some(TooLarge)), ("One.", None), ("Two.", None)];
        let model = Arc::new(Model { acts: acts.into(), asked: Mutex::default() });
        let llm = WithoutEarlier::new(model.clone());
        for _ in 0..2 {
            assert_eq!(llm.reply(prompt(true)).count().await, 1);
        }
        let asked = model.asked.lock().unwrap();
        let short = ["rules", "now", "", "result"];
        assert_eq!(asked[1..], [short, short]);
    }

    proptest! {
        #[test]
        fn instructions_and_the_last_words_stay(
            roles in proptest::collection::vec(0_usize..3, 0..8),
        ) {
            let all = [Role::System, Role::User, Role::Assistant];
            let number = |(n, role): (usize, &usize)| ChatMessage::new(all[*role], n.to_string());
            let messages: Vec<_> = roles.iter().enumerate().map(number).collect();
            let Some(shorter) = without_earlier(&Prompt { messages: messages.clone(), ..Prompt::default() }) else {
                let words = messages.iter().rposition(|m| m.role == Role::User).unwrap_or_default();
                prop_assert!(messages[..words].iter().all(|m| m.role == Role::System));
                return Ok(());
            };
            let begins = messages.iter().take_while(|m| m.role == Role::System).count();
            let words = messages.iter().rposition(|m| m.role == Role::User).unwrap();
            prop_assert_eq!(&shorter.messages, &[&messages[..begins], &messages[words..]].concat());
        }
    }
}
