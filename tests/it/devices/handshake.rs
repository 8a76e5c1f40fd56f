//! Tokens at the handshake: acceptance checks 4 and 5, and other access rules.

use std::time::Duration;

use futures_util::SinkExt as _;
use hearken::auth::Tokens;
use hearken_base::Secret;
use jiff::Timestamp;
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{
    CLIENT, DEVICE, SECRET, binding, boot, greeted, guarded, headers, raw_get, shake, token,
    upgrade,
};
use crate::support::app::{TestServer, Vendors};

const DAY: i64 = 86_400;

/// A token signed with the server's secret, this many seconds old.
fn aged(seconds: i64) -> String {
    let tokens = Tokens::new(&Secret::new(SECRET), Duration::from_secs(1));
    let at = Timestamp::now().as_second() - seconds;
    tokens.mint(DEVICE, CLIENT, Timestamp::from_second(at).unwrap()).unwrap()
}

#[tokio::test]
async fn check_04_only_a_devices_own_token_admits_it_until_it_expires() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let token = token(&server).await;
    let is = async |case: &str, headers: String, status: u16, about: &str| {
        let (got, message) = upgrade(&server, &headers).await;
        assert_eq!(got, status, "{case}: {message}");
        assert!(message.contains(about), "{case}: {message}");
    };
    let upper = DEVICE.replace("02", "AB").to_uppercase();
    is("from OTA", headers(DEVICE, CLIENT, Some(&token)), 101, "").await;
    is("of 29 days", headers(DEVICE, CLIENT, Some(&aged(29 * DAY))), 101, "").await;
    is("of 31 days", headers(DEVICE, CLIENT, Some(&aged(31 * DAY))), 401, "expired").await;
    is("of tomorrow", headers(DEVICE, CLIENT, Some(&aged(-DAY))), 401, "future").await;
    is("of another", headers(&upper, CLIENT, Some(&token)), 401, "another device").await;
    is("of another client", headers(DEVICE, "x", Some(&token)), 401, "another device").await;
    is("missing", headers(DEVICE, CLIENT, None), 401, "missing").await;
    is("empty", headers(DEVICE, CLIENT, Some("")), 401, "missing").await;
    is("malformed", headers(DEVICE, CLIENT, Some("sesame")), 401, "malformed").await;
    let mut forged = token.clone().into_bytes();
    forged[3] = if forged[3] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    is("forged", headers(DEVICE, CLIENT, Some(&forged)), 401, "forged").await;
    let (head, body, _) = shake(&server, "/xiaozhi/v1/", &headers(DEVICE, CLIENT, None)).await;
    assert!(head.contains("www-authenticate: bearer realm=\"hearken\""), "{head}");
    assert_eq!(body["error"]["code"], "UNAUTHORIZED");
    is("no id", "Host: localhost\r\n".into(), 400, "Device-Id").await;
}

#[tokio::test]
async fn check_04_the_case_of_the_mac_address_does_not_matter() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let tokens = Tokens::new(&Secret::new(SECRET), Duration::from_secs(1));
    let lower = "aa:bb:cc:dd:ee:0f";
    let upper = "AA:BB:CC:DD:EE:0F";
    for signed in [lower, upper] {
        let token = tokens.mint(signed, CLIENT, Timestamp::now()).unwrap();
        for sent in [lower, upper] {
            let (status, message) = upgrade(&server, &headers(sent, CLIENT, Some(&token))).await;
            assert_eq!(status, 101, "{signed} {sent}: {message}");
        }
    }
}

#[tokio::test]
async fn check_05_a_bare_handshake_is_answered_with_101_and_no_extension() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let token = token(&server).await;
    // As firmware sends it: `Host` without a port, and no `Origin`.
    let (head, _, stream) =
        shake(&server, "/xiaozhi/v1/", &headers(DEVICE, CLIENT, Some(&token))).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(!head.contains("sec-websocket-extensions"), "{head}");
    assert!(!head.contains("sec-websocket-protocol"), "{head}");
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    socket.send(Message::text(r#"{"type":"hello","transport":"websocket"}"#)).await.unwrap();
    let hello = crate::server::json_of(&mut socket, "hello").await;
    assert_eq!(hello["transport"], "websocket");
}

#[tokio::test]
async fn a_token_may_be_sent_in_the_query() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let token = token(&server).await;
    for authorization in [format!("Bearer%20{token}"), format!("Bearer+{token}"), token.clone()] {
        let path = format!(
            "/xiaozhi/v1/?device-id={DEVICE}&client-id={CLIENT}&authorization={authorization}"
        );
        let (head, body, _) = shake(&server, &path, "Host: localhost\r\n").await;
        assert!(head.starts_with("http/1.1 101 "), "{authorization}: {body}");
    }
    // Some clients send it in the header without its scheme.
    let bare = format!("{}Authorization: {token}\r\n", headers(DEVICE, CLIENT, None));
    assert_eq!(upgrade(&server, &bare).await.0, 101);
}

#[tokio::test]
async fn a_device_that_is_not_on_the_list_is_refused_even_with_a_token() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.auth.allowed_devices = vec!["AA:BB:CC:DD:EE:FF".into()];
    })
    .await;
    let (status, message) = upgrade(&server, &headers(DEVICE, CLIENT, Some(&aged(0)))).await;
    assert_eq!(status, 403, "{message}");
    assert!(message.contains("auth.allowed_devices"), "{message}");
    let tokens = Tokens::new(&Secret::new(SECRET), Duration::from_secs(1));
    let token = tokens.mint("aa:bb:cc:dd:ee:ff", CLIENT, Timestamp::now()).unwrap();
    let listed = headers("aa:bb:cc:dd:ee:ff", CLIENT, Some(&token));
    assert_eq!(upgrade(&server, &listed).await.0, 101);
}

#[tokio::test]
async fn secrets_generated_at_the_first_start_survive_a_restart() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let kept = |config: &mut hearken::config::Config| {
        config.auth.required = hearken::config::AuthRequired::Always;
        config.server.data_dir = folder.path().join("kept");
    };
    let server = TestServer::start(&vendors, kept).await;
    let token = token(&server).await;
    server.stop().await;
    let again = TestServer::start(&vendors, kept).await;
    let (status, message) = upgrade(&again, &headers(DEVICE, CLIENT, Some(&token))).await;
    assert_eq!(status, 101, "{message}");
    assert!(folder.path().join("kept/admin_token").exists());
}

#[tokio::test]
async fn only_sessions_of_admitted_devices_are_recorded() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let sessions = folder.path().join("sessions");
    let server = TestServer::start(&vendors, |config| {
        binding(config);
        config.server.record_dir.clone_from(&sessions);
    })
    .await;
    let told = boot(&server).await;
    // It hears its code.
    drop(greeted(&server, &headers(DEVICE, CLIENT, None)).await);
    assert_eq!(upgrade(&server, &headers(DEVICE, CLIENT, Some("AAAA.17"))).await.0, 401);
    let code = told["activation"]["code"].as_str().unwrap();
    assert_eq!(super::bind(&server, code).await.status(), 200);
    let token = token(&server).await;
    let own = headers(DEVICE, CLIENT, Some(&token));
    let (head, _, _) = raw_get(&server, "/xiaozhi/v1/", &format!("{own}Upgrade: none\r\n")).await;
    assert!(head.starts_with("http/1.1 400 "), "{head}");
    drop(greeted(&server, &own).await);
    server.stop().await;
    let recordings = std::fs::read_dir(&sessions).unwrap();
    let texts: Vec<String> =
        recordings.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].lines().count() >= 3, "both hellos: {texts:?}");
}

#[tokio::test]
async fn an_unbound_device_speaks_only_its_code() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        binding(config);
        config.dialogue.language = hearken_base::language::Language::English;
    })
    .await;
    let told = super::boot(&server).await;
    assert_eq!(told["websocket"]["token"], "", "it has no token yet");
    let code = told["activation"]["code"].as_str().unwrap().to_owned();
    let (head, _, stream) = shake(&server, "/xiaozhi/v1/", &headers(DEVICE, CLIENT, None)).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    for text in [
        r#"{"type":"hello","transport":"websocket"}"#,
        r#"{"type":"listen","state":"start","mode":"auto"}"#,
    ] {
        socket.send(Message::text(text)).await.unwrap();
    }
    let mut said = String::new();
    loop {
        let tts: Value = crate::server::json_of(&mut socket, "tts").await;
        match tts["state"].as_str() {
            Some("sentence_start") => said += tts["text"].as_str().unwrap(),
            Some("stop") => break,
            _ => {}
        }
    }
    let names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let digits: Vec<&str> = code.bytes().map(|b| names[usize::from(b - b'0')]).collect();
    assert!(said.contains(&digits.join(", ")), "{code}: {said}");
    // A forged token is still refused, and an unbound client does not replace the bound device.
    let forged = headers(DEVICE, CLIENT, Some("AAAA.17"));
    assert_eq!(upgrade(&server, &forged).await.0, 401);
    let (status, _) = super::read(super::bind(&server, &code).await).await;
    assert_eq!(status, 200);
    let (status, message) = upgrade(&server, &headers(DEVICE, CLIENT, None)).await;
    assert_eq!(status, 401, "a bound device has a token: {message}");
    let token = token(&server).await;
    let (head, _, stream) =
        shake(&server, "/xiaozhi/v1/", &headers(DEVICE, CLIENT, Some(&token))).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let mut bound = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let hello = Message::text(r#"{"type":"hello","transport":"websocket"}"#);
    bound.send(hello.clone()).await.unwrap();
    crate::server::json_of(&mut bound, "hello").await;
    let (head, _, stream) = shake(&server, "/xiaozhi/v1/", &headers(DEVICE, "thief", None)).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let mut thief = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    thief.send(hello.clone()).await.unwrap();
    crate::server::json_of(&mut thief, "hello").await;
    bound.send(hello).await.unwrap();
    crate::server::json_of(&mut bound, "hello").await;
}
