//! ListenAI's recognition protocol (port 9200): one batch per utterance on a reused connection.
//! Audio is sent while the user is still speaking. Its streaming mode is not used: this server does
//! the endpointing.
//!
//! - A reused connection may be dead without notice. If it fails before the result, the utterance
//!   starts again once on a new connection with the audio so far.
//! - The service must answer every `batch_end` with a result, but may fail to: there is a deadline.
//! - An abandoned utterance closes its connection: no command ends only a batch.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hearken_audio::opus::Encoder;
use hearken_audio::pcm;
use hearken_ports::{Asr, AsrStream, ProviderError, ProviderErrorKind, Transcript, UtteranceSpec};
use hearken_proto::json::weighed;
use hearken_proto::speech::asr::{AsrCommand, AsrEvent, AudioFormat, SAMPLE_RATE_HZ, code};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::{language, max_samples, transcript};
use crate::pool::{Lease, Pool};
use crate::service_health::Probe;
use crate::settings::{AsrSettings, ms};
use crate::ws::{Endpoint, Incoming};

const PROVIDER: &str = "listenai-asr";

/// Samples of one Opus packet: 20 ms.
const OPUS_FRAME: usize = 320;

/// Opus bit rate: 24 kbit/s.
const OPUS_BITRATE_BPS: i32 = 24_000;

/// Opus complexity: low enough for many devices on two cores, high enough for speech.
const OPUS_COMPLEXITY: u8 = 5;

/// Maximum size of a PCM message, in samples (one second). A replay is sent in messages that every
/// server accepts.
const PCM_FRAME: usize = 16_000;

/// Speech recogniser with ListenAI's protocol.
#[derive(Debug)]
pub struct ListenAiAsr {
    pool: Arc<Pool>,
    settings: AsrSettings,
}

impl ListenAiAsr {
    /// Creates a client of `settings.url` (`ws://` or `wss://`) without connecting yet.
    pub fn new(settings: AsrSettings) -> Self {
        let endpoint = Endpoint {
            provider: PROVIDER,
            url: settings.url.clone(),
            api_key: settings.api_key.clone(),
            connect_timeout: ms(settings.connect_timeout_ms),
            send_timeout: ms(settings.send_timeout_ms),
        };
        Self { pool: Pool::new(endpoint, settings.pool.clone()), settings }
    }
}

#[async_trait]
impl Asr for ListenAiAsr {
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let language = language(&spec, &self.settings.language);
        let mut batch = Batch {
            lease: self.pool.lease().await?,
            language: language.as_deref().and_then(chinese_name).map(str::to_owned),
            audio: self.settings.audio,
            packing: Packing::Pcm,
            kept: Some(Vec::new()),
            most: max_samples(self.settings.max_utterance_ms),
            result_timeout_ms: self.settings.result_timeout_ms,
        };
        if let Err(e) = batch.begin().await {
            batch.start_again(e).await?;
        }
        Ok(Box::new(batch))
    }
}

impl Probe for ListenAiAsr {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        self.pool.probe().boxed()
    }
}

/// Returns the protocol's name of a language by its primary tag; none for other languages, which
/// the service detects itself.
fn chinese_name(primary: &str) -> Option<&'static str> {
    match primary {
        "zh" => Some("中文"),
        "en" => Some("英文"),
        "yue" => Some("粤语"),
        "ja" => Some("日文"),
        "ko" => Some("韩文"),
        _ => None,
    }
}

/// One utterance on one connection.
struct Batch {
    lease: Lease,
    language: Option<String>,
    audio: AudioFormat,
    packing: Packing,
    /// All audio so far, for a second attempt; none after that attempt, or if none is possible.
    kept: Option<Vec<i16>>,
    most: usize,
    result_timeout_ms: u64,
}

/// Encoding of samples as binary messages.
enum Packing {
    Pcm,
    Opus { encoder: Box<Encoder>, rest: Vec<i16> },
}

#[async_trait]
impl AsrStream for Batch {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        self.keep(pcm);
        let pushed = match self.look() {
            Ok(()) => self.send_audio(pcm).await,
            Err(e) => Err(e),
        };
        match pushed {
            Ok(()) => Ok(()),
            Err(e) => self.start_again(e).await,
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<Transcript, ProviderError> {
        let deadline = Instant::now() + ms(self.result_timeout_ms);
        let mut concluded = self.conclude(deadline).await;
        if let Err(e) = concluded {
            self.start_again(e).await?;
            concluded = self.conclude(deadline).await;
        }
        let text = concluded?;
        self.lease.give_back();
        Ok(transcript(&text))
    }
}

impl Batch {
    /// Opens the batch on the current connection.
    async fn begin(&mut self) -> Result<(), ProviderError> {
        if self.audio == AudioFormat::Opus {
            let encoder = Encoder::new(SAMPLE_RATE_HZ, OPUS_BITRATE_BPS, OPUS_COMPLEXITY)
                .map_err(|e| self.lease.endpoint().failed(ProviderErrorKind::BadRequest, e))?;
            self.packing = Packing::Opus { encoder: Box::new(encoder), rest: Vec::new() };
            self.command(&AsrCommand::SetAudioFormat { format: AudioFormat::Opus }).await?;
        }
        let language = self.language.clone();
        self.command(&AsrCommand::BatchStart { sample_rate: SAMPLE_RATE_HZ, language }).await
    }

    /// Starts again on a new connection after `error`, if a reused connection has died; otherwise
    /// returns `error`.
    async fn start_again(&mut self, error: ProviderError) -> Result<(), ProviderError> {
        if !self.lease.is_reused() || error.kind != ProviderErrorKind::Unavailable {
            return Err(error);
        }
        let Some(kept) = self.kept.take() else { return Err(error) };
        tracing::debug!("a pooled connection to the recogniser was dead; starting again");
        self.lease.renew().await?;
        self.begin().await?;
        self.send_audio(&kept).await
    }

    fn keep(&mut self, pcm: &[i16]) {
        match &mut self.kept {
            Some(kept) if self.lease.is_reused() && kept.len() + pcm.len() <= self.most => {
                kept.extend_from_slice(pcm);
            }
            kept => *kept = None,
        }
    }

    async fn command(&mut self, command: &AsrCommand) -> Result<(), ProviderError> {
        self.lease.send(Message::text(command.encode())).await
    }

    async fn send_audio(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        match &mut self.packing {
            Packing::Pcm => {
                for piece in pcm.chunks(PCM_FRAME) {
                    self.lease.send(Message::binary(pcm::to_le_bytes(piece))).await?;
                }
            }
            Packing::Opus { encoder, rest } => {
                rest.extend_from_slice(pcm);
                let whole = rest.len() - rest.len() % OPUS_FRAME;
                for frame in rest[..whole].chunks_exact(OPUS_FRAME) {
                    let packet = encoder.encode(frame).map_err(|e| {
                        self.lease.endpoint().failed(ProviderErrorKind::BadRequest, e)
                    })?;
                    self.lease.send(Message::binary(packet)).await?;
                }
                rest.drain(..whole);
            }
        }
        Ok(())
    }

    /// Sends the rest of the last Opus frame, padded with silence.
    async fn flush(&mut self) -> Result<(), ProviderError> {
        let Packing::Opus { rest, .. } = &self.packing else { return Ok(()) };
        if rest.is_empty() {
            return Ok(());
        }
        let silence = vec![0; OPUS_FRAME - rest.len()];
        self.send_audio(&silence).await
    }

    /// Reads messages that arrived during the speech: usually the confirmation of the batch.
    fn look(&mut self) -> Result<(), ProviderError> {
        while let Some(incoming) = self.lease.take_ready()? {
            if self.read(incoming)?.is_some() {
                return Err(self.lease.endpoint().violated("a result came before the batch ended"));
            }
        }
        Ok(())
    }

    /// Ends the batch and waits for its transcript.
    async fn conclude(&mut self, deadline: Instant) -> Result<String, ProviderError> {
        self.look()?;
        self.flush().await?;
        self.command(&AsrCommand::BatchEnd).await?;
        loop {
            let incoming = self.lease.receive(deadline, "no result within its deadline").await?;
            if let Some(text) = self.read(incoming)? {
                return Ok(text);
            }
        }
    }

    /// Returns the transcript if this message contains it.
    fn read(&self, incoming: Incoming) -> Result<Option<String>, ProviderError> {
        let endpoint = self.lease.endpoint();
        let Incoming::Text(text) = incoming else {
            return Err(endpoint.violated("a binary message from the recogniser"));
        };
        match AsrEvent::decode(&text) {
            Ok(AsrEvent::BatchResult { text, .. }) => Ok(Some(text.trim().to_owned())),
            Ok(AsrEvent::Error { code: code::NO_AUDIO | code::TOO_SHORT, .. }) => {
                Ok(Some(String::new()))
            }
            Ok(AsrEvent::Error { code, .. }) => Err(endpoint.failed(kind_of(code), Refused(code))),
            Ok(_) => Ok(None),
            Err(_) if is_foreign_event(&text) => Ok(None),
            Err(_) => Err(endpoint.violated("a message that is not a recogniser event")),
        }
    }
}

/// Error answer of the service: its code. Its text is not repeated.
#[derive(Debug, thiserror::Error)]
#[error("error code {0}")]
struct Refused(u32);

fn kind_of(error_code: u32) -> ProviderErrorKind {
    match error_code {
        code::EXCEPTION => ProviderErrorKind::Unavailable,
        code::FORMAT => ProviderErrorKind::BadRequest,
        _ => ProviderErrorKind::Protocol,
    }
}

/// Returns true for an event of an unknown kind or state, which is ignored.
fn is_foreign_event(text: &str) -> bool {
    let Ok(value) = weighed::<serde_json::Value>(text) else { return false };
    let kind = value.get("type").and_then(|kind| kind.as_str());
    kind.is_some_and(|kind| !matches!(kind, "batch_result" | "error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_events_are_ignored_and_malformed_ones_are_not() {
        assert!(is_foreign_event(r#"{"type":"speaker_list","speakers":[]}"#));
        assert!(is_foreign_event(r#"{"type":"batch_progress","state":"loading"}"#));
        assert!(!is_foreign_event(r#"{"type":"batch_result","text":7}"#));
        assert!(!is_foreign_event(r#"{"text":"hello"}"#));
        assert!(!is_foreign_event("hello"));
    }
}
