//! The synthesiser's contract, and the particularities of each protocol.

use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt};
use hearken_ports::{Line, Pcm, ProviderError, ProviderErrorKind, Tts};
use hearken_providers::{CallLog, TtsSettings};
use hearken_test_support::vendors::{
    Behaviour, ListenAiTts, OpenAiSpeech, SPEECH_SAMPLES, Stub, nowhere, speech_sample,
};

use super::{DEAD, check_failure, failures};

fn settings(url: String) -> TtsSettings {
    TtsSettings {
        url,
        connect_timeout_ms: 1_000,
        first_audio_timeout_ms: 1_500,
        idle_timeout_ms: 1_000,
        retry_within_ms: 0,
        cache_bytes: 0,
        ..TtsSettings::default()
    }
}

fn line() -> Line {
    Line::new("你好, \"hello\"")
}

async fn hear(settings: &TtsSettings) -> Result<Vec<Pcm>, ProviderError> {
    hearken_providers::tts(settings, &CallLog::new(false))
        .expect("the settings are right")
        .speak(line())
        .try_collect()
        .await
}

/// Checks that all samples of the vendor's sound arrived, in order, at its rate.
fn check_sound(pieces: &[Pcm]) {
    assert!(pieces.len() > 1, "the sound is streamed");
    assert!(pieces.iter().all(|pcm| pcm.sample_rate_hz == 24_000));
    let heard: Vec<i16> = pieces.iter().flat_map(|pcm| pcm.samples.iter().copied()).collect();
    let spoken: Vec<i16> = (0..SPEECH_SAMPLES).map(speech_sample).collect();
    assert!(heard == spoken, "{} samples of {}", heard.len(), spoken.len());
}

async fn check_speech(stub: Stub, settings: TtsSettings) {
    check_sound(&hear(&settings).await.unwrap());
    stub.set(Behaviour::Slow);
    check_sound(&hear(&settings).await.unwrap());
}

async fn check_failures(stub: Stub, settings: TtsSettings) {
    let silence = (Behaviour::Empty, ProviderErrorKind::Protocol, None);
    for (behaviour, kind, retry_after_s) in failures().into_iter().chain([silence]) {
        stub.set(behaviour);
        let began = Instant::now();
        check_failure(began, hear(&settings).await, behaviour, kind, retry_after_s);
    }
    stub.set(Behaviour::Slow);
    let standing = TtsSettings { idle_timeout_ms: 30, ..settings };
    let kind = ProviderErrorKind::Timeout;
    check_failure(Instant::now(), hear(&standing).await, Behaviour::Slow, kind, None);
}

async fn check_drop(stub: Stub, settings: TtsSettings) -> Stub {
    let tts = hearken_providers::tts(&settings, &CallLog::new(false)).unwrap();
    let mut sound = tts.speak(line());
    assert!(sound.next().await.unwrap().is_ok());
    drop(sound);
    stub.until(|seen| seen.closed + seen.cancels == 1).await;
    stub
}

macro_rules! contract {
    ($name:ident, $stub:ident, $tweak:expr) => {
        mod $name {
            use super::*;

            async fn stub(behaviour: Behaviour) -> (Stub, TtsSettings) {
                let stub = $stub::start(behaviour).await;
                let mut settings = settings(stub.url());
                let tweak: fn(&mut TtsSettings) = $tweak;
                tweak(&mut settings);
                (stub, settings)
            }

            #[tokio::test]
            async fn a_sentence_is_heard_whole() {
                let (stub, settings) = stub(Behaviour::Normal).await;
                check_speech(stub, settings).await;
            }

            #[tokio::test]
            async fn each_failure_has_its_kind() {
                let (stub, mut settings) = stub(Behaviour::Normal).await;
                check_failures(stub, settings.clone()).await;
                settings.url = nowhere(settings.url.split(':').next().unwrap());
                settings.more_urls.fill(settings.url.clone());
                let began = Instant::now();
                let kind = ProviderErrorKind::Unavailable;
                check_failure(began, hear(&settings).await, Behaviour::Refuse, kind, None);
            }

            #[tokio::test]
            async fn a_dropped_sentence_is_cancelled() {
                let (stub, settings) = stub(Behaviour::Slow).await;
                check_drop(stub, settings).await;
            }

            #[tokio::test]
            async fn nothing_is_sent_before_it_is_polled() {
                let (stub, settings) = stub(Behaviour::Normal).await;
                drop(
                    hearken_providers::tts(&settings, &CallLog::new(false)).unwrap().speak(line()),
                );
                check_sound(&hear(&settings).await.unwrap());
                assert_eq!((stub.seen().connections, stub.seen().requests), (1, 1));
            }

            #[tokio::test]
            async fn a_failure_before_the_first_audio_is_tried_again() {
                let (stub, settings) = stub(Behaviour::HttpStatus(503, None)).await;
                let settings = TtsSettings { retry_within_ms: 5_000, ..settings };
                let (heard, ()) = tokio::join!(hear(&settings), async {
                    stub.until(|seen| seen.closed == 1).await;
                    stub.set(Behaviour::Normal);
                });
                check_sound(&heard.unwrap());
                assert_eq!(stub.seen().connections, 2);
            }

            #[tokio::test]
            async fn a_failure_after_the_first_audio_is_not() {
                let (stub, settings) = stub(Behaviour::ResetMidStream).await;
                let settings = TtsSettings { retry_within_ms: 5_000, ..settings };
                let began = Instant::now();
                let kind = ProviderErrorKind::Unavailable;
                let outcome = hear(&settings).await;
                check_failure(began, outcome, Behaviour::ResetMidStream, kind, None);
                assert_eq!(stub.seen().requests, 1);
            }
        }
    };
}

contract!(listenai, ListenAiTts, |_| {});
contract!(openai, OpenAiSpeech, |_| {});
contract!(listenai_behind_a_dead_one, ListenAiTts, behind_a_dead_one);
contract!(openai_behind_a_dead_one, OpenAiSpeech, behind_a_dead_one);

fn behind_a_dead_one(settings: &mut TtsSettings) {
    settings.more_urls = vec![std::mem::replace(&mut settings.url, DEAD.into())];
}

#[tokio::test]
async fn warmed_phrases_can_be_spoken_while_the_vendor_is_down() {
    let stub = ListenAiTts::start(Behaviour::Normal).await;
    let tts = hearken_providers::tts(&settings(stub.url()), &CallLog::new(false)).unwrap();
    tts.warm(&[line().text.to_string()]).await.unwrap();
    stub.set(Behaviour::Refuse);
    check_sound(&tts.speak(line()).try_collect::<Vec<_>>().await.unwrap());
    assert_eq!(stub.seen().requests, 1);
}

#[tokio::test]
async fn an_openai_base_is_asked_for_pcm_with_its_voice_and_speed() {
    let stub = OpenAiSpeech::start(Behaviour::Normal).await;
    let settings = TtsSettings { voice: "nova".into(), speed: 1.5, ..settings(stub.url()) };
    hear(&settings).await.unwrap();
    let asked: serde_json::Value = serde_json::from_str(&stub.seen().texts[1]).unwrap();
    let expected = serde_json::json!({
        "model": "tts-1", "input": &*line().text, "voice": "nova", "response_format": "pcm",
        "speed": 1.5,
    });
    assert_eq!(asked, expected);
}
