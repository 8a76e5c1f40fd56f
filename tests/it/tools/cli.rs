//! `hearken tools` as a command line.

use std::path::Path;

use hearken_proto::device::ListenMode;
use hearken_test_support::peers::Peers;
use hearken_test_support::tool_sources::child;
use serde_json::Value;

use super::check_24::ready;
use crate::server::person::Person;
use crate::support::app::{TestServer, Vendors};
use crate::support::command::hearken;

/// Runs `hearken tools` in this data folder; returns its exit code and output.
pub(super) async fn tools(data_dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    hearken(data_dir, &[&["tools"], args].concat()).await
}

#[tokio::test]
async fn tools_are_listed_and_called_by_command() {
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
        (&["call", "nobody", "echo"][..], "there is no source of tools `nobody`"),
        (&["call", "everything", "none"], "there is no tool `none`"),
        (&["call", "everything", "echo", "[1]"], "the arguments are not a JSON object"),
        (&["call", "everything", "echo", "{"], "the arguments are not JSON"),
    ] {
        let (code, _, told) = run(args).await;
        assert!(code == Some(2) && told.contains(says), "{told}");
    }
    // A token that the command mints for a running server is valid at once.
    let (code, token, serial) = run(&["token"]).await;
    assert!(code == Some(0) && serial.starts_with("serial "), "{serial}");
    let path = format!("/mcp_endpoint/mcp/?token={}", token.trim());
    let answer = reqwest::get(server.http_url(&path)).await.unwrap();
    assert_eq!(answer.status(), 400, "authorised, but no WebSocket request");
    server.stop().await;
}

#[tokio::test]
async fn a_server_is_added_switched_and_removed_by_command() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        config.server.data_dir = folder.path().to_owned();
        config.tools.builtin.enabled = vec!["get_current_time".into()];
    })
    .await;
    let url = server.http_url("");
    let run = async |args: &[&str]| {
        let args = [&["--url", url.as_str()], args].concat();
        let (code, out, err) = tools(folder.path(), &args).await;
        (code, if code == Some(0) { out } else { err })
    };
    let token = folder.path().join("bearer");
    std::fs::write(&token, "sk-1\n").unwrap();
    let address = "http://127.0.0.1:1/mcp";
    let token = token.to_str().unwrap();
    let device = "02:00:00:00:bb:01";
    let said = "added far; `hearken tools` shows when it is ready\n";
    let mut add = vec!["add", "far", address, "--bearer-file", token, "--header", "X-Key=sk-2"];
    add.extend(["--device", device]);
    assert_eq!(run(&add).await, (Some(0), said.into()));
    let (_, list) = run(&["list", "--json"]).await;
    assert!(list.contains("\"origin\": \"api\"") && !list.contains("sk-"), "{list}");
    let (_, list) = run(&[]).await;
    assert!(
        list.starts_with("builtin  (built in, ready, 1 tools)\n  get_current_time  "),
        "{list}"
    );
    assert!(list.contains(&format!(", 0 tools, for {device})")), "{list}");
    assert!(list.contains("\nfar  (added, http, "), "{list}");
    assert_eq!(run(&["disable", "far"]).await, (Some(0), "disabled far\n".into()));
    assert!(run(&[]).await.1.contains("\nfar  (added, http, disabled, 0 tools, for "));
    assert_eq!(run(&["enable", "far"]).await, (Some(0), "enabled far\n".into()));

    one_device(&server, device, &run).await;
    one_session(&server, &run).await;
    for (args, says) in [
        (
            &["disable", "none", "--device", device][..],
            "no source of tools `none`: use one of builtin, far",
        ),
        (&["disable", "builtin", "--device", "x"], "no such device"),
        (&["disable", "none"], "there is no tool server `none`"),
        (&["disable", "builtin", "--session", "x"], "no session of this id is running"),
        (&["disable", "builtin", "--session", "x", "--device", device], "cannot be used with"),
        (&["add", "far", address], "`far` is in use by another source"),
        (&["add", "near", address, "--bearer-env", "NOT_SET"], "the variable NOT_SET is not set"),
        (&["add", "near", address, "--header", "x"], "use NAME=VALUE"),
        (&["add", "near"], "required"),
        (&["add", "near", "--", "sh", "-c", "true"], "`tools.allow_commands_over_api`"),
        (&["remove", "none"], "there is no tool server `none`"),
    ] {
        let (code, told) = run(args).await;
        assert!(code == Some(2) && told.contains(says), "{args:?}: {told}");
    }
    assert_eq!(run(&["remove", "far"]).await, (Some(0), "removed far\n".into()));
    assert!(!run(&[]).await.1.contains("far"));
    server.stop().await;
}

/// Disables the built-in tools for a device, and enables them again.
async fn one_device(
    server: &TestServer,
    device: &str,
    run: &impl AsyncFn(&[&str]) -> (Option<i32>, String),
) {
    let ota = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/"));
    let ota = ota.header("Device-Id", device).header("Client-Id", "c").body("{}");
    assert_eq!(ota.send().await.unwrap().status(), 200);
    let off = run(&["disable", "builtin", "--device", device]).await;
    assert_eq!(off, (Some(0), format!("disabled builtin for {device}\n")));
    let path = server.http_url(&format!("/api/devices/{device}/tools"));
    let shown = async || -> Value { reqwest::get(&path).await.unwrap().json().await.unwrap() };
    assert_eq!(shown().await["off"], serde_json::json!(["builtin"]));
    let on = run(&["enable", "builtin", "--device", device]).await;
    assert_eq!(on, (Some(0), format!("enabled builtin for {device}\n")));
    assert_eq!(shown().await["off"], serde_json::json!([]));
}

/// The same for a running session.
async fn one_session(server: &TestServer, run: &impl AsyncFn(&[&str]) -> (Option<i32>, String)) {
    let person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    let devices = reqwest::get(server.http_url("/api/devices")).await.unwrap();
    let devices: Value = devices.json().await.unwrap();
    let mut all = devices["devices"].as_array().unwrap().iter();
    let session = all.find_map(|device| device["session_id"].as_str()).unwrap();
    let path = server.http_url(&format!("/api/sessions/{session}/tools"));
    let shown = async || -> Value { reqwest::get(&path).await.unwrap().json().await.unwrap() };
    for (word, off) in [("disable", &["builtin"][..]), ("enable", &[])] {
        let said = run(&[word, "builtin", "--session", session]).await;
        assert_eq!(said, (Some(0), format!("{word}d builtin for {session}\n")));
        assert_eq!(shown().await["off"], serde_json::json!(off));
    }
    drop(person);
}
