//! Streaming of one model answer from request to end: deadlines, parsing of events, and removal of
//! text that is not the answer. Not for any vendor's messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt as _, try_unfold};
use hearken_ports::{LlmDelta, Prompt, ProviderError, ProviderErrorKind, ToolRequest, Usage};
use hearken_proto::json::weighed;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::base::{Base, Deadline, Events};
use super::clock::Clock;
use super::finish_reason::Ending;
use super::markup::AnswerFilter;

/// Maximum wait for the token usage after the end of an answer. It normally follows at once. A
/// server that sends none and leaves the connection open delays the end by this.
const USAGE_WAIT: Duration = Duration::from_millis(250);
/// Maximum wait for more after an end mark in a piece with content: some servers send it with each
/// piece.
const MORE_WAIT: Duration = Duration::from_millis(1_500);

/// Parser of a vendor's events.
pub(super) trait AnswerParser: Default + Send + 'static {
    /// Creates a parser of the answer of the model with this identity to this prompt.
    fn of(identity: &Arc<str>, prompt: &Prompt) -> Self;

    /// Parses one event. Input that is not an event of this vendor is skipped.
    ///
    /// # Errors
    /// The event reports an error, or ends an answer without any readable content.
    fn read(&mut self, event: &str) -> Result<(), ProviderError>;

    /// Returns an error if events arrived and none could be read.
    fn unreadable(&self) -> Option<ProviderError>;

    /// Returns the progress of the answer.
    fn progress(&self) -> Progress;

    /// Marks the end of the events: calls that were still being written are complete.
    fn close(&mut self);

    /// Returns the pieces that are ready.
    fn ready(&mut self) -> &mut VecDeque<LlmDelta>;

    /// Returns true if the server sends thinking in separate fields.
    fn thinks_apart(&self) -> bool;

    /// Returns how the answer ended, and its token usage. An answer without a finish reason is
    /// complete.
    fn ending(&self) -> (Ending, Option<Usage>);

    /// Returns true if the answer has ended without a finish reason. Then it may have broken off:
    /// proxies send an end mark for a model that did.
    fn lacks_reason(&self) -> bool;
}

/// Progress of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// More follows.
    Going,
    /// An end mark arrived in a piece with content: more may follow.
    MayGoOn,
    /// The answer is complete. Its token usage may follow.
    Complete,
    /// Nothing more follows.
    Over,
}

/// Returns the pieces of an answer as a stream. The request starts when the first one is polled.
pub(super) fn pieces<R: AnswerParser>(
    base: Arc<Base>,
    order: Value,
    prompt: &Prompt,
    clock: impl FnOnce() -> Clock + Send + 'static,
) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
    let screen = AnswerFilter::new(prompt, base.known.opening());
    let reading = R::of(base.known.identity(), prompt);
    from_stage(Stage::Ordered(base, order, clock, screen, reading))
}

/// Returns the pieces of an answer whose events have started to arrive.
#[cfg(feature = "fuzzing")]
pub(super) fn pieces_of<R: AnswerParser>(
    base: Arc<Base>,
    events: Events,
    prompt: &Prompt,
    clock: Clock,
) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
    let screen = AnswerFilter::new(prompt, base.known.opening());
    let reading = R::of(base.known.identity(), prompt);
    let answer = AnswerStream::new(base, events, clock, screen, reading);
    from_stage(Stage::<fn() -> Clock, R>::Answering(answer))
}

fn from_stage<C, R: AnswerParser>(
    stage: Stage<C, R>,
) -> BoxStream<'static, Result<LlmDelta, ProviderError>>
where
    C: FnOnce() -> Clock + Send + 'static,
{
    try_unfold(stage, |stage| async move {
        let mut answer: AnswerStream<R> = match stage {
            Stage::Ordered(base, order, clock, screen, reading) => {
                let mut clock = clock();
                let events = clock.wait(|by| Box::pin(base.order(order, by))).await?;
                AnswerStream::new(base, events, clock, screen, reading)
            }
            Stage::Answering(answer) => answer,
            Stage::Over => return Ok(None),
        };
        let delta = answer.next().await?;
        let finished = matches!(delta, LlmDelta::Finished { .. });
        Ok(Some((delta, if finished { Stage::Over } else { Stage::Answering(answer) })))
    })
    .boxed()
}

/// Reports whether the arguments of a call are a JSON object, and therefore not truncated.
pub(super) fn is_whole(call: &ToolRequest) -> bool {
    weighed::<Map<String, Value>>(&call.arguments).is_ok()
}

enum Stage<C, R> {
    Ordered(Arc<Base>, Value, C, AnswerFilter, R),
    Answering(AnswerStream<R>),
    Over,
}

/// Answer that is being read. Dropping it closes the request.
struct AnswerStream<R> {
    base: Arc<Base>,
    events: Events,
    clock: Clock,
    screen: AnswerFilter,
    reading: R,
    over: bool,
    /// True once words were passed on.
    said: bool,
    /// True once a call was announced.
    called: bool,
    /// True if the body broke off after an end mark in a piece with content.
    has_failed: bool,
    /// True if the answer broke off within a call.
    is_cut: bool,
}

impl<R: AnswerParser> AnswerStream<R> {
    fn new(
        base: Arc<Base>,
        events: Events,
        clock: Clock,
        screen: AnswerFilter,
        reading: R,
    ) -> Self {
        Self {
            base,
            events,
            clock,
            screen,
            reading,
            over: false,
            said: false,
            called: false,
            has_failed: false,
            is_cut: false,
        }
    }

    /// Returns the next piece. Not called after [`LlmDelta::Finished`].
    async fn next(&mut self) -> Result<LlmDelta, ProviderError> {
        loop {
            if let Some(delta) = self.screen.pop() {
                self.clock.begun();
                match &delta {
                    LlmDelta::Text(text) => self.said |= !text.trim().is_empty(),
                    LlmDelta::Calling | LlmDelta::Call(_) => self.called = true,
                    LlmDelta::Rule(_) | LlmDelta::Finished { .. } => {}
                }
                return Ok(delta);
            }
            if self.is_cut {
                return Err(self.events.broken_off());
            }
            if self.over {
                return self.last();
            }
            match self.reading.progress() {
                Progress::Going => {
                    let events = &mut self.events;
                    match self.clock.wait(|by| events.next(by)).await? {
                        Some(event) => self.reading.read(&event)?,
                        None => {
                            let unreadable = self.reading.unreadable();
                            return Err(unreadable.unwrap_or_else(|| self.events.broken_off()));
                        }
                    }
                }
                Progress::MayGoOn => self.may_go_on().await?,
                Progress::Complete => self.linger().await,
                Progress::Over => self.over = true,
            }
            self.screen();
        }
    }

    /// Returns the last piece.
    ///
    /// # Errors
    /// The answer ended before it was complete, and cannot be used: it has calls, which may be others
    /// than the model meant, or no words.
    fn last(&self) -> Result<LlmDelta, ProviderError> {
        let (ending, usage) = self.reading.ending();
        let is_usable = self.said && !self.called;
        match ending.failure(self.base.provider).filter(|_| !is_usable) {
            Some(error) => Err(error),
            None => Ok(LlmDelta::Finished { truncated: ending != Ending::Complete, usage }),
        }
    }

    /// Reads the next event of an answer that may be complete. If none arrives, it is complete.
    async fn may_go_on(&mut self) -> Result<(), ProviderError> {
        let by = Instant::now() + MORE_WAIT;
        match self.events.next(Deadline { by, missing: "" }).await {
            Ok(Some(event)) => self.reading.read(&event)?,
            Ok(None) => self.over = true,
            Err(error) => {
                self.has_failed = error.kind != ProviderErrorKind::Timeout;
                self.over = true;
            }
        }
        Ok(())
    }

    /// Reads the events after the end. The answer is complete: errors there are ignored.
    async fn linger(&mut self) {
        let by = Instant::now() + USAGE_WAIT;
        while self.reading.progress() == Progress::Complete {
            let Ok(Some(event)) = self.events.next(Deadline { by, missing: "" }).await else {
                break;
            };
            if self.reading.read(&event).is_err() {
                break;
            }
        }
        self.over = !matches!(self.reading.progress(), Progress::Going | Progress::MayGoOn);
    }

    /// Passes the pieces so far through the screen, which removes text that is not the answer.
    fn screen(&mut self) {
        if self.reading.thinks_apart() {
            self.screen.reasoning_is_separate();
        }
        if self.over {
            self.reading.close();
        }
        let (ending, _) = self.reading.ending();
        let may_be_cut = self.over && (self.has_failed || self.reading.lacks_reason());
        // Truncated arguments would be different ones, or none.
        let permits = |call: &ToolRequest| match ending {
            Ending::Complete => !may_be_cut || is_whole(call),
            Ending::Truncated => is_whole(call),
            Ending::Filtered | Ending::BrokenOff(_) => false,
        };
        for delta in std::mem::take(self.reading.ready()) {
            if matches!(&delta, LlmDelta::Call(call) if !permits(call)) {
                tracing::warn!("dropped a call of an answer that is not complete");
                self.is_cut |= may_be_cut && ending == Ending::Complete;
                continue;
            }
            self.screen.push(delta);
        }
        if self.over {
            if may_be_cut {
                self.screen.may_be_cut();
            }
            self.screen.end(ending != Ending::Complete);
            self.is_cut |= self.screen.has_cut_call();
            self.base.known.began(self.screen.began());
        }
    }
}
