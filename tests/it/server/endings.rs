//! Shutdown of the server: devices are notified, and no wait exceeds its limit.

use std::time::Duration;

use futures_util::SinkExt as _;
use hearken_proto::device::ListenMode;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::person::Person;
use super::voices::{SPEECH, voice};
use super::{HELLO, close_code, json_of, next, socket};
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};

/// Sound that lasts longer than the test.
fn long(sentence: &str) -> Vec<i16> {
    voice(150, if sentence == REPLY[0] { 10_000 } else { 200 }, 24_000)
}

#[tokio::test]
async fn shutdown_stops_a_reply_and_closes_with_1001() {
    let asr = ListenAiAsr::start(Behaviour::Normal, HEARD).await;
    let vendors = Vendors::with(asr, ListenAiTts::sounding(long).await).await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut socket = socket(&server).await;
    let question = r#"{"type":"listen","state":"detect","text":"tell me a story"}"#;
    for text in [HELLO, question] {
        socket.send(Message::text(text)).await.unwrap();
    }
    let start = json_of(&mut socket, "tts").await;
    assert_eq!(start["state"], "start");
    while !matches!(next(&mut socket).await, Some(Message::Binary(_))) {}
    server.cancel();
    let stop = loop {
        let message = json_of(&mut socket, "tts").await;
        if message["state"] != "sentence_start" {
            break message;
        }
    };
    assert_eq!(stop["state"], json!("stop"));
    assert_eq!(close_code(&mut socket).await, Some(1001));
    assert!(server.stop().await < Duration::from_secs(4), "no client delays the shutdown");
    vendors.tts.until(|seen| seen.closed == seen.connections).await;
}

#[tokio::test]
async fn unresponsive_peers_do_not_delay_shutdown() {
    let asr = ListenAiAsr::start(Behaviour::Normal, HEARD).await;
    let vendors = Vendors::with(asr, ListenAiTts::sounding(long).await).await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mute = TcpStream::connect(server.address).await.unwrap();
    let idle = reqwest::Client::new();
    assert_eq!(idle.get(server.http_url("/healthz")).send().await.unwrap().status(), 200);
    let mut deaf = socket(&server).await;
    deaf.send(Message::text(HELLO)).await.unwrap();
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    person.say(&SPEECH[..8]).await;
    server.stop().await;
    drop((mute, deaf, idle));
}

#[tokio::test]
async fn the_error_for_an_occupied_port_names_the_remedy() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut config = vendors.config();
    config.server.port = server.address.port();
    let failure = tokio::task::spawn_blocking(move || {
        actix_web::rt::System::new().block_on(async {
            let process = tokio_util::sync::CancellationToken::new();
            hearken::app::start(&config, Vec::new(), process).err().map(|e| e.to_string())
        })
    });
    let told = failure.await.unwrap().expect("the port is taken");
    assert!(told.contains(&server.address.to_string()) && told.contains("CLOUD_PORT"), "{told}");
}
