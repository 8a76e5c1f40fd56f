//! A recorded session as a `#[test]`: starts a server with services that need no model, replays the
//! recording to it, and checks the outcome. To test your own server, omit `Server` and pass its URL
//! to `replay`.
//!
//! ```sh
//! cargo test --example replay_test
//! ```
#![cfg_attr(not(test), allow(dead_code, unused_imports, reason = "all of it is for tests"))]

#[path = "embed.rs"]
mod embed;

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use embed::EmbeddedServer;
use hearken::config::Config;
use hearken_mock_services::{Addresses, Delay, MockServices, Reply};
use hearken_virtual_device::{Expectations, ListenMode, Recording, Sound};
use tokio_util::sync::CancellationToken;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
/// A thread with mock services.
type Mocks = JoinHandle<std::io::Result<()>>;

/// The first transcript of the mock recogniser, for any speech.
const UNDERSTOOD: &str = "Tell me about number 0.";

fn recording() -> Outcome<Recording> {
    // Cargo runs a test in the folder of its package.
    Ok(Recording::load("fixtures/audio/zh_own_foot.jsonl")?)
}

#[tokio::test]
async fn the_recorded_session_gets_an_answer() -> Outcome {
    let server = Server::start()?;
    let session = recording()?
        .replay(server.device_url())
        .mode(ListenMode::Manual)
        .answer_within(Duration::from_secs(20))
        .await?;
    session.expect(
        Expectations::new()
            // The header expects the transcript of a real recogniser.
            .without_recorded()
            .transcript(UNDERSTOOD, 0.0)
            .order(&["hello", "stt", "tts start", "tts sentence_start", "audio", "tts stop"])
            .reply_contains("this is sentence 1 of answer number 0")
            .audio(Duration::from_millis(400)..=Duration::from_secs(2))
            .no_calls()
            .no_faults(),
    )?;
    server.stop()
}

#[tokio::test]
async fn a_failed_expectation_is_reported_with_the_actual_value() -> Outcome {
    let server = Server::start()?;
    let session = recording()?.replay(server.device_url()).mode(ListenMode::Manual).await?;
    let unmet = session.expect(Expectations::new()).expect_err("another transcript is expected");
    assert!(unmet.to_string().contains("transcript: `Tell me about number 0.` for `砸自己的脚`"));
    server.stop()
}

/// A server with mock services.
struct Server {
    server: EmbeddedServer,
    mocks: Mocks,
    stop: CancellationToken,
    /// Deleted with the server.
    data_dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Outcome<Self> {
        let stop = CancellationToken::new();
        let (mocks, at) = mock_services(stop.clone())?;
        let data_dir = tempfile::tempdir()?;
        let mut config = Config::default();
        config.server.host = "127.0.0.1".into();
        config.server.port = 0;
        config.server.data_dir = data_dir.path().to_owned();
        config.embedded.enabled = false;
        config.asr.url = format!("ws://{}", at.asr);
        config.tts.url = format!("ws://{}", at.tts);
        config.llm.base_url = format!("http://{}/v1", at.llm);
        // These tools send requests to the Internet.
        config.tools.builtin.enabled.clear();
        // On a busy machine a device processes `tts start` late, and no client may be turned away.
        config.speaking.start_guard = Duration::from_millis(250);
        config.admission.late_percent = 100.0;
        config.admission.busy_percent = 100.0;
        let server = EmbeddedServer::start(config)?;
        Ok(Self { server, mocks, stop, data_dir })
    }

    fn device_url(&self) -> String {
        format!("ws://{}/xiaozhi/v1/", self.server.address)
    }

    fn stop(self) -> Outcome {
        self.server.stop()?;
        self.stop.cancel();
        self.mocks.join().map_err(|_| "the mock services panicked")??;
        Ok(self.data_dir.close()?)
    }
}

/// Recognition, language model and synthesis with immediate, constant responses.
fn mock_services(stop: CancellationToken) -> Outcome<(Mocks, Addresses)> {
    let at_once = Delay::new(Duration::ZERO, 0.0, 1);
    let anywhere = "127.0.0.1:0".parse()?;
    let services = MockServices {
        asr: anywhere,
        tts: anywhere,
        llm: anywhere,
        asr_delay: at_once.clone(),
        tts_delay: at_once.clone(),
        tts_speed: 0.0,
        sound: Sound { samples: vec![1_000; 12_000], rate_hz: 24_000 },
        llm_delay: at_once,
        reply: Reply { sentences: 1, word_every: Duration::ZERO, calls: None },
    };
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let listening = move |at| tell.send(at).unwrap_or_default();
        let serving = hearken_mock_services::serve(services, stop, listening);
        actix_web::rt::System::new().block_on(serving)
    });
    Ok((thread, told.recv()?))
}

fn main() {}
