//! Limits of the protocols at their boundary: the maximum is accepted, and values just above it are
//! refused. Not for values far beyond them.

use bytes::Bytes;
use hearken_proto::chat::{CreateSession, CreateSnapshot};
use hearken_proto::device::{AudioParams, Framing, Uplink};
use hearken_proto::jsonrpc::Message;
use hearken_proto::museum::{
    MAX_INPUT_CHARS, MAX_METADATA_BYTES, MAX_NAME_CHARS, ParseRequest, Register, SceneType,
};
use hearken_proto::speech::tts::AudioFrame;
use hearken_proto::{DecodeError, json};
use serde::Deserialize;
use serde_json::{Value, json};

fn session(name: &str, players: usize) -> CreateSession {
    let players = vec!["p"; players];
    let body = json!({"name": name, "creator_id": "c", "max_players": 3, "players": players});
    serde_json::from_value(body).unwrap()
}

#[test]
fn the_longest_names_of_sessions_and_snapshots_are_allowed() {
    let longest = "名".repeat(128);
    let longer = "名".repeat(129);
    assert!(session(&longest, 3).check().is_ok());
    assert!(session(&longer, 3).check().is_err() && session("n", 4).check().is_err());
    let snapshot = |name: Option<&str>| CreateSnapshot { name: name.map(str::to_owned) }.check();
    assert!(snapshot(None).is_ok() && snapshot(Some(&longest)).is_ok());
    assert!(snapshot(Some(&longer)).is_err() && snapshot(Some("")).is_err());
}

#[test]
fn the_largest_metadata_of_museum_clients_is_allowed() {
    let register = |bytes: usize| {
        let frame = json!({"a": ""}).to_string().len();
        Register::read(&json!({"client_metadata": {"a": "x".repeat(bytes - frame)}}))
    };
    assert_eq!(MAX_METADATA_BYTES, 16_384);
    assert!(register(MAX_METADATA_BYTES).is_ok() && register(1_100).is_ok());
    assert!(register(MAX_METADATA_BYTES + 1).is_err() && register(20_000).is_err());
}

#[test]
fn the_longest_texts_of_museum_clients_are_allowed() {
    let parse = |field: &str, chars: usize| {
        let mut body = json!({"user_input": "hello"});
        body[field] = Value::String("名".repeat(chars));
        ParseRequest::read(&body)
    };
    for (field, most) in
        [("user_input", MAX_INPUT_CHARS), ("client_type", MAX_NAME_CHARS), ("spirit_id", 100)]
    {
        assert!(parse(field, most).is_ok() && parse(field, most + 1).is_err(), "{field}");
    }
    let empty = json!({"user_input": "a", "client_type": "", "spirit_id": "", "scene_type": ""});
    let read = ParseRequest::read(&empty).unwrap();
    assert_eq!(
        (read.client_type, read.spirit_id, read.scene_type),
        (None, None, SceneType::Public)
    );
    let said = json!({"user_input": "a", "client_type": "web", "spirit_id": "s"});
    let read = ParseRequest::read(&said).unwrap();
    assert_eq!((read.client_type.as_deref(), read.spirit_id.as_deref()), (Some("web"), Some("s")));
}

#[test]
fn a_fractional_packet_length_of_a_device_is_replaced() {
    let frames = |duration: Value| {
        let audio = json!({"format": "opus", "frame_duration": duration});
        let hello = json!({"type": "hello", "version": 1, "audio_params": audio});
        let Uplink::Hello(hello) = Uplink::decode(&hello.to_string()).unwrap() else { panic!() };
        hello.audio_params.frame_duration
    };
    assert_eq!((frames(json!(20)), frames(json!(20.0))), (20, 20));
    assert_eq!(frames(json!(20.5)), AudioParams::default().frame_duration);
}

#[test]
fn an_error_code_is_an_integer_within_the_exact_range_of_floats() {
    let code = |number: &str| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{number},"message":"m"}}}}"#);
        let Ok(Message::Response { outcome: Err(error), .. }) = Message::decode(&text) else {
            panic!("{text}")
        };
        error.code
    };
    assert_eq!((code("-3.0"), code("8999999999999999.0")), (Some(-3), Some(8_999_999_999_999_999)));
    assert_eq!((code("9.0e15"), code("3.5"), code("1e999")), (None, None, None));
}

#[derive(Debug, PartialEq, Deserialize)]
struct Numbers {
    small: Option<f32>,
    #[serde(default)]
    gaps: Vec<Option<u8>>,
}

#[test]
fn floats_out_of_range_are_refused_and_null_stays_in_lists() {
    let read = |text: &str| json::read::<Numbers>(text.as_bytes());
    assert_eq!(read(r#"{"small": 3e38}"#).unwrap().small, Some(3e38));
    for large in ["1e39", "-1e39", "1e999"] {
        assert!(read(&format!(r#"{{"small": {large}}}"#)).is_err(), "{large}");
    }
    assert_eq!(read(r#"{"gaps": [1, null]}"#).unwrap().gaps, [Some(1), None]);
}

#[test]
fn a_truncated_audio_frame_reports_the_missing_bytes() {
    let whole = [0xAA, 0x55, 1, 0, 0, 0, 0, 2, b'{', b'}'];
    let lacks = |bytes: &[u8]| match AudioFrame::decode(&Bytes::copy_from_slice(bytes)) {
        Err(DecodeError::Short { what, need, have }) => Some((what, need, have)),
        _ => None,
    };
    assert_eq!(lacks(&whole[..7]), Some(("frame header", 8, 7)));
    assert_eq!(lacks(&whole[..8]), Some(("meta data", 6, 4)));
    assert_eq!([Framing::V1, Framing::V2, Framing::V3].map(Framing::header_len), [0, 16, 4]);
}
