//! Turns that are cut: in each phase, by each means. The socket cuts, and nothing of the old turn
//! follows.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_dialogue::turn_rate::TurnRates;

use crate::{
    abort, audio_times, freeze, listening, listening_with, ms, next_turn_works, prompts, shown,
    speak, start, transcripts,
};

/// After an abort: one `tts stop` at once, then nothing.
async fn is_silent_after_abort(pipeline: &mut TestPipeline) {
    pipeline.forget();
    let asked = pipeline.now();
    abort(pipeline);
    let stop = pipeline.until("tts/stop").await;
    assert!(stop.at - asked < ms(20), "stopped after {:?}", stop.at - asked);
    pipeline.forget();
    pipeline.pass(ms(10_000)).await;
    assert_eq!(pipeline.names(), [""; 0], "something of the old turn followed");
}

#[actix::test]
async fn check_16_abort_while_nothing_happens() {
    let mut pipeline = listening("auto").await;
    is_silent_after_abort(&mut pipeline).await;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_16_abort_while_the_person_speaks() {
    let mut pipeline = listening("auto").await;
    pipeline.stream(sound::voice(600)).await;
    is_silent_after_abort(&mut pipeline).await;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn after_an_abort_the_rest_of_the_speech_is_discarded_but_not_after_a_wake_word() {
    for (mode, reason, heard) in [
        ("auto", "", 0),
        ("realtime", "", 0),
        ("realtime", "stop_listening", 0),
        ("auto", "wake_word_detected", 1),
        ("realtime", "wake_word_detected", 1),
    ] {
        let mut pipeline = listening(mode).await;
        pipeline.stream(sound::voice(1_000)).await;
        pipeline.text(&format!(r#"{{"type":"abort","reason":"{reason}"}}"#));
        pipeline.stream(sound::voice(1_500)).await;
        pipeline.stream(sound::silence(900)).await;
        pipeline.pass(ms(5_000)).await;
        assert_eq!(transcripts(&pipeline).len(), heard, "{mode} {reason}");
        next_turn_works(&mut pipeline).await;
    }
    // The next speech counts, also of a client that sends nothing in silence.
    let mut pipeline = listening("auto").await;
    pipeline.stream(sound::voice(1_000)).await;
    abort(&pipeline);
    pipeline.stream(sound::voice(500)).await;
    pipeline.pass(ms(1_000)).await;
    speak(&pipeline).await;
    pipeline.until("stt").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_16_abort_while_recognising() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("too late", ms(5_000)));
    speak(&pipeline).await;
    is_silent_after_abort(&mut pipeline).await;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_16_abort_while_thinking() {
    let mut pipeline = listening("auto").await;
    pipeline.script.thinks(LlmAct::Write(vec!["Too late."], ms(5_000)));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    is_silent_after_abort(&mut pipeline).await;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_16_abort_while_synthesising() {
    let mut pipeline = listening("auto").await;
    pipeline.script.says(TtsAct::Audio { length: ms(900), first: ms(5_000), each: ms(0) });
    speak(&pipeline).await;
    pipeline.until("llm").await;
    pipeline.pass(ms(500)).await;
    assert_eq!(pipeline.script.lines.lock().unwrap().len(), 1, "synthesis is under way");
    is_silent_after_abort(&mut pipeline).await;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_16_abort_while_speaking_and_only_what_was_heard_is_remembered() {
    let mut pipeline = listening("auto").await;
    pipeline
        .script
        .thinks(LlmAct::Write(vec!["One is here. ", "Two and three and four. ", "Five."], ms(20)));
    pipeline.script.says(TtsAct::Audio { length: ms(900), first: ms(50), each: ms(5) });
    pipeline.script.says(TtsAct::Audio { length: ms(2_400), first: ms(50), each: ms(5) });
    speak(&pipeline).await;
    pipeline.until("tts/sentence_end").await;
    pipeline.until("tts/sentence_start").await;
    pipeline.pass(ms(1_300)).await;
    is_silent_after_abort(&mut pipeline).await;
    next_turn_works(&mut pipeline).await;
    assert_eq!(
        pipeline.script.last_prompt()[1..],
        ["User: hello there", "Assistant: One is here. Two and three", "User: hello there"]
    );
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_15_speech_in_realtime_mode_cuts_playback_within_200_ms_of_voice() {
    let mut pipeline = listening("realtime").await;
    pipeline.script.says(TtsAct::Audio { length: ms(9_000), first: ms(50), each: ms(5) });
    speak(&pipeline).await;
    pipeline.until("tts/sentence_start").await;
    pipeline.stream(sound::silence(1_200)).await;
    let voiced = pipeline.now();
    pipeline.stream(sound::voice(900)).await;
    pipeline.stream(sound::silence(900)).await;
    let stop = pipeline.until("tts/stop").await.at;
    let last = audio_times(&pipeline).into_iter().max().unwrap();
    assert!(last <= stop && last - voiced <= ms(200), "audio went on for {:?}", last - voiced);
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Good day.", "Good day."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_cough_over_the_reply_does_not_cut_the_reply() {
    let mut settings = PipelineSettings::default();
    settings.hearing.barge_in = ms(500);
    for (settings, cough) in [(PipelineSettings::default(), 60), (settings, 420)] {
        let mut pipeline = listening_with(settings, "realtime").await;
        pipeline.script.says(TtsAct::Audio { length: ms(3_000), first: ms(50), each: ms(5) });
        speak(&pipeline).await;
        pipeline.until("tts/sentence_start").await;
        pipeline.stream(sound::silence(600)).await;
        pipeline.stream(sound::voice(cough)).await;
        pipeline.stream(sound::silence(900)).await;
        pipeline.until("tts/stop").await;
        assert_eq!(audio_times(&pipeline).len(), 50, "{cough} ms of voice cut the reply");
        // Between replies the usual length of voice is sufficient again.
        pipeline.stream(sound::voice(420)).await;
        pipeline.stream(sound::silence(900)).await;
        pipeline.until("tts/stop").await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn in_auto_mode_the_microphone_is_ignored_while_speaking() {
    let mut pipeline = listening("auto").await;
    pipeline.script.says(TtsAct::Audio { length: ms(3_000), first: ms(50), each: ms(5) });
    speak(&pipeline).await;
    pipeline.until("tts/sentence_start").await;
    pipeline.stream(sound::voice(1_500)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(audio_times(&pipeline).len(), 50);
    pipeline.pass(ms(5_000)).await;
    assert_eq!(pipeline.names().iter().filter(|n| *n == "stt").count(), 1);
    pipeline.hang_up().await;
}

#[actix::test]
async fn words_before_the_answer_starts_are_joined_to_the_question() {
    let mut pipeline = listening("auto").await;
    pipeline
        .script
        .hears(AsrAct::Text("Tell me", ms(10)))
        .hears(AsrAct::Text("about cats.", ms(10)));
    pipeline.script.thinks(LlmAct::Write(vec!["Tell you what?"], ms(3_000)));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: Tell me about cats."]);
    assert_eq!(shown(&pipeline), ["Good day."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_stop_word_before_the_answer_ends_the_question() {
    for (mode, stop) in [("auto", "停！"), ("auto", "Stop, please."), ("realtime", "停！")] {
        freeze();
        // Stop words are no turn of their own.
        let limits = AdmissionSettings { turns_per_minute: 2, ..AdmissionSettings::default() };
        let rates = TurnRates::new(&limits);
        let mut pipeline = TestPipeline::connect_at(PipelineSettings::default(), rates);
        pipeline.greet(1).await;
        start(&pipeline, mode);
        pipeline.forget();
        pipeline.script.hears(AsrAct::Text("Tell me a story.", ms(10)));
        pipeline.script.hears(AsrAct::Text(stop, ms(10)));
        pipeline.script.thinks(LlmAct::Write(vec!["Too late."], ms(5_000)));
        speak(&pipeline).await;
        pipeline.until("stt").await;
        speak(&pipeline).await;
        pipeline.pass(ms(10_000)).await;
        assert_eq!(transcripts(&pipeline), ["Tell me a story.", stop], "{mode}");
        assert_eq!((prompts(&pipeline).len(), shown(&pipeline).len()), (1, 0), "{mode} {stop}");
        next_turn_works(&mut pipeline).await;
        assert_eq!(pipeline.script.last_prompt()[1..], ["User: hello there"]);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_stop_word_belongs_to_an_unfinished_sentence_and_ends_no_call_for_help() {
    for (begun, stop, asked) in [
        ("Tell me when to", "stop.", "User: Tell me when to stop."),
        ("My baby is choking.", "Stop!", "User: My baby is choking. Stop!"),
    ] {
        let mut pipeline = listening("auto").await;
        pipeline.script.urgent.lock().unwrap().push("choking");
        pipeline.script.hears(AsrAct::Text(begun, ms(10)));
        pipeline.script.hears(AsrAct::Text(stop, ms(10)));
        pipeline.script.thinks(LlmAct::Write(vec!["Too slow."], ms(5_000)));
        speak(&pipeline).await;
        pipeline.until("stt").await;
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert_eq!(pipeline.script.last_prompt()[1..], [asked]);
        assert_eq!(shown(&pipeline), ["Good day."]);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_in_recognition_are_not_lost_when_the_person_goes_on() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("It was the first", ms(1_500)));
    pipeline.script.hears(AsrAct::Text("great sorrow.", ms(100)));
    speak(&pipeline).await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(transcripts(&pipeline), ["It was the first", "great sorrow."]);
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: It was the first great sorrow."]);
    assert_eq!(audio_times(&pipeline).len(), 15, "one answer");
    pipeline.hang_up().await;
}

#[actix::test]
async fn words_are_answered_in_the_order_of_speech() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("It was the first", ms(6_000)));
    pipeline.script.hears(AsrAct::Text("great sorrow.", ms(10)));
    speak(&pipeline).await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: It was the first great sorrow."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn words_wait_at_most_ten_seconds_for_the_recognition_of_earlier_noise() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("never recognised in time", ms(59_000)));
    pipeline.script.hears(AsrAct::Text("", ms(10)));
    pipeline.script.hears(AsrAct::Text("great sorrow.", ms(10)));
    speak(&pipeline).await;
    speak(&pipeline).await;
    speak(&pipeline).await;
    let begun = pipeline.now();
    pipeline.until("tts/stop").await;
    let waited = pipeline.now() - begun;
    assert!(waited > ms(10_000) && waited < ms(14_000), "{waited:?}");
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: great sorrow."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn noise_while_thinking_does_not_drop_the_answer() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("What is the time?", ms(10)));
    pipeline.script.hears(AsrAct::Text("", ms(10)));
    pipeline.script.thinks(LlmAct::Write(vec!["Too slow."], ms(3_000)));
    speak(&pipeline).await;
    pipeline.until("stt").await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Good day."]);
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: What is the time?"]);
    assert_eq!(pipeline.names().iter().filter(|n| *n == "stt").count(), 1);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_17_the_button_while_speaking_starts_a_new_recording() {
    let mut pipeline = listening("manual").await;
    pipeline.script.says(TtsAct::Audio { length: ms(9_000), first: ms(50), each: ms(5) });
    pipeline.stream(sound::voice(600)).await;
    pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    pipeline.until("tts/sentence_start").await;
    pipeline.pass(ms(1_000)).await;
    abort(&pipeline);
    start(&pipeline, "manual");
    pipeline.until("tts/stop").await;
    pipeline.forget();
    pipeline.stream(sound::voice(600)).await;
    pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.names()[..3], ["stt", "llm", "tts/start"]);
    assert_eq!(audio_times(&pipeline).len(), 15);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_17_a_wake_word_while_speaking_cuts_and_greets() {
    let mut pipeline = listening("auto").await;
    pipeline.script.says(TtsAct::Audio { length: ms(9_000), first: ms(50), each: ms(5) });
    speak(&pipeline).await;
    pipeline.until("tts/sentence_start").await;
    pipeline.pass(ms(500)).await;
    pipeline.forget();
    pipeline.text(r#"{"type":"abort","reason":"wake_word_detected"}"#);
    pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
    start(&pipeline, "auto");
    pipeline.until("tts/sentence_end").await;
    pipeline.until("tts/stop").await;
    let names = pipeline.names();
    assert_eq!(names[..4], ["tts/stop", "stt", "tts/start", "tts/sentence_start"]);
    assert_eq!(shown(&pipeline), ["I'm here."], "the last words were English");
    pipeline.hang_up().await;
}
