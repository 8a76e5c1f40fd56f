//! `hearken replay --json` as test suites in other languages run it, against the whole server: its
//! output and exit status. The single fields are compared with their documentation next to their
//! code.

use hearken_proto::recording::Header;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_virtual_device::Recording;
use hearken_virtual_device::sound::{Side, Sound};
use serde_json::{Value, json};

use super::voices::voice;
use crate::support::app::{TestServer, Vendors};
use crate::support::command::hearken;

/// The transcript of every utterance: the stub of the model then makes this call.
const ORDER: &str = r#"call self_audio_speaker_set_volume {"volume": 40}"#;

/// The answer of the model after the call.
const DONE: &str = "It is done.";

/// A recording of a short utterance, with these expectations in its header.
fn recording(folder: &std::path::Path, expect: Value) -> String {
    let sound = Sound { samples: voice(150, 600, 16_000), rate_hz: 16_000 };
    let header = Header { expect: serde_json::from_value(expect).unwrap(), ..Header::default() };
    let recording = Recording::new("", sound.to_recording(header).unwrap());
    let path = folder.join("session.jsonl");
    recording.save(&path, Side::Up).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_json_output_and_the_exit_status_report_the_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let asr = ListenAiAsr::start(Behaviour::Normal, ORDER).await;
    let answer = |asked: &[u8]| match asked {
        [b'c', b'a', b'l', b'l', ..] => String::new(),
        _ => DONE.to_owned(),
    };
    let llm = OpenAiChat::answering(answer).await;
    let vendors = Vendors::of(asr, llm, ListenAiTts::start(Behaviour::Normal).await);
    let server = TestServer::start(&vendors, |_| {}).await;
    let call = |volume: i32| json!({"name": "self.audio_speaker.set_volume", "arguments": {"volume": volume}});
    for (volume, status) in [(40, 0), (50, 1)] {
        let file = recording(folder.path(), json!({"transcript": ORDER, "calls": [call(volume)]}));
        let url = server.device_url();
        let args = ["replay", &file, "--url", &url, "--mode", "manual", "--expect", "--json"];
        let (code, out, err) = hearken(folder.path(), &args).await;
        assert_eq!(code, Some(status), "{out}{err}");
        assert_eq!(out.lines().count(), 1, "{out}");
        let outcome: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(outcome["format"], "hearken-replay");
        assert_eq!((&outcome["version"], &outcome["error"]), (&json!(1), &Value::Null));
        assert_eq!(outcome["held"], status == 0);
        assert_eq!((&outcome["file"], &outcome["url"]), (&json!(file), &json!(url)));
        assert_eq!((&outcome["transcript"], &outcome["reply"]), (&json!(ORDER), &json!(DONE)));
        assert_eq!(outcome["calls"], json!([call(40)]));
        assert_eq!(outcome["faults"], json!([]));
        assert!(outcome["audio_ms"].as_u64().unwrap() > 100, "{out}");
        let held = [("transcript", true), ("reply", true), ("call", status == 0)];
        let verdicts = outcome["verdicts"].as_array().unwrap();
        let told = verdicts.iter().map(|v| (v["what"].as_str().unwrap(), v["held"] == true));
        assert_eq!(told.collect::<Vec<_>>(), held);
    }
    server.stop().await;
}

#[tokio::test]
async fn failures_to_run_are_reported_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path(), json!({}));
    let nowhere = folder.path().join("nowhere.jsonl");
    for (file, says) in [
        (nowhere.to_str().unwrap(), "nowhere.jsonl: cannot read the recording"),
        (&file, "no server at ws://127.0.0.1:1/"),
    ] {
        let args = ["replay", file, "--url", "ws://127.0.0.1:1/", "--token", "t", "--json"];
        let (code, out, err) = hearken(folder.path(), &args).await;
        assert_eq!(code, Some(2), "{out}{err}");
        let failure: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(failure["format"], "hearken-replay");
        let reason = failure["error"].as_str().unwrap();
        assert!(reason.contains(says) && err.contains(reason), "{out}{err}");
    }
}
