//! Tests of the requests to Anthropic's API, and of parsing its events.

use hearken_ports::{ChatMessage, LlmDelta, Prompt, Role, ToolRequest, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn request(id: &str, name: &str, arguments: &str) -> ToolRequest {
    ToolRequest {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        ..ToolRequest::default()
    }
}

fn sent(messages: Vec<ChatMessage>) -> Value {
    order("b m", "m", 10, &Prompt { messages, ..Prompt::default() })
}

#[test]
fn messages_alternate_and_the_system_prompt_is_separate() {
    let calls = vec![request("a:1", "f", "{\"x\":1}"), request("", "g", "no JSON")];
    let order = sent(vec![
        ChatMessage::new(Role::System, "Be brief."),
        ChatMessage::new(Role::User, "Hi."),
        ChatMessage::new(Role::User, "Weather?"),
        ChatMessage::calling("I look.", calls),
        ChatMessage::result("a:1", "sunny"),
        ChatMessage::result("", ""),
        ChatMessage::new(Role::User, "And now?"),
        ChatMessage::new(Role::System, "Answer in English."),
    ]);
    let [a, b] = ["a:1", ""].map(|id| CallIds::default().of_result(id));
    let text = |text: &str| json!({ "type": "text", "text": text });
    let called = |id: &str, name: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    let result = |id: &str, content: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": content });
    let gone = |name: &str| {
        json!({ "name": name, "description": "No longer available.",
        "input_schema": { "type": "object", "properties": {} } })
    };
    let expected = json!({
        "model": "m", "max_tokens": 10, "stream": true, "temperature": 0.0,
        "system": "Be brief.\n\nAnswer in English.",
        "tools": [gone("f"), gone("g")], "tool_choice": { "type": "none" },
        "messages": [
            { "role": "user", "content": [text("Hi."), text("Weather?")] },
            { "role": "assistant", "content": [
                text("I look."), called(&a, "f", json!({ "x": 1 })), called(&b, "g", json!({})),
            ] },
            { "role": "user", "content": [result(&a, "sunny"), result(&b, ""), text("And now?")] },
        ],
    });
    assert_eq!(order, expected);
}

#[test]
fn a_conversation_starts_with_the_user_and_has_no_blank_text() {
    let roles = |messages| -> Vec<String> {
        let order = sent(messages);
        order["messages"].as_array().unwrap().iter().map(|m| m["role"].to_string()).collect()
    };
    assert_eq!(roles(vec![]), ["\"user\""]);
    let said = |role, text: &str| ChatMessage::new(role, text);
    let greeted = vec![said(Role::Assistant, "I'm here."), said(Role::User, "Hi.")];
    assert_eq!(roles(greeted), ["\"user\"", "\"assistant\"", "\"user\""]);
    let blank = vec![said(Role::User, "Hi."), said(Role::Assistant, " \n"), said(Role::User, "?")];
    assert_eq!(sent(blank)["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_temperature_is_limited_to_the_range_of_the_api() {
    let sent = |temperature| {
        let prompt = Prompt { temperature, ..Prompt::default() };
        order("b m", "m", 10, &prompt)["temperature"].to_string()
    };
    assert_eq!([sent(1.7), sent(0.7), sent(0.0)], ["1.0", "0.7", "0.0"]);
}

fn read(events: &[Value]) -> (Vec<LlmDelta>, Option<ProviderError>) {
    let mut pieces = AnswerAssembler::default();
    let broken = events.iter().find_map(|event| pieces.read(&event.to_string()).err());
    pieces.close();
    let mut deltas: Vec<LlmDelta> = std::mem::take(pieces.ready()).into();
    if pieces.progress() == Progress::Over {
        let (ending, usage) = pieces.ending();
        deltas.push(LlmDelta::Finished { truncated: ending != Ending::Complete, usage });
    }
    (deltas, broken)
}

fn start() -> Value {
    json!({ "type": "message_start", "message": { "id": "msg_1", "usage": {
        "input_tokens": 20, "cache_read_input_tokens": 5, "cache_creation_input_tokens": null,
        "output_tokens": 1,
    } } })
}

fn end(reason: &str) -> Value {
    json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 9 } })
}

#[test]
fn words_and_calls_are_read_from_their_blocks() {
    let (deltas, broken) = read(&[
        start(),
        json!({ "type": "ping" }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "thinking", "thinking": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "thinking_delta", "thinking": "hm" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "text_delta", "text": "你好" } }),
        json!({ "type": "content_block_stop", "index": 1 }),
        json!({ "type": "content_block_start", "index": 2, "content_block": { "type": "tool_use", "id": "t1", "name": "f", "input": {} } }),
        json!({ "type": "content_block_delta", "index": 2, "delta": { "type": "input_json_delta", "partial_json": "" } }),
        json!({ "type": "content_block_delta", "index": 2, "delta": { "type": "input_json_delta", "partial_json": "{\"x\":" } }),
        json!({ "type": "content_block_delta", "index": 2, "delta": { "type": "input_json_delta", "partial_json": "1}" } }),
        json!({ "type": "content_block_stop", "index": 2 }),
        json!({ "type": "content_block_start", "index": 3, "content_block": { "type": "tool_use", "id": "t2", "name": "g" } }),
        json!({ "type": "content_block_stop", "index": 3 }),
        json!({ "type": "something_new", "index": 3 }),
        end("tool_use"),
        json!({ "type": "message_stop" }),
    ]);
    let usage = Some(Usage { prompt_tokens: 25, completion_tokens: 9, cost_nano: 0 });
    let expected = [
        LlmDelta::Text("你好".into()),
        LlmDelta::Calling,
        LlmDelta::Call(request("t1", "f", "{\"x\":1}")),
        LlmDelta::Call(request("t2", "g", "{}")),
        LlmDelta::Finished { truncated: false, usage },
    ];
    assert!(broken.is_none());
    assert_eq!(deltas, expected);
}

#[test]
fn a_call_truncated_at_the_maximum_length_is_not_made() {
    let begin = |index: u64| json!({ "type": "content_block_start", "index": index, "content_block": { "type": "tool_use", "id": format!("t{index}"), "name": "f", "input": {} } });
    let more = |json: &str| json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": json } });
    let stop = |index: u64| json!({ "type": "content_block_stop", "index": index });
    let first = [start(), begin(0), stop(0), begin(1)];
    for (rest, reason, made) in [
        (vec![stop(1)], "max_tokens", 1),
        (vec![], "max_tokens", 1),
        (vec![more("{\"x\":")], "max_tokens", 1),
        (vec![more("{\"x\":"), stop(1)], "max_tokens", 1),
        (vec![more("{\"x\": 1}"), stop(1)], "max_tokens", 2),
        (vec![stop(1)], "tool_use", 2),
    ] {
        let case = format!("{rest:?} {reason}");
        let (deltas, broken) = read(&[&first[..], &rest, &[end(reason)]].concat());
        let calls = deltas.iter().filter(|delta| matches!(delta, LlmDelta::Call(_))).count();
        assert_eq!((calls, broken.is_none()), (made, true), "{case}");
    }
}

#[test]
fn ends_and_errors_are_distinguished() {
    let finished = |reason: &str| match read(&[start(), end(reason)]) {
        (deltas, None) => matches!(deltas[..], [LlmDelta::Finished { truncated: true, .. }]),
        (_, Some(error)) => panic!("{error:?}"),
    };
    assert!(finished("max_tokens") && finished("model_context_window_exceeded"));
    assert!(!finished("end_turn") && !finished("stop_sequence"));
    let error = |kind: &str| {
        let error = json!({ "type": kind, "message": "secret" });
        let error = read(&[json!({ "type": "error", "error": error })]).1.unwrap();
        (error.kind, error.to_string().rsplit(' ').next().unwrap().to_owned())
    };
    for (word, kind) in [
        ("overloaded_error", ProviderErrorKind::Unavailable),
        ("rate_limit_error", ProviderErrorKind::RateLimited),
        ("billing_error", ProviderErrorKind::NotServed),
        ("not_found_error", ProviderErrorKind::NotServed),
        ("request_too_large", ProviderErrorKind::TooLarge),
        ("invalid_request_error", ProviderErrorKind::BadRequest),
    ] {
        assert_eq!(error(word), (kind, word.to_owned()));
    }
    assert_eq!(error("you said Hello"), (ProviderErrorKind::Fault, "unknown".into()));
    let mut pieces = AnswerAssembler::default();
    pieces.read("no JSON").unwrap();
    assert_eq!(pieces.unreadable().unwrap().kind, ProviderErrorKind::Protocol);
    pieces.read("{}").unwrap();
    assert!(pieces.unreadable().is_none());
}

#[test]
fn arguments_are_read_once_from_every_place() {
    let begin = |name: &str, input: Value| json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "t", "name": name, "input": input } });
    let more = |json: Value| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": json } });
    let input = || json!({ "x": 1 });
    for (name, events) in [
        ("f", vec![begin("f", input())]),
        ("f", vec![begin("f", input()), more("{\"x\":1}".into())]),
        ("f", vec![begin("f", input()), more("{\"x\"".into()), more(":1}".into())]),
        ("f", vec![begin("f", json!({})), more("{\"x\"".into()), more(":1}".into())]),
        ("f", vec![begin("f", json!({})), more(input())]),
        ("f", vec![begin("f<|channel|>commentary", input())]),
    ] {
        let (deltas, broken) = read(&[&events[..], &[end("tool_use")]].concat());
        assert!(broken.is_none());
        let call = LlmDelta::Call(request("t", name, "{\"x\":1}"));
        assert!(deltas.contains(&call), "{events:?}: {deltas:?}");
    }
}

#[test]
fn odd_events_lose_neither_text_nor_calls() {
    let call = |id: &str| {
        let block = json!({ "type": "tool_use", "id": id, "name": "f", "input": {} });
        json!({ "type": "content_block_start", "index": "0", "content_block": block })
    };
    let more = json!({ "type": "content_block_delta", "index": 0.0, "delta": { "type": "input_json_delta", "partial_json": "{\"x\":1}" } });
    let say = |text: Value| json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": text } });
    let (deltas, broken) = read(&[
        json!({ "type": "message_start" }),
        json!(null),
        json!({ "type": "content_block_delta" }),
        say("Hi".into()),
        say(Value::Null),
        say(".".into()),
        json!({ "type": "message_delta", "usage": { "output_tokens": "7" } }),
        call("a"),
        more.clone(),
        call("b"),
        more,
        json!({ "type": "message_stop" }),
    ]);
    assert!(broken.is_none());
    let usage = Some(Usage { prompt_tokens: 0, completion_tokens: 7, cost_nano: 0 });
    let expected = [
        LlmDelta::Text("Hi".into()),
        LlmDelta::Text(".".into()),
        LlmDelta::Calling,
        LlmDelta::Call(request("a", "f", "{\"x\":1}")),
        LlmDelta::Call(request("b", "f", "{\"x\":1}")),
        LlmDelta::Finished { truncated: false, usage },
    ];
    assert_eq!(deltas, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_events_cause_a_panic(events in prop::collection::vec(
        (0_usize..8, 0_u64..100, ".{0,4}"), 0..150)) {
        let mut pieces = AnswerAssembler::default();
        for (kind, index, text) in events {
            let event = match kind {
                0 => json!({ "type": "content_block_start", "index": index, "content_block": { "type": "tool_use", "id": text, "name": text } }),
                1 => json!({ "type": "content_block_delta", "index": index, "delta": { "type": "input_json_delta", "partial_json": text } }),
                2 => json!({ "type": "content_block_stop", "index": index }),
                3 => json!({ "type": "content_block_delta", "index": index, "delta": { "type": "text_delta", "text": text } }),
                4 => json!({ "type": text }),
                5 => start(),
                6 => json!({ "type": "content_block_start", "index": index, "content_block": { "type": text } }),
                _ => json!({ "type": "message_delta", "delta": {}, "usage": { "output_tokens": index } }),
            };
            pieces.read(&event.to_string()).ok();
        }
        prop_assert!(pieces.calls.len() <= MAX_CALLS);
    }

    #[test]
    fn every_conversation_alternates_and_starts_with_the_user(roles in prop::collection::vec(0_usize..4, 0..20)) {
        let all = [Role::System, Role::User, Role::Assistant, Role::Tool];
        let messages: Vec<ChatMessage> = roles.into_iter().map(|n| ChatMessage::new(all[n], "x")).collect();
        let order = sent(messages);
        for (n, message) in order["messages"].as_array().unwrap().iter().enumerate() {
            prop_assert_eq!(&message["role"], if n % 2 == 0 { "user" } else { "assistant" });
        }
    }
}

#[test]
fn endless_arguments_are_refused_also_across_several_calls() {
    let begin = |index: usize| {
        json!({ "type": "content_block_start", "index": index,
                "content_block": { "type": "tool_use", "id": "t", "name": "f", "input": {} } })
    };
    let more = |index: usize| {
        json!({ "type": "content_block_delta", "index": index,
                "delta": { "type": "input_json_delta", "partial_json": "x".repeat(1 << 10) } })
    };
    let stop = |index: usize| json!({ "type": "content_block_stop", "index": index });
    let calls = |calls: usize| -> Vec<Value> {
        let one = |n: usize| [vec![begin(n)], vec![more(n); 64], vec![stop(n)]].concat();
        (0..calls).flat_map(one).collect()
    };
    assert!(read(&calls(4)).1.is_none());
    let (_, broken) = read(&calls(5));
    assert!(broken.unwrap().to_string().contains("too long"));
}
