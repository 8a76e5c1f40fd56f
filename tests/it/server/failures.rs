//! Vendors with each kind of failure: an apology, `tts stop`, and the next turn works once the
//! vendor has recovered.

use std::future::Future;

use futures_util::future::join_all;
use hearken::config::Config;
use hearken_proto::device::ListenMode;
use hearken_test_support::vendors::Behaviour::{
    self, Empty, Garbage, HttpStatus, Refuse, ResetMidStream, Silent,
};
use hearken_test_support::vendors::{
    FunAsr, ListenAiAsr, ListenAiTts, OpenAiSpeech, OpenAiTranscriptions, Stub,
};

use super::person::Person;
use super::turns::{PACKETS, good_answer};
use super::voices::SPEECH;
use crate::support::app::{HEARD, PHRASES, REPLY, SORRY, TestServer, Vendors};

/// Failures of every vendor; the effect of an empty answer differs.
const FAILURES: [Behaviour; 5] = [Refuse, ResetMidStream, Silent, Garbage, HttpStatus(500, None)];

/// Short deadlines, no retries, and no cached sentences except the fixed phrases.
fn impatient(config: &mut Config, behaviour: Behaviour) {
    (config.asr.result_timeout_ms, config.asr.retry_within_ms) = (2_000, 0);
    (config.llm.first_token_timeout_ms, config.llm.retry_within_ms) = (2_000, 0);
    (config.tts.first_audio_timeout_ms, config.tts.retry_within_ms) = (2_000, 0);
    config.tts.cache_bytes = 0;
    // These fail at connection setup, so no idle connection may be reused.
    if matches!(behaviour, Refuse | HttpStatus(..)) {
        config.asr.pool.max_idle = 0;
        config.tts.pool.max_idle = 0;
    }
}

async fn with_asr(asr: Stub) -> Vendors {
    Vendors::with(asr, ListenAiTts::start(Behaviour::Normal).await).await
}

async fn with_tts(tts: Stub) -> Vendors {
    Vendors::with(ListenAiAsr::start(Behaviour::Normal, HEARD).await, tts).await
}

/// One normal turn, one with the failing vendor, and one after its recovery.
async fn fails(vendors: Vendors, of: fn(&Vendors) -> &Stub, behaviour: Behaviour, shown: &[&str]) {
    let server = TestServer::start(&vendors, |config| impatient(config, behaviour)).await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer(), "before {behaviour:?}");
    of(&vendors).set(behaviour);
    person.say(&SPEECH).await;
    let answer = person.answer().await;
    assert_eq!(answer.sentences, shown, "{behaviour:?}");
    assert!(answer.played >= PACKETS, "the apology is heard: {behaviour:?}: {answer:?}");
    of(&vendors).set(Behaviour::Normal);
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer(), "after {behaviour:?}");
    drop(person);
    server.stop().await;
}

/// All failures concurrently, each with its own server and vendors.
async fn each_fails<F>(
    failures: impl IntoIterator<Item = Behaviour>,
    start: impl Fn() -> F,
    of: fn(&Vendors) -> &Stub,
    shown: &[&str],
) where
    F: Future<Output = Vendors>,
{
    let all = failures.into_iter().map(|behaviour| (behaviour, start()));
    join_all(all.map(async |(behaviour, vendors)| {
        fails(vendors.await, of, behaviour, shown).await;
    }))
    .await;
}

/// An empty transcript gets neither an answer nor an apology.
async fn hears_nothing(vendors: Vendors, texts: usize) {
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    vendors.asr.set(Empty);
    person.say(&SPEECH).await;
    vendors.asr.until(|seen| seen.texts.len() == texts).await;
    vendors.asr.set(Behaviour::Normal);
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer());
    drop(person);
    server.stop().await;
}

#[tokio::test]
async fn a_listenai_recogniser_that_fails_is_apologised_for() {
    let start = async || with_asr(ListenAiAsr::start(Behaviour::Normal, HEARD).await).await;
    let failing = each_fails(FAILURES, start, |v| &v.asr, &[SORRY]);
    tokio::join!(failing, hears_nothing(start().await, 2));
}

#[tokio::test]
async fn a_funasr_recogniser_that_fails_is_apologised_for() {
    let start = async || with_asr(FunAsr::start(Behaviour::Normal, HEARD).await).await;
    let failing = each_fails(FAILURES, start, |v| &v.asr, &[SORRY]);
    tokio::join!(failing, hears_nothing(start().await, 2));
}

#[tokio::test]
async fn an_openai_recogniser_that_fails_is_apologised_for() {
    let start =
        async || with_asr(OpenAiTranscriptions::start(Behaviour::Normal, HEARD).await).await;
    let failing = each_fails(FAILURES, start, |v| &v.asr, &[SORRY]);
    tokio::join!(failing, hears_nothing(start().await, 1));
}

#[tokio::test]
async fn a_model_that_fails_is_apologised_for() {
    let cases: [(Behaviour, &[&str]); 6] = [
        (Refuse, &[SORRY]),
        (ResetMidStream, &["Good", SORRY]),
        (Silent, &[SORRY]),
        (Garbage, &[SORRY]),
        (Empty, &[SORRY]),
        (HttpStatus(500, None), &[SORRY]),
    ];
    join_all(cases.map(async |(behaviour, shown)| {
        fails(Vendors::start().await, |v| &v.llm, behaviour, shown).await;
    }))
    .await;
}

#[tokio::test]
async fn a_failing_listenai_synthesiser_is_apologised_for_with_a_cached_phrase() {
    let start = async || with_tts(ListenAiTts::start(Behaviour::Normal).await).await;
    let failures = FAILURES.into_iter().chain([Empty]);
    each_fails(failures, start, |v| &v.tts, &[REPLY[0], REPLY[1], SORRY]).await;
}

#[tokio::test]
async fn a_failing_openai_synthesiser_is_apologised_for_with_a_cached_phrase() {
    let start = async || with_tts(OpenAiSpeech::start(Behaviour::Normal).await).await;
    let failures = FAILURES.into_iter().chain([Empty]);
    each_fails(failures, start, |v| &v.tts, &[REPLY[0], REPLY[1], SORRY]).await;
}
