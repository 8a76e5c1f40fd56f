//! An answer from its order to its end: the deadlines, what its events are read as, and what of
//! that is the answer. Not for any vendor's messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt as _, try_unfold};
use hearken_actors::ports::{LlmDelta, Prompt, ProviderError, Usage};
use serde_json::Value;
use tokio::time::Instant;

use super::base::{Base, Events};
use super::clock::Clock;
use super::markup::Screen;

/// Longest wait for what an answer cost once it is complete. It comes right behind the end; a base
/// that tells nothing and keeps the connection open delays the end by this.
const USAGE_WAIT: Duration = Duration::from_millis(250);

/// What a vendor's events come to.
pub(super) trait Reading: Default + Send + 'static {
    /// Reads one event.
    ///
    /// # Errors
    /// It is none of the vendor's, or tells an error.
    fn read(&mut self, event: &str) -> Result<(), ProviderError>;

    /// How far the answer is.
    fn progress(&self) -> Progress;

    /// Nothing more will come: what was still being written is complete.
    fn close(&mut self);

    /// The pieces that can be handed on.
    fn ready(&mut self) -> &mut VecDeque<LlmDelta>;

    /// What is thought was told apart from the answer.
    fn thinks_apart(&self) -> bool;

    /// The answer was cut at its longest length, and what it cost.
    fn ending(&self) -> (bool, Option<Usage>);
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// More follows.
    Going,
    /// It is complete; what it cost may follow.
    Complete,
    /// Nothing more follows.
    Over,
}

/// The pieces of an answer that is ordered when the first is asked for.
pub(super) fn pieces<R: Reading>(
    base: Arc<Base>,
    order: Value,
    prompt: &Prompt,
    clock: impl FnOnce() -> Clock + Send + 'static,
) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
    let screen = Screen::new(prompt, base.known.opening());
    let ordered = Stage::Ordered(base, order, clock, screen);
    try_unfold(ordered, |stage| async move {
        let mut answer: Answer<R> = match stage {
            Stage::Ordered(base, order, clock, screen) => {
                let clock = clock();
                let events = Box::pin(base.order(order, clock.next_by())).await?;
                Answer { base, events, clock, screen, reading: R::default(), over: false }
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

enum Stage<C, R> {
    Ordered(Arc<Base>, Value, C, Screen),
    Answering(Answer<R>),
    Over,
}

/// An answer being read. Dropping it closes the request.
struct Answer<R> {
    base: Arc<Base>,
    events: Events,
    clock: Clock,
    screen: Screen,
    reading: R,
    over: bool,
}

impl<R: Reading> Answer<R> {
    /// The next piece; none is asked for after [`LlmDelta::Finished`].
    async fn next(&mut self) -> Result<LlmDelta, ProviderError> {
        loop {
            if let Some(delta) = self.screen.pop() {
                self.clock.begun();
                return Ok(delta);
            }
            if self.over {
                let (truncated, usage) = self.reading.ending();
                return Ok(LlmDelta::Finished { truncated, usage });
            }
            match self.reading.progress() {
                Progress::Going => {
                    let event = self.events.next(self.clock.next_by()).await?;
                    let event = event.ok_or_else(|| self.events.broken_off())?;
                    self.reading.read(&event)?;
                }
                Progress::Complete => self.linger().await,
                Progress::Over => self.over = true,
            }
            self.screen();
        }
    }

    /// Reads what stands behind the end. The answer is whole: what goes wrong there harms nobody.
    async fn linger(&mut self) {
        let by = Instant::now() + USAGE_WAIT;
        while self.reading.progress() == Progress::Complete {
            let Ok(Some(event)) = self.events.next((by, "")).await else { break };
            if self.reading.read(&event).is_err() {
                break;
            }
        }
        self.over = true;
    }

    /// Takes out of the pieces so far what is not the answer.
    fn screen(&mut self) {
        if self.reading.thinks_apart() {
            self.screen.thinks_apart();
        }
        if self.over {
            self.reading.close();
        }
        for delta in std::mem::take(self.reading.ready()) {
            self.screen.push(delta);
        }
        if self.over {
            self.screen.end();
            if let Some(opening) = self.screen.began() {
                self.base.known.began(opening);
            }
        }
    }
}
