//! Speaker recognition on recorded speech through the real server: people are enrolled from
//! recordings by command, called by name, and deleted. Also needs the model `cam-plus-plus`. Not
//! for the accuracy of the recognition.

use std::path::{Path, PathBuf};
use std::process::Output;

use hearken_base::testkit::models::fetched;
use hearken_test_support::vendors::{Behaviour, OpenAiChat, Stub};
use serde_json::Value;
use tokio::process::Command;

use super::server::{Server, engines, recording};
use crate::support::process::program;

/// Token of the administrator.
const TOKEN: &str = "who-may-enrol-people";

async fn run(args: &[&str]) -> Output {
    let output = Command::new(program()).args(args).kill_on_drop(true).output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {told}");
    output
}

/// Number of turns in which a person must be recognised at least once.
const ATTEMPTS: usize = 10;

/// Writes the speech of a recording as WAV.
async fn wav(folder: &Path, fixture: &str) -> PathBuf {
    let file = folder.join(format!("{fixture}.wav"));
    run(&["convert", &recording(fixture).to_string_lossy(), &file.to_string_lossy()]).await;
    file
}

/// Replays a recording; returns the user message in the last request to the model.
async fn asked(server: &Server, model: &Stub, fixture: &str) -> String {
    model.forget_texts();
    server.replay(fixture, &[]).await;
    let seen = model.until(|seen| !seen.texts.is_empty()).await;
    let request = seen.texts.last().unwrap();
    let body: Value = serde_json::from_str(&request[request.find('{').unwrap()..]).unwrap();
    let messages = body["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_enrolled_person_is_recognised_until_deleted() {
    let Some(engines) = engines() else { return };
    if fetched("cam-plus-plus").is_none() {
        return eprintln!(
            "skipped: the model is not there; run `hearken models fetch cam-plus-plus`"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let model = OpenAiChat::start(Behaviour::Normal, "It is noon.").await;
    let url = model.url();
    let data = folder.path().join("data");
    let env = [
        ("LLM_BASE_URL", url.as_str()),
        ("HEARKEN__SERVER__DATA_DIR", &data.to_string_lossy()),
        ("HEARKEN__AUTH__ADMIN_TOKEN", TOKEN),
        ("HEARKEN__SPEAKERS__MODEL", "cam-plus-plus"),
        // Enough for a busy machine.
        ("HEARKEN__SPEAKERS__DEADLINE_MS", "5000"),
        ("HEARKEN__SPEAKERS__CPU_PERCENT", "100"),
        ("HEARKEN__TOOLS__BUILTIN__ENABLED", ""),
    ];
    let server = Server::start(&engines, &env).await;
    server.logged("loaded the speaker embedder").await;
    let mut files = Vec::new();
    for fixture in ["en_go_forward", "en_go_forward_noisy"] {
        files.push(wav(folder.path(), fixture).await.to_string_lossy().into_owned());
    }
    let at = server.address();
    let people = ["people", "--url", &at, "--admin-token", TOKEN];
    let enrol = [&people[..], &["enrol", "Max", &files[0], &files[1], &files[0]]].concat();
    run(&enrol).await;
    // Other words of the same man, then a woman and a speaker of Chinese. On a busy machine the
    // speaker model may finish after the turn has continued without it; the man is then recognised
    // in a later turn.
    let mut known = String::new();
    for _ in 0..ATTEMPTS {
        known = asked(&server, &model, "en_go_somewhere").await;
        if known.starts_with("[Max] ") {
            break;
        }
    }
    assert!(known.starts_with("[Max] "), "{known}");
    for other in ["en_amiable", "zh_trade_stalls"] {
        let words = asked(&server, &model, other).await;
        assert!(!words.contains("[Max]"), "{words}");
    }
    let list = run(&[&people[..], &["list", "--json"]].concat()).await;
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let id = list[0]["id"].as_str().or(list["persons"][0]["id"].as_str()).unwrap().to_owned();
    run(&[&people[..], &["delete", &id]].concat()).await;
    let words = asked(&server, &model, "en_go_somewhere").await;
    assert!(!words.contains("[Max]"), "{words}");
    server.stop().await;
}
