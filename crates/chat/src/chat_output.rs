//! Output of an application's turn: streams the model's words, executes all calls of a round
//! concurrently, and counts tokens. The receiver of the words may leave. Not for storing the
//! finished turn.

use hearken_dialogue::parts::Parts;
use hearken_dialogue::tools::{Offer, Toolbox};
use hearken_dialogue::turn_output::{CallResults, TurnOutput};
use hearken_dialogue::{Turn, TurnError};
use hearken_ports::{NOT_CALLED, Prompt, ToolError, ToolRequest, Usage};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::context::note_read;
use super::piece::ChatPiece;
use super::running::RequestRecord;
use super::state_tools::StateTools;
use super::{ChatError, budget};

/// Output of a chat turn.
pub(super) struct ChatOutput<'a> {
    turn: &'a Turn,
    state_tools: Option<&'a StateTools>,
    /// Channel for streamed words, if the client wants them.
    out: Option<&'a mpsc::Sender<ChatPiece>>,
    budget: usize,
    /// Number of tokens of the current prompt, counted by the server.
    asked: u64,
    /// Data that must be on disk before the first call.
    request_record: RequestRecord<'a>,
    /// Message as the person wrote it.
    message: &'a str,
    /// Player who wrote it, if the application names them.
    player: Option<&'a str>,
    /// Reason why the turn must not call tools.
    pub(super) refused: Option<ChatError>,
    /// Set if all calls of the last round succeeded.
    pub(super) worked: bool,
    /// Tools whose results were before the message in its prompts.
    pub(super) read_from: Vec<String>,
    /// Words written so far.
    pub(super) parts: Parts,
    /// Tokens used so far.
    pub(super) usage: Usage,
}

impl<'a> ChatOutput<'a> {
    pub(super) fn new(
        turn: &'a Turn,
        state_tools: Option<&'a StateTools>,
        out: Option<&'a mpsc::Sender<ChatPiece>>,
        budget: usize,
        request_record: RequestRecord<'a>,
        message: &'a str,
        player: Option<&'a str>,
    ) -> Self {
        Self {
            turn,
            state_tools,
            out,
            budget,
            asked: 0,
            request_record,
            message,
            player,
            refused: None,
            worked: false,
            read_from: Vec::new(),
            parts: Parts::default(),
            usage: Usage::default(),
        }
    }
}

impl ChatOutput<'_> {
    /// Shows the events of ended calls, unless the turn is cut.
    async fn show_events(&self) {
        let Some(state_tools) = self.state_tools else { return };
        tokio::select! {
            biased;
            () = self.turn.cancelled() => {}
            () = state_tools.show_events() => {}
        }
    }
}

impl TurnOutput for ChatOutput<'_> {
    fn turn(&self) -> &Turn {
        self.turn
    }

    fn is_over(&self) -> bool {
        !self.turn.is_live()
    }

    fn said(&self) -> usize {
        self.parts.said.len()
    }

    fn must_end_by_itself(&self) -> bool {
        true
    }

    fn own_words<'b>(&'b self, _: &'b str) -> &'b str {
        self.message
    }

    fn person(&self) -> Option<String> {
        self.player.map(str::to_owned)
    }

    fn asks(&mut self, prompt: &mut Prompt) {
        self.asked = budget::fit(prompt, self.budget) as u64;
        self.read_from = note_read(prompt);
    }

    fn finished(&mut self, written: &str, calls: &[ToolRequest], usage: Option<Usage>) {
        let counted = || {
            let calls =
                calls.iter().map(|c| budget::tokens(&c.name) + budget::tokens(&c.arguments));
            let completion_tokens = (budget::tokens(written) + calls.sum::<usize>()) as u64;
            Usage { prompt_tokens: self.asked, completion_tokens, ..Usage::default() }
        };
        let usage = usage.unwrap_or_else(counted);
        self.usage.prompt_tokens += usage.prompt_tokens;
        self.usage.completion_tokens += usage.completion_tokens;
    }

    async fn words(&mut self, text: &str) {
        self.turn.trace().first_packet();
        let (Some(piece), Some(out)) = (self.parts.add(text), self.out) else { return };
        tokio::select! {
            biased;
            () = self.turn.cancelled() => {}
            // A receiver that has left needs no words.
            sent = out.send(ChatPiece::Delta(piece)) => sent.unwrap_or_default(),
        }
    }

    async fn pause(&mut self) {
        self.parts.end_part();
    }

    async fn calls(
        &mut self,
        tools: &Toolbox,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> CallResults {
        if let Err(error) = self.request_record.begin().await {
            self.refused = Some(error);
            let why = "the request could not be recorded";
            let texts = calls.iter().map(|_| format!("{NOT_CALLED}: {why}")).collect();
            return CallResults { texts, failure: Some(refused_calls(calls, why)) };
        }
        let source = |call: &ToolRequest| offer.origin(&call.name).map(|(source, _)| source);
        if let Some(state_tools) = self.state_tools {
            let its = calls.iter().filter(|call| source(call).is_some_and(StateTools::is));
            state_tools.round(its.count());
        }
        let mut running = tools.begin(offer, calls, asked, until);
        loop {
            let has_events = self.state_tools.is_some_and(StateTools::has_events);
            let next = tokio::select! {
                biased;
                () = self.turn.cancelled() => None,
                next = running.next() => next,
                () = self.show_events(), if has_events => continue,
            };
            if next.is_none() {
                break;
            }
        }
        let ended = running.end(false);
        self.show_events().await;
        self.worked = ended.iter().all(|ended| ended.failure.is_none());
        let others = calls.iter().zip(&ended).filter(|(call, ended)| {
            let refused = ended.failure.as_ref();
            source(call).is_some_and(|source| !StateTools::is(source))
                && !matches!(refused, Some(ToolError::Unknown(_) | ToolError::Arguments(_)))
        });
        if others.count() > 0 {
            self.request_record.running.mark_acted();
        }
        let conflict = self.state_tools.is_some_and(|state_tools| state_tools.effects().conflict);
        let failure = conflict.then(|| refused_calls(calls, "the state was changed meanwhile"));
        CallResults { texts: ended.into_iter().map(|ended| ended.text).collect(), failure }
    }
}

/// Returns the error of a round of calls that ends its turn.
fn refused_calls(calls: &[ToolRequest], why: &str) -> TurnError {
    let tool = calls.first().map(|call| call.name.clone()).unwrap_or_default();
    TurnError::Tool { tool, error: ToolError::Failed(why.into()) }
}
