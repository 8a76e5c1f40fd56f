//! Engines as child processes: ready, killed, restarted, ended with the server. Not for real
//! engines.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hearken_engines::supervise::{Engine, EngineReport, EngineState, Supervisor};
use hearken_test_support::health::HealthStub;
use hearken_test_support::{eventually, eventually_within, free_port, variable};
use rustix::process::{Pid, getpriority_process};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Returns an engine that is this shell script.
fn engine(script: &str, args: &[&Path], health: &HealthStub) -> Engine {
    let mut all = vec!["-c".into(), script.into(), "engine".into()];
    all.extend(args.iter().map(Into::into));
    Engine {
        name: "test",
        program: "/bin/sh".into(),
        args: all,
        env: Vec::new(),
        health_url: health.url.clone(),
        answers_within: Duration::from_secs(20),
    }
}

fn start(engine: Engine) -> Supervisor {
    Supervisor::start(vec![engine], &CancellationToken::new())
}

async fn until(
    supervisor: &Supervisor,
    what: &str,
    wanted: impl Fn(&EngineReport) -> bool,
) -> EngineReport {
    eventually(what, async || Some(supervisor.states().snapshot()["test"]).filter(&wanted)).await
}

async fn stop(supervisor: Supervisor) -> Duration {
    let begun = Instant::now();
    supervisor.stop().await;
    begun.elapsed()
}

/// Returns the nice value of a process, as Linux reports it.
fn nice(id: u32) -> i32 {
    let id = Pid::from_raw(id.try_into().unwrap());
    getpriority_process(id).unwrap()
}

fn is_alive(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

#[tokio::test]
async fn a_killed_engine_is_restarted() {
    let health = HealthStub::start(true).await;
    let supervisor = start(engine("exec cat", &[], &health));
    assert!(!supervisor.states().all_ready());
    let first = until(&supervisor, "ready", |r| r.state == EngineState::Ready).await;
    assert!(supervisor.states().all_ready());
    assert_eq!(first.restarts, 0);
    let id = first.pid.expect("a ready engine is a process");
    let killed = Command::new("kill").args(["-9", &id.to_string()]).status().await.unwrap();
    assert!(killed.success());
    let dead = until(&supervisor, "restarting", |r| r.state == EngineState::Restarting).await;
    assert_eq!(dead.pid, None);
    assert!(!supervisor.states().all_ready());
    let second = until(&supervisor, "ready again", |r| r.state == EngineState::Ready).await;
    assert_eq!(second.restarts, 1);
    assert!(second.pid.is_some_and(|again| again != id), "{second:?}");
    let took = stop(supervisor).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(!is_alive(second.pid.unwrap()));
}

#[tokio::test]
async fn an_engine_is_ready_only_when_its_health_check_succeeds() {
    let health = HealthStub::start(false).await;
    let supervisor = start(engine("exec cat", &[], &health));
    let started = until(&supervisor, "a process", |r| r.pid.is_some()).await;
    assert_eq!(started.state, EngineState::Starting);
    assert_eq!(nice(started.pid.unwrap()), (nice(std::process::id()) + 5).min(19), "sockets first");
    health.set(true);
    until(&supervisor, "ready", |r| r.state == EngineState::Ready).await;
    supervisor.stop().await;
}

#[tokio::test]
async fn an_engine_ends_by_itself_when_its_standard_input_closes() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ended-by-itself");
    let health = HealthStub::start(true).await;
    let supervisor = start(engine("cat; : > \"$1\"", &[&mark], &health));
    until(&supervisor, "ready", |r| r.state == EngineState::Ready).await;
    assert!(!mark.exists());
    let took = stop(supervisor).await;
    assert!(mark.exists(), "it was killed");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn an_engine_that_will_not_end_is_killed() {
    let health = HealthStub::start(true).await;
    let supervisor = start(engine("exec sleep 1000", &[], &health));
    let ready = until(&supervisor, "ready", |r| r.state == EngineState::Ready).await;
    let took = stop(supervisor).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert!(!is_alive(ready.pid.unwrap()));
}

/// Errors logged on this thread, as `field=value` texts.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl Subscriber for Logged {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn std::fmt::Debug| {
            write!(line, "{field}={value:?} ").unwrap();
        });
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn each_restart_is_logged_with_its_cause_and_the_wait_before_it() {
    let logged = Logged::default();
    let health = HealthStub::start(false).await;
    let _here = tracing::subscriber::set_default(logged.clone());
    let supervisor = start(engine("exit 7", &[], &health));
    until(&supervisor, "two restarts", |r| r.restarts == 2).await;
    supervisor.stop().await;
    let missing = Engine { program: "/nowhere/engine".into(), ..engine("", &[], &health) };
    let supervisor = start(missing);
    until(&supervisor, "a restart", |r| r.state == EngineState::Restarting).await;
    supervisor.stop().await;
    let logged = logged.0.lock().unwrap().clone();
    let told = |line: usize, parts: &[&str]| {
        let found = logged.get(line).is_some_and(|l| parts.iter().all(|part| l.contains(part)));
        assert!(found, "{parts:?} in line {line} of {logged:#?}");
    };
    told(0, &["exit status: 7", "engine=\"test\"", "restarts=0", "wait_ms=200"]);
    told(1, &["exit status: 7", "restarts=1", "wait_ms=400"]);
    told(logged.len() - 1, &["cannot start /nowhere/engine: No such file", "wait_ms=200"]);
}

#[tokio::test]
async fn an_engine_that_dies_repeatedly_is_restarted_less_and_less_often() {
    let health = HealthStub::start(false).await;
    let begun = Instant::now();
    let supervisor = start(engine("exit 1", &[], &health));
    until(&supervisor, "three restarts", |r| r.restarts == 3).await;
    assert!(begun.elapsed() >= Duration::from_millis(200 + 400 + 800), "{:?}", begun.elapsed());
    let took = stop(supervisor).await;
    assert!(took < Duration::from_secs(1), "stopping does not wait for a dead engine: {took:?}");
}

/// Variable with the address at which [`answers_until_it_is_stopped`] does so.
const ANSWERS_AT: &str = "HEARKEN_TEST_ANSWERS_AT";

/// An engine as a separate process; does nothing without an address.
#[tokio::test]
#[ignore = "another test runs it as a separate process"]
async fn answers_until_it_is_stopped() {
    let Some(address) = variable(ANSWERS_AT) else { return };
    let _health = HealthStub::at(address.parse().unwrap(), true).await;
    let until_closed = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(until_closed).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_engine_that_hangs_is_killed_and_restarted() {
    let address = format!("127.0.0.1:{}", free_port());
    let test = "supervise::answers_until_it_is_stopped";
    let supervisor = start(Engine {
        name: "test",
        program: std::env::current_exe().unwrap(),
        args: [test, "--exact", "--ignored", "--nocapture"].map(Into::into).into(),
        env: vec![(ANSWERS_AT.into(), address.clone())],
        health_url: format!("http://{address}/healthz"),
        answers_within: Duration::from_secs(2),
    });
    let first = until(&supervisor, "ready", |r| r.state == EngineState::Ready).await;
    let id = first.pid.unwrap();
    let stopped = Command::new("kill").args(["-STOP", &id.to_string()]).status().await.unwrap();
    assert!(stopped.success());
    // It is asked every 5 s, and has 2 s to answer.
    let again = |r: &EngineReport| r.state == EngineState::Ready && r.restarts == 1;
    let report = async || Some(supervisor.states().snapshot()["test"]).filter(again);
    let second = eventually_within(Duration::from_secs(20), "ready again", report).await;
    assert!(second.pid.is_some_and(|again| again != id), "{second:?}");
    assert!(!is_alive(id), "a stopped process was killed");
    supervisor.stop().await;
}

#[tokio::test]
async fn an_engine_inherits_no_keys_and_no_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let done = folder.path().join("done");
    let health = HealthStub::start(true).await;
    // Descriptors beyond the three standard streams, except the one used for listing.
    let script = "{ env; for f in /proc/$$/fd/*; do echo \"fd ${f##*/} $(readlink \"$f\")\"; done; } \
                  > \"$1\"; : > \"$2\"; exec cat";
    let mut engine = engine(script, &[&seen, &done], &health);
    engine.env = vec![("HEARKEN__LOG__LEVEL".into(), "debug".into())];
    let supervisor = start(engine);
    eventually("its environment", async || done.exists().then_some(())).await;
    let seen = std::fs::read_to_string(seen).unwrap();
    supervisor.stop().await;
    let names: Vec<&str> = seen.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
    assert!(names.contains(&"PATH") && names.contains(&"HEARKEN__LOG__LEVEL"), "{seen}");
    // Cargo and nextest set some variables for this process.
    assert!(variable("CARGO_MANIFEST_DIR").is_some());
    let inherited = |name: &&&str| name.starts_with("CARGO") || name.starts_with("NEXTEST");
    assert_eq!(names.iter().find(inherited), None, "{seen}");
    let further: Vec<&str> = seen
        .lines()
        .filter(|line| line.starts_with("fd "))
        .filter(|line| !["fd 0 ", "fd 1 ", "fd 2 "].iter().any(|fd| line.starts_with(fd)))
        .collect();
    assert!(!further.iter().any(|line| line.contains("socket")), "{further:?}");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_retried() {
    let health = HealthStub::start(true).await;
    let missing = Engine { program: "/nowhere/engine".into(), ..engine("", &[], &health) };
    let supervisor = start(missing);
    let state = until(&supervisor, "a restart", |r| r.state == EngineState::Restarting).await;
    assert_eq!(state.pid, None);
    assert!(!supervisor.states().all_ready(), "a missing engine is never ready");
    supervisor.stop().await;
}
