//! Deadlines of one answer: its first words, the time between its pieces, and its end. Not for
//! retries, which are in [`crate::retry`].

use std::time::Duration;

use tokio::time::Instant;

use super::base::Deadline;
use crate::settings::{LlmSettings, ms};

/// Deadlines of one answer.
pub(super) struct Clock {
    first_by: Instant,
    total_by: Instant,
    idle: Duration,
    begun: bool,
}

impl Clock {
    /// Starts the deadlines of an answer that is requested now.
    pub(super) fn start(settings: &LlmSettings) -> Self {
        let start = Instant::now();
        let total_by = start + ms(settings.timeout_ms);
        let first_by = total_by.min(start + ms(settings.first_token_timeout_ms));
        Self { first_by, total_by, idle: ms(settings.idle_timeout_ms), begun: false }
    }

    /// Records that the first words have arrived.
    pub(super) fn begun(&mut self) {
        self.begun = true;
    }

    /// Returns the deadline of the next piece, and the error message for a miss.
    pub(super) fn next_by(&self) -> Deadline {
        if self.begun {
            let by = self.total_by.min(Instant::now() + self.idle);
            Deadline { by, missing: "the answer stalled" }
        } else {
            Deadline { by: self.first_by, missing: "no words within their deadline" }
        }
    }
}
