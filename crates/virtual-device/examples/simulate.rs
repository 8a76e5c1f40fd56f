//! The long simulation: a thousand hours of conversation in virtual time, or one household with its
//! timeline. Started by `scripts/simulate`; not for CI, whose short run is a test.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for people, and the simulation is that of the tests"
)]

#[path = "../tests/virtual-device/simulation/mod.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod simulation;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use clap::Parser;
use hearken_virtual_device::profile::PROFILES;
use simulation::judge::Counts;
use simulation::plan::{Broken, Plan};
use simulation::{Outcome, simulate};

const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of failing seeds that are shown with their faults.
const MOST_SHOWN: usize = 20;

/// Simulates hours of conversation over all firmware versions, and judges every packet.
#[derive(Parser)]
#[command(name = "scripts/simulate")]
struct Args {
    /// Hours to simulate.
    #[arg(long, default_value_t = 1_000.0)]
    hours: f64,
    /// Simulates only the household of this seed, with a timeline.
    #[arg(long)]
    seed: Option<u64>,
    /// First seed of a long run.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Minutes for which a household is simulated.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Number of threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Breaks the server on purpose: lead, stop-margin, start-guard or prebuffer.
    #[arg(long = "break", value_parser = broken)]
    broken: Option<Broken>,
}

fn broken(name: &str) -> Result<Broken, String> {
    let names = || Broken::ALL.map(Broken::name).join(", ");
    Broken::named(name).ok_or_else(|| format!("one of {}", names()))
}

/// Results in a row of the table.
#[derive(Default)]
struct Row {
    hours: f64,
    counts: Counts,
    households: u64,
    failing: u64,
}

impl Row {
    fn add(&mut self, outcome: &Outcome) {
        self.hours += outcome.length.as_secs_f64() / 3_600.0;
        self.counts.add(&outcome.counts);
        self.households += 1;
        self.failing += u64::from(!outcome.faults.is_empty());
    }

    fn print(&self, name: &str) {
        let c = &self.counts;
        println!(
            "{name:8} {:9.1} {:7} {:8} {:8} {:10} {:8} {:7} {:7} {:8} {:8} {:8}",
            self.hours,
            self.households,
            c.visits,
            c.replies,
            c.packets,
            c.interruptions,
            c.resumed,
            c.walked_away,
            c.longest_stop.as_millis(),
            c.longest_cut.as_millis(),
            self.failing,
        );
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    let failed = match args.seed {
        Some(seed) => one(Plan::of(seed, length, args.broken)),
        None => many(&args, length),
    };
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Simulates one household and prints its timeline. Returns true if there was a fault.
fn one(plan: Plan) -> bool {
    println!("{plan}");
    let outcome = simulate(plan, true);
    for line in &outcome.timeline {
        println!("{line}");
    }
    println!("{:?}\nvendors failed: {:?}", outcome.counts, outcome.failures);
    for fault in &outcome.faults {
        println!("FAULT {fault}");
    }
    !outcome.faults.is_empty()
}

/// Simulates households until the hours are over. Returns true if one had a fault.
fn many(args: &Args, length: Duration) -> bool {
    let next = AtomicU64::new(args.first);
    let done = AtomicBool::new(false);
    let (tell, outcomes) = mpsc::channel();
    let tell = Mutex::new(tell);
    std::thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            let tell = tell.lock().unwrap().clone();
            let next = &next;
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is dropped once enough households were simulated.
                    tell.send(simulate(Plan::of(seed, length, args.broken), false)).ok();
                }
            });
        }
        let failed = listen(args, &outcomes);
        done.store(true, Ordering::Relaxed);
        failed
    })
}

fn listen(args: &Args, outcomes: &mpsc::Receiver<Outcome>) -> bool {
    let begun = Instant::now();
    let mut shown = begun;
    let mut all = Row::default();
    let mut rows = BTreeMap::<&str, Row>::new();
    let mut failing = Vec::new();
    while all.hours < args.hours {
        let Ok(outcome) = outcomes.recv() else { break };
        all.add(&outcome);
        rows.entry(outcome.plan.profile.name).or_default().add(&outcome);
        if !outcome.faults.is_empty() {
            eprintln!("{}", outcome.plan);
            for fault in &outcome.faults {
                eprintln!("  FAULT {fault}");
            }
            failing.push(outcome.plan.seed);
        }
        if shown.elapsed() >= PROGRESS_EVERY {
            shown = Instant::now();
            let rate = all.hours / begun.elapsed().as_secs_f64() * 3_600.0;
            eprintln!("{:.1} hours, {rate:.0} an hour, {} failing", all.hours, failing.len());
        }
    }
    println!(
        "firmware     hours   homes   visits  replies    packets  interr. resumed    gone  stop ms   cut ms  failing"
    );
    for profile in &PROFILES {
        if let Some(row) = rows.get(profile.name) {
            row.print(profile.name);
        }
    }
    all.print("all");
    println!("{:.1} hours in {:.0} s", all.hours, begun.elapsed().as_secs_f64());
    for seed in failing.iter().take(MOST_SHOWN) {
        let broken = args.broken.map(|b| format!(" --break {}", b.name())).unwrap_or_default();
        println!("replay: scripts/simulate --seed {seed} --minutes {}{broken}", args.minutes);
    }
    !failing.is_empty()
}
