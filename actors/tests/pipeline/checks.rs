//! Acceptance checks of the device protocol that no other pipeline test covers;
//! `tests/repository/acceptance.rs` checks that none is missing. Not for the reactions of a virtual
//! device.

use bytes::Bytes;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::testkit::{LlmAct, TtsAct};
use hearken_socket::testkit::Received;

use crate::{audio_times, freeze, listening, ms, next_turn_works, prompts, shown, speak, start};

#[actix::test]
async fn check_07_the_hellos_framing_takes_precedence_and_malformed_headers_are_ignored() {
    freeze();
    let mut pipeline = TestPipeline::connect(PipelineSettings::default());
    pipeline.greet(3).await;
    for bytes in [&[][..], &[0][..], &[0, 0, 0, 9, 1][..], &[1, 0, 0, 1, 1][..], &[7; 60][..]] {
        pipeline.binary(Bytes::copy_from_slice(bytes));
    }
    next_turn_works(&mut pipeline).await;
    // Another hello on the same socket changes the framing.
    pipeline.greet(2).await;
    next_turn_works(&mut pipeline).await;
    let Some(Received::Audio(bytes)) =
        pipeline.log.iter().map(|d| &d.what).find(|w| matches!(w, Received::Audio(_)))
    else {
        panic!("no audio");
    };
    assert_eq!(bytes[..4], [0, 2, 0, 0], "the header of version 2");
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_08_every_rate_and_packet_length_is_understood_and_garbage_between_is_ignored() {
    for rate_hz in [8_000, 16_000, 24_000, 48_000] {
        for packet_ms in [20, 40, 60] {
            let mut pipeline = listening("auto").await;
            let voice = sound::voice_in(1_080, rate_hz, packet_ms);
            let speech = [voice, sound::silence_in(960, rate_hz, packet_ms)].concat();
            for (n, opus) in speech.into_iter().enumerate() {
                pipeline.packet(opus);
                match n % 8 {
                    3 => pipeline.packet(Bytes::from_static(&[0x0b])),
                    5 => pipeline.packet(Bytes::new()),
                    7 => pipeline.packet(Bytes::from(vec![0xff; 9_000])),
                    _ => {}
                }
                tokio::time::sleep(ms(packet_ms)).await;
            }
            pipeline.until("tts/stop").await;
            assert_eq!(shown(&pipeline), ["Good day."], "{rate_hz} Hz, {packet_ms} ms");
            let heard = pipeline.script.utterances.lock().unwrap().clone();
            assert!(
                heard.len() == 1 && heard[0] >= 16_000,
                "{rate_hz} Hz, {packet_ms} ms: {heard:?}"
            );
            pipeline.hang_up().await;
        }
    }
}

#[actix::test]
async fn check_09_audio_before_listening_does_not_repeat_the_wake_word() {
    freeze();
    let mut pipeline = TestPipeline::greeted(PipelineSettings::default(), 1).await;
    pipeline.forget();
    for packet in sound::voice(1_980) {
        pipeline.packet(packet);
    }
    pipeline.text(r#"{"session_id":"","type":"listen","state":"detect","text":"你好小智"}"#);
    start(&pipeline, "auto");
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["我在。"]);
    start(&pipeline, "auto");
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["我在。", "Good day."]);
    assert_eq!(pipeline.script.utterances.lock().unwrap().len(), 1, "only the words after it");
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_11_audio_is_sent_only_between_tts_start_and_tts_stop_and_not_at_once() {
    let mut pipeline = listening("auto").await;
    for _ in 0..3 {
        pipeline.script.thinks(LlmAct::Write(vec!["One is here. ", "Two is there."], ms(30)));
        start(&pipeline, "auto");
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        pipeline.pass(ms(1_500)).await;
    }
    let mut speaking_since = None;
    for down in &pipeline.log {
        match down.what.name().as_str() {
            "tts/start" => speaking_since = Some(down.at),
            "tts/stop" => speaking_since = None,
            "audio" => {
                let since = speaking_since.expect("audio came outside");
                assert!(down.at >= since + ms(20), "{:?} after tts start", down.at - since);
            }
            _ => {}
        }
    }
    assert_eq!(audio_times(&pipeline).len(), 3 * 2 * 15);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_16_an_abort_for_any_reason_is_answered_and_nothing_follows() {
    for reason in ["", r#","reason":"stop_listening""#, r#","reason":7"#] {
        let mut pipeline = listening("auto").await;
        pipeline.script.says(TtsAct::Audio { length: ms(6_000), first: ms(50), each: ms(5) });
        speak(&pipeline).await;
        pipeline.until("audio").await;
        pipeline.text(&format!(r#"{{"type":"abort"{reason}}}"#));
        pipeline.until("tts/stop").await;
        pipeline.forget();
        pipeline.pass(ms(8_000)).await;
        assert_eq!(pipeline.names(), [""; 0], "{reason}");
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn check_17_after_a_wake_word_that_interrupts_nothing_of_the_old_turn_follows() {
    // The wake word arrives at every stage of the turn that it interrupts.
    for stage in (0..3_000).step_by(150) {
        let mut pipeline = listening("auto").await;
        pipeline.script.says(TtsAct::Audio { length: ms(3_000), first: ms(400), each: ms(50) });
        speak(&pipeline).await;
        pipeline.pass(ms(stage)).await;
        pipeline.forget();
        pipeline.text(r#"{"type":"abort","reason":"wake_word_detected"}"#);
        start(&pipeline, "auto");
        speak(&pipeline).await;
        pipeline.until("tts/start").await;
        pipeline.until("tts/stop").await;
        let starts = pipeline.names().iter().filter(|n| *n == "tts/start").count();
        let stops = pipeline.names().iter().filter(|n| *n == "tts/stop").count();
        assert_eq!((starts, stops), (1, 2), "{stage} ms: {:?}", pipeline.names());
        assert_eq!(pipeline.names()[0], "tts/stop", "{stage} ms");
        assert_eq!(audio_times(&pipeline).len(), 15, "{stage} ms: only those of the new answer");
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn check_19_several_wakes_and_hellos_on_one_socket() {
    let mut pipeline = listening("manual").await;
    for wake in 1..=3 {
        pipeline.forget();
        pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
        start(&pipeline, "auto");
        pipeline.until("tts/stop").await;
        let greeting = if wake == 1 { "我在。" } else { "I'm here." };
        assert_eq!(shown(&pipeline), [greeting], "wake {wake}");
        pipeline.greet(1).await;
        next_turn_works(&mut pipeline).await;
    }
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_device_with_another_audio_format_is_closed_with_a_reason() {
    for (format, is_served) in [("OPUS", true), ("", true), ("pcm", false), ("g711a", false)] {
        freeze();
        let mut pipeline = TestPipeline::connect(PipelineSettings::default());
        pipeline.text(&format!(r#"{{"type":"hello","audio_params":{{"format":"{format}"}}}}"#));
        let what = if is_served { "hello" } else { "closed 1008" };
        pipeline.until(what).await;
        assert_eq!(pipeline.names(), [what], "{format}");
    }
}

#[actix::test]
async fn a_text_of_a_device_is_truncated_as_a_transcript_is() {
    let mut pipeline = listening("auto").await;
    for chars in [4_000, 4_001, 16_000] {
        let words: String = ('\u{4e00}'..).take(chars).collect();
        pipeline.text(&format!(r#"{{"type":"listen","state":"detect","text":"{words}"}}"#));
        pipeline.until("tts/stop").await;
        let asked = prompts(&pipeline).pop().unwrap();
        assert_eq!(asked, words.chars().take(4_000).collect::<String>(), "{chars}");
    }
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_23_unusual_messages_of_other_clients_are_accepted() {
    let mut pipeline = listening("auto").await;
    for text in [
        r#"{"type":"iot","update":true,"descriptors":[{"name":"Speaker"}]}"#,
        r#"{"type":"iot","update":true,"states":[{"name":"Speaker","state":{"volume":9}}]}"#,
        r#"{"type":"listen","state":"start","mode":"unknown"}"#,
        r#"{"type":"listen"}"#,
        r#"{"type":"listen","state":"detect","text":"say "hi""}"#,
        r#"{"type":"surprise"}"#,
        r#"{}"#,
    ] {
        pipeline.text(text);
    }
    pipeline.text(r#"{"type":"abort"}"#);
    pipeline.until("tts/stop").await;
    next_turn_works(&mut pipeline).await;
    pipeline.text(r#"{"type":"goodbye"}"#);
    pipeline.until("gone").await;
    pipeline.hang_up().await;
}
