//! Tokens of tool clients that an administrator issues and revokes at run time, over REST and by
//! command. Not for their format.

use std::path::Path;

use futures_util::StreamExt as _;
use hearken::config::Config;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::cli::tools;
use super::endpoint::{ToolClient, answers};
use super::{endpoint_url, known, token, until_ready};
use crate::support::app::{TestServer, Vendors};

/// Sends a request below `/api/tools/tokens`; returns status and body.
async fn ask(server: &TestServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let url = server.http_url(&format!("/api/tools/tokens{path}"));
    let mut asked = reqwest::Client::new().request(method, url);
    if !body.is_null() {
        asked = asked.json(&body);
    }
    let answer = asked.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

async fn make(server: &TestServer, body: Value) -> (String, String) {
    let (status, made) = ask(server, Method::POST, "", body).await;
    assert_eq!(status, 201, "{made}");
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("token"), text("serial"))
}

async fn all(server: &TestServer) -> Vec<Value> {
    let (status, told) = ask(server, Method::GET, "", Value::Null).await;
    assert_eq!(status, 200, "{told}");
    assert!(!told.to_string().contains("\"token\""), "it is not listed: {told}");
    told["tokens"].as_array().unwrap().clone()
}

/// Status and message of the refusal of a client with this token.
async fn refused(server: &TestServer, token: &str) -> (u16, String) {
    match connect_async(endpoint_url(server, token)).await {
        Err(Error::Http(answer)) => {
            let body = answer.body().clone().unwrap_or_default();
            (answer.status().as_u16(), String::from_utf8(body).unwrap())
        }
        other => panic!("{:?}", other.map(drop)),
    }
}

fn in_folder(folder: &Path) -> impl FnOnce(&mut Config) + use<> {
    let folder = folder.to_owned();
    move |config| {
        known(config);
        config.server.data_dir = folder;
    }
}

#[tokio::test]
async fn a_token_is_valid_until_revoked_also_after_a_restart() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, in_folder(folder.path())).await;
    assert_eq!(all(&server).await, [json!(null); 0]);
    let (good, kept) = make(&server, json!({})).await;
    let (bad, serial) = make(&server, json!({"agent": "客厅", "name": " Anna's PC "})).await;
    let listed = all(&server).await;
    let newest = &listed[0];
    let oldest = &listed[1];
    assert_eq!((&newest["name"], &newest["agent"]), (&json!("Anna's PC"), &json!("客厅")));
    assert_eq!((&newest["made_by"], &newest["revoked"]), (&json!("admin"), &json!(null)));
    assert_eq!((&oldest["agent"], &oldest["serial"]), (&json!("default"), &json!(kept)));
    let own = |asked: &Value| answers(asked, "calc");
    let _stays = ToolClient::answering(&server, &good, std::sync::Arc::new(own)).await;
    until_ready(&server, &["calc"]).await;
    let (mut ends, _) = connect_async(endpoint_url(&server, &bad)).await.unwrap();
    let path = format!("/{serial}");
    for _ in 0..2 {
        assert_eq!(ask(&server, Method::DELETE, &path, Value::Null).await.0, 204);
    }
    let mut last = None;
    while let Some(Ok(message)) = ends.next().await {
        last = Some(message);
    }
    assert!(matches!(last, Some(Message::Close(_))), "{last:?}");
    let (status, told) = refused(&server, &bad).await;
    assert!(status == 401 && told.contains("the token was revoked"), "{told}");
    until_ready(&server, &["calc"]).await;
    server.stop().await;
    let server = TestServer::start(&vendors, in_folder(folder.path())).await;
    hearken_test_support::eventually("the store was read", async || {
        let connected = connect_async(endpoint_url(&server, &bad)).await;
        connected.is_err().then_some(())
    })
    .await;
    assert_eq!(refused(&server, &bad).await.0, 401);
    assert!(connect_async(endpoint_url(&server, &good)).await.is_ok());
    assert!(all(&server).await[0]["revoked"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn tokens_can_be_issued_without_administrator_logins() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        known(config);
        config.admin.enabled = false;
    })
    .await;
    let (_, serial) = make(&server, json!({})).await;
    assert_eq!(ask(&server, Method::DELETE, &format!("/{serial}"), Value::Null).await.0, 204);
    assert!(all(&server).await[0]["revoked"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn invalid_requests_get_an_error_that_names_the_remedy() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, known).await;
    for (body, about) in [
        (json!({"agent": ""}), "1 to 64 bytes"),
        (json!({"agent": "字".repeat(22)}), "1 to 64 bytes"),
        (json!({"name": "x".repeat(65)}), "64 characters"),
        (json!({"serial": "x"}), "serial"),
        (json!([]), "object"),
    ] {
        let (status, told) = ask(&server, Method::POST, "", body).await;
        assert!(status == 400 && told.to_string().contains(about), "{status} {told}");
    }
    for serial in ["0123456789a", "0123456789ag", "0123456789AB", "..%2F..%2Fconfig"] {
        let (status, told) = ask(&server, Method::DELETE, &format!("/{serial}"), Value::Null).await;
        assert_eq!(status, 404, "{told}");
    }
    assert!(all(&server).await.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_token_from_the_command_is_revoked_by_its_serial() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, in_folder(folder.path())).await;
    let url = server.http_url("");
    let run = async |args: &[&str]| {
        let (_, said, why) = tools(folder.path(), &[&["--url", url.as_str()], args].concat()).await;
        (said, why)
    };
    let by_command = token();
    let serial = by_command.split('.').nth(1).unwrap();
    let (said, _) = run(&["tokens"]).await;
    assert!(said.starts_with("no tokens"), "{said}");
    let (_, made) = make(&server, json!({"name": "the PC"})).await;
    let (said, _) = run(&["revoke", serial]).await;
    assert_eq!(said.trim(), format!("revoked {serial}"));
    assert_eq!(refused(&server, &by_command).await.0, 401);
    let (said, _) = run(&["tokens"]).await;
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with(&format!("{made}  the PC  (for default, made ")), "{said}");
    assert!(lines[1].starts_with(&format!("{serial}  (made by a command; revoked ")), "{said}");
    let (said, why) = run(&["revoke", "x"]).await;
    assert!(said.is_empty() && why.contains("12 digits"), "{said} {why}");
    server.stop().await;
}
