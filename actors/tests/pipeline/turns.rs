//! Successful turns: order of messages, pacing, early speech, modes, timers.

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
async fn check_10_messages_arrive_in_order_and_audio_only_while_speaking() {
    let mut pipeline = listening("auto").await;
    pipeline.script.thinks(LlmAct::Write(vec!["😊 One is here. ", "Two is there."], ms(30)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(
        pipeline.names(),
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
    assert_eq!(pipeline.log[0].what.text(), "hello there");
    assert_eq!(shown(&pipeline), ["One is here.", "Two is there."]);
    let hearken_socket::testkit::Received::Text(face) = &pipeline.log[1].what else {
        panic!("no llm")
    };
    assert_eq!(face["emotion"], "happy");
    assert!(pipeline.log.iter().all(|d| match &d.what {
        hearken_socket::testkit::Received::Text(json) => json["session_id"].is_string(),
        _ => true,
    }));
    pipeline.hang_up().await;
}

#[actix::test]
async fn each_prompt_has_the_time_and_the_devices_own_instructions() {
    let mut settings = PipelineSettings::default();
    settings.dialogue.system_prompt = "Be brief at {current_time}.".into();
    settings.dialogue.emotion_prompt.clear();
    let mut pipeline = listening_with(settings, "auto").await;
    let own = String::new();
    let kitchen = String::from("You are a cook.");
    for (now, own, told) in [
        ("noon", &own, "Be brief at noon."),
        ("night", &own, "Be brief at night."),
        ("dawn", &kitchen, "You are a cook."),
        ("dusk", &own, "Be brief at dusk."),
    ] {
        *pipeline.script.now.lock().unwrap() = now.into();
        pipeline.script.style.lock().unwrap().system_prompt.clone_from(own);
        next_turn_works(&mut pipeline).await;
        let prompt = pipeline.script.prompts.lock().unwrap().pop().expect("the model was asked");
        assert_eq!(prompt.messages[0].content, told);
    }
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_12_packets_are_paced_with_at_most_three_of_lead_and_no_tail_is_cut() {
    let mut pipeline = listening("auto").await;
    let length = ms(3_000);
    let first = ms(100);
    let each = ms(10);
    pipeline.script.says(TtsAct::Audio { length, first, each });
    speak(&pipeline).await;
    let begun = pipeline.until("tts/start").await.at;
    let stop = pipeline.until("tts/stop").await.at;
    let times = audio_times(&pipeline);
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
    pipeline.hang_up().await;
}

/// Returns the lengths of the silences within the received speech.
fn gaps(pipeline: &TestPipeline) -> Vec<Duration> {
    let mut plays_until = None;
    let mut gaps = Vec::new();
    for at in audio_times(pipeline) {
        let end = plays_until.unwrap_or(at);
        if at > end {
            gaps.push(at - end);
        }
        plays_until = Some(end.max(at) + ms(60));
    }
    gaps
}

#[actix::test]
async fn a_stall_of_the_synthesiser_is_inaudible() {
    let bursts = || {
        let burst = [(ms(200), ms(120)), (ms(12), ms(120)), (ms(500), ms(120)), (ms(200), ms(600))];
        TtsAct::Pieces(std::iter::repeat_n(burst, 4).flatten().collect())
    };
    for (prebuffer, stutters) in [(ms(720), false), (ms(0), true)] {
        let mut settings = PipelineSettings::default();
        settings.speaking.prebuffer = prebuffer;
        let mut pipeline = listening_with(settings, "auto").await;
        pipeline.script.says(bursts());
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(audio_times(&pipeline).len(), 64);
        assert_eq!(!gaps(&pipeline).is_empty(), stutters, "{prebuffer:?}: {:?}", gaps(&pipeline));
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_stall_in_a_following_sentence_is_inaudible() {
    let mut pipeline = listening("auto").await;
    pipeline.script.thinks(LlmAct::Write(vec!["One is short. ", "Two is longer."], ms(20)));
    pipeline.script.says(TtsAct::Pieces(vec![(ms(50), ms(300))]));
    pipeline.script.says(TtsAct::Pieces(vec![(ms(100), ms(120)), (ms(500), ms(900))]));
    speak(&pipeline).await;
    pipeline.until("tts/sentence_end").await;
    pipeline.until("tts/sentence_start").await;
    pipeline.forget();
    pipeline.until("tts/stop").await;
    assert_eq!(audio_times(&pipeline).len(), 17);
    assert!(gaps(&pipeline).is_empty(), "{:?}", gaps(&pipeline));
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_short_sentence_does_not_wait_for_the_prebuffer() {
    let mut pipeline = listening("auto").await;
    pipeline.script.says(TtsAct::Pieces(vec![(ms(80), ms(300))]));
    speak(&pipeline).await;
    let thought = pipeline.until("stt").await.at;
    pipeline.until("audio").await;
    assert!(audio_times(&pipeline)[0] - thought < ms(300), "it waited");
    pipeline.hang_up().await;
}

#[actix::test]
async fn speech_starts_while_the_model_writes_and_the_next_sentence_is_requested_early() {
    let mut pipeline = listening("auto").await;
    let pieces = vec!["First things first. ", "Then more. ", "And more. ", "And an end."];
    pipeline.script.thinks(LlmAct::Write(pieces, ms(700)));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    let first_audio = audio_times(&pipeline)[0];
    let lines = pipeline.script.lines.lock().unwrap().clone();
    let written = pipeline.script.written.lock().unwrap()[0];
    let epoch = tokio::time::Instant::now() - pipeline.now();
    assert!(epoch + first_audio < written, "spoke only after the model was done");
    assert_eq!(lines.len(), 4);
    let second_shown = pipeline.log.iter().filter(|d| d.what.name() == "tts/sentence_start").nth(1);
    assert!(lines[1].0 < epoch + second_shown.unwrap().at, "the next sentence was requested late");
    pipeline.hang_up().await;
}

#[actix::test]
async fn slow_playback_slows_the_model_down() {
    let mut settings = PipelineSettings::default();
    settings.speaking.ahead_packets = 10;
    let mut pipeline = listening_with(settings, "auto").await;
    pipeline.script.thinks(LlmAct::Write(vec!["A sentence is here. "; 20], ms(1)));
    speak(&pipeline).await;
    pipeline.until("tts/sentence_end").await;
    let asked = pipeline.script.lines.lock().unwrap().len();
    assert!(asked <= 3, "{asked} sentences were synthesised while the first was playing");
    assert!(pipeline.script.written.lock().unwrap().is_empty(), "the model was not slowed down");
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.script.lines.lock().unwrap().len(), 20);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_14_in_manual_mode_only_the_button_ends_an_utterance() {
    let mut pipeline = listening("manual").await;
    pipeline.stream(sound::voice(600)).await;
    pipeline.stream(sound::silence(3_000)).await;
    pipeline.stream(sound::voice(600)).await;
    assert_eq!(pipeline.script.utterances.lock().unwrap().len(), 0);
    pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    pipeline.until("tts/stop").await;
    let samples = pipeline.script.utterances.lock().unwrap().clone();
    assert_eq!(samples, [4_200 * 16], "exactly the recording");
    pipeline.hang_up().await;
}

#[actix::test]
async fn after_a_change_from_manual_to_another_mode_silence_ends_the_recording() {
    for mode in ["auto", "realtime"] {
        for goes_on in [false, true] {
            let mut pipeline = listening("manual").await;
            pipeline.stream(sound::voice(600)).await;
            start(&pipeline, mode);
            if goes_on {
                pipeline.stream(sound::voice(600)).await;
            }
            let spoken = pipeline.now();
            // The client also sends its silence.
            pipeline.stream(sound::silence(2_400)).await;
            let told = pipeline.until("stt").await.at;
            assert!(told - spoken < ms(1_200), "{mode}, {goes_on}: {:?}", told - spoken);
            pipeline.until("tts/stop").await;
            assert_eq!(pipeline.script.utterances.lock().unwrap().len(), 1, "{mode}, {goes_on}");
            next_turn_works(&mut pipeline).await;
            pipeline.hang_up().await;
        }
    }
}

#[actix::test]
async fn check_14_an_empty_recording_asks_no_provider() {
    let mut pipeline = listening("manual").await;
    pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    pipeline.pass(ms(5_000)).await;
    assert_eq!(pipeline.names(), [""; 0]);
    assert!(pipeline.script.prompts.lock().unwrap().is_empty());
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn speech_without_words_is_not_answered() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("  ", ms(10)));
    speak(&pipeline).await;
    pipeline.pass(ms(3_000)).await;
    assert_eq!(pipeline.names(), [""; 0]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_utterance_carries_its_pre_roll_and_ends_by_the_clock_when_packets_stop() {
    let mut pipeline = listening("auto").await;
    pipeline.stream(sound::silence(1_200)).await;
    pipeline.stream(sound::voice(1_200)).await;
    pipeline.until("tts/stop").await;
    let samples = pipeline.script.utterances.lock().unwrap()[0];
    let length = samples / 16;
    assert!((1_380..=1_620).contains(&length), "{length} ms");
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_07_every_framing_carries_audio_both_ways() {
    freeze();
    for version in [1, 2, 3] {
        let mut pipeline = TestPipeline::greeted(PipelineSettings::default(), version).await;
        start(&pipeline, "auto");
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        let framing = hearken_proto::device::Framing::from_version(version);
        let mut packets = 0;
        for down in &pipeline.log {
            if let hearken_socket::testkit::Received::Audio(bytes) = &down.what {
                let packet = framing.decode(bytes).unwrap();
                assert_eq!(bytes.len(), framing.header_len() + packet.opus.len());
                packets += 1;
            }
        }
        assert_eq!(packets, 15, "framing {version}");
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn check_09_a_wake_word_is_greeted_once_and_other_text_is_answered() {
    let mut pipeline = listening("auto").await;
    pipeline.stream(sound::voice(900)).await;
    pipeline.text(r#"{"type":"listen","state":"detect","text":"你好，小智"}"#);
    start(&pipeline, "auto");
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["我在。"]);
    assert!(pipeline.script.prompts.lock().unwrap().is_empty(), "the model was asked");
    pipeline.pass(ms(5_000)).await;
    assert_eq!(pipeline.names().iter().filter(|n| *n == "tts/start").count(), 1);
    pipeline.forget();
    pipeline.text(r#"{"type":"listen","state":"detect","text":"What time is it?"}"#);
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.log[0].what.text(), "What time is it?");
    assert_eq!(shown(&pipeline), ["Good day."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_19_a_quiet_connection_is_closed_after_a_farewell() {
    let mut pipeline = listening("auto").await;
    pipeline.until("closed 1000").await;
    assert_eq!(
        pipeline.names(),
        ["tts/start", "tts/sentence_start", "audio", "tts/sentence_end", "tts/stop", "closed 1000"]
    );
    let begun = pipeline.log[0].at;
    assert!((Duration::from_secs(120)..Duration::from_secs(123)).contains(&begun), "{begun:?}");
    pipeline.hang_up().await;
}

#[actix::test]
async fn the_farewell_does_not_interrupt_an_utterance_that_is_longer_than_the_timeout() {
    let mut settings = PipelineSettings::default();
    settings.device.no_voice_timeout = ms(2_000);
    let mut pipeline = listening_with(settings.clone(), "auto").await;
    pipeline.stream(sound::voice(6_000)).await;
    pipeline.stream(sound::silence(900)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Good day."]);
    pipeline.hang_up().await;
    // A button that is held without end counts as silence after the longest utterance.
    let longest = settings.hearing.max_utterance;
    let mut pipeline = listening_with(settings, "manual").await;
    let pressed = pipeline.now();
    let farewell = pipeline.until("tts/start").await.at - pressed;
    assert!(farewell >= longest && farewell < longest + ms(2_500), "{farewell:?}");
    pipeline.until("closed 1000").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_wake_word_during_the_farewell_is_answered() {
    let mut pipeline = listening("auto").await;
    pipeline.until("tts/sentence_start").await;
    pipeline.text(r#"{"type":"listen","state":"detect","text":"你好，小智"}"#);
    start(&pipeline, "auto");
    pipeline.until("tts/stop").await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline).last().map(String::as_str), Some("我在。"));
    pipeline.forget();
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Good day."]);
    pipeline.until("closed 1000").await;
    assert_eq!(
        pipeline.names().iter().filter(|n| *n == "tts/start").count(),
        2,
        "a second farewell"
    );
    pipeline.hang_up().await;
}

#[actix::test]
async fn the_farewell_is_in_the_language_spoken_and_an_empty_one_is_not_spoken() {
    let mut pipeline = listening("auto").await;
    speak(&pipeline).await;
    pipeline.until("closed 1000").await;
    assert_eq!(shown(&pipeline).last().map(String::as_str), Some("I'll rest now. Goodbye."));
    pipeline.hang_up().await;

    let mut settings = PipelineSettings::default();
    settings.phrases.farewell = Phrase::new("", "");
    let mut pipeline = listening_with(settings, "auto").await;
    pipeline.until("closed 1000").await;
    assert_eq!(pipeline.names(), ["closed 1000"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_19_a_reply_longer_than_the_idle_limit_is_not_cut() {
    let mut pipeline = listening("auto").await;
    let length = Duration::from_secs(150);
    let first = ms(100);
    let each = ms(10);
    pipeline.script.says(TtsAct::Audio { length, first, each });
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(audio_times(&pipeline).len(), 2_500);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_06_a_peer_without_hello_is_closed_after_ten_seconds() {
    freeze();
    let mut pipeline = TestPipeline::connect(PipelineSettings::default());
    let closed = pipeline.until("closed 1008").await.at;
    assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&closed), "{closed:?}");
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_stopping_server_closes_the_connection_with_its_reason() {
    let mut pipeline = listening("auto").await;
    speak(&pipeline).await;
    pipeline.until("tts/sentence_start").await;
    pipeline.process.cancel();
    pipeline.until("closed 1001").await;
    let names = pipeline.names();
    assert_eq!(names[names.len() - 2..], ["tts/stop", "closed 1001"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_09_words_directly_after_the_wake_word_are_answered_without_a_greeting() {
    let mut pipeline = listening("auto").await;
    pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
    start(&pipeline, "auto");
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Good day."], "answered, not greeted");
    let heard = pipeline.script.utterances.lock().unwrap().clone();
    assert!(heard.len() == 1 && heard[0] >= 16_000, "the first words were lost: {heard:?}");
    pipeline.pass(ms(5_000)).await;
    assert_eq!(pipeline.names().iter().filter(|n| *n == "tts/start").count(), 1);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_fixed_phrase_is_spoken_by_the_synthesiser_once() {
    let mut pipeline = listening("auto").await;
    let mut sounds = Vec::new();
    for _ in 0..3 {
        pipeline.forget();
        pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
        pipeline.until("tts/stop").await;
        let audio = pipeline.log.iter().filter_map(|d| match &d.what {
            Received::Audio(packet) => Some(packet.clone()),
            _ => None,
        });
        sounds.push(audio.collect::<Vec<_>>());
    }
    assert!(!sounds[0].is_empty() && sounds.iter().all(|sound| *sound == sounds[0]));
    let asked: Vec<String> =
        pipeline.script.lines.lock().unwrap().iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(asked, ["我在。"]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_client_that_plays_at_once_gets_audio_without_delay() {
    freeze();
    for (features, expected) in
        [("{}", ms(100)..ms(105)), (r#"{"plays_at_once":true}"#, ms(0)..ms(10))]
    {
        let mut pipeline = TestPipeline::connect(PipelineSettings::default());
        pipeline.greet_with(1, features).await;
        start(&pipeline, "auto");
        for _ in 0..2 {
            pipeline.forget();
            speak(&pipeline).await;
            pipeline.until("tts/stop").await;
            let began =
                pipeline.log.iter().find(|down| down.what.name() == "tts/start").unwrap().at;
            let pause = audio_times(&pipeline)[0] - began;
            assert!(expected.contains(&pause), "{features}: {pause:?}");
            start(&pipeline, "auto");
        }
    }
}
