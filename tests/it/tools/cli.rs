//! `hearken tools`, as a person types it.

use std::path::Path;

use serde_json::Value;
use tokio::process::Command;

use super::check_24::ready;
use super::peers::{Peers, child};
use crate::support::app::{TestServer, Vendors};

/// Runs the command in this data folder; its exit code, and what it printed.
async fn tools(data_dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hearken"))
        .arg("tools")
        .args(args)
        .env("HEARKEN__SERVER__DATA_DIR", data_dir)
        .current_dir(folder.path())
        .output()
        .await
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_person_lists_tools_and_calls_one() {
    let Some(peers) = Peers::installed() else { return };
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        config.server.data_dir = folder.path().to_owned();
        config.tools.servers = vec![child("everything", peers.everything("stdio"))];
    })
    .await;
    let url = server.http_url("");
    let run = async |args: &[&str]| {
        tools(folder.path(), &[&["--url", url.as_str()], args].concat()).await
    };
    ready(&server, 1).await;
    let (_, list, _) = run(&[]).await;
    assert!(list.starts_with("everything  (configured, stdio, ready, 13 tools)\n"), "{list}");
    assert!(list.contains("\n  echo  Echoes back the input"), "{list}");
    let (_, json, _) = run(&["list", "--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sources"][0]["protocol"], "2025-11-25");
    let said = run(&["call", "everything", "echo", "{\"message\": \"你好\"}"]).await;
    assert_eq!(said, (Some(0), "Echo: 你好\n".into(), String::new()));
    for (args, says) in [
        (&["call", "nobody", "echo"][..], "no source of tools is called `nobody`"),
        (&["call", "everything", "none"], "there is no tool `none`"),
        (&["call", "everything", "echo", "[1]"], "the arguments are no JSON object"),
        (&["call", "everything", "echo", "{"], "the arguments are no JSON"),
    ] {
        let (code, _, told) = run(args).await;
        assert!(code == Some(2) && told.contains(says), "{told}");
    }
    // A token that is made beside the running server is good at once.
    let (code, token, serial) = run(&["token"]).await;
    assert!(code == Some(0) && serial.starts_with("serial "), "{serial}");
    let path = format!("/mcp_endpoint/mcp/?token={}", token.trim());
    let answer = reqwest::get(server.http_url(&path)).await.unwrap();
    assert_eq!(answer.status(), 400, "let in, though not by WebSocket");
    server.stop().await;
}
