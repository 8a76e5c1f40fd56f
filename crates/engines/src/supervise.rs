//! Engines as child processes: started, watched, started again when they die, ended with the
//! server. A crash in native code costs one turn, never the server. Not for what engines do.

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

/// First wait before a dead engine is started again; doubles while it keeps dying young.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// An engine that lived this long was well: the next wait is the first again.
const WELL_AFTER: Duration = Duration::from_secs(20);
/// How often an engine that starts is asked whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Time that an engine has to end by itself.
const END_WITHIN: Duration = Duration::from_secs(3);

/// An engine to be run.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Its name in logs and in `/healthz`.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// Its arguments. It must end when its standard input closes.
    pub args: Vec<OsString>,
    /// Variables on top of this process's own.
    pub env: Vec<(String, String)>,
    /// An address that answers 200 once the engine is ready.
    pub health_url: String,
}

/// Where an engine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineState {
    /// Started, not ready.
    Starting,
    /// Ready.
    Ready,
    /// Dead, about to be started again.
    Restarting,
}

/// State, process id and number of restarts of every engine; clones share them.
#[derive(Debug, Clone, Default)]
pub struct EngineStates(Arc<Mutex<BTreeMap<&'static str, EngineReport>>>);

/// What is known of one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct EngineReport {
    /// Where it stands.
    pub state: EngineState,
    /// Its process.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
}

impl EngineStates {
    /// Every engine's report.
    pub fn snapshot(&self) -> BTreeMap<&'static str, EngineReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No engine is on its way.
    pub fn all_ready(&self) -> bool {
        self.snapshot().values().all(|r| r.state == EngineState::Ready)
    }

    fn note(&self, name: &'static str, state: EngineState, pid: Option<u32>, restarts: u32) {
        let report = EngineReport { state, pid, restarts };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, report);
    }
}

/// The running engines.
pub struct Supervisor {
    states: EngineStates,
    tasks: JoinSet<()>,
    token: CancellationToken,
}

impl Supervisor {
    /// Starts the engines; they end with `token`.
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

    /// The engines' states.
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
        // Ctrl-C in a terminal is for the server, which then ends its engines in order.
        .process_group(0)
        .kill_on_drop(true);
    // A process begins with the priority of the thread that starts it.
    let runtime = Handle::current();
    let start = || {
        lower_priority();
        let _entered = runtime.enter();
        command.spawn()
    };
    let started = std::thread::scope(|scope| scope.spawn(start).join());
    started.unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it broke")))
}

#[derive(PartialEq, Eq)]
enum Ended {
    ByUs,
    ByItself,
}

/// Waits until the engine ends, or ends it. Its standard input stays open until then, so that it
/// also ends when this process dies.
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
        tracing::info!(engine = engine.name, pid, "engine is ready");
        states.note(engine.name, EngineState::Ready, pid, restarts);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        status = child.wait() => {
            let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
            tracing::error!(engine = engine.name, status, "engine ended by itself, starting it again");
            return Ended::ByItself;
        }
        () = ready => {}
        () = token.cancelled() => {}
    }
    drop(stdin);
    if tokio::time::timeout(END_WITHIN, child.wait()).await.is_err() {
        tracing::warn!(engine = engine.name, "engine did not end, killing it");
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
