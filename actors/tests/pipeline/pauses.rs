//! Voice while a reply is played in realtime mode: the reply pauses, and ends or goes on when it is known what was said.
//! Not for replies that are ended by other means.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_ports::ProviderErrorKind as Kind;
use hearken_ports::role::{InterruptionManner, RoleSettings};
use hearken_socket::testkit::Received;

use crate::{
    abort, audio_times, listening, listening_with, ms, next_turn_works, prompts, shown, speak,
    transcripts,
};

pub(crate) const STORY: [&str; 3] =
    ["One is here. ", "Two and three and four and five and six. ", "Four."];

/// A device in realtime mode that is told this, each sentence 2.4 s long, until it plays the second.
pub(crate) async fn playing(settings: PipelineSettings, story: &[&'static str]) -> TestPipeline {
    let mut ring = listening_with(settings, "realtime").await;
    ring.script.thinks(LlmAct::Write(story.to_vec(), ms(5)));
    for _ in story {
        ring.script.says(TtsAct::Audio { length: ms(2_400), first: ms(50), each: ms(1) });
    }
    speak(&ring).await;
    while shown(&ring).len() < story.len().min(2) {
        ring.until("tts/sentence_start").await;
    }
    ring.stream(sound::silence(1_200)).await;
    ring
}

/// The person says this in half a second, and is silent.
pub(crate) async fn says(ring: &mut TestPipeline, act: AsrAct) -> Duration {
    ring.script.hears(act);
    let voiced = ring.now();
    ring.stream(sound::voice(480)).await;
    ring.stream(sound::silence(900)).await;
    ring.pass(ms(0)).await;
    voiced
}

pub(crate) const fn words(text: &'static str) -> AsrAct {
    AsrAct::Text(text, ms(30))
}

/// Longest time for which nothing was played after this, while the reply was being played.
fn silence_after(ring: &TestPipeline, after: Duration) -> Duration {
    let times: Vec<_> = audio_times(ring).into_iter().filter(|at| *at > after).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// Waits until this was told so often.
pub(crate) async fn told(ring: &mut TestPipeline, name: &str, times: usize) {
    while ring.log.iter().filter(|down| down.what.name() == name).count() < times {
        ring.until(name).await;
    }
}

#[actix::test]
async fn without_words_the_reply_goes_on_with_the_first_sentence_that_was_not_heard() {
    for nothing in [
        words(""),
        words("。"),
        words("嗯嗯。"),
        words("Uh-huh."),
        AsrAct::Fail(Kind::Unavailable, ms(5)),
    ] {
        let mut ring = playing(PipelineSettings::default(), &STORY).await;
        let said = format!("{nothing:?}");
        let voiced = says(&mut ring, nothing).await;
        let before: Vec<_> = audio_times(&ring).into_iter().filter(|at| *at > voiced).collect();
        assert!(before[0] - voiced < ms(61), "it plays when the voice begins");
        ring.until("tts/stop").await;
        assert_eq!(
            shown(&ring),
            [
                "One is here.",
                "Two and three and four and five and six.",
                "Two and three and four and five and six.",
                "Four."
            ],
            "{said}"
        );
        // From voice to silence, and how long it lasts: the voice, and the silence that ends the utterance.
        let last =
            audio_times(&ring).into_iter().filter(|at| *at < voiced + ms(400)).max().unwrap();
        assert!(last - voiced <= ms(200), "{said}: {:?}", last - voiced);
        let paused = silence_after(&ring, voiced);
        assert!(paused > ms(700) && paused < ms(1_300), "{said}: {paused:?}");
        assert_eq!(ring.names().iter().filter(|name| name.starts_with("tts/st")).count(), 2);
        assert_eq!(
            (prompts(&ring).len(), ring.names().iter().filter(|n| *n == "stt").count()),
            (1, 1)
        );
        next_turn_works(&mut ring).await;
        assert_eq!(
            ring.script.last_prompt()[1..],
            [
                "User: hello there",
                "Assistant: One is here. Two and three and four and five and six. Four.",
                "User: hello there"
            ],
        );
        ring.hang_up().await;
    }
}

#[actix::test]
async fn words_end_the_reply_and_are_answered() {
    let mut ring = playing(PipelineSettings::default(), &STORY).await;
    let voiced = says(&mut ring, words("What about five?")).await;
    told(&mut ring, "tts/stop", 2).await;
    assert_eq!(
        shown(&ring),
        ["One is here.", "Two and three and four and five and six.", "Good day."]
    );
    assert_eq!(transcripts(&ring), ["hello there", "What about five?"]);
    let last = audio_times(&ring).into_iter().filter(|at| *at < voiced + ms(400)).max().unwrap();
    assert!(last - voiced <= ms(200));
    next_turn_works(&mut ring).await;
    let prompt = ring.script.last_prompt();
    assert_eq!(prompt[1..3], ["User: hello there", "Assistant: One is here. Two and three and"]);
    assert_eq!(prompt[3..5], ["User: What about five?", "Assistant: Good day."]);
    ring.hang_up().await;
}

#[actix::test]
async fn stop_words_end_the_reply_and_want_no_answer() {
    for stop in ["停！", "Stop, be quiet."] {
        let mut ring = playing(PipelineSettings::default(), &STORY).await;
        says(&mut ring, words(stop)).await;
        told(&mut ring, "tts/stop", 1).await;
        ring.pass(ms(5_000)).await;
        assert_eq!((prompts(&ring).len(), shown(&ring).len()), (1, 2));
        assert_eq!(ring.log.iter().rfind(|d| d.what.name() == "stt").unwrap().what.text(), stop);
        assert_eq!(ring.names().last().unwrap(), "stt");
        next_turn_works(&mut ring).await;
        let prompt = ring.script.last_prompt();
        assert_eq!(
            prompt[1..3],
            ["User: hello there", "Assistant: One is here. Two and three and"]
        );
        ring.hang_up().await;
    }
}

#[actix::test]
async fn after_a_question_and_in_the_last_second_a_backchannel_is_an_answer() {
    for (story, more) in
        [(&["So it is. ", "Shall I go on? "][..], 0), (&["So it is. ", "And that is all. "], 660)]
    {
        let mut ring = playing(PipelineSettings::default(), story).await;
        ring.stream(sound::silence(more)).await;
        says(&mut ring, words("Yes.")).await;
        told(&mut ring, "tts/stop", 2).await;
        assert_eq!(shown(&ring).last().unwrap(), "Good day.", "{story:?}");
        assert_eq!(ring.script.last_prompt().last().unwrap(), "User: Yes.");
        ring.hang_up().await;
    }
    // Before its last second, it is none.
    let mut ring = playing(PipelineSettings::default(), &["So it is. ", "And that is all. "]).await;
    says(&mut ring, words("Yes.")).await;
    ring.until("tts/stop").await;
    assert_eq!(shown(&ring), ["So it is.", "And that is all.", "And that is all."]);
    ring.hang_up().await;
}

#[actix::test]
async fn a_slow_recogniser_holds_up_the_reply_for_two_seconds_and_is_still_heard() {
    for (late, expected) in [("", 4), ("Enough of that, please.", 4)] {
        let mut ring = playing(PipelineSettings::default(), &STORY).await;
        let voiced = says(&mut ring, AsrAct::Text(late, ms(4_000))).await;
        ring.until("tts/sentence_start").await;
        let paused = silence_after(&ring, voiced).max(ring.now() - voiced - ms(200));
        assert!(paused > ms(2_000) && paused < ms(3_400), "{paused:?}");
        ring.until("tts/stop").await;
        if !late.is_empty() {
            ring.until("tts/stop").await;
            assert_eq!(ring.script.last_prompt().last().unwrap(), &format!("User: {late}"));
        }
        assert_eq!(shown(&ring).len(), expected, "{:?}", shown(&ring));
        next_turn_works(&mut ring).await;
        ring.hang_up().await;
    }
}

#[actix::test]
async fn who_speaks_again_before_the_first_was_understood_is_answered_to_both() {
    let mut ring = playing(PipelineSettings::default(), &STORY).await;
    says(&mut ring, AsrAct::Text("Wait a", ms(1_000))).await;
    says(&mut ring, words("minute.")).await;
    told(&mut ring, "tts/stop", 2).await;
    assert_eq!(
        shown(&ring),
        ["One is here.", "Two and three and four and five and six.", "Good day."]
    );
    assert_eq!(ring.script.last_prompt().last().unwrap(), "User: Wait a minute.");
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn a_second_sound_ends_the_reply_only_where_the_first_or_it_is_words() {
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
        let mut ring = playing(PipelineSettings::default(), &STORY).await;
        let voiced = says(&mut ring, AsrAct::Text(first, ms(1_000))).await;
        let second_at = says(&mut ring, words(second)).await;
        let said = format!("{first:?}, {second:?}");
        told(&mut ring, "tts/stop", asked.len()).await;
        let all = audio_times(&ring);
        let last = all.iter().filter(|at| **at < voiced + ms(700)).max().unwrap();
        assert!(*last - voiced <= ms(200), "{said}: {:?}", *last - voiced);
        assert!(all.iter().all(|at| *at <= *last || *at > second_at), "{said}: it plays meanwhile");
        assert_eq!(shown(&ring).len(), sentences, "{said}: {:?}", shown(&ring));
        assert_eq!(prompts(&ring), asked, "{said}");
        next_turn_works(&mut ring).await;
        ring.hang_up().await;
    }
}

#[actix::test]
async fn a_sound_before_the_first_sentence_holds_it_back_and_words_belong_to_the_question() {
    let cases: [(&str, &[&str], &[&str]); 2] = [
        ("", &["One.", "Two."], &["hello there"]),
        ("And you?", &["Good day."], &["hello there", "hello there And you?"]),
    ];
    for (said, sentences, asked) in cases {
        let mut ring = listening("realtime").await;
        ring.script.thinks(LlmAct::Write(vec!["One. ", "Two."], ms(5)));
        ring.script.says(TtsAct::Audio { length: ms(900), first: ms(900), each: ms(1) });
        ring.script.says(TtsAct::Audio { length: ms(900), first: ms(50), each: ms(1) });
        speak(&ring).await;
        ring.until("tts/start").await;
        let voiced = says(&mut ring, words(said)).await;
        told(&mut ring, "tts/stop", asked.len()).await;
        assert!(audio_times(&ring).iter().all(|at| *at > voiced + ms(480 + 600)), "{said:?}");
        assert_eq!(shown(&ring), sentences, "{said:?}");
        assert_eq!(prompts(&ring), asked, "{said:?}");
        next_turn_works(&mut ring).await;
        ring.hang_up().await;
    }
}

#[actix::test]
async fn words_that_come_while_the_model_still_writes_stand_behind_its_reply() {
    let mut ring = listening("realtime").await;
    ring.script.thinks(LlmAct::Write(vec!["One is here. ", "Two is there. ", "Three."], ms(2_000)));
    ring.script.says(TtsAct::Audio { length: ms(2_400), first: ms(50), each: ms(1) });
    speak(&ring).await;
    ring.until("tts/sentence_start").await;
    ring.stream(sound::silence(1_200)).await;
    says(&mut ring, AsrAct::Text("Wait a", ms(1_000))).await;
    says(&mut ring, words("minute.")).await;
    told(&mut ring, "tts/stop", 2).await;
    let prompt = ring.script.last_prompt();
    assert_eq!(prompt[1], "User: hello there");
    assert!(prompt[2].starts_with("Assistant: One"), "{prompt:?}");
    assert_eq!(prompt[3..], ["User: Wait a minute."]);
    assert_eq!(transcripts(&ring), ["hello there", "Wait a", "minute."]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn who_never_stops_speaking_ends_the_reply() {
    let mut ring = playing(PipelineSettings::default(), &STORY).await;
    for _ in 0..8 {
        says(&mut ring, AsrAct::Text("", ms(60_000))).await;
    }
    assert_eq!(ring.log.iter().filter(|down| down.what.name() == "tts/stop").count(), 0);
    says(&mut ring, words("Is it on?")).await;
    told(&mut ring, "tts/stop", 2).await;
    assert_eq!(ring.script.last_prompt().last().unwrap(), "User: Is it on?");
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn a_paused_reply_can_be_aborted_and_lost() {
    let mut ring = playing(PipelineSettings::default(), &STORY).await;
    says(&mut ring, AsrAct::Text("Wait", ms(1_500))).await;
    ring.forget();
    abort(&ring);
    ring.until("tts/stop").await;
    ring.pass(ms(10_000)).await;
    assert_eq!((ring.names(), prompts(&ring).len()), (vec!["tts/stop".to_owned()], 1));
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
    let mut ring = playing(PipelineSettings::default(), &STORY).await;
    says(&mut ring, AsrAct::Text("Wait", ms(1_500))).await;
    ring.hang_up().await;
}

#[actix::test]
async fn a_reply_may_be_interrupted_again_and_again_and_memory_is_what_was_heard() {
    let mut ring = playing(PipelineSettings::default(), &STORY).await;
    for times in 3..6 {
        says(&mut ring, words("嗯")).await;
        told(&mut ring, "tts/sentence_start", times).await;
    }
    // Of the second sentence more was heard the first time than now.
    says(&mut ring, words("Stop.")).await;
    told(&mut ring, "tts/stop", 1).await;
    assert_eq!(
        shown(&ring),
        [
            "One is here.",
            "Two and three and four and five and six.",
            "Two and three and four and five and six.",
            "Two and three and four and five and six.",
            "Two and three and four and five and six."
        ]
    );
    next_turn_works(&mut ring).await;
    let prompt = ring.script.last_prompt();
    assert_eq!(prompt[1..3], ["User: hello there", "Assistant: One is here. Two and three and"]);
    ring.hang_up().await;
}

#[actix::test]
async fn a_reply_that_is_all_sent_ends_after_a_noise_without_being_repeated() {
    let mut ring = playing(PipelineSettings::default(), &["So it is. ", "And that is all. "]).await;
    // All packets are sent, and the last one is not played.
    while audio_times(&ring).len() < 80 {
        ring.stream(sound::silence(60)).await;
        ring.pass(ms(0)).await;
    }
    says(&mut ring, words("")).await;
    told(&mut ring, "tts/stop", 1).await;
    assert_eq!(shown(&ring), ["So it is.", "And that is all."]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn what_the_model_writes_while_the_reply_is_paused_is_spoken_too() {
    let mut ring = listening("realtime").await;
    ring.script.thinks(LlmAct::Write(vec!["One is here. ", "Two. ", "Three."], ms(900)));
    for _ in 0..3 {
        ring.script.says(TtsAct::Audio { length: ms(900), first: ms(50), each: ms(1) });
    }
    speak(&ring).await;
    ring.until("tts/sentence_start").await;
    ring.stream(sound::silence(420)).await;
    says(&mut ring, words("嗯")).await;
    ring.until("tts/stop").await;
    let mut sentences = shown(&ring);
    sentences.dedup();
    assert_eq!(sentences, ["One is here.", "Two.", "Three."]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn at_the_limit_of_turns_an_interruption_takes_the_place_of_the_reply() {
    let mut settings = PipelineSettings::default();
    settings.admission.max_turns = 1;
    for (said, expected) in [("What else?", "Good day."), ("嗯", "Four.")] {
        let mut ring = playing(settings.clone(), &STORY).await;
        says(&mut ring, words(said)).await;
        told(&mut ring, "tts/stop", if expected == "Good day." { 2 } else { 1 }).await;
        assert_eq!(shown(&ring).last().unwrap(), expected);
        next_turn_works(&mut ring).await;
        ring.hang_up().await;
    }
    let mut ring = playing(settings, &STORY).await;
    says(&mut ring, AsrAct::Text("Wait a", ms(2_500))).await;
    says(&mut ring, words("minute.")).await;
    told(&mut ring, "tts/stop", 2).await;
    assert_eq!(prompts(&ring), ["hello there", "Wait a minute."]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn where_replies_do_not_pause_any_voice_ends_them() {
    let mut settings = PipelineSettings::default();
    settings.interruption.pause = false;
    let mut ring = playing(settings, &STORY).await;
    ring.script.hears(words("嗯"));
    let voiced = ring.now();
    ring.stream(sound::voice(480)).await;
    let stop = ring.until("tts/stop").await.at;
    assert!(stop - voiced < ms(300), "{:?}", stop - voiced);
    ring.stream(sound::silence(900)).await;
    ring.until("tts/stop").await;
    assert_eq!(ring.script.last_prompt().last().unwrap(), "User: 嗯");
    ring.hang_up().await;
}

#[actix::test]
async fn the_role_of_a_device_decides_whether_voice_pauses_or_ends_a_reply() {
    for (configured, manner) in
        [(true, InterruptionManner::Cut), (false, InterruptionManner::Pause)]
    {
        let mut settings = PipelineSettings::default();
        settings.interruption.pause = configured;
        let mut ring = playing(settings, &STORY).await;
        let role = RoleSettings { interruption: Some(manner), ..RoleSettings::default() };
        // It is given while the reply is played, and holds at once.
        ring.script.style.lock().unwrap().role =
            Some(Arc::new(AssignedRole { settings: role, ..AssignedRole::default() }));
        ring.script.hears(words("嗯"));
        let voiced = ring.now();
        ring.stream(sound::voice(480)).await;
        ring.stream(sound::silence(900)).await;
        let stop = ring.until("tts/stop").await.at;
        let ended = stop - voiced < ms(300);
        assert_eq!(ended, manner == InterruptionManner::Cut, "{manner:?}: {:?}", stop - voiced);
        ring.hang_up().await;
    }
}

#[actix::test]
async fn a_paused_reply_sends_nothing_but_answers_to_what_the_device_asks() {
    let mut ring = playing(PipelineSettings::default(), &STORY).await;
    ring.script.hears(words(""));
    ring.stream(sound::voice(480)).await;
    ring.pass(ms(0)).await;
    ring.forget();
    ring.stream(sound::voice(3_000)).await;
    ring.pass(ms(0)).await;
    assert!(
        ring.log.iter().all(|down| !matches!(down.what, Received::Audio(_))),
        "{:?}",
        ring.names()
    );
    ring.stream(sound::silence(900)).await;
    ring.until("tts/stop").await;
    ring.hang_up().await;
}
