//! Messages that people send: each can be recognised wherever it appears. Not for their outcomes.

use std::fmt;

/// A message of a client in a conversation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) conversation: u16,
    pub(crate) client: u16,
    pub(crate) number: u16,
}

/// Number of the first conversation with a text client.
pub(crate) const FIRST_TEXT: u16 = 1_000;
/// Number of the first conversation with a device.
pub(crate) const FIRST_DEVICE: u16 = 2_000;
/// Number of a conversation's last messages, which must be answered.
pub(crate) const LAST: u16 = 99;

impl Message {
    /// Whether an application sends it.
    pub(crate) fn is_of_application(self) -> bool {
        self.conversation < FIRST_TEXT
    }

    /// Whether a device sends it.
    pub(crate) fn is_spoken(self) -> bool {
        self.conversation >= FIRST_DEVICE
    }

    /// Whether it is sent after all faults.
    pub(crate) fn is_last(self) -> bool {
        self.number >= LAST
    }

    /// The text of the message.
    pub(crate) fn text(self) -> String {
        format!("msg:{}:{}:{};", self.conversation, self.client, self.number)
    }

    /// A text that the answer contains.
    pub(crate) fn answer(self) -> String {
        self.text().replace("msg:", "re:")
    }

    /// Number of tool calls that the model makes before it answers.
    pub(crate) fn calls(self) -> usize {
        [0, 1, 0, 2, 0][usize::from(self.conversation * 7 + self.client * 3 + self.number) % 5]
    }

    /// Finds the last message, or its answer, in a text.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let from = text.rfind("msg:").map(|at| at + 4).or(text.rfind("re:").map(|at| at + 3))?;
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
