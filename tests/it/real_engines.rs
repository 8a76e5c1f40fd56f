//! Recorded human speech through the real server and its real engines, as a person would meet
//! them: `hearken serve` as a process, its engines as its children, `hearken replay` as the
//! device. Needs a binary with engines and the models (`scripts/test` provides both, and names
//! the binary in `HEARKEN_ENGINES`); elsewhere each test says so and passes.

#[path = "real_engines/server.rs"]
mod server;

use std::time::Duration;

use server::{Server, engines, read_back};

/// Fixtures, with the part that the recogniser alone gets wrong on the same file
/// (`fixtures/README.md`).
const CHINESE: [(&str, f64); 3] =
    [("zh_what_is_this", 0.0), ("zh_what_model", 0.0), ("zh_trade_stalls", 0.08)];
const ENGLISH: [(&str, f64); 3] =
    [("en_go_somewhere", 0.0), ("en_sorrow_with_pauses", 0.0), ("en_amiable", 0.0)];

#[tokio::test]
async fn people_are_understood_and_answered_so_that_the_answer_can_be_understood() {
    let Some(binary) = engines() else { return };
    let server = Server::start(&binary, &[]).await;
    for fixtures in [CHINESE, ENGLISH] {
        let mut outcomes = Vec::new();
        for (fixture, alone) in fixtures {
            let outcome = server.replay(fixture, &["--expect"]).await;
            outcome.report(fixture);
            outcome.assert_expectations(fixture);
            let wrong = outcome.error_rate(fixture);
            assert!(wrong <= alone + 0.005, "{fixture}: {wrong} wrong, the engine alone {alone}");
            outcomes.push(outcome);
        }
        let part = read_back(&outcomes.iter().collect::<Vec<_>>());
        assert!(part >= 0.8, "{fixtures:?}: {part} of the answers was read back");
    }
    server.stop().await;
}

#[tokio::test]
async fn people_who_stand_in_noise_or_speak_shortly_are_heard() {
    let Some(binary) = engines() else { return };
    let server = Server::start(&binary, &[]).await;
    for fixture in ["en_go_forward_noisy", "zh_trade_stalls_noisy", "en_go_forward", "zh_own_foot"]
    {
        let outcome = server.replay(fixture, &["--expect"]).await;
        outcome.report(fixture);
        outcome.assert_expectations(fixture);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_spoken_request_sets_the_volume_of_the_device() {
    let Some(binary) = engines() else { return };
    let server = Server::start(&binary, &[]).await;
    let outcome = server.replay("en_set_volume", &["--expect"]).await;
    outcome.report("a tool of the device");
    outcome.assert_expectations("en_set_volume");
    server.stop().await;
}

#[tokio::test]
async fn the_first_words_are_heard_while_the_model_still_writes() {
    let Some(binary) = engines() else { return };
    let prompt = "Whatever the user says, answer only with this poem, line by line, to its end: One \
                  apple is red. Two apples are green. Three apples are blue. Four apples are \
                  white. Five apples are black. Six apples are small. Seven apples are big. Eight \
                  apples are gone.";
    let server = Server::start(&binary, &[("HEARKEN__DIALOGUE__SYSTEM_PROMPT", prompt)]).await;
    let outcome = server.replay("en_go_somewhere", &[]).await;
    outcome.report("a long answer");
    let audio = server.logged("first audio leaves").await;
    let written = server.logged("the model has finished").await;
    assert!(audio < written, "first audio at {audio}, the model finished at {written}");
    server.stop().await;
}

#[tokio::test]
async fn ten_people_at_once_each_get_their_own_answer() {
    let Some(binary) = engines() else { return };
    let server = Server::start(&binary, &[]).await;
    let all = CHINESE.into_iter().chain(ENGLISH).map(|(fixture, _)| fixture);
    let fixtures: Vec<&str> = all.cycle().take(10).collect();
    let replays = fixtures.iter().enumerate().map(|(n, fixture)| {
        let device = format!("02:00:00:00:00:{n:02x}");
        let server = &server;
        async move { server.replay(fixture, &["--device-id", &device, "--expect"]).await }
    });
    let outcomes = futures_util::future::join_all(replays).await;
    for (fixture, outcome) in fixtures.iter().zip(&outcomes) {
        outcome.report(fixture);
        outcome.assert_expectations(fixture);
    }
    // Ten voices on two cores are slower than playback, and words are lost to recognition in the
    // gaps; another's answer would be read back as none of one's own words.
    let part = read_back(&outcomes.iter().collect::<Vec<_>>());
    assert!(part >= 0.7, "{part} of the answers was read back");
    server.stop().await;
}

#[tokio::test]
async fn an_engine_that_is_killed_costs_one_turn() {
    let Some(binary) = engines() else { return };
    let server = Server::start(&binary, &[]).await;
    for (engine, moment) in [("speech", "speech has started"), ("llm", "understood")] {
        let turn = server.replay("zh_what_is_this", &[]);
        let kill = async {
            server.logged(moment).await;
            server.kill(engine).await;
        };
        let (outcome, ()) = tokio::join!(turn, kill);
        outcome.report(&format!("while {engine} was killed"));
        assert!(!outcome.reply.is_empty(), "{engine}: neither an answer nor an apology");
        assert!(outcome.played > 0, "{engine}: nothing was heard");
        server.ready(Duration::from_secs(60)).await;
        assert_eq!(server.restarts(engine).await, 1);
        server.forget_log();
        let next = server.replay("zh_what_is_this", &["--expect"]).await;
        next.report("the next turn");
        next.assert_expectations("the next turn");
        server.forget_log();
    }
    server.stop().await;
}
