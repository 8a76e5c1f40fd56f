//! The vision endpoint as firmware uses it: chunked multipart, a separate token, no bypass. Also
//! pictures in tool results, which the same model describes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hearken::config::Config;
use hearken_base::Secret;
use hearken_test_support::eventually;
use hearken_tool_sources::VisionTokens;
use hearken_virtual_device::toolbox::{Quirks, Toolbox};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::devices::{asked_for_less, patient, results};
use super::{SECRET, known};
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

const DEVICE: &str = "02:00:00:00:00:01";

/// A model that sees a cat in every picture, once its gate is open; records its requests.
struct Model {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    gate: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Model {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let keeps = Arc::clone(&asked);
        let gate = watch::Sender::new(true);
        let opened = gate.subscribe();
        let task = tokio::spawn(async move {
            let mut visits = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                visits.spawn(see(stream, Arc::clone(&keeps), opened.clone()));
            }
        });
        Self { url, asked, gate, task }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn see(
    mut stream: TcpStream,
    asked: Arc<Mutex<Vec<Value>>>,
    mut gate: watch::Receiver<bool>,
) {
    let (head, body) = read(&mut stream).await;
    assert!(head.starts_with("POST /v1/chat/completions"), "{head}");
    asked.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    gate.wait_for(|open| *open).await.unwrap();
    let words = json!({"choices": [{"message": {"content": " a cat \n"}}]}).to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{words}",
        words.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the head and the body of a message with a content length.
async fn read(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.to_ascii_lowercase();
    let length =
        length.split("content-length: ").nth(1).and_then(|l| l.lines().next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.unwrap();
    (head, body)
}

fn tokens() -> VisionTokens {
    VisionTokens::new(&Secret::new(SECRET))
}

/// Sends a picture in chunks, as `esp32_camera.cc` does; returns status and body.
async fn explain(server: &TestServer, token: &str, picture: &[u8]) -> (u16, Value) {
    explain_to(server.address, &format!("Authorization: Bearer {token}"), picture).await
}

/// The same with these additional headers.
async fn explain_to(server: SocketAddr, headers: &str, picture: &[u8]) -> (u16, Value) {
    let boundary = "----ESP32_CAMERA_BOUNDARY";
    let mut stream = TcpStream::connect(server).await.unwrap();
    let head = format!(
        "POST /vision/explain HTTP/1.1\r\nHost: {server}\r\nDevice-Id: {DEVICE}\r\n\
         Client-Id: 00000000-0000-4000-8000-000000000001\r\n{headers}\r\n\
         Content-Type: multipart/form-data; boundary={boundary}\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    let question = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"question\"\r\n\r\n这是什么\r\n"
    );
    let file = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"camera.jpg\"\r\n\
         Content-Type: image/jpeg\r\n\r\n"
    );
    let end = format!("\r\n--{boundary}--\r\n");
    let mut pieces = vec![question.as_bytes(), file.as_bytes()];
    pieces.extend(picture.chunks(64 << 10));
    pieces.push(end.as_bytes());
    stream.write_all(head.as_bytes()).await.unwrap();
    for piece in pieces {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        // After an early refusal the rest cannot be written.
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    stream.write_all(b"0\r\n\r\n").await.ok();
    let (head, body) = read(&mut stream).await;
    (head["HTTP/1.1 ".len()..][..3].parse().unwrap(), serde_json::from_slice(&body).unwrap())
}

fn seeing(model: &Model) -> impl FnOnce(&mut Config) {
    let url = model.url.clone();
    move |config| {
        known(config);
        config.vision.base_url = url;
        config.vision.model = "sees".into();
    }
}

#[tokio::test]
async fn check_22_a_chunked_picture_is_described_if_the_token_is_valid() {
    let vendors = Vendors::start().await;
    let model = Model::start().await;
    let server = TestServer::start(&vendors, seeing(&model)).await;
    let token = tokens().mint(DEVICE);
    let answer = explain(&server, &token, b"\xff\xd8picture\xff\xd9").await;
    assert_eq!(answer, (200, json!({"success": true, "response": "a cat"})));
    let asked = model.asked.lock().unwrap().remove(0);
    assert_eq!(asked["model"], "sees");
    let content = &asked["messages"][0]["content"];
    assert_eq!(content[0], json!({"type": "text", "text": "这是什么"}));
    let picture = "data:image/jpeg;base64,/9hwaWN0dXJl/9k=";
    assert_eq!(content[1], json!({"type": "image_url", "image_url": {"url": picture}}));

    let others = tokens().mint("02:00:00:00:00:02");
    let forged = VisionTokens::new(&Secret::new("another secret")).mint(DEVICE);
    for wrong in ["", "x", "test", &others, &forged] {
        let (status, told) = explain(&server, wrong, b"\xff\xd8").await;
        assert_eq!((status, &told["error"]["code"]), (401, &json!("UNAUTHORIZED")), "{wrong}");
    }
    assert!(model.asked.lock().unwrap().is_empty(), "no picture reached the model");
    server.stop().await;
}

#[tokio::test]
async fn invalid_and_too_large_pictures_are_refused() {
    let vendors = Vendors::start().await;
    let model = Model::start().await;
    let server = TestServer::start(&vendors, seeing(&model)).await;
    let token = tokens().mint(DEVICE);
    let (status, told) = explain(&server, &token, b"").await;
    assert_eq!(status, 400, "{told}");
    let (status, told) = explain(&server, &token, &vec![0; 11 << 20]).await;
    assert_eq!(status, 413, "{told}");
    let url = server.http_url("/vision/explain");
    let plain = reqwest::Client::new().post(url).header("Device-Id", DEVICE).bearer_auth(&token);
    assert_eq!(plain.body("picture").send().await.unwrap().status(), 400);
    server.stop().await;
}

/// Up to eight pictures are described concurrently, four of them for one address.
#[tokio::test]
async fn concurrent_pictures_are_limited_in_total_and_per_address() {
    let vendors = Vendors::start().await;
    let model = Model::start().await;
    let see = seeing(&model);
    let server = TestServer::start(&vendors, |config| {
        see(config);
        // Each client has its own address.
        config.ota.trust_proxy = true;
    })
    .await;
    let token = tokens().mint(DEVICE);
    let address = server.address;
    let show = |from: &str| {
        let headers = format!("Authorization: Bearer {token}\r\nX-Forwarded-For: {from}");
        async move { explain_to(address, &headers, b"\xff\xd8").await }
    };
    let refused = async |from: &str, says: &str| {
        let (status, told) = show(from).await;
        let error = &told["error"];
        assert_eq!((status, &error["code"]), (503, &json!("BUSY")), "{from}: {told}");
        assert!(error["message"].as_str().unwrap().ends_with(says), "{from}: {told}");
    };
    model.gate.send_replace(false);
    let mut described = JoinSet::new();
    for (seen, from) in [(4, "203.0.113.1"), (8, "203.0.113.2")] {
        for _ in 0..4 {
            described.spawn(show(from));
        }
        eventually("the model has them", async || (model.asked() == seen).then_some(())).await;
        refused(from, "too many are in use by this address").await;
    }
    refused("203.0.113.3", "too many are in use").await;
    assert_eq!(model.asked(), 8);
    model.gate.send_replace(true);
    let cat = (200, json!({"success": true, "response": "a cat"}));
    while let Some(answer) = described.join_next().await {
        assert_eq!(answer.unwrap(), cat);
    }
    for from in ["203.0.113.1", "203.0.113.3"] {
        assert_eq!(show(from).await, cat, "{from}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_picture_counts_and_none_is_described_beyond_a_daily_limit() {
    let vendors = Vendors::start().await;
    let model = Model::start().await;
    let see = seeing(&model);
    let server = TestServer::start(&vendors, |config| {
        see(config);
        config.usage.device_tokens = 1_000;
    })
    .await;
    let token = tokens().mint(DEVICE);
    let cat = (200, json!({"success": true, "response": "a cat"}));
    assert_eq!(explain(&server, &token, b"\xff\xd8").await, cat);
    let why = "today's limit is reached: nothing is left today of the tokens for this device";
    let refused = (200, json!({"success": false, "message": why}));
    assert_eq!(explain(&server, &token, b"\xff\xd8").await, refused);
    assert_eq!(model.asked(), 1);
    server.stop().await;
}

#[tokio::test]
async fn without_a_vision_model_the_answer_gives_the_reason() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, known).await;
    let (status, told) = explain(&server, &tokens().mint(DEVICE), b"\xff\xd8").await;
    assert_eq!((status, &told["success"]), (200, &json!(false)));
    assert!(told["message"].as_str().unwrap().contains("no vision model is configured"), "{told}");
    server.stop().await;
    let gone = |config: &mut Config| {
        known(config);
        config.vision.base_url = "http://127.0.0.1:1/v1".into();
    };
    let server = TestServer::start(&vendors, gone).await;
    let (status, told) = explain(&server, &tokens().mint(DEVICE), b"\xff\xd8").await;
    assert_eq!((status, &told["message"]), (200, &json!("the vision model failed")));
    server.stop().await;
}

/// A device answers a call with a picture; returns the result that the language model received.
async fn told_of_a_picture(tweak: impl FnOnce(&mut Config)) -> String {
    let vendors = asked_for_less().await;
    let server = TestServer::start(&vendors, |config| {
        patient(config);
        tweak(config);
    })
    .await;
    let quirks = Quirks { picture_results: true, ..Quirks::default() };
    let tools = Toolbox { quirks, ..Toolbox::default() };
    let mut person = Person::meet_with_tools(&server.device_url(), tools).await;
    person.until_sent(r#""result":{"tools":["#).await;
    person.say(&SPEECH).await;
    assert!(!person.answer().await.sentences.is_empty());
    drop(person);
    server.stop().await;
    results(&vendors).remove(0)
}

#[tokio::test]
async fn a_picture_in_a_tool_result_is_described_for_the_language_model() {
    let model = Model::start().await;
    let told = told_of_a_picture(seeing(&model)).await;
    assert!(told.starts_with("[a picture, image/"), "{told}");
    assert!(told.ends_with(", described by a model that sees: a cat]"), "{told}");
    let asked = model.asked.lock().unwrap().remove(0);
    let question = asked["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(question.contains("who has asked: call self_audio_speaker_set_volume"), "{question}");
    let url = asked["messages"][0]["content"][1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/"), "{url}");

    let told = told_of_a_picture(|config| {
        config.vision.base_url = "http://127.0.0.1:1/v1".into();
    })
    .await;
    let why = ", which you cannot see: the vision model failed: unavailable]";
    assert!(told.starts_with("[a picture, image/") && told.ends_with(why), "{told}");
}
