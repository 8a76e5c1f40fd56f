//! `hearken text-client` as a command line.

use std::path::Path;
use std::process::Stdio;

use hearken_base::Secret;
use hearken_test_support::vendors::Behaviour;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use super::script::vendors;
use crate::support::app::TestServer;
use crate::support::command::hearken;

/// Runs `hearken text-client`; returns its exit code and output.
async fn chat(args: &[&str]) -> (Option<i32>, String, String) {
    hearken(Path::new("unused"), &[&["text-client"], args].concat()).await
}

#[tokio::test]
async fn old_names_of_commands_work_and_warn() {
    for (old, new) in [
        ("chat", "hearken text-client"),
        ("persons", "hearken people"),
        ("doubles", "hearken-dev mock-services"),
        ("mock-services", "hearken-dev mock-services"),
        ("load", "hearken-dev load"),
        ("state-server", "hearken-dev state-server"),
    ] {
        let warning = format!("`hearken {old}` is now `{new}`");
        // All of these fail at once, even without `hearken-dev`, as nothing can be reached or read.
        let nowhere = match old {
            "chat" => "ws://127.0.0.1:1",
            "persons" => "--url=http://127.0.0.1:1",
            _ => "no-such-file.wav",
        };
        let (code, _, err) = hearken(Path::new("unused"), &[old, nowhere]).await;
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(&warning), "{err}");
    }
    let (_, _, err) = hearken(Path::new("unused"), &["text-client", "ws://127.0.0.1:1"]).await;
    assert!(!err.contains("is now"), "{err}");
}

#[tokio::test]
async fn messages_on_the_command_line_are_answered_with_tools() {
    let vendors = vendors().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let url = server.gateway_url();
    let battery = "我的电量还剩多少？";
    for stream in ["--stream", "--no-stream"] {
        let args = [&url, stream, "--tools", "demo", "-m", battery, "--message", "把音量调到50"];
        let (code, out, err) = chat(&args).await;
        assert_eq!(code, Some(0), "{err}");
        let answers: Vec<&str> = out.lines().collect();
        assert!(matches!(answers[..], [a, b] if a.contains("85") && b.contains("50")), "{out}");
        let called = "[set_volume({\"volume\":50}) here: {\"status\":\"set\",\"volume\":50}]";
        assert!(err.contains("tools: get_battery, set_volume") && err.contains(called), "{err}");
    }
    // Frames are printed verbatim.
    let (code, frames, _) = chat(&[&url, "--json", "-m", "你好"]).await;
    assert_eq!(code, Some(0));
    let frames: Vec<Value> = frames.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(frames.first().unwrap()["status"], "connected");
    let answer = frames.last().unwrap();
    assert_eq!((&answer["type"], &answer["is_final"]), (&"llm_response".into(), &true.into()));
    let pieces = frames.iter().filter(|f| f["type"] == "llm_delta");
    let pieces: String = pieces.map(|f| f["content"].as_str().unwrap()).collect();
    assert_eq!(answer["content"], pieces);
    server.stop().await;
}

#[tokio::test]
async fn errors_name_their_remedy() {
    let vendors = vendors().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let url = server.gateway_url();
    let page = format!("{}/test_client.html", url.trim_end_matches('/'));
    for (args, status, says) in [
        (&["ws://127.0.0.1:1"][..], 2, "is the server running? start it with `hearken serve`"),
        (&[&page.replace("ws:", "http:")], 2, "use ws://HOST:PORT"),
        (&[&url, "--session", "nosuch"], 2, "cannot resume session nosuch"),
        (&[&url, "-m", " "], 1, "INVALID_MESSAGE: Text cannot be empty"),
    ] {
        let (code, out, err) = chat(args).await;
        assert_eq!((code, out.as_str()), (Some(status), ""), "{err}");
        assert!(err.contains(says), "{err}");
    }
    let locked = TestServer::start(&vendors, |config| {
        config.gateway.token = Secret::new("the token of the tests");
    })
    .await;
    let (code, _, err) = chat(&[&locked.gateway_url(), "-m", "hello"]).await;
    assert!(code == Some(2) && err.contains("needs one: use --token"), "{err}");
    let token = ["--token", "the token of the tests"];
    let (code, out, _) =
        chat(&[&[&*locked.gateway_url(), "-m", "你好"], &token[..]].concat()).await;
    assert_eq!((code, out.as_str()), (Some(0), "你说的是：你好\n"));
    locked.stop().await;

    vendors.llm.set(Behaviour::HttpStatus(401, None));
    let (code, _, err) = chat(&[&url, "-m", "hello", "-m", "again"]).await;
    assert_eq!((code, err.matches("LLM_ERROR").count()), (Some(1), 2), "{err}");
    server.stop().await;
}

/// `hearken text-client` with piped input and output.
fn held(url: &str) -> tokio::process::Child {
    Command::new(env!("CARGO_BIN_EXE_hearken"))
        .args(["text-client", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn sessions_are_left_and_resumed_by_slash_commands() {
    let vendors = vendors().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut child = held(&server.gateway_url());
    let mut input = child.stdin.take().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = notes.next_line().await.unwrap().unwrap();
    let id = first.strip_prefix("session ").unwrap();
    let orders = format!(
        "我叫小明\n/new\n/resume {id}\n/session\n/resume nosuch\n/dance\n我叫什么名字？\n/quit\n"
    );
    input.write_all(orders.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let mut told = Vec::new();
    while let Some(line) = notes.next_line().await.unwrap() {
        told.push(line);
    }
    let session = format!("session {id}");
    let nosuch = told[3].starts_with("SESSION_ERROR");
    assert!(told[0].starts_with("session ") && told[0] != session && nosuch, "{told:?}");
    assert_eq!((told[1].as_str(), told[2].as_str()), (session.as_str(), id));
    assert!(told[4].contains("/dance"), "{told:?}");
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers, "你说的是：我叫小明\n你说的是：我叫什么名字？\n");
    let asked = vendors.llm.seen().texts.pop().unwrap();
    assert!(asked.contains("我叫小明") && asked.contains("我叫什么名字？"), "{asked}");
    server.stop().await;
}

/// Sends Ctrl-C.
fn interrupt(child: &tokio::process::Child) {
    let id = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
}

#[tokio::test]
async fn the_first_ctrl_c_cancels_the_answer_and_the_second_ends_the_program() {
    let vendors = vendors().await;
    vendors.llm.set(Behaviour::Slow);
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut child = held(&server.gateway_url());
    let mut input = child.stdin.take().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    assert!(notes.next_line().await.unwrap().unwrap().starts_with("session "));
    input.write_all("讲一个很长的故事\n".as_bytes()).await.unwrap();
    // The answer has started.
    assert!(!answers.fill_buf().await.unwrap().is_empty());
    interrupt(&child);
    assert_eq!(notes.next_line().await.unwrap().unwrap(), "cancelled");
    let mut begun = String::new();
    answers.read_line(&mut begun).await.unwrap();
    assert!(begun.starts_with("从前") && begun.chars().count() < 200, "{begun}");
    // The conversation continues.
    input.write_all("你好\n".as_bytes()).await.unwrap();
    let mut answer = String::new();
    answers.read_line(&mut answer).await.unwrap();
    assert_eq!(answer, "你说的是：你好\n");
    interrupt(&child);
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    server.stop().await;
}
