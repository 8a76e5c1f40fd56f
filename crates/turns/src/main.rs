//! `scripts/turns`: arguments and printing only.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Parser, Subcommand};
use hearken_actors::ports::TurnDetector;
use hearken_turns::detector::Remembering;
use hearken_turns::device::Network;
use hearken_turns::{manifest, policy, report, run};

const EXAMPLES: &str = "Examples:
  scripts/turns score turns/manifest.jsonl
  scripts/turns score turns/manifest.jsonl --language zh --splices
  scripts/turns score turns/manifest.jsonl --policy 'hearing.silence_ms=500|600, hearing.aggressiveness=3'";

/// Measures turn-taking on recorded speech, in virtual time.
#[derive(Parser)]
#[command(name = "scripts/turns", bin_name = "scripts/turns", after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Scores policies: how long people wait after they have finished, and how often they are cut off in a pause.
    #[command(after_help = EXAMPLES)]
    Score(Score),
}

#[derive(clap::Args)]
struct Score {
    /// JSON lines that name recordings and mark their pauses; `crates/turns/src/manifest.rs` describes them.
    manifest: PathBuf,
    /// Policy: keys of the configuration, such as `hearing.silence_ms=500`; `|` separates values of a curve.
    /// Silence alone and the defaults are always scored.
    #[arg(long)]
    policy: Vec<String>,
    /// Only recordings in this language.
    #[arg(long)]
    language: Option<String>,
    /// Score each recording again with a pause spliced in, as a group of its own.
    #[arg(long)]
    splices: bool,
    /// Turn detector: `model.onnx` of the model `smart-turn`. `scripts/turns` names the fetched one.
    #[arg(long, env = "HEARKEN_TURN_DETECTOR")]
    detector: Option<PathBuf>,
    /// Time that the turn detector takes.
    #[arg(long, default_value_t = 50)]
    detector_ms: u64,
    /// Longest additional delay of a packet in the network.
    #[arg(long, default_value_t = 60)]
    jitter_ms: u64,
    /// Recordings at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let Command::Score(args) = Args::parse().command;
    match score(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn detector(args: &Score) -> anyhow::Result<Option<Arc<dyn TurnDetector>>> {
    let Some(file) = &args.detector else { return Ok(None) };
    let takes = Duration::from_millis(args.detector_ms);
    Ok(Some(Arc::new(Remembering::load(file, args.jobs, takes)?)))
}

fn score(args: &Score) -> anyhow::Result<()> {
    let mut policies = policy::baseline()?;
    for text in std::iter::once("").chain(args.policy.iter().map(String::as_str)) {
        policies.extend(policy::parse(text)?);
    }
    let manifest = manifest::read(&args.manifest)?;
    let mut samples = manifest.samples;
    if let Some(language) = &args.language {
        samples.retain(|sample| sample.group == *language);
    }
    if samples.is_empty() {
        bail!("{}: no recording to score", args.manifest.display());
    }
    let begun = Instant::now();
    let turns = run::read(samples, args.splices)?;
    let detector = detector(args)?;
    let network = Network { jitter: Duration::from_millis(args.jitter_ms) };
    let scores = run::score(&policies, &turns, detector, network, args.jobs);
    if args.json {
        println!("{}", report::json(&policies, &scores));
    } else {
        print!("{}", report::tables(&policies, &scores));
    }
    eprintln!(
        "{} recordings ({} without marks left out), {} policies, {:.0} s",
        turns.len(),
        manifest.unmarked,
        policies.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}
