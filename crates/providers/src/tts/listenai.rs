//! ListenAI's synthesis protocol (port 9300): one request per sentence, each on its own connection
//! from the pool. Not for its other modes: whole answers and cloned voices.
//!
//! - The end of a request is `complete`, never a flag in a frame.
//! - A dropped stream sends `cancel`. The connection returns to the pool only after the end of the
//!   request.
//! - If a reused connection fails before any answer, the request is resent on a new one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_ports::{Line, Pcm, ProviderError, ProviderErrorKind, Tts};
use hearken_proto::speech::tts::{
    AudioFrame, FrameKind, TtsCommand, TtsEvent, TtsFailure, TtsMode, TtsParams, TtsResult,
};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::SAMPLE_RATES_HZ;
use super::sound::{SampleFormat, Sound, Unplayable};
use crate::pool::{Lease, Pool};
use crate::service_health::Probe;
use crate::settings::{TtsSettings, ms};
use crate::ws::{Endpoint, Incoming};

const PROVIDER: &str = "listenai-tts";

/// Maximum wait for a cancelled request to end before its connection is closed.
const FAREWELL: Duration = Duration::from_secs(2);

/// Synthesiser with ListenAI's protocol.
#[derive(Debug)]
pub struct ListenAiTts {
    pool: Arc<Pool>,
    settings: Arc<TtsSettings>,
}

impl ListenAiTts {
    /// Creates a client of `settings.url` (`ws://` or `wss://`) without connecting yet.
    pub fn new(settings: TtsSettings) -> Self {
        let endpoint = Endpoint {
            provider: PROVIDER,
            url: settings.url.clone(),
            api_key: settings.api_key.clone(),
            connect_timeout: ms(settings.connect_timeout_ms),
            send_timeout: ms(settings.connect_timeout_ms),
        };
        Self { pool: Pool::new(endpoint, settings.pool.clone()), settings: Arc::new(settings) }
    }
}

impl Tts for ListenAiTts {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let order = Stage::Ordered(self.pool.clone(), self.settings.clone(), line);
        try_unfold(order, |stage| async move {
            let mut request = match stage {
                Stage::Ordered(pool, settings, line) => {
                    Box::new(Request::make(pool, settings, &line).await?)
                }
                Stage::Answering(request) => request,
            };
            match request.next().await? {
                Some(pcm) => Ok(Some((pcm, Stage::Answering(request)))),
                None => Ok(None),
            }
        })
        .boxed()
    }
}

impl Probe for ListenAiTts {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        self.pool.probe().boxed()
    }
}

enum Stage {
    Ordered(Arc<Pool>, Arc<TtsSettings>, Line),
    Answering(Box<Request>),
}

/// Request for one sentence that is not complete yet.
struct Request {
    answer: SpeechStream,
    command: TtsCommand,
    /// Present until the service has sent the whole answer.
    lease: Option<Lease>,
    settings: Arc<TtsSettings>,
    first_by: Instant,
    total_by: Instant,
    /// True after any message: the connection was alive.
    answered: bool,
}

/// Answer of one request so far.
struct SpeechStream {
    id: String,
    /// Number of frames so far, which is the sequence number of the next.
    frames: u64,
    /// True after the first samples.
    is_heard: bool,
    /// Sample rate of the last frame, and its sound; none before the first.
    sound: Option<(u32, Sound)>,
    /// Samples that have not been returned yet.
    ready: VecDeque<Pcm>,
}

impl Request {
    async fn make(
        pool: Arc<Pool>,
        settings: Arc<TtsSettings>,
        line: &Line,
    ) -> Result<Self, ProviderError> {
        let start = Instant::now();
        let id = uuid::Uuid::new_v4().to_string();
        let speed = (settings.speed != 1.0).then_some(settings.speed);
        let voice = if line.voice.is_empty() { &*settings.voice } else { &*line.voice };
        let voice_id = (!voice.is_empty()).then(|| voice.to_owned());
        let text = line.text.to_string();
        let params = TtsParams { text, mode: TtsMode::Streaming, voice_id, speed };
        let mut request = Self {
            command: TtsCommand::TtsRequest { request_id: id.clone(), params },
            answer: SpeechStream {
                id,
                frames: 0,
                is_heard: false,
                sound: None,
                ready: VecDeque::new(),
            },
            lease: Some(pool.lease().await?),
            first_by: start + ms(settings.first_audio_timeout_ms),
            total_by: start + ms(settings.timeout_ms),
            settings,
            answered: false,
        };
        if let Err(e) = request.order().await {
            request.order_again(e).await?;
        }
        Ok(request)
    }

    async fn order(&mut self) -> Result<(), ProviderError> {
        let message = Message::text(self.command.encode());
        lease(&mut self.lease)?.send(message).await
    }

    /// Sends the request again after `error`, if a reused connection died before any message;
    /// otherwise returns `error`.
    async fn order_again(&mut self, error: ProviderError) -> Result<(), ProviderError> {
        let dead = error.kind == ProviderErrorKind::Unavailable && !self.answered;
        // Removed from the request: a failure here must not also send a cancel.
        let Some(mut lease) = self.lease.take() else { return Err(error) };
        if !dead || !lease.is_reused() {
            return Err(error);
        }
        tracing::debug!("a pooled connection to the synthesiser was dead; sending again");
        lease.renew().await?;
        self.lease = Some(lease);
        self.order().await
    }

    /// Returns the next piece of audio, or none at the end of the sentence.
    async fn next(&mut self) -> Result<Option<Pcm>, ProviderError> {
        // Ends when the answer is complete and its last piece was returned.
        loop {
            if let Some(pcm) = self.answer.ready.pop_front() {
                return Ok(Some(pcm));
            }
            if self.lease.is_none() {
                return Ok(None);
            }
            let incoming = match self.receive().await {
                Ok(incoming) => incoming,
                // The service still works on it: dropping the request cancels it.
                Err(e) if e.kind == ProviderErrorKind::Timeout => return Err(e),
                Err(e) => {
                    self.order_again(e).await?;
                    continue;
                }
            };
            self.answered = true;
            let heard = match incoming {
                Incoming::Binary(frame) => self.answer.frame(&frame),
                Incoming::Text(text) => self.answer.event(&text),
            };
            match heard {
                Ok(ServiceMessage::Audio(pcm)) => return Ok(Some(pcm)),
                Ok(ServiceMessage::Nothing) => {}
                Ok(ServiceMessage::End) => {
                    self.end();
                    self.answer.finish().map_err(violated)?;
                    if !self.answer.is_heard {
                        return Err(violated("the sentence completed without any audio"));
                    }
                }
                Err(e) => {
                    self.lease = None;
                    return Err(e);
                }
            }
        }
    }

    async fn receive(&mut self) -> Result<Incoming, ProviderError> {
        let (by, missing) = if self.answer.frames == 0 {
            (self.first_by, "no audio within its deadline")
        } else {
            (Instant::now() + ms(self.settings.idle_timeout_ms), "the audio stalled")
        };
        lease(&mut self.lease)?.receive(by.min(self.total_by), missing).await
    }

    /// Ends the request and returns its connection to the pool.
    fn end(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(cancel(lease, std::mem::take(&mut self.answer.id)));
    }
}

impl SpeechStream {
    fn frame(&mut self, frame: &Bytes) -> Result<ServiceMessage, ProviderError> {
        let frame = AudioFrame::decode(frame).map_err(|e| violated(e.to_string()))?;
        if frame.meta.request_id != self.id {
            tracing::debug!("ignored a frame of another request");
            return Ok(ServiceMessage::Nothing);
        }
        if frame.kind == FrameKind::Meta {
            return Ok(ServiceMessage::Nothing);
        }
        let had = frame.meta.sequence;
        let want = self.frames;
        if had != want {
            return Err(violated(format!("received frame {had} instead of {want}")));
        }
        let rate = frame.meta.sample_rate;
        if !SAMPLE_RATES_HZ.contains(&rate) {
            return Err(violated(format!("a sample rate of {rate} Hz")));
        }
        self.frames += 1;
        if self.sound.as_ref().is_none_or(|(before, _)| *before != rate) {
            self.finish().map_err(violated)?;
            self.sound = Some((rate, Sound::new(SampleFormat { rate_hz: rate, stereo: false })));
        }
        if let Some((_, sound)) = &mut self.sound {
            let samples = sound.take(&frame.pcm).map_err(violated)?;
            self.add(samples);
        }
        Ok(self.ready.pop_front().map_or(ServiceMessage::Nothing, ServiceMessage::Audio))
    }

    /// Ends the sound, whose last samples may be undecided.
    fn finish(&mut self) -> Result<(), Unplayable> {
        if let Some((_, mut sound)) = self.sound.take() {
            let rest = sound.finish()?;
            self.add(rest);
        }
        Ok(())
    }

    fn add(&mut self, samples: impl IntoIterator<Item = Pcm>) {
        self.ready.extend(samples);
        self.is_heard |= !self.ready.is_empty();
    }

    fn event(&self, text: &str) -> Result<ServiceMessage, ProviderError> {
        let event = TtsEvent::decode(text)
            .map_err(|_| violated("a message that is not a synthesiser event"))?;
        match event {
            TtsEvent::Complete { request_id, result } if request_id == self.id => {
                self.complete(&result)
            }
            TtsEvent::Error { request_id, error }
                if request_id.as_ref().is_none_or(|id| *id == self.id) =>
            {
                Err(refusal_of(&error))
            }
            TtsEvent::Complete { .. } | TtsEvent::Error { .. } => {
                tracing::debug!("ignored the end of another request");
                Ok(ServiceMessage::Nothing)
            }
            TtsEvent::Progress { .. } | TtsEvent::Pong { .. } => Ok(ServiceMessage::Nothing),
        }
    }

    fn complete(&self, result: &TtsResult) -> Result<ServiceMessage, ProviderError> {
        if result.cancelled {
            let why = "the service cancelled the request";
            return Err(ProviderError::because(PROVIDER, ProviderErrorKind::Unavailable, why));
        }
        if result.chunks != 0 && result.chunks != self.frames {
            tracing::warn!(
                told = result.chunks,
                came = self.frames,
                "the number of audio frames differs from the announced one"
            );
        }
        Ok(ServiceMessage::End)
    }
}

/// Content of a message of the service.
#[derive(Debug, PartialEq)]
enum ServiceMessage {
    Audio(Pcm),
    Nothing,
    End,
}

/// Cancels a request that no user listens to any more, within [`FAREWELL`].
async fn cancel(mut lease: Lease, id: String) {
    let ended = timeout(FAREWELL, async {
        let command = TtsCommand::Cancel { request_id: id.clone() };
        lease.send(Message::text(command.encode())).await?;
        let deadline = Instant::now() + FAREWELL;
        loop {
            let Incoming::Text(text) = lease.receive(deadline, "no end").await? else { continue };
            match TtsEvent::decode(&text) {
                Ok(TtsEvent::Complete { request_id, .. }) if request_id == id => return Ok(()),
                Ok(TtsEvent::Error { request_id: Some(of), .. }) if of == id => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(violated("a message that is not an event")),
            }
        }
    });
    match ended.await {
        Ok(Ok(())) => lease.give_back(),
        Ok(Err(_)) | Err(_) => tracing::debug!("a cancelled request did not end in time"),
    }
}

fn lease(lease: &mut Option<Lease>) -> Result<&mut Lease, ProviderError> {
    let over = || ProviderError::new(PROVIDER, ProviderErrorKind::Unavailable);
    lease.as_mut().ok_or_else(over)
}

fn violated(what: impl Into<hearken_ports::BoxError>) -> ProviderError {
    ProviderError::because(PROVIDER, ProviderErrorKind::Protocol, what)
}

/// Converts an error of the service. Its code is repeated, its text is not.
fn refusal_of(failure: &TtsFailure) -> ProviderError {
    let kind = match failure.code.as_str() {
        "RATE_LIMITED" => ProviderErrorKind::RateLimited,
        "TIMEOUT" => ProviderErrorKind::Timeout,
        "INVALID_PARAMS"
        | "INVALID_JSON"
        | "TEXT_TOO_LONG"
        | "VOICE_NOT_FOUND"
        | "VOICE_MANAGER_NOT_AVAILABLE"
        | "UNSUPPORTED_FORMAT" => ProviderErrorKind::BadRequest,
        _ => ProviderErrorKind::Unavailable,
    };
    let code: String = failure.code.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
    ProviderError::because(PROVIDER, kind, format!("error code {code}"))
}

#[cfg(test)]
mod tests {
    use futures_util::SinkExt as _;
    use hearken_proto::speech::tts::FrameMeta;
    use serde_json::{Value, json};
    use tokio::net::TcpListener;
    use tokio_tungstenite::accept_async;

    use super::*;
    use crate::tts::sound::tests::{file, mp3};

    fn answer() -> SpeechStream {
        SpeechStream {
            id: "mine".into(),
            frames: 0,
            is_heard: false,
            sound: None,
            ready: VecDeque::new(),
        }
    }

    fn frame(request_id: &str, sequence: u64, sample_rate: u32) -> Bytes {
        frame_of(request_id, sequence, sample_rate, &[1, 0, 2, 0].repeat(50))
    }

    fn frame_of(request_id: &str, sequence: u64, sample_rate: u32, sound: &[u8]) -> Bytes {
        let meta =
            FrameMeta { request_id: request_id.into(), sequence, sample_rate, is_final: false };
        let pcm = Bytes::copy_from_slice(sound);
        AudioFrame { kind: FrameKind::Stream, meta, pcm }.encode()
    }

    /// Returns all pieces of audio of a service that sends these bytes in frames of 24 kHz.
    async fn heard(sound: &[u8]) -> Vec<Result<Pcm, ProviderError>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = accept_async(stream).await.unwrap();
            let order = socket.next().await.unwrap().unwrap();
            let order: Value = serde_json::from_str(order.to_text().unwrap()).unwrap();
            let id = order["request_id"].as_str().unwrap();
            // A client that refuses the audio leaves before its end.
            for (sequence, piece) in (0..).zip(sound.chunks(250)) {
                let frame = frame_of(id, sequence, 24_000, piece);
                socket.send(Message::binary(frame)).await.ok();
            }
            let end = json!({ "type": "complete", "request_id": id, "result": {} });
            socket.send(Message::text(end.to_string())).await.ok();
            socket
        };
        let tts = ListenAiTts::new(TtsSettings { url, ..TtsSettings::default() });
        let speaking = tts.speak(Line::new("a")).collect();
        tokio::join!(speaking, serve).0
    }

    #[tokio::test]
    async fn a_wav_file_in_frames_is_decoded() {
        let speech: Vec<i16> = (0..1_000).map(|n| n * 30 - 15_000).collect();
        let pieces = heard(&file(1, 16_000, 2_000, b"", &speech)).await;
        let pieces: Vec<Pcm> = pieces.into_iter().collect::<Result<_, _>>().unwrap();
        assert!(pieces.iter().all(|pcm| pcm.sample_rate_hz == 16_000), "not at the file's rate");
        let played: Vec<i16> = pieces.iter().flat_map(|pcm| pcm.samples.to_vec()).collect();
        assert!(played == speech, "{} samples of {}", played.len(), speech.len());
    }

    #[tokio::test]
    async fn an_mp3_file_in_frames_is_refused_before_any_of_it_is_played() {
        for body in [mp3(0xfb, 0x90, 417), [b"ID3\x04".to_vec(), mp3(0xf3, 0x84, 192)].concat()] {
            let mut pieces = heard(&body).await;
            assert_eq!(pieces.len(), 1, "one error, and no audio");
            let error = pieces.remove(0).unwrap_err();
            assert_eq!(error.kind, ProviderErrorKind::Protocol);
            assert!(error.to_string().contains("MP3, not PCM"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_sentence_without_samples_is_an_error() {
        for body in [Vec::new(), file(1, 16_000, 0, b"", &[])] {
            let mut pieces = heard(&body).await;
            assert_eq!(pieces.len(), 1, "{pieces:?}");
            let error = pieces.remove(0).unwrap_err();
            assert_eq!(error.kind, ProviderErrorKind::Protocol, "{error}");
        }
    }

    fn kind(heard: Result<ServiceMessage, ProviderError>) -> ProviderErrorKind {
        heard.expect_err("the sentence fails").kind
    }

    #[test]
    fn frames_are_played_in_order_and_frames_of_other_requests_are_ignored() {
        let mut answer = answer();
        assert_eq!(answer.frame(&frame("other", 5, 16_000)).unwrap(), ServiceMessage::Nothing);
        let pcm = Pcm { samples: [1, 2].repeat(50).into(), sample_rate_hz: 16_000 };
        assert_eq!(answer.frame(&frame("mine", 0, 16_000)).unwrap(), ServiceMessage::Audio(pcm));
        assert!(answer.frame(&frame("mine", 1, 16_000)).is_ok());
        assert_eq!(kind(answer.frame(&frame("mine", 3, 16_000))), ProviderErrorKind::Protocol);
        assert_eq!(kind(answer.frame(&frame("mine", 1, 16_000))), ProviderErrorKind::Protocol);
    }

    #[test]
    fn an_impossible_rate_is_a_violation() {
        for rate in [0, 7_999, 48_001] {
            let heard = answer().frame(&frame("mine", 0, rate));
            assert_eq!(kind(heard), ProviderErrorKind::Protocol);
        }
    }

    #[test]
    fn only_the_end_of_the_own_request_counts_and_errors_have_their_kinds() {
        let complete = |id: &str, result: &str| {
            answer()
                .event(&format!(r#"{{"type":"complete","request_id":"{id}","result":{result}}}"#))
        };
        assert_eq!(complete("mine", "{}").unwrap(), ServiceMessage::End);
        assert_eq!(complete("other", "{}").unwrap(), ServiceMessage::Nothing);
        let cancelled = complete("mine", r#"{"cancelled":true}"#);
        assert_eq!(kind(cancelled), ProviderErrorKind::Unavailable);
        let failed = |code: &str| {
            kind(answer().event(&format!(r#"{{"type":"error","error":{{"code":"{code}"}}}}"#)))
        };
        assert_eq!(failed("QUEUE_FULL"), ProviderErrorKind::Unavailable);
        assert_eq!(failed("RATE_LIMITED"), ProviderErrorKind::RateLimited);
        assert_eq!(failed("TEXT_TOO_LONG"), ProviderErrorKind::BadRequest);
        assert_eq!(failed("VOICE_MANAGER_NOT_AVAILABLE"), ProviderErrorKind::BadRequest);
        let other = r#"{"type":"error","request_id":"other","error":{"code":"TIMEOUT"}}"#;
        assert_eq!(answer().event(other).unwrap(), ServiceMessage::Nothing);
    }
}
