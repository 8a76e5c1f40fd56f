//! Responses of every route to a client on the Internet without a credential, as
//! docs/threat-model.md lists them. Not for sockets and the worst requests: see `strangers`.

use std::collections::BTreeMap;

use hearken::config::AuthRequired;
use hearken::http::openapi;
use hearken_test_support::eventually;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::support::app::{TestServer, Vendors};

const DOCUMENT: &str = "docs/threat-model.md";
const HEADING: &str = "## What a stranger gets\n";
/// Routes that the description of the API does not contain.
const OTHERS: [(&str, &str); 6] = [
    ("GET", "/console/"),
    ("GET", "/api/openapi.json"),
    ("GET", "/api/docs/"),
    ("GET", "/xiaozhi/ota/"),
    ("GET", "/xiaozhi/v1/"),
    ("GET", "/mcp_endpoint/mcp/"),
];

/// All routes with their methods.
fn routes() -> Vec<(String, String)> {
    let described = serde_json::to_value(openapi::description()).unwrap();
    let mut routes: Vec<(String, String)> =
        OTHERS.map(|(method, path)| (method.to_owned(), path.to_owned())).to_vec();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys();
        routes.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
    }
    routes.sort_by(|a, b| (&a.1, &a.0).cmp(&(&b.1, &b.0)));
    routes
}

/// The status and the error code of a request from the Internet.
async fn answer(server: &TestServer, method: &str, path: &str) -> String {
    let path = path.replace("{order}", "say").replace("{key}", "x");
    let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    let url = server.http_url(&parts.collect::<Vec<_>>().join("/"));
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut asked = Client::new().request(method.clone(), url);
    asked = asked.header("X-Forwarded-For", "203.0.113.9");
    if method != Method::GET && method != Method::DELETE {
        asked = asked.json(&json!({}));
    }
    let answer = asked.send().await.unwrap();
    let status = answer.status().as_u16();
    let told: Value = answer.json().await.unwrap_or_default();
    let code = told["error"]["code"].as_str().or(told["code"].as_str());
    code.map_or(format!("{status}"), |code| format!("{status} `{code}`"))
}

/// The table in the document: a row for each answer, with its routes.
fn table(answers: &BTreeMap<String, Vec<String>>) -> String {
    let rows = answers.iter().map(|(answer, routes)| {
        let routes: Vec<String> = routes.iter().map(|route| format!("`{route}`")).collect();
        format!("| {answer} | {} |\n", routes.join(", "))
    });
    format!("| Answer | Routes |\n|---|---|\n{}", rows.collect::<String>())
}

#[tokio::test]
async fn a_stranger_gets_the_answers_that_the_threat_model_lists() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.auth.required = AuthRequired::Auto;
        config.ota.trust_proxy = true;
        config.http.requests_per_minute = 1_000;
    })
    .await;
    // The store is opened at first use, which may take time on a busy machine.
    eventually("the server is ready", async || {
        (answer(&server, "GET", "/readyz").await == "200").then_some(())
    })
    .await;
    let mut answers = BTreeMap::<String, Vec<String>>::new();
    for (method, path) in routes() {
        let answer = answer(&server, &method, &path).await;
        answers.entry(answer).or_default().push(format!("{method} {path}"));
    }
    let table = table(&answers);
    let file = hearken_test_support::repository().join(DOCUMENT);
    let text = std::fs::read_to_string(file).unwrap();
    let section = text.split(HEADING).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    assert!(section.contains(&table), "{DOCUMENT} does not have this table:\n{table}");
    server.stop().await;
}
