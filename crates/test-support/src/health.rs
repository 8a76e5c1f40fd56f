//! The health URL of a missing engine. Not for engines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// The health URL of an engine: 503 until it is set to ready.
pub struct HealthStub {
    /// Its URL.
    pub url: String,
    ready: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl HealthStub {
    /// Starts a stub in this state.
    pub async fn start(ready: bool) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), ready).await
    }

    /// The same at this address.
    pub async fn at(address: SocketAddr, ready: bool) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}/healthz", listener.local_addr().unwrap());
        let ready = Arc::new(AtomicBool::new(ready));
        let answers = Arc::clone(&ready);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let status = if answers.load(Ordering::Relaxed) { "200 OK" } else { "503 Wait" };
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                // A request of this size fits into one read; the client may be gone.
                if stream.read(&mut [0; 4_096]).await.is_ok_and(|bytes| bytes > 0) {
                    stream.write_all(answer.as_bytes()).await.ok();
                }
            }
        });
        Self { url, ready, task }
    }

    /// Sets the state.
    pub fn set(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}

impl Drop for HealthStub {
    fn drop(&mut self) {
        self.task.abort();
    }
}
