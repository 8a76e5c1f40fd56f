//! Many worlds, each in a process of its own, as only a whole process can depend on one seed: a
//! copy of a process that has prepared the data of all worlds. Not for the events of a world.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use serde_json::{Value, json};

use crate::judge::Counts;
use crate::plan::{Bug, CONVERSATIONS, Plan};
use crate::world::{self, Outcome};
use crate::{Args, determinism};

const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Number of seeds that a check runs twice.
const RUN_TWICE: u64 = 40;
/// Maximum number of failing seeds that are shown.
const MOST_SHOWN: usize = 20;

/// Runs each world whose seed is read in a copy of this process, and prints its result on one line.
/// Data that all worlds need is prepared before.
pub(crate) fn serve(job: usize, bug: Option<Bug>) -> ExitCode {
    world::prepare(job);
    for seed in std::io::stdin().lines().map_while(Result::ok) {
        let Ok(seed) = seed.parse() else { return ExitCode::FAILURE };
        let plan = Plan::of(seed, bug);
        if let Err(wrong) = determinism::in_a_copy(|| tell(&world::run(&plan, false))) {
            println!("{}", json!({ "wrong": [wrong] }));
        }
    }
    ExitCode::SUCCESS
}

/// Writes the outcome of a world as one line.
fn tell(outcome: &Outcome) {
    let line = json!({
        "counts": outcome.counts.rows(),
        "seconds": outcome.lasted.as_secs(),
        "trace": format!("{:016x}", outcome.trace),
        "wrong": outcome.wrong,
    });
    println!("{line}");
}

struct Totals {
    counts: [(&'static str, u64); Counts::ROWS],
    seconds: u64,
    failing: Vec<(u64, Vec<String>)>,
    /// Time of the last progress message.
    shown: Instant,
}

/// Runs worlds until there are enough conversations, or the planted bug is found.
pub(crate) fn run(args: &Args) -> ExitCode {
    let (totals, took) = worlds(args);
    totals.show(args, took)
}

/// Plants each bug until it is found, and runs seeds twice.
pub(crate) fn check(args: &Args) -> ExitCode {
    let mut good = true;
    for bug in Bug::value_variants() {
        let (totals, took) = worlds(&Args { bug: Some(*bug), ..args.clone() });
        let conversations = totals.conversations();
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
    let mut servers = [0, 1].map(|job| WorldServer::start(args, job));
    let differing = (args.first..args.first + RUN_TWICE).filter(|seed| {
        let [first, second] = servers.each_mut().map(|server| server.run(*seed));
        first != second || !first["trace"].is_string()
    });
    let differing: Vec<u64> = differing.collect();
    println!("{RUN_TWICE} seeds run twice, differing: {differing:?}");
    if good && differing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn worlds(args: &Args) -> (Totals, Duration) {
    let worlds = args.conversations.div_ceil(CONVERSATIONS as u64);
    let next = AtomicU64::new(args.first);
    let begun = Instant::now();
    let totals = Mutex::new(Totals::new(begun));
    let locked = || totals.lock().expect("no panic while they are locked");
    std::thread::scope(|scope| {
        let next = &next;
        let locked = &locked;
        for job in 0..args.jobs {
            scope.spawn(move || {
                let mut server = WorldServer::start(args, job);
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    let bug_found = args.bug.is_some() && !locked().failing.is_empty();
                    if seed >= args.first + worlds || bug_found {
                        return;
                    }
                    let world = server.run(seed);
                    let mut totals = locked();
                    totals.add(seed, &world);
                    if totals.shown.elapsed() > PROGRESS_EVERY {
                        totals.shown = Instant::now();
                        eprintln!(
                            "{} of {} conversations",
                            totals.conversations(),
                            args.conversations
                        );
                    }
                }
            });
        }
    });
    (totals.into_inner().expect("no panic while they are locked"), begun.elapsed())
}

/// A process that runs worlds, each in a copy of it.
struct WorldServer {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl WorldServer {
    fn start(args: &Args, job: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["--serve", &job.to_string()]);
        if let Some(bug) = args.bug {
            let bug = bug.to_possible_value().expect("each bug has a name");
            command.args(["--break", bug.get_name()]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program can be started");
        let lines = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self { child, lines }
    }

    fn run(&mut self, seed: u64) -> Value {
        let mut line = String::new();
        let asked = self.child.stdin.as_mut().map(|seeds| writeln!(seeds, "{seed}"));
        let read = self.lines.read_line(&mut line);
        serde_json::from_str(&line)
            .unwrap_or_else(|_| json!({ "wrong": [format!("no world ran: {asked:?}, {read:?}")] }))
    }
}

/// The process ends when it gets no more seeds.
impl Drop for WorldServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("cannot wait for a process: {error}");
        }
    }
}

impl Totals {
    fn new(shown: Instant) -> Self {
        let counts = Counts::default().rows();
        Self { counts, seconds: 0, failing: Vec::new(), shown }
    }

    fn conversations(&self) -> u64 {
        self.counts[0].1
    }

    fn add(&mut self, seed: u64, world: &Value) {
        for (index, (_, total)) in self.counts.iter_mut().enumerate() {
            *total += world["counts"][index][1].as_u64().unwrap_or_default();
        }
        self.seconds += world["seconds"].as_u64().unwrap_or_default();
        let wrong = world["wrong"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !wrong.is_empty() {
            let wrong = wrong.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            self.failing.push((seed, wrong));
        }
    }

    fn show(&self, args: &Args, took: Duration) -> ExitCode {
        for (name, count) in self.counts {
            println!("{name:14} {count}");
        }
        println!("seconds        {}", self.seconds);
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
