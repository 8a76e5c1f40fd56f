//! The whole server on a free port, with stub vendors, in a system of its own as in production. Not
//! for the requests to it.
//!
//! ```text
//! let vendors = Vendors::start().await;
//! let server = TestServer::start(&vendors, |config| config.hearing.silence = Duration::from_millis(300)).await;
//! connect_to(server.device_url());
//! server.stop().await;
//! ```

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use hearken::app;
use hearken::config::{AuthRequired, Config, InstantMode};
use hearken_engines::supervise::Engine;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat, Stub};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Default transcript of every recogniser.
pub(crate) const HEARD: &str = "what is the weather";
/// Default reply of every model.
pub(crate) const REPLY: [&str; 2] = ["Good day.", "It is sunny."];
/// The apology after English speech.
pub(crate) const SORRY: &str = "Sorry, something went wrong. Please try again.";
/// Number of fixed phrases that the server synthesises at its start.
pub(crate) const PHRASES: usize = 6;
/// Timeout for the end of the server, which itself waits at most 10 s for its tasks, on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// The three vendors that a server needs.
pub(crate) struct Vendors {
    pub(crate) asr: Stub,
    pub(crate) llm: Stub,
    pub(crate) tts: Stub,
    /// The data of their servers; deleted with the vendors.
    kept: tempfile::TempDir,
}

impl Vendors {
    /// Three working vendors with the protocols of the default configuration.
    pub(crate) async fn start() -> Self {
        Self::with(
            ListenAiAsr::start(Behaviour::Normal, HEARD).await,
            ListenAiTts::start(Behaviour::Normal).await,
        )
        .await
    }

    /// This recogniser and synthesiser, and the default model.
    pub(crate) async fn with(asr: Stub, tts: Stub) -> Self {
        let llm = OpenAiChat::start(Behaviour::Normal, &REPLY.join(" ")).await;
        Self::of(asr, llm, tts)
    }

    /// These three vendors.
    pub(crate) fn of(asr: Stub, llm: Stub, tts: Stub) -> Self {
        let kept = tempfile::tempdir().expect("a temporary folder can be made");
        Self { asr, llm, tts, kept }
    }

    /// Clears the recorded texts of all vendors.
    pub(crate) fn forget_texts(&self) {
        for stub in [&self.asr, &self.llm, &self.tts] {
            stub.forget_texts();
        }
    }

    /// A configuration with these vendors.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        config.server.host = "127.0.0.1".into();
        config.server.port = 0;
        config.server.workers = 1;
        config.server.audio_threads = 1;
        // Each server has its own data.
        config.server.data_dir = tempfile::tempdir_in(self.kept.path()).unwrap().keep();
        config.embedded.enabled = false;
        // Tests of access require tokens; all others do without.
        config.auth.required = AuthRequired::Never;
        // These tools send requests to the Internet.
        config.tools.builtin.enabled.clear();
        // Every question is the model's; `text_gateway::instant` tests the rules.
        config.instant.mode = InstantMode::Off;
        // A turn ends by silence, whichever models this machine has.
        config.turn_detection.model.clear();
        // No filler phrases on a slow machine: replies must be the same everywhere.
        config.tools.filler_after = Duration::from_secs(60);
        config.hearing.silence = Duration::from_millis(400);
        // On a busy machine a device processes `tts start` late, and a packet right after it is lost.
        config.speaking.start_guard = Duration::from_millis(250);
        // Test machines are busy and packets late; no client may be turned away for that.
        config.admission.late_percent = 100.0;
        config.admission.busy_percent = 100.0;
        // Tests have more turns per minute than users.
        config.admission.turns_per_minute = 0;
        config.admission.turns_per_hour = 0;
        config.admission.turns_per_address = 0;
        config.asr.url = self.asr.url();
        config.llm.base_url = self.llm.url();
        config.tts.url = self.tts.url();
        config
    }
}

/// A listening server, in threads of its own. It stops when dropped, which blocks: a concurrent
/// test calls [`TestServer::stop`].
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    process: CancellationToken,
    /// In a mutex, so that tasks can share the server.
    ended: Option<Mutex<Receiver<anyhow::Result<()>>>>,
}

impl TestServer {
    /// Starts a server with these vendors and a configuration changed by `tweak`.
    pub(crate) async fn start(vendors: &Vendors, tweak: impl FnOnce(&mut Config)) -> Self {
        let mut config = vendors.config();
        tweak(&mut config);
        Self::of(config, Vec::new()).await
    }

    /// Starts a server with this configuration and these engines.
    pub(crate) async fn of(config: Config, engines: Vec<Engine>) -> Self {
        let process = CancellationToken::new();
        let (tell_address, address) = oneshot::channel();
        let (tell_end, ended) = sync_channel(1);
        let token = process.clone();
        std::thread::spawn(move || {
            let served = actix_web::rt::System::new().block_on(async move {
                let running = app::start(&config, engines, token)?;
                tell_address.send(running.address).unwrap();
                running.serve().await
            });
            // The receiver is gone if the test has already failed.
            tell_end.send(served).ok();
        });
        let address = address.await.expect("the server starts");
        Self { address, process, ended: Some(Mutex::new(ended)) }
    }

    /// WebSocket URL for devices.
    pub(crate) fn device_url(&self) -> String {
        format!("ws://{}/xiaozhi/v1/", self.address)
    }

    /// WebSocket URL for text clients.
    pub(crate) fn gateway_url(&self) -> String {
        format!("ws://{}/", self.address)
    }

    /// HTTP URL of a path.
    pub(crate) fn http_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The value of a metric, by its name and labels.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = reqwest::get(self.http_url("/metrics")).await.unwrap().text().await.unwrap();
        let value = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Its readiness: status and body.
    pub(crate) async fn readiness(&self) -> (u16, Value) {
        let answer = reqwest::get(self.http_url("/readyz")).await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Starts the shutdown, as a signal does.
    pub(crate) fn cancel(&self) {
        self.process.cancel();
    }

    /// Stops the server as a signal does and returns how long that took; panics if it took too long
    /// or the server failed.
    pub(crate) async fn stop(mut self) -> Duration {
        let begun = Instant::now();
        self.cancel();
        let ended = self.ended.take().unwrap();
        tokio::task::spawn_blocking(move || check_end(&ended)).await.unwrap();
        begun.elapsed()
    }
}

fn check_end(ended: &Mutex<Receiver<anyhow::Result<()>>>) {
    ended
        .lock()
        .unwrap()
        .recv_timeout(ENDS_WITHIN)
        .expect("the server ends in time")
        .expect("without a failure");
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.cancel();
        if let Some(ended) = self.ended.take()
            && !std::thread::panicking()
        {
            check_end(&ended);
        }
    }
}
