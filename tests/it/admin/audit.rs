//! Each changing request of administration writes one entry to the audit log, whichever its route.
//! Not for the entries of logins, nor for what each of the others contains.

use hearken::config::AuthRequired;
use hearken::http::openapi;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Admin, PASSWORD, ask};
use crate::support::app::Vendors;

const CHANGING: [&str; 4] = ["post", "put", "patch", "delete"];
/// Changing routes that are not of administration, by the start of their path: of devices, text
/// clients, applications and museum clients, and those that precede a login.
const OTHERS: [&str; 9] = [
    "/api/admin/login",
    "/api/admin/refresh",
    "/api/admin/setup",
    "/api/agent/",
    "/api/session/",
    "/api/sessions",
    "/litemcp/",
    "/vision/",
    "/xiaozhi/",
];
const TOOLS_OF_SESSION: &str = "/api/sessions/{id}/tools";

/// The changing routes of administration; the one that ends the session comes last.
fn routes() -> Vec<(String, String)> {
    let described = serde_json::to_value(openapi::description()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let is_other = OTHERS.iter().any(|start| path.starts_with(start));
        for method in methods.as_object().unwrap().keys() {
            let changes = CHANGING.contains(&method.as_str());
            if changes && (!is_other || path == TOOLS_OF_SESSION) {
                routes.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    routes.sort_by_key(|(_, path)| path.ends_with("/logout"));
    routes
}

/// The last entries of the audit log, newest first.
async fn entries(admin: &Admin) -> Vec<Value> {
    admin.get("/audit?limit=5").await["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_changing_request_of_administration_writes_one_entry() {
    let vendors = Vendors::start().await;
    let mut admin = Admin::start(&vendors, |config| {
        config.auth.required = AuthRequired::Auto;
        config.http.requests_per_minute = 0;
    })
    .await;
    let routes = routes();
    assert!(routes.len() > 30, "{routes:?}");
    for (method, pattern) in routes {
        let path = pattern.replace("{order}", "say");
        let path = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        let before = entries(&admin).await[0]["number"].as_i64().unwrap();
        let asked = Method::from_bytes(method.as_bytes()).unwrap();
        let (status, told) = ask(&admin.server, asked, &path, &admin.token, json!({})).await;
        assert!(![401, 403, 405].contains(&status), "{method} {pattern}: {status} {told}");
        if pattern.ends_with("/logout") {
            admin = Admin::of(admin.server).await;
        }
        let mut new = entries(&admin).await;
        new.retain(|entry| entry["number"].as_i64() > Some(before) && entry["what"] != "logged in");
        assert_eq!(new.len(), 1, "{method} {pattern} gave {status}: {new:?}");
        assert_eq!(new[0]["who"], "admin", "{new:?}");
        if new[0]["what"] == format!("{method} {pattern}") {
            assert_eq!(new[0]["details"]["status"], status, "{new:?}");
            let ids = new[0]["details"]["path"].as_object().unwrap();
            assert_eq!(ids.len(), pattern.matches('{').count(), "{new:?}");
        }
    }
    let admin = admin_without_a_login(admin).await;
    admin.server.stop().await;
}

/// The admin token is noted under the administrator's name; a refused caller, and a body, are not.
async fn admin_without_a_login(admin: Admin) -> Admin {
    let server = &admin.server;
    let before = entries(&admin).await;
    let body = json!({"name": "a secret of the body"});
    let path = "/api/devices/aa:bb";
    let (refused, _) = ask(server, Method::PATCH, path, "wrong", body.clone()).await;
    assert_eq!((refused, entries(&admin).await), (401, before));
    let (status, _) = ask(server, Method::PATCH, path, PASSWORD, body).await;
    let newest = entries(&admin).await.swap_remove(0);
    let details = json!({"path": {"id": "aa:bb"}, "status": 404});
    assert_eq!((status, &newest["details"]), (404, &details));
    assert_eq!(
        (&newest["who"], &newest["what"]),
        (&json!("admin"), &json!("PATCH /api/devices/{id}"))
    );
    admin
}
