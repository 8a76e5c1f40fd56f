//! `scripts/turns`: arguments and output only.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people")]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Parser, Subcommand};
use hearken_ports::TurnDetector;
use hearken_turns::detector::Remembering;
use hearken_turns::device::{Network, Upstreams};
use hearken_turns::manifest::{self, Sample};
use hearken_turns::policy::{self, Policy};
use hearken_turns::run::{self, Conditions, Turn};
use hearken_turns::{echo, interruptions, listen, report, speakers};

const EXAMPLES: &str = "Examples:
  scripts/turns score turns/manifest.jsonl
  scripts/turns score turns/manifest.jsonl --language zh --splices
  scripts/turns score turns/manifest.jsonl --policy 'hearing.silence_ms=500|600, hearing.aggressiveness=3'
  scripts/turns latency turns/manifest.jsonl --policy 'speculation.tries=0'
  scripts/turns echo turns/manifest.jsonl --scenes 60 --conditions plain,drift,loud
  scripts/turns interruptions turns/manifest.jsonl --policy 'interruption.pause=false'
  scripts/turns listen turns/manifest.jsonl --out samples
  scripts/turns speakers turns/manifest.jsonl --through-opus";

/// Measures turn-taking on recorded speech, in virtual time.
#[derive(Parser)]
#[command(name = "scripts/turns", bin_name = "scripts/turns", after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Scores policies: how long people wait after they have finished, and how often they are cut
    /// off in a pause.
    #[command(after_help = EXAMPLES)]
    Score(Measurement),
    /// Measures how soon a reply is heard after the end of a turn, and how many calls of the
    /// services it takes. Turns that are cut off are left out.
    #[command(after_help = EXAMPLES)]
    Latency {
        #[command(flatten)]
        measurement: Measurement,
        /// Times until the first result of the recogniser, the model and the synthesiser, in ms.
        #[arg(long, value_delimiter = ',', num_args = 3, default_values_t = [250, 350, 150])]
        upstreams_ms: Vec<u64>,
        /// The recogniser returns partial results while it listens, with this lag in ms.
        #[arg(long)]
        partials_ms: Option<u64>,
    },
    /// Measures interruptions: the effect of words, backchannels, coughs, a television or the
    /// reply's own echo over a reply.
    #[command(after_help = EXAMPLES)]
    Interruptions {
        #[command(flatten)]
        measurement: Measurement,
        /// Number of conversations with each policy.
        #[arg(long, default_value_t = 2_000)]
        conversations: usize,
        /// Seed of the conversations.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Play only the conversation with this number, and print its timeline; `--json` lists the
        /// ones that went wrong.
        #[arg(long)]
        only: Option<usize>,
        /// Ask the turn detector at each silence too, as the server does; takes ten times as long.
        #[arg(long)]
        detect_turns: bool,
        /// Times until the first result of the recogniser, the model and the synthesiser, in ms.
        #[arg(long, value_delimiter = ',', num_args = 3, default_values_t = [250, 350, 150])]
        upstreams_ms: Vec<u64>,
    },
    /// Writes audio samples in stereo: the microphone on the left, the loudspeaker on the right. A
    /// timeline accompanies each, as text and as JSON.
    #[command(after_help = EXAMPLES)]
    Listen {
        #[command(flatten)]
        measurement: Measurement,
        /// Folder for the samples.
        #[arg(long)]
        out: PathBuf,
        /// Times until the first result of the recogniser, the model and the synthesiser, in ms.
        #[arg(long, value_delimiter = ',', num_args = 3, default_values_t = [250, 350, 150])]
        upstreams_ms: Vec<u64>,
    },
    /// Measures echo: a device plays a reply in a room, and a person speaks over it.
    #[command(after_help = EXAMPLES)]
    Echo {
        /// Manifest of recordings, as JSON lines.
        manifest: PathBuf,
        /// Number of scenes of one minute, each in a different room.
        #[arg(long, default_value_t = 60)]
        scenes: u64,
        /// Levels of the person, in decibels over the echo.
        #[arg(long, value_delimiter = ',', default_values_t = [0.0, -10.0], allow_hyphen_values = true)]
        level_db: Vec<f64>,
        /// Conditions: drift, jumps, lost, stretches, loud, all; plain for the usual ones, exact
        /// for better ones.
        #[arg(long, value_delimiter = ',', default_values_t = ["plain".to_owned()])]
        conditions: Vec<String>,
        /// Number of the first scene; scenes with other numbers differ.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Number of scenes at a time.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Measures how well voices are distinguished: compares recordings of known speakers with each other.
    Speakers {
        /// Manifest of recordings, as JSON lines; a line may have `speaker`.
        manifest: PathBuf,
        /// Lengths of the judged speech, in seconds.
        #[arg(long, value_delimiter = ',', default_values_t = [1.0, 1.5, 2.0, 3.0])]
        seconds: Vec<f64>,
        /// Speaker embedder: `model.onnx` of the model `cam-plus-plus`. Default: the one that was fetched.
        #[arg(long, env = "HEARKEN_SPEAKER_EMBEDDER")]
        embedder: PathBuf,
        /// Pass the speech through the device's Opus.
        #[arg(long)]
        through_opus: bool,
        /// Length of the room's sound to leave at both ends of the speech.
        #[arg(long, default_value_t = 0)]
        silence_ms: u64,
        /// Number of recordings at a time.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
}

#[derive(clap::Args)]
struct Measurement {
    /// Manifest of recordings with marked pauses, as JSON lines; described in `crates/turns/src/manifest.rs`.
    manifest: PathBuf,
    /// Policy: configuration keys, such as `hearing.silence_ms=500`; `|` separates the values of a
    /// curve. Scores always include silence alone and the defaults; latency always includes the
    /// defaults.
    #[arg(long)]
    policy: Vec<String>,
    /// Use only recordings in this language.
    #[arg(long)]
    language: Option<String>,
    /// Score each recording again with a pause spliced in, in a separate group.
    #[arg(long)]
    splices: bool,
    /// Turn detector: `model.onnx` of the model `smart-turn`. Default: the one that was fetched.
    #[arg(long, env = "HEARKEN_TURN_DETECTOR")]
    detector: Option<PathBuf>,
    /// Time that the turn detector takes, in ms.
    #[arg(long, default_value_t = 50)]
    detector_ms: u64,
    /// Longest additional delay of a packet in the network, in ms.
    #[arg(long, default_value_t = 60)]
    jitter_ms: u64,
    /// Number of recordings at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Score(measurement) => score(&measurement),
        Command::Latency { measurement, upstreams_ms, partials_ms } => {
            latency(&measurement, &upstreams_ms, partials_ms)
        }
        Command::Interruptions {
            mut measurement,
            conversations,
            seed,
            only,
            detect_turns,
            upstreams_ms,
        } => {
            measurement.detector.take_if(|_| !detect_turns);
            interrupt(&measurement, conversations, only, seed, &upstreams_ms)
        }
        Command::Listen { measurement, out, upstreams_ms } => {
            write_samples(&measurement, &out, &upstreams_ms)
        }
        Command::Echo { manifest, scenes, level_db, conditions, first, jobs } => {
            measure_echo(&manifest, &conditions, first..first + scenes, &level_db, jobs)
        }
        Command::Speakers { manifest, seconds, embedder, through_opus, silence_ms, jobs } => {
            let lengths: Result<_, _> =
                seconds.into_iter().map(Duration::try_from_secs_f64).collect();
            let silence = Duration::from_millis(silence_ms);
            lengths.map_err(anyhow::Error::from).and_then(|lengths| {
                let conditions =
                    speakers::Conditions { embedder, lengths, silence, through_opus, jobs };
                measure_speakers(&manifest, &conditions)
            })
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn detector(args: &Measurement) -> anyhow::Result<Option<Arc<dyn TurnDetector>>> {
    let Some(file) = &args.detector else { return Ok(None) };
    let takes = Duration::from_millis(args.detector_ms);
    Ok(Some(Arc::new(Remembering::load(file, args.jobs, takes)?)))
}

fn score(args: &Measurement) -> anyhow::Result<()> {
    let mut policies = policy::baseline()?;
    policies.extend(given(args)?);
    let (turns, unmarked) = turns(args)?;
    let begun = Instant::now();
    let scores = run::score(&policies, &turns, &conditions(args, Upstreams::PATIENT)?);
    if args.json {
        println!("{}", report::json(&policies, &scores));
    } else {
        print!("{}", report::tables(&policies, &scores));
    }
    tell(turns.len(), unmarked, policies.len(), begun);
    Ok(())
}

fn latency(
    args: &Measurement,
    upstreams_ms: &[u64],
    partials_ms: Option<u64>,
) -> anyhow::Result<()> {
    let policies = given(args)?;
    let (turns, unmarked) = turns(args)?;
    let begun = Instant::now();
    let partials = partials_ms.map(Duration::from_millis);
    let upstreams = Upstreams { partials, ..upstreams(upstreams_ms)? };
    let conditions = conditions(args, upstreams)?;
    let latencies = run::latency(&policies, &turns, &conditions);
    if args.json {
        println!("{}", report::latency_json(&policies, &latencies));
    } else {
        print!("{}", report::latency_table(&policies, &latencies));
    }
    tell(turns.len(), unmarked, policies.len(), begun);
    Ok(())
}

fn upstreams(times_ms: &[u64]) -> anyhow::Result<Upstreams> {
    let times: Vec<Duration> = times_ms.iter().copied().map(Duration::from_millis).collect();
    let [recogniser, model, synthesiser] = times[..] else {
        bail!("--upstreams-ms needs three times: recogniser, model and synthesiser");
    };
    Ok(Upstreams { recogniser, model, synthesiser, partials: None })
}

fn interrupt(
    args: &Measurement,
    conversations: usize,
    only: Option<usize>,
    seed: u64,
    upstreams_ms: &[u64],
) -> anyhow::Result<()> {
    let policies = given(args)?;
    let (samples, unmarked) = samples(args)?;
    let recordings = samples.len();
    let voices = interruptions::read(&samples)?;
    let conditions = conditions(args, upstreams(upstreams_ms)?)?;
    if let Some(number) = only {
        for policy in &policies {
            let told = interruptions::explain(policy, &voices, number, seed, &conditions);
            println!("{}:\n{told}", policy.name);
        }
        return Ok(());
    }
    let begun = Instant::now();
    let outcomes = interruptions::measure(&policies, &voices, conversations, seed, &conditions);
    if args.json {
        println!("{}", interruptions::json(&policies, &outcomes));
    } else {
        println!("{}", interruptions::table(&policies, &outcomes));
        for (policy, outcome) in policies.iter().zip(&outcomes) {
            println!("{}:\n{}", policy.name, interruptions::versions_table(outcome));
        }
    }
    tell(recordings, unmarked, policies.len(), begun);
    Ok(())
}

fn write_samples(args: &Measurement, folder: &Path, upstreams_ms: &[u64]) -> anyhow::Result<()> {
    let (samples, _) = samples(args)?;
    let conditions = conditions(args, upstreams(upstreams_ms)?)?;
    let policies = given(args)?;
    let Some(Policy { settings, .. }) = policies.last() else { return Ok(()) };
    for written in listen::write(&samples, folder, settings, &conditions)? {
        let file = written.file.display();
        let shows = if written.shown { "" } else { " does not demonstrate the situation:" };
        println!("{file}:{shows} {}", written.found);
    }
    Ok(())
}

fn measure_echo(
    file: &Path,
    conditions: &[String],
    scenes: Range<u64>,
    levels_db: &[f64],
    jobs: usize,
) -> anyhow::Result<()> {
    let conditions = conditions.iter().map(|name| echo::conditions::named(name));
    let conditions: Vec<_> = conditions.collect::<Result<_, _>>()?;
    let voices = echo::read(&manifest::read(file)?.samples)?;
    println!("{}", report::ECHO_HEAD);
    for condition in &conditions {
        let found = echo::measure(&voices, condition, scenes.clone(), levels_db, jobs)?;
        for (level_db, remedies) in &found {
            for (remedy, found) in remedies {
                println!("{}", report::echo_row(condition, *level_db, *remedy, found));
            }
        }
    }
    Ok(())
}

fn measure_speakers(file: &Path, conditions: &speakers::Conditions) -> anyhow::Result<()> {
    let samples = manifest::read(file)?.samples;
    let (found, known) = speakers::measure(&samples, conditions)?;
    print!("{}", speakers::table(&found));
    eprintln!("{known} recordings ({} without a known speaker left out)", samples.len() - known);
    Ok(())
}

/// Returns the default policy and the policies of the command line.
fn given(args: &Measurement) -> anyhow::Result<Vec<Policy>> {
    let texts = std::iter::once("").chain(args.policy.iter().map(String::as_str));
    let policies: Vec<Vec<Policy>> = texts.map(policy::parse).collect::<Result<_, _>>()?;
    Ok(policies.concat())
}

/// Reads the recordings; returns also how many were left out without marks.
fn turns(args: &Measurement) -> anyhow::Result<(Vec<Turn>, usize)> {
    let (samples, unmarked) = samples(args)?;
    Ok((run::read(samples, args.splices)?, unmarked))
}

fn samples(args: &Measurement) -> anyhow::Result<(Vec<Sample>, usize)> {
    let manifest = manifest::read(&args.manifest)?;
    let mut samples = manifest.samples;
    if let Some(language) = &args.language {
        samples.retain(|sample| sample.group == *language);
    }
    if samples.is_empty() {
        bail!("{}: no recordings to score", args.manifest.display());
    }
    Ok((samples, manifest.unmarked))
}

fn conditions(args: &Measurement, upstreams: Upstreams) -> anyhow::Result<Conditions> {
    let network = Network { jitter: Duration::from_millis(args.jitter_ms) };
    Ok(Conditions { detector: detector(args)?, network, upstreams, jobs: args.jobs })
}

fn tell(recordings: usize, unmarked: usize, policies: usize, begun: Instant) {
    let took = begun.elapsed().as_secs_f64();
    eprintln!(
        "{recordings} recordings ({unmarked} without marks left out), {policies} policies, {took:.0} s"
    );
}
