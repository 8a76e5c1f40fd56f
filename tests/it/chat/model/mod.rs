//! Random sequences of what applications do to their chat sessions, played against the real chat
//! service, store, bus, locks and worlds, or over HTTP against a whole server, and against a small
//! reference that predicts what is answered, told and kept: the tables of `docs/state-machines`.
//! Not for what a single request looks like.
//!
//! Each run plays the same sequences; `PROPTEST_RNG_SEED=SEED cargo nextest run ...` plays others. A
//! sequence that fails is shrunk, and printed with its seed.

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

/// Sequences that are played against the chat service.
const SEQUENCES: u32 = 3_000;
/// Tests that they are divided among.
const PARTS: u32 = 3;
/// Sequences that are played against a server.
const HTTP_SEQUENCES: u32 = 200;
/// Tests that those are divided among.
const HTTP_PARTS: u32 = 2;
/// Most events of one.
const LONGEST: usize = 12;
/// Sessions of a sequence.
const SESSIONS: usize = 2;

/// What is said: plain words, or calls that hurt the hero by one each, all in one round.
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

/// What goes wrong while something is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// The model is away.
    ModelAway,
    /// The model refuses the request.
    ModelRefuses,
    /// The model says nothing.
    ModelSilent,
    /// The model is away when it is told what a tool brought.
    ModelAwayBehindTools,
    /// The model does not stop calling what it called first.
    ModelInsists,
    /// The state server is away.
    WorldAway,
    /// The state server cannot be reached when a tool is called.
    CallsFail,
    /// The state server does what it is asked, and its answer is lost.
    AnswersLost,
    /// The state server says twice that the version is old.
    Conflicts,
}

/// One request about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Chat {
        said: Said,
        key: Option<u8>,
        stream: bool,
    },
    Snapshot,
    /// To one of the snapshots, by its number.
    GoBack(usize),
    Archive,
    Restore,
    Delete,
}

impl Ask {
    /// What goes wrong is about messages alone.
    fn meets(self, trouble: Trouble) -> Trouble {
        if matches!(self, Self::Chat { .. }) { trouble } else { Trouble::None }
    }
}

/// One event of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    /// A request whose client waits for the answer.
    Asked(usize, Ask, Trouble),
    /// The client of a message leaves after so many steps, and so many polls more.
    Left { session: usize, ask: Ask, trouble: Trouble, steps: usize, polls: usize },
    /// Two clients at once.
    Both(usize, Ask, Ask),
    /// Somebody else changes the world.
    Elsewhere(usize),
    /// Deleted sessions are forgotten; the world of this one cannot be deleted.
    Purged(Option<usize>),
    /// Deleted sessions are forgotten, and meanwhile this one is restored.
    PurgedWhileRestored(usize),
    /// A watcher comes back that has seen so many of the last events less.
    WatcherReturns(usize, usize),
    /// A new session in the place of this one.
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
    // Other requests do not see that their client leaves: the routes carry them to their end.
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

/// Plays so many random sequences of this seed, unless the environment names one, and panics with
/// the shortest that it can find of those that the reference does not allow.
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

/// Plays so many sequences of this seed against a system, which is then given back.
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

/// Plays one part of the sequences, the same in each run.
fn part(seed: u64) {
    let runtime = runtime();
    let chat = runtime.block_on(ChatInProcess::start());
    against(&runtime, chat, SEQUENCES / PARTS, seed);
}

/// The same against a server.
fn part_over_http(seed: u64) {
    let runtime = runtime();
    let http = runtime.block_on(Http::start());
    // A third of them, but in `scripts/long tests`, which asks for more cases.
    let most = ProptestConfig::default().cases / 8;
    let http = against(&runtime, http, most.min(HTTP_SEQUENCES / HTTP_PARTS), seed);
    runtime.block_on(http.stop());
}

/// Random sequences are answered, told and kept as the tables say; in parts, which run side by side.
mod sequences {
    #[test]
    fn first_part() {
        super::part(1);
    }

    #[test]
    fn second_part() {
        super::part(2);
    }

    #[test]
    fn third_part() {
        super::part(3);
    }

    #[test]
    fn first_part_over_http() {
        super::part_over_http(4);
    }

    #[test]
    fn second_part_over_http() {
        super::part_over_http(5);
    }
}
