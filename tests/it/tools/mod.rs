//! Tools outside devices, with the third-party programs that `scripts/peers` installs, and with
//! scripted ones.

mod builtin;
mod check_24;
mod cli;
mod conformance;
mod devices;
mod distrust;
mod endpoint;
mod litemcp;
mod python;
mod servers;
mod tokens;
mod vision;

use hearken::config::Config;
use hearken_base::Secret;
use hearken_test_support::eventually;
use hearken_tool_sources::AgentTokens;
use serde_json::{Value, json};

use crate::support::app::TestServer;

const SECRET: &str = "the secret of the tests";

/// Sets a secret that the test knows.
pub(crate) fn known(config: &mut Config) {
    config.auth.secret = Secret::new(SECRET);
}

/// A token for tool clients of the default agent.
pub(crate) fn token() -> String {
    AgentTokens::new(&Secret::new(SECRET), &[]).mint("default").unwrap().0
}

/// WebSocket URL for tool clients.
pub(crate) fn endpoint_url(server: &TestServer, token: &str) -> String {
    format!("ws://{}/mcp_endpoint/mcp/?token={token}", server.address)
}

/// The sources of a server, from its REST API.
async fn listed(server: &TestServer) -> Vec<Value> {
    let answer = reqwest::get(server.http_url("/api/tools")).await.unwrap();
    let mut answer: Value = answer.json().await.unwrap();
    answer["sources"].as_array_mut().map(std::mem::take).unwrap()
}

/// Waits until exactly these sources are ready.
pub(crate) async fn until_ready(server: &TestServer, names: &[&str]) -> Vec<Value> {
    let ready = || async {
        let all = listed(server).await;
        let ready = all.iter().filter(|s| s["state"] == "ready");
        let found: Vec<&str> = ready.filter_map(|s| s["name"].as_str()).collect();
        (found == names).then_some(all)
    };
    eventually("the sources are ready", ready).await
}

/// Calls a tool over REST; returns the status, and the text of the result or of the error.
pub(crate) async fn called(
    server: &TestServer,
    source: &str,
    tool: &str,
    arguments: Value,
) -> (u16, String) {
    let body = json!({"source": source, "tool": tool, "arguments": arguments});
    let url = server.http_url("/api/tools/call");
    let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
    let status = answer.status().as_u16();
    let answer: Value = answer.json().await.unwrap();
    let text = answer["content"][0]["text"].as_str().or(answer["error"]["message"].as_str());
    (status, text.unwrap_or_default().to_owned())
}
