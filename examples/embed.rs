//! The server as a library in a program of one's own: configured in code, in a thread of its own,
//! ended when the program wants it. Engines elsewhere are named as always (`ASR_URL`, `TTS_URL`,
//! `LLM_BASE_URL`); this program starts none.
//!
//! ```sh
//! cargo run --example embed            # prints its address; Ctrl-D ends it
//! ```
#![allow(clippy::print_stdout, reason = "it tells its address")]

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::anyhow;
use hearken::app;
use hearken::config::{self, Config, ProcessEnv, env};
use tokio_util::sync::CancellationToken;

/// A server that runs until [`Self::stop`].
pub(crate) struct EmbeddedServer {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    process: CancellationToken,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl EmbeddedServer {
    /// Starts a server of this configuration, and returns once it listens.
    ///
    /// # Errors
    /// A setting cannot be used, or the address is taken.
    pub(crate) fn start(config: Config) -> anyhow::Result<Self> {
        hearken_outbound::tls::choose_provider();
        let process = CancellationToken::new();
        let (tell, told) = mpsc::channel();
        let token = process.clone();
        // The server wants an actix system, which is this thread's alone.
        let thread = thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let running = app::start(&config, Vec::new(), token)?;
                // Whoever started it may have gone.
                tell.send(running.address).ok();
                running.serve().await
            })
        });
        match told.recv() {
            Ok(address) => Ok(Self { address, process, thread }),
            Err(_) => Err(ended(thread).err().unwrap_or_else(|| anyhow!("it ended at once"))),
        }
    }

    /// Ends the server as a signal does: it tells its clients, and waits for them.
    ///
    /// # Errors
    /// The server failed.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.process.cancel();
        ended(self.thread)
    }
}

fn ended(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("the server panicked")))
}

#[allow(dead_code, reason = "replay_test.rs uses the server alone")]
fn main() -> anyhow::Result<()> {
    let mut config = config::load(None, &ProcessEnv)?;
    // Whatever a file or the environment could set, the program can.
    config.embedded.enabled = false;
    config.dialogue.system_prompt = "You are the voice of a lift. Answer in one sentence.".into();
    config.server.data_dir = env::data_dir(&config.server.data_dir, &ProcessEnv);
    let server = EmbeddedServer::start(config)?;
    println!("devices connect to ws://{}/xiaozhi/v1/", server.address);
    // Until the end of standard input: for a program, whatever tells it to end.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    server.stop()
}
