//! The server as a library in another program: configured in code, in a thread of its own, stopped
//! by the program. Engines elsewhere are configured as usual (`ASR_URL`, `TTS_URL`,
//! `LLM_BASE_URL`); this program starts none.
//!
//! ```sh
//! cargo run --example embed            # prints its address; Ctrl-D ends it
//! ```
#![allow(clippy::print_stdout, reason = "it prints its address")]

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::anyhow;
use hearken::app;
use hearken::config::{self, Config, ProcessEnv, env};
use tokio_util::sync::CancellationToken;

/// A server that runs until [`Self::stop`].
pub(crate) struct EmbeddedServer {
    /// Address of its listener.
    pub(crate) address: SocketAddr,
    process: CancellationToken,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl EmbeddedServer {
    /// Starts a server with this configuration, and returns once it listens.
    ///
    /// # Errors
    /// A setting is invalid, or the address is in use.
    pub(crate) fn start(config: Config) -> anyhow::Result<Self> {
        hearken_outbound::tls::choose_provider();
        let process = CancellationToken::new();
        let (tell, told) = mpsc::channel();
        let token = process.clone();
        // The server needs an actix system of its own, which lives on this thread.
        let thread = thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let running = app::start(&config, Vec::new(), token)?;
                // The receiver may be gone.
                tell.send(running.address).ok();
                running.serve().await
            })
        });
        match told.recv() {
            Ok(address) => Ok(Self { address, process, thread }),
            Err(_) => Err(ended(thread).err().unwrap_or_else(|| anyhow!("it ended at once"))),
        }
    }

    /// Stops the server as a signal does: it closes its connections and waits for its clients.
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
    // The program can set everything that a file or the environment could set.
    config.embedded.enabled = false;
    config.dialogue.system_prompt = "You are the voice of a lift. Answer in one sentence.".into();
    config.server.data_dir = env::data_dir(&config.server.data_dir, &ProcessEnv);
    let server = EmbeddedServer::start(config)?;
    println!("devices connect to ws://{}/xiaozhi/v1/", server.address);
    // Runs until the end of standard input.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    server.stop()
}
