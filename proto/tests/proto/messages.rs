//! Every message that a client may send over one of our WebSockets, with every mistake that JSON
//! allows. Not for the meaning of valid messages, which is tested next to each protocol.

use hearken_proto::chat::{Event, WatchMessage, WatchRequest};
use hearken_proto::device::Uplink;
use hearken_proto::jsonrpc;
use hearken_proto::litemcp::Envelope;
use hearken_proto::speech::{asr::AsrCommand, tts::TtsCommand};
use hearken_proto::text_gateway::ClientMessage;
use serde_json::{Map, Value, json};

/// Parser of a text: returns the message, or the error, as text.
type Read = fn(&str) -> Result<String, String>;

fn told<T: std::fmt::Debug, E: std::fmt::Display>(read: Result<T, E>) -> Result<String, String> {
    read.map(|message| format!("{message:?}")).map_err(|error| error.to_string())
}

/// Each protocol whose clients Hearken serves, and one valid message of each kind.
fn wires() -> Vec<(&'static str, Read, Vec<Value>)> {
    let lite = |data: Value| json!({"version": [1, 0, 0], "id": 1, "type": "call", "data": data});
    vec![
        (
            "text clients",
            |text| told(ClientMessage::decode(text, true)),
            vec![
                json!({"type": "text_input", "text": "hi", "session_id": "s"}),
                json!({"type": "configure", "temperature": 0.5, "max_tokens": 5,
                    "enable_context": true, "stream": true, "system_prompt": "p"}),
                json!({"type": "start_session", "session_id": "s"}),
                json!({"type": "end_session"}),
                json!({"type": "register_tools", "tools": [
                    {"name": "a", "description": "b", "parameters": {"type": "object"}}]}),
                json!({"type": "tool_result", "call_id": "c", "success": true, "result": {"x": 1}}),
                json!({"type": "ping"}),
                json!({"type": "cancel"}),
            ],
        ),
        (
            "watchers of events",
            |text| told(WatchRequest::decode(text)),
            vec![json!({"type": "subscribe", "types": ["a.*"]}), json!({"type": "ping"})],
        ),
        (
            "LiteMCP clients",
            |text| told(Envelope::decode(text).and_then(Envelope::body)),
            vec![lite(json!({"tool": "t", "arguments": ["a"]}))],
        ),
        (
            "clients of the recogniser",
            |text| told(AsrCommand::decode(text)),
            vec![
                json!({"command": "ping"}),
                json!({"command": "reset"}),
                json!({"command": "set_audio_format", "format": "opus"}),
                json!({"command": "batch_start", "sample_rate": 16_000, "language": "中文"}),
                json!({"command": "batch_end"}),
            ],
        ),
        (
            "clients of the synthesiser",
            |text| told(TtsCommand::decode(text)),
            vec![
                json!({"type": "tts_request", "request_id": "r", "params": {"text": "hi",
                    "mode": "streaming", "voice_id": "v", "speed": 1.5}}),
                json!({"type": "cancel", "request_id": "r"}),
                json!({"type": "ping", "timestamp": 1}),
            ],
        ),
    ]
}

/// Returns the message with this field twice.
fn twice(message: &Map<String, Value>, field: &str) -> String {
    let fields: Vec<String> =
        message.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    format!("{{{},{}:{}}}", fields.join(","), json!(field), message[field])
}

#[test]
fn a_message_is_one_object_without_duplicate_names() {
    for (wire, read, messages) in wires() {
        for message in messages {
            let text = message.to_string();
            let right = read(&text).unwrap_or_else(|error| panic!("{wire}: {text}: {error}"));
            let pretty = serde_json::to_string_pretty(&message).unwrap();
            assert_eq!(read(&format!("\u{feff}{pretty}\n")), Ok(right), "{wire}: {text}");
            let fields = message.as_object().unwrap();
            let values: Vec<&Value> = fields.values().collect();
            for (text, says) in [
                (json!(values).to_string(), "must be a JSON object, not an array"),
                (json!([message]).to_string(), "must be a JSON object, not an array"),
                (json!(text).to_string(), "must be a JSON object, not text"),
                ("null".to_owned(), "must be a JSON object, not null"),
                (String::new(), "is empty, but must be a JSON object"),
                (format!("{text}{text}"), "is not JSON: trailing characters"),
                (text[..text.len() - 1].to_owned(), "is not JSON: EOF"),
                (text.replacen('{', r#"{"x":"\udc00","#, 1), "is not JSON: "),
            ] {
                let error = read(&text).unwrap_err();
                assert!(error.contains(says), "{wire}: {text}: {error}");
            }
            for field in fields.keys() {
                let error = read(&twice(fields, field)).unwrap_err();
                assert_eq!(error, format!("`{field}` stands twice"), "{wire}: {text}");
            }
            let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(127), "]".repeat(127));
            assert_eq!(read(&deep).unwrap_err(), "the message is nested deeper than 127 levels");
        }
    }
}

#[test]
fn a_null_field_is_read_as_absent() {
    for (wire, read, messages) in wires() {
        for message in messages {
            for field in message.as_object().unwrap().keys() {
                let mut null = message.clone();
                let mut absent = message.clone();
                null[field] = Value::Null;
                absent.as_object_mut().unwrap().remove(field);
                let null = read(&null.to_string());
                let absent = read(&absent.to_string());
                assert_eq!(null, absent, "{wire}: {message}: `{field}`");
            }
        }
    }
}

#[test]
fn a_struct_within_a_message_is_an_object_too() {
    let tts = r#"{"type":"tts_request","request_id":"r","params":["hi","streaming",null,null]}"#;
    let error = TtsCommand::decode(tts).unwrap_err().to_string();
    assert_eq!(error, "`params` must be an object, not an array");
    let call = r#"{"version":[1,0,0],"id":1,"type":"call","data":[[1,0,0],"t",[]]}"#;
    let error = Envelope::decode(call).unwrap().body().unwrap_err().to_string();
    assert_eq!(error, "`data` must be an object, not an array");
}

/// Free-form values of tools and worlds are stored and passed on as they were written.
#[test]
fn numbers_of_free_form_values_stay_as_they_are_written() {
    for number in [
        "18446744073709551616",
        "-340282366920938463463374607431768211457",
        "0.10",
        "12345678901234567890.123",
        "1e+400",
    ] {
        let event = format!(
            r#"{{"id":"e","session_id":"s","type":"a","data":{{"x":[{number}]}},"timestamp":"2024-01-01T12:00:00Z"}}"#
        );
        let event: Event = serde_json::from_str(&event).unwrap();
        let encoded = WatchMessage::Event { event: &event }.encode();
        assert!(encoded.contains(&format!(r#"{{"x":[{number}]}}"#)), "{encoded}");
        let result =
            format!(r#"{{"type":"tool_result","call_id":"c","success":true,"result":{number}}}"#);
        let Ok(ClientMessage::ToolResult(result)) = ClientMessage::decode(&result, false) else {
            panic!("{result}")
        };
        assert_eq!(result.outcome.unwrap().to_string(), number);
        let call = format!(
            r#"{{"version":[1,0,0],"id":1,"type":"call","data":{{"tool":"t","arguments":[{number}]}}}}"#
        );
        let encoded = format!("{:?}", Envelope::decode(&call).unwrap().body().unwrap());
        assert!(encoded.contains(&format!("[\"{number}\"]")), "{encoded}");
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":{number}}}}}"#);
        let read = jsonrpc::Message::decode(&answer).unwrap();
        assert!(read.encode().contains(&format!(r#"{{"x":{number}}}"#)));
    }
}

/// Firmware and called services are parsed leniently: of a duplicate name, the last value counts.
#[test]
fn devices_and_services_may_be_careless() {
    let text = r#"{"type":"abort","type":"listen","state":"detect","text":"a","text":"b"}"#;
    assert_eq!(Uplink::decode(text), Ok(Uplink::ListenDetect { text: "b".into() }));
    let answer = r#"{"id":1,"id":2,"result":{"a":1,"a":2}}"#;
    let jsonrpc::Message::Response { id, outcome } = jsonrpc::Message::decode(answer).unwrap()
    else {
        panic!("{answer}")
    };
    assert_eq!((id, outcome), (Some(jsonrpc::Id::Number(2)), Ok(json!({"a": 2}))));
    let result = r#"{"version":[1,0,0],"id":1,"id":2,"type":"result",
        "data":{"response":{"content":[],"content":[{"data":"x"}]}}}"#;
    let envelope = Envelope::decode(result).unwrap();
    assert_eq!(envelope.id, 2);
    assert!(format!("{:?}", envelope.body()).contains("\"x\""));
}
