//! How the WebSockets end that we open ourselves, as the services at their other ends see it. Not
//! for what is said on them.

use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_ports::UtteranceSpec;
use hearken_providers::AsrSettings;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

/// A service that takes one connection and says nothing; the code with which that was closed.
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
async fn an_utterance_that_nobody_wants_any_more_is_closed_in_order() {
    let (url, closed) = mute().await;
    let asr = hearken_providers::asr(&AsrSettings { url, ..AsrSettings::default() }).unwrap();
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    utterance.push(&[1; 9_600]).await.unwrap();
    drop(utterance);
    assert_eq!(code(closed).await, Some(1000));
}
