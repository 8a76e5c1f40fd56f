//! Doubles of the three upstream services, for measuring the server alone: recognition, language
//! model and synthesis on the wires of real ones, with pre-made answers and delays that a seed
//! repeats. Not for tests of failures, and nothing here hears, thinks or speaks.

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

/// Connections that one double takes at once.
const MOST_CONNECTIONS: usize = 4_096;

/// What the doubles answer, how late, and where.
#[derive(Debug, Clone)]
pub struct MockServices {
    /// Where recognition listens (ListenAI's wire).
    pub asr: SocketAddr,
    /// Where synthesis listens (ListenAI's wire).
    pub tts: SocketAddr,
    /// Where the language model listens (OpenAI's HTTP API).
    pub llm: SocketAddr,
    /// From the end of an utterance to its transcript.
    pub asr_delay: Delay,
    /// From a sentence to its first sound.
    pub tts_delay: Delay,
    /// Speech made in a second, in seconds; 0.0 makes all of it at once.
    pub tts_speed: f64,
    /// What every sentence sounds like.
    pub sound: Sound,
    /// From a request to the first word.
    pub llm_delay: Delay,
    /// What the model answers.
    pub reply: Reply,
}

/// Where doubles listen.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Recognition.
    pub asr: SocketAddr,
    /// Synthesis.
    pub tts: SocketAddr,
    /// The language model.
    pub llm: SocketAddr,
}

/// Serves until `stop`; tells where, once all of them listen.
///
/// # Errors
/// An address is taken.
pub async fn serve(
    doubles: MockServices,
    stop: CancellationToken,
    listening: impl FnOnce(Addresses),
) -> std::io::Result<()> {
    let [asr, tts] = [bind(doubles.asr)?, bind(doubles.tts)?];
    let addresses = (asr.local_addr()?, tts.local_addr()?);
    let asr = tokio::net::TcpListener::from_std(asr)?;
    let tts = tokio::net::TcpListener::from_std(tts)?;
    let model = llm::server(bind(doubles.llm)?, doubles.llm_delay, doubles.reply)?;
    let (model, address) = model;
    listening(Addresses { asr: addresses.0, tts: addresses.1, llm: address });
    let handle = model.handle();
    let voice = Arc::new(tts::Voice::new(&doubles.sound, doubles.tts_delay, doubles.tts_speed));
    let stopping = async {
        stop.cancelled().await;
        handle.stop(false).await;
    };
    let (model, (), (), ()) = tokio::join!(
        model,
        asr::serve(asr, doubles.asr_delay, stop.clone()),
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
