//! Several services behind one port, over real sockets: a service that was down is found to be up
//! again for each protocol, by a probe and not by a user's request.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use hearken_ports::{Asr, Line, Pcm, Tts, UtteranceSpec};
use hearken_providers::{AsrSettings, CallLog, PoolSettings, TtsSettings};
use hearken_test_support::vendors::{
    Behaviour, FunAsr, ListenAiAsr, ListenAiTts, OpenAiSpeech, OpenAiTranscriptions, Stub,
};

async fn hear(asr: &dyn Asr) -> String {
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    utterance.push(&[1_000; 9_600]).await.unwrap();
    utterance.finish().await.unwrap().text
}

async fn say(tts: &dyn Tts) {
    let line = Line::new("hello");
    let pieces: Vec<Pcm> = tts.speak(line).try_collect().await.unwrap();
    assert!(!pieces.is_empty());
}

/// Settings without idle connections, so that each use needs a new one.
fn pool() -> PoolSettings {
    PoolSettings { max_idle: 0, ..PoolSettings::default() }
}

/// Checks that `first`, which refuses connections, is skipped, and gets requests again after a
/// probe.
async fn comes_back(first: Stub, second: Stub, ask: impl AsyncFn()) {
    first.set(Behaviour::Refuse);
    for count in 1..=3 {
        ask().await;
        assert_eq!((first.seen().connections, second.seen().requests), (1, count));
    }
    first.set(Behaviour::Normal);
    let before = first.seen().connections;
    first.until(|seen| seen.closed > before).await;
    // The connection of a probe counts too; its close is seen after its answer.
    for _ in 0..2 {
        ask().await;
    }
    assert!(first.seen().audio_messages + first.seen().texts.len() > 0, "{:?}", first.seen());
    assert_eq!(second.seen().requests, 4);
}

async fn recogniser_comes_back(first: Stub, second: Stub) {
    let settings = AsrSettings {
        url: first.url(),
        more_urls: vec![second.url()],
        connect_timeout_ms: 2_000,
        result_timeout_ms: 4_000,
        pool: pool(),
        ..AsrSettings::default()
    };
    let asr = hearken_providers::asr(&settings).unwrap();
    comes_back(first, second, async || assert_eq!(hear(&*asr).await, "x")).await;
}

async fn synthesiser_comes_back(first: Stub, second: Stub) {
    let settings = TtsSettings {
        url: first.url(),
        more_urls: vec![second.url()],
        connect_timeout_ms: 2_000,
        first_audio_timeout_ms: 4_000,
        cache_bytes: 0,
        pool: pool(),
        ..TtsSettings::default()
    };
    let tts = hearken_providers::tts(&settings, &CallLog::new(false)).unwrap();
    comes_back(first, second, async || say(&*tts).await).await;
}

#[tokio::test]
async fn a_service_that_was_down_is_probed_and_used_again_for_each_protocol() {
    let normal = Behaviour::Normal;
    tokio::join!(
        async {
            let first = ListenAiAsr::start(normal, "x").await;
            recogniser_comes_back(first, ListenAiAsr::start(normal, "x").await).await;
        },
        async {
            let first = FunAsr::start(normal, "x").await;
            recogniser_comes_back(first, ListenAiAsr::start(normal, "x").await).await;
        },
        async {
            let first = OpenAiTranscriptions::start(normal, "x").await;
            recogniser_comes_back(first, FunAsr::start(normal, "x").await).await;
        },
        async {
            let first = ListenAiTts::start(normal).await;
            synthesiser_comes_back(first, OpenAiSpeech::start(normal).await).await;
        },
        async {
            let first = OpenAiSpeech::start(normal).await;
            synthesiser_comes_back(first, ListenAiTts::start(normal).await).await;
        },
    );
}

#[tokio::test]
async fn a_recogniser_that_disconnects_during_speech_is_replaced() {
    let first = ListenAiAsr::start(Behaviour::ResetMidStream, "x").await;
    let second = FunAsr::start(Behaviour::Normal, "x").await;
    let settings = AsrSettings {
        url: first.url(),
        more_urls: vec![second.url()],
        result_timeout_ms: 4_000,
        ..AsrSettings::default()
    };
    let asr = hearken_providers::asr(&settings).unwrap();
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    for _ in 0..3 {
        utterance.push(&[1_000; 16_000]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(first);
    assert_eq!(utterance.finish().await.unwrap().text, "x");
    assert_eq!(second.seen().audio_bytes, 3 * 16_000 * 2, "all of the audio arrived");
}
