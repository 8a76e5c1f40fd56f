//! Downloads of files from a model hub over HTTP, resuming earlier ones. Not for the fallback when
//! the hub fails.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::RANGE;
use reqwest::{Client, Response, StatusCode};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::error::ModelError;

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum time without data before a download is aborted; the next run resumes it.
const STALL_DEADLINE: Duration = Duration::from_secs(30);
const TOTAL_DEADLINE: Duration = Duration::from_secs(6 * 3600);

/// HTTP client of one run, with the hosts that could not be reached.
pub(super) struct Hub {
    client: Client,
    unreachable: HashSet<String>,
}

impl Hub {
    pub(super) fn new() -> Result<Self, ModelError> {
        hearken_outbound::tls::choose_provider();
        let client = Client::builder()
            .connect_timeout(CONNECT_DEADLINE)
            .read_timeout(STALL_DEADLINE)
            .user_agent(concat!("hearken/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failure("the HTTP client", &error))?;
        Ok(Self { client, unreachable: HashSet::new() })
    }

    /// Returns true if the host of `url` could not be reached earlier in this run.
    pub(super) fn gave_up_on(&self, url: &str) -> bool {
        self.unreachable.contains(&host(url))
    }

    /// Downloads `url` to `part`, continuing at its current end. Calls `on_bytes` with the length
    /// so far.
    ///
    /// After one failure to connect, all URLs of the same host fail immediately.
    pub(super) async fn download(
        &mut self,
        url: &str,
        part: &Path,
        longest: Option<u64>,
        on_bytes: impl Fn(u64),
    ) -> Result<(), ModelError> {
        let host = host(url);
        if self.unreachable.contains(&host) {
            return Err(unreachable(url, format!("{host} could not be reached before")));
        }
        let outcome = timeout(TOTAL_DEADLINE, self.resume(url, part, longest, on_bytes)).await;
        let outcome =
            outcome.unwrap_or_else(|_| Err(refusal_of(url, "not finished in time".to_owned())));
        if let Err(ModelError::Hub { unreachable: true, .. }) = &outcome {
            self.unreachable.insert(host);
        }
        outcome
    }

    async fn resume(
        &self,
        url: &str,
        part: &Path,
        longest: Option<u64>,
        on_bytes: impl Fn(u64),
    ) -> Result<(), ModelError> {
        let mut have = tokio::fs::metadata(part).await.map_or(0, |metadata| metadata.len());
        if have > 0 && longest.is_some_and(|length| have >= length) {
            return Ok(());
        }
        let mut request = self.client.get(url);
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let response = request.send().await.map_err(|error| failure(url, &error))?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if starts_at(&response, have) => {}
            StatusCode::OK => have = 0,
            // The file is complete, or too long; the check of its hash decides.
            StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => return Ok(()),
            status => return Err(refusal_of(url, format!("answered {status}"))),
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(have > 0)
            .write(true)
            .truncate(have == 0)
            .open(part)
            .await
            .map_err(ModelError::at(part))?;
        let mut body = response.bytes_stream();
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| failure(url, &error))?;
            have += chunk.len() as u64;
            if longest.is_some_and(|length| have > length) {
                return Err(refusal_of(url, "sent more bytes than the file has".to_owned()));
            }
            file.write_all(&chunk).await.map_err(ModelError::at(part))?;
            on_bytes(have);
        }
        file.flush().await.map_err(ModelError::at(part))
    }
}

fn host(url: &str) -> String {
    let parsed = url::Url::parse(url).ok();
    parsed.and_then(|url| Some(url.host_str()?.to_owned())).unwrap_or_default()
}

/// Returns true if a partial response continues at the end of the file.
fn starts_at(response: &Response, have: u64) -> bool {
    let range = response.headers().get(reqwest::header::CONTENT_RANGE);
    range
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with(&format!("bytes {have}-")))
}

fn failure(url: &str, error: &reqwest::Error) -> ModelError {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        reason = inner.to_string();
        source = inner.source();
    }
    if error.is_connect() {
        return unreachable(url, reason);
    }
    refusal_of(url, reason)
}

fn unreachable(url: &str, reason: String) -> ModelError {
    ModelError::Hub { url: url.to_owned(), reason, unreachable: true }
}

fn refusal_of(url: &str, reason: String) -> ModelError {
    ModelError::Hub { url: url.to_owned(), reason, unreachable: false }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    /// Serves `content` at every path, with support for ranges; `heads` collects the request heads.
    pub(in crate::models) async fn serve(
        content: &'static [u8],
        heads: Arc<Mutex<Vec<String>>>,
    ) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while stream.read_line(&mut head).await.unwrap() > 2 {}
                let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
                let from: usize =
                    range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
                let body = &content[from..];
                let status = if range.is_some() {
                    format!(
                        "206 Partial\r\ncontent-range: bytes {from}-{}/{}",
                        content.len() - 1,
                        content.len()
                    )
                } else {
                    "200 OK".to_owned()
                };
                heads.lock().unwrap().push(head.clone());
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.write_all(body).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn a_partial_download_is_resumed_at_its_end() {
        let heads = Arc::default();
        let base = serve(b"hello world", Arc::clone(&heads)).await;
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("a.part");
        std::fs::write(&part, "hello ").unwrap();
        let seen = Mutex::new(Vec::new());
        let on_bytes = |bytes| seen.lock().unwrap().push(bytes);
        Hub::new()
            .unwrap()
            .download(&format!("{base}/a"), &part, Some(11), on_bytes)
            .await
            .unwrap();
        assert_eq!(std::fs::read_to_string(&part).unwrap(), "hello world");
        assert!(heads.lock().unwrap()[0].contains("range: bytes=6-"));
        assert_eq!(seen.lock().unwrap().last(), Some(&11));
    }

    #[tokio::test]
    async fn an_answer_without_the_range_restarts_the_file() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/a", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            while stream.read_line(&mut String::new()).await.unwrap() > 2 {}
            let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nnew";
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("a.part");
        std::fs::write(&part, "older").unwrap();
        Hub::new().unwrap().download(&base, &part, None, |_| {}).await.unwrap();
        assert_eq!(std::fs::read_to_string(&part).unwrap(), "new");
    }

    #[tokio::test]
    async fn a_longer_file_than_promised_is_refused() {
        let base = serve(b"hello world", Arc::default()).await;
        let folder = tempfile::tempdir().unwrap();
        let mut hub = Hub::new().unwrap();
        let outcome = hub.download(&base, &folder.path().join("a.part"), Some(5), |_| {}).await;
        assert!(outcome.unwrap_err().to_string().contains("more bytes than the file has"));
    }

    #[tokio::test]
    async fn a_host_that_cannot_be_reached_is_not_tried_again() {
        let closed = format!("127.0.0.1:{}", hearken_test_support::free_port());
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("a.part");
        let mut hub = Hub::new().unwrap();
        let first =
            hub.download(&format!("http://{closed}/a"), &part, None, |_| {}).await.unwrap_err();
        assert!(!first.to_string().contains("before"), "{first}");
        let second =
            hub.download(&format!("http://{closed}/b"), &part, None, |_| {}).await.unwrap_err();
        assert!(second.to_string().contains("127.0.0.1 could not be reached before"), "{second}");
    }
}
