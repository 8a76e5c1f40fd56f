//! Chapters 8 and 12: limits, and the settings for them.

use std::collections::BTreeMap;

use hearken::config::{self, Config};
use hearken_test_support::eventually;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{TextClient, answering, echo, echoing};
use crate::support::app::TestServer;

/// Every variable of chapter 8 with a value, and the key and value that it sets.
const VARIABLES: [(&str, &str, &str, &str); 22] = [
    ("CLOUD_HOST", "127.0.0.1", "server.host", "127.0.0.1"),
    ("CLOUD_PORT", "9500", "server.port", "9500"),
    ("CLOUD_PING_INTERVAL", "31", "gateway.ping_interval_ms", "31000"),
    ("CLOUD_PING_TIMEOUT", "301", "gateway.ping_timeout_ms", "301000"),
    ("CLOUD_MAX_CONNECTIONS", "101", "gateway.max_connections", "101"),
    ("CLOUD_SESSION_TIMEOUT", "3601", "gateway.session_timeout_ms", "3601000"),
    ("CLOUD_LOG_LEVEL", "DEBUG", "log.level", "DEBUG"),
    ("CLOUD_LOG_FORMAT", "json", "log.format", "json"),
    ("LLM_BASE_URL", "http://127.0.0.1:8000/v1/", "llm.base_url", "http://127.0.0.1:8000/v1/"),
    ("LLM_MODEL", "Qwen3-30B-A3B", "llm.model", "Qwen3-30B-A3B"),
    ("LLM_API_KEY", "sk-1", "llm.api_key", "sk-1"),
    ("LLM_TIMEOUT", "121", "llm.timeout_ms", "121000"),
    ("LLM_TEMPERATURE", "0.5", "gateway.temperature", "0.5"),
    ("LLM_MAX_TOKENS", "1024", "gateway.max_tokens", "1024"),
    ("LLM_ENABLE_CONTEXT", "True", "gateway.enable_context", "true"),
    ("MCP_ENABLED", "0", "gateway.mcp_enabled", "false"),
    ("MCP_SERVER_NAME", "arcs-mini-mcp-server", "tools.mcp_server_name", "arcs-mini-mcp-server"),
    ("MCP_PROTOCOL_VERSION", "2025-06-18", "tools.mcp_protocol_version", "2025-06-18"),
    ("CLIENT_TOOLS_ENABLED", "false", "gateway.client_tools_enabled", "false"),
    ("CLIENT_TOOLS_MAX_COUNT", "33", "gateway.client_tools_max_count", "33"),
    ("CLIENT_TOOL_TIMEOUT", "29", "gateway.client_tool_timeout_ms", "29000"),
    ("CLIENT_TOOL_RESULT_QUEUE_SIZE", "11", "gateway.client_tool_result_queue_size", "11"),
];

/// The value of a configuration key, as text.
fn shown(config: &Config, key: &str) -> String {
    let table = toml::Value::try_from(config).unwrap();
    match key.split('.').fold(&table, |table, part| &table[part]) {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn every_variable_of_the_document_sets_its_key() {
    for (name, value, key, set) in VARIABLES {
        let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let config = config::load(None, &env).unwrap();
        assert_eq!(shown(&config, key), set, "{name}");
    }
    let defaults = Config::default();
    for (key, value) in [
        ("server.host", "0.0.0.0"),
        ("server.port", "9400"),
        ("gateway.ping_interval_ms", "30000"),
        ("gateway.ping_timeout_ms", "300000"),
        ("gateway.max_connections", "100"),
        ("gateway.session_timeout_ms", "3600000"),
        ("gateway.max_messages", "10"),
        ("llm.timeout_ms", "120000"),
        ("gateway.max_tokens", "2048"),
        ("gateway.enable_context", "false"),
        ("gateway.mcp_enabled", "true"),
        ("tools.mcp_protocol_version", "2024-11-05"),
        ("gateway.client_tools_enabled", "true"),
        ("gateway.client_tools_max_count", "32"),
        ("gateway.client_tool_timeout_ms", "30000"),
        ("gateway.client_tool_result_queue_size", "10"),
    ] {
        assert_eq!(shown(&defaults, key), value, "{key}");
    }
    assert!((defaults.gateway.temperature - 0.7).abs() < 1e-6);
    for (name, value) in [("LLM_TEMPERATURE", "1.1"), ("LLM_MAX_TOKENS", "2049")] {
        let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert!(config::load(None, &env).is_err(), "{name}");
    }
}

#[actix_web::test]
async fn a_connection_beyond_the_limit_is_closed_with_1013() {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |config| config.gateway.max_connections = 2).await;
    let mut first = TextClient::connect(&server).await;
    let second = TextClient::connect(&server).await;
    let (socket, _) = connect_async(server.gateway_url()).await.unwrap();
    let mut third = TextClient { socket, session: String::new() };
    assert_eq!(third.frame().await, Err(Some(1013)));
    assert_eq!(first.answer("hi").await, "You said hi");
    drop(second);
    eventually("a slot is free again", async || {
        let (socket, _) = connect_async(server.gateway_url()).await.unwrap();
        let mut client = TextClient { socket, session: String::new() };
        client.frame().await.ok().filter(|m| m["status"] == "connected").map(|_| ())
    })
    .await;
    server.stop().await;
}

#[actix_web::test]
async fn messages_above_one_mebibyte_close_the_connection() {
    let (_vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    let text = "x".repeat((1 << 20) - 100);
    client.send(json!({"type": "unknown", "text": text})).await;
    assert_eq!(client.next().await["code"], "UNKNOWN_MESSAGE_TYPE");
    client.send(json!({"type": "text_input", "text": "x".repeat(1 << 20)})).await;
    assert_eq!(client.frame().await, Err(Some(1009)));
    server.stop().await;
}

#[actix_web::test]
async fn a_configured_token_is_required() {
    let vendors = answering(echo).await;
    let token = "the token of text clients";
    let server = TestServer::start(&vendors, |config| {
        config.gateway.token = hearken_base::Secret::new(token);
    })
    .await;
    let url = server.gateway_url();
    assert!(connect_async(&url).await.is_err());
    assert!(connect_async(format!("{url}?token=wrong")).await.is_err());
    connect_async(format!("{url}?token={}", token.replace(' ', "%20"))).await.unwrap();
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    connect_async(request).await.unwrap();
    server.stop().await;
}

#[actix_web::test]
async fn the_test_page_is_served_to_browsers() {
    let (_vendors, server) = echoing().await;
    let page = reqwest::get(server.http_url("/")).await.unwrap();
    assert_eq!(page.url().path(), "/console/");
    assert!(page.text().await.unwrap().contains("<html"));
    let page = reqwest::get(server.http_url("/test_client.html")).await.unwrap();
    assert!(page.text().await.unwrap().contains("text gateway"));
    let told: Value = reqwest::Client::new()
        .post(server.http_url("/test_client.html"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(told["error"]["code"], "BAD_REQUEST");
    server.stop().await;
}

#[actix_web::test]
async fn a_disabled_gateway_gives_404() {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |config| config.gateway.enabled = false).await;
    assert!(connect_async(server.gateway_url()).await.is_err());
    server.stop().await;
}
