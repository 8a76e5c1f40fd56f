//! Supervisor of engines as child processes: starts them, monitors them, restarts them when they
//! die, and ends them with the server. A crash in native code costs one turn, never the server. Not
//! for the work of the engines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearken_base::priority::lower_priority;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// First wait before a dead engine is restarted; doubles while it keeps dying soon after its start.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Longest wait before a restart.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Run time after which an engine counts as stable: the next wait is the first again.
const WELL_AFTER: Duration = Duration::from_secs(20);
/// Interval between health checks of a starting engine.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Time that an engine has to exit by itself.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Engine to run.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Name in logs and in `/healthz`.
    pub name: &'static str,
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments. The program must exit when its standard input closes.
    pub args: Vec<OsString>,
    /// Environment variables in addition to those of this process.
    pub env: Vec<(String, String)>,
    /// URL that answers 200 once the engine is ready.
    pub health_url: String,
}

/// State of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineState {
    /// Started, not yet ready.
    Starting,
    /// Ready.
    Ready,
    /// Dead, about to be restarted.
    Restarting,
}

/// State, process id and number of restarts of every engine; clones share them.
#[derive(Debug, Clone, Default)]
pub struct EngineStates(Arc<Mutex<BTreeMap<&'static str, EngineReport>>>);

/// Report on one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct EngineReport {
    /// State of the engine.
    pub state: EngineState,
    /// Process id.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u32,
}

impl EngineStates {
    /// Returns a report on every engine.
    pub fn snapshot(&self) -> BTreeMap<&'static str, EngineReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns true if every engine is ready.
    pub fn all_ready(&self) -> bool {
        self.snapshot().values().all(|r| r.state == EngineState::Ready)
    }

    fn note(&self, name: &'static str, state: EngineState, pid: Option<u32>, restarts: u32) {
        let report = EngineReport { state, pid, restarts };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, report);
    }
}

/// Supervisor of the running engines.
pub struct Supervisor {
    states: EngineStates,
    tasks: JoinSet<()>,
    token: CancellationToken,
}

impl Supervisor {
    /// Starts the engines. They end when `token` is cancelled.
    pub fn start(engines: Vec<Engine>, token: &CancellationToken) -> Self {
        let states = EngineStates::default();
        let token = token.child_token();
        let mut tasks = JoinSet::new();
        for engine in engines {
            states.note(engine.name, EngineState::Starting, None, 0);
            tasks.spawn(keep_running(engine, states.clone(), token.clone()));
        }
        Self { states, tasks, token }
    }

    /// Returns the engines' states.
    pub fn states(&self) -> &EngineStates {
        &self.states
    }

    /// Ends every engine and waits for it.
    pub async fn stop(mut self) {
        self.token.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "an engine's supervisor failed");
            }
        }
    }
}

async fn keep_running(engine: Engine, states: EngineStates, token: CancellationToken) {
    let mut wait = FIRST_WAIT;
    for restarts in 0.. {
        let started = Instant::now();
        match spawn(&engine) {
            Ok(child) => {
                states.note(engine.name, EngineState::Starting, child.id(), restarts);
                if watch(&engine, child, &states, restarts, &token).await == Ended::ByUs {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(engine = engine.name, program = %engine.program.display(), %error, "cannot start the engine");
            }
        }
        states.note(engine.name, EngineState::Restarting, None, restarts);
        wait = if started.elapsed() >= WELL_AFTER { FIRST_WAIT } else { wait };
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

fn spawn(engine: &Engine) -> std::io::Result<Child> {
    let mut command = Command::new(&engine.program);
    command
        .args(&engine.args)
        .envs(engine.env.iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        // Ctrl-C in a terminal must reach only the server, which then ends its engines in order.
        .process_group(0)
        .kill_on_drop(true);
    // A process starts with the priority of the thread that starts it.
    let runtime = Handle::current();
    let start = || {
        lower_priority();
        let _entered = runtime.enter();
        command.spawn()
    };
    let started = std::thread::scope(|scope| scope.spawn(start).join());
    started.unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it panicked")))
}

#[derive(PartialEq, Eq)]
enum Ended {
    ByUs,
    ByItself,
}

/// Waits until the engine exits, or ends it when `token` is cancelled. Keeps its standard input
/// open until then: the engine also exits when this process dies.
async fn watch(
    engine: &Engine,
    mut child: Child,
    states: &EngineStates,
    restarts: u32,
    token: &CancellationToken,
) -> Ended {
    let stdin = child.stdin.take();
    let pid = child.id();
    let ready = async {
        wait_until_ready(&engine.health_url).await;
        tracing::info!(engine = engine.name, pid, "the engine is ready");
        states.note(engine.name, EngineState::Ready, pid, restarts);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        status = child.wait() => {
            let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
            tracing::error!(engine = engine.name, status, "the engine exited; restarting it");
            return Ended::ByItself;
        }
        () = ready => {}
        () = token.cancelled() => {}
    }
    drop(stdin);
    if tokio::time::timeout(END_WITHIN, child.wait()).await.is_err() {
        tracing::warn!(engine = engine.name, "the engine did not exit in time; killing it");
        if let Err(error) = child.kill().await {
            tracing::error!(engine = engine.name, %error, "cannot kill the engine");
        }
    }
    Ended::ByUs
}

async fn wait_until_ready(url: &str) {
    hearken_base::tls::choose_provider();
    let client = reqwest::Client::new();
    loop {
        let answer = client.get(url).timeout(Duration::from_secs(2)).send().await;
        if answer.is_ok_and(|a| a.status().is_success()) {
            return;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
