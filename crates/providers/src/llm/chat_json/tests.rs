//! Tests of the requests to an OpenAI-compatible server, and of parsing its chunks.

use super::*;
use proptest::prelude::*;

fn read(deltas: &[Value]) -> Vec<String> {
    let mut pieces = AnswerAssembler::default();
    for delta in deltas {
        pieces.chunk(&json!({ "choices": [{ "delta": delta }] }));
    }
    pieces.chunk(&json!({ "choices": [{ "finish_reason": "tool_calls" }] }));
    let calls = pieces.ready.into_iter().filter_map(|delta| match delta {
        LlmDelta::Call(call) => Some(format!("{} {} {}", call.id, call.name, call.arguments)),
        _ => None,
    });
    calls.collect()
}

#[test]
fn calls_are_joined_from_the_pieces_of_every_kind_of_server() {
    let fragment = |index: Value, id: Value, name: Value, arguments: Value| json!({ "index": index, "id": id, "function": { "name": name, "arguments": arguments } });
    let null = || Value::Null;
    // OpenAI: two calls by index, interleaved.
    let deltas = [
        json!({ "tool_calls": [fragment(0.into(), "a".into(), "f".into(), "".into())] }),
        json!({ "tool_calls": [fragment(1.into(), "b".into(), "g".into(), "{}".into())] }),
        json!({ "tool_calls": [fragment(0.into(), null(), null(), "{\"x\":".into())] }),
        json!({ "tool_calls": [fragment(0.into(), "".into(), null(), "1}".into())] }),
    ];
    assert_eq!(read(&deltas), ["a f {\"x\":1}", "b g {}"]);
    // No index, whole calls at once, arguments as an object.
    let deltas = [json!({ "tool_calls": [
        fragment(null(), "a".into(), "f".into(), json!({ "x": 1 })),
        fragment(null(), "b".into(), "g".into(), null()),
    ] })];
    assert_eq!(read(&deltas), ["a f {\"x\":1}", "b g "]);
    // No index, id and name repeated.
    let deltas = [
        json!({ "tool_calls": [fragment(null(), "a".into(), "f".into(), "{".into())] }),
        json!({ "tool_calls": [fragment(null(), "a".into(), "f".into(), "}".into())] }),
    ];
    assert_eq!(read(&deltas), ["a f {}"]);
    // No ids at all.
    let deltas = [json!({ "tool_calls": [fragment(0.into(), null(), "f".into(), "{}".into())] })];
    assert_eq!(read(&deltas), [" f {}"]);
    assert_eq!(read(&[json!({ "content": "hi", "tool_calls": null })]), [""; 0]);
}

#[test]
fn usage_is_read_from_every_place() {
    let read = |chunks: &[Value]| {
        let mut pieces = AnswerAssembler::default();
        chunks.iter().for_each(|chunk| pieces.chunk(chunk));
        pieces.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens))
    };
    let end = |usage: Value| json!({ "choices": [{ "finish_reason": "stop" }], "usage": usage });
    let cost = |written: u64| json!({ "prompt_tokens": 7, "completion_tokens": written });
    assert_eq!(read(&[end(cost(3))]), Some((7, 3)));
    assert_eq!(read(&[end(Value::Null), json!({ "choices": [], "usage": cost(3) })]), Some((7, 3)));
    assert_eq!(read(&[json!({ "choices": [], "usage": cost(1) }), end(cost(2))]), Some((7, 2)));
    assert_eq!(read(&[end(json!({ "prompt_tokens": "many" }))]), Some((0, 0)));
    assert_eq!(read(&[end(Value::Null)]), None);
}

#[test]
fn malformed_arguments_are_not_sent_back() {
    let call = |arguments: &str| {
        let arguments = arguments.to_owned();
        ToolRequest { id: "a".into(), name: "f".into(), arguments, ..ToolRequest::default() }
    };
    let sent =
        |arguments| json!(past_call("a".into(), &call(arguments)))["function"]["arguments"].clone();
    assert_eq!(sent("{\"x\": 1}"), "{\"x\": 1}");
    assert_eq!(sent("{\"x\": "), "{}");
    assert_eq!(sent("7"), "{}");
}

/// Returns the result of these events: text unchanged, each call in angle quotes, and the progress.
fn told(events: &[String]) -> (String, Progress) {
    let mut pieces = AnswerAssembler::default();
    for event in events {
        pieces.read(event).unwrap();
    }
    let progress = pieces.progress();
    pieces.close();
    let told = |delta| match delta {
        LlmDelta::Text(text) => text,
        LlmDelta::Call(call) => format!("«{} {} {}»", call.id, call.name, call.arguments),
        _ => String::new(),
    };
    (std::mem::take(pieces.ready()).into_iter().map(told).collect(), progress)
}

fn chunk(delta: Value) -> String {
    json!({ "choices": [{ "delta": delta }] }).to_string()
}

#[test]
fn parallel_calls_with_one_index_are_separated() {
    let call = |id: Value, name: Value, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        chunk(json!({ "tool_calls": [{ "index": 0, "id": id, "function": function }] }))
    };
    let no = || Value::Null;
    // Whole calls, each with its own id.
    let events = [call("a".into(), "f".into(), "{}"), call("b".into(), "f".into(), "{\"x\":1}")];
    assert_eq!(told(&events).0, "«a f {}»«b f {\"x\":1}»");
    // In fragments. Only the first one has the id.
    let events = [
        call("a".into(), "f".into(), ""),
        call(no(), no(), "{\"x\":"),
        call("".into(), no(), "1}"),
        call("b".into(), "g".into(), "{"),
        call(no(), no(), "}"),
    ];
    assert_eq!(told(&events).0, "«a f {\"x\":1}»«b g {}»");
    // As OpenAI streams them: id and name come first, with no arguments yet.
    let events = [
        call("a".into(), "f".into(), ""),
        call(no(), no(), "{\"x\":1}"),
        call("b".into(), "f".into(), ""),
        call(no(), no(), "{\"x\":2}"),
        call("c".into(), "g".into(), ""),
    ];
    assert_eq!(told(&events).0, "«a f {\"x\":1}»«b f {\"x\":2}»«c g »");
    // Started before the previous one is complete, with the id in every fragment.
    let events = [
        call("a".into(), "f".into(), "{\"x\":"),
        call("b".into(), "g".into(), "{\"y\":"),
        call("a".into(), no(), "1}"),
        call("b".into(), no(), "2}"),
    ];
    assert_eq!(told(&events).0, "«a f {\"x\":1}»«b g {\"y\":2}»");
    // Without any ids: a name after a whole call starts the next.
    let events = [call(no(), "f".into(), "{\"x\":1}"), call(no(), "f".into(), "{\"x\":2}")];
    assert_eq!(told(&events).0, "« f {\"x\":1}»« f {\"x\":2}»");
    // An older form, and a single call in place of a list.
    let old = json!({ "name": "f", "arguments": "{}" });
    assert_eq!(told(&[chunk(json!({ "function_call": old }))]).0, "« f {}»");
    let alone = json!({ "id": "a", "function": { "name": "f", "arguments": {} } });
    assert_eq!(told(&[chunk(json!({ "tool_calls": alone }))]).0, "«a f {}»");
}

#[test]
fn an_answer_without_a_finish_reason_is_complete_at_the_end_of_the_stream() {
    let hi = chunk(json!({ "content": "Hi." }));
    assert_eq!(told(std::slice::from_ref(&hi)), ("Hi.".into(), Progress::Going));
    assert_eq!(told(&[hi.clone(), "[DONE]".into()]), ("Hi.".into(), Progress::Over));
    let end = json!({ "choices": [{ "finish_reason": "stop" }] }).to_string();
    assert_eq!(told(&[hi.clone(), end.clone()]).1, Progress::Complete);
    let cost = json!({ "usage": { "prompt_tokens": "7", "completion_tokens": 3.0 } }).to_string();
    assert_eq!(told(&[hi, end, cost]), ("Hi.".into(), Progress::Over));
}

#[test]
fn events_that_are_not_chunks_are_ignored() {
    let event = |text: &str| chunk(json!({ "content": text }));
    for between in [
        "connected",
        "[PING]",
        "[heartbeat]",
        "keep_alive",
        ": OPENROUTER PROCESSING",
        "[START]",
        "[END]",
        "undefined",
        "\"ping\"",
        "1",
        "null",
        "{}",
        "{\"type\":\"ping\"}",
        "<garbage>",
        "{\"choices\":[{\"delta\":{\"content\":\"x}",
    ] {
        let events = [between.into(), event("Hi"), between.into(), event(".")];
        assert_eq!(told(&events), ("Hi.".into(), Progress::Going), "{between}");
    }
    for end in ["[DONE]", "[done]", "[Done] ", "\"[DONE]\"", "\"[DONE]", "'[done]'", "[DONE]\0"] {
        assert_eq!(told(&[event("Hi."), end.into()]), ("Hi.".into(), Progress::Over), "{end}");
    }
    // An answer of such events alone is an error.
    let mut pieces = AnswerAssembler::default();
    pieces.read("no JSON").unwrap();
    assert_eq!(pieces.unreadable().unwrap().kind, ProviderErrorKind::Protocol);
    assert_eq!(pieces.read("[DONE]").unwrap_err().kind, ProviderErrorKind::Protocol);
    assert!(AnswerAssembler::default().read("[DONE]").is_ok());
}

#[test]
fn invalid_characters_and_numbers_do_not_lose_the_answer() {
    let event = |text: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}");
    let halves = [event("Hi \\ud83d"), event("\\ude00."), event("\\ud83d")];
    assert_eq!(told(&halves).0, "Hi 😀.");
    let odd = r#"{"choices":[{"delta":{"content":"Hi."},"logprobs":NaN}]}"#;
    assert_eq!(told(&[odd.to_owned()]).0, "Hi.");
}

#[test]
fn an_empty_error_beside_content_is_ignored() {
    for error in [json!(""), json!(false), json!({}), json!([]), json!(0), Value::Null] {
        let event = |choices: Value| json!({ "error": error, "choices": choices }).to_string();
        let content = event(json!([{ "delta": { "content": "Hi." } }]));
        assert_eq!(told(&[content]).0, "Hi.", "{error}");
        let alone = AnswerAssembler::default().read(&event(Value::Null));
        assert_eq!(alone.is_ok(), error.is_null() || error == false, "{error}");
    }
}

#[test]
fn a_message_is_read_in_pieces_and_only_once() {
    let message =
        |text: &str| json!({ "choices": [{ "message": { "content": text } }] }).to_string();
    let bare = |text: &str| {
        json!({ "choices": [{ "delta": {}, "message": { "content": text } }] }).to_string()
    };
    let hi = || message("Hi ");
    for (events, text) in [
        (vec![hi(), message("there"), message(".")], "Hi there."),
        (vec![message(""), hi(), message("there.")], "Hi there."),
        (vec![hi(), message("Hi there."), message("Hi there.")], "Hi there."),
        (vec![hi(), message("there."), bare("Hi there.")], "Hi there."),
        (vec![bare("Hi "), bare("there.")], "Hi there."),
        (vec![bare(""), chunk(json!({ "content": "Hi." })), bare("Hi.")], "Hi."),
        (vec![chunk(json!({ "content": "Hi." })), message("Hi.")], "Hi."),
    ] {
        assert_eq!(told(&events).0, text, "{events:?}");
    }
}

#[test]
fn a_sent_description_is_accepted_by_every_vendor() {
    let description = "字".repeat(1_500);
    let offered = OfferedTool { name: "f".into(), description, parameters: json!({}) };
    let sent = json!(tool(&offered))["function"]["description"].as_str().unwrap().to_owned();
    assert_eq!(sent.chars().count(), 1_024);
}

#[test]
fn separate_thinking_is_not_text() {
    for delta in [
        json!({ "reasoning_content": "secret" }),
        json!({ "reasoning": "secret", "content": null }),
        json!({ "reasoning_details": [{ "type": "reasoning.text", "text": "secret" }] }),
        json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "secret" }] }] }),
        json!({ "content": [{ "type": "reasoning", "text": "secret" }] }),
    ] {
        assert_eq!(told(&[chunk(delta)]).0, "");
    }
    let mut pieces = AnswerAssembler::default();
    pieces.chunk(&json!({ "choices": [{ "delta": { "reasoning_content": "x" } }] }));
    assert!(pieces.thinks_apart());
}

#[test]
fn an_error_within_the_answer_has_its_kind() {
    let kind = |error: Value| {
        let event = json!({ "error": error, "choices": [] }).to_string();
        AnswerAssembler::default().read(&event).unwrap_err().kind
    };
    assert_eq!(kind(json!({ "message": "secret" })), ProviderErrorKind::Unavailable);
    assert_eq!(kind(json!("secret")), ProviderErrorKind::Unavailable);
    assert_eq!(kind(json!({ "code": 429 })), ProviderErrorKind::RateLimited);
    assert_eq!(kind(json!({ "code": "502" })), ProviderErrorKind::Unavailable);
    assert_eq!(kind(json!({ "code": "rate_limit_exceeded" })), ProviderErrorKind::RateLimited);
    assert_eq!(kind(json!({ "type": "server_error" })), ProviderErrorKind::Fault);
    assert_eq!(kind(json!({ "code": "context_length_exceeded" })), ProviderErrorKind::TooLarge);
}

/// Builds a chunk with this text in one of the forms that servers send, or a chunk without text.
fn odd(form: usize, text: &str) -> Value {
    match form {
        0 => json!({ "choices": [{ "delta": { "content": text } }] }),
        1 => {
            json!({ "choices": [{ "index": "0", "delta": { "content": text }, "finish_reason": null }] })
        }
        2 => {
            json!({ "choices": { "index": 0.0, "delta": { "content": [{ "type": "text", "text": text }] } } })
        }
        3 => {
            json!({ "choices": [{ "delta": { "content": [text, { "text": { "value": "" } }] } }] })
        }
        4 => {
            json!({ "choices": [{ "delta": { "content": { "text": text } }, "logprobs": [] }], "usage": null })
        }
        5 => json!({ "choices": [{ "delta": text }], "usage": { "prompt_tokens": -1 } }),
        6 => json!({ "choices": [{ "text": text }], "error": null }),
        7 => {
            json!({ "choices": [{ "index": null, "delta": { "role": 1, "content": text, "tool_calls": null } }] })
        }
        8 => json!({ "choices": [{ "delta": { "refusal": text, "content": null } }] }),
        9 => {
            json!({ "choices": [{ "delta": { "content": text, "tool_calls": [] }, "finish_reason": "" }] })
        }
        _ => json!({ "choices": [{ "finish_reason": "stop", "delta": { "content": text } }] }),
    }
}

fn silent(form: usize) -> Value {
    match form {
        0 => json!({ "choices": null, "usage": { "prompt_tokens": 1 } }),
        1 => json!({ "usage": { "completion_tokens": "2" } }),
        2 => json!({ "choices": [] }),
        3 => json!({ "choices": [{ "delta": {} }] }),
        4 => json!({ "choices": [{ "delta": { "content": [] } }] }),
        5 => json!({ "choices": [null, 7, "x"] }),
        6 => json!(null),
        7 => json!({ "choices": [{ "index": 1, "delta": { "content": "another answer" } }] }),
        8 => json!({ "choices": [{ "delta": { "content": null, "reasoning": "secret" } }] }),
        _ => json!([{ "object": "ping" }]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_odd_chunk_loses_text(chunks in proptest::collection::vec(
        (0_usize..11, "[a-z你 .]{1,6}", proptest::option::of(0_usize..10)), 0..20)) {
        let mut events = Vec::new();
        let mut expected = String::new();
        for (form, text, between) in chunks {
            expected.push_str(&text);
            events.push(odd(form, &text).to_string());
            events.extend(between.map(|form| silent(form).to_string()));
        }
        prop_assert_eq!(told(&events).0, expected);
    }
}

#[test]
fn the_assistant_speaks_between_a_result_and_the_next_words() {
    let call = |id: &str| ToolRequest {
        id: id.into(),
        name: "f".into(),
        arguments: "{}".into(),
        ..ToolRequest::default()
    };
    let messages = vec![
        ChatMessage::new(Role::User, "Open the gate."),
        ChatMessage::calling("", vec![call("rule_1"), call("call_2")]),
        ChatMessage::result("rule_1", "opened"),
        ChatMessage::result("call_2", "opened"),
        ChatMessage::new(Role::User, "A story, please."),
        ChatMessage::calling("Well.", vec![call("D681PevKs")]),
        ChatMessage::result("D681PevKs", "none"),
    ];
    let order = order("b m", "m", 10, &Prompt { messages, ..Prompt::default() });
    let messages = order["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let expected = ["user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool"];
    assert_eq!(roles, expected);
    assert!(!messages[4]["content"].as_str().unwrap().trim().is_empty());
    let ids = |at: usize| messages[at]["tool_calls"].as_array().unwrap().iter();
    let calls: Vec<_> = ids(1).chain(ids(6)).map(|call| call["id"].as_str().unwrap()).collect();
    let answers = [2, 3, 7].map(|at: usize| messages[at]["tool_call_id"].as_str().unwrap());
    assert_eq!(calls, answers);
    for id in calls {
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
    }
}
