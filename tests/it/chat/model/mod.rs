//! Random sequences of requests of applications, played against the real chat service, store, bus,
//! locks and worlds, or over HTTP against a whole server. A small reference model predicts answers,
//! events and stored messages: the tables of `docs/state-machines`. Not for the details of a single
//! request.
//!
//! Each run plays the same sequences; `PROPTEST_RNG_SEED=SEED cargo nextest run ...` plays others.
//! A sequence that fails is shrunk and printed with its seed.

mod answers;
mod http;
mod in_process;
mod known;
mod playing;
mod ports;
mod upstreams;

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use tokio::runtime::Runtime;

use self::http::Http;
use self::in_process::ChatInProcess;
use self::playing::System;

/// Number of sequences against the chat service.
const SEQUENCES: u32 = 3_000;
/// Number of tests that share them.
const PARTS: u32 = 3;
/// Number of sequences against a server.
const HTTP_SEQUENCES: u32 = 200;
/// Number of tests that share those.
const HTTP_PARTS: u32 = 2;
/// Maximum number of events in a sequence.
const LONGEST: usize = 12;
/// Number of sessions in a sequence.
const SESSIONS: usize = 2;

/// Content of a message: plain words, or calls in one round that each cost the hero a hit point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Hello(u8),
    Hurt(u8),
}

impl Said {
    fn text(self) -> String {
        const CALL: &str = r#"call update_hp {"character_id": "hero", "change": -1}"#;
        match self {
            Self::Hello(n) => format!("hello {n}"),
            Self::Hurt(calls) => vec![CALL; calls.into()].join("\n"),
        }
    }

    fn calls(self) -> i64 {
        match self {
            Self::Hello(_) => 0,
            Self::Hurt(calls) => calls.into(),
        }
    }
}

/// A failure during a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// The model is unreachable.
    ModelAway,
    /// The model refuses the request.
    ModelRefuses,
    /// The model returns nothing.
    ModelSilent,
    /// The model is unreachable when it should receive the result of a tool.
    ModelAwayBehindTools,
    /// The model repeats its first calls without end.
    ModelInsists,
    /// The state server is unreachable.
    WorldAway,
    /// The state server is unreachable for tool calls.
    CallsFail,
    /// The state server executes the call, but its response is lost.
    AnswersLost,
    /// The state server reports an outdated version twice.
    Conflicts,
}

/// One request for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Chat {
        said: Said,
        key: Option<u8>,
        stream: bool,
    },
    Snapshot,
    /// Restores a snapshot, by its number.
    GoBack(usize),
    Archive,
    Restore,
    Delete,
}

impl Ask {
    /// Failures apply to messages only.
    fn meets(self, trouble: Trouble) -> Trouble {
        if matches!(self, Self::Chat { .. }) { trouble } else { Trouble::None }
    }
}

/// One event of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    /// A request whose client waits for the answer.
    Asked(usize, Ask, Trouble),
    /// The client of a message leaves after this many steps and further polls.
    Left { session: usize, ask: Ask, trouble: Trouble, steps: usize, polls: usize },
    /// Two concurrent clients.
    Both(usize, Ask, Ask),
    /// Another client changes the world.
    Elsewhere(usize),
    /// Deleted sessions are purged; the world of this session cannot be deleted.
    Purged(Option<usize>),
    /// Deleted sessions are purged while this one is restored.
    PurgedWhileRestored(usize),
    /// A watcher reconnects that missed this many of the last events.
    WatcherReturns(usize, usize),
    /// A new session replaces this one.
    Made(usize),
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![2 => (0..2_u8).prop_map(Said::Hello), 3 => (1..3_u8).prop_map(Said::Hurt)]
}

fn key() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![1 => Just(None), 2 => (0..2_u8).prop_map(Some)]
}

fn chat() -> impl Strategy<Value = Ask> {
    let chat = (said(), key(), any::<bool>());
    chat.prop_map(|(said, key, stream)| Ask::Chat { said, key, stream })
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        6 => chat(),
        2 => Just(Ask::Snapshot),
        2 => (0..3_usize).prop_map(Ask::GoBack),
        1 => Just(Ask::Archive),
        1 => Just(Ask::Restore),
        2 => Just(Ask::Delete),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let some = prop::sample::select(vec![
        Trouble::ModelAway,
        Trouble::ModelRefuses,
        Trouble::ModelSilent,
        Trouble::ModelAwayBehindTools,
        Trouble::ModelInsists,
        Trouble::WorldAway,
        Trouble::CallsFail,
        Trouble::AnswersLost,
        Trouble::Conflicts,
    ]);
    prop_oneof![3 => Just(Trouble::None), 1 => some]
}

fn happens() -> impl Strategy<Value = Happens> {
    let session = || 0..SESSIONS;
    let asked = (session(), ask(), trouble());
    // Other requests do not notice that their client leaves: the routes complete them.
    let left = (session(), chat(), trouble(), 0..30_usize, 0..6_usize);
    prop_oneof![
        12 => asked.prop_map(|(session, ask, trouble)| Happens::Asked(session, ask, trouble)),
        4 => left.prop_map(|(session, ask, trouble, steps, polls)| {
            Happens::Left { session, ask, trouble, steps, polls }
        }),
        3 => (session(), ask(), ask()).prop_map(|(session, a, b)| Happens::Both(session, a, b)),
        1 => session().prop_map(Happens::Elsewhere),
        2 => prop::option::of(session()).prop_map(Happens::Purged),
        1 => session().prop_map(Happens::PurgedWhileRestored),
        1 => (session(), 0..6_usize).prop_map(|(session, n)| Happens::WatcherReturns(session, n)),
        2 => session().prop_map(Happens::Made),
    ]
}

/// Plays this many random sequences of this seed, unless the environment sets a seed. Panics with
/// the shortest failing sequence that it finds.
fn play(sequences: u32, seed: u64, longest: usize, one: impl Fn(&[Happens]) -> Result<(), String>) {
    let mut config = ProptestConfig {
        cases: sequences,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    };
    if matches!(config.rng_seed, RngSeed::Random) {
        config.rng_seed = RngSeed::Fixed(seed);
    }
    let seed = config.rng_seed;
    let played = Cell::new(0);
    let sequence = prop::collection::vec(happens(), 1..=longest);
    let outcome = TestRunner::new(config).run(&sequence, |events| {
        played.set(played.get() + 1);
        one(&events).map_err(TestCaseError::fail)
    });
    if let Err(TestError::Fail(why, events)) = outcome {
        panic!("seed {seed}, {} sequences with shrinking: {why}\nafter {events:#?}", played.get());
    }
    outcome.expect("sequences can be made");
}

/// Plays sequences against a system, and returns the system.
fn against<S: System>(runtime: &Runtime, system: S, sequences: u32, seed: u64) -> S {
    let system = RefCell::new(system);
    play(sequences, seed, LONGEST, |events| {
        runtime.block_on(playing::play(&mut *system.borrow_mut(), events))
    });
    system.into_inner()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Plays one part of the sequences; the same in each run.
fn part(seed: u64) {
    let runtime = runtime();
    let chat = runtime.block_on(ChatInProcess::start());
    against(&runtime, chat, SEQUENCES / PARTS, seed);
}

/// The same over HTTP.
fn part_over_http(seed: u64) {
    let runtime = runtime();
    let http = runtime.block_on(Http::start());
    // A third of the sequences; all in `scripts/long tests`, which sets more cases.
    let most = ProptestConfig::default().cases / 8;
    let http = against(&runtime, http, most.min(HTTP_SEQUENCES / HTTP_PARTS), seed);
    runtime.block_on(http.stop());
}

/// Answers, events and stored messages match the tables; in parts that run in parallel.
mod sequences {
    #[test]
    fn part_1_matches_the_reference() {
        super::part(1);
    }

    #[test]
    fn part_2_matches_the_reference() {
        super::part(2);
    }

    #[test]
    fn part_3_matches_the_reference() {
        super::part(3);
    }

    #[test]
    fn part_1_over_http_matches_the_reference() {
        super::part_over_http(4);
    }

    #[test]
    fn part_2_over_http_matches_the_reference() {
        super::part_over_http(5);
    }
}
