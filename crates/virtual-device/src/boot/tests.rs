//! Tests of booting, over HTTP against scripted responses. Not for the decisions of a server.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::boot::{BootError, Identity, Serial, Websocket, boot, is_newer};
use crate::events::Upload;

/// Scripted server: responses in order, and the received requests.
struct Scripted {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Scripted {
    async fn answering(answers: &[(u16, String)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/xiaozhi/ota/", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&requests);
        let answers = answers.to_vec();
        let task = tokio::spawn(async move {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !whole(&request) {
                    assert!(stream.read_buf(&mut request).await.unwrap() > 0, "cut short");
                }
                seen.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { url, requests, task }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ").map(|n| n.parse::<usize>().unwrap())
    });
    length.map_or_else(|| body.ends_with("0\r\n\r\n"), |length| body.len() >= length)
}

fn identity() -> Identity {
    Identity {
        device_id: "02:00:00:00:00:01".into(),
        client_id: "00000000-0000-4000-8000-000000000001".into(),
        version: "2.4.2".into(),
        board: "bread-compact-wifi".into(),
        serial: None,
        activation_rounds: 2,
        retry_failures: true,
        wait_divisor: 10_000,
    }
}

fn ready() -> String {
    json!({
        "server_time": {"timestamp": 1_754_640_000_000_i64, "timezone_offset": 480},
        "firmware": {"version": "2.4.2", "url": ""},
        "websocket": {"url": "ws://h:8000/xiaozhi/v1/", "token": "t", "version": 3},
    })
    .to_string()
}

fn unbound() -> String {
    json!({"activation": {"code": "123456", "message": "m", "challenge": "c"}}).to_string()
}

#[tokio::test]
async fn the_request_equals_that_of_firmware_and_the_response_is_parsed() {
    let server = Scripted::answering(&[(200, ready())]).await;
    let booted = boot(&server.url, &identity()).await.unwrap();
    let websocket =
        Websocket { url: "ws://h:8000/xiaozhi/v1/".into(), token: "t".into(), version: 3 };
    assert_eq!(booted.websocket, Some(websocket));
    assert_eq!(booted.server_time, Some((1_754_640_000_000, 480)));
    assert_eq!((booted.update, booted.mqtt), (None, false));
    let request = server.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    for line in [
        "post /xiaozhi/ota/ http/1.1",
        "activation-version: 1",
        "device-id: 02:00:00:00:00:01",
        "client-id: 00000000-0000-4000-8000-000000000001",
        "user-agent: bread-compact-wifi/2.4.2",
        "content-type: application/json",
    ] {
        assert!(head.lines().any(|l| l == line), "no `{line}` in {head}");
    }
    assert!(!head.contains("serial-number"));
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["application"]["version"], "2.4.2");
    assert_eq!(body["board"]["type"], "bread-compact-wifi");
    assert!(body["minimum_free_heap_size"].is_string());
}

#[tokio::test]
async fn a_response_other_than_200_with_json_is_retried() {
    let answers =
        [(500, String::new()), (307, String::new()), (200, "<html>".into()), (200, ready())];
    let server = Scripted::answering(&answers).await;
    assert!(boot(&server.url, &identity()).await.unwrap().websocket.is_some());
    assert_eq!(server.requests().len(), 4);
    let server = Scripted::answering(&answers[..1]).await;
    let hasty = Identity { retry_failures: false, ..identity() };
    let told = boot(&server.url, &hasty).await.unwrap_err();
    assert!(matches!(told, BootError::Status { status: 500, .. }), "{told}");
    let told = boot("http://127.0.0.1:1/ota/", &hasty).await.unwrap_err();
    assert!(matches!(told, BootError::Unreachable { .. }), "{told}");
    let told = boot("http://x", &hasty).await.unwrap_err();
    assert!(matches!(told, BootError::Address { .. }), "{told}");
}

#[tokio::test]
async fn activation_is_repeated_until_done_and_ota_requested_again() {
    let answers = [
        (200, unbound()),
        (202, String::new()),
        (500, String::new()),
        (200, "{}".into()),
        (200, ready()),
    ];
    let server = Scripted::answering(&answers).await;
    let serial = Serial { number: "S".repeat(32), key: b"key".to_vec() };
    let identity = Identity { serial: Some(serial), ..identity() };
    let booted = boot(&server.url, &identity).await.unwrap();
    assert_eq!(booted.codes, ["123456"]);
    let requests = server.requests();
    assert!(requests[0].to_lowercase().contains("activation-version: 2"));
    for request in &requests[1..4] {
        assert!(request.starts_with("POST /xiaozhi/ota/activate HTTP/1.1"), "{request}");
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body["algorithm"], "hmac-sha256");
        assert_eq!(body["challenge"], "c");
        // From `printf c | openssl dgst -sha256 -hmac key`.
        assert_eq!(body["hmac"], HMAC_OF_C);
    }
}

const HMAC_OF_C: &str = "3ce40a0edc208379991d07674df03ea00875cb3810336bc550a7f37741591d0a";

#[tokio::test]
async fn without_a_serial_number_the_activation_body_is_empty() {
    let answers = [
        (200, unbound()),
        (200, "{}".into()),
        (200, unbound()),
        (200, "{}".into()),
        (200, unbound()),
    ];
    let server = Scripted::answering(&answers).await;
    let told = boot(&server.url, &identity()).await.unwrap_err();
    assert!(matches!(&told, BootError::NotActivated { code, .. } if code == "123456"), "{told}");
    assert!(server.requests()[1].ends_with("\r\n\r\n{}"));
}

#[tokio::test]
async fn updates_are_installed_if_newer_or_forced() {
    for (version, force, taken) in
        [("2.4.3", 0, true), ("2.4.2", 0, false), ("1.0", 0, false), ("1.0", 1, true)]
    {
        let firmware = json!({"version": version, "url": "http://h/x.bin", "force": force});
        let answer = json!({"firmware": firmware, "mqtt": {}}).to_string();
        let server = Scripted::answering(&[(200, answer)]).await;
        let booted = boot(&server.url, &identity()).await.unwrap();
        assert_eq!(booted.update.is_some(), taken, "{version} {force}");
        assert!(booted.mqtt && booted.websocket.is_none());
    }
    let answer = json!({"firmware": {"version": "v2", "url": ""}}).to_string();
    let server = Scripted::answering(&[(200, answer)]).await;
    let told = boot(&server.url, &identity()).await.unwrap_err();
    assert!(matches!(told, BootError::Version { .. }), "{told}");
}

#[test]
fn versions_compare_number_by_number() {
    for (current, offered, newer) in [
        ("1.9.9", "1.10.0", true),
        ("2.0", "2.0.0", true),
        ("2.0.0", "2.0", false),
        ("2.4.2", "2.4.2", false),
        ("2.4.2", "2.4.3-beta", true),
        ("2.4.2", "", false),
    ] {
        assert_eq!(is_newer(current, offered).unwrap(), newer, "{current} -> {offered}");
    }
    for broken in ["v2.4.3", "2..4", "2.x", "99999999999"] {
        assert!(is_newer("2.4.2", broken).is_err(), "{broken}");
    }
}

#[tokio::test]
async fn pictures_are_sent_in_chunks_with_the_question_first() {
    let server = Scripted::answering(&[(200, "a cat".into()), (403, String::new())]).await;
    let upload = Upload {
        url: server.url.clone(),
        token: Some("secret".into()),
        question: "what is it?".into(),
    };
    let send = |upload| crate::upload::upload(upload, "02:00:00:00:00:01", "c");
    assert_eq!(send(upload.clone()).await.unwrap(), "a cat");
    let request = server.requests().remove(0);
    let head = request.split_once("\r\n\r\n").unwrap().0.to_lowercase();
    for line in [
        "transfer-encoding: chunked",
        "authorization: bearer secret",
        "device-id: 02:00:00:00:00:01",
        "content-type: multipart/form-data; boundary=----esp32_camera_boundary",
    ] {
        assert!(head.lines().any(|l| l == line), "no `{line}` in {head}");
    }
    let question = request.find("what is it?").unwrap();
    assert!(question < request.find("filename=\"camera.jpg\"").unwrap());
    assert_eq!(send(upload).await.unwrap_err(), "Failed to upload photo");
}

proptest! {
    #[test]
    fn comparing_versions_never_panics(current in ".{0,20}", offered in "[0-9.]{0,20}") {
        let compared = is_newer(&current, &offered);
        prop_assert!(compared.is_ok() || compared.is_err());
        prop_assert!(!is_newer("1.2.3", "1.2.3").unwrap());
    }
}
