//! FunASR's runtime WebSocket (`funasr+ws://`): a JSON configuration, PCM, a JSON end message.
//!
//! - One connection per utterance: the runtime stores the state of one utterance per connection.
//! - In this protocol `hotwords` and `timestamp` are JSON inside strings; neither is needed here.
//! - The runtime may send no answer at all to noise: that ends as a timeout.
//! - `is_final` means different things in its C++ and Python servers. In `offline` mode the first
//!   offline result is the transcript. In `2pass` mode the end is `is_final`, or a result after the
//!   end of the audio with no further message for 800 ms. Before that it sends the words of each
//!   chunk as it hears them (`2pass-online`), which a segment then replaces: partial transcripts.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use hearken_audio::pcm;
use hearken_ports::{Asr, AsrStream, ProviderError, ProviderErrorKind, Transcript, UtteranceSpec};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::transcript;
use crate::balance::Probe;
use crate::settings::{AsrSettings, FunAsrMode, ms};
use crate::ws::{Endpoint, Incoming, Socket};

const PROVIDER: &str = "funasr";
/// Size of the segments of an utterance, above which further ones are dropped: it is longer than
/// any transcript.
const MAX_SEGMENTS_BYTES: usize = 16 << 10;

/// Time without a message after which a `2pass` result counts as the last one.
const SETTLE: Duration = Duration::from_millis(800);

/// Speech recogniser with FunASR's protocol.
#[derive(Debug)]
pub struct FunAsr {
    endpoint: Endpoint,
    mode: FunAsrMode,
    result_timeout: Duration,
}

impl FunAsr {
    /// Creates a client of `url` (`ws://` or `wss://`, without the `funasr+`).
    pub fn new(url: String, settings: &AsrSettings) -> Self {
        let endpoint = Endpoint {
            provider: PROVIDER,
            url,
            api_key: settings.api_key.clone(),
            connect_timeout: ms(settings.connect_timeout_ms),
            send_timeout: ms(settings.send_timeout_ms),
        };
        let result_timeout = ms(settings.result_timeout_ms);
        Self { endpoint, mode: settings.funasr_mode, result_timeout }
    }
}

#[async_trait]
impl Asr for FunAsr {
    async fn open(&self, _spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let mut utterance = Utterance {
            socket: self.endpoint.connect().await?,
            endpoint: self.endpoint.clone(),
            result_timeout: self.result_timeout,
            heard: Segments::new(self.mode),
        };
        let config = json!({
            "mode": match self.mode { FunAsrMode::Offline => "offline", FunAsrMode::TwoPass => "2pass" },
            "wav_name": "utterance",
            "wav_format": "pcm",
            "audio_fs": 16_000,
            "is_speaking": true,
            "chunk_size": [5, 10, 5],
            "chunk_interval": 10,
            "itn": true,
        });
        utterance.send(Message::text(config.to_string())).await?;
        Ok(Box::new(utterance))
    }
}

impl Probe for FunAsr {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        self.endpoint.probe().map_ok(drop).boxed()
    }
}

struct Utterance {
    socket: Socket,
    endpoint: Endpoint,
    result_timeout: Duration,
    heard: Segments,
}

/// Segments of an utterance that were recognised so far.
pub(super) struct Segments {
    mode: FunAsrMode,
    segments: Vec<String>,
    /// Words after the last segment.
    online: String,
    /// True if the words have changed since they were asked for.
    changed: bool,
}

/// Recognition result, with the fields that are used here.
#[derive(Deserialize)]
struct FunAsrMessage {
    #[serde(default)]
    mode: String,
    text: String,
    #[serde(default)]
    is_final: bool,
}

/// Kind of a recognition result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResultKind {
    Nothing,
    Segment,
    Last,
}

#[async_trait]
impl AsrStream for Utterance {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        while let Some(incoming) = self.endpoint.take_ready(&mut self.socket)? {
            self.take(incoming)?;
        }
        self.send(Message::binary(pcm::to_le_bytes(pcm))).await
    }

    fn partial(&mut self) -> Option<String> {
        self.heard.partial()
    }

    async fn finish(mut self: Box<Self>) -> Result<Transcript, ProviderError> {
        self.send(Message::text(json!({ "is_speaking": false }).to_string())).await?;
        let deadline = Instant::now() + self.result_timeout;
        let mut until = deadline;
        loop {
            let missing = "no result within its deadline";
            let incoming = self.endpoint.receive(&mut self.socket, until, missing).await;
            let settled = until < deadline;
            match incoming {
                Err(e) if settled && e.kind == ProviderErrorKind::Timeout => break,
                Err(e) => return Err(e),
                Ok(incoming) => match self.take(incoming)? {
                    ResultKind::Nothing => {}
                    ResultKind::Segment => until = deadline.min(Instant::now() + SETTLE),
                    ResultKind::Last => break,
                },
            }
        }
        Ok(self.heard.transcript())
    }
}

impl Utterance {
    async fn send(&mut self, message: Message) -> Result<(), ProviderError> {
        self.endpoint.send(&mut self.socket, message).await
    }

    fn take(&mut self, incoming: Incoming) -> Result<ResultKind, ProviderError> {
        let Incoming::Text(text) = incoming else {
            return Err(self.endpoint.violated("a binary message from the recogniser"));
        };
        self.heard
            .take(&text)
            .ok_or_else(|| self.endpoint.violated("a message that is no result of the recogniser"))
    }
}

impl Segments {
    pub(super) fn new(mode: FunAsrMode) -> Self {
        Self { mode, segments: Vec::new(), online: String::new(), changed: false }
    }

    /// Parses a message of the recogniser. `None` if it is no result.
    pub(super) fn take(&mut self, message: &str) -> Option<ResultKind> {
        let answer: FunAsrMessage = serde_json::from_str(message).ok()?;
        let heard = meaning(self.mode, &answer);
        let known: usize = self.segments.iter().map(String::len).sum();
        let segment = answer.text.trim();
        if segment.is_empty() || known + self.online.len() > MAX_SEGMENTS_BYTES {
            return Some(heard);
        }
        if heard != ResultKind::Nothing {
            self.online.clear();
            self.segments.push(segment.to_owned());
            self.changed = true;
        } else if self.mode == FunAsrMode::TwoPass && answer.mode == "2pass-online" {
            self.online.push_str(&answer.text);
            self.changed = true;
        }
        Some(heard)
    }

    /// Returns the words so far, if they have changed since the last call.
    pub(super) fn partial(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let online = Some(self.online.trim()).filter(|words| !words.is_empty());
        let words: Vec<&str> = self.segments.iter().map(String::as_str).chain(online).collect();
        Some(transcript(&join(&words)).text)
    }

    /// Returns the transcript of the segments.
    pub(super) fn transcript(&self) -> Transcript {
        transcript(&join(&self.segments.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}

fn meaning(mode: FunAsrMode, answer: &FunAsrMessage) -> ResultKind {
    match (mode, answer.mode.as_str()) {
        (FunAsrMode::Offline, "offline" | "2pass-offline" | "") => ResultKind::Last,
        (FunAsrMode::TwoPass, "2pass-offline" | "offline") if answer.is_final => ResultKind::Last,
        (FunAsrMode::TwoPass, "2pass-offline" | "offline") => ResultKind::Segment,
        _ => ResultKind::Nothing,
    }
}

/// Joins segments in order, with a space only between two Latin letters.
fn join(segments: &[&str]) -> String {
    let mut whole = String::new();
    for segment in segments {
        let apart =
            whole.ends_with(|c: char| c.is_ascii()) && segment.starts_with(|c: char| c.is_ascii());
        if apart && !whole.is_empty() {
            whole.push(' ');
        }
        whole.push_str(segment);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_joined_as_their_script_wants() {
        assert_eq!(join(&["hello there,", "how are you"]), "hello there, how are you");
        assert_eq!(join(&["你好，", "今天"]), "你好，今天");
        assert_eq!(join(&[]), "");
    }

    #[test]
    fn words_are_told_as_they_come_and_replaced_by_their_segment() {
        let mut heard = Segments::new(FunAsrMode::TwoPass);
        let mut take = |mode: &str, text: &str| {
            heard.take(&json!({ "mode": mode, "text": text, "is_final": false }).to_string());
            heard.partial()
        };
        assert_eq!(take("2pass-online", "今天"), Some("今天".into()));
        assert_eq!(take("2pass-online", ""), None);
        assert_eq!(take("2pass-online", "天汽"), Some("今天天汽".into()));
        assert_eq!(take("2pass-offline", "今天天气，"), Some("今天天气，".into()));
        assert_eq!(take("2pass-online", "好"), Some("今天天气，好".into()));
        assert_eq!(heard.partial(), None);
        assert_eq!(heard.transcript().text, "今天天气，");
        let mut whole = Segments::new(FunAsrMode::Offline);
        whole.take(&json!({ "mode": "2pass-online", "text": "a" }).to_string());
        assert_eq!(whole.partial(), None, "only segments count where only they are asked for");
    }

    #[test]
    fn partial_results_mean_nothing() {
        let answer =
            |mode: &str, is_final| FunAsrMessage { mode: mode.into(), text: "x".into(), is_final };
        let two = FunAsrMode::TwoPass;
        assert_eq!(meaning(two, &answer("2pass-online", true)), ResultKind::Nothing);
        assert_eq!(meaning(two, &answer("2pass-offline", false)), ResultKind::Segment);
        assert_eq!(meaning(two, &answer("2pass-offline", true)), ResultKind::Last);
        assert_eq!(meaning(FunAsrMode::Offline, &answer("offline", false)), ResultKind::Last);
    }
}
