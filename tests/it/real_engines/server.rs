//! The real server as a process on free ports, with its log, and `hearken replay` as its device.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hearken::config::{EnvVars as _, ProcessEnv};
use hearken_proto::recording::Recording;
use hearken_test_support::{PATIENCE, free_port};
use hearken_virtual_device::text_similarity::{agreement, error_rate, tokens};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::support::process::program;

/// Time limit for loading the models on two busy cores.
pub(super) const LOADING: Duration = Duration::from_secs(400);
/// Poll interval.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The program with the engines, if there is one.
pub(super) fn engines() -> Option<PathBuf> {
    let named = ProcessEnv.get("HEARKEN_ENGINES").map(PathBuf::from);
    if named.is_none() {
        eprintln!("skipped: HEARKEN_ENGINES names no program with engines; run scripts/test");
    }
    named
}

/// A running server.
pub(super) struct Server {
    child: Child,
    port: u16,
    asr_port: u16,
    log: PathBuf,
    read_from: Cell<usize>,
    _folder: tempfile::TempDir,
}

/// The report of a replay.
#[derive(Debug)]
pub(super) struct Outcome {
    code: Option<i32>,
    raw: Value,
    pub(super) reply: String,
    pub(super) agreement: f64,
    pub(super) played: u64,
}

impl Server {
    /// Starts `hearken serve` on free ports and waits until it is ready.
    pub(super) async fn start(engines: &Path, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("server.log");
        let [port, asr, asr_page, tts, tts_page, llm] = free_ports();
        let local = |port: u16| format!("127.0.0.1:{port}");
        let child = Command::new(program())
            .arg("serve")
            .current_dir(folder.path())
            .env("HEARKEN__SERVER__DATA_DIR", folder.path())
            .env("PATH", path_with(engines))
            .env("CLOUD_HOST", "127.0.0.1")
            .env("CLOUD_PORT", port.to_string())
            .env("ASR_URL", format!("ws://{}", local(asr)))
            .env("TTS_URL", format!("ws://{}/tts", local(tts)))
            .env("LLM_BASE_URL", format!("http://{}/v1", local(llm)))
            .env("HEARKEN__EMBEDDED__ASR_LISTEN", local(asr))
            .env("HEARKEN__EMBEDDED__ASR_PAGE", local(asr_page))
            .env("HEARKEN__EMBEDDED__TTS_LISTEN", local(tts))
            .env("HEARKEN__EMBEDDED__TTS_PAGE", local(tts_page))
            .env("HEARKEN__EMBEDDED__LLM_LISTEN", local(llm))
            // Makes the model's answers the same in every run.
            .env("HEARKEN__LLM__TEMPERATURE", "0")
            .env("HEARKEN__LOG__FORMAT", "json")
            .env(
                "HEARKEN__LOG__LEVEL",
                "info,hearken_actors=debug,hearken_dialogue=debug,hearken::app=debug",
            )
            .envs(env.iter().copied())
            .stderr(std::fs::File::create(&log).unwrap())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let server =
            Self { child, port, asr_port: asr, log, read_from: Cell::new(0), _folder: folder };
        server.ready(LOADING).await;
        server
    }

    /// Waits until `/healthz` reports that everything is ready.
    pub(super) async fn ready(&self, within: Duration) {
        let start = Instant::now();
        while self.health().await["status"] != "ok" {
            assert!(start.elapsed() < within, "not ready:\n{}", self.log_text());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Its address, as commands expect it.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    async fn health(&self) -> Value {
        health_of(self.port).await
    }

    /// The value of a metric; 0 if it does not exist.
    pub(super) async fn figure(&self, name: &str) -> f64 {
        let text = get(self.port, "/metrics").await.unwrap().text().await.unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until a metric has this value.
    pub(super) async fn until(&self, name: &str, wanted: f64) {
        let start = Instant::now();
        while self.figure(name).await != wanted {
            assert!(start.elapsed() < LOADING, "{name} is never {wanted}:\n{}", self.log_text());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Replies are read back by another recogniser.
    pub(super) fn reads_back_at(&mut self, asr_port: u16) {
        self.asr_port = asr_port;
    }

    pub(super) async fn restarts(&self, engine: &str) -> u64 {
        self.health().await["engines"][engine]["restarts"].as_u64().unwrap_or(0)
    }

    /// `kill -9` of an engine.
    pub(super) async fn kill(&self, engine: &str) {
        let pid = self.health().await["engines"][engine]["pid"].as_u64().unwrap();
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().await.unwrap();
        assert!(killed.success());
    }

    /// Replays a fixture to the server as a device, and reads the reply back.
    pub(super) async fn replay(&self, fixture: &str, args: &[&str]) -> Outcome {
        let reader = format!("ws://127.0.0.1:{}", self.asr_port);
        self.replay_only(fixture, &[&["--asr-url", &reader], args].concat()).await
    }

    /// Replays a fixture to the server as a device.
    pub(super) async fn replay_only(&self, fixture: &str, args: &[&str]) -> Outcome {
        let output = Command::new(program())
            .arg("replay")
            .arg(recording(fixture))
            .arg("--json")
            .args(["--url", &format!("ws://127.0.0.1:{}/xiaozhi/v1/", self.port)])
            .args(args)
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let raw: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            let told = String::from_utf8_lossy(&output.stderr);
            panic!("{fixture}: {told}\n{}", self.log_text())
        });
        let text = |name: &str| raw[name].as_str().unwrap_or_default().to_owned();
        Outcome {
            code: output.status.code(),
            reply: text("reply"),
            agreement: raw["agreement"].as_f64().unwrap_or(0.0),
            played: raw["packets"]["played"].as_u64().unwrap_or(0),
            raw,
        }
    }

    /// Waits for a log line with this message; returns its time.
    pub(super) async fn logged(&self, message: &str) -> String {
        let start = Instant::now();
        loop {
            let text = self.log_text();
            let fresh = text.get(self.read_from.get()..).unwrap_or_default();
            let lines = fresh.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
            if let Some(line) = lines.into_iter().find(|l| l["fields"]["message"] == message) {
                return line["timestamp"].as_str().unwrap_or_default().to_owned();
            }
            assert!(start.elapsed() < LOADING, "{message:?} was never logged:\n{text}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Ignores the log so far.
    pub(super) fn forget_log(&self) {
        self.read_from.set(self.log_text().len());
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends SIGTERM and checks that everything ends, on a busy machine within a minute.
    pub(super) async fn stop(mut self) {
        let pid = self.child.id().unwrap().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().await.unwrap();
        assert!(told.success());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = ended.expect("the server ends").unwrap();
        assert!(status.success(), "{status}\n{}", self.log_text());
    }
}

impl Outcome {
    /// Prints the outcome for readers of the test's output.
    pub(super) fn report(&self, what: &str) {
        eprintln!("{what}: {}", self.raw);
    }

    /// The fraction of the answer, or of the sentence of it that matches best, that these words contain.
    fn matches(&self, heard: &str) -> f64 {
        let sentences = self.raw["sentences"].as_array().into_iter().flatten();
        let parts = sentences.filter_map(Value::as_str).chain([self.reply.as_str()]);
        parts.map(|part| agreement(part, heard)).fold(0.0, f64::max)
    }

    /// Word error rate of the transcript.
    pub(super) fn error_rate(&self, fixture: &str) -> f64 {
        let file = std::fs::read_to_string(recording(fixture)).unwrap();
        let expect = Recording::parse(&file).unwrap().header.expect.unwrap();
        let heard = self.raw["transcript"].as_str().unwrap_or_default();
        error_rate(&expect.transcript.unwrap(), heard)
    }

    /// Checks all expectations of the recording, without protocol violations and lost packets. The
    /// read-back is judged over several answers, as a single one may have four words.
    pub(super) fn assert_expectations(&self, what: &str) {
        assert_eq!(self.raw["offences"], serde_json::json!([]), "{what}");
        assert_eq!(self.raw["packets"]["lost"], serde_json::json!({}), "{what}");
        assert!(matches!(self.code, Some(0 | 1)), "{what}: {:#}", self.raw);
        let verdicts = self.raw["verdicts"].as_array().unwrap();
        let held = |v: &Value| v["held"] == true || v["what"] == "readback";
        assert!(verdicts.len() >= 3 && verdicts.iter().all(held), "{what}: {verdicts:#?}");
    }
}

/// `PATH` with the engines, for a server whose engines are in another folder.
pub(super) fn path_with(engines: &Path) -> OsString {
    let folder = engines.parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path))).unwrap()
}

pub(super) fn recording(fixture: &str) -> PathBuf {
    let root = hearken_test_support::repository();
    root.join("fixtures/audio").join(format!("{fixture}.jsonl"))
}

/// Fraction of all these answers that was read back, weighted by length.
pub(super) fn read_back(outcomes: &[&Outcome]) -> f64 {
    let weights = outcomes.iter().map(|o| tokens(&o.reply).len() as f64);
    let total: f64 = weights.clone().sum();
    weights.zip(outcomes).map(|(weight, o)| weight * o.agreement).sum::<f64>() / total
}

/// Checks that what each concurrent user heard was their own answer. How much of it can be read back depends on the machine:
/// syntheses that are slower than playback leave gaps, and an overloaded engine may end in an apology.
pub(super) fn assert_each_heard_their_own(outcomes: &[&Outcome]) {
    for outcome in outcomes {
        let heard = outcome.raw["readback"].as_str().unwrap_or_default();
        let own = outcome.matches(heard);
        assert!(own > 0.0, "nothing of the answer was heard: {}", outcome.raw);
        for other in outcomes {
            let foreign = other.matches(heard);
            assert!(own >= foreign, "heard {foreign} of {:?}: {}", other.reply, outcome.raw);
        }
    }
}

async fn get(port: u16, path: &str) -> Result<reqwest::Response, reqwest::Error> {
    // No TLS provider is needed without TLS, but the client requires one.
    rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
    reqwest::get(format!("http://127.0.0.1:{port}{path}")).await
}

/// The response of `/healthz` at this port; null if there is none.
pub(super) async fn health_of(port: u16) -> Value {
    match get(port, "/healthz").await {
        Ok(answer) => answer.json().await.unwrap_or_default(),
        Err(_) => Value::Null,
    }
}

pub(super) fn free_ports<const N: usize>() -> [u16; N] {
    std::array::from_fn(|_| free_port())
}
