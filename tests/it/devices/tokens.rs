//! Device tokens that an administrator issues and revokes. Not for those from OTA.

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{ADMIN, CLIENT, DEVICE, as_admin, boot, greeted, guarded, headers, read, shake};
use crate::support::app::{TestServer, Vendors};

/// Sends a request for the tokens of a device; returns status and body.
async fn tokens(server: &TestServer, method: Method, id: &str, body: Value) -> (u16, Value) {
    let asked = as_admin(server, method, &format!("/api/devices/{id}/tokens"));
    read(asked.json(&body).send().await.unwrap()).await
}

/// Whether a device with this token is admitted.
async fn is_let_in(server: &TestServer, client: &str, token: &str) -> bool {
    let (head, ..) = shake(server, "/xiaozhi/v1/", &headers(DEVICE, client, Some(token))).await;
    head.starts_with("http/1.1 101")
}

/// Entries of the audit log about tokens, the latest first.
async fn audit(server: &TestServer) -> Vec<String> {
    let logs_in = reqwest::Client::new().post(server.http_url("/api/admin/login"));
    let logs_in = logs_in.json(&json!({"username": "admin", "password": ADMIN}));
    let (_, told) = read(logs_in.send().await.unwrap()).await;
    let asked = reqwest::Client::new().get(server.http_url("/api/admin/audit"));
    let asked = asked.bearer_auth(told["access_token"].as_str().unwrap());
    let (_, told) = read(asked.send().await.unwrap()).await;
    let entries = told["entries"].as_array().unwrap().iter();
    let of_tokens = entries.filter(|entry| entry["details"]["device_id"] == DEVICE);
    of_tokens.map(|entry| entry["what"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_issued_token_admits_its_device_until_it_is_revoked() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let (status, made) = tokens(&server, Method::POST, DEVICE, json!({"client_id": "robot"})).await;
    assert_eq!((status, &made["client_id"]), (201, &json!("robot")), "{made}");
    assert_eq!(made["device_id"], DEVICE);
    let expires: jiff::Timestamp = made["expires"].as_str().unwrap().parse().unwrap();
    let days = expires.duration_since(jiff::Timestamp::now()).as_hours() / 24;
    assert!((29..=30).contains(&days), "{days}");
    let token = made["token"].as_str().unwrap();
    assert!(!is_let_in(&server, "another", token).await);
    let mut device = greeted(&server, &headers(DEVICE, "robot", Some(token))).await;
    let (status, told) = tokens(&server, Method::DELETE, DEVICE, json!(null)).await;
    assert_eq!(status, 204, "{told}");
    // The peer must see a close frame, not an aborted connection.
    let mut last = None;
    while let Some(Ok(message)) = device.next().await {
        last = Some(message);
    }
    assert!(matches!(last, Some(Message::Close(_))), "{last:?}");
    assert!(!is_let_in(&server, "robot", token).await, "it is revoked");
    let (_, next) = tokens(&server, Method::POST, DEVICE, json!({"client_id": "robot"})).await;
    assert!(is_let_in(&server, "robot", next["token"].as_str().unwrap()).await);
    assert_eq!(
        audit(&server).await,
        ["device token made", "device tokens revoked", "device token made"]
    );
    server.stop().await;
}

#[tokio::test]
async fn a_known_device_gets_tokens_for_its_own_client_only() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let booted = boot(&server).await;
    let own = booted["websocket"]["token"].as_str().unwrap();
    let (status, made) = tokens(&server, Method::POST, &DEVICE.to_uppercase(), json!({})).await;
    assert_eq!((status, &made["client_id"]), (201, &json!(CLIENT)), "{made}");
    for token in [own, made["token"].as_str().unwrap()] {
        assert!(is_let_in(&server, CLIENT, token).await);
    }
    for (body, status, about) in [
        (json!({"client_id": "thief"}), 409, "another client"),
        (json!({"client_id": "x".repeat(65)}), 400, "64 characters"),
        (json!({"days": 3}), 400, "days"),
        (json!([]), 400, "object"),
    ] {
        let (got, told) = tokens(&server, Method::POST, DEVICE, body).await;
        assert!(got == status && told.to_string().contains(about), "{got} {told}");
    }
    let (status, told) = tokens(&server, Method::POST, "a%7Cb", json!({})).await;
    assert!(status == 400 && told.to_string().contains('|'), "{told}");
    assert_eq!(tokens(&server, Method::DELETE, DEVICE, json!(null)).await.0, 204);
    assert!(!is_let_in(&server, CLIENT, own).await, "tokens from OTA are revoked too");
    let again = boot(&server).await;
    assert!(is_let_in(&server, CLIENT, again["websocket"]["token"].as_str().unwrap()).await);
    server.stop().await;
}

#[tokio::test]
async fn no_token_is_issued_if_none_is_required() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.auth.required = hearken::config::AuthRequired::Never;
    })
    .await;
    let (status, told) = tokens(&server, Method::POST, DEVICE, json!({})).await;
    assert!(status == 409 && told.to_string().contains("auth.required"), "{told}");
    assert_eq!(tokens(&server, Method::DELETE, DEVICE, json!(null)).await.0, 204);
    server.stop().await;
}
