//! Tests of request bodies: parsed values, and the fields named in errors.

use proptest::prelude::*;

use super::*;

fn read(body: &Value) -> Result<ChatRequest, BadRequest> {
    parse(body.to_string().as_bytes(), RequestLimits::default())
}

/// Returns the smallest body with these fields set.
fn with(fields: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hello" }] });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

#[test]
fn the_smallest_body_gets_the_defaults() {
    let asked = read(&with(json!({}))).unwrap();
    assert!(!asked.stream && !asked.include_usage);
    let generation = asked.generation;
    assert_eq!(generation.max_tokens, 256);
    assert_eq!(generation.sampling, Sampling::default());
    assert_eq!(generation.tool_choice, ToolChoice::Auto);
    assert_eq!(generation.messages[0].content, "Hello");
}

#[test]
fn every_field_is_read() {
    let function = json!({ "name": "self.set", "description": "d", "parameters": { "x": 1 } });
    let asked = read(&json!({
        "model": "whatever",
        "unknown": { "ignored": true },
        "messages": [
            { "role": "developer", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "1", "type": "function", "function": { "name": "self.set", "arguments": "{ \"y\" : 2 }" } },
            ] },
            { "role": "tool", "tool_call_id": "1", "content": "done" },
        ],
        "tools": [{ "type": "function", "function": function }],
        "tool_choice": { "type": "function", "function": { "name": "self.set" } },
        "max_tokens": 7, "max_completion_tokens": 9,
        "temperature": 0, "top_p": 0.5, "frequency_penalty": -1, "presence_penalty": 1,
        "stop": "END", "seed": -1, "stream": true, "stream_options": { "include_usage": true },
        "n": 1,
    }))
    .unwrap();
    assert!(asked.stream && asked.include_usage);
    let generation = asked.generation;
    assert_eq!(generation.messages[0].role, Role::System);
    assert_eq!(generation.messages[0].content, "ab");
    assert_eq!(generation.messages[1].tool_calls[0].arguments, r#"{"y":2}"#);
    assert_eq!(generation.messages[2].role, Role::Tool);
    assert_eq!(generation.tools[0].parameters, json!({ "x": 1 }));
    assert_eq!(generation.tool_choice, ToolChoice::Named("self.set".into()));
    assert_eq!(generation.max_tokens, 9);
    assert_eq!(generation.stop, ["END"]);
    let sampling = generation.sampling;
    assert_eq!((sampling.temperature, sampling.top_p), (0.0, 0.5));
    assert_eq!((sampling.frequency_penalty, sampling.presence_penalty), (-1.0, 1.0));
    assert_eq!(sampling.seed, Some(0));
}

#[test]
fn null_counts_as_missing_and_large_limits_are_reduced() {
    let nothing = json!({ "max_tokens": null, "stop": null, "tools": null, "tool_choice": null,
        "stream": null, "temperature": null, "seed": null, "stream_options": null, "n": null });
    assert_eq!(read(&with(nothing)), read(&with(json!({}))));
    let long = read(&with(json!({ "max_tokens": 4_000_000_000_u64 }))).unwrap();
    assert_eq!(long.generation.max_tokens, RequestLimits::default().most_max_tokens);
}

#[test]
fn a_wrong_field_is_named() {
    let message = |message: Value| json!({ "messages": [message] });
    let function =
        |function: Value| json!({ "tools": [{ "type": "function", "function": function }] });
    for (fields, param) in [
        (json!({ "messages": null }), "messages"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": "hello" }), "messages"),
        (json!({ "messages": ["hello"] }), "messages[0]"),
        (message(json!({ "role": "god", "content": "x" })), "messages[0].role"),
        (message(json!({ "content": "x" })), "messages[0].role"),
        (message(json!({ "role": "user" })), "messages[0].content"),
        (message(json!({ "role": "user", "content": 5 })), "messages[0].content"),
        (
            message(json!({ "role": "user", "content": [{ "type": "image_url" }] })),
            "messages[0].content[0]",
        ),
        (
            message(json!({ "role": "assistant", "tool_calls": [{}] })),
            "messages[0].tool_calls[0].function.name",
        ),
        (
            message(json!({ "role": "assistant", "tool_calls": [
                { "function": { "name": "f", "arguments": "{" } }] })),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (json!({ "tools": {} }), "tools"),
        (json!({ "tools": [{ "type": "code" }] }), "tools[0].type"),
        (json!({ "tools": [{ "type": "function" }] }), "tools[0].function"),
        (function(json!({ "name": "a b" })), "tools[0].function.name"),
        (function(json!({ "name": "" })), "tools[0].function.name"),
        (function(json!({ "name": "x".repeat(129) })), "tools[0].function.name"),
        (function(json!({ "name": "f", "parameters": [] })), "tools[0].function.parameters"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (json!({ "tool_choice": "perhaps" }), "tool_choice"),
        (json!({ "tool_choice": { "function": { "name": "f" } } }), "tool_choice"),
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "max_tokens": "5" }), "max_tokens"),
        (json!({ "max_completion_tokens": -1 }), "max_completion_tokens"),
        (json!({ "temperature": 2.1 }), "temperature"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "top_p": -0.1 }), "top_p"),
        (json!({ "frequency_penalty": 3 }), "frequency_penalty"),
        (json!({ "stop": "" }), "stop"),
        (json!({ "stop": ["a", 5] }), "stop"),
        (json!({ "stop": vec!["x"; 17] }), "stop"),
        (json!({ "seed": 1.5 }), "seed"),
        (json!({ "stream": "yes" }), "stream"),
        (json!({ "n": 2 }), "n"),
    ] {
        let error = read(&with(fields.clone())).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{fields}");
        assert!(error.message.starts_with(param), "{}", error.message);
    }
    for body in ["", "[]", "null", "{", "\u{0}"] {
        assert_eq!(parse(body.as_bytes(), RequestLimits::default()).unwrap_err().param, None);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&bytes, RequestLimits::default()).is_err());
    }
}
