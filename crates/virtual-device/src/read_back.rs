//! Transcribes the audio of a reply with a recognition service. Not for judging the result.

use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{SinkExt, StreamExt};
use hearken_outbound::websocket;
use hearken_proto::speech::asr::{AsrCommand, AsrEvent, SAMPLE_RATE_HZ};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::sound::Sound;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RESULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes per frame: 100 ms.
const CHUNK_BYTES: usize = SAMPLE_RATE_HZ as usize / 10 * 2;

/// Sends the audio in one batch to the recognition service at `url` (`ws://`, ListenAI protocol),
/// and returns its transcript.
///
/// # Errors
/// Fails if the service cannot be reached, refuses the batch, or does not answer in time.
pub async fn read_back(url: &str, sound: &Sound) -> anyhow::Result<String> {
    let pcm = sound.at_rate(SAMPLE_RATE_HZ)?.samples;
    let bytes = hearken_audio::pcm::to_le_bytes(&pcm);
    let connecting = timeout(CONNECT_TIMEOUT, tokio_tungstenite::connect_async(url));
    let (mut socket, _) = connecting
        .await
        .context("no answer within 10 s")
        .and_then(|connected| connected.context("refused"))
        .with_context(|| {
            format!("no recognition service at {url}: start it with `hearken speech`")
        })?;
    let batch = async {
        let start = AsrCommand::BatchStart { sample_rate: SAMPLE_RATE_HZ, language: None };
        socket.send(Message::text(start.encode())).await?;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            socket.send(Message::Binary(chunk.to_vec().into())).await?;
        }
        socket.send(Message::text(AsrCommand::BatchEnd.encode())).await?;
        while let Some(message) = socket.next().await {
            let Message::Text(text) = message? else { continue };
            match AsrEvent::decode(&text)? {
                AsrEvent::BatchResult { text, .. } => return Ok(text),
                AsrEvent::Error { message, .. } => bail!("the recognition service says: {message}"),
                _ => {}
            }
        }
        bail!("the recognition service closed the connection")
    };
    let transcript = timeout(RESULT_TIMEOUT, batch).await.context("no transcript within 120 s");
    websocket::end(socket, websocket::because(CloseCode::Normal, "")).await;
    transcript?
}
