//! `serve --record`: recordings can be read and replayed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use hearken_proto::device::ListenMode;
use hearken_proto::recording::{Content, Recording};
use hearken_test_support::{PATIENCE, eventually};
use hearken_virtual_device::script::Script;
use hearken_virtual_device::socket::{Device, Endpoint};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::person::Person;
use super::turns::good_answer;
use super::voices::SPEECH;
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};

pub(super) fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = files.as_slice() else { panic!("one session, one file: {files:?}") };
    file.clone()
}

fn up_packets(recording: &Recording) -> usize {
    recording.frames.iter().filter(|f| matches!(f.content, Content::UpAudio(_))).count()
}

/// One turn, then silence. Returns the number of packets that the device sent.
async fn has_one_conversation(url: &str) -> usize {
    let mut person = Person::meet(url, 2, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer());
    person.say(&SPEECH[16..]).await;
    person.report().packets().sent
}

#[tokio::test]
async fn a_recorded_session_is_complete_and_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.server.record_dir = folder.path().join("sessions");
    })
    .await;
    let sent = has_one_conversation(&server.device_url()).await;
    // The last packets may still be in flight.
    eventually("the server has read all packets", async || {
        let mut read = 0.0;
        for outcome in ["heard", "unwanted", "empty", "dropped"] {
            let name = format!("hearken_uplink_packets_total{{outcome=\"{outcome}\"}}");
            read += server.metric(&name).await;
        }
        (read as usize == sent).then_some(())
    })
    .await;
    server.stop().await;
    let text = std::fs::read_to_string(only_file(&folder.path().join("sessions"))).unwrap();
    let recording = Recording::parse(&text).expect("a recording is readable");
    assert_eq!(recording.header.device_id.as_deref(), Some("02:00:00:00:00:01"));
    assert_eq!(recording.header.framing, 2);
    assert_eq!(up_packets(&recording), sent);
    let count = |wanted: fn(&Content) -> bool| {
        recording.frames.iter().filter(|f| wanted(&f.content)).count()
    };
    assert_eq!(count(|c| matches!(c, Content::DownAudio(_))), good_answer().packets);
    assert_eq!(count(|c| matches!(c, Content::Down(j) if j["text"] == HEARD)), 1);

    let server = TestServer::start(&vendors, |_| {}).await;
    let script = Script::new(&recording, None);
    let endpoint = Endpoint {
        url: server.device_url(),
        device_id: "02:00:00:00:00:02".into(),
        client_id: String::new(),
        token: None,
        framing: 2,
    };
    let mut device = Device::new(endpoint, script.firmware());
    script.perform(&mut device, 1.0).await.unwrap();
    let report = device.into_report();
    assert_eq!((report.transcript(), report.reply()), (HEARD.into(), REPLY.join(" ")));
    assert_eq!(report.packets().received, good_answer().packets);
}

#[tokio::test]
async fn recordings_are_deleted_with_their_device() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = folder.path().join("sessions");
    let vendors = Vendors::start().await;
    let server =
        TestServer::start(&vendors, |config| config.server.record_dir.clone_from(&sessions)).await;
    has_one_conversation(&server.device_url()).await;
    only_file(&sessions);
    let delete = async |device: &str| {
        let url = server.http_url(&format!("/api/devices/{device}"));
        reqwest::Client::new().delete(url).send().await.unwrap().status()
    };
    assert_eq!(delete("02:00:00:00:00:02").await, 404);
    only_file(&sessions);
    assert_eq!(delete("02:00:00:00:00:01").await, 204);
    server.stop().await;
    assert_eq!(std::fs::read_dir(&sessions).unwrap().count(), 0);
}

/// The program in an empty folder, configured for these vendors.
pub(super) fn hearken(vendors: &Vendors, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearken"));
    command
        .current_dir(folder)
        .env("HEARKEN__SERVER__DATA_DIR", folder)
        .env("CLOUD_HOST", "127.0.0.1")
        .env("CLOUD_PORT", "0")
        .env("ASR_URL", vendors.asr.url())
        .env("LLM_BASE_URL", vendors.llm.url())
        .env("TTS_URL", vendors.tts.url())
        .env("HEARKEN__LOG__FORMAT", "json")
        .env("HEARKEN__HEARING__SILENCE_MS", "400")
        // These tools send requests to the Internet.
        .env("HEARKEN__TOOLS__BUILTIN__ENABLED", "")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Starts `serve` and waits for its address in the log. Returns the program, the device URL, and
/// the whole log, which is complete when the program ends.
pub(super) async fn serve(mut command: Command) -> (Child, String, JoinHandle<String>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut whole = String::new();
    let address = tokio::time::timeout(PATIENCE, async {
        while let Some(line) = log.next_line().await.unwrap() {
            whole.push_str(&line);
            whole.push('\n');
            let entry: Value = serde_json::from_str(&line).expect("the log is JSON");
            if let Some(address) = entry["fields"]["address"].as_str() {
                return address.to_owned();
            }
        }
        panic!("the program ended");
    });
    let address = address.await.expect("the program listens in time");
    // Without a reader of the log, the program would block.
    let log = tokio::spawn(async move {
        while let Ok(Some(line)) = log.next_line().await {
            whole.push_str(&line);
            whole.push('\n');
        }
        whole
    });
    (child, format!("ws://{address}/xiaozhi/v1/"), log)
}

/// Stops the program as an operator does.
pub(super) async fn end(child: &mut Child) {
    let id = child.id().unwrap().to_string();
    assert!(Command::new("kill").arg(&id).status().await.unwrap().success());
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
    assert_eq!(ended.expect("it ends in time").unwrap().code(), Some(0));
}

#[tokio::test]
async fn the_program_records_sessions_and_completes_them_at_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let vendors = Vendors::start().await;
    let mut command = hearken(&vendors, folder.path());
    command.args(["serve", "--record", "sessions"]);
    let (mut child, url, _) = serve(command).await;
    let sent = has_one_conversation(&url).await;
    let sessions = folder.path().join("sessions");
    let file = only_file(&sessions);
    // The recording is complete once the server has noticed the disconnect.
    eventually("the whole recording", async || {
        let recording = Recording::parse(&std::fs::read_to_string(&file).unwrap()).ok()?;
        (up_packets(&recording) == sent).then_some(())
    })
    .await;
    std::fs::rename(&file, folder.path().join("session.jsonl")).unwrap();

    let mut replay = hearken(&vendors, folder.path());
    replay.args(["replay", "session.jsonl", "--expect", "--json", "--url", &url]);
    let outcome = replay.output().await.unwrap();
    let out = &outcome.stdout;
    let err = &outcome.stderr;
    let told = [String::from_utf8_lossy(out), String::from_utf8_lossy(err)].concat();
    assert_eq!(outcome.status.code(), Some(0), "{told}");
    let json: Value = serde_json::from_slice(out).unwrap();
    assert_eq!((&json["transcript"], &json["reply"]), (&HEARD.into(), &REPLY.join(" ").into()));

    end(&mut child).await;
    let text = std::fs::read_to_string(only_file(&sessions)).unwrap();
    Recording::parse(&text).expect("the second session was recorded as well");
}
