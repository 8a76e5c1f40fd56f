//! Runs the calls of one round: finds the tool, checks the arguments, waits its turn at the
//! source, and makes of whatever happens a text for the model. Not for what is said meanwhile.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::image_description::in_words;
use super::outcome::{CUT_SHORT, GOES_ON, render};
use super::schema::Schema;
use super::toolbox::{Offer, Offered, SourceSlot, Toolbox};
use crate::metrics::{CallEnd, tool_called};
use crate::ports::{Tool, ToolCall, ToolError, ToolOutput, ToolRequest};

/// Calls of one round that are carried out; what is beyond is refused.
const MAX_CALLS: usize = 16;

pub(super) type Outcome = Result<ToolOutput, ToolError>;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What the model is told.
    pub told: String,
    /// Why there is no result, where the call was made or refused and not just cut short.
    pub failure: Option<ToolError>,
    /// Its turn ended before there was a result.
    pub cut_short: bool,
    /// From the begin of its round.
    pub took: Duration,
}

impl Ended {
    fn with(outcome: Outcome, max_bytes: usize, took: Duration) -> Self {
        let says_failed = outcome.as_ref().is_ok_and(|output| output.failed);
        let failure = outcome.as_ref().err().cloned();
        let told = render(outcome, max_bytes);
        let failure = failure.or_else(|| {
            let why = told.strip_prefix("error: ").unwrap_or(&told);
            says_failed.then(|| ToolError::Failed(why.to_owned()))
        });
        Self { told, failure, cut_short: false, took }
    }
}

/// The calls of one round on their way. Dropping it cancels them, but for those that finish.
pub struct Calls {
    running: FuturesUnordered<BoxFuture<'static, (usize, Outcome)>>,
    results: Vec<Option<Ended>>,
    finishes: Vec<bool>,
    begun: Instant,
    max_result_bytes: usize,
}

impl Calls {
    /// Waits for the next result and gives the number of its call; none where all are here. May be
    /// dropped and called again.
    pub async fn next(&mut self) -> Option<usize> {
        let (number, outcome) = self.running.next().await?;
        self.note(number, outcome);
        Some(number)
    }

    fn note(&mut self, number: usize, outcome: Outcome) {
        let ended = Ended::with(outcome, self.max_result_bytes, self.begun.elapsed());
        self.results[number] = Some(ended);
    }

    /// How a call ended, if it has.
    pub fn ended(&self, number: usize) -> Option<&Ended> {
        self.results.get(number)?.as_ref()
    }

    /// How each call ended, in their order. Calls without a result are cancelled.
    pub fn end(self) -> Vec<Ended> {
        let took = self.begun.elapsed();
        let missing = |finishes| {
            let told = if finishes { GOES_ON } else { CUT_SHORT }.to_owned();
            Ended { told, failure: None, cut_short: true, took }
        };
        let pairs = self.results.into_iter().zip(self.finishes);
        pairs.map(|(result, finishes)| result.unwrap_or_else(|| missing(finishes))).collect()
    }
}

impl Toolbox {
    /// Begins these calls; each ends by `until` at the latest. `asked` are the person's words, with
    /// which pictures are looked at.
    pub fn begin(
        &self,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> Calls {
        let mut begun = Calls {
            running: FuturesUnordered::new(),
            results: vec![None; calls.len()],
            finishes: vec![false; calls.len()],
            begun: Instant::now(),
            max_result_bytes: self.settings.max_result_bytes,
        };
        for (number, request) in calls.iter().enumerate() {
            match self.check(offer, request) {
                Ok(_) if begun.running.len() >= MAX_CALLS => {
                    let why = ToolError::Failed("too many calls at once".into());
                    begun.note(number, Err(why));
                }
                Ok((place, tool, call)) => {
                    let work = carried_out(place, call, until);
                    let kept = if tool.finishes { self.finishing.keep(work) } else { Err(work) };
                    begun.finishes[number] = kept.is_ok();
                    let work =
                        kept.unwrap_or_else(|cancelled_with_its_turn| cancelled_with_its_turn);
                    let (describer, asked) = (self.describer.clone(), asked.to_owned());
                    begun.running.push(Box::pin(async move {
                        let outcome = match (work.await, describer) {
                            (Ok(output), Some(describer)) => {
                                Ok(in_words(output, &describer, &asked, until).await)
                            }
                            (outcome, _) => outcome,
                        };
                        (number, outcome)
                    }));
                }
                Err(error) => begun.note(number, Err(error)),
            }
        }
        begun
    }

    /// The source, the tool and the call that the model means.
    fn check<'a>(
        &self,
        offer: &'a Offer,
        request: &ToolRequest,
    ) -> Result<(SourceSlot, &'a Tool, ToolCall), ToolError> {
        let unknown = || ToolError::Unknown(request.name.clone());
        let Offered { source, tool, schema } = offer.find(&request.name).ok_or_else(unknown)?;
        let gone = || ToolError::Unavailable("it was taken away meanwhile".into());
        let place = self.place(source).ok_or_else(gone)?;
        let arguments = arguments(&request.arguments)?;
        schema.get_or_init(|| Schema::from_tool(tool)).check(&arguments)?;
        let (id, name) = (request.id.clone(), tool.name.clone());
        Ok((place, tool, ToolCall { id, name, arguments }))
    }
}

/// Counts a call when it is over, also one that was dropped.
struct Counted {
    source: &'static str,
    began: Instant,
    end: CallEnd,
}

impl Drop for Counted {
    fn drop(&mut self) {
        tool_called(self.source, self.end, self.began.elapsed());
    }
}

fn end(outcome: &Outcome) -> CallEnd {
    match outcome {
        Ok(output) if !output.failed => CallEnd::Answered,
        Ok(_) | Err(ToolError::Failed(_) | ToolError::Arguments(_) | ToolError::Unknown(_)) => {
            CallEnd::Failed
        }
        Err(ToolError::Unavailable(_)) => CallEnd::Unavailable,
        Err(ToolError::Timeout(_)) => CallEnd::Timeout,
    }
}

/// Waits its turn at the source, and calls.
fn carried_out(place: SourceSlot, call: ToolCall, until: Instant) -> BoxFuture<'static, Outcome> {
    Box::pin(async move {
        let began = Instant::now();
        let Ok(Ok(_permit)) = timeout_at(until, Arc::clone(&place.gate).acquire_owned()).await
        else {
            return Err(ToolError::Timeout(began.elapsed()));
        };
        let by = until.min(Instant::now() + place.source.timeout());
        let began = Instant::now();
        let name = call.name.clone();
        let mut counted = Counted { source: place.source.kind(), began, end: CallEnd::Cancelled };
        let outcome = timeout_at(by, place.source.call(call)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(ToolError::Timeout(began.elapsed())));
        counted.end = end(&outcome);
        let well = outcome.as_ref().is_ok_and(|output| !output.failed);
        tracing::info!(tool = name, source = place.source.name(), well, took = ?began.elapsed(), "a tool was called");
        outcome
    })
}

/// Models write nothing, or `null`, where there is nothing to say.
///
/// # Errors
/// [`ToolError::Arguments`].
pub fn arguments(text: &str) -> Result<Map<String, Value>, ToolError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        // Some write the whole as a string once more.
        Ok(Value::String(inner)) if !inner.trim_start().starts_with('"') => arguments(&inner),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(ToolError::Arguments("they are not a JSON object".into())),
        Err(error) => Err(ToolError::Arguments(format!("they are not JSON: {error}"))),
    }
}
