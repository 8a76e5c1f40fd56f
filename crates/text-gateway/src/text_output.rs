//! Output of a text client's turn: sends cleaned words as they stream, and calls as they end. Calls
//! the server's tools first, then those of the client, in the order of the gateway's document. Not
//! for the end of the turn.

use std::time::Duration;

use hearken_dialogue::parts::Parts;
use hearken_dialogue::tools::calls::EndedCall;
use hearken_dialogue::tools::outcome::{NOT_REACHED, NOT_STARTED};
use hearken_dialogue::tools::parsed_arguments::parsed_arguments;
use hearken_dialogue::tools::{Offer, Toolbox};
use hearken_dialogue::turn_output::{CallResults, TurnOutput};
use hearken_dialogue::{Cleaner, Turn, TurnError};
use hearken_ports::{ToolError, ToolRequest, source_names};
use hearken_proto::text_gateway::{CallShown, ErrorCode, ServerMessage, Status};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::outbox::Outbox;

/// Error text of a call without a result, because its request was cancelled.
const CANCELLED: &str = "the request was cancelled before there was a result";

/// Output of a turn.
pub(super) struct TextOutput<'a> {
    turn: &'a Turn,
    /// Cancelled when the client has left.
    connection: &'a CancellationToken,
    outbox: &'a Outbox,
    streams: bool,
    cleaner: Cleaner,
    /// Set if the client has left.
    gone: bool,
    /// Words written so far.
    pub(super) parts: Parts,
    /// Calls made so far.
    pub(super) calls: Vec<CallShown>,
}

impl<'a> TextOutput<'a> {
    pub(super) fn new(
        turn: &'a Turn,
        connection: &'a CancellationToken,
        outbox: &'a Outbox,
        streams: bool,
    ) -> Self {
        Self {
            turn,
            connection,
            outbox,
            streams,
            cleaner: Cleaner::default(),
            gone: false,
            parts: Parts::default(),
            calls: Vec::new(),
        }
    }

    /// Reports whether the model gave no answer: neither words nor an unspoken part such as an
    /// emoji.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.content.is_empty() && !self.cleaner.has_left_out()
    }

    async fn send(&mut self, message: ServerMessage) {
        let sent = tokio::select! {
            biased;
            () = self.turn.cancelled() => false,
            sent = self.outbox.send(message) => sent,
        };
        self.gone |= !sent;
    }

    async fn add(&mut self, text: &str) {
        if let Some(content) = self.parts.add(text)
            && self.streams
        {
            self.send(ServerMessage::LlmDelta { content }).await;
        }
    }

    /// Makes these calls concurrently, and reports each call of a server's tool. If the turn is
    /// cancelled, the calls end with it. If the client leaves, started calls run to their end.
    async fn make(
        &mut self,
        tools: &Toolbox,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> Vec<EndedCall> {
        let turn = self.turn;
        let connection = self.connection;
        let mut running = tools.begin(offer, calls, asked, until);
        let is_client = |call: &ToolRequest| origin(offer, call).0 == source_names::CLIENT;
        let begun = (0..calls.len()).filter(|number| running.ended(*number).is_none());
        let callbacks = begun.filter(|number| is_client(&calls[*number])).count();
        if callbacks > 0 {
            self.send(ServerMessage::Status(Status::WaitingForTools(callbacks))).await;
        }
        loop {
            let number = tokio::select! {
                biased;
                () = turn.cancelled(), if !connection.is_cancelled() => {
                    if connection.is_cancelled() {
                        continue;
                    }
                    break;
                }
                number = running.next() => number,
            };
            let Some(number) = number else { break };
            if let Some(ended) = running.ended(number) {
                let shown = shown(offer, &calls[number], ended);
                if shown.source != source_names::CLIENT {
                    self.send(to_wire(&shown, ended)).await;
                }
            }
        }
        let ended = running.end(false);
        self.calls.extend(calls.iter().zip(&ended).map(|(call, end)| shown(offer, call, end)));
        ended
    }
}

impl TurnOutput for TextOutput<'_> {
    fn turn(&self) -> &Turn {
        self.turn
    }

    fn is_over(&self) -> bool {
        self.gone || !self.turn.is_live()
    }

    fn said(&self) -> usize {
        self.parts.said.len()
    }

    async fn words(&mut self, text: &str) {
        let piece = self.cleaner.push(text);
        self.turn.trace().first_packet();
        self.add(&piece).await;
    }

    async fn pause(&mut self) {
        let rest = self.cleaner.finish();
        self.add(&rest).await;
        self.parts.end_part();
    }

    /// Executes a round of calls. A tool that takes too long ends the turn, as required by the
    /// document (7.7 and 9.8), and the calls after it are not made.
    async fn calls(
        &mut self,
        tools: &Toolbox,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> CallResults {
        let is_client = |call: &&ToolRequest| origin(offer, call).0 == source_names::CLIENT;
        let (own, clients): (Vec<&ToolRequest>, Vec<&ToolRequest>) =
            calls.iter().partition(|call| !is_client(call));
        let mut results: Vec<Option<String>> = vec![None; calls.len()];
        let mut failure = None;
        for group in [own, clients] {
            if group.is_empty() || failure.is_some() || self.is_over() {
                continue;
            }
            let requests: Vec<ToolRequest> = group.iter().map(|call| (*call).clone()).collect();
            let ended = self.make(tools, offer, &requests, asked, until).await;
            for (call, end) in group.into_iter().zip(ended) {
                if let Some(error @ ToolError::Timeout(_)) = end.failure
                    && failure.is_none()
                {
                    let tool = origin(offer, call).1.to_owned();
                    failure = Some(TurnError::Tool { tool, error });
                }
                if let Some(place) = calls.iter().position(|c| std::ptr::eq(c, call)) {
                    results[place] = Some(end.text);
                }
            }
        }
        let not_made = if failure.is_some() { NOT_REACHED } else { NOT_STARTED };
        let texts = results.into_iter().map(|result| result.unwrap_or_else(|| not_made.to_owned()));
        CallResults { texts: texts.collect(), failure }
    }
}

/// Returns the names of a call's source and tool. Without a source, the name is as the model wrote
/// it.
fn origin<'a>(offer: &'a Offer, call: &'a ToolRequest) -> (&'a str, &'a str) {
    offer.origin(&call.name).unwrap_or(("", &call.name))
}

/// Returns the gateway's error code for a call's failure.
pub(super) fn code_of(error: &ToolError, source: &str) -> ErrorCode {
    match error {
        ToolError::Unknown(_) => ErrorCode::ToolNotFound,
        ToolError::Arguments(_) => ErrorCode::InvalidToolParameters,
        ToolError::Timeout(_) if source == source_names::CLIENT => ErrorCode::ToolResultTimeout,
        ToolError::Timeout(_) | ToolError::Unavailable(_) | ToolError::Failed(_) => {
            ErrorCode::ToolExecutionFailed
        }
    }
}

fn shown(offer: &Offer, call: &ToolRequest, ended: &EndedCall) -> CallShown {
    let (source, tool) = origin(offer, call);
    let (code, error) = match &ended.failure {
        Some(error) => (Some(code_of(error, source)), Some(error.to_string())),
        None if ended.cut_short => (Some(ErrorCode::ToolExecutionFailed), Some(CANCELLED.into())),
        None => (None, None),
    };
    CallShown {
        tool_name: tool.to_owned(),
        arguments: parsed_arguments(&call.arguments).unwrap_or_default(),
        success: code.is_none(),
        duration_ms: milliseconds(ended.took),
        source: source.to_owned(),
        code,
        error,
    }
}

/// Returns a time in milliseconds, rounded to a tenth.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Returns the message about a call of a server's tool.
fn to_wire(shown: &CallShown, ended: &EndedCall) -> ServerMessage {
    ServerMessage::ToolCall {
        tool_name: shown.tool_name.clone(),
        arguments: shown.arguments.clone(),
        result: result_of(ended),
        success: shown.success,
        duration_ms: shown.duration_ms,
    }
}

/// Returns a result as an object, as required on the wire.
fn result_of(ended: &EndedCall) -> Map<String, Value> {
    if let Some(error) = &ended.failure {
        return Map::from_iter([("error".to_owned(), error.to_string().into())]);
    }
    match serde_json::from_str(&ended.text) {
        Ok(Value::Object(object)) => object,
        Ok(other) => Map::from_iter([("content".to_owned(), other)]),
        Err(_) => Map::from_iter([("content".to_owned(), ended.text.clone().into())]),
    }
}
