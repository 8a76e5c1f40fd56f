//! Sessions of text clients under random sequences of all possible events, on one instance and on
//! two that share a store, in virtual time. The table of states and events is in
//! docs/state-machines/text-session.md. Not for the content of messages.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

mod oracle;
mod peers;
pub(crate) mod world;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::peers::Play;

/// Sequences for each case of an ordinary property: 768 by default, 3,072 in `scripts/long tests`.
const SEQUENCES_PER_CASE: u32 = 3;
/// Number of clients in a sequence.
const PEERS: usize = 3;

/// The session that a message names.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// None: the session of the connection.
    Own,
    /// One of the sessions announced so far.
    Received(usize),
    /// A session that was never announced.
    Nobodys,
}

/// Result that a client sends for an announced call.
#[derive(Debug, Clone, Copy)]
enum Result {
    First,
    Again,
    Unknown,
}

/// Event of a sequence.
#[derive(Debug, Clone, Copy)]
enum Step {
    Say(usize, Whose, &'static str),
    Start(usize, Whose),
    End(usize),
    Cancel(usize),
    Register(usize),
    Answer(usize, Result),
    Leave(usize),
    Connect(usize),
    Sweep(usize),
    ShortIdle(bool),
    StoreFails(bool),
    Wait(u64),
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![5 => Just(Whose::Own), 5 => (0_usize..6).prop_map(Whose::Received), 1 => Just(Whose::Nobodys)]
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..PEERS;
    let kinds = [
        "plain", "plain", "plain", "slow", "slower", "fail", "break", "silent", "server", "client",
        "mixed",
    ];
    let waits = [0, 3, 15, 50, 1_000, 4_000, 10_000, 24_000, 29_000, 31_000, 59_000, 62_000];
    let results = [Result::First, Result::First, Result::First, Result::Again, Result::Unknown];
    prop_oneof![
        8 => (peer.clone(), whose(), proptest::sample::select(kinds.to_vec())).prop_map(|(p, w, k)| Step::Say(p, w, k)),
        3 => (peer.clone(), whose()).prop_map(|(p, w)| Step::Start(p, w)),
        1 => peer.clone().prop_map(Step::End),
        2 => peer.clone().prop_map(Step::Cancel),
        1 => peer.clone().prop_map(Step::Register),
        2 => (peer.clone(), proptest::sample::select(results.to_vec())).prop_map(|(p, r)| Step::Answer(p, r)),
        1 => peer.clone().prop_map(Step::Leave),
        1 => peer.prop_map(Step::Connect),
        3 => (0_usize..2).prop_map(Step::Sweep),
        1 => any::<bool>().prop_map(Step::ShortIdle),
        1 => proptest::sample::select(vec![true, false, false]).prop_map(Step::StoreFails),
        8 => proptest::sample::select(waits.to_vec()).prop_map(Step::Wait),
    ]
}

/// Sequences are the same in each run, so that the gate does not depend on luck.
#[test]
fn sessions_follow_their_contract_under_random_events() {
    let system = actix::System::new();
    system.block_on(async { crate::freeze() });
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases *= SEQUENCES_PER_CASE;
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let sequences = (1_usize..3, proptest::collection::vec(step(), 1..24));
    let played = std::cell::Cell::new(0);
    let result = runner.run(&sequences, |(instances, steps)| {
        played.set(played.get() + 1);
        system.block_on(Play::of(instances, &steps));
        Ok(())
    });
    if let Err(error) = result {
        panic!("after {} sequences: {error}", played.get());
    }
}
