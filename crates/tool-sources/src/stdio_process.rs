//! Tool server as a child process: it gets only the given environment, its standard streams carry
//! the protocol, and it ends together with its whole process group. Not for the protocol.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Time within which a child must exit by itself once its standard input is closed.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Maximum wait for the last error output of a child that has exited.
const SAID_WITHIN: Duration = Duration::from_millis(200);
/// Number of bytes of standard error that are stored, to report why a child did not start.
const KEPT_STDERR_BYTES: usize = 4 << 10;

/// Environment variables of a child process.
pub type Environment = BTreeMap<String, String>;

/// Running child process. Dropping it kills its process group.
pub(super) struct ToolChild {
    child: Child,
    group: Option<Pid>,
    said: Arc<Mutex<Vec<u8>>>,
    listening: tokio::task::JoinHandle<()>,
}

impl ToolChild {
    /// Starts the program with these variables and no others. Returns the child, its standard
    /// output and its standard input.
    pub(super) fn spawn(
        command: &str,
        args: &[String],
        env: &Environment,
    ) -> std::io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = Command::new(command)
            .args(args)
            .env_clear()
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A separate process group: Ctrl-C in a terminal must reach only the server, and
            // programs that only start another one (npx, uvx) end together with it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let streams = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(stdout), Some(stdin), Some(stderr)) = streams else {
            return Err(std::io::Error::other("the program's standard streams are missing"));
        };
        let said = Arc::default();
        let listening = tokio::spawn(listen(stderr, Arc::clone(&said)));
        Ok((Self { child, group, said, listening }, stdout, stdin))
    }

    /// Waits until the child exits, which its closed standard input requests; kills it after a time
    /// limit. Returns the last line of its standard error.
    pub(super) async fn end(mut self) -> Option<String> {
        if tokio::time::timeout(END_WITHIN, self.child.wait()).await.is_err() {
            tracing::debug!("a tool server did not exit in time; killing it");
        }
        self.kill_group();
        // From here on the process id may be reused.
        self.group = None;
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "cannot wait for the exit of a tool server");
        }
        // A process outside its group may hold the stream open.
        if tokio::time::timeout(SAID_WITHIN, &mut self.listening).await.is_err() {
            tracing::debug!("a tool server's standard error stays open");
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().rev().find(|l| !l.trim().is_empty())?;
        Some(super::mapping::short(line))
    }

    /// Kills the process group, including processes that the child left behind.
    fn kill_group(&self) {
        if let Some(group) = self.group {
            // All of them may have exited already.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

impl Drop for ToolChild {
    fn drop(&mut self) {
        self.kill_group();
        self.listening.abort();
    }
}

/// Reads standard error to its end, to avoid blocking the child, and stores the last part.
async fn listen(stderr: ChildStderr, said: Arc<Mutex<Vec<u8>>>) {
    let mut stderr = BufReader::new(stderr);
    let mut piece = [0; 1_024];
    while let Ok(read) = stderr.read(&mut piece).await {
        if read == 0 {
            break;
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&piece[..read]);
        let over = said.len().saturating_sub(KEPT_STDERR_BYTES);
        said.drain(..over);
    }
}
