//! Traces of turns: their stages, whether these explain the wait, and how turns end. Not for
//! displaying traces.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_dialogue::turn_trace::{
    ClientKind, JournalSettings, Outcome, Stage, TraceEvent, TracedTurn, TurnJournal, TurnState,
};
use hearken_ports::ProviderErrorKind as Kind;
use hearken_ports::role::Keep;

use crate::{abort, freeze, listening, listening_with, ms, next_turn_works, speak, start};

fn tries(tries: u32) -> PipelineSettings {
    let mut settings = PipelineSettings::default();
    settings.speculation.tries = tries;
    settings
}

/// Latencies of cloud services.
fn upstreams(pipeline: &TestPipeline) {
    pipeline.script.hears(AsrAct::Text("Is it noon?", ms(250)));
    pipeline.script.thinks(LlmAct::Write(vec!["Yes, it is."], ms(350)));
    let length = ms(900);
    let first = ms(150);
    let each = ms(5);
    pipeline.script.says(TtsAct::Audio { length, first, each });
}

fn last(pipeline: &TestPipeline) -> TracedTurn {
    pipeline.turn_journal().last(1).pop().unwrap()
}

fn stages(turn: &TracedTurn) -> Vec<Stage> {
    turn.spans.iter().map(|span| span.stage).collect()
}

/// Returns the part of the wait that no stage explains.
fn unexplained(turn: &TracedTurn) -> Duration {
    let first = turn.events.iter().find(|(event, _)| *event == TraceEvent::FirstPacket).unwrap().1;
    let speech = turn.spans.iter().find(|span| span.stage == Stage::Speech).unwrap();
    let mut explained_until = speech.end.unwrap();
    let mut gaps = Duration::ZERO;
    for span in &turn.spans {
        let start = span.start.min(first);
        let end = span.end.unwrap().min(first);
        gaps += start.saturating_sub(explained_until);
        explained_until = explained_until.max(end);
    }
    gaps + first.saturating_sub(explained_until)
}

#[actix::test]
async fn the_stages_of_a_turn_explain_its_wait() {
    for with_speculations in [0, 3] {
        let mut pipeline = listening_with(tries(with_speculations), "auto").await;
        upstreams(&pipeline);
        speak(&pipeline).await;
        pipeline.until("tts/start").await;
        assert_eq!((last(&pipeline).state, last(&pipeline).outcome), (TurnState::Thinking, None));
        pipeline.until("audio").await;
        assert_eq!(last(&pipeline).state, TurnState::Speaking);
        pipeline.until("tts/stop").await;
        pipeline.pass(ms(1)).await;
        let turn = last(&pipeline);
        assert_eq!((turn.state, turn.outcome), (TurnState::Ended, Some(Outcome::Answered)));
        assert_eq!(turn.kind, ClientKind::Voice);
        assert_eq!(turn.heard.as_deref(), Some("Is it noon?"));
        assert_eq!(turn.said.as_deref(), Some("Yes, it is."));
        let mut expected = vec![
            Stage::Speech,
            Stage::Silence,
            Stage::Recognition,
            Stage::Admission,
            Stage::Prompt,
            Stage::ModelFirstWord,
            Stage::Model,
            Stage::VoiceFirstSound,
            Stage::Voice,
            Stage::Prebuffer,
            Stage::Playback,
        ];
        if with_speculations > 0 {
            expected.push(Stage::Speculation);
        }
        let seen = stages(&turn);
        assert!(expected.iter().all(|stage| seen.contains(stage)), "{seen:?}");
        let wait = turn.wait().unwrap();
        let unexplained = unexplained(&turn);
        assert!(unexplained <= ms(5), "{unexplained:?} of {wait:?}: {:#?}", turn.spans);
        let least = if with_speculations > 0 { ms(750) } else { ms(1_450) };
        assert!((least..least + ms(250)).contains(&wait), "{wait:?}: {:#?}", turn.spans);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_dropped_speculation_leaves_only_its_time_in_the_trace() {
    let mut pipeline = listening_with(tries(3), "auto").await;
    pipeline.script.hears(AsrAct::Text("Is it", ms(0)));
    pipeline.script.thinks(LlmAct::Write(vec!["What?"], ms(1)));
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(540)).await;
    assert!(stages(&last(&pipeline)).contains(&Stage::ModelFirstWord));
    upstreams(&pipeline);
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(1)).await;
    let turn = last(&pipeline);
    let speculations = turn.spans.iter().filter(|span| span.stage == Stage::Speculation);
    let details: Vec<_> = speculations.map(|span| span.detail.as_deref()).collect();
    assert_eq!(details, [Some("withdrawn"), Some("used")]);
    let asked = turn.spans.iter().filter(|span| span.stage == Stage::ModelFirstWord);
    assert_eq!(asked.count(), 1);
    assert_eq!(turn.said.as_deref(), Some("Yes, it is."));
}

#[actix::test]
async fn each_end_of_a_turn_is_recorded() {
    let mut pipeline = listening("auto").await;
    pipeline.script.hears(AsrAct::Text("", ms(0)));
    speak(&pipeline).await;
    pipeline.pass(ms(1)).await;
    assert_eq!(last(&pipeline).outcome, Some(Outcome::Silent));

    pipeline.script.thinks(LlmAct::Fail(Kind::Unavailable, ms(0)));
    start(&pipeline, "auto");
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(1)).await;
    assert_eq!(last(&pipeline).outcome, Some(Outcome::Failed));

    pipeline.forget();
    pipeline.script.thinks(LlmAct::Write(vec!["It is one of many. ", "It is another."], ms(1)));
    start(&pipeline, "auto");
    speak(&pipeline).await;
    pipeline.until("audio").await;
    abort(&pipeline);
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(1)).await;
    let turn = last(&pipeline);
    assert_eq!(turn.outcome, Some(Outcome::Interrupted));
    let said = turn.said.unwrap();
    let cut_off = turn.cut_off.unwrap();
    assert!(said.ends_with(&cut_off) && !cut_off.is_empty(), "{cut_off} of {said}");
    assert!(turn.events.iter().any(|(event, _)| *event == TraceEvent::Cut), "{:?}", turn.events);
    assert!(turn.spans.iter().all(|span| span.end.is_some()));

    next_turn_works(&mut pipeline).await;
    pipeline.pass(ms(1)).await;
    assert_eq!((last(&pipeline).outcome, last(&pipeline).cut_off), (Some(Outcome::Answered), None));
    // Services that answer at once leave the device's own time.
    assert!(stages(&last(&pipeline)).contains(&Stage::StartGuard));
    pipeline.forget();
    pipeline.script.thinks(LlmAct::Write(vec!["Never."], ms(60_000)));
    start(&pipeline, "auto");
    speak(&pipeline).await;
    let journal = pipeline.turn_journal().clone();
    pipeline.hang_up().await;
    assert_eq!(journal.last(1)[0].outcome, Some(Outcome::Interrupted));
    assert_eq!(journal.last(9).len(), 5);
}

#[actix::test]
async fn a_journal_is_limited_and_lists_changed_turns() {
    freeze();
    let journal = TurnJournal::new(JournalSettings { max_turns: 2, words: false });
    let (export, mut exported) = tokio::sync::mpsc::channel(1);
    journal.export(export);
    let traces: Vec<_> =
        ["a", "b", "c"].map(|client| journal.begin(ClientKind::Text, client)).into();
    let clients = |turns: Vec<TracedTurn>| turns.into_iter().map(|t| t.client).collect::<Vec<_>>();
    assert_eq!(clients(journal.last(9)), ["c", "b"]);
    let told = *journal.changes().borrow();
    assert!(journal.changed_since(told).is_empty());
    traces[1].heard("secret");
    traces[1].begin(Stage::Model);
    assert_eq!(clients(journal.changed_since(told)), ["b"]);
    assert_eq!(journal.last(2)[1].heard, None);
    traces[2].first_packet();
    let told = *journal.changes().borrow();
    // Each further word of a text passes here.
    traces[2].first_packet();
    traces[2].end(Stage::Tool);
    assert_eq!(*journal.changes().borrow(), told);
    for _ in 0..1_000 {
        traces[1].begin(Stage::Model);
        traces[1].event(TraceEvent::Resumed);
    }
    assert!(journal.last(2)[1].spans.len() <= 64 && journal.last(2)[1].events.len() <= 64);
    drop(traces);
    assert!(journal.last(2).iter().all(|turn| turn.outcome == Some(Outcome::Silent)));
    // The receiver had only one slot.
    assert_eq!(exported.recv().await.unwrap().client, "a");
    assert!(exported.try_recv().is_err());
}

#[actix::test]
async fn the_journal_shows_no_words_if_so_configured_although_they_are_stored() {
    freeze();
    let journal = TurnJournal::new(JournalSettings { max_turns: 2, words: false });
    journal.set_keep(Keep::Text);
    let (history, mut kept) = tokio::sync::mpsc::channel(1);
    journal.keep_history(history);
    let trace = journal.begin(ClientKind::Text, "a");
    trace.heard("a question");
    trace.said("an answer");
    trace.cut_off("the rest of it");
    trace.finish(Outcome::Answered);
    let shown = journal.last(1).remove(0);
    assert_eq!((shown.heard, shown.said, shown.cut_off), (None, None, None));
    assert_eq!(kept.recv().await.unwrap().0.cut_off.as_deref(), Some("the rest of it"));
}

#[actix::test]
async fn a_turn_that_is_aborted_during_an_speculative_answer_has_ended() {
    let mut pipeline = listening_with(tries(3), "auto").await;
    upstreams(&pipeline);
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(540)).await;
    assert_eq!(last(&pipeline).outcome, None);
    abort(&pipeline);
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(10_000)).await;
    assert_eq!(last(&pipeline).state, TurnState::Ended);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn discarded_turns_evict_no_others_and_are_not_in_the_history() {
    freeze();
    let journal = TurnJournal::new(JournalSettings { max_turns: 20, words: true });
    journal.set_keep(Keep::Text);
    let (history, mut kept) = tokio::sync::mpsc::channel(1);
    journal.keep_history(history);
    let other = journal.begin(ClientKind::Text, "a");
    for _ in 0..100 {
        let trace = journal.begin(ClientKind::Voice, "b");
        trace.heard("again");
        trace.discard();
        trace.said("I'm busy right now.");
        trace.finish(Outcome::Answered);
    }
    let turns = journal.last(99);
    assert_eq!(turns.iter().map(|turn| &*turn.client).filter(|client| *client == "a").count(), 1);
    assert!((2..=10).contains(&turns.len()), "{}", turns.len());
    assert_eq!(turns[0].outcome, Some(Outcome::Refused), "watchers that saw its start get its end");
    assert!(kept.try_recv().is_err());
    drop(other);
}
