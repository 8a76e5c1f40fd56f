//! How the server ends: devices are told, and nothing is waited for longer than it may.

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

/// An answer that outlasts its test.
fn long(sentence: &str) -> Vec<i16> {
    voice(150, if sentence == REPLY[0] { 10_000 } else { 200 }, 24_000)
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_of_a_reply_says_so() {
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
    assert!(server.stop().await < Duration::from_secs(4), "nobody had to be waited for");
    vendors.tts.until(|seen| seen.closed == seen.connections).await;
}

#[tokio::test]
async fn peers_that_neither_read_nor_leave_do_not_hold_up_the_end() {
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
async fn an_address_that_is_taken_is_named_with_the_remedy() {
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
