//! Mock of a synthesiser: the same audio for every sentence. Not for ListenAI's whole protocol,
//! which the real service speaks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hearken_audio::pcm;
use hearken_engines::speech::socket::{self, Socket};
use hearken_proto::speech::tts::{
    AudioFrame, FrameKind, FrameMeta, TtsCommand, TtsEvent, TtsResult,
};
use hearken_virtual_device::sound::Sound;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

use super::{Delay, MOST_CONNECTIONS};

/// Length of a frame of audio.
const FRAME: Duration = Duration::from_millis(200);

/// Audio of every sentence, split into frames once.
pub(super) struct Voice {
    frames: Vec<Bytes>,
    rate_hz: u32,
    samples: u64,
    delay: Delay,
    speed: f64,
}

impl Voice {
    pub(super) fn new(sound: &Sound, delay: Delay, speed: f64) -> Self {
        let per_frame = pcm::samples_in(FRAME, sound.rate_hz).max(1);
        let frames = sound.samples.chunks(per_frame).map(|s| pcm::to_le_bytes(s).into()).collect();
        let samples = sound.samples.len() as u64;
        Self { frames, rate_hz: sound.rate_hz, samples, delay, speed }
    }

    /// Returns the time at which this frame is produced, after the first frame.
    fn made(&self, frame: u32) -> Duration {
        if self.speed > 0.0 { (FRAME * frame).div_f64(self.speed) } else { Duration::ZERO }
    }
}

pub(super) async fn serve(listener: TcpListener, voice: Arc<Voice>, stop: CancellationToken) {
    let connections = stop.clone();
    socket::accept(listener, &["/", "/tts"], MOST_CONNECTIONS, stop, move |mut socket| {
        let voice = Arc::clone(&voice);
        let stop = connections.clone();
        async move {
            stop.run_until_cancelled(converse(&mut socket, &voice)).await;
            socket::close(socket).await;
        }
    })
    .await;
}

async fn converse(socket: &mut Socket, voice: &Voice) {
    while let Some(Ok(message)) = socket.next().await {
        let answered = match message {
            Message::Text(text) => match TtsCommand::decode(&text) {
                Ok(TtsCommand::TtsRequest { request_id, .. }) => {
                    speak(socket, voice, request_id).await
                }
                Ok(TtsCommand::Cancel { request_id }) => {
                    // The sentence was complete before its cancellation was read.
                    complete(socket, voice, request_id, true).await
                }
                Ok(TtsCommand::Ping { timestamp }) => {
                    socket.send(Message::text(TtsEvent::Pong { timestamp }.encode())).await
                }
                Err(error) => {
                    tracing::warn!(%error, "the mock synthesiser ignored a message");
                    return;
                }
            },
            Message::Close(_) => return,
            _ => Ok(()),
        };
        if answered.is_err() {
            return;
        }
    }
}

async fn speak(socket: &mut Socket, voice: &Voice, request_id: String) -> Result<(), Error> {
    voice.delay.pass().await;
    let begun = Instant::now();
    let mut meta = FrameMeta { request_id, sample_rate: voice.rate_hz, ..FrameMeta::default() };
    for (number, pcm) in (0_u32..).zip(&voice.frames) {
        let due = begun + voice.made(number);
        if due > Instant::now() {
            socket.flush().await?;
            if interrupted(socket, due).await? {
                return complete(socket, voice, meta.request_id, true).await;
            }
        }
        meta.sequence = number.into();
        let frame = AudioFrame { kind: FrameKind::Stream, meta: meta.clone(), pcm: pcm.clone() };
        socket.feed(Message::binary(frame.encode())).await?;
    }
    complete(socket, voice, meta.request_id, false).await
}

/// Waits until `until`. Returns true if the request was cancelled meanwhile. Other commands get no
/// answer.
async fn interrupted(socket: &mut Socket, until: Instant) -> Result<bool, Error> {
    while let Ok(message) = tokio::time::timeout_at(until, socket.next()).await {
        match message.ok_or(Error::ConnectionClosed)?? {
            Message::Text(text) => {
                if matches!(TtsCommand::decode(&text), Ok(TtsCommand::Cancel { .. })) {
                    return Ok(true);
                }
            }
            Message::Close(_) => return Err(Error::ConnectionClosed),
            _ => {}
        }
    }
    Ok(false)
}

async fn complete(
    socket: &mut Socket,
    voice: &Voice,
    request_id: String,
    cancelled: bool,
) -> Result<(), Error> {
    let result = TtsResult {
        sample_rate: voice.rate_hz,
        samples: voice.samples,
        chunks: voice.frames.len() as u64,
        cancelled,
        ..TtsResult::default()
    };
    socket.send(Message::text(TtsEvent::Complete { request_id, result }.encode())).await
}
