//! The recogniser's contract, and the particularities of each protocol.

use std::time::Instant;

use hearken_ports::{ProviderError, ProviderErrorKind, UtteranceSpec};
use hearken_proto::speech::asr::AudioFormat;
use hearken_providers::{AsrSettings, FunAsrMode};
use hearken_test_support::vendors::{
    Behaviour, FunAsr, ListenAiAsr, OpenAiTranscriptions, Stub, nowhere,
};

use super::{DEAD, check_failure, failures};

/// Half a second of something that is not silence, in the pieces that devices send.
const PIECES: usize = 8;
const PIECE: [i16; 960] = [1_000; 960];

fn settings(url: String) -> AsrSettings {
    AsrSettings {
        url,
        connect_timeout_ms: 1_000,
        send_timeout_ms: 1_000,
        result_timeout_ms: 1_500,
        retry_within_ms: 0,
        ..AsrSettings::default()
    }
}

async fn hear(settings: &AsrSettings) -> Result<String, ProviderError> {
    let asr = hearken_providers::asr(settings).expect("the settings are right");
    let mut utterance = asr.open(UtteranceSpec::default()).await?;
    for _ in 0..PIECES {
        utterance.push(&PIECE).await?;
    }
    Ok(utterance.finish().await?.text)
}

async fn check_transcript(stub: Stub, settings: AsrSettings) {
    assert_eq!(hear(&settings).await.unwrap(), "你好 hello");
    assert!(stub.seen().audio_bytes > 0, "{:?}", stub.seen());
    stub.set(Behaviour::Slow);
    assert_eq!(hear(&settings).await.unwrap(), "你好 hello");
    stub.set(Behaviour::Empty);
    assert_eq!(hear(&settings).await.unwrap(), "");
}

async fn check_failures(stub: Stub, settings: AsrSettings) {
    for (behaviour, kind, retry_after_s) in failures() {
        stub.set(behaviour);
        let began = Instant::now();
        check_failure(began, hear(&settings).await, behaviour, kind, retry_after_s);
    }
}

async fn check_drop(stub: Stub, settings: AsrSettings) {
    let hearing = hear(&settings);
    tokio::select! {
        heard = hearing => panic!("a silent vendor returned {heard:?}"),
        _ = stub.until(|seen| seen.audio_messages > 0) => {}
    }
    stub.until(|seen| seen.closed == 1).await;
}

async fn check_nowhere(mut settings: AsrSettings) {
    let scheme = settings.url.split(':').next().unwrap().to_owned();
    settings.url = nowhere(&scheme);
    settings.more_urls.fill(settings.url.clone());
    let kind = ProviderErrorKind::Unavailable;
    check_failure(Instant::now(), hear(&settings).await, Behaviour::Refuse, kind, None);
}

macro_rules! contract {
    ($name:ident, $stub:ident, $tweak:expr) => {
        mod $name {
            use super::*;

            async fn stub(behaviour: Behaviour) -> (Stub, AsrSettings) {
                let stub = $stub::start(behaviour, " 你好 hello ").await;
                let mut settings = settings(stub.url());
                let tweak: fn(&mut AsrSettings) = $tweak;
                tweak(&mut settings);
                (stub, settings)
            }

            #[tokio::test]
            async fn a_transcript_arrives() {
                let (stub, settings) = stub(Behaviour::Normal).await;
                check_transcript(stub, settings).await;
            }

            #[tokio::test]
            async fn each_failure_has_its_kind() {
                let (stub, settings) = stub(Behaviour::Normal).await;
                check_nowhere(settings.clone()).await;
                check_failures(stub, settings).await;
            }

            #[tokio::test]
            async fn a_dropped_utterance_is_abandoned() {
                let (stub, settings) = stub(Behaviour::Silent).await;
                check_drop(stub, AsrSettings { result_timeout_ms: 60_000, ..settings }).await;
            }
        }
    };
}

contract!(listenai_pcm, ListenAiAsr, |_| {});
contract!(listenai_opus, ListenAiAsr, |settings| settings.audio = AudioFormat::Opus);
contract!(funasr_offline, FunAsr, |_| {});
contract!(funasr_two_pass, FunAsr, |settings| {
    settings.funasr_mode = FunAsrMode::TwoPass;
    settings.result_timeout_ms = 1_200;
});
contract!(openai, OpenAiTranscriptions, |_| {});
contract!(listenai_behind_a_dead_one, ListenAiAsr, behind_a_dead_one);
contract!(funasr_behind_a_dead_one, FunAsr, behind_a_dead_one);
contract!(openai_behind_a_dead_one, OpenAiTranscriptions, behind_a_dead_one);
contract!(openai_twice, OpenAiTranscriptions, |settings| {
    settings.more_urls = vec![settings.url.clone()];
    settings.result_timeout_ms = 1_200;
});

fn behind_a_dead_one(settings: &mut AsrSettings) {
    settings.more_urls = vec![std::mem::replace(&mut settings.url, DEAD.into())];
}

#[tokio::test]
async fn listenai_gets_the_batch_according_to_its_protocol() {
    let stub = ListenAiAsr::start(Behaviour::Normal, "x").await;
    hear(&AsrSettings { language: "zh-CN".into(), ..settings(stub.url()) }).await.unwrap();
    let seen = stub.seen();
    assert_eq!(
        seen.texts,
        [
            r#"{"command":"batch_start","sample_rate":16000,"language":"中文"}"#,
            r#"{"command":"batch_end"}"#
        ]
    );
    assert_eq!((seen.audio_messages, seen.audio_bytes), (PIECES, PIECES * PIECE.len() * 2));
}

#[tokio::test]
async fn listenai_gets_opus_in_packets_of_20_ms_and_the_last_padded() {
    let stub = ListenAiAsr::start(Behaviour::Normal, "x").await;
    let settings = AsrSettings { audio: AudioFormat::Opus, ..settings(stub.url()) };
    let asr = hearken_providers::asr(&settings).unwrap();
    let mut utterance = asr.open(UtteranceSpec { language: Some("en".into()) }).await.unwrap();
    for length in [100, 900, 1] {
        utterance.push(&PIECE[..length]).await.unwrap();
    }
    utterance.finish().await.unwrap();
    let seen = stub.seen();
    assert_eq!(seen.texts[0], r#"{"command":"set_audio_format","format":"opus"}"#);
    assert_eq!(seen.audio_messages, 4, "1001 samples are three full packets and a padded one");
}

#[tokio::test]
async fn silence_is_an_empty_transcript() {
    let stub = ListenAiAsr::start(Behaviour::Normal, "x").await;
    let http = OpenAiTranscriptions::start(Behaviour::Normal, "x").await;
    for stub in [&stub, &http] {
        let asr = hearken_providers::asr(&settings(stub.url())).unwrap();
        let utterance = asr.open(UtteranceSpec::default()).await.unwrap();
        assert_eq!(utterance.finish().await.unwrap().text, "");
    }
    assert_eq!(http.seen().connections, 0, "no request is sent for silence");
}

#[tokio::test]
async fn funasr_segments_are_joined() {
    let stub = FunAsr::start(Behaviour::Normal, "你好，\n今天\n").await;
    let mode = FunAsrMode::TwoPass;
    let patient = AsrSettings { result_timeout_ms: 5_000, ..settings(stub.url()) };
    let heard = hear(&AsrSettings { funasr_mode: mode, ..patient }).await;
    assert_eq!(heard.unwrap(), "你好，今天");
    let config: serde_json::Value = serde_json::from_str(&stub.seen().texts[0]).unwrap();
    assert_eq!(config["mode"], "2pass");
    assert_eq!(config["chunk_size"], serde_json::json!([5, 10, 5]));
}

#[tokio::test]
async fn an_http_upload_is_retried_and_never_longer_than_allowed() {
    let stub = OpenAiTranscriptions::start(Behaviour::HttpStatus(503, None), "x").await;
    let settings = AsrSettings { retry_within_ms: 5_000, ..settings(stub.url()) };
    let (heard, ()) = tokio::join!(hear(&settings), async {
        stub.until(|seen| seen.requests == 1).await;
        stub.set(Behaviour::Normal);
    });
    assert_eq!(heard.unwrap(), "x");
    assert_eq!(stub.seen().requests, 2);
    assert_eq!(stub.seen().audio_messages, 2);
    let short = AsrSettings { max_utterance_ms: 100, ..settings };
    assert_eq!(hear(&short).await.unwrap_err().kind, ProviderErrorKind::BadRequest);
}

#[tokio::test]
async fn a_key_is_sent_as_a_bearer_token() {
    let stub = OpenAiTranscriptions::start(Behaviour::Normal, "x").await;
    let key = hearken_base::Secret::new("sk-1");
    hear(&AsrSettings { api_key: key, ..settings(stub.url()) }).await.unwrap();
    assert!(stub.seen().texts[0].contains("authorization: Bearer sk-1"), "{:?}", stub.seen());
}

#[tokio::test]
async fn audio_is_sent_while_the_user_still_speaks() {
    let stub = ListenAiAsr::start(Behaviour::Normal, "x").await;
    let asr = hearken_providers::asr(&settings(stub.url())).unwrap();
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    utterance.push(&PIECE).await.unwrap();
    stub.until(|seen| seen.audio_bytes == PIECE.len() * 2).await;
    assert_eq!(utterance.finish().await.unwrap().text, "x");
}

/// Maximum size of a transcript, if its characters have three bytes each.
const MAX_TRANSCRIPT_BYTES: usize = 3 * 4_000;

/// Returns this many characters of three bytes each, without equal neighbours, because repeated
/// text is collapsed.
fn words(chars: usize) -> String {
    ('\u{4e00}'..'\u{9fa0}').cycle().take(chars).collect()
}

/// Returns the transcript of this many characters of three bytes each, from every provider.
async fn hear_long(chars: usize) -> Vec<Result<String, ProviderError>> {
    let words = words(chars);
    let patient = |url| AsrSettings { result_timeout_ms: 60_000, ..settings(url) };
    let two_pass = FunAsrMode::TwoPass;
    let stubs = [
        ListenAiAsr::start(Behaviour::Normal, &words).await,
        FunAsr::start(Behaviour::Normal, &words).await,
        OpenAiTranscriptions::start(Behaviour::Normal, &words).await,
    ];
    let of = stubs.each_ref().map(|stub| patient(stub.url()));
    let segments = AsrSettings { funasr_mode: two_pass, ..of[1].clone() };
    let mut heard = Vec::new();
    for settings in of.iter().chain([&segments]) {
        heard.push(hear(settings).await);
    }
    heard
}

#[tokio::test]
async fn a_transcript_of_megabytes_is_truncated_and_a_larger_answer_is_refused() {
    let cut = |heard: &String| {
        assert_eq!((heard.len(), heard.chars().count()), (MAX_TRANSCRIPT_BYTES, 4_000));
        assert!(heard.capacity() <= 2 * MAX_TRANSCRIPT_BYTES, "{}", heard.capacity());
    };
    let refused = |error: &ProviderError| assert_eq!(error.kind, ProviderErrorKind::Protocol);
    // Below each limit, between those of HTTP and WebSockets, and above both.
    let all = hear_long(300_000).await;
    all.iter().for_each(|heard| cut(heard.as_ref().unwrap()));
    let [listenai, funasr, openai, segments] = &hear_long(2 << 20).await[..] else { panic!() };
    for heard in [listenai, funasr, segments] {
        cut(heard.as_ref().unwrap());
    }
    refused(openai.as_ref().unwrap_err());
    let [listenai, funasr, openai, segments] = &hear_long(3 << 20).await[..] else { panic!() };
    for heard in [listenai, funasr, openai] {
        refused(heard.as_ref().unwrap_err());
    }
    // Words recognised before count, however the connection ends.
    assert_eq!(segments.as_deref().ok(), Some("par"));
}

#[tokio::test]
async fn thousands_of_segments_are_truncated_too() {
    let words = format!("{}\n", words(100)).repeat(2_000);
    let stub = FunAsr::start(Behaviour::Normal, &words).await;
    let patient = AsrSettings { result_timeout_ms: 60_000, ..settings(stub.url()) };
    let heard = hear(&AsrSettings { funasr_mode: FunAsrMode::TwoPass, ..patient }).await;
    assert_eq!(heard.unwrap().len(), MAX_TRANSCRIPT_BYTES);
}
