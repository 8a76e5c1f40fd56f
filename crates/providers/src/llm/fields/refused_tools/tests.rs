//! Tests of parsing what a refusal says about tools.

use hearken_outbound::http::RefusalBody;
use hearken_ports::{ProviderError, ProviderErrorKind};
use http::StatusCode;
use serde_json::json;

use super::*;

/// Reads a refusal of a request with the tools `note`, `set_light`, `getTime` and `time`.
fn complaint(status: u16, told: RefusalBody) -> Option<Complaint> {
    let tools: Vec<Value> = ["note", "set_light", "getTime", "time"]
        .iter()
        .map(|name| json!({ "type": "function", "function": { "name": name } }))
        .collect();
    let error = ProviderError::new("base", ProviderErrorKind::BadRequest);
    let refusal = Refusal { status: StatusCode::from_u16(status).ok(), told, error };
    Complaint::of(&refusal, &json!({ "tools": tools, "tool_choice": "auto" }))
}

fn of_text(status: u16, text: &str) -> Option<Complaint> {
    complaint(status, RefusalBody { text: text.into(), ..RefusalBody::default() })
}

/// Reads a refusal with this message, as plain text and in a JSON body.
fn of_message(status: u16, message: &str) -> Option<Complaint> {
    let plain = of_text(status, message);
    let body = json!({ "error": { "message": message, "type": "invalid_request_error" } });
    assert_eq!(of_text(status, &body.to_string()), plain, "{message}");
    plain
}

#[test]
fn the_place_of_a_tool_is_read_in_every_form() {
    for message in [
        "Invalid 'tools[1].function.description': string too long.",
        "Invalid value at 'tools[0].function_declarations[1].parameters' x",
        "* GenerateContentRequest.tools[0].function_declarations[1].parameters: should be x",
        "tools.1.custom.input_schema: JSON schema is invalid",
        "body.tools.1.function.parameters.type: x",
        "#/tools/1/function/parameters: no",
        "body -> tools -> 1 -> function: no",
        "('body', 'tools', 1, 'function'): no",
        "{\"loc\":[\"body\",\"tools\",1,\"function\"]}",
    ] {
        assert_eq!(of_message(400, message), Some(Complaint::Place(1)), "{message}");
    }
    let loc = json!({ "detail": [{ "type": "x", "loc": ["body", "tools", 1, "function"],
        "msg": "Input should be a valid dictionary", "input": { "t": "tools[0]" } }] });
    assert_eq!(of_text(422, &loc.to_string()), Some(Complaint::Place(1)));
    let param = RefusalBody {
        param: Some("tools[3].function.parameters".into()),
        code: Some("string_above_max_length".into()),
        ..RefusalBody::default()
    };
    assert_eq!(complaint(400, param), Some(Complaint::Place(3)));
    for message in [
        "tools[9].function is wrong",
        "Invalid 'messages[1].tool_calls[0].id'",
        "Invalid 'tools': array too long. Expected at most 128.",
        "my_tools[1] is wrong",
        "128 tools. 1 was expected",
        "tools[99999999999999999999999]",
        "tools[1x]",
        "tools[",
    ] {
        assert_eq!(of_message(400, message), None, "{message}");
    }
}

#[test]
fn a_tool_is_identified_by_its_name_unless_that_is_an_ordinary_word() {
    for (message, expected) in [
        ("Invalid schema for function 'set_light': x", Some(1)),
        ("Unable to generate parser for this template: set_light", Some(1)),
        ("Function `getTime` is not valid", Some(2)),
        ("Tool \"note\" has an invalid schema", Some(0)),
        ("Invalid schema for function 'time': x", Some(3)),
        ("the “time” function is wrong", Some(3)),
        ("set_light is wrong, and set_light is wrong", Some(1)),
        // Ordinary words.
        ("Please note that the time is wrong", None),
        ("Invalid value: 'note'. Supported values are: 'system', 'user' and 'tool'.", None),
        ("The function took too much time", None),
        ("Invalid value for 'time': tool results have none", None),
        // The model's output was invalid this time.
        ("tool call validation failed: parameters for tool set_light did not match schema", None),
        ("Failed to call a function. See 'failed_generation' for more details. set_light", None),
        // Parts of other words, and several names.
        ("reset_light_2, set_lights and my-set_light are wrong", None),
        ("set_light and getTime are wrong", None),
    ] {
        for status in [400, 422, 500] {
            assert_eq!(of_message(status, message), expected.map(Complaint::Name), "{message}");
        }
    }
    for status in [401, 403, 404, 413, 429, 503] {
        assert_eq!(of_message(status, "Invalid schema for function 'set_light'"), None, "{status}");
    }
}

#[test]
fn a_refusal_of_all_tools_is_recognised() {
    for (status, message) in [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser"),
        (404, "No endpoints found that support tool use. To learn more, see x"),
        (400, "Unsupported parameter: 'tools'"),
        (500, "tools param requires --jinja flag"),
        (400, "Function calling is not enabled for this model"),
        (400, "deepseek-reasoner does not support Function Calling"),
        (400, "`tool calling` is not supported with this model"),
        (400, "phi-3 doesn't support tools"),
        (400, "Function call is not supported for this model."),
        (400, "Unrecognized request argument supplied: tools"),
        (422, "body.tools: Extra inputs are not permitted"),
        (400, "Tools cannot be used with this model."),
        (400, "该模型不支持工具调用"),
        (501, "Tool use is not implemented"),
    ] {
        assert_eq!(of_message(status, message), Some(Complaint::All), "{message}");
    }
    let loc = json!({ "detail": [{ "type": "extra_forbidden", "loc": ["body", "tools"],
        "msg": "Extra inputs are not permitted", "input": [] }] });
    assert_eq!(of_text(422, &loc.to_string()), Some(Complaint::All));
    for message in [
        "This model does not support more than 128 tools",
        "This model does not support images. Tools may be used.",
        "Function names are not allowed to have dots",
        "parallel tool calls are not supported",
        "Requests which include `tool_use` blocks must define tools",
        "An unexpected error occurred while calling functions",
        "这个模型不支持图片",
        "temperature is not supported",
        "",
    ] {
        assert_eq!(of_message(400, message), None, "{message}");
    }
}

#[test]
fn a_refusal_about_something_else_names_no_tool() {
    for message in [
        "You exceeded your current quota, set_light was not called",
        "Your credit balance is too low to use set_light",
        "This model's maximum context length is 8192 tokens; set_light has 2000",
        "Incorrect API key provided: set_light",
        "Rate limit reached for set_light",
        "Tool calling is temporarily not available",
        "Tools are not available, try again later",
        "Your API key does not allow tools",
    ] {
        for status in [400, 500] {
            assert_eq!(of_message(status, message), None, "{message}");
        }
    }
    for code in ["context_length_exceeded", "insufficient_quota", "invalid_api_key"] {
        let code = Some(code.to_owned());
        let told = RefusalBody { code, text: "set_light".into(), ..RefusalBody::default() };
        assert_eq!(complaint(400, told), None);
    }
}

proptest::proptest! {
    #[test]
    fn no_refusal_causes_a_panic(text in "[a-z_\"'`.\\[\\]{}:,0-9你’ ]{0,60}", status in 400_u16..600) {
        for text in [text.clone(), format!("tools{text}"), format!("\"{text}\"")] {
            if let Some(Complaint::Place(place) | Complaint::Name(place)) = of_text(status, &text) {
                proptest::prop_assert!(place < 4);
            }
        }
    }
}
