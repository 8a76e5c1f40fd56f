//! Fuzz targets: LiteMCP in both directions, and its framing on standard streams.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use hearken_base::fuzzing::pieces;
use hearken_ports::{Tool, ToolCall, ToolError, ToolOutput, ToolSource};
use hearken_proto::litemcp::{self, Body, Envelope, Ids};
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::codec::Decoder as _;

use super::arguments;
use super::frame_connection::{PendingRequests, deliver};
use super::frames::Frames;
use super::server::LiteMcpServer;
use crate::mapping::is_bounded;

/// Maximum size of a message of a stream: small, so that inputs reach it.
const MAX_BYTES: usize = 100;
/// Id of the pending request.
const ASKED: i64 = 7;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().build().expect("the runtime can be built")
});

/// Frames of a LiteMCP tool, one per line: the first answer to a pending request ends its wait, and
/// nothing else does.
///
/// # Panics
/// Panics if one of these properties is broken.
pub fn litemcp_answers(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (tell, mut told) = oneshot::channel();
    let by_id = HashMap::from([(ASKED, tell)]);
    let pending = Mutex::new(PendingRequests { by_id, ids: Ids::new(0) });
    let mut waits = true;
    for frame in text.lines() {
        let is_message = deliver(&pending, frame);
        let envelope = Envelope::decode(frame);
        assert_eq!(is_message, envelope.is_ok());
        let is_answer = envelope.is_ok_and(|envelope| {
            envelope.id == ASKED && matches!(envelope.kind.as_str(), "info" | "result")
        });
        let answer = told.try_recv();
        assert_eq!(answer.is_ok(), waits && is_answer, "{frame}");
        waits &= answer.is_err();
        if let Ok(Ok(Body::Result(result))) = answer {
            is_bounded(arguments::output(result));
        }
    }
}

/// A tool's description, and its arguments in either order, survive both conversions.
///
/// # Panics
/// Panics if one of these properties is broken.
pub fn litemcp_tools(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    if let Ok(wire) = serde_json::from_value::<litemcp::Tool>(value.clone())
        && let Ok(tool) = arguments::tool(&wire)
    {
        let given = wire.parameters.iter().enumerate();
        let given: Map<String, Value> =
            given.map(|(n, parameter)| (parameter.name.clone(), n.to_string().into())).collect();
        let order: Vec<String> = (0..wire.parameters.len()).map(|n| n.to_string()).collect();
        assert_eq!(arguments::in_order(&wire.parameters, &given), Ok(order));
        assert_eq!(tool.name, wire.name);
    }
    // Parameters of one of our tools, with texts that its peers may send.
    let tool = Tool { parameters: value, ..greet() };
    let wire = arguments::to_wire(&tool);
    let texts: Vec<String> = ["1", "", "true", "[1.50]", "字", "null", "{}", "\"x\""]
        .map(str::to_owned)
        .into_iter()
        .cycle()
        .take(wire.parameters.len())
        .collect();
    let mut named = arguments::by_name(&tool, &texts).expect("there is one text per parameter");
    // Null means missing.
    named.retain(|_, argument| !argument.is_null());
    if let Ok(order) = arguments::in_order(&wire.parameters, &named) {
        assert_eq!(arguments::by_name(&tool, &order), Ok(named));
    }
    let many = vec![String::new(); wire.parameters.len() + 1];
    assert!(arguments::by_name(&tool, &many).is_err());
}

/// Messages on standard streams are the same however they are split, and bounded; our server
/// answers each request once, with a message that a peer can read.
///
/// # Panics
/// Panics if one of these properties is broken.
pub fn litemcp_stdio(bytes: &[u8]) {
    let whole = split(&[bytes]);
    assert_eq!(split(&pieces(bytes)), whole);
    assert!(whole.0.iter().all(|text| text.len() <= 3 * MAX_BYTES && !text.trim().is_empty()));

    let server = LiteMcpServer::find(&[Arc::new(Greeter) as Arc<dyn ToolSource>], "greet");
    let server = server.expect("the source has this tool");
    let mut output = Vec::new();
    RUNTIME.block_on(server.over_streams(bytes, &mut output)).expect("the input is short");
    let mut frames = Frames::new(usize::MAX);
    let mut output = BytesMut::from(&output[..]);
    let mut answers = 0;
    while let Some(answer) = frames.decode(&mut output).expect("there is no limit") {
        let body = Envelope::decode(&answer).and_then(Envelope::body);
        assert!(matches!(body, Ok(Body::Info(_) | Body::Result(_))), "{answer}");
        answers += 1;
    }
    assert!(output.is_empty() && answers <= bytes.len() / 2);
}

/// Splits a stream that arrives in these pieces, and reports whether it was read to its end.
fn split(pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let mut frames = Frames::new(MAX_BYTES);
    let mut bytes = BytesMut::new();
    let mut texts = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        loop {
            match frames.decode(&mut bytes) {
                Ok(Some(text)) => texts.push(text),
                Ok(None) => break,
                Err(_) => return (texts, false),
            }
        }
    }
    while let Ok(Some(text)) = frames.decode_eof(&mut bytes) {
        texts.push(text);
    }
    (texts, bytes.is_empty())
}

fn greet() -> Tool {
    let number = json!({"type": "integer", "description": "How often."});
    Tool {
        name: "greet".into(),
        description: "Greets somebody.".into(),
        parameters: json!({"type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "times": number}}),
        finishes: false,
        destructive: false,
    }
}

/// Source of one tool, which repeats its arguments.
struct Greeter;

impl ToolSource for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }

    fn tools(&self) -> Arc<[Tool]> {
        [greet()].into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let text = Value::Object(call.arguments).to_string();
        Box::pin(std::future::ready(Ok(ToolOutput::text(text))))
    }
}
