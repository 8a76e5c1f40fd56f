//! Supervisor of engines as child processes: starts them, monitors them, restarts them when they
//! die or do not answer, and ends them with the server. A crash in native code loses one turn,
//! never the server. Not for the work of the engines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearken_base::child_env;
use hearken_base::priority::lower_priority;
use metrics::{Counter, Unit, counter, describe_counter};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// First wait before a dead engine is restarted; doubles each time it dies again soon after its
/// start.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Maximum wait before a restart.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Run time after which an engine counts as stable: the next wait is the first again.
const WELL_AFTER: Duration = Duration::from_secs(20);
/// Interval between health checks of a starting engine, and of one that does not answer.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Interval between health checks of a ready engine.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Time for an engine to become ready: loading models takes minutes on a slow disk.
const READY_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Variables that engines inherit besides those of every program: for shared libraries, espeak-ng's
/// data, threads and traces of crashes.
const INHERITED: [&str; 4] =
    ["LD_LIBRARY_PATH", "ESPEAK_DATA_PATH", "OMP_NUM_THREADS", "RUST_BACKTRACE"];
/// Time within which an engine must exit by itself.
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
    /// Environment variables besides the inherited ones: see [`child_env`].
    pub env: Vec<(String, String)>,
    /// URL that answers 200 once the engine is ready, and from then on while it works.
    pub health_url: String,
    /// Maximum time without such an answer: a ready engine is then killed and restarted.
    pub answers_within: Duration,
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
    let restarted = restart_counter(engine.name);
    let mut wait = FIRST_WAIT;
    for restarts in 0.. {
        let started = Instant::now();
        let cause = match spawn(&engine) {
            Ok(child) => {
                states.note(engine.name, EngineState::Starting, child.id(), restarts);
                match watch(&engine, child, &states, restarts, &token).await {
                    Ended::ByUs => return,
                    Ended::Failed(cause) => cause,
                }
            }
            Err(error) => format!("cannot start {}: {error}", engine.program.display()),
        };
        states.note(engine.name, EngineState::Restarting, None, restarts);
        wait = if started.elapsed() >= WELL_AFTER { FIRST_WAIT } else { wait };
        tracing::error!(
            engine = engine.name,
            cause,
            restarts,
            wait_ms = wait.as_millis(),
            "the engine failed; restarting it after this wait"
        );
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(LONGEST_WAIT);
        restarted.increment(1);
    }
}

/// Creates the counter of an engine's restarts.
fn restart_counter(engine: &'static str) -> Counter {
    const NAME: &str = "hearken_engine_restarts_total";
    describe_counter!(NAME, Unit::Count, "Restarts of an engine that exited or did not answer");
    counter!(NAME, "engine" => engine)
}

fn spawn(engine: &Engine) -> std::io::Result<Child> {
    let mut command = Command::new(&engine.program);
    command
        .args(&engine.args)
        .env_clear()
        .envs(child_env::inherited(&INHERITED))
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

enum Ended {
    ByUs,
    /// It exited, or was killed because it did not answer; with the cause.
    Failed(String),
}

/// Waits until the engine exits, or ends it when `token` is cancelled. Kills it when it does not
/// answer. Holds its standard input open until then: the engine also exits when this process dies.
/// Decision 0030.
async fn watch(
    engine: &Engine,
    mut child: Child,
    states: &EngineStates,
    restarts: u32,
    token: &CancellationToken,
) -> Ended {
    let stdin = child.stdin.take();
    let pid = child.id();
    let ask = || is_healthy(&engine.health_url, engine.answers_within);
    let on_ready = || {
        tracing::info!(engine = engine.name, pid, "the engine is ready");
        states.note(engine.name, EngineState::Ready, pid, restarts);
    };
    tokio::select! {
        status = child.wait() => {
            return Ended::Failed(status.map_or_else(|e| e.to_string(), |s| s.to_string()));
        }
        cause = until_silent(ask, engine.answers_within, on_ready) => {
            // A stopped process reacts to nothing else.
            kill(engine, &mut child).await;
            return Ended::Failed(cause);
        }
        () = token.cancelled() => {}
    }
    drop(stdin);
    if tokio::time::timeout(END_WITHIN, child.wait()).await.is_err() {
        tracing::warn!(engine = engine.name, "the engine did not exit in time; killing it");
        kill(engine, &mut child).await;
    }
    Ended::ByUs
}

async fn kill(engine: &Engine, child: &mut Child) {
    if let Err(error) = child.kill().await {
        tracing::error!(engine = engine.name, %error, "cannot kill the engine");
    }
}

/// Returns once the engine has not become ready in time, or was ready and has not answered `ask`
/// with true for the time `within`. Returns which of the two.
async fn until_silent<F: Future<Output = bool>>(
    ask: impl Fn() -> F,
    within: Duration,
    on_ready: impl FnOnce(),
) -> String {
    if tokio::time::timeout(READY_WITHIN, until_healthy(&ask)).await.is_err() {
        return format!("not ready within {READY_WITHIN:?}");
    }
    on_ready();
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        if tokio::time::timeout(within, until_healthy(&ask)).await.is_err() {
            return format!("no answer within {within:?}");
        }
    }
}

/// Asks until the answer is true.
async fn until_healthy<F: Future<Output = bool>>(ask: &impl Fn() -> F) {
    while !ask().await {
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Asks an engine for its health. An engine that is busy may take its time.
async fn is_healthy(url: &str, within: Duration) -> bool {
    hearken_outbound::tls::choose_provider();
    let answer = reqwest::Client::new().get(url).timeout(within).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    /// Checks an engine that answers until a time, with this delay. Returns when the engine was
    /// found silent, since the start, and whether it was ready.
    async fn found_silent(answers_until: Duration, takes: Duration) -> (Duration, bool) {
        let begun = Instant::now();
        let ready = Cell::new(false);
        let ask = || async move {
            if begun.elapsed() > answers_until {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(takes).await;
            true
        };
        until_silent(ask, WITHIN, || ready.set(true)).await;
        (begun.elapsed(), ready.get())
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_stops_answering_is_detected_within_half_a_minute() {
        for answers_until in [0, 1, 4_999, 5_000, 5_001, 61_234] {
            let answers_until = Duration::from_millis(answers_until);
            let (found, ready) = found_silent(answers_until, Duration::ZERO).await;
            assert!(ready && found > answers_until, "{found:?}");
            assert!(found <= answers_until + Duration::from_secs(25), "{found:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_is_slow_to_answer_is_not_killed() {
        let slow = WITHIN - Duration::from_secs(1);
        let hour = Duration::from_secs(60 * 60);
        let (found, _) = found_silent(hour, slow).await;
        assert!(found > hour, "{found:?}");
        let (found, _) = found_silent(hour, WITHIN + Duration::from_secs(1)).await;
        assert!(found < Duration::from_secs(60), "slower than allowed: {found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_never_becomes_ready_is_given_up() {
        let begun = Instant::now();
        until_silent(|| std::future::ready(false), WITHIN, || unreachable!("it is not ready"))
            .await;
        assert_eq!(begun.elapsed(), READY_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_before_a_restart_doubles_up_to_its_limit() {
        let engine = Engine {
            name: "test",
            program: "/nowhere/engine".into(),
            args: Vec::new(),
            env: Vec::new(),
            health_url: String::new(),
            answers_within: WITHIN,
        };
        let states = EngineStates::default();
        let token = CancellationToken::new();
        let running = tokio::spawn(keep_running(engine, states.clone(), token.clone()));
        let begun = Instant::now();
        let mut waits = vec![Duration::ZERO];
        while waits.len() < 10 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let restarts = states.snapshot().get("test").map_or(0, |report| report.restarts);
            if restarts as usize == waits.len() {
                waits.push(begun.elapsed());
            }
        }
        token.cancel();
        running.await.unwrap();
        let waits = waits.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
        let wanted = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0];
        for (wait, wanted) in waits.zip(wanted) {
            assert!((wait - wanted).abs() < 0.01, "{wait} instead of {wanted}");
        }
    }
}
