//! Interruptions in realtime mode: the reply pauses, and ends or resumes when the words are known.
//! Not for replies that are ended by other means.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_dialogue::turn_rate::TurnRates;
use hearken_ports::ProviderErrorKind as Kind;
use hearken_ports::role::{InterruptionManner, RoleSettings};
use hearken_socket::testkit::Received;

use crate::{
    abort, audio_times, freeze, listening, listening_with, ms, next_turn_works, prompts, shown,
    speak, start, transcripts,
};

pub(crate) const STORY: [&str; 3] =
    ["One is here. ", "Two and three and four and five and six. ", "Four."];

/// Returns a device in realtime mode that gets this story, each sentence 2.4 s long, and plays the
/// second one.
pub(crate) async fn playing(settings: PipelineSettings, story: &[&'static str]) -> TestPipeline {
    let mut pipeline = listening_with(settings, "realtime").await;
    pipeline.script.thinks(LlmAct::Write(story.to_vec(), ms(5)));
    for _ in story {
        pipeline.script.says(TtsAct::Audio { length: ms(2_400), first: ms(50), each: ms(1) });
    }
    speak(&pipeline).await;
    while shown(&pipeline).len() < story.len().min(2) {
        pipeline.until("tts/sentence_start").await;
    }
    pipeline.stream(sound::silence(1_200)).await;
    pipeline
}

/// The person says this in half a second, and is silent.
pub(crate) async fn says(pipeline: &mut TestPipeline, act: AsrAct) -> Duration {
    pipeline.script.hears(act);
    let voiced = pipeline.now();
    pipeline.stream(sound::voice(480)).await;
    pipeline.stream(sound::silence(900)).await;
    pipeline.pass(ms(0)).await;
    voiced
}

pub(crate) const fn words(text: &'static str) -> AsrAct {
    AsrAct::Text(text, ms(30))
}

/// Returns the longest silence after this time, while the reply was being played.
fn silence_after(pipeline: &TestPipeline, after: Duration) -> Duration {
    let times: Vec<_> = audio_times(pipeline).into_iter().filter(|at| *at > after).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[actix::test]
async fn words_after_a_silent_first_sentence_get_one_answer_to_both_parts() {
    let mut pipeline = listening("realtime").await;
    pipeline.script.hears(words("Turn on"));
    pipeline.script.thinks(LlmAct::Write(vec!["One. ", "Two."], ms(5)));
    pipeline.script.says(TtsAct::Pieces(Vec::new()));
    pipeline.script.says(TtsAct::Audio { length: ms(2_400), first: ms(9_000), each: ms(1) });
    speak(&pipeline).await;
    pipeline.until("tts/sentence_end").await;
    says(&mut pipeline, words("the lamp.")).await;
    pipeline.until("tts/stop").await;
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: Turn on the lamp."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn turns_that_interrupt_a_reply_count_towards_the_rate_limit() {
    freeze();
    let limits = AdmissionSettings { turns_per_minute: 2, ..AdmissionSettings::default() };
    let rates = TurnRates::new(&limits);
    let mut pipeline = TestPipeline::connect_at(PipelineSettings::default(), rates);
    pipeline.greet(1).await;
    start(&pipeline, "realtime");
    for _ in 0..3 {
        pipeline.script.says(TtsAct::Audio { length: ms(9_000), first: ms(50), each: ms(1) });
    }
    speak(&pipeline).await;
    for (sentences, over) in [(1, "uh-huh"), (2, "What is next?"), (3, "And then?")] {
        told(&mut pipeline, "tts/sentence_start", sentences).await;
        pipeline.stream(sound::silence(1_200)).await;
        says(&mut pipeline, words(over)).await;
    }
    pipeline.until("tts/stop").await;
    assert_eq!(prompts(&pipeline), ["hello there", "What is next?"], "{:?}", shown(&pipeline));
    assert_eq!(pipeline.names().iter().filter(|name| *name == "stt").count(), 2);
    pipeline.pass(ms(60_000)).await;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

/// Waits until this message was received this many times.
pub(crate) async fn told(pipeline: &mut TestPipeline, name: &str, times: usize) {
    while pipeline.log.iter().filter(|down| down.what.name() == name).count() < times {
        pipeline.until(name).await;
    }
}

#[actix::test]
async fn without_words_the_reply_resumes_at_the_first_unheard_sentence() {
    for nothing in [
        words(""),
        words("。"),
        words("嗯嗯。"),
        words("Uh-huh."),
        AsrAct::Fail(Kind::Unavailable, ms(5)),
    ] {
        let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
        let said = format!("{nothing:?}");
        let voiced = says(&mut pipeline, nothing).await;
        let before: Vec<_> = audio_times(&pipeline).into_iter().filter(|at| *at > voiced).collect();
        assert!(before[0] - voiced < ms(61), "it plays when the voice starts");
        pipeline.until("tts/stop").await;
        assert_eq!(
            shown(&pipeline),
            [
                "One is here.",
                "Two and three and four and five and six.",
                "Two and three and four and five and six.",
                "Four."
            ],
            "{said}"
        );
        // The pause lasts for the voice, and for the silence that ends the utterance.
        let last =
            audio_times(&pipeline).into_iter().filter(|at| *at < voiced + ms(400)).max().unwrap();
        assert!(last - voiced <= ms(200), "{said}: {:?}", last - voiced);
        let paused = silence_after(&pipeline, voiced);
        assert!(paused > ms(700) && paused < ms(1_300), "{said}: {paused:?}");
        assert_eq!(pipeline.names().iter().filter(|name| name.starts_with("tts/st")).count(), 2);
        assert_eq!(
            (prompts(&pipeline).len(), pipeline.names().iter().filter(|n| *n == "stt").count()),
            (1, 1)
        );
        next_turn_works(&mut pipeline).await;
        assert_eq!(
            pipeline.script.last_prompt()[1..],
            [
                "User: hello there",
                "Assistant: One is here. Two and three and four and five and six. Four.",
                "User: hello there"
            ],
        );
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_end_the_reply_and_are_answered() {
    let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
    let voiced = says(&mut pipeline, words("What about five?")).await;
    told(&mut pipeline, "tts/stop", 2).await;
    assert_eq!(
        shown(&pipeline),
        ["One is here.", "Two and three and four and five and six.", "Good day."]
    );
    assert_eq!(transcripts(&pipeline), ["hello there", "What about five?"]);
    let last =
        audio_times(&pipeline).into_iter().filter(|at| *at < voiced + ms(400)).max().unwrap();
    assert!(last - voiced <= ms(200));
    next_turn_works(&mut pipeline).await;
    let prompt = pipeline.script.last_prompt();
    assert_eq!(prompt[1..3], ["User: hello there", "Assistant: One is here. Two and three and"]);
    assert_eq!(prompt[3..5], ["User: What about five?", "Assistant: Good day."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn stop_words_end_the_reply_and_get_no_answer() {
    for stop in ["停！", "Stop, be quiet."] {
        let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
        says(&mut pipeline, words(stop)).await;
        told(&mut pipeline, "tts/stop", 1).await;
        pipeline.pass(ms(5_000)).await;
        assert_eq!((prompts(&pipeline).len(), shown(&pipeline).len()), (1, 2));
        assert_eq!(
            pipeline.log.iter().rfind(|d| d.what.name() == "stt").unwrap().what.text(),
            stop
        );
        assert_eq!(pipeline.names().last().unwrap(), "stt");
        next_turn_works(&mut pipeline).await;
        let prompt = pipeline.script.last_prompt();
        assert_eq!(
            prompt[1..3],
            ["User: hello there", "Assistant: One is here. Two and three and"]
        );
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn after_a_question_and_in_the_last_second_a_backchannel_is_an_answer() {
    for (story, more) in
        [(&["So it is. ", "Shall I go on? "][..], 0), (&["So it is. ", "And that is all. "], 660)]
    {
        let mut pipeline = playing(PipelineSettings::default(), story).await;
        pipeline.stream(sound::silence(more)).await;
        says(&mut pipeline, words("Yes.")).await;
        told(&mut pipeline, "tts/stop", 2).await;
        assert_eq!(shown(&pipeline).last().unwrap(), "Good day.", "{story:?}");
        assert_eq!(pipeline.script.last_prompt().last().unwrap(), "User: Yes.");
        pipeline.hang_up().await;
    }
    // Before the last second, a backchannel is not an answer.
    let mut pipeline =
        playing(PipelineSettings::default(), &["So it is. ", "And that is all. "]).await;
    says(&mut pipeline, words("Yes.")).await;
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["So it is.", "And that is all.", "And that is all."]);
    pipeline.hang_up().await;
}

const ASKING: [&str; 6] = [
    "That is how it is. ",
    "Shall I go on? ",
    "Please say yes or no. ",
    "I am waiting for it. ",
    "Then I go on with it. ",
    "And this is the end.",
];

#[actix::test]
async fn a_backchannel_answers_a_question_that_is_at_most_two_sentences_back() {
    for (more, is_answer) in [(1_800, true), (4_200, true), (6_600, false)] {
        let mut pipeline = playing(PipelineSettings::default(), &ASKING).await;
        pipeline.stream(sound::silence(more)).await;
        says(&mut pipeline, words("Yes.")).await;
        told(&mut pipeline, "tts/stop", if is_answer { 2 } else { 1 }).await;
        let asked = prompts(&pipeline);
        let expected: &[&str] = if is_answer { &["hello there", "Yes."] } else { &["hello there"] };
        assert_eq!(asked, expected, "{more}: {:?}", shown(&pipeline));
        pipeline.hang_up().await;
    }
    // A sentence that is sent again after a noise counts once.
    let mut pipeline = playing(PipelineSettings::default(), &ASKING).await;
    pipeline.stream(sound::silence(1_200)).await;
    for _ in 0..3 {
        pipeline.stream(sound::silence(600)).await;
        says(&mut pipeline, words("")).await;
    }
    says(&mut pipeline, words("Yes.")).await;
    told(&mut pipeline, "tts/stop", 2).await;
    assert_eq!(prompts(&pipeline), ["hello there", "Yes."], "{:?}", shown(&pipeline));
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_slow_recogniser_pauses_the_reply_for_two_seconds_and_its_words_still_count() {
    for (late, expected) in [("", 4), ("Enough of that, please.", 4)] {
        let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
        let voiced = says(&mut pipeline, AsrAct::Text(late, ms(4_000))).await;
        pipeline.until("tts/sentence_start").await;
        let paused = silence_after(&pipeline, voiced).max(pipeline.now() - voiced - ms(200));
        assert!(paused > ms(2_000) && paused < ms(3_400), "{paused:?}");
        pipeline.until("tts/stop").await;
        if !late.is_empty() {
            pipeline.until("tts/stop").await;
            assert_eq!(pipeline.script.last_prompt().last().unwrap(), &format!("User: {late}"));
        }
        assert_eq!(shown(&pipeline).len(), expected, "{:?}", shown(&pipeline));
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_before_the_first_were_understood_get_one_answer_to_both_parts() {
    let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
    says(&mut pipeline, AsrAct::Text("Wait a", ms(1_000))).await;
    says(&mut pipeline, words("minute.")).await;
    told(&mut pipeline, "tts/stop", 2).await;
    assert_eq!(
        shown(&pipeline),
        ["One is here.", "Two and three and four and five and six.", "Good day."]
    );
    assert_eq!(pipeline.script.last_prompt().last().unwrap(), "User: Wait a minute.");
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_second_sound_ends_the_reply_only_if_one_of_both_has_words() {
    const GOES_ON: &[&str] = &["hello there"];
    let cases: [(&str, &str, usize, &[&str]); 6] = [
        ("", "", 4, GOES_ON),
        ("嗯嗯。", "", 4, GOES_ON),
        ("", "Mm-hmm.", 4, GOES_ON),
        ("", "What is it?", 3, &["hello there", "What is it?"]),
        ("What is it?", "", 3, &["hello there", "What is it?"]),
        ("Stop.", "What is it?", 3, &["hello there", "What is it?"]),
    ];
    for (first, second, sentences, asked) in cases {
        let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
        let voiced = says(&mut pipeline, AsrAct::Text(first, ms(1_000))).await;
        let second_at = says(&mut pipeline, words(second)).await;
        let said = format!("{first:?}, {second:?}");
        told(&mut pipeline, "tts/stop", asked.len()).await;
        let all = audio_times(&pipeline);
        let last = all.iter().filter(|at| **at < voiced + ms(700)).max().unwrap();
        assert!(*last - voiced <= ms(200), "{said}: {:?}", *last - voiced);
        assert!(all.iter().all(|at| *at <= *last || *at > second_at), "{said}: it plays meanwhile");
        assert_eq!(shown(&pipeline).len(), sentences, "{said}: {:?}", shown(&pipeline));
        assert_eq!(prompts(&pipeline), asked, "{said}");
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn sound_before_the_first_sentence_delays_it_and_words_join_the_question() {
    let cases: [(&str, &[&str], &[&str]); 2] = [
        ("", &["One.", "Two."], &["hello there"]),
        ("And you?", &["Good day."], &["hello there", "hello there And you?"]),
    ];
    for (said, sentences, asked) in cases {
        let mut pipeline = listening("realtime").await;
        pipeline.script.thinks(LlmAct::Write(vec!["One. ", "Two."], ms(5)));
        pipeline.script.says(TtsAct::Audio { length: ms(900), first: ms(900), each: ms(1) });
        pipeline.script.says(TtsAct::Audio { length: ms(900), first: ms(50), each: ms(1) });
        speak(&pipeline).await;
        pipeline.until("tts/start").await;
        let voiced = says(&mut pipeline, words(said)).await;
        told(&mut pipeline, "tts/stop", asked.len()).await;
        assert!(audio_times(&pipeline).iter().all(|at| *at > voiced + ms(480 + 600)), "{said:?}");
        assert_eq!(shown(&pipeline), sentences, "{said:?}");
        assert_eq!(prompts(&pipeline), asked, "{said:?}");
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn words_during_generation_follow_the_reply_in_memory() {
    let mut pipeline = listening("realtime").await;
    pipeline
        .script
        .thinks(LlmAct::Write(vec!["One is here. ", "Two is there. ", "Three."], ms(2_000)));
    pipeline.script.says(TtsAct::Audio { length: ms(2_400), first: ms(50), each: ms(1) });
    speak(&pipeline).await;
    pipeline.until("tts/sentence_start").await;
    pipeline.stream(sound::silence(1_200)).await;
    says(&mut pipeline, AsrAct::Text("Wait a", ms(1_000))).await;
    says(&mut pipeline, words("minute.")).await;
    told(&mut pipeline, "tts/stop", 2).await;
    let prompt = pipeline.script.last_prompt();
    assert_eq!(prompt[1], "User: hello there");
    assert!(prompt[2].starts_with("Assistant: One"), "{prompt:?}");
    assert_eq!(prompt[3..], ["User: Wait a minute."]);
    assert_eq!(transcripts(&pipeline), ["hello there", "Wait a", "minute."]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn endless_speech_ends_the_reply() {
    let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
    for _ in 0..8 {
        says(&mut pipeline, AsrAct::Text("", ms(60_000))).await;
    }
    assert_eq!(pipeline.log.iter().filter(|down| down.what.name() == "tts/stop").count(), 0);
    says(&mut pipeline, words("Is it on?")).await;
    told(&mut pipeline, "tts/stop", 2).await;
    assert_eq!(pipeline.script.last_prompt().last().unwrap(), "User: Is it on?");
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_paused_reply_can_be_aborted_and_lost() {
    let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
    says(&mut pipeline, AsrAct::Text("Wait", ms(1_500))).await;
    pipeline.forget();
    abort(&pipeline);
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(10_000)).await;
    assert_eq!((pipeline.names(), prompts(&pipeline).len()), (vec!["tts/stop".to_owned()], 1));
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
    let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
    says(&mut pipeline, AsrAct::Text("Wait", ms(1_500))).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_reply_may_be_interrupted_again_and_again_and_memory_is_what_was_heard() {
    let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
    for times in 3..6 {
        says(&mut pipeline, words("嗯")).await;
        told(&mut pipeline, "tts/sentence_start", times).await;
    }
    // The first time, more of the second sentence was heard than now.
    says(&mut pipeline, words("Stop.")).await;
    told(&mut pipeline, "tts/stop", 1).await;
    assert_eq!(
        shown(&pipeline),
        [
            "One is here.",
            "Two and three and four and five and six.",
            "Two and three and four and five and six.",
            "Two and three and four and five and six.",
            "Two and three and four and five and six."
        ]
    );
    next_turn_works(&mut pipeline).await;
    let prompt = pipeline.script.last_prompt();
    assert_eq!(prompt[1..3], ["User: hello there", "Assistant: One is here. Two and three and"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_reply_that_is_all_sent_ends_after_a_noise_without_being_repeated() {
    let mut pipeline =
        playing(PipelineSettings::default(), &["So it is. ", "And that is all. "]).await;
    // All packets are sent, and the last one is not played yet.
    while audio_times(&pipeline).len() < 80 {
        pipeline.stream(sound::silence(60)).await;
        pipeline.pass(ms(0)).await;
    }
    says(&mut pipeline, words("")).await;
    told(&mut pipeline, "tts/stop", 1).await;
    assert_eq!(shown(&pipeline), ["So it is.", "And that is all."]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn text_that_the_model_writes_during_a_pause_is_spoken() {
    let mut pipeline = listening("realtime").await;
    pipeline.script.thinks(LlmAct::Write(vec!["One is here. ", "Two. ", "Three."], ms(900)));
    for _ in 0..3 {
        pipeline.script.says(TtsAct::Audio { length: ms(900), first: ms(50), each: ms(1) });
    }
    speak(&pipeline).await;
    pipeline.until("tts/sentence_start").await;
    pipeline.stream(sound::silence(420)).await;
    says(&mut pipeline, words("嗯")).await;
    pipeline.until("tts/stop").await;
    let mut sentences = shown(&pipeline);
    sentences.dedup();
    assert_eq!(sentences, ["One is here.", "Two.", "Three."]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn at_the_limit_of_turns_an_interruption_takes_the_permit_of_the_reply() {
    let mut settings = PipelineSettings::default();
    settings.admission.max_turns = 1;
    for (said, expected) in [("What else?", "Good day."), ("嗯", "Four.")] {
        let mut pipeline = playing(settings.clone(), &STORY).await;
        says(&mut pipeline, words(said)).await;
        told(&mut pipeline, "tts/stop", if expected == "Good day." { 2 } else { 1 }).await;
        assert_eq!(shown(&pipeline).last().unwrap(), expected);
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
    let mut pipeline = playing(settings, &STORY).await;
    says(&mut pipeline, AsrAct::Text("Wait a", ms(2_500))).await;
    says(&mut pipeline, words("minute.")).await;
    told(&mut pipeline, "tts/stop", 2).await;
    assert_eq!(prompts(&pipeline), ["hello there", "Wait a minute."]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn with_pausing_off_any_voice_ends_a_reply() {
    let mut settings = PipelineSettings::default();
    settings.interruption.pause = false;
    let mut pipeline = playing(settings, &STORY).await;
    pipeline.script.hears(words("嗯"));
    let voiced = pipeline.now();
    pipeline.stream(sound::voice(480)).await;
    let stop = pipeline.until("tts/stop").await.at;
    assert!(stop - voiced < ms(300), "{:?}", stop - voiced);
    pipeline.stream(sound::silence(900)).await;
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.script.last_prompt().last().unwrap(), "User: 嗯");
    pipeline.hang_up().await;
}

#[actix::test]
async fn the_role_of_a_device_decides_whether_voice_pauses_or_ends_a_reply() {
    for (configured, manner) in
        [(true, InterruptionManner::Cut), (false, InterruptionManner::Pause)]
    {
        let mut settings = PipelineSettings::default();
        settings.interruption.pause = configured;
        let mut pipeline = playing(settings, &STORY).await;
        let role = RoleSettings { interruption: Some(manner), ..RoleSettings::default() };
        // The role is assigned while the reply is played, and applies at once.
        pipeline.script.style.lock().unwrap().role =
            Some(Arc::new(AssignedRole { settings: role, ..AssignedRole::default() }));
        pipeline.script.hears(words("嗯"));
        let voiced = pipeline.now();
        pipeline.stream(sound::voice(480)).await;
        pipeline.stream(sound::silence(900)).await;
        let stop = pipeline.until("tts/stop").await.at;
        let ended = stop - voiced < ms(300);
        assert_eq!(ended, manner == InterruptionManner::Cut, "{manner:?}: {:?}", stop - voiced);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_paused_reply_sends_only_answers_to_the_device() {
    let mut pipeline = playing(PipelineSettings::default(), &STORY).await;
    pipeline.script.hears(words(""));
    pipeline.stream(sound::voice(480)).await;
    pipeline.pass(ms(0)).await;
    pipeline.forget();
    pipeline.stream(sound::voice(3_000)).await;
    pipeline.pass(ms(0)).await;
    assert!(
        pipeline.log.iter().all(|down| !matches!(down.what, Received::Audio(_))),
        "{:?}",
        pipeline.names()
    );
    pipeline.stream(sound::silence(900)).await;
    pipeline.until("tts/stop").await;
    pipeline.hang_up().await;
}
