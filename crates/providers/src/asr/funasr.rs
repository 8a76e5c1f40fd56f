//! FunASR's runtime WebSocket (`funasr+ws://`): a JSON configuration, PCM, a JSON end message.
//!
//! - One connection per utterance: the runtime stores the state of one utterance per connection.
//! - In this protocol `hotwords` and `timestamp` are JSON inside strings; neither is needed here.
//! - The runtime may send no answer at all to noise: that ends as a timeout.
//! - `is_final` means different things in its C++ and Python servers: there it marks the last result, here one that was
//!   sent while the person spoke. The end is a result with `is_final` after the end of the audio, or any result there with
//!   no further one for a while; the Python server cuts the audio at pauses, and sends a result for each piece.
//! - A server may send the last words before it is told the end, and nothing after it.
//! - In `2pass` mode it sends the words of each chunk as it hears them (`2pass-online`), which a segment then replaces:
//!   partial transcripts.
//! - Fields are missing, null or of another type in servers that only resemble it.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use hearken_audio::pcm;
use hearken_ports::{Asr, AsrStream, ProviderError, ProviderErrorKind, Transcript, UtteranceSpec};
use serde::Deserialize;
use serde_json::{Value, json};
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
/// The same for an `offline` result, behind which there seldom is another one.
const SETTLE_OFFLINE: Duration = Duration::from_millis(300);
/// Time without a message after the end of the audio, after which what was heard before it is all.
const SETTLE_EARLY: Duration = Duration::from_secs(2);
/// The same where there are words that the result of the second pass is to replace.
const SETTLE_ONLINE: Duration = Duration::from_secs(8);

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
    mode: Value,
    #[serde(default)]
    text: Value,
    #[serde(default)]
    is_final: Value,
}

impl FunAsrMessage {
    fn mode(&self) -> &str {
        self.mode.as_str().unwrap_or_default()
    }

    fn is_final(&self) -> bool {
        match &self.is_final {
            Value::Bool(flag) => *flag,
            Value::String(text) => text.eq_ignore_ascii_case("true"),
            Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
            _ => false,
        }
    }
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
        let settle = match self.heard.mode {
            FunAsrMode::Offline => SETTLE_OFFLINE,
            FunAsrMode::TwoPass => SETTLE,
        };
        let at_most = |wait: Duration| deadline.min(Instant::now() + wait);
        let mut until = match (self.heard.awaits_segment(), self.heard.segments.is_empty()) {
            (true, _) => at_most(SETTLE_ONLINE),
            (false, false) => at_most(SETTLE_EARLY),
            (false, true) => deadline,
        };
        loop {
            let missing = "no result within its deadline";
            let incoming = self.endpoint.receive(&mut self.socket, until, missing).await;
            let is_enough = until < deadline || self.heard.has_words();
            match incoming {
                Err(e) if is_enough && e.kind == ProviderErrorKind::Timeout => break,
                Err(e) => return Err(e),
                Ok(incoming) => match self.take(incoming)? {
                    ResultKind::Nothing if self.heard.awaits_segment() => {
                        until = at_most(SETTLE_ONLINE);
                    }
                    ResultKind::Nothing => {}
                    ResultKind::Segment => until = at_most(settle),
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
        let heard = meaning(&answer);
        let known: usize = self.segments.iter().map(String::len).sum();
        let text = answer.text.as_str().unwrap_or_default();
        let segment = text.trim();
        // Also where the second pass has heard nothing.
        if heard != ResultKind::Nothing && answer.text.is_string() {
            self.online.clear();
        }
        if segment.is_empty() || known + self.online.len() > MAX_SEGMENTS_BYTES {
            return Some(heard);
        }
        if heard != ResultKind::Nothing {
            self.segments.push(segment.to_owned());
            self.changed = true;
        } else if self.mode == FunAsrMode::TwoPass && answer.mode() == "2pass-online" {
            self.online.push_str(text);
            self.changed = true;
        }
        Some(heard)
    }

    /// Returns the words so far, if they have changed since the last call.
    pub(super) fn partial(&mut self) -> Option<String> {
        std::mem::take(&mut self.changed).then(|| self.transcript().text)
    }

    /// Returns the transcript: the segments, and the words behind them that no segment has replaced.
    pub(super) fn transcript(&self) -> Transcript {
        let online = Some(self.online.trim()).filter(|words| !words.is_empty());
        let words: Vec<&str> = self.segments.iter().map(String::as_str).chain(online).collect();
        transcript(&join(&words))
    }

    /// Reports whether there are words that a segment is still to replace.
    fn awaits_segment(&self) -> bool {
        !self.online.trim().is_empty()
    }

    fn has_words(&self) -> bool {
        !self.segments.is_empty() || self.awaits_segment()
    }
}

fn meaning(answer: &FunAsrMessage) -> ResultKind {
    match answer.mode() {
        "offline" | "2pass-offline" | "" if answer.is_final() => ResultKind::Last,
        // A confirmation has no text.
        "offline" | "2pass-offline" | "" if answer.text.is_string() => ResultKind::Segment,
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
        assert_eq!(heard.transcript().text, "今天天气，好");
        let mut whole = Segments::new(FunAsrMode::Offline);
        whole.take(&json!({ "mode": "2pass-online", "text": "a" }).to_string());
        assert_eq!(whole.partial(), None, "only segments count where only they are asked for");
    }

    #[test]
    fn partial_results_mean_nothing() {
        for (message, kind) in [
            (json!({ "mode": "2pass-online", "text": "x", "is_final": true }), ResultKind::Nothing),
            (
                json!({ "mode": "2pass-offline", "text": "x", "is_final": false }),
                ResultKind::Segment,
            ),
            (json!({ "mode": "2pass-offline", "text": "x", "is_final": true }), ResultKind::Last),
            (json!({ "mode": "offline", "text": "x" }), ResultKind::Segment),
            (json!({ "mode": "offline", "text": "x", "is_final": null }), ResultKind::Segment),
            (json!({ "mode": "offline", "text": "x", "is_final": "true" }), ResultKind::Last),
            (json!({ "mode": "offline", "text": "x", "is_final": 1 }), ResultKind::Last),
            (json!({ "mode": null, "text": "x" }), ResultKind::Segment),
            (json!({ "text": "x" }), ResultKind::Segment),
            (json!({ "mode": "offline", "status": "ok" }), ResultKind::Nothing),
            (json!({ "mode": "offline", "text": null }), ResultKind::Nothing),
            (json!({ "mode": "offline", "text": null, "is_final": true }), ResultKind::Last),
            (json!({ "mode": 7, "text": "" }), ResultKind::Segment),
        ] {
            let answer = serde_json::from_value(message.clone()).unwrap();
            assert_eq!(meaning(&answer), kind, "{message}");
        }
    }
}
