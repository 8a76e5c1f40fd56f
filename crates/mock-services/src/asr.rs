//! Mock of a speech recogniser: accepts any audio, and answers each utterance with a different
//! transcript. Not for ListenAI's whole protocol, which the real service speaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_engines::speech::socket::{self, Socket, now_ms};
use hearken_proto::speech::asr::{AsrCommand, AsrEvent, BatchState};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::{Delay, MOST_CONNECTIONS};

pub(super) async fn serve(listener: TcpListener, delay: Delay, stop: CancellationToken) {
    let heard = Arc::new(AtomicU64::new(0));
    let connections = stop.clone();
    socket::accept(listener, &["/", "/asr"], MOST_CONNECTIONS, stop, move |mut socket| {
        let delay = delay.clone();
        let heard = Arc::clone(&heard);
        let stop = connections.clone();
        async move {
            stop.run_until_cancelled(converse(&mut socket, &delay, &heard)).await;
            socket::close(socket).await;
        }
    })
    .await;
}

async fn converse(socket: &mut Socket, delay: &Delay, heard: &AtomicU64) {
    let mut samples = 0;
    while let Some(Ok(message)) = socket.next().await {
        let command = match message {
            Message::Binary(audio) => {
                samples += audio.len() as u64 / 2;
                continue;
            }
            Message::Text(text) => AsrCommand::decode(&text),
            Message::Close(_) => return,
            _ => continue,
        };
        let events = match command {
            Ok(AsrCommand::BatchStart { .. }) => {
                samples = 0;
                vec![progress(BatchState::Receiving)]
            }
            Ok(AsrCommand::BatchEnd) => {
                delay.pass().await;
                let number = heard.fetch_add(1, Ordering::Relaxed);
                let text = format!("Tell me about number {number}.");
                #[allow(clippy::cast_precision_loss, reason = "minutes of samples")]
                let duration = samples as f64 / 16_000.0;
                let timestamp = now_ms();
                let result = AsrEvent::BatchResult { text, duration, samples, timestamp };
                vec![progress(BatchState::Recognizing), result, progress(BatchState::Complete)]
            }
            Ok(AsrCommand::Ping) => vec![AsrEvent::Pong],
            Ok(AsrCommand::Reset) => vec![AsrEvent::Reset { message: String::new() }],
            Ok(AsrCommand::SetAudioFormat { format }) => {
                vec![AsrEvent::AudioFormatSet { format, timestamp: now_ms() }]
            }
            Err(error) => {
                tracing::warn!(%error, "the mock recogniser ignored a message");
                return;
            }
        };
        for event in events {
            if socket.feed(Message::text(event.encode())).await.is_err() {
                return;
            }
        }
        if socket.flush().await.is_err() {
            return;
        }
    }
}

fn progress(state: BatchState) -> AsrEvent {
    AsrEvent::BatchProgress { state, message: String::new() }
}
