//! Answers that end without a finish reason: a call that may be incomplete is not made, and the
//! answer is one that broke off. At both APIs.

use futures_util::TryStreamExt as _;
use hearken_ports::{ChatMessage, LlmDelta, OfferedTool, Prompt, ProviderErrorKind, Role};
use hearken_providers::{LlmProvider, LlmSettings};
use hearken_test_support::vendors::read_request;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// End of the body of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// Its end mark.
    Mark,
    /// None: the connection is closed.
    Close,
    /// The connection is closed within a piece of the body.
    Break,
}

/// Returns the text of an answer of these events, with each call in angle quotes; `None` if it broke
/// off.
async fn told(provider: LlmProvider, events: &[Value], end: End) -> Option<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    if end == End::Mark {
        body.push_str(match provider {
            LlmProvider::Anthropic => "data: {\"type\":\"message_stop\"}\n\n",
            _ => "data: [DONE]\n\n",
        });
    }
    let length = if end == End::Break { body.len() + 9 } else { body.len() };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let whole = format!("{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
    let vendor = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream.write_all(whole.as_bytes()).await.unwrap();
    });
    let settings = LlmSettings {
        provider,
        base_url,
        model: "m".into(),
        retry_within_ms: 0,
        ..LlmSettings::default()
    };
    let tool = OfferedTool {
        name: "write".into(),
        description: String::new(),
        parameters: json!({ "type": "object", "properties": { "text": {} } }),
    };
    let messages = vec![ChatMessage::new(Role::User, "Write.")];
    let prompt = Prompt { messages, tools: [tool].into(), max_tokens: 40, ..Prompt::default() };
    let llm = hearken_providers::llm(&settings).unwrap();
    let deltas: Result<Vec<LlmDelta>, _> = llm.reply(prompt).try_collect().await;
    vendor.await.unwrap();
    let deltas = match deltas {
        Ok(deltas) => deltas,
        Err(error) => {
            assert_eq!(error.kind, ProviderErrorKind::Unavailable, "{error}");
            return None;
        }
    };
    let told = |delta| match delta {
        LlmDelta::Text(text) => text,
        LlmDelta::Call(call) => format!("«{}{}»", call.name, call.arguments),
        _ => String::new(),
    };
    Some(deltas.into_iter().map(told).collect())
}

const WHOLE: &str = r#"{"text":"a"}"#;
const MADE: &str = r#"«write{"text":"a"}»"#;
const WRITTEN: &str = "<function=write><parameter=text>a";

#[tokio::test]
async fn a_chat_completion_without_a_reason_makes_only_whole_calls() {
    let chunk = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    let text = |text: &str| chunk(json!({ "content": text }));
    let native = |index: usize, arguments: &str| {
        let function = json!({ "name": "write", "arguments": arguments });
        let id = format!("c{index}");
        chunk(json!({ "tool_calls": [{ "index": index, "id": id, "function": function }] }))
    };
    let reasoned = |mut chunk: Value| {
        chunk["choices"][0]["finish_reason"] = "tool_calls".into();
        chunk
    };
    let closed = format!("{WRITTEN}</parameter></function>");
    for (events, end, expected) in [
        (vec![text("Hi.")], End::Mark, Some("Hi.")),
        (vec![text("Hi.")], End::Close, None),
        (vec![native(0, WHOLE)], End::Mark, Some(MADE)),
        (vec![native(0, WHOLE)], End::Close, None),
        (vec![native(0, WHOLE)], End::Break, None),
        (vec![native(0, r#"{"text":"a"#)], End::Mark, None),
        (vec![native(0, "")], End::Mark, None),
        (vec![native(0, WHOLE), native(1, "")], End::Mark, None),
        (vec![text("So."), native(0, r#"{"te"#)], End::Mark, None),
        (vec![text(WRITTEN)], End::Mark, None),
        (vec![text(&closed)], End::Mark, Some(MADE)),
        // The reason is in the piece of the call: more may follow.
        (vec![reasoned(native(0, ""))], End::Mark, Some("«write»")),
        (vec![reasoned(native(0, ""))], End::Close, Some("«write»")),
        (vec![reasoned(native(0, ""))], End::Break, None),
        (vec![reasoned(native(0, WHOLE))], End::Break, Some(MADE)),
    ] {
        let told = told(LlmProvider::OpenAi, &events, end).await;
        assert_eq!(told.as_deref(), expected, "{events:?} {end:?}");
    }
}

#[tokio::test]
async fn a_message_without_a_reason_makes_only_whole_calls() {
    let begin =
        |block: Value| json!({ "type": "content_block_start", "index": 0, "content_block": block });
    let call = || begin(json!({ "type": "tool_use", "id": "t", "name": "write", "input": {} }));
    let more = |part: &str| {
        let delta = json!({ "type": "input_json_delta", "partial_json": part });
        json!({ "type": "content_block_delta", "index": 0, "delta": delta })
    };
    let stop = || json!({ "type": "content_block_stop", "index": 0 });
    let text = |text: &str| begin(json!({ "type": "text", "text": text }));
    for (events, end, expected) in [
        (vec![text("Hi.")], End::Mark, Some("Hi.")),
        (vec![text("Hi.")], End::Close, None),
        (vec![call(), more(WHOLE)], End::Mark, Some(MADE)),
        (vec![call(), more(WHOLE), stop()], End::Mark, Some(MADE)),
        (vec![call(), more(WHOLE), stop()], End::Close, None),
        (vec![call(), more(WHOLE), stop()], End::Break, None),
        (vec![call(), stop()], End::Mark, Some("«write{}»")),
        (vec![call()], End::Mark, None),
        (vec![call(), more(r#"{"te"#)], End::Mark, None),
        (vec![text(WRITTEN)], End::Mark, None),
    ] {
        let told = told(LlmProvider::Anthropic, &events, end).await;
        assert_eq!(told.as_deref(), expected, "{events:?} {end:?}");
    }
}
