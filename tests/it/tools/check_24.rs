//! Two external servers and two tool clients for one agent, all of them third-party programs, some
//! of which die while they are in use.

use std::process::{Command, Stdio};
use std::time::Duration;

use hearken_test_support::free_port;
use hearken_test_support::peers::{Listening, Peers};
use hearken_test_support::tool_sources::{address, child};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{called, endpoint_url, known, listed, token};
use crate::support::app::{TestServer, Vendors};

/// Timeout for peers, which start interpreters and redial after 1 s or 2.
const WITHIN: Duration = Duration::from_secs(60);

/// The bridge of PyPI's `xiaozhi-mcp` to a reference server.
struct Bridge {
    process: Option<std::process::Child>,
    folder: TempDir,
    url: String,
    program: String,
}

impl Bridge {
    fn start(peers: &Peers, server: &TestServer) -> Self {
        let (command, args) = peers.everything("stdio");
        let folder = tempfile::tempdir().unwrap();
        let servers = json!({"mcpServers": {"everything": {"command": command, "args": args}}});
        std::fs::write(folder.path().join("mcp_config.json"), servers.to_string()).unwrap();
        let url = endpoint_url(server, &token());
        let program = peers.python("xiaozhi-mcp");
        let mut bridge = Self { process: None, folder, url, program };
        bridge.again();
        bridge
    }

    fn again(&mut self) {
        let process = Command::new(&self.program)
            .arg("everything")
            .env("MCP_ENDPOINT", &self.url)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until this many sources are ready.
pub(super) async fn ready(server: &TestServer, count: usize) -> Vec<Value> {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let waiting = async {
        loop {
            ticks.tick().await;
            let all = listed(server).await;
            let ready = all.iter().filter(|s| s["state"] == "ready").count();
            if ready == count {
                return all;
            }
        }
    };
    tokio::time::timeout(WITHIN, waiting).await.unwrap_or_else(|_| panic!("never {count} ready"))
}

async fn sum(server: &TestServer, source: &str) -> (u16, String) {
    called(server, source, "get-sum", json!({"a": 20, "b": 22})).await
}

#[tokio::test]
async fn check_24_two_servers_and_two_tool_clients_serve_one_agent_and_recover() {
    let Some(peers) = Peers::installed() else { return };
    let mut remote = Listening::start(peers.everything("streamableHttp"), free_port());
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        known(config);
        let http = address("http", remote.url());
        config.tools.servers = vec![child("child", peers.everything("stdio")), http];
        config.tools.endpoint_timeout = Duration::from_secs(30);
    })
    .await;
    let _first = Bridge::start(&peers, &server);
    // The first one must be ready, so that the second gets the numbered name.
    ready(&server, 3).await;
    let mut second = Bridge::start(&peers, &server);
    let all = ready(&server, 4).await;
    let names: Vec<&str> = all.iter().filter_map(|s| s["name"].as_str()).collect();
    // The name that the client gives itself, without its slash.
    let dialled = "mcp-servers-everything";
    assert_eq!(names, ["child", "http", dialled, &format!("{dialled}-2")]);
    for name in &names {
        let (status, told) = sum(&server, name).await;
        assert!(status == 200 && told.contains("42"), "{name}: {status} {told}");
    }

    // The remote server and a tool client die during calls of all other sources.
    let long = async |name: &str| {
        let arguments = json!({"duration": 3, "steps": 3});
        called(&server, name, "trigger-long-running-operation", arguments).await
    };
    let deaths = async {
        remote.kill();
        second.kill();
        sum(&server, "http").await
    };
    let (one, two, missed) = tokio::join!(long("child"), long(dialled), deaths);
    assert_eq!((one.0, two.0), (200, 200), "{one:?} {two:?}");
    assert_eq!(missed.0, 503, "{missed:?}");

    let _remote = Listening::start(peers.everything("streamableHttp"), remote.port);
    second.again();
    let all = ready(&server, 4).await;
    for source in &all {
        let (status, told) = sum(&server, source["name"].as_str().unwrap()).await;
        assert!(status == 200 && told.contains("42"), "{source}: {status} {told}");
    }
    let http = all.iter().find(|s| s["name"] == "http").unwrap();
    assert_eq!(http["connections"], 2);
    server.stop().await;
}
