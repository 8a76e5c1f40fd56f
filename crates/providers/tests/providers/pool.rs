//! Pooled connections, seen through the two ListenAI clients: reused, replaced when dead, never
//! reused while an answer is pending.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use hearken_ports::{Asr, Line, Pcm, ProviderErrorKind, Tts, UtteranceSpec};
use hearken_providers::{AsrSettings, CallLog, PoolSettings, TtsSettings};
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, Stub};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn tts(stub: &Stub, pool: PoolSettings) -> Arc<dyn Tts> {
    let settings = TtsSettings {
        url: stub.url(),
        connect_timeout_ms: 1_500,
        first_audio_timeout_ms: 1_500,
        retry_within_ms: 0,
        cache_bytes: 0,
        pool,
        ..TtsSettings::default()
    };
    hearken_providers::tts(&settings, &CallLog::new(false)).unwrap()
}

fn asr(url: String, pool: PoolSettings) -> Arc<dyn Asr> {
    let settings = AsrSettings { url, result_timeout_ms: 2_000, pool, ..AsrSettings::default() };
    hearken_providers::asr(&settings).unwrap()
}

async fn say(tts: &Arc<dyn Tts>, text: &str) {
    let pieces: Vec<Pcm> = tts.speak(Line::new(text)).try_collect().await.unwrap();
    assert!(!pieces.is_empty());
}

async fn hear(asr: &Arc<dyn Asr>) -> String {
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    utterance.push(&[1; 9_600]).await.unwrap();
    utterance.finish().await.unwrap().text
}

#[tokio::test]
async fn sequential_requests_share_one_connection_and_concurrent_ones_use_several() {
    let stub = ListenAiTts::start(Behaviour::Normal).await;
    let tts = tts(&stub, PoolSettings::default());
    for text in ["one", "two", "three"] {
        say(&tts, text).await;
    }
    assert_eq!((stub.seen().connections, stub.seen().requests), (1, 3));
    stub.set(Behaviour::Slow);
    tokio::join!(say(&tts, "four"), say(&tts, "five"), say(&tts, "six"));
    assert_eq!((stub.seen().connections, stub.seen().requests), (3, 6));
}

#[tokio::test]
async fn connections_in_use_and_idle_ones_are_limited() {
    let stub = ListenAiTts::start(Behaviour::Silent).await;
    let pool = PoolSettings { max_connections: 1, max_idle: 0, ..PoolSettings::default() };
    let tts = tts(&stub, pool);
    let mut holding = tts.speak(Line::new("one"));
    tokio::select! {
        piece = holding.next() => panic!("a silent vendor sent {piece:?}"),
        _ = stub.until(|seen| seen.requests == 1) => {}
    }
    let refused = tts.speak(Line::new("two")).next().await.unwrap().unwrap_err();
    assert_eq!(refused.kind, ProviderErrorKind::Unavailable, "{refused}");
    assert!(refused.to_string().contains("pool.max_connections"), "{refused}");
    drop(holding);
    stub.until(|seen| seen.closed == 1).await;
    stub.set(Behaviour::Normal);
    say(&tts, "three").await;
    stub.until(|seen| seen.closed == 2).await;
}

#[tokio::test]
async fn the_connection_of_a_cancelled_sentence_is_reused_after_its_end() {
    let stub = ListenAiTts::start(Behaviour::Slow).await;
    let tts = tts(&stub, PoolSettings { max_connections: 1, ..PoolSettings::default() });
    let mut sound = tts.speak(Line::new("one"));
    assert!(sound.next().await.unwrap().is_ok());
    drop(sound);
    stub.until(|seen| seen.cancels == 1).await;
    stub.set(Behaviour::Normal);
    say(&tts, "two").await;
    assert_eq!((stub.seen().connections, stub.seen().closed), (1, 0));
}

#[tokio::test]
async fn unused_connections_are_closed_after_their_time_and_with_their_pool() {
    let stub = ListenAiTts::start(Behaviour::Normal).await;
    let short = tts(&stub, PoolSettings { idle_for_ms: 30, ..PoolSettings::default() });
    say(&short, "one").await;
    stub.until(|seen| seen.closed == 1).await;
    let dropped = tts(&stub, PoolSettings::default());
    say(&dropped, "two").await;
    drop(dropped);
    stub.until(|seen| seen.closed == 2).await;
}

/// A relay to a stub that can lose its connections, with or without a close.
struct Relay {
    url: String,
    cut: tokio::sync::watch::Sender<Cut>,
}

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Open,
    /// The first connection reads and forwards nothing.
    FirstIsDeaf,
    /// The first connection is lost as soon as another message is sent on it.
    FirstBreaksWhenUsed,
}

impl Relay {
    async fn start(stub: &Stub) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let target = stub.url().trim_start_matches("ws://").to_owned();
        let (cut, seen) = tokio::sync::watch::channel(Cut::Open);
        tokio::spawn(async move {
            let mut first = true;
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&target).await.unwrap();
                tokio::spawn(relay(near, far, seen.clone(), first));
                first = false;
            }
        });
        Self { url, cut }
    }
}

async fn relay(
    mut near: TcpStream,
    mut far: TcpStream,
    cut: tokio::sync::watch::Receiver<Cut>,
    first: bool,
) {
    let mut up = [0; 4_096];
    let mut down = [0; 4_096];
    loop {
        let (length, to_far) = tokio::select! {
            Ok(length) = near.read(&mut up) => (length, true),
            Ok(length) = far.read(&mut down) => (length, false),
            else => return,
        };
        let cut = if first { *cut.borrow() } else { Cut::Open };
        match cut {
            _ if length == 0 => return,
            Cut::FirstIsDeaf => {}
            Cut::FirstBreaksWhenUsed => return,
            Cut::Open if to_far => far.write_all(&up[..length]).await.unwrap(),
            Cut::Open => near.write_all(&down[..length]).await.unwrap(),
        }
    }
}

#[tokio::test]
async fn an_utterance_survives_the_death_of_its_pooled_connection() {
    let stub = ListenAiAsr::start(Behaviour::Normal, "x").await;
    let relay = Relay::start(&stub).await;
    let asr = asr(relay.url.clone(), PoolSettings::default());
    assert_eq!(hear(&asr).await, "x");
    let before = stub.seen().audio_bytes;
    relay.cut.send(Cut::FirstBreaksWhenUsed).unwrap();
    assert_eq!(hear(&asr).await, "x");
    assert_eq!(stub.seen().connections, 2);
    assert_eq!(stub.seen().audio_bytes - before, 9_600 * 2, "all of the audio arrived");
}

#[tokio::test]
async fn a_half_open_connection_is_found_by_its_pings() {
    let stub = ListenAiAsr::start(Behaviour::Normal, "x").await;
    let relay = Relay::start(&stub).await;
    let asr = asr(relay.url.clone(), PoolSettings { ping_every_ms: 40, ..PoolSettings::default() });
    assert_eq!(hear(&asr).await, "x");
    relay.cut.send(Cut::FirstIsDeaf).unwrap();
    stub.until(|seen| seen.closed == 1).await;
    assert_eq!(hear(&asr).await, "x");
    assert_eq!(stub.seen().connections, 2);
}

#[tokio::test]
async fn pings_do_not_close_a_working_connection() {
    let stub = ListenAiAsr::start(Behaviour::Normal, "x").await;
    let asr = asr(stub.url(), PoolSettings { ping_every_ms: 20, ..PoolSettings::default() });
    assert_eq!(hear(&asr).await, "x");
    stub.until(|seen| seen.pings == 4).await;
    assert_eq!(hear(&asr).await, "x");
    assert_eq!(stub.seen().connections, 1);
}
