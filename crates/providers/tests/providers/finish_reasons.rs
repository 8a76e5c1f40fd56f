//! Finish reasons of language models: tool calls are made only of answers that are complete. Not for
//! failures without a finish reason.

use futures_util::StreamExt as _;
use hearken_ports::{ChatMessage, LlmDelta, OfferedTool, Prompt, ProviderErrorKind, Role};
use hearken_providers::{LlmProvider, LlmSettings};
use hearken_test_support::vendors::read_request;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// Reasons of vendors for answers that are complete.
const COMPLETE: [&str; 6] =
    ["stop", "tool_calls", "function_call", "end_turn", "tool_use", "stop_sequence"];
/// Reasons for other answers, and the kind of their failure if nothing of them can be used.
const INCOMPLETE: [(&str, ProviderErrorKind); 8] = [
    ("content_filter", ProviderErrorKind::BadRequest),
    ("sensitive", ProviderErrorKind::BadRequest),
    ("refusal", ProviderErrorKind::BadRequest),
    ("error", ProviderErrorKind::Unavailable),
    ("insufficient_system_resource", ProviderErrorKind::Unavailable),
    ("aborted", ProviderErrorKind::Unavailable),
    ("network_error", ProviderErrorKind::Unavailable),
    ("a word of the vendor's own", ProviderErrorKind::Unavailable),
];

/// What a model has written before its answer ends.
#[derive(Debug, Clone, Copy)]
enum Written {
    Nothing,
    Words,
    /// A call with these arguments, after words.
    Call(&'static str),
    /// A call as text.
    TextCall,
}

const WHOLE: &str = r#"{"text":"a"}"#;
const HALF: &str = r#"{"text":"a"#;
const ALL: [Written; 6] = [
    Written::Nothing,
    Written::Words,
    Written::Call(WHOLE),
    Written::Call(HALF),
    Written::Call(""),
    Written::TextCall,
];
const TEXT_CALL: &str = "<function=write><parameter=text>a</parameter></function>";

/// Events of an answer with this finish reason, or without one.
type Events = fn(Written, Option<&str>) -> Vec<String>;

/// Result of an answer.
#[derive(Debug, PartialEq)]
struct Told {
    text: String,
    /// Number of calls that are made: none if the answer fails.
    calls: usize,
    /// Whether it was truncated, or the kind of its failure.
    end: Result<bool, ProviderErrorKind>,
}

/// Returns the events of an answer of OpenAI's API with this finish reason, or without one.
fn of_openai(written: Written, reason: Option<&str>) -> Vec<String> {
    let chunk = |delta: Value, reason: Option<&str>| {
        json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] }).to_string()
    };
    let text = |text: &str| chunk(json!({ "content": text }), None);
    let call = |arguments: &str| {
        let function = json!({ "name": "write", "arguments": arguments });
        chunk(json!({ "tool_calls": [{ "index": 0, "id": "c", "function": function }] }), None)
    };
    let mut events = match written {
        Written::Nothing => Vec::new(),
        Written::Words => vec![text("Hi.")],
        Written::Call(arguments) => vec![text("Hi."), call(arguments)],
        Written::TextCall => vec![text(TEXT_CALL)],
    };
    events.extend(reason.map(|reason| chunk(json!({}), Some(reason))));
    events.push("[DONE]".into());
    events
}

/// The same of Anthropic's API.
fn of_anthropic(written: Written, reason: Option<&str>) -> Vec<String> {
    let block = |index: usize, block: Value, delta: Value| {
        [
            json!({ "type": "content_block_start", "index": index, "content_block": block }),
            json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            json!({ "type": "content_block_stop", "index": index }),
        ]
    };
    let text = |text: &str| {
        block(
            0,
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
        )
    };
    let call = |arguments: &str| {
        let call = json!({ "type": "tool_use", "id": "c", "name": "write", "input": {} });
        block(1, call, json!({ "type": "input_json_delta", "partial_json": arguments }))
    };
    let mut events = match written {
        Written::Nothing => Vec::new(),
        Written::Words => text("Hi.").to_vec(),
        Written::Call(arguments) => [text("Hi."), call(arguments)].concat(),
        Written::TextCall => text(TEXT_CALL).to_vec(),
    };
    events.extend(reason.map(|reason| {
        json!({ "type": "message_delta", "delta": { "stop_reason": reason },
                "usage": { "output_tokens": 1 } })
    }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(Value::to_string).collect()
}

/// Asks a vendor that answers with these events.
async fn told(provider: LlmProvider, events: Vec<String>) -> Told {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let vendor = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        let mut answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();
        for event in events {
            answer.push_str(&format!("data: {event}\n\n"));
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let settings = LlmSettings { provider, base_url, retry_within_ms: 0, ..LlmSettings::default() };
    let parameters = json!({ "type": "object", "properties": { "text": {} } });
    let description = String::new();
    let asked = Prompt {
        tools: [OfferedTool { name: "write".into(), description, parameters }].into(),
        messages: vec![ChatMessage::new(Role::User, "Write.")],
        ..Prompt::default()
    };
    let mut deltas = hearken_providers::llm(&settings).unwrap().reply(asked);
    let mut told = Told { text: String::new(), calls: 0, end: Ok(false) };
    while let Some(delta) = deltas.next().await {
        match delta {
            Ok(LlmDelta::Text(text)) => told.text.push_str(&text),
            Ok(LlmDelta::Call(_)) => told.calls += 1,
            Ok(LlmDelta::Calling | LlmDelta::Rule(_)) => {}
            Ok(LlmDelta::Finished { truncated, .. }) => told.end = Ok(truncated),
            Err(error) => {
                told.calls = 0;
                told.end = Err(error.kind);
            }
        }
    }
    vendor.await.unwrap();
    told
}

#[tokio::test]
async fn calls_are_made_only_of_complete_answers() {
    let apis: [(LlmProvider, Events); 2] =
        [(LlmProvider::OpenAi, of_openai), (LlmProvider::Anthropic, of_anthropic)];
    for (provider, events) in apis {
        for written in ALL {
            let text = match written {
                Written::Nothing | Written::TextCall => "",
                Written::Words | Written::Call(_) => "Hi.",
            };
            let calls = usize::from(matches!(written, Written::Call(_) | Written::TextCall));
            for reason in COMPLETE {
                let wanted = Told { text: text.into(), calls, end: Ok(false) };
                let case = format!("{provider:?}: {written:?}, {reason}");
                assert_eq!(told(provider, events(written, Some(reason))).await, wanted, "{case}");
            }
            // Without a reason, a call that is not whole may have been cut. Anthropic's API ends each.
            let is_cut = match written {
                Written::Call("") => matches!(provider, LlmProvider::OpenAi),
                Written::Call(arguments) => arguments != WHOLE,
                _ => false,
            };
            let end = if is_cut { Err(ProviderErrorKind::Unavailable) } else { Ok(false) };
            let wanted = Told { text: text.into(), calls: if is_cut { 0 } else { calls }, end };
            let case = format!("{provider:?}: {written:?}, no reason");
            assert_eq!(told(provider, events(written, None)).await, wanted, "{case}");
            for (reason, kind) in INCOMPLETE {
                let end = if matches!(written, Written::Words) { Ok(true) } else { Err(kind) };
                let wanted = Told { text: text.into(), calls: 0, end };
                let case = format!("{provider:?}: {written:?}, {reason}");
                assert_eq!(told(provider, events(written, Some(reason))).await, wanted, "{case}");
            }
        }
    }
}
