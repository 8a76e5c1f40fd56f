//! Executes the tool calls of one round: finds the tool, checks the arguments, waits for a free
//! slot of the source, and renders each outcome as text for the model. Not for speech during the
//! calls.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hearken_ports::{Tool, ToolCall, ToolError, ToolOutput, ToolRequest, ToolSource};
use tokio::time::{Instant, timeout_at};

use super::finishing::{CallGuard, LateEnd, LateResult, LateResults, SharedOutcome};
use super::image_description::describe_pictures;
use super::offer::{Offer, Offered, SourceSlot};
use super::outcome::{CUT_SHORT, GOES_ON, Outcome, render};
use super::parsed_arguments::parsed_arguments;
use super::schema::Schema;
use super::toolbox::Toolbox;
use crate::metrics::{CallEnd, CallTraffic, tool_called};

/// Maximum number of executed calls in one round. Further calls are refused.
const MAX_CALLS: usize = 16;

/// End of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedCall {
    /// Text for the model.
    pub text: String,
    /// Reason for a missing or bad result. `None` if the call succeeded or was cut short.
    pub failure: Option<ToolError>,
    /// Set if the turn ended before there was a result.
    pub cut_short: bool,
    /// Time since the round started.
    pub took: Duration,
}

impl EndedCall {
    fn with(outcome: Outcome, max_bytes: usize, took: Duration) -> Self {
        let says_failed = outcome.as_ref().is_ok_and(|output| output.failed);
        let failure = outcome.as_ref().err().cloned();
        let text = render(outcome, max_bytes);
        let failure = failure.or_else(|| {
            let why = text.strip_prefix("error: ").unwrap_or(&text);
            says_failed.then(|| ToolError::Failed(why.to_owned()))
        });
        Self { text, failure, cut_short: false, took }
    }
}

/// Ended call that had continued for words that are no longer answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedCall {
    /// Id of the call.
    pub call: String,
    /// Text for the model: its result, or that it was cancelled.
    pub result: String,
}

/// Call that runs independently of its turn.
struct ApartCall {
    late: LateResult,
    /// `None` if it must finish.
    guard: Option<CallGuard>,
}

/// Running calls of one round. Dropping it cancels them, except those that must finish.
pub struct Calls {
    running: FuturesUnordered<BoxFuture<'static, (usize, Outcome)>>,
    results: Vec<Option<EndedCall>>,
    /// Calls that run independently of the turn, with their shared results.
    apart: Vec<Option<ApartCall>>,
    late: LateResults,
    begun: Instant,
    max_result_bytes: usize,
}

impl Calls {
    /// Waits for the next result and returns the number of its call. `None` if all calls have
    /// ended. Cancel-safe: may be dropped and called again.
    pub async fn next(&mut self) -> Option<usize> {
        let (number, outcome) = self.running.next().await?;
        self.note(number, outcome);
        Some(number)
    }

    fn wait_for(&mut self, number: usize, late: LateResult, guard: Option<CallGuard>) {
        self.running.push(late.outcome.clone().map(move |outcome| (number, outcome)).boxed());
        self.apart[number] = Some(ApartCall { late, guard });
    }

    fn note(&mut self, number: usize, outcome: Outcome) {
        let ended = EndedCall::with(outcome, self.max_result_bytes, self.begun.elapsed());
        self.results[number] = Some(ended);
    }

    /// Returns the end of a call, if it has ended.
    pub fn ended(&self, number: usize) -> Option<&EndedCall> {
        self.results.get(number)?.as_ref()
    }

    /// Returns the end of each call, in their order. Among those without a result, the ones that
    /// must finish continue, or all of them if another turn answers the same words
    /// (`is_continued`): sent requests cannot be taken back, and would be made twice. That turn
    /// gets their results. All others are cancelled.
    pub fn end(self, is_continued: bool) -> Vec<EndedCall> {
        let took = self.begun.elapsed();
        let missing = |apart: Option<ApartCall>| {
            let goes_on = apart.filter(|call| is_continued || call.guard.is_none());
            let text = if goes_on.is_some() { GOES_ON } else { CUT_SHORT }.to_owned();
            if let Some(ApartCall { late, guard }) = goes_on {
                let stop = guard.and_then(CallGuard::release).or_else(|| late.stop.clone());
                self.late.keep(LateResult { stop, ..late });
            }
            EndedCall { text, failure: None, cut_short: true, took }
        };
        let pairs = self.results.into_iter().zip(self.apart);
        pairs.map(|(result, apart)| result.unwrap_or_else(|| missing(apart))).collect()
    }
}

impl Toolbox {
    /// Starts these calls. Each ends by the deadline `until`. `asked` holds the person's words,
    /// which are part of the question to the image describer. A call that an earlier turn has
    /// started, and that still runs, is not repeated.
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
            apart: calls.iter().map(|_| None).collect(),
            late: self.late.clone(),
            begun: Instant::now(),
            max_result_bytes: self.settings.max_result_bytes,
        };
        for (number, request) in calls.iter().enumerate() {
            let agreed = self.late.agreed(&request.id);
            let late = |outcome: SharedOutcome| LateResult {
                call: request.id.clone(),
                asked: agreed.clone().unwrap_or_else(|| asked.to_owned()),
                outcome,
                stop: None,
            };
            if let Some(LateResult { outcome, stop, .. }) = self.late.get(&request.id) {
                begun.wait_for(number, LateResult { stop, ..late(outcome) }, None);
                continue;
            }
            match self.check(offer, request) {
                Ok(_) if begun.running.len() >= MAX_CALLS => {
                    let why = ToolError::Failed("too many calls at once".into());
                    begun.note(number, Err(why));
                }
                Ok((slot, tool, call)) => {
                    let describer = self.describer_of(slot.source.name());
                    let work = execute(slot, call, until);
                    let (work, apart) = match self.finishing.keep(work) {
                        Ok((work, guard)) => (work, Some(guard)),
                        Err(cancelled_with_its_turn) => (cancelled_with_its_turn, None),
                    };
                    let asked = asked.to_owned();
                    let work = async move {
                        match (work.await, describer) {
                            (Ok(output), Some(describer)) => {
                                Ok(describe_pictures(output, &describer, &asked, until).await)
                            }
                            (outcome, _) => outcome,
                        }
                    };
                    match apart {
                        Some(guard) if tool.finishes || agreed.is_some() => {
                            // It must finish: nothing cancels it.
                            drop(guard.release());
                            begun.wait_for(number, late(work.boxed().shared()), None);
                        }
                        Some(guard) => {
                            begun.wait_for(number, late(work.boxed().shared()), Some(guard));
                        }
                        None => {
                            begun.running.push(work.map(move |outcome| (number, outcome)).boxed());
                        }
                    }
                }
                Err(error) => begun.note(number, Err(error)),
            }
        }
        begun
    }

    /// Cancels the calls that continue for words that are no longer answered, except those that must
    /// finish. Returns the calls that have ended.
    pub fn stop_calls(&self) -> Vec<StoppedCall> {
        let stopped = |LateEnd { call, outcome }: LateEnd| {
            let rendered = |outcome| render(outcome, self.settings.max_result_bytes);
            StoppedCall { call, result: outcome.map_or_else(|| CUT_SHORT.to_owned(), rendered) }
        };
        self.late.stop().into_iter().map(stopped).collect()
    }

    /// Reports whether a call would be made: the tool exists, and the arguments match its schema.
    pub(super) fn is_right(&self, offer: &Offer, request: &ToolRequest) -> bool {
        self.check(offer, request).is_ok()
    }

    /// Returns the source, the tool and the call that the model means.
    fn check<'a>(
        &self,
        offer: &'a Offer,
        request: &ToolRequest,
    ) -> Result<(SourceSlot, &'a Tool, ToolCall), ToolError> {
        let unknown = || ToolError::Unknown(request.name.clone());
        let offered = offer.find(&request.name).ok_or_else(unknown)?;
        let slot = self.slot_of(offered).ok_or_else(taken_away)?;
        let Offered { tool, schema, .. } = offered;
        let arguments = parsed_arguments(&request.arguments)?;
        let schema = schema.get_or_init(|| Schema::of_server_tool(&tool.parameters));
        schema.check(&tool.parameters, &arguments)?;
        let id = request.id.clone();
        let name = tool.name.clone();
        Ok((slot, tool, ToolCall { id, name, arguments }))
    }
}

/// Returns the error of a call whose source, or whose connection, is gone.
pub(super) fn taken_away() -> ToolError {
    ToolError::Unavailable("it was taken away meanwhile".into())
}

/// Records the metrics of a call when dropped, even if the call was cancelled.
struct Counted {
    source: Arc<dyn ToolSource>,
    began: Instant,
    traffic: CallTraffic,
    end: CallEnd,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let kind = self.source.kind();
        let name = self.source.metric_name();
        tool_called(kind, name, self.end, self.began.elapsed(), self.traffic);
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

/// Waits for a free slot of the source, and calls the tool.
fn execute(slot: SourceSlot, call: ToolCall, until: Instant) -> BoxFuture<'static, Outcome> {
    Box::pin(async move {
        let began = Instant::now();
        let Ok(Ok(_permit)) = timeout_at(until, Arc::clone(&slot.semaphore).acquire_owned()).await
        else {
            return Err(ToolError::Timeout(began.elapsed()));
        };
        let by = until.min(Instant::now() + slot.source.timeout());
        let began = Instant::now();
        let name = call.name.clone();
        let traffic = CallTraffic { sent: call.size_bytes(), received: 0 };
        let source = Arc::clone(&slot.source);
        let end_now = CallEnd::Cancelled;
        let mut counted = Counted { source, began, traffic, end: end_now };
        let outcome = timeout_at(by, slot.source.call(call)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(ToolError::Timeout(began.elapsed())));
        counted.end = end(&outcome);
        counted.traffic.received = outcome.as_ref().map_or(0, ToolOutput::size_bytes);
        let well = outcome.as_ref().is_ok_and(|output| !output.failed);
        tracing::info!(tool = name, source = slot.source.name(), well, took = ?began.elapsed(), "a tool was called");
        outcome
    })
}
