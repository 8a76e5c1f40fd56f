//! The programs in `examples/`, each run as its first lines describe, against the whole server with
//! stub vendors. Cargo builds them with the tests. `simulate` and `mcp_conformance` have tests of
//! their own.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_tool_sources::{ToolProtocol, ToolServer};
use hearken_virtual_device::sound::{read_wav, write_wav};
use hearken_virtual_device::{Expectations, ListenMode, Recording, Sound};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::server::voices::voice;
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};
use crate::tools::{called, endpoint_url, known, token, until_ready};

#[path = "../../examples/replay_test.rs"]
#[allow(dead_code, reason = "as an example it has a main function")]
mod replay_test;

/// Time limit of an example.
const SOON: Duration = Duration::from_secs(20);

/// The path of a built example, next to the tests.
fn built(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build --examples", path.display());
    path
}

fn example(name: &str) -> Command {
    let mut command = Command::new(built(name));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn output(command: &mut Command) -> Output {
    tokio::time::timeout(SOON, command.output()).await.expect("it ends in time").unwrap()
}

/// Runs a command, which must succeed; returns its output.
async fn printed(command: &mut Command) -> String {
    let output = output(command).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

async fn ends_well(mut child: Child) {
    let ended = tokio::time::timeout(SOON, child.wait()).await.expect("it ends in time").unwrap();
    assert!(ended.success(), "{ended}");
}

fn speech() -> Sound {
    Sound { samples: voice(150, 600, 16_000), rate_hz: 16_000 }
}

/// Vendors whose recogniser hears this text, and whose model echoes messages.
async fn echoing(heard: &str) -> Vendors {
    let echo = |asked: &[u8]| match String::from_utf8_lossy(asked) {
        call if call.starts_with("call ") => String::new(),
        asked => format!("You said {asked}."),
    };
    Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, heard).await,
        OpenAiChat::answering(echo).await,
        ListenAiTts::start(Behaviour::Normal).await,
    )
}

#[test]
fn each_example_documents_how_to_run_it() {
    for entry in std::fs::read_dir(hearken_test_support::repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Configurations, which `config.rs` loads.
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let head: Vec<&str> =
            text.lines().take_while(|l| !l.is_empty() || text.starts_with('"')).collect();
        let ways = [
            format!("cargo run --example {name}"),
            format!("cargo test --example {name}"),
            format!("cargo build --example {name}"),
            format!("python3 examples/{name}.py"),
            "scripts/".to_owned(),
        ];
        assert!(ways.iter().any(|way| head.join("\n").contains(way)), "{}", path.display());
    }
}

#[tokio::test]
async fn the_text_client_gets_answers_and_serves_its_tool() {
    let vendors = echoing("").await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let questions = ["call get_battery {}", "hello"];
    let said = printed(example("text_client").arg(server.gateway_url()).args(questions)).await;
    assert!(said.starts_with("called: \"get_battery\"\n"), "{said}");
    assert!(said.contains("\"level\":85") && said.ends_with("You said hello.\n"), "{said}");
    server.stop().await;
}

#[tokio::test]
async fn the_device_has_a_turn_and_serves_its_lamp() {
    let vendors = echoing(r#"call self_lamp_set {"on": true}"#).await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let [spoken, heard] = ["speech.wav", "reply.wav"].map(|name| folder.path().join(name));
    write_wav(&spoken, &speech()).unwrap();
    let said = printed(example("device").arg(server.device_url()).args([&spoken, &heard])).await;
    assert!(said.starts_with("heard: call self_lamp_set"), "{said}");
    assert!(said.contains("\nanswered: You said true.\n"), "{said}");
    assert!(said.ends_with("called: self.lamp.set {\"on\":true}\n"), "{said}");
    assert!(!read_wav(&heard).unwrap().samples.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn the_mcp_server_dials_in_and_stops_with_the_server() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, known).await;
    let mut command = example("mcp_dial_in");
    let child = command.arg(endpoint_url(&server, &token())).spawn().unwrap();
    until_ready(&server, &["dice"]).await;
    let sum = called(&server, "dice", "add", json!({"first": 2, "second": 5})).await;
    assert_eq!(sum, (200, "7".to_owned()));
    let (_, words) = called(&server, "dice", "add", json!({"first": 0, "second": 5})).await;
    assert!(words.contains("a die shows 1 to 6"), "{words}");
    server.stop().await;
    ends_well(child).await;
}

#[tokio::test]
async fn the_litemcp_tool_is_started_and_called() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.tools.servers = vec![ToolServer {
            name: "text".into(),
            protocol: ToolProtocol::LiteMcp,
            command: built("litemcp_tool").to_str().unwrap().to_owned(),
            ..ToolServer::default()
        }];
    })
    .await;
    until_ready(&server, &["text"]).await;
    let answer = called(&server, "text", "reverse", json!({"text": "lamp 好"})).await;
    assert_eq!(answer, (200, "好 pmal".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn the_server_runs_inside_a_program() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = example("embed");
    command
        .env("CLOUD_HOST", "127.0.0.1")
        .env("CLOUD_PORT", "0")
        .env("ASR_URL", vendors.asr.url())
        .env("LLM_BASE_URL", vendors.llm.url())
        .env("TTS_URL", vendors.tts.url())
        .env("HEARKEN__SERVER__DATA_DIR", folder.path())
        // These tools send requests to the Internet.
        .env("HEARKEN__TOOLS__BUILTIN__ENABLED", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(SOON, lines.next_line()).await.expect("it listens in time");
    let line = line.unwrap().unwrap();
    let url = line.strip_prefix("devices connect to ").unwrap();
    let replay = Recording::of_speech(&speech()).unwrap().replay(url).mode(ListenMode::Manual);
    let session = replay.await.unwrap();
    let wanted = Expectations::new().transcript(HEARD, 0.0).reply_contains(REPLY.join(" "));
    session.expect(wanted).unwrap();
    let asked = vendors.llm.seen().texts.concat();
    assert!(asked.contains("You are the voice of a lift."), "{asked}");
    drop(child.stdin.take());
    ends_well(child).await;
}

#[tokio::test]
async fn the_test_case_in_python_replays_a_recording() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut python = Command::new("python3");
    python
        .arg(hearken_test_support::repository().join("examples/replay_test.py"))
        .env("HEARKEN", env!("CARGO_BIN_EXE_hearken"))
        .env("HEARKEN_URL", server.device_url())
        .kill_on_drop(true);
    let output = output(&mut python).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("Ran 1 test"), "{told}");
    server.stop().await;
}
