//! `hearken models`: lists the catalogue, fetches models, checks their files. Only the terminal
//! output; the work is in the other files of this folder.
#![allow(clippy::print_stdout, reason = "what a command answers goes to standard output")]

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Catalogue, Event, FileState, Model};
use anyhow::bail;
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "Examples:
  hearken models list                      what there is, and what is here already
  hearken models list --long               with licences' fine print and sources
  hearken models fetch                     what the default configuration needs
  hearken models fetch qwen2.5-coder-1.5b  one model by name
  hearken models verify                    hash every file of every model that is here";

/// Interval of progress lines on a terminal, and on other outputs.
const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Shows, fetches and checks the models that the embedded engines use.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List every model: its purpose, its licence, its size and its presence.
    List {
        /// Also show notes and sources.
        #[arg(long)]
        long: bool,
    },
    /// Fetch models; a complete model is skipped.
    Fetch {
        /// Names of the models; by default those that the default configuration needs.
        names: Vec<String>,
        /// Fetch what the default configuration needs, besides any names given.
        #[arg(long)]
        default: bool,
    },
    /// Compare the files of models with their hashes in the catalogue.
    Verify {
        /// Names of the models; by default every present model.
        names: Vec<String>,
    },
}

/// Runs the command on the model folder `root`.
///
/// # Errors
/// Fails if a name is unknown, a model cannot be fetched, or a file has the wrong hash.
pub async fn run(args: Args, root: &Path) -> anyhow::Result<()> {
    let catalogue = Catalogue::built_in()?;
    match args.action {
        Action::List { long } => list(&catalogue, root, long),
        Action::Fetch { mut names, default } => {
            if default && !names.is_empty() {
                names.extend(catalogue.select(&[])?.iter().map(|model| model.name.clone()));
            }
            let display = Display::new();
            let outcome = super::fetch(root, &names, &|event| display.show(event)).await;
            display.end_line();
            outcome?;
        }
        Action::Verify { names } => verify(&catalogue, root, &names).await?,
    }
    Ok(())
}

fn list(catalogue: &Catalogue, root: &Path, long: bool) {
    let mark = |model: &Model| match (super::is_ready(root, model), model.tested) {
        (true, _) => "here",
        (false, true) if model.default => "default",
        (false, true) => "",
        (false, false) => "untested",
    };
    let width = catalogue.models.iter().map(|model| model.name.len()).max().unwrap_or_default();
    for model in &catalogue.models {
        let size = model.size_bytes().map_or_else(|| "unknown".to_owned(), megabytes);
        println!(
            "{:width$}  {:7}  {size:>10}  {:8}  {}  [{}]",
            model.name,
            model.purpose.as_str(),
            mark(model),
            model.title,
            model.licence,
        );
        if long {
            details(model);
        }
    }
    println!("\nFolder: {}", root.display());
}

fn details(model: &Model) {
    if let Some(note) = &model.notes {
        println!("    {note}");
    }
    for hub in model.inputs.iter().filter_map(|input| input.hub.as_ref()) {
        println!("    hub      {hub}");
    }
    for package in &model.packages {
        println!(
            "    package  {} {} ({})",
            package.name,
            package.version,
            megabytes(package.bytes)
        );
    }
}

async fn verify(catalogue: &Catalogue, root: &Path, names: &[String]) -> anyhow::Result<()> {
    let chosen: Vec<&Model> = if names.is_empty() {
        let here = |model: &&Model| super::folder(root, model).is_dir();
        catalogue.models.iter().filter(here).collect()
    } else {
        catalogue.select(names)?
    };
    let mut bad = 0;
    for model in &chosen {
        for report in super::inspect(root, model).await? {
            let (word, detail) = match &report.state {
                FileState::Good => ("good", String::new()),
                FileState::Missing => ("MISSING", String::new()),
                FileState::Changed { expected, actual } => {
                    ("CHANGED", format!(" (sha256 {actual}, expected {expected})"))
                }
            };
            bad +=
                usize::from(matches!(report.state, FileState::Missing | FileState::Changed { .. }));
            println!("{word:7}  {}/{}{detail}", report.model, report.file);
        }
    }
    if bad > 0 {
        bail!(
            "{bad} files are missing or changed; delete the folder of that model under {} and fetch it again",
            root.display()
        );
    }
    if chosen.is_empty() {
        println!("no models are present yet; `hearken models fetch` fetches the default ones");
    } else {
        println!("{} models are complete and unchanged", chosen.len());
    }
    Ok(())
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

/// Writes events to standard error: one line rewritten on a terminal, else a line every few seconds.
struct Display {
    terminal: bool,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// File being downloaded, with the time and length at the start.
    current: Option<(String, Instant, u64)>,
    written: Option<Instant>,
    open: bool,
}

impl Display {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), line: Mutex::default() }
    }

    fn show(&self, event: Event<'_>) {
        match event {
            Event::Bytes { model, what, done, total } => self.bytes(model, what, done, total),
            Event::Waiting => {
                self.say("another process is fetching into this folder; waiting for it")
            }
            Event::Ready { model } => self.say(&format!("{model}: already present")),
            Event::Note { model, text } => self.say(&format!("{model}: {text}")),
            Event::Fetched { model, bytes, took } => {
                self.say(&format!(
                    "{model}: fetched, {} in {:.1} s",
                    megabytes(bytes),
                    took.as_secs_f64()
                ));
            }
        }
    }

    fn say(&self, text: &str) {
        self.end_line();
        write_to_stderr(&format!("{text}\n"));
    }

    /// Ends a progress line that is still being rewritten.
    fn end_line(&self) {
        let mut line = self.line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if std::mem::take(&mut line.open) {
            write_to_stderr("\n");
        }
    }

    fn bytes(&self, model: &str, what: &str, done: u64, total: Option<u64>) {
        let mut line = self.line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        if line.current.as_ref().is_none_or(|(name, _, _)| name != what) {
            line.current = Some((what.to_owned(), now, done));
        }
        let pause = if self.terminal { ON_TERMINAL } else { ELSEWHERE };
        let nothing_yet = done == 0 && !self.terminal;
        if nothing_yet || line.written.is_some_and(|at| now.duration_since(at) < pause) {
            return;
        }
        line.written = Some(now);
        let (since, from) =
            line.current.as_ref().map_or((now, 0), |(_, since, from)| (*since, *from));
        let text = progress(model, what, done, total, now.duration_since(since), from);
        line.open = self.terminal;
        write_to_stderr(&if self.terminal {
            format!("\r\x1b[K{text}")
        } else {
            format!("{text}\n")
        });
    }
}

/// Renders one progress line: model, file, bytes, percent, rate.
fn progress(
    model: &str,
    what: &str,
    done: u64,
    total: Option<u64>,
    took: Duration,
    from: u64,
) -> String {
    let share = total.filter(|total| *total > 0).map_or_else(String::new, |total| {
        format!(" of {}, {} %", megabytes(total), (done.min(total)) * 100 / total)
    });
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let rate = match done.saturating_sub(from).saturating_mul(1000).checked_div(millis) {
        Some(rate) if rate > 0 => format!(", {}/s", megabytes(rate)),
        _ => String::new(),
    };
    format!("{model}: {what} {}{share}{rate}", megabytes(done))
}

/// Writes to standard error; a closed terminal does not stop a download.
fn write_to_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_line_has_bytes_percent_and_rate() {
        let line =
            progress("m", "a.whl", 5_000_000, Some(20_000_000), Duration::from_secs(2), 1_000_000);
        assert_eq!(line, "m: a.whl 5.0 MB of 20.0 MB, 25 %, 2.0 MB/s");
        assert_eq!(progress("m", "a", 0, None, Duration::ZERO, 0), "m: a 0.0 MB");
    }

    #[test]
    fn the_arguments_parse() {
        let parsed = Args::try_parse_from(["models", "fetch", "a", "--default"]).unwrap();
        assert!(matches!(parsed.action, Action::Fetch { names, default: true } if names == ["a"]));
        assert!(Args::try_parse_from(["models"]).is_err());
    }
}
