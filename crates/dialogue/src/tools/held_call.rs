//! A call that waits for the person's permission, and what the model is told of such calls. Not for the question, nor for what
//! is a yes: see [`super::consent`].

use std::sync::Arc;

use hearken_ports::{Tool, ToolRequest};
use tokio::time::Instant;

use super::offer::{Offer, Offered};
use super::waiting::{AGREES_WITHIN, ListedCall};
use crate::turn_trace::TurnTrace;

/// Result of a call that is held, until the person has answered.
pub const HELD: &str = "not called yet: the person is asked for permission now, and the result \
                        follows if they give it; do not ask them yourself";
/// Result of a call to which the person did not agree.
pub const NOT_AGREED: &str = "error: not called, because the person did not agree; do not call it \
                              again unless they ask for it";
/// Result of a call beside another one that is held.
pub(super) const ONE_AT_A_TIME: &str =
    "error: not called: it needs the permission of the person, who is asked about another call now";
/// Result of a call that is too large to be held.
pub(super) const TOO_LARGE: &str =
    "error: not called: it needs the permission of the person, and its arguments are too large";
/// Result of a held call whose tool is not the same any more.
const TOOL_CHANGED: &str = "error: not called: the tool was changed or taken away meanwhile";

/// Call that waits for the person's permission.
#[derive(Debug, Clone)]
pub struct HeldCall {
    /// Call as the model made it.
    pub request: ToolRequest,
    /// Words of the person on which the model made it.
    pub asked: String,
    /// Name of the source in the toolbox.
    pub(super) source: String,
    pub(super) tool: Tool,
    pub(super) since: Instant,
    /// Its place among the calls that wait, for who watches.
    pub(super) waiting: Option<Arc<ListedCall>>,
}

impl HeldCall {
    /// Checks that the person agrees, in time, and that the tool is still the one about which they
    /// were asked.
    ///
    /// # Errors
    /// Returns the result for the model if the call must not be made.
    pub fn permitted(&self, agrees: bool, offer: &Offer) -> Result<(), String> {
        let is_dropped = self.waiting.as_ref().is_some_and(|waiting| waiting.is_dropped());
        if is_dropped || self.is_expired() || !agrees {
            return Err(NOT_AGREED.into());
        }
        let same =
            offer.find(&self.request.name).is_some_and(|Offered { source, tool, .. }| {
                *source == self.source && *tool == self.tool
            });
        if same { Ok(()) } else { Err(TOOL_CHANGED.into()) }
    }

    /// Returns the call with a place among those that wait, which says who was asked what.
    pub fn told(mut self, trace: &TurnTrace, question: &str) -> Self {
        let tool = self.tool.name.clone();
        let source = self.source.clone();
        let arguments = self.request.arguments.clone();
        self.waiting = trace.waits(tool, source, arguments, question.to_owned()).map(Arc::new);
        self
    }

    /// Reports whether the time to agree is over.
    pub fn is_expired(&self) -> bool {
        self.since.elapsed() > AGREES_WITHIN
    }
}

/// Reports whether a result was written by this module: no tool was called for it.
pub(super) fn is_own_result(result: &str) -> bool {
    [HELD, NOT_AGREED, ONE_AT_A_TIME, TOO_LARGE, TOOL_CHANGED].contains(&result)
}
