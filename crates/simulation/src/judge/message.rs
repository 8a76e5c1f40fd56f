//! The messages that people send: each is known again wherever it turns up. Not for what became of
//! one.

use std::fmt;

/// A message of a client in a conversation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) conversation: u16,
    pub(crate) client: u16,
    pub(crate) number: u16,
}

impl Message {
    /// What is sent.
    pub(crate) fn text(self) -> String {
        format!("msg:{}:{}:{};", self.conversation, self.client, self.number)
    }

    /// What the answer contains.
    pub(crate) fn answer(self) -> String {
        self.text().replace("msg:", "re:")
    }

    /// How often the model calls a tool before it answers.
    pub(crate) fn calls(self) -> usize {
        [0, 1, 0, 2, 0][usize::from(self.conversation * 7 + self.client * 3 + self.number) % 5]
    }

    /// Finds a message, or its answer, in a text.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let from = text.find("msg:").map(|at| at + 4).or(text.find("re:").map(|at| at + 3))?;
        let mut numbers = text[from..].split(';').next()?.split(':').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { conversation: next()?, client: next()?, number: next()? })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.conversation, self.client, self.number)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
