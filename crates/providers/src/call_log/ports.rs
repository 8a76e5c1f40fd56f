//! The ports of a turn's services, with their calls in the log. Not for the content of a call.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt as _, once};
use hearken_audio::pcm;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_base::ms::in_ms;
use hearken_ports::{
    Asr, AsrStream, Line, Llm, LlmDelta, Pcm, Prompt, ProviderError, Role, ServiceHealth,
    Transcript, Tts, UtteranceSpec,
};

use super::{CallContent, CallLog, MOST_NAMES, OpenCall, TurnService};

impl CallLog {
    /// Returns this recogniser with its calls in the log.
    pub fn asr(&self, inner: Arc<dyn Asr>) -> Arc<dyn Asr> {
        Arc::new(Logged { inner, log: self.clone() })
    }

    /// Returns this model with its calls in the log.
    pub fn llm(&self, inner: Arc<dyn Llm>) -> Arc<dyn Llm> {
        Arc::new(Logged { inner, log: self.clone() })
    }

    /// Returns this synthesiser with its calls in the log.
    pub fn tts(&self, inner: Arc<dyn Tts>) -> Arc<dyn Tts> {
        Arc::new(Logged { inner, log: self.clone() })
    }
}

/// A port whose calls are in the log.
struct Logged<P: ?Sized> {
    log: CallLog,
    inner: Arc<P>,
}

fn ms(samples: usize, rate_hz: u32) -> u64 {
    in_ms(pcm::duration(samples, rate_hz))
}

#[async_trait]
impl Asr for Logged<dyn Asr> {
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let call = self.log.begin(TurnService::Asr, CallContent::default());
        match self.inner.open(spec).await {
            Ok(inner) => Ok(Box::new(LoggedStream { inner, call })),
            Err(error) => {
                call.fails(&error);
                Err(error)
            }
        }
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }
}

struct LoggedStream {
    inner: Box<dyn AsrStream>,
    call: OpenCall,
}

#[async_trait]
impl AsrStream for LoggedStream {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        self.call.sends(ms(pcm.len(), SAMPLE_RATE_HZ));
        let pushed = self.inner.push(pcm).await;
        pushed.inspect_err(|error| self.call.fails(error))
    }

    fn partial(&mut self) -> Option<String> {
        self.inner.partial()
    }

    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
        let Self { inner, call } = *self;
        let transcript = inner.finish().await.inspect_err(|error| call.fails(error))?;
        call.got_text(&transcript.text);
        call.ends_well();
        Ok(transcript)
    }
}

impl Llm for Logged<dyn Llm> {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let log = self.log.clone();
        let sent = sent(&self.log, &prompt);
        let reply = self.inner.reply(prompt);
        // The call starts when the reply is polled.
        let begun = once(async move {
            let call = log.begin(TurnService::Llm, sent);
            reply.inspect(move |delta| note(&call, delta))
        });
        begun.flatten().boxed()
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.inner.prefetch(opening)
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }

    fn price_per_million(&self) -> f64 {
        self.inner.price_per_million()
    }
}

fn sent(log: &CallLog, prompt: &Prompt) -> CallContent {
    let last = prompt.messages.iter().rfind(|message| message.role == Role::User);
    CallContent {
        text: last.and_then(|message| log.kept(&message.content)),
        model: Some(prompt.model.clone()),
        messages: Some(prompt.messages.len()),
        characters: Some(prompt.messages.iter().map(|m| m.content.chars().count()).sum()),
        tools: Some(prompt.tools.len()),
        max_tokens: Some(prompt.max_tokens),
        temperature: Some(prompt.temperature),
        ..CallContent::default()
    }
}

fn note(call: &OpenCall, delta: &Result<LlmDelta, ProviderError>) {
    match delta {
        Ok(LlmDelta::Text(text)) => call.got_text(text),
        Ok(LlmDelta::Calling | LlmDelta::Rule(_)) => {}
        Ok(LlmDelta::Call(made)) => call.got(|got| {
            let names = got.calls.get_or_insert_default();
            if names.len() < MOST_NAMES {
                names.push(made.name.chars().take(100).collect());
            }
        }),
        Ok(LlmDelta::Finished { usage, .. }) => {
            if let Some(usage) = usage {
                call.got(|got| {
                    got.prompt_tokens = Some(usage.prompt_tokens);
                    got.completion_tokens = Some(usage.completion_tokens);
                });
            }
            call.ends_well();
        }
        Err(error) => call.fails(error),
    }
}

impl Tts for Logged<dyn Tts> {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let log = self.log.clone();
        let sent = CallContent {
            text: log.kept(&line.text),
            voice: Some(line.voice.to_string()),
            ..CallContent::default()
        };
        let sound = self.inner.speak(line);
        let begun = once(async move {
            let call = Arc::new(log.begin(TurnService::Tts, sent));
            let ended = Arc::clone(&call);
            let noted = sound.inspect(move |piece| match piece {
                Ok(piece) => call.got(|got| {
                    let more = ms(piece.samples.len(), piece.sample_rate_hz);
                    got.audio_ms = Some(got.audio_ms.unwrap_or_default().saturating_add(more));
                }),
                Err(error) => call.fails(error),
            });
            // The sentence is complete if the stream ends by itself.
            let end = once(async move {
                ended.ends_well();
                None
            });
            noted.map(Some).chain(end).filter_map(|piece| async { piece })
        });
        begun.flatten().boxed()
    }

    fn sample_rate_hz(&self) -> Option<u32> {
        self.inner.sample_rate_hz()
    }

    fn health(&self) -> ServiceHealth {
        self.inner.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.inner.probe()
    }
}
