//! Turns that go well: order of messages, pacing, early speech, modes, timers.

use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::phrases::Phrase;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_socket::testkit::Received;

use crate::{
    audio_times, freeze, listening, listening_with, ms, next_turn_works, shown, speak, start,
};

#[actix::test]
async fn check_10_messages_come_in_order_and_audio_only_while_speaking() {
    let mut ring = listening("auto").await;
    ring.script.thinks(LlmAct::Write(vec!["😊 One is here. ", "Two is there."], ms(30)));
    speak(&ring).await;
    ring.until("tts/stop").await;
    assert_eq!(
        ring.names(),
        [
            "stt",
            "llm",
            "tts/start",
            "tts/sentence_start",
            "audio",
            "tts/sentence_end",
            "tts/sentence_start",
            "audio",
            "tts/sentence_end",
            "tts/stop"
        ]
    );
    assert_eq!(ring.log[0].what.text(), "hello there");
    assert_eq!(shown(&ring), ["One is here.", "Two is there."]);
    let hearken_socket::testkit::Received::Text(face) = &ring.log[1].what else { panic!("no llm") };
    assert_eq!(face["emotion"], "happy");
    assert!(ring.log.iter().all(|d| match &d.what {
        hearken_socket::testkit::Received::Text(json) => json["session_id"].is_string(),
        _ => true,
    }));
    ring.hang_up().await;
}

#[actix::test]
async fn each_turn_is_told_the_time_and_the_devices_own_instructions() {
    let mut settings = PipelineSettings::default();
    settings.dialogue.system_prompt = "Be brief at {current_time}.".into();
    settings.dialogue.emotion_prompt.clear();
    let mut ring = listening_with(settings, "auto").await;
    let own = String::new();
    let kitchen = String::from("You are a cook.");
    for (now, own, told) in [
        ("noon", &own, "Be brief at noon."),
        ("night", &own, "Be brief at night."),
        ("dawn", &kitchen, "You are a cook."),
        ("dusk", &own, "Be brief at dusk."),
    ] {
        *ring.script.now.lock().unwrap() = now.into();
        ring.script.style.lock().unwrap().system_prompt.clone_from(own);
        next_turn_works(&mut ring).await;
        let prompt = ring.script.prompts.lock().unwrap().pop().expect("the model was asked");
        assert_eq!(prompt.messages[0].content, told);
    }
    ring.hang_up().await;
}

#[actix::test]
async fn check_12_packets_are_paced_with_at_most_three_of_lead_and_no_tail_is_cut() {
    let mut ring = listening("auto").await;
    let length = ms(3_000);
    let first = ms(100);
    let each = ms(10);
    ring.script.says(TtsAct::Audio { length, first, each });
    speak(&ring).await;
    let begun = ring.until("tts/start").await.at;
    let stop = ring.until("tts/stop").await.at;
    let times = audio_times(&ring);
    assert_eq!(times.len(), 50);
    assert!(times[0] >= begun + ms(20), "first audio {:?} after tts start", times[0] - begun);
    for (n, at) in times.iter().enumerate() {
        let ahead = ms(60) * u32::try_from(n + 1).unwrap();
        assert!(times[0] + ahead <= *at + ms(3 * 60), "packet {n} is too early");
        assert!(*at <= times[0] + ahead, "packet {n} is late");
    }
    let played_out = times[0] + ms(50 * 60);
    assert!(stop >= played_out, "the tail was cut by {:?}", played_out - stop);
    assert!(stop <= played_out + ms(300), "stop came {:?} late", stop - played_out);
    ring.hang_up().await;
}

/// Lengths of the silences within the speech that came.
fn gaps(ring: &TestPipeline) -> Vec<Duration> {
    let mut plays_until = None;
    let mut gaps = Vec::new();
    for at in audio_times(ring) {
        let end = plays_until.unwrap_or(at);
        if at > end {
            gaps.push(at - end);
        }
        plays_until = Some(end.max(at) + ms(60));
    }
    gaps
}

#[actix::test]
async fn a_synthesiser_that_stalls_is_not_heard_to_stall() {
    let bursts = || {
        let burst = [(ms(200), ms(120)), (ms(12), ms(120)), (ms(500), ms(120)), (ms(200), ms(600))];
        TtsAct::Pieces(std::iter::repeat_n(burst, 4).flatten().collect())
    };
    for (cushion, stutters) in [(ms(720), false), (ms(0), true)] {
        let mut settings = PipelineSettings::default();
        settings.speaking.cushion = cushion;
        let mut ring = listening_with(settings, "auto").await;
        ring.script.says(bursts());
        speak(&ring).await;
        ring.until("tts/stop").await;
        assert_eq!(audio_times(&ring).len(), 64);
        assert_eq!(!gaps(&ring).is_empty(), stutters, "{cushion:?}: {:?}", gaps(&ring));
        ring.hang_up().await;
    }
}

#[actix::test]
async fn a_stall_in_a_sentence_that_follows_on_another_is_not_heard_either() {
    let mut ring = listening("auto").await;
    ring.script.thinks(LlmAct::Write(vec!["One is short. ", "Two is longer."], ms(20)));
    ring.script.says(TtsAct::Pieces(vec![(ms(50), ms(300))]));
    ring.script.says(TtsAct::Pieces(vec![(ms(100), ms(120)), (ms(500), ms(900))]));
    speak(&ring).await;
    ring.until("tts/sentence_end").await;
    ring.until("tts/sentence_start").await;
    ring.forget();
    ring.until("tts/stop").await;
    assert_eq!(audio_times(&ring).len(), 17);
    assert!(gaps(&ring).is_empty(), "{:?}", gaps(&ring));
    ring.hang_up().await;
}

#[actix::test]
async fn a_short_sentence_does_not_wait_for_a_cushion() {
    let mut ring = listening("auto").await;
    ring.script.says(TtsAct::Pieces(vec![(ms(80), ms(300))]));
    speak(&ring).await;
    let thought = ring.until("stt").await.at;
    ring.until("audio").await;
    assert!(audio_times(&ring)[0] - thought < ms(300), "it waited");
    ring.hang_up().await;
}

#[actix::test]
async fn speech_begins_while_the_model_still_writes_and_the_next_sentence_is_fetched_early() {
    let mut ring = listening("auto").await;
    let pieces = vec!["First things first. ", "Then more. ", "And more. ", "And an end."];
    ring.script.thinks(LlmAct::Write(pieces, ms(700)));
    speak(&ring).await;
    ring.until("tts/stop").await;
    let first_audio = audio_times(&ring)[0];
    let lines = ring.script.lines.lock().unwrap().clone();
    let written = ring.script.written.lock().unwrap()[0];
    let epoch = tokio::time::Instant::now() - ring.now();
    assert!(epoch + first_audio < written, "spoke only after the model was done");
    assert_eq!(lines.len(), 4);
    let second_shown = ring.log.iter().filter(|d| d.what.name() == "tts/sentence_start").nth(1);
    assert!(lines[1].0 < epoch + second_shown.unwrap().at, "the next sentence was fetched late");
    ring.hang_up().await;
}

#[actix::test]
async fn a_slow_listener_slows_the_model_down() {
    let mut settings = PipelineSettings::default();
    settings.speaking.ahead_packets = 10;
    let mut ring = listening_with(settings, "auto").await;
    ring.script.thinks(LlmAct::Write(vec!["A sentence is here. "; 20], ms(1)));
    speak(&ring).await;
    ring.until("tts/sentence_end").await;
    let asked = ring.script.lines.lock().unwrap().len();
    assert!(asked <= 3, "{asked} sentences were synthesised while the first was playing");
    assert!(ring.script.written.lock().unwrap().is_empty(), "the model was not held back");
    ring.until("tts/stop").await;
    assert_eq!(ring.script.lines.lock().unwrap().len(), 20);
    ring.hang_up().await;
}

#[actix::test]
async fn check_14_in_manual_mode_only_the_button_ends_an_utterance() {
    let mut ring = listening("manual").await;
    ring.stream(sound::voice(600)).await;
    ring.stream(sound::silence(3_000)).await;
    ring.stream(sound::voice(600)).await;
    assert_eq!(ring.script.utterances.lock().unwrap().len(), 0);
    ring.text(r#"{"type":"listen","state":"stop"}"#);
    ring.until("tts/stop").await;
    let samples = ring.script.utterances.lock().unwrap().clone();
    assert_eq!(samples, [4_200 * 16], "the whole recording, nothing more");
    ring.hang_up().await;
}

#[actix::test]
async fn check_14_an_empty_recording_asks_nobody() {
    let mut ring = listening("manual").await;
    ring.text(r#"{"type":"listen","state":"stop"}"#);
    ring.pass(ms(5_000)).await;
    assert_eq!(ring.names(), [""; 0]);
    assert!(ring.script.prompts.lock().unwrap().is_empty());
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn speech_without_words_is_not_answered() {
    let mut ring = listening("auto").await;
    ring.script.hears(AsrAct::Text("  ", ms(10)));
    speak(&ring).await;
    ring.pass(ms(3_000)).await;
    assert_eq!(ring.names(), [""; 0]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn an_utterance_carries_its_pre_roll_and_ends_by_the_clock_when_packets_stop() {
    let mut ring = listening("auto").await;
    ring.stream(sound::silence(1_200)).await;
    ring.stream(sound::voice(1_200)).await;
    ring.until("tts/stop").await;
    let samples = ring.script.utterances.lock().unwrap()[0];
    let length = samples / 16;
    assert!((1_380..=1_620).contains(&length), "{length} ms");
    ring.hang_up().await;
}

#[actix::test]
async fn check_07_every_framing_carries_audio_both_ways() {
    freeze();
    for version in [1, 2, 3] {
        let mut ring = TestPipeline::greeted(PipelineSettings::default(), version).await;
        start(&ring, "auto");
        speak(&ring).await;
        ring.until("tts/stop").await;
        let framing = hearken_proto::device::Framing::from_version(version);
        let mut packets = 0;
        for down in &ring.log {
            if let hearken_socket::testkit::Received::Audio(bytes) = &down.what {
                let packet = framing.decode(bytes).unwrap();
                assert_eq!(bytes.len(), framing.header_len() + packet.opus.len());
                packets += 1;
            }
        }
        assert_eq!(packets, 15, "framing {version}");
        ring.hang_up().await;
    }
}

#[actix::test]
async fn check_09_a_wake_word_is_greeted_once_and_other_text_is_answered() {
    let mut ring = listening("auto").await;
    ring.stream(sound::voice(900)).await;
    ring.text(r#"{"type":"listen","state":"detect","text":"你好，小智"}"#);
    start(&ring, "auto");
    ring.until("tts/stop").await;
    assert_eq!(shown(&ring), ["我在。"]);
    assert!(ring.script.prompts.lock().unwrap().is_empty(), "the model was asked");
    ring.pass(ms(5_000)).await;
    assert_eq!(ring.names().iter().filter(|n| *n == "tts/start").count(), 1);
    ring.forget();
    ring.text(r#"{"type":"listen","state":"detect","text":"What time is it?"}"#);
    ring.until("tts/stop").await;
    assert_eq!(ring.log[0].what.text(), "What time is it?");
    assert_eq!(shown(&ring), ["Good day."]);
    ring.hang_up().await;
}

#[actix::test]
async fn check_19_a_quiet_connection_is_closed_after_a_farewell() {
    let mut ring = listening("auto").await;
    ring.until("closed 1000").await;
    assert_eq!(
        ring.names(),
        ["tts/start", "tts/sentence_start", "audio", "tts/sentence_end", "tts/stop", "closed 1000"]
    );
    let begun = ring.log[0].at;
    assert!((Duration::from_secs(120)..Duration::from_secs(123)).contains(&begun), "{begun:?}");
    ring.hang_up().await;
}

#[actix::test]
async fn who_calls_during_the_farewell_is_heard_and_answered() {
    let mut ring = listening("auto").await;
    ring.until("tts/sentence_start").await;
    ring.text(r#"{"type":"listen","state":"detect","text":"你好，小智"}"#);
    start(&ring, "auto");
    ring.until("tts/stop").await;
    ring.until("tts/stop").await;
    assert_eq!(shown(&ring).last().map(String::as_str), Some("我在。"));
    ring.forget();
    speak(&ring).await;
    ring.until("tts/stop").await;
    assert_eq!(shown(&ring), ["Good day."]);
    ring.until("closed 1000").await;
    assert_eq!(ring.names().iter().filter(|n| *n == "tts/start").count(), 2, "a farewell again");
    ring.hang_up().await;
}

#[actix::test]
async fn the_farewell_is_in_the_language_spoken_and_an_empty_one_is_not_spoken() {
    let mut ring = listening("auto").await;
    speak(&ring).await;
    ring.until("closed 1000").await;
    assert_eq!(shown(&ring).last().map(String::as_str), Some("I'll rest now. Goodbye."));
    ring.hang_up().await;

    let mut settings = PipelineSettings::default();
    settings.phrases.farewell = Phrase::new("", "");
    let mut ring = listening_with(settings, "auto").await;
    ring.until("closed 1000").await;
    assert_eq!(ring.names(), ["closed 1000"]);
    ring.hang_up().await;
}

#[actix::test]
async fn check_19_a_reply_longer_than_the_idle_limit_is_not_cut() {
    let mut ring = listening("auto").await;
    let length = Duration::from_secs(150);
    let first = ms(100);
    let each = ms(10);
    ring.script.says(TtsAct::Audio { length, first, each });
    speak(&ring).await;
    ring.until("tts/stop").await;
    assert_eq!(audio_times(&ring).len(), 2_500);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn check_06_a_peer_that_says_no_hello_is_closed_after_ten_seconds() {
    freeze();
    let mut ring = TestPipeline::connect(PipelineSettings::default());
    let closed = ring.until("closed 1008").await.at;
    assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&closed), "{closed:?}");
    ring.hang_up().await;
}

#[actix::test]
async fn a_stopping_server_tells_the_device_and_leaves() {
    let mut ring = listening("auto").await;
    speak(&ring).await;
    ring.until("tts/sentence_start").await;
    ring.process.cancel();
    ring.until("closed 1001").await;
    let names = ring.names();
    assert_eq!(names[names.len() - 2..], ["tts/stop", "closed 1001"]);
    ring.hang_up().await;
}

#[actix::test]
async fn check_09_who_goes_on_speaking_after_the_wake_word_is_heard_and_not_greeted() {
    let mut ring = listening("auto").await;
    ring.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
    start(&ring, "auto");
    speak(&ring).await;
    ring.until("tts/stop").await;
    assert_eq!(shown(&ring), ["Good day."], "answered, not greeted");
    let heard = ring.script.utterances.lock().unwrap().clone();
    assert!(heard.len() == 1 && heard[0] >= 16_000, "the first words were lost: {heard:?}");
    ring.pass(ms(5_000)).await;
    assert_eq!(ring.names().iter().filter(|n| *n == "tts/start").count(), 1);
    ring.hang_up().await;
}

#[actix::test]
async fn a_fixed_phrase_is_spoken_by_the_synthesiser_once() {
    let mut ring = listening("auto").await;
    let mut sounds = Vec::new();
    for _ in 0..3 {
        ring.forget();
        ring.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
        ring.until("tts/stop").await;
        let audio = ring.log.iter().filter_map(|d| match &d.what {
            Received::Audio(packet) => Some(packet.clone()),
            _ => None,
        });
        sounds.push(audio.collect::<Vec<_>>());
    }
    assert!(!sounds[0].is_empty() && sounds.iter().all(|sound| *sound == sounds[0]));
    let asked: Vec<String> =
        ring.script.lines.lock().unwrap().iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(asked, ["我在。"]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn a_client_that_plays_at_once_gets_sound_without_a_pause() {
    freeze();
    for (features, expected) in
        [("{}", ms(100)..ms(105)), (r#"{"plays_at_once":true}"#, ms(0)..ms(10))]
    {
        let mut ring = TestPipeline::connect(PipelineSettings::default());
        ring.greet_with(1, features).await;
        start(&ring, "auto");
        for _ in 0..2 {
            ring.forget();
            speak(&ring).await;
            ring.until("tts/stop").await;
            let began = ring.log.iter().find(|down| down.what.name() == "tts/start").unwrap().at;
            let pause = audio_times(&ring)[0] - began;
            assert!(expected.contains(&pause), "{features}: {pause:?}");
            start(&ring, "auto");
        }
    }
}
