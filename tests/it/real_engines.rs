//! Recorded human speech through the real server and its real engines: `hearken serve` as a
//! process, `hearken-engines` as its children, `hearken replay` as the device. Needs the program
//! with the engines and the models (`scripts/test` provides both and sets its path in
//! `HEARKEN_ENGINES`); otherwise each test says so and passes.

#[path = "real_engines/commands.rs"]
mod commands;
#[path = "real_engines/restarts.rs"]
mod restarts;
#[path = "real_engines/server.rs"]
mod server;
#[path = "real_engines/speech.rs"]
mod speech;
#[path = "real_engines/voices.rs"]
mod voices;

use std::time::Duration;

use hearken_test_support::vendors::{Behaviour, OpenAiChat};
use server::{Outcome, Server, assert_each_heard_their_own, engines, read_back};
use speech::Speech;

/// Fixtures, each with the word error rate of the recogniser alone on the same file (`fixtures/README.md`).
const CHINESE: [(&str, f64); 3] =
    [("zh_what_is_this", 0.0), ("zh_what_model", 0.0), ("zh_trade_stalls", 0.08)];
const ENGLISH: [(&str, f64); 3] =
    [("en_go_somewhere", 0.0), ("en_sorrow_with_pauses", 0.0), ("en_amiable", 0.0)];

/// One server for all recordings: loading the models takes longer than a turn.
#[tokio::test]
async fn speech_is_understood_and_answered_and_calls_a_device_tool() {
    let Some(engines) = engines() else { return };
    let server = Server::start(&engines, &[]).await;
    understood_and_answered(&server, &CHINESE[1..]).await;
    understood_and_answered(&server, &ENGLISH[..2]).await;
    let outcome = server.replay("en_set_volume", &["--expect"]).await;
    outcome.report("a tool of the device");
    outcome.assert_expectations("en_set_volume");
    server.stop().await;
}

#[tokio::test]
async fn further_recordings_are_understood_and_answered() {
    let Some(engines) = engines() else { return };
    let server = Server::start(&engines, &[]).await;
    understood_and_answered(&server, &CHINESE[..1]).await;
    understood_and_answered(&server, &ENGLISH[2..]).await;
    server.stop().await;
}

/// Checks that speech in one language is understood, and that the answers can be read back.
async fn understood_and_answered(server: &Server, fixtures: &[(&str, f64)]) {
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
    assert!(part >= 0.8, "{fixtures:?}: {part} of the answers were read back");
}

#[tokio::test]
async fn noisy_and_short_speech_is_understood() {
    let Some(engines) = engines() else { return };
    let server = Server::start(&engines, &[]).await;
    for fixture in ["en_go_forward_noisy", "zh_trade_stalls_noisy", "en_go_forward", "zh_own_foot"]
    {
        let outcome = server.replay(fixture, &["--expect"]).await;
        outcome.report(fixture);
        outcome.assert_expectations(fixture);
    }
    server.stop().await;
}

#[tokio::test]
async fn playback_starts_before_the_model_has_finished() {
    let Some(engines) = engines() else { return };
    let prompt = "Whatever the user says, answer only with this poem, line by line, to its end: One \
                  apple is red. Two apples are green. Three apples are blue. Four apples are \
                  white. Five apples are black. Six apples are small. Seven apples are big. Eight \
                  apples are gone.";
    let server = Server::start(&engines, &[("HEARKEN__DIALOGUE__SYSTEM_PROMPT", prompt)]).await;
    let outcome = server.replay("en_go_somewhere", &[]).await;
    outcome.report("a long answer");
    let audio = server.logged("sent the first audio").await;
    let written = server.logged("the model has finished").await;
    assert!(audio < written, "first audio at {audio}, the model finished at {written}");
    server.stop().await;
}

#[tokio::test]
async fn ten_concurrent_users_each_get_their_own_answer() {
    let Some(engines) = engines() else { return };
    let server = Server::start(&engines, &[]).await;
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
    assert_each_heard_their_own(&outcomes.iter().collect::<Vec<_>>());
    server.stop().await;
}

#[tokio::test]
async fn an_engine_that_is_killed_costs_one_turn() {
    let Some(engines) = engines() else { return };
    let server = Server::start(&engines, &[]).await;
    // The apology must be spoken while the synthesiser is down.
    server.logged("synthesised the fixed phrases").await;
    for (engine, moment) in [("speech", "speech has started"), ("llm", "sent the transcript")] {
        // On a busy machine the recogniser starts again too late to read the reply back.
        let turn = server.replay_only("zh_what_is_this", &[]);
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

/// Each service has its own models, about 900 MiB; the language model is a stub, which needs no core.
#[tokio::test]
async fn no_turn_fails_when_one_of_three_speech_services_is_killed() {
    let Some(engines) = engines() else { return };
    let mut services: [Speech; 3] = std::array::from_fn(|_| Speech::start(&engines));
    for service in &services {
        service.ready().await;
    }
    let model = OpenAiChat::start(Behaviour::Normal, "It is a sunny day. You can go out.").await;
    let [first, second, third] = &services;
    let env = [
        ("ASR_URL", first.asr_url()),
        ("TTS_URL", first.tts_url()),
        ("LLM_BASE_URL", model.url()),
        ("HEARKEN__TOOLS__BUILTIN__ENABLED", String::new()),
        ("HEARKEN__ASR__MORE_URLS", [second.asr_url(), third.asr_url()].join(",")),
        ("HEARKEN__TTS__MORE_URLS", [second.tts_url(), third.tts_url()].join(",")),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut server = Server::start(&engines, &env).await;
    server.reads_back_at(second.asr_port);

    let listening = r#"hearken_provider_in_flight{port="asr",backend="0"}"#;
    let death = async {
        server.until(listening, 1.0).await;
        services[0].kill().await;
    };
    let (outcomes, ()) = tokio::join!(three_people(&server), death);
    let after = three_people(&server).await;
    for (fixture, outcome) in outcomes.iter().chain(&after) {
        outcome.report(fixture);
        outcome.assert_expectations(fixture);
    }
    eprintln!("each remaining service uses {} MiB", services[1].resident_mib());
    let all: Vec<_> = outcomes.iter().chain(&after).map(|(_, outcome)| outcome).collect();
    assert_each_heard_their_own(&all);
    assert_eq!(server.figure(r#"hearken_turns_total{end="failed"}"#).await, 0.0);
    assert_eq!(server.figure(r#"hearken_turns_total{end="completed"}"#).await, 6.0);
    for (backend, up) in [(0, 0.0), (1, 1.0), (2, 1.0)] {
        let labels = format!(r#"{{port="asr",backend="{backend}"}}"#);
        assert_eq!(server.figure(&format!("hearken_provider_up{labels}")).await, up, "{backend}");
        let heard = format!(r#"{{port="asr",backend="{backend}",end="ok"}}"#);
        let heard = server.figure(&format!("hearken_provider_requests_total{heard}")).await;
        eprintln!("recogniser {backend}: {heard} utterances");
        assert!((heard > 0.0) == (up > 0.0), "{backend} understood {heard}");
    }
    server.stop().await;
}

/// Three concurrent users, each with the fixture and the outcome.
async fn three_people(server: &Server) -> Vec<(&'static str, Outcome)> {
    let people = ["en_go_somewhere", "zh_trade_stalls", "en_amiable"].into_iter().enumerate();
    let replays = people.map(|(n, fixture)| async move {
        let device = format!("02:00:00:00:01:{n:02x}");
        (fixture, server.replay(fixture, &["--device-id", &device, "--expect"]).await)
    });
    futures_util::future::join_all(replays).await
}
