//! Many concurrent devices: each gets its own transcripts and answers.

use std::time::Duration;

use futures_util::future::join_all;
use hearken_audio::pcm;
use hearken_proto::device::ListenMode;
use hearken_test_support::vendors::{ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_virtual_device::sound;

use super::person::{Answer, Person};
use super::voices::{PITCHES_HZ, pitch_of, speech, voice};
use crate::support::app::{TestServer, Vendors};

/// Length of the sound of every reply: ten packets of 60 ms.
const REPLY_MS: usize = 600;

/// The transcript of a voice is its pitch.
fn hear(audio: &[u8]) -> String {
    format!("pitch {}", pitch_of(&pcm::from_le_bytes(audio), 16_000))
}

fn reply(words: &[u8]) -> String {
    format!("You said {}.", String::from_utf8_lossy(words))
}

/// A sentence about a pitch is synthesised at that pitch.
fn sound_of(sentence: &str) -> Vec<i16> {
    let digits: String = sentence.chars().filter(char::is_ascii_digit).collect();
    voice(digits.parse().unwrap_or(200), REPLY_MS, 24_000)
}

async fn converse(url: String, pitch_hz: u16) {
    let mut person = Person::meet(&url, 1, ListenMode::Auto).await;
    for turn in 1..=2 {
        person.say(&speech(pitch_hz)).await;
        let expected = Answer {
            heard: vec![format!("pitch {pitch_hz}")],
            sentences: vec![format!("You said pitch {pitch_hz}.")],
            packets: REPLY_MS / 60,
            played: REPLY_MS / 60,
        };
        assert_eq!(person.answer().await, expected, "turn {turn} at {pitch_hz} Hz");
    }
    let heard = sound::heard(person.report(), 24_000).unwrap();
    assert_eq!(pitch_of(&heard.samples, 24_000), pitch_hz, "the voice of another answer");
}

#[tokio::test]
async fn ten_concurrent_devices_each_hear_their_own_answer() {
    let vendors = Vendors::of(
        ListenAiAsr::hearing(hear).await,
        OpenAiChat::answering(reply).await,
        ListenAiTts::sounding(sound_of).await,
    );
    let server = TestServer::start(&vendors, |config| {
        config.server.workers = 2;
        config.server.audio_threads = 2;
        config.tts.cache_bytes = 0;
        // Ten devices process `tts start` slowly on a small machine.
        config.speaking.start_guard = Duration::from_secs(1);
    })
    .await;
    join_all(PITCHES_HZ.map(|pitch_hz| converse(server.device_url(), pitch_hz))).await;
    assert_eq!(vendors.asr.seen().requests, 20);
    assert_eq!(vendors.llm.seen().requests, 20);
    server.stop().await;
}
