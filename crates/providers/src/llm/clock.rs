//! Deadlines of one answer: its first words, the time between its pieces, and its end. Only waits
//! for the model count: an answer is read during playback, which may take minutes. Not for retries,
//! which are in [`crate::retry`].

use std::time::Duration;

use tokio::time::Instant;

use super::base::Deadline;
use crate::settings::{LlmSettings, ms};

/// Deadlines of one answer.
pub(super) struct Clock {
    first_by: Instant,
    /// Time that the model may still take for the rest.
    left: Duration,
    idle: Duration,
    begun: bool,
}

impl Clock {
    /// Starts the deadlines of an answer that is requested now.
    pub(super) fn start(settings: &LlmSettings) -> Self {
        let start = Instant::now();
        let left = ms(settings.timeout_ms);
        let first_by = start + left.min(ms(settings.first_token_timeout_ms));
        Self { first_by, left, idle: ms(settings.idle_timeout_ms), begun: false }
    }

    /// Records that the first words have arrived.
    pub(super) fn begun(&mut self) {
        self.begun = true;
    }

    /// Returns the deadline of the next piece, and the error message for a miss.
    fn next_by(&self) -> Deadline {
        if self.begun {
            let by = Instant::now() + self.left.min(self.idle);
            Deadline { by, missing: "the answer stalled" }
        } else {
            Deadline { by: self.first_by, missing: "no words within their deadline" }
        }
    }

    /// Waits for a piece of the answer within its deadline.
    pub(super) async fn wait<T, F: Future<Output = T>>(
        &mut self,
        piece: impl FnOnce(Deadline) -> F,
    ) -> T {
        let since = Instant::now();
        let told = piece(self.next_by()).await;
        self.left = self.left.saturating_sub(since.elapsed());
        told
    }
}
