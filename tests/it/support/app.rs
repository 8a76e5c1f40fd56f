//! The whole server on a free port, before stub vendors, in a system of its own as in production.
//! Not for what devices say to it.
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
use hearken::config::{AuthRequired, Config};
use hearken_engines::supervise::Engine;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat, Stub};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What every recogniser hears unless told otherwise.
pub(crate) const HEARD: &str = "what is the weather";
/// What every model replies unless told otherwise.
pub(crate) const REPLY: [&str; 2] = ["Good day.", "It is sunny."];
/// The apology where English was heard before.
pub(crate) const SORRY: &str = "Sorry, something went wrong. Please try again.";
/// Fixed phrases that the server makes at its start.
pub(crate) const PHRASES: usize = 6;
/// The server's own limit for its end.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The three vendors that a server needs.
pub(crate) struct Vendors {
    pub(crate) asr: Stub,
    pub(crate) llm: Stub,
    pub(crate) tts: Stub,
    /// What their servers keep; gone with the vendors.
    kept: tempfile::TempDir,
}

impl Vendors {
    /// Three that do as their protocols say, on the wires of the default configuration.
    pub(crate) async fn start() -> Self {
        Self::with(
            ListenAiAsr::start(Behaviour::Normal, HEARD).await,
            ListenAiTts::start(Behaviour::Normal).await,
        )
        .await
    }

    /// This recogniser and synthesiser, and the usual model.
    pub(crate) async fn with(asr: Stub, tts: Stub) -> Self {
        let llm = OpenAiChat::start(Behaviour::Normal, &REPLY.join(" ")).await;
        Self::of(asr, llm, tts)
    }

    /// These three.
    pub(crate) fn of(asr: Stub, llm: Stub, tts: Stub) -> Self {
        let kept = tempfile::tempdir().expect("a temporary folder can be made");
        Self { asr, llm, tts, kept }
    }

    /// Forgets the texts that they have seen.
    pub(crate) fn forget_texts(&self) {
        for stub in [&self.asr, &self.llm, &self.tts] {
            stub.forget_texts();
        }
    }

    /// A configuration that points at them.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        config.server.host = "127.0.0.1".into();
        config.server.port = 0;
        config.server.workers = 1;
        config.server.audio_threads = 1;
        // Each server keeps its own.
        config.server.data_dir = tempfile::tempdir_in(self.kept.path()).unwrap().keep();
        config.embedded.enabled = false;
        // Tests of access ask for tokens; all others need none.
        config.auth.required = AuthRequired::Never;
        // They ask the world.
        config.tools.builtin.enabled.clear();
        // A turn ends by silence, whatever models this machine has.
        config.turn_detection.model.clear();
        // Nor does a slow machine bridge its waits: what is said is to be the same everywhere.
        config.tools.filler_after = Duration::from_secs(60);
        config.hearing.silence = Duration::from_millis(400);
        // On a busy machine a device is late to see `tts start`; a packet right behind it is lost.
        config.speaking.start_guard = Duration::from_millis(250);
        // Machines that test are busy, and packets late; nobody is to be turned away for it.
        config.admission.late_percent = 100.0;
        config.admission.busy_percent = 100.0;
        // Tests talk faster than people.
        config.admission.turns_per_minute = 0;
        config.admission.turns_per_hour = 0;
        config.admission.turns_per_address = 0;
        config.asr.url = self.asr.url();
        config.llm.base_url = self.llm.url();
        config.tts.url = self.tts.url();
        config
    }
}

/// A server that listens, in threads of its own. Ended when dropped, which blocks: a test that does
/// more than one thing at a time calls [`TestServer::stop`].
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    process: CancellationToken,
    /// In a lock, so that tasks may share the server.
    ended: Option<Mutex<Receiver<anyhow::Result<()>>>>,
}

impl TestServer {
    /// A server before these vendors, its configuration changed by `tweak`.
    pub(crate) async fn start(vendors: &Vendors, tweak: impl FnOnce(&mut Config)) -> Self {
        let mut config = vendors.config();
        tweak(&mut config);
        Self::of(config, Vec::new()).await
    }

    /// A server of this configuration with these engines.
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
            // Nobody listens where the test has failed already.
            tell_end.send(served).ok();
        });
        let address = address.await.expect("the server starts");
        Self { address, process, ended: Some(Mutex::new(ended)) }
    }

    /// Where devices connect.
    pub(crate) fn device_url(&self) -> String {
        format!("ws://{}/xiaozhi/v1/", self.address)
    }

    /// Where text clients connect.
    pub(crate) fn gateway_url(&self) -> String {
        format!("ws://{}/", self.address)
    }

    /// An address for plain HTTP.
    pub(crate) fn http_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// One of the server's figures, by its name and labels.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = reqwest::get(self.http_url("/metrics")).await.unwrap().text().await.unwrap();
        let value = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// What it says of its readiness: the status, and the answer.
    pub(crate) async fn readiness(&self) -> (u16, Value) {
        let answer = reqwest::get(self.http_url("/readyz")).await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// What a signal does.
    pub(crate) fn cancel(&self) {
        self.process.cancel();
    }

    /// Ends the server as a signal does and tells how long that took; panics where it was too
    /// long, or the server failed.
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
