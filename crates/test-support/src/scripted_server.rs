//! An HTTP server for unit tests that sends prepared responses, byte for byte. Not for any vendor's API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::vendors::read_request;

/// A server on loopback; stops when dropped. Serves one request per connection, in sequence.
pub struct ScriptedServer {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl ScriptedServer {
    /// Answers each request with the next of these responses. Further requests get no response.
    pub async fn start(answers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let answers: Vec<Vec<u8>> = answers.into_iter().collect();
        let task = tokio::spawn(serve(listener, answers, Arc::clone(&requests)));
        Self { address, requests, task }
    }

    /// Its URL with this scheme and path.
    pub fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://{}{path}", self.address)
    }

    /// Number of requests so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A response with this status, these headers (each ends with CRLF) and this body.
pub fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A successful response that starts with this body and never ends.
pub fn endless(headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 Scripted\r\n{headers}\r\n").as_bytes(), body].concat()
}

async fn serve(listener: TcpListener, answers: Vec<Vec<u8>>, requests: Arc<AtomicUsize>) {
    let mut answers = answers.into_iter();
    // Held open: a client that expects more waits for it.
    let mut open = Vec::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        // A client that leaves before its request is complete gets no answer.
        if read_request(&mut stream).await.is_none() {
            continue;
        }
        requests.fetch_add(1, Ordering::SeqCst);
        if let Some(answer) = answers.next() {
            stream.write_all(&answer).await.ok();
        }
        open.push(stream);
    }
}
