//! A model that refuses some prompts, as one with a filter or a small context does. Not for prompts
//! with tools.

use std::sync::Mutex;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_ports::{ChatMessage, Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind, Role};

/// Decides whether these messages are refused. They are those after the instructions.
pub type Refuses = Box<dyn Fn(&[ChatMessage]) -> bool + Send + Sync>;

/// Model that repeats the last words, unless it refuses the prompt.
pub struct RefusingLlm {
    refuses: Mutex<Refuses>,
    asked: Mutex<Vec<Vec<String>>>,
}

impl RefusingLlm {
    /// Creates a model that refuses nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { refuses: Mutex::new(Box::new(|_| false)), asked: Mutex::default() }
    }

    /// Sets what it refuses from now on.
    pub fn refuse(&self, refuses: impl Fn(&[ChatMessage]) -> bool + Send + Sync + 'static) {
        *self.refuses.lock().expect("no test panics while it holds this") = Box::new(refuses);
    }

    /// Returns the contents of the prompts since the last call, without their instructions.
    pub fn take_asked(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.asked.lock().expect("no test panics while it holds this"))
    }
}

impl Default for RefusingLlm {
    fn default() -> Self {
        Self::new()
    }
}

impl Llm for RefusingLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let messages = &prompt.messages[1..];
        let contents = messages.iter().map(|message| message.content.clone()).collect();
        self.asked.lock().expect("no test panics while it holds this").push(contents);
        if self.refuses.lock().expect("no test panics while it holds this")(messages) {
            let refused = ProviderError::new("refusing", ProviderErrorKind::BadRequest);
            return stream::iter([Err(refused)]).boxed();
        }
        let words = messages.iter().rfind(|message| message.role == Role::User);
        let words = words.map(|message| message.content.as_str()).unwrap_or_default();
        let text = Ok(LlmDelta::Text(format!("To {words}.")));
        stream::iter([text, Ok(LlmDelta::Finished { truncated: false, usage: None })]).boxed()
    }
}
