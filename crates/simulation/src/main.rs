//! Simulates the server: several instances, clients, store and Redis in virtual time, with faults
//! from a seed. Started by `scripts/simulate server`; `scripts/test` runs it too. Packet timing is
//! simulated in `crates/virtual-device`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people")]

mod clients;
mod connection;
mod determinism;
mod devices;
mod fleet;
mod instance;
mod judge;
mod life;
mod many;
mod model;
mod plan;
mod redis;
mod speech;
mod store;
mod texts;
mod world;

use std::process::ExitCode;

use clap::Parser;
use plan::{Bug, Plan};

/// Simulates conversations of applications, text clients and devices with several instances of the
/// server, while everything around them fails, and checks answers, stored messages and events.
#[derive(Parser, Debug, Clone)]
#[command(name = "scripts/simulate server", after_help = EXAMPLES)]
struct Args {
    /// Minimum number of conversations to simulate.
    #[arg(long, default_value_t = 10_000)]
    conversations: u64,
    /// First seed. Each seed is a world of 25 conversations.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Runs only the world of this seed, and prints all its events.
    #[arg(long, conflicts_with_all = ["conversations", "first"])]
    seed: Option<u64>,
    /// Number of parallel worlds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,
    /// Plants a bug, and ends when it is found.
    #[arg(long = "break", value_enum)]
    bug: Option<Bug>,
    /// Checks the simulation itself: plants each bug until it is found, and runs seeds twice.
    #[arg(long, conflicts_with_all = ["seed", "bug"])]
    check: bool,
    /// Runs the worlds whose seeds are read from standard input, and prints the result of each on
    /// one line. The number selects a core.
    #[arg(long, hide = true, conflicts_with_all = ["seed", "check"])]
    serve: Option<usize>,
}

const EXAMPLES: &str = "Examples:
  scripts/simulate server                            10,000 conversations
  scripts/simulate server --conversations 1000000    a long run
  scripts/simulate server --seed 42                  one world again, exactly
  scripts/simulate server --break lost-fence         shows that a defect is found
  scripts/simulate server --check                    shows that of each, and that a seed repeats exactly";

fn main() -> ExitCode {
    let args = Args::parse();
    if args.check {
        return many::check(&args);
    }
    if let Some(job) = args.serve {
        return many::serve(job, args.bug);
    }
    let Some(seed) = args.seed else { return many::run(&args) };
    let plan = Plan::of(seed, args.bug);
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt().with_env_filter(filter).without_time().init();
    }
    println!("{plan}");
    world::prepare(0);
    let outcome = world::run(&plan, true);
    let seconds = outcome.lasted.as_secs();
    let trace = outcome.trace;
    println!("{:?}, {seconds} s, trace {trace:016x}", outcome.counts);
    for what in &outcome.wrong {
        println!("WRONG {what}");
    }
    if outcome.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
