//! Mocks of the three upstream services, to measure the server alone: recognition, language model
//! and synthesis with the real protocols, prepared answers and delays that are reproducible with a
//! seed. Not for tests of failures, and without any real recognition, model or synthesis.

// Not part of the virtual device, which may not depend on the engines whose sockets these mocks reuse. Decision 0002.
mod asr;
mod delays;
mod llm;
mod tts;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use hearken_virtual_device::sound::Sound;
use tokio_util::sync::CancellationToken;

pub use delays::Delay;
pub use llm::Reply;

/// Maximum number of concurrent connections to one mock.
const MOST_CONNECTIONS: usize = 4_096;

/// Answers, delays and addresses of the mocks.
#[derive(Debug, Clone)]
pub struct MockServices {
    /// Address of recognition (ListenAI's protocol).
    pub asr: SocketAddr,
    /// Address of synthesis (ListenAI's protocol).
    pub tts: SocketAddr,
    /// Address of the language model (OpenAI's HTTP API).
    pub llm: SocketAddr,
    /// Delay from the end of an utterance to its transcript.
    pub asr_delay: Delay,
    /// Delay from a sentence to its first audio.
    pub tts_delay: Delay,
    /// Seconds of speech that are produced per second; 0.0 produces all of it at once.
    pub tts_speed: f64,
    /// Audio of every sentence.
    pub sound: Sound,
    /// Delay from a request to the first word.
    pub llm_delay: Delay,
    /// Answer of the model.
    pub reply: Reply,
}

/// Addresses on which the mocks listen.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Address of recognition.
    pub asr: SocketAddr,
    /// Address of synthesis.
    pub tts: SocketAddr,
    /// Address of the language model.
    pub llm: SocketAddr,
}

/// Serves until `stop`. Sends the addresses when all mocks listen.
///
/// # Errors
/// An address is in use.
pub async fn serve(
    services: MockServices,
    stop: CancellationToken,
    listening: impl FnOnce(Addresses),
) -> std::io::Result<()> {
    let [asr, tts] = [bind(services.asr)?, bind(services.tts)?];
    let addresses = (asr.local_addr()?, tts.local_addr()?);
    let asr = tokio::net::TcpListener::from_std(asr)?;
    let tts = tokio::net::TcpListener::from_std(tts)?;
    let model = llm::server(bind(services.llm)?, services.llm_delay, services.reply)?;
    let (model, address) = model;
    listening(Addresses { asr: addresses.0, tts: addresses.1, llm: address });
    let handle = model.handle();
    let voice = Arc::new(tts::Voice::new(&services.sound, services.tts_delay, services.tts_speed));
    let stopping = async {
        stop.cancelled().await;
        handle.stop(false).await;
    };
    let (model, (), (), ()) = tokio::join!(
        model,
        asr::serve(asr, services.asr_delay, stop.clone()),
        tts::serve(tts, voice, stop.clone()),
        stopping,
    );
    model
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let told = |e: std::io::Error| std::io::Error::new(e.kind(), format!("{address}: {e}"));
    let listener = TcpListener::bind(address).map_err(told)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
