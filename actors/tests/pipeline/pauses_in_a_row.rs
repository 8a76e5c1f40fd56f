//! Several utterances over one reply, and other events while it is paused: no words are lost, and
//! no other turn takes its permit. Not for single utterances, which are in `pauses`.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};

use crate::pauses::{STORY, playing, says, told, words};
use crate::{listening, ms, next_turn_works, prompts, shown, speak, start};

#[actix::test]
async fn words_are_answered_although_later_noise_was_recognised_first() {
    for recogniser in [ms(1_000), ms(1_500), ms(2_500), ms(3_000)] {
        let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
        says(&mut pipeline, AsrAct::Text("What is it?", recogniser)).await;
        says(&mut pipeline, words("")).await;
        told(&mut pipeline, "tts/stop", 2).await;
        assert_eq!(prompts(&pipeline), ["hello there", "What is it?"], "{recogniser:?}");
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn endless_speech_before_the_first_sentence_is_answered_once() {
    let mut pipeline = listening("realtime").await;
    pipeline.script.thinks(LlmAct::Write(vec!["One. ", "Two."], ms(5)));
    pipeline.script.says(TtsAct::Audio { length: ms(900), first: ms(25_000), each: ms(1) });
    speak(&pipeline).await;
    pipeline.until("tts/start").await;
    for _ in 0..8 {
        says(&mut pipeline, AsrAct::Text("", ms(60_000))).await;
    }
    says(&mut pipeline, words("Is it on?")).await;
    told(&mut pipeline, "tts/stop", 2).await;
    assert_eq!(prompts(&pipeline), ["hello there", "hello there Is it on?"]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn at_the_limit_of_turns_no_other_turn_takes_the_permit_of_a_paused_reply() {
    let mut settings = PipelineSettings::default();
    settings.admission.max_turns = 1;
    let mut pipeline = playing(settings, &STORY).await;
    pipeline.script.hears(words(""));
    let taken = |pipeline: &TestPipeline| pipeline.admission().try_acquire().is_none();
    pipeline.stream(sound::voice(480)).await;
    for pause in [0, 300, 300] {
        pipeline.stream(sound::silence(pause)).await;
        assert!(taken(&pipeline), "{pause} ms of silence");
    }
    pipeline.stream(sound::silence(300)).await;
    told(&mut pipeline, "tts/stop", 1).await;
    assert_eq!(shown(&pipeline).last().unwrap(), "Four.", "it has gone on");
    pipeline.pass(ms(100)).await;
    assert!(!taken(&pipeline), "the permit is free after it");
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_mode_chosen_during_a_reply_has_its_own_voice_threshold() {
    let mut settings = PipelineSettings::default();
    settings.hearing.barge_in = ms(600);
    for mode in ["auto", "manual"] {
        let mut pipeline = playing(settings.clone(), &STORY).await;
        start(&pipeline, mode);
        if mode == "manual" {
            pipeline.text(r#"{"type":"listen","state":"stop"}"#);
            start(&pipeline, "auto");
        }
        told(&mut pipeline, "tts/stop", 1).await;
        start(&pipeline, "auto");
        pipeline.forget();
        pipeline.script.hears(words("Now?"));
        pipeline.stream(sound::voice(420)).await;
        pipeline.stream(sound::silence(900)).await;
        pipeline.until("stt").await;
        pipeline.until("tts/stop").await;
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}
