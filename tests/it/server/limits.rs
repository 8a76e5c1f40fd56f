//! Limits of a connection, and the resources that it releases at its end.

use std::time::{Duration, Instant};

use futures_util::SinkExt as _;
use hearken_proto::device::ListenMode;
use hearken_test_support::eventually;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use serde_json::Value;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::person::Person;
use super::turns::good_answer;
use super::voices::SPEECH;
use super::{HELLO, Socket, close_code, json_of, socket};
use crate::support::app::{HEARD, PHRASES, REPLY, SORRY, TestServer, Vendors};

/// A socket, or the refusal of the server: status, `Retry-After` and code.
async fn try_socket(server: &TestServer) -> Result<Socket, (u16, String, String)> {
    match connect_async(server.device_url()).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(refusal)) => {
            let body = refusal.body().as_deref().unwrap_or_default();
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            let wait = refusal.headers().get("retry-after").map(|v| v.to_str().unwrap().to_owned());
            let code = body["error"]["code"].as_str().unwrap_or_default().to_owned();
            Err((refusal.status().as_u16(), wait.unwrap_or_default(), code))
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_full_server_sends_retry_after_and_accepts_again_after_a_disconnect() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| config.server.max_connections = 2).await;
    let first = socket(&server).await;
    let mut second = socket(&server).await;
    let (status, wait, code) = try_socket(&server).await.expect_err("the server is full");
    assert_eq!((status, code.as_str()), (503, "BUSY"));
    assert!(wait.parse::<u64>().unwrap() > 0, "{wait}");
    // Existing connections are unaffected.
    second.send(Message::text(HELLO)).await.unwrap();
    json_of(&mut second, "hello").await;
    drop(first);
    let third = eventually("a free place", async || try_socket(&server).await.ok()).await;
    assert!(try_socket(&server).await.is_err(), "only one slot became free");
    assert!(server.metric("hearken_connections_refused_total").await > 1.5);
    drop((second, third));
    server.stop().await;
}

#[tokio::test]
async fn check_23_a_message_beyond_64_kib_closes_the_connection_with_1009() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    for message in [Message::binary(vec![0; 65_537]), Message::text("x".repeat(65_537))] {
        let mut socket = socket(&server).await;
        socket.send(Message::binary(vec![0; 65_536])).await.unwrap();
        socket.send(Message::text(HELLO)).await.unwrap();
        json_of(&mut socket, "hello").await;
        socket.send(message).await.unwrap();
        assert_eq!(close_code(&mut socket).await, Some(1009));
    }
}

#[tokio::test]
async fn a_connection_that_never_says_hello_is_closed_with_1008() {
    let vendors = Vendors::start().await;
    let server =
        TestServer::start(&vendors, |config| config.device.hello_timeout = Duration::from_secs(1))
            .await;
    let mut greeted = socket(&server).await;
    greeted.send(Message::text(HELLO)).await.unwrap();
    let mut mute = socket(&server).await;
    let begun = Instant::now();
    assert_eq!(close_code(&mut mute).await, Some(1008));
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    json_of(&mut greeted, "hello").await;
    greeted.send(Message::text(HELLO)).await.unwrap();
    json_of(&mut greeted, "hello").await;
}

#[tokio::test]
async fn check_18_an_unplugged_device_leaves_no_resources_in_use() {
    const PLACES: usize = 4;
    const CYCLES: usize = 200;
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.server.max_connections = PLACES;
        config.asr.pool.max_idle = 0;
    })
    .await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let probed = vendors.asr.until(|seen| seen.connections == 1).await.connections;
    let wake = r#"{"type":"listen","state":"detect","text":"hey hearken"}"#;
    let listen = r#"{"type":"listen","state":"start","mode":"auto"}"#;
    for cycle in 0..CYCLES {
        let mut socket = eventually("a place", async || try_socket(&server).await.ok()).await;
        if cycle % 4 == 0 {
            continue;
        }
        socket.send(Message::text(HELLO)).await.unwrap();
        json_of(&mut socket, "hello").await;
        match cycle % 4 {
            // While its speech is being recognised.
            1 => {
                let before = vendors.asr.seen().connections;
                socket.send(Message::text(listen)).await.unwrap();
                for packet in &SPEECH[..12] {
                    socket.send(Message::binary(packet.clone())).await.unwrap();
                }
                vendors.asr.until(|seen| seen.connections > before).await;
            }
            // During an answer.
            2 => {
                socket.send(Message::text(wake)).await.unwrap();
                json_of(&mut socket, "tts").await;
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    while all.len() < PLACES {
        all.push(eventually("every place", async || try_socket(&server).await.ok()).await);
    }
    drop(all);
    // The utterances do not occupy the recogniser either.
    let seen = vendors.asr.until(|seen| seen.closed == seen.connections).await;
    assert_eq!(seen.connections - probed, CYCLES / 4);
    let mut person = eventually("a place", async || {
        Person::try_meet(&server.device_url(), 1, ListenMode::Auto).await.ok()
    })
    .await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer());
    drop(person);
    server.stop().await;
}

#[tokio::test]
async fn packets_in_both_directions_are_counted() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut person = Person::meet(&server.device_url(), 3, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer());
    assert!((server.metric("hearken_connections").await - 1.0).abs() < 0.5);
    assert!(server.metric(r#"hearken_uplink_packets_total{outcome="heard"}"#).await > 10.0);
    assert!(server.metric("hearken_downlink_packets_total").await > 1.0);
    assert!(server.metric("hearken_first_audio_seconds_count").await > 0.5);
    server.stop().await;
}

#[tokio::test]
async fn a_device_is_counted_as_listening_only_while_its_microphone_is_open() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut socket = socket(&server).await;
    let stands = async |state: &str| {
        eventually(state, async || {
            let name = format!(r#"hearken_devices{{state="{state}"}}"#);
            (server.metric(&name).await > 0.5).then_some(())
        })
        .await;
    };
    socket.send(Message::text(HELLO)).await.unwrap();
    stands("idle").await;
    let start = r#"{"type":"listen","state":"start","mode":"manual"}"#;
    socket.send(Message::text(start)).await.unwrap();
    stands("listening").await;
    socket.send(Message::text(r#"{"type":"listen","state":"stop"}"#)).await.unwrap();
    stands("idle").await;
    drop(socket);
    server.stop().await;
}

/// The model returns a story of twenty seconds for "a story", if it is slow, and else the usual reply.
fn story_or_reply(asked: &[u8]) -> String {
    if asked == b"a story" { "And so on. ".repeat(80) } else { REPLY.join(" ") }
}

/// The text client occupies the only concurrent call that the configuration allows.
#[tokio::test]
async fn a_device_waits_for_the_only_call_slot_and_apologises() {
    let vendors = Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, HEARD).await,
        OpenAiChat::answering(story_or_reply).await,
        ListenAiTts::start(Behaviour::Normal).await,
    );
    let server = TestServer::start(&vendors, |config| {
        config.llm.max_calls = 1;
        (config.llm.first_token_timeout_ms, config.llm.retry_within_ms) = (3_000, 0);
    })
    .await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    vendors.llm.set(Behaviour::Slow);
    let (mut client, _) = connect_async(server.gateway_url()).await.unwrap();
    for message in
        [r#"{"type": "configure", "stream": true}"#, r#"{"type": "text_input", "text": "a story"}"#]
    {
        client.send(Message::text(message)).await.unwrap();
    }
    json_of(&mut client, "llm_delta").await;
    vendors.llm.set(Behaviour::Normal);
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await.sentences, [SORRY]);
    assert_eq!(vendors.llm.seen().requests, 1, "the second call was not made");
    client.send(Message::text(r#"{"type": "cancel"}"#)).await.unwrap();
    vendors.llm.until(|seen| seen.closed == 1).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer());
    drop((client, person));
    server.stop().await;
}
