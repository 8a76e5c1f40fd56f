//! Spoken turns in each framing, mode and kind of provider.

use hearken_proto::device::ListenMode;
use hearken_test_support::vendors::{
    Behaviour, FunAsr, ListenAiAsr, ListenAiTts, OpenAiSpeech, OpenAiTranscriptions, SPEECH_SAMPLES,
};

use super::person::{Answer, Person};
use super::voices::SPEECH;
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};

/// Number of packets of 60 ms at 24 kHz in the sound of a stub.
pub(crate) const PACKETS: usize = SPEECH_SAMPLES.div_ceil(1_440);

/// The answer with working vendors.
pub(crate) fn good_answer() -> Answer {
    let packets = REPLY.len() * PACKETS;
    Answer {
        heard: vec![HEARD.into()],
        sentences: REPLY.map(String::from).into(),
        packets,
        played: packets,
    }
}

async fn two_turns(vendors: Vendors, framing: u32, mode: ListenMode) {
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut person = Person::meet(&server.device_url(), framing, mode).await;
    for turn in 1..=2 {
        person.say(&SPEECH).await;
        assert_eq!(person.answer().await, good_answer(), "turn {turn}");
    }
    let heard = vendors.asr.seen();
    assert!(heard.audio_bytes > 2 * 16_000, "both utterances were heard: {heard:?}");
    drop(person);
    server.stop().await;
}

#[tokio::test]
async fn a_user_is_answered_in_each_framing() {
    let turns = async |framing| two_turns(Vendors::start().await, framing, ListenMode::Auto).await;
    tokio::join!(turns(1), turns(2), turns(3));
}

#[tokio::test]
async fn check_14_a_user_with_push_to_talk_is_answered() {
    two_turns(Vendors::start().await, 1, ListenMode::Manual).await;
}

#[tokio::test]
async fn a_user_is_answered_with_funasr_and_openai_speech() {
    let asr = FunAsr::start(Behaviour::Normal, HEARD).await;
    let tts = OpenAiSpeech::start(Behaviour::Normal).await;
    two_turns(Vendors::with(asr, tts).await, 1, ListenMode::Auto).await;
}

#[tokio::test]
async fn a_user_is_answered_with_openai_transcriptions() {
    let asr = OpenAiTranscriptions::start(Behaviour::Normal, HEARD).await;
    let tts = ListenAiTts::start(Behaviour::Normal).await;
    two_turns(Vendors::with(asr, tts).await, 1, ListenMode::Auto).await;
}

#[tokio::test]
async fn each_port_uses_the_vendor_of_its_url() {
    let vendors = Vendors::with(
        ListenAiAsr::start(Behaviour::Normal, HEARD).await,
        OpenAiSpeech::start(Behaviour::Normal).await,
    )
    .await;
    let server = TestServer::start(&vendors, |config| {
        config.llm.model = "the-model".into();
        config.tts.voice = "the-voice".into();
        config.dialogue.system_prompt = "Be brief.".into();
        config.dialogue.emotion_prompt = "Show a face.".into();
    })
    .await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    person.answer().await;
    let asked: serde_json::Value = serde_json::from_str(&vendors.llm.seen().texts[1]).unwrap();
    assert_eq!(asked["model"], "the-model");
    assert_eq!(asked["messages"][0]["content"], "Be brief. Show a face.");
    assert_eq!(asked["messages"][1]["content"], HEARD);
    let said = vendors.tts.seen().texts;
    for sentence in REPLY {
        let asked = said.iter().any(|t| t.contains(sentence) && t.contains("the-voice"));
        assert!(asked, "{sentence}: {said:?}");
    }
}
