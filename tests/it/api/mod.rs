//! The description of the HTTP API, the page that shows it, and the server's conformance to it. Not
//! for the behaviour of single routes.

mod strangers;

use std::process::Stdio;
use std::time::Duration;

use hearken_test_support::peers::Peers;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::app::{TestServer, Vendors};

/// Time limit for a run of schemathesis.
const ASKED_WITHIN: Duration = Duration::from_secs(400);
const PASSWORD: &str = "the password of the tests";

async fn description(server: &TestServer, path: &str) -> Value {
    let answer = reqwest::get(server.http_url(path)).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

#[actix_web::test]
async fn every_described_route_exists() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let told = description(&server, "/api/openapi.json").await;
    assert_eq!(told, description(&server, "/api/v1/openapi.json").await);
    assert_eq!(told["openapi"], "3.1.0");
    assert_eq!(told["info"]["version"], env!("CARGO_PKG_VERSION"));
    let paths = told["paths"].as_object().unwrap();
    assert!(paths.len() > 35, "{} paths", paths.len());
    let http = reqwest::Client::new();
    for (path, methods) in paths {
        let somewhere = path.replace(['{', '}'], "");
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase().parse().unwrap();
            let answer = http.request(method, server.http_url(&somewhere)).send().await.unwrap();
            let status = answer.status();
            // An endless stream: the route exists.
            if status == 200 && answer.headers()["content-type"] == "text/event-stream" {
                continue;
            }
            let body = answer.text().await.unwrap();
            assert!(status != 405, "{path}: {body}");
            assert!(!body.contains("there is nothing at this address: /"), "{path}: {body}");
        }
    }
    server.stop().await;
}

#[actix_web::test]
async fn the_api_page_loads_nothing_from_other_hosts() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let get = async |path: &str| {
        let answer = reqwest::get(server.http_url(path)).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap()
    };
    let page = get("/api/docs/").await;
    let mut fetched = 0;
    for attribute in ["src=\"", "href=\""] {
        for part in page.split(attribute).skip(1) {
            let link = part.split('"').next().unwrap();
            assert!(!link.contains("//"), "{link}");
            get(&format!("/api/docs/{}", link.trim_start_matches("./"))).await;
            fetched += 1;
        }
    }
    assert!(fetched > 3, "{page}");
    assert!(get("/api/docs/swagger-initializer.js").await.contains("/api/openapi.json"));
    server.stop().await;
}

#[actix_web::test]
async fn answers_match_the_description_for_generated_requests() {
    let Some(peers) = Peers::installed() else { return };
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.admin.password = hearken_base::Secret::new(PASSWORD);
        config.http.requests_per_minute = 0;
        config.museum.requests_per_minute = 0;
    })
    .await;
    let login = json!({"username": "admin", "password": PASSWORD});
    let http = reqwest::Client::new();
    let logged_in =
        http.post(server.http_url("/api/admin/login")).json(&login).send().await.unwrap();
    let logged_in: Value = logged_in.json().await.unwrap();
    let token = logged_in["access_token"].as_str().expect("a token");
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new(peers.checker("schemathesis"))
        .args(["run", &server.http_url("/api/openapi.json")])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1"])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--suppress-health-check", "all", "--continue-on-failure", "--no-color"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(ASKED_WITHIN, run).await.expect("it ends in time").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("generated"), "it generated requests: {said}");
    server.stop().await;
}
