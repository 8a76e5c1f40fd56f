//! Close codes of the WebSockets that we open, as their servers receive them. Not for messages.

use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_ports::UtteranceSpec;
use hearken_providers::AsrSettings;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

/// Service that accepts one connection and sends nothing. The task returns the close code of that
/// connection.
async fn mute() -> (String, JoinHandle<Option<u16>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let closed = tokio::spawn(async move {
        let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
        let mut code = None;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = message {
                code = Some(frame.map_or(1005, |frame| frame.code.into()));
            }
        }
        code
    });
    (url, closed)
}

async fn code(closed: JoinHandle<Option<u16>>) -> Option<u16> {
    tokio::time::timeout(Duration::from_secs(20), closed).await.expect("it is closed").unwrap()
}

#[tokio::test]
async fn the_connection_of_an_abandoned_utterance_is_closed_in_order() {
    let (url, closed) = mute().await;
    let asr = hearken_providers::asr(&AsrSettings { url, ..AsrSettings::default() }).unwrap();
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    utterance.push(&[1; 9_600]).await.unwrap();
    drop(utterance);
    assert_eq!(code(closed).await, Some(1000));
}
