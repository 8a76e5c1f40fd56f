//! Many worlds, each in a process of its own, for only a whole process follows from one seed. Not for
//! what happens in a world.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use serde_json::{Value, json};

use crate::Args;
use crate::plan::{Bug, CONVERSATIONS};
use crate::world::Outcome;

const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Failing seeds that are shown.
const MOST_SHOWN: usize = 20;

/// Writes the outcome of a world as one line.
pub(crate) fn tell(outcome: &Outcome) -> ExitCode {
    let c = &outcome.counts;
    let line = json!({
        "counts": [c.conversations, c.messages, c.attempts, c.answered, c.refused, c.unknown,
                   c.tool_calls, c.events, c.without_gap, c.faults_made, outcome.lasted.as_secs()],
        "trace": format!("{:016x}", outcome.trace),
        "wrong": outcome.wrong,
    });
    println!("{line}");
    ExitCode::SUCCESS
}

/// Names of the counts, in the order of [`tell`].
const COUNTS: [&str; 11] = [
    "conversations",
    "messages",
    "attempts",
    "answered",
    "refused",
    "unknown",
    "tool calls",
    "events told",
    "without gap",
    "faults made",
    "seconds",
];

#[derive(Default)]
struct Totals {
    counts: [u64; COUNTS.len()],
    failing: Vec<(u64, Vec<String>)>,
}

/// Runs worlds until there are enough conversations, or the planted bug is found.
pub(crate) fn run(args: &Args) -> ExitCode {
    let (totals, took) = worlds(args);
    totals.show(args, took)
}

/// Plants each bug until it is found, and runs a seed twice.
pub(crate) fn check(args: &Args) -> ExitCode {
    let mut good = true;
    for bug in Bug::value_variants() {
        let (totals, took) = worlds(&Args { bug: Some(*bug), ..args.clone() });
        let conversations = totals.counts[0];
        match totals.failing.first() {
            Some((seed, wrong)) => println!(
                "{bug:?}: found after {conversations} conversations, {:.1} s, seed {seed}: {}",
                took.as_secs_f64(),
                wrong.first().map(String::as_str).unwrap_or_default(),
            ),
            None => println!("{bug:?}: NOT found in {conversations} conversations"),
        }
        good &= !totals.failing.is_empty();
    }
    let (first, second) = (one(args, args.first), one(args, args.first));
    let same = first == second && first["trace"].is_string();
    println!("seed {} run twice: {}", args.first, if same { "the same" } else { "NOT the same" });
    if good && same { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn worlds(args: &Args) -> (Totals, Duration) {
    let worlds = args.conversations.div_ceil(CONVERSATIONS as u64);
    let (next, found) = (AtomicU64::new(args.first), AtomicBool::new(false));
    let (totals, begun) = (Mutex::new(Totals::default()), Instant::now());
    let shown = Mutex::new(begun);
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    let bug_found = args.bug.is_some() && found.load(Ordering::SeqCst);
                    if seed >= args.first + worlds || bug_found {
                        return;
                    }
                    let world = one(args, seed);
                    let mut totals = totals.lock().expect("nothing panics while it holds them");
                    totals.add(seed, &world);
                    found.store(!totals.failing.is_empty(), Ordering::SeqCst);
                    let mut shown = shown.lock().expect("nothing panics while it holds it");
                    if shown.elapsed() > PROGRESS_EVERY {
                        *shown = Instant::now();
                        eprintln!("{} of {} conversations", totals.counts[0], args.conversations);
                    }
                }
            });
        }
    });
    (totals.into_inner().expect("nothing panics while it holds them"), begun.elapsed())
}

/// Runs one world in a process of its own.
fn one(args: &Args, seed: u64) -> Value {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--brief", "--seed", &seed.to_string()]);
    if let Some(bug) = args.bug {
        let bug = bug.to_possible_value().expect("each bug has a name");
        command.args(["--break", bug.get_name()]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("this program can be started");
    let mut line = String::new();
    let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
    let ended = child.wait();
    serde_json::from_str(&line)
        .unwrap_or_else(|_| json!({ "wrong": [format!("the world ended: {ended:?}, {read:?}")] }))
}

impl Totals {
    fn add(&mut self, seed: u64, world: &Value) {
        for (index, total) in self.counts.iter_mut().enumerate() {
            *total += world["counts"][index].as_u64().unwrap_or_default();
        }
        let wrong = world["wrong"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !wrong.is_empty() {
            let wrong = wrong.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            self.failing.push((seed, wrong));
        }
    }

    fn show(&self, args: &Args, took: Duration) -> ExitCode {
        for (name, count) in COUNTS.iter().zip(self.counts) {
            println!("{name:14} {count}");
        }
        println!("took           {:.1} s", took.as_secs_f64());
        for (seed, wrong) in self.failing.iter().take(MOST_SHOWN) {
            println!("FAULT seed {seed}: {}", wrong.join("\n    "));
        }
        println!("failing worlds {}", self.failing.len());
        if args.bug.is_some() {
            println!("the planted bug was found: {}", !self.failing.is_empty());
        }
        let good = self.failing.is_empty() != args.bug.is_some();
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
