//! Words and numbers of the protocols that peers compare with, written out.

use hearken_proto::chat::ChatStatus;
use hearken_proto::device::AudioParams;
use hearken_proto::fault::{Fault, TABLE};
use hearken_proto::ids::TurnId;
use hearken_proto::json::{self, Step};
use hearken_proto::jsonrpc::code;
use hearken_proto::museum::SceneType;
use hearken_proto::recording::Recording;
use hearken_proto::speech::asr::AsrEvent;
use hearken_proto::speech::tts::{FrameMeta, TtsEvent};
use serde::Deserialize;
use serde_json::json;

#[test]
fn a_status_has_one_word() {
    let words = [
        (ChatStatus::Active, "active"),
        (ChatStatus::Archived, "archived"),
        (ChatStatus::Deleted, "deleted"),
    ];
    for (status, word) in words {
        assert_eq!(status.as_str(), word);
        assert_eq!(ChatStatus::from_word(word), Some(status));
        assert_eq!(serde_json::to_value(status).unwrap(), word);
    }
    assert_eq!(ChatStatus::from_word("Active"), None);
}

#[test]
fn a_fault_has_the_code_of_its_row() {
    for row in &TABLE {
        assert_eq!(row.fault.code(), row.code);
    }
    assert_eq!(Fault::InvalidRequest.code(), "INVALID_REQUEST");
}

#[test]
fn the_codes_of_json_rpc_are_those_of_its_specification() {
    assert_eq!(code::PARSE_ERROR, -32_700);
    assert_eq!(code::INVALID_REQUEST, -32_600);
    assert_eq!(code::METHOD_NOT_FOUND, -32_601);
    assert_eq!(code::INVALID_PARAMS, -32_602);
    assert_eq!(code::INTERNAL_ERROR, -32_603);
}

#[test]
fn a_turn_and_a_step_display_as_numbers() {
    assert_eq!(TurnId(7).to_string(), "7");
    assert_eq!(Step::Field("name".into()).to_string(), "name");
    assert_eq!(Step::Item(3).to_string(), "3");
}

#[test]
fn default_audio_params_are_those_of_most_firmware() {
    let audio: AudioParams = serde_json::from_value(json!({})).unwrap();
    let whole = json!({"format": "opus", "sample_rate": 16_000, "channels": 1,
        "frame_duration": 60});
    assert_eq!(serde_json::to_value(audio).unwrap(), whole);
}

#[test]
fn text_that_is_not_json_differs_from_json_of_another_shape() {
    assert!(!json::object(b"{").unwrap_err().is_json());
    assert!(json::object(b"[]").unwrap_err().is_json());
}

#[test]
fn a_float_may_be_absent_and_is_never_infinite() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Timed {
        #[serde(default, deserialize_with = "json::optional_float")]
        duration: Option<f64>,
    }
    let read = |text: &str| serde_json::from_str::<Timed>(text).map(|timed| timed.duration);
    assert_eq!(read("{}").unwrap(), None);
    assert_eq!(read(r#"{"duration": null}"#).unwrap(), None);
    assert_eq!(read(r#"{"duration": 1.25}"#).unwrap(), Some(1.25));
    assert!(read(r#"{"duration": 1e999}"#).unwrap_err().to_string().contains("too large"));
    assert!(read(r#"{"duration": "1"}"#).is_err());
}

#[test]
fn a_recording_has_a_finite_end_of_speech() {
    let header = |end: &str| {
        let line = r#"{"format":"hearken-recording","version":1,"framing":1,
            "uplink":{},"downlink":{},"speech_end_s":END}"#;
        Recording::parse(&line.replace('\n', "").replace("END", end))
    };
    assert_eq!(header("1.5").unwrap().header.speech_end_s, Some(1.5));
    let refused = header("1e999").unwrap_err().to_string();
    assert!(refused.contains("speech_end_s") && refused.contains("a smaller number"), "{refused}");
    assert!(header("[]").unwrap_err().to_string().contains("speech_end_s"));
}

#[test]
fn a_scene_has_one_word() {
    for (scene, word) in [
        (SceneType::Study, "study"),
        (SceneType::Leisure, "leisure"),
        (SceneType::Public, "public"),
    ] {
        assert_eq!((scene.as_str(), serde_json::to_value(scene).unwrap()), (word, json!(word)));
    }
}

#[test]
fn events_of_speech_services_round_trip() {
    let heard = json!({"type": "batch_progress", "state": "recognizing", "message": "m"});
    let read = AsrEvent::decode(&heard.to_string()).unwrap();
    assert_eq!(AsrEvent::decode(&read.encode()).unwrap(), read);
    let spoken =
        json!({"type": "error", "request_id": "r", "error": {"code": "c", "message": "m"}});
    let read = TtsEvent::decode(&spoken.to_string()).unwrap();
    assert_eq!(TtsEvent::decode(&read.encode()).unwrap(), read);
    let meta: FrameMeta = serde_json::from_value(json!({"request_id": "r"})).unwrap();
    assert_eq!((meta.sequence, meta.sample_rate, meta.is_final), (0, 16_000, false));
}
