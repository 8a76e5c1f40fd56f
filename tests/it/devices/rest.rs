//! The REST API for devices.

use futures_util::SinkExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{
    CLIENT, DEVICE, as_admin, as_device, boot, greeted, guarded, headers, read, shake, token,
};
use crate::support::app::{PHRASES, TestServer, Vendors};

async fn ask(server: &TestServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let asked = as_admin(server, method, path).json(&body);
    read(asked.send().await.unwrap()).await
}

async fn get(server: &TestServer, path: &str) -> (u16, Value) {
    read(as_admin(server, Method::GET, path).send().await.unwrap()).await
}

/// A device after the exchange of hellos.
async fn connected(server: &TestServer) -> WebSocketStream<TcpStream> {
    let token = token(server).await;
    greeted(server, &headers(DEVICE, CLIENT, Some(&token))).await
}

#[tokio::test]
async fn the_device_routes_need_the_admin_token() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let device_token = token(&server).await;
    let client = reqwest::Client::new();
    for (method, path) in [
        (Method::GET, "/api/devices".to_owned()),
        (Method::GET, format!("/api/devices/{DEVICE}")),
        (Method::PATCH, format!("/api/devices/{DEVICE}")),
        (Method::DELETE, format!("/api/devices/{DEVICE}")),
        (Method::POST, "/api/devices/bind".to_owned()),
        (Method::POST, format!("/api/devices/{DEVICE}/say")),
        (Method::PUT, "/api/provisioning/x".to_owned()),
        (Method::DELETE, "/api/provisioning/x".to_owned()),
        (Method::GET, "/api/persons".to_owned()),
        (Method::POST, "/api/persons".to_owned()),
        (Method::GET, "/api/persons/x".to_owned()),
        (Method::PATCH, "/api/persons/x".to_owned()),
        (Method::DELETE, "/api/persons/x".to_owned()),
        (Method::DELETE, "/api/persons/x/memories".to_owned()),
    ] {
        for (case, token) in [("none", ""), ("wrong", "wrong"), ("a device's", &device_token)] {
            let mut asked = client.request(method.clone(), server.http_url(&path));
            if !token.is_empty() {
                asked = asked.bearer_auth(token);
            }
            let (status, told) = read(asked.send().await.unwrap()).await;
            assert_eq!((status, &told["error"]["code"]), (401, &json!("UNAUTHORIZED")), "{case}");
        }
    }
    let foreign = as_admin(&server, Method::GET, "/api/devices").header("Origin", "https://evil");
    assert_eq!(foreign.send().await.unwrap().status(), 403, "a page of another site");
    let own = format!("http://{}", server.address);
    let own = as_admin(&server, Method::GET, "/api/devices").header("Origin", own);
    assert_eq!(own.send().await.unwrap().status(), 200);
    let open = TestServer::start(&vendors, |_| {}).await;
    let free = client.get(open.http_url("/api/devices")).send().await.unwrap();
    assert_eq!(free.status(), 200, "no token is needed on a loopback address");
}

#[tokio::test]
async fn devices_are_listed_in_pages_named_and_forgotten() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    assert_eq!(get(&server, "/api/devices").await, (200, json!({"devices": [], "next": null})));
    boot(&server).await;
    for n in 2..=5 {
        let other = format!("02:00:00:00:00:0{n}");
        let asked = as_device(&server, Method::POST, "/xiaozhi/ota/");
        let asked = asked.headers(
            [("device-id", other.parse().unwrap())]
                .map(|(k, v)| (reqwest::header::HeaderName::from_static(k), v))
                .into_iter()
                .collect(),
        );
        assert_eq!(asked.send().await.unwrap().status(), 200);
    }
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let (_, page) = get(&server, &format!("/api/devices?limit=2&after={after}")).await;
        found.extend(page["devices"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    let ids: Vec<&str> = found.iter().map(|d| d["device_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 5);
    assert!(ids.is_sorted(), "{ids:?}");
    let one = format!("/api/devices/{}", DEVICE.to_uppercase());
    let (_, device) = get(&server, &one).await;
    assert_eq!(device["board"], "bread-compact-wifi");
    assert_eq!(
        (&device["firmware_version"], &device["chip"]),
        (&json!("2.0.0"), &json!("esp32s3"))
    );
    assert_eq!((&device["bound"], &device["connected"]), (&json!(false), &json!(false)));
    assert!(device["last_seen"].as_str().unwrap().ends_with('Z'), "{device}");
    let (status, device) = ask(&server, Method::PATCH, &one, json!({"name": "厨房"})).await;
    assert_eq!((status, &device["name"]), (200, &json!("厨房")));
    for body in
        [json!({}), json!({"name": ""}), json!({"name": "x".repeat(65)}), json!({"nam": "x"})]
    {
        let (status, told) = ask(&server, Method::PATCH, &one, body.clone()).await;
        assert_eq!((status, &told["error"]["code"]), (400, &json!("BAD_REQUEST")), "{body}");
    }
    assert_eq!(ask(&server, Method::DELETE, &one, json!({})).await.0, 204);
    for (method, path) in [(Method::GET, &one), (Method::DELETE, &one)] {
        assert_eq!(ask(&server, method, path, json!({})).await.0, 404);
    }
    assert_eq!(ask(&server, Method::PATCH, &one, json!({"name": "x"})).await.0, 404);
    for limit in ["0", "1001", "x", "-1"] {
        let (status, _) = get(&server, &format!("/api/devices?limit={limit}")).await;
        assert_eq!(status, 400, "{limit}");
    }
    let (status, told) = ask(&server, Method::PUT, "/api/devices", json!({})).await;
    assert_eq!(status, 405, "{told}");
}

#[tokio::test]
async fn orders_reach_a_connected_device() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let mut socket = connected(&server).await;
    let one = format!("/api/devices/{DEVICE}");
    let (_, device) = get(&server, &one).await;
    assert_eq!(device["connected"], true, "{device}");
    assert!(device["session_id"].is_string());
    let alert = json!({"status": "Door", "message": "Somebody rings", "emotion": "surprised"});
    assert_eq!(ask(&server, Method::POST, &format!("{one}/alert"), alert).await.0, 202);
    let shown = crate::server::json_of(&mut socket, "alert").await;
    assert_eq!((&shown["status"], &shown["emotion"]), (&json!("Door"), &json!("surprised")));
    let custom = json!({"payload": {"text": "hello", "n": 1}});
    assert_eq!(ask(&server, Method::POST, &format!("{one}/custom"), custom).await.0, 202);
    let passed = crate::server::json_of(&mut socket, "custom").await;
    assert_eq!(passed["payload"], json!({"text": "hello", "n": 1}));
    assert_eq!(ask(&server, Method::POST, &format!("{one}/reboot"), json!({})).await.0, 202);
    let passed = crate::server::json_of(&mut socket, "system").await;
    assert_eq!(passed["command"], "reboot");
    let say = json!({"text": "Dinner is ready."});
    assert_eq!(ask(&server, Method::POST, &format!("{one}/say"), say).await.0, 202);
    loop {
        let tts = crate::server::json_of(&mut socket, "tts").await;
        if tts["state"] == "sentence_start" {
            assert_eq!(tts["text"], "Dinner is ready.");
            break;
        }
    }
    for (order, body, about) in [
        ("alert", json!({"status": "x"}), "message"),
        ("alert", json!({"status": "x", "message": ""}), "message"),
        ("alert", json!({"status": "x", "message": "y", "emotion": "z"}), "emotion"),
        ("say", json!({"text": " "}), "text"),
        ("say", json!({"text": "x".repeat(2_001)}), "text"),
        ("say", json!([]), "must be a JSON object, not an array"),
        ("custom", json!({"payload": [1]}), "`payload` must be an object, not an array"),
    ] {
        let (status, told) =
            ask(&server, Method::POST, &format!("{one}/{order}"), body.clone()).await;
        assert_eq!(status, 400, "{order} {body}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.contains(about), "{order} {body}: {message}");
    }
    assert_eq!(ask(&server, Method::POST, &format!("{one}/dance"), json!({})).await.0, 404);
    assert_eq!(ask(&server, Method::POST, &format!("{one}/close"), json!({})).await.0, 202);
    while crate::server::next(&mut socket).await.is_some() {}
    hearken_test_support::eventually("the device is disconnected", async || {
        let (status, told) =
            ask(&server, Method::POST, &format!("{one}/say"), json!({"text": "x"})).await;
        (status == 409).then(|| assert_eq!(told["error"]["code"], "NOT_CONNECTED"))
    })
    .await;
    let nobody = "/api/devices/nobody/close";
    assert_eq!(ask(&server, Method::POST, nobody, json!({})).await.0, 404);
}

#[tokio::test]
async fn messages_beyond_the_speech_queue_are_dropped_and_counted() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let _socket = connected(&server).await;
    let say = format!("/api/devices/{DEVICE}/say");
    // One message is spoken and eight are queued.
    for n in 0..10 {
        let text = format!("Message {n} is rather long, to be spoken for a while. ");
        let text = json!({"text": text.repeat(20)});
        assert_eq!(ask(&server, Method::POST, &say, text).await.0, 202);
    }
    hearken_test_support::eventually("one was dropped", async || {
        let dropped = server.metric(r#"hearken_lane_drops_total{lane="messages"}"#).await;
        (dropped > 0.5).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_device_without_an_ota_request_is_listed_while_connected() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let (head, _, stream) = shake(&server, "/xiaozhi/v1/", &headers("browser", CLIENT, None)).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let hello = r#"{"type":"hello","transport":"websocket"}"#;
    socket.send(Message::text(hello)).await.unwrap();
    crate::server::json_of(&mut socket, "hello").await;
    boot(&server).await;
    // On a busy machine the contact is recorded after the response.
    let page = hearken_test_support::eventually("both are listed", async || {
        let (_, page) = get(&server, "/api/devices").await;
        (page["devices"].as_array().unwrap().len() == 2).then_some(page)
    })
    .await;
    let ids = &page["devices"];
    assert_eq!((&ids[1]["device_id"], &ids[1]["connected"]), (&json!("browser"), &json!(true)));
    assert_eq!(ids[1]["last_seen"], Value::Null);
    let (_, page) = get(&server, "/api/devices?limit=1").await;
    assert_eq!(page["next"], DEVICE, "{page}");
    let (_, page) = get(&server, &format!("/api/devices?limit=1&after={DEVICE}")).await;
    assert_eq!(
        (&page["devices"][0]["device_id"], &page["next"]),
        (&json!("browser"), &Value::Null)
    );
}

#[tokio::test]
async fn invalid_keys_are_refused() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let key_at = "/api/provisioning/SN-1";
    for key in ["", "5a", "zz", &"5a".repeat(33), &"5".repeat(63)] {
        let (status, told) = ask(&server, Method::PUT, key_at, json!({"key": key})).await;
        assert_eq!(status, 400, "{key}: {told}");
    }
    let key = json!({"key": "5A".repeat(32)});
    assert_eq!(ask(&server, Method::PUT, key_at, key).await.0, 204);
    assert_eq!(ask(&server, Method::DELETE, key_at, json!({})).await.0, 204);
    assert_eq!(ask(&server, Method::DELETE, key_at, json!({})).await.0, 404);
}
