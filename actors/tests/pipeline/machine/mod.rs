//! Random lives of a device at the real pipeline, in virtual time: thousands of sequences of
//! events, each followed with the table, event by event, and checked for properties that always
//! hold. The tables of states and events are in `docs/state-machines/device-connection.md` and
//! `turn.md`. Each run plays the same lives; `PROPTEST_RNG_SEED=SEED` plays others,
//! `PROPTEST_CASES=COUNT` with more than 256 three times that number. A failing life is shortened,
//! and printed with its seed. Not for single events, which have tests of their own beside this
//! folder.
//!
//! Reading order: [`events`] (possible events), [`outside`] (the ports), [`server`], [`device`]
//! (executes the events), [`trace`] (recorded entries), [`table`] (the table as a function),
//! [`follow`] and [`possible`] (follow the entries), [`judge`], [`history`] and [`turns`] (further
//! properties), and [`afterwards`] (ten ordinary turns after each single event).

mod afterwards;
mod device;
mod events;
mod follow;
mod history;
mod judge;
mod outside;
mod possible;
mod server;
mod table;
mod trace;
mod turns;

use std::cell::Cell;

use device::Device;
use events::{Event, Handling, Hears, Life, Model, Step, Tool};
use judge::Fault;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use server::TurnTaking;

/// Lives per proptest case if all are played: 3,072 in `scripts/long tests`.
const LIVES_PER_CASE: u32 = 3;
/// Lives in the gate.
const LIVES_IN_GATE: u32 = 128;
/// Default seed, unless the environment names one.
const SEED: u64 = 7;

/// Runs this in virtual time.
fn virtually<T>(work: impl Future<Output = T>) -> T {
    let clock = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().expect("a runtime starts")
    };
    actix::System::with_tokio_rt(clock).block_on(work)
}

/// Returns all faults of one life.
fn lived(life: &Life, turn_taking: TurnTaking) -> Vec<Fault> {
    virtually(async move {
        let mut device = Device::connect(life.mcp, turn_taking).await;
        device.live(life).await;
        device.asks_at_last().await;
        let mut faults = device.faults();
        if let Err(what) = device.end(life.server_stops).await {
            faults.push(Fault { rule: "left over", what });
        }
        faults
    })
}

/// Returns true if all lives are played, which `scripts/long tests` requests by its number of
/// cases; the gate plays a part.
fn plays_all() -> bool {
    Config::default().cases > 256
}

/// Returns the configuration with the environment's seed, or the default one.
fn config() -> Config {
    let mut config = Config::default();
    config.cases =
        if plays_all() { config.cases * LIVES_PER_CASE } else { config.cases.min(LIVES_IN_GATE) };
    config.failure_persistence = None;
    config.max_shrink_iters = 500;
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    config
}

#[test]
fn any_life_follows_the_table_and_ends_with_an_answer() {
    live(TurnTaking::Plain);
}

#[test]
fn any_life_with_speculative_answers_and_pauses_ends_with_an_answer() {
    live(TurnTaking::Eager);
}

#[test]
fn calls_that_continue_after_a_noise_or_more_words_follow_the_table() {
    let asks = |model| Handling { model, ..Handling::ORDINARY };
    let noise = || Event::Speaks(Handling { hears: Hears::Nothing, ..Handling::ORDINARY });
    let noise_during = |tool| [Event::Speaks(asks(Model::Calls(tool))), noise(), Event::Silence];
    let more_words = [
        Event::Types(asks(Model::Calls(Tool::Slow))),
        Event::Speaks(asks(Model::Slow)),
        Event::WakeWord,
    ];
    for events in [more_words, noise_during(Tool::Never), noise_during(Tool::DeviceNever)] {
        let steps = events.map(|event| Step { event, then_ms: 0 }).into();
        let life = Life { mcp: true, steps, server_stops: false };
        for turn_taking in [TurnTaking::Plain, TurnTaking::Eager] {
            assert_eq!(lived(&life, turn_taking), [], "{turn_taking:?}: {life:#?}");
        }
    }
}

fn live(turn_taking: TurnTaking) {
    let config = config();
    let lives = Cell::new(0_u32);
    let failed = Cell::new(0_u32);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&events::life(), |life| {
        lives.set(lives.get() + 1);
        match lived(&life, turn_taking).into_iter().next() {
            Some(fault) => {
                if failed.get() == 0 {
                    failed.set(lives.get());
                }
                Err(TestCaseError::fail(format!("{}: {}", fault.rule, fault.what)))
            }
            None => Ok(()),
        }
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, life)) => {
            let failed = failed.get();
            panic!("{seed:?}, life {failed}, shortened: {reason}\n{life:#?}");
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}
