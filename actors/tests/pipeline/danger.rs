//! Words of a person in danger, and further words: the rules know both in each listening mode,
//! whatever the person has heard of the reply and whatever the model remembers. Not for the rules.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::testkit::{AsrAct, TtsAct};
use hearken_ports::role::RoleSettings;

use crate::{abort, listening, ms, start};

const DANGER: &str = "He is choking.";
const FURTHER: &str = "What now?";

/// The part of the reply that was heard when the person asks further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    All,
    /// Less than a word.
    Begun,
    Nothing,
}

/// A person says this in a listening mode, and ends it by silence or by the button.
async fn says(pipeline: &TestPipeline, mode: &str, words: &'static str) {
    pipeline.script.hears(AsrAct::Text(words, ms(50)));
    start(pipeline, mode);
    pipeline.stream(sound::voice(1_000)).await;
    if mode == "manual" {
        pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    } else {
        pipeline.stream(sound::silence(900)).await;
    }
}

/// Returns what the rules know when the model is asked about the further words: the earlier words,
/// and the last ones.
fn known(pipeline: &TestPipeline) -> String {
    let prompts = pipeline.script.prompts.lock().unwrap();
    let asked = prompts.iter().rfind(|prompt| {
        prompt.messages.last().is_some_and(|message| message.content.ends_with(FURTHER))
    });
    let asked = asked.expect("the model is asked");
    let last = asked.messages.last().unwrap().content.clone();
    asked.earlier.words.iter().cloned().chain([last]).collect::<Vec<_>>().join(" ")
}

#[actix::test]
async fn further_words_are_known_with_the_danger_before_them() {
    for mode in ["auto", "manual", "realtime"] {
        for memory in [true, false] {
            for heard in [Heard::All, Heard::Begun, Heard::Nothing] {
                let case = format!("{mode}, memory {memory}, heard {heard:?}");
                let mut pipeline = listening(mode).await;
                let settings = RoleSettings { memory, ..RoleSettings::default() };
                let role = AssignedRole { settings, ..AssignedRole::default() };
                pipeline.script.style.lock().unwrap().role = Some(Arc::new(role));
                let first = if heard == Heard::Nothing { ms(60_000) } else { ms(50) };
                pipeline.script.says(TtsAct::Audio { length: ms(6_000), first, each: ms(5) });
                says(&pipeline, mode, DANGER).await;
                match heard {
                    Heard::All => {
                        pipeline.until("tts/stop").await;
                    }
                    Heard::Begun => {
                        pipeline.until("audio").await;
                        pipeline.pass(ms(100)).await;
                    }
                    Heard::Nothing => pipeline.pass(ms(1_000)).await,
                }
                // In this mode the microphone is closed during a reply: the button ends it.
                if mode == "auto" {
                    abort(&pipeline);
                }
                says(&pipeline, mode, FURTHER).await;
                pipeline.pass(Duration::from_secs(5)).await;
                assert_eq!(known(&pipeline), format!("{DANGER} {FURTHER}"), "{case}");
                pipeline.hang_up().await;
            }
        }
    }
}

#[actix::test]
async fn further_words_in_the_next_connection_are_known_with_the_danger_before_them() {
    for memory in [true, false] {
        for is_cut in [false, true] {
            let case = format!("memory {memory}, cut {is_cut}");
            let mut pipeline = listening("auto").await;
            let settings = RoleSettings { memory, ..RoleSettings::default() };
            let role = AssignedRole { settings, ..AssignedRole::default() };
            pipeline.script.style.lock().unwrap().role = Some(Arc::new(role));
            let first = if is_cut { ms(60_000) } else { ms(50) };
            pipeline.script.says(TtsAct::Audio { length: ms(2_000), first, each: ms(5) });
            says(&pipeline, "auto", DANGER).await;
            if is_cut {
                // The connection is lost before anything of the reply is heard.
                pipeline.pass(ms(1_000)).await;
            } else {
                // The device is silent, and gets the farewell.
                pipeline.until("closed 1000").await;
            }
            pipeline.lose();
            pipeline.pass(ms(1_000)).await;
            let mut again = pipeline.again();
            again.greet(1).await;
            says(&again, "auto", FURTHER).await;
            again.pass(Duration::from_secs(5)).await;
            assert_eq!(known(&again), format!("{DANGER} {FURTHER}"), "{case}");
            again.hang_up().await;
        }
    }
}
