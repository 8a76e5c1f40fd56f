//! Output of a turn's rounds: the only difference between speech, text and REST. Not for the
//! rounds.

use hearken_base::language::Language;
use hearken_ports::{Prompt, ToolRequest, Usage};
use tokio::time::Instant;

use crate::tools::{Offer, Toolbox};
use crate::turn::{Turn, TurnError};

/// Results of the calls of one round.
#[derive(Debug)]
pub struct CallResults {
    /// Texts for the model, one for each call, also for calls that failed or were not made.
    pub texts: Vec<String>,
    /// Failure of a call that ends the turn.
    pub failure: Option<TurnError>,
}

impl From<Vec<String>> for CallResults {
    /// Creates results after which the turn goes on.
    fn from(texts: Vec<String>) -> Self {
        Self { texts, failure: None }
    }
}

/// Output of a turn, in order: the model's words as they stream, and its tool calls.
// The rounds use this trait and no sentences: speech, text and REST differ in the output during
// calls and in how calls are shown, not in the rounds. Decision 0015.
#[allow(
    async_fn_in_trait,
    reason = "awaited by the task of the turn, never spawned through the trait"
)]
pub trait TurnOutput {
    /// Returns the turn.
    fn turn(&self) -> &Turn;

    /// Reports whether the turn was cut or its receiver is gone.
    fn is_over(&self) -> bool;

    /// Returns the number of pieces sent so far, counted like [`crate::turn::ToolRound::after`].
    fn said(&self) -> usize;

    /// Reports whether a turn ends with an error if its model requests calls after the last allowed
    /// round. If false, the model is asked again without calls, and answers from the results so
    /// far.
    fn must_end_by_itself(&self) -> bool {
        false
    }

    /// Returns the person's own words, without additions of a frontend in the prompt.
    fn own_words<'a>(&'a self, asked: &'a str) -> &'a str {
        asked
    }

    /// Returns the language of the server's own sentences; `None` for that of the prompt.
    fn language(&self) -> Option<Language> {
        None
    }

    /// Returns the identity of the person whose words are answered, if it is known.
    fn person(&self) -> Option<String> {
        None
    }

    /// Reports whether the words that are answered are certainly those of another person.
    fn is_another(&self, than: &str) -> bool {
        self.person().is_some_and(|person| person != than)
    }

    /// Receives the next prompt before it is sent to the model, and may change it.
    fn asks(&mut self, _prompt: &mut Prompt) {}

    /// Receives one complete response of the model: its text, calls and, if the provider reports
    /// it, usage.
    fn finished(&mut self, _written: &str, _calls: &[ToolRequest], _usage: Option<Usage>) {}

    /// Receives more of the model's text, cut anywhere.
    async fn words(&mut self, text: &str);

    /// Completes the text so far: calls follow, or the end.
    async fn pause(&mut self);

    /// Executes the calls of one round, each until the deadline `until`. `asked` holds the person's
    /// words.
    async fn calls(
        &mut self,
        tools: &Toolbox,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> CallResults;
}
