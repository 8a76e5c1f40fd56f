//! Runs external programs that fetch packages and convert models: with a deadline, killed when the
//! caller's future is dropped, with their last output lines in the error. Not for the programs and
//! their arguments.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use hearken_base::child_env;
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::error::ModelError;

/// Interval between checks of a download's growth.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Number of output lines of a failed program that go into the error.
const LAST_LINES: usize = 4;

/// Variables that the programs inherit besides those of every program: the address of their
/// registry, and proxies.
const INHERITED: [&str; 15] = [
    "PIP_",
    "NPM_CONFIG_",
    "npm_config_",
    "XDG_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
];

/// Creates the command of an external program, which inherits no keys.
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(child_env::inherited(&INHERITED));
    command
}

/// One run of an external program.
pub(super) struct Run<'a> {
    /// Action, for the error.
    pub(super) what: &'a str,
    /// Advice on what to do when it fails.
    pub(super) remedy: &'a str,
    /// Maximum duration of the run.
    pub(super) deadline: Duration,
    /// Folder whose growth is reported while the program runs.
    pub(super) watch: Option<&'a Path>,
}

impl Run<'_> {
    /// Runs the program to its end and returns its standard output.
    pub(super) async fn run(
        self,
        mut command: Command,
        on_bytes: impl Fn(u64),
    ) -> Result<String, ModelError> {
        command.stdin(Stdio::null()).kill_on_drop(true);
        let failed = |reason: String| ModelError::Program {
            what: self.what.to_owned(),
            reason,
            remedy: self.remedy.to_owned(),
        };
        let name = command.as_std().get_program().to_string_lossy().into_owned();
        let finished = self.watched(command.output(), on_bytes);
        let output = match timeout(self.deadline, finished).await {
            Err(_) => {
                return Err(failed(format!(
                    "not finished after {} minutes",
                    self.deadline.as_secs() / 60
                )));
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(failed(format!("the program {name} is not installed")));
            }
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Ok(Ok(output)) => output,
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(failed(format!("{}: {}", output.status, last_words(&output))))
    }

    async fn watched(
        &self,
        output: impl Future<Output = io::Result<Output>>,
        on_bytes: impl Fn(u64),
    ) -> io::Result<Output> {
        let look = || {
            if let Some(folder) = self.watch {
                on_bytes(size_bytes(folder));
            }
        };
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(output);
        loop {
            tokio::select! {
                _ = looks.tick() => look(),
                output = &mut output => {
                    look();
                    return output;
                }
            }
        }
    }
}

fn last_words(output: &Output) -> String {
    // Python's venv reports missing parts on standard output.
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let text = String::from_utf8_lossy(said);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ")
}

/// Returns the total length in bytes of all files below a folder; unreadable ones count as zero.
fn size_bytes(folder: &Path) -> u64 {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut total = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => total += metadata.len(),
                Err(_) => {}
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = command("sh");
        command.args(["-c", script]);
        command
    }

    fn run(watch: Option<&Path>) -> Run<'_> {
        Run { what: "package p", remedy: "do this", deadline: Duration::from_secs(60), watch }
    }

    #[tokio::test]
    async fn output_is_returned_and_a_failure_contains_the_last_lines() {
        assert_eq!(run(None).run(shell("echo hi"), |_| {}).await.unwrap(), "hi\n");
        let error =
            run(None).run(shell("echo no such version >&2; exit 3"), |_| {}).await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("package p: ") && text.ends_with("; do this"), "{text}");
        assert!(text.contains("no such version"), "{text}");
        let error = run(None).run(command("no-such-program-here"), |_| {}).await.unwrap_err();
        assert!(error.to_string().contains("no-such-program-here is not installed"), "{error}");
    }

    #[tokio::test]
    async fn a_program_inherits_no_keys() {
        let names = run(None).run(shell("env"), |_| {}).await.unwrap();
        assert!(names.contains("PATH=") && !names.contains("CARGO_"), "{names}");
    }

    #[tokio::test]
    async fn the_growth_of_the_watched_folder_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("inner/part"), [0; 700]).unwrap();
        let seen = std::sync::atomic::AtomicU64::new(0);
        let seen_bytes = |bytes| seen.store(bytes, std::sync::atomic::Ordering::Relaxed);
        run(Some(folder.path())).run(shell("true"), seen_bytes).await.unwrap();
        assert_eq!(seen.into_inner(), 700);
    }
}
