//! Services of a simulated conversation: the recogniser returns the words that were said, the model
//! has one reply to the question and one to anything else, and the synthesiser returns recordings.
//! The script of the conversation is elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use hearken_actors::pipeline::Ports;
use hearken_audio::pcm;
use hearken_dialogue::ConversationStyle;
use hearken_ports::{
    Asr, AsrStream, Line, Llm, LlmDelta, Pcm, Prompt, ProviderError, Transcript, Tts, TurnDetector,
    UtteranceSpec,
};
use hearken_virtual_device::sound::UPLINK_RATE_HZ;
use tokio::time::Instant;

use super::{Scene, Sentence};
use crate::device::Upstreams;
use crate::manifest::Stretch;

/// Minimum length of a voice in an utterance for its words to be recognised.
const UNDERSTOOD: Duration = Duration::from_millis(80);
/// Tolerance for the start of an utterance, because packets arrive late.
const LATE: Duration = Duration::from_millis(120);

/// Voice with its words.
#[derive(Debug, Clone)]
pub(super) struct Said {
    /// Start and end of the voice.
    pub(super) voice: Stretch,
    pub(super) words: &'static str,
}

/// Services of one conversation.
#[derive(Clone)]
pub(super) struct Services(Arc<World>);

struct World {
    epoch: Instant,
    upstreams: Upstreams,
    question: &'static str,
    reply: Vec<Sentence>,
    other: Sentence,
    /// Transcript of an utterance without a voice.
    echo: &'static str,
    said: Mutex<Vec<Said>>,
}

impl World {
    fn said(&self) -> MutexGuard<'_, Vec<Said>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the transcript of an utterance of this length that ends now.
    fn words(&self, length: Duration) -> String {
        let now = self.epoch.elapsed();
        let from = now.saturating_sub(length + LATE);
        let within =
            |said: &&Said| said.voice.end.min(now) >= said.voice.start.max(from) + UNDERSTOOD;
        let said = self.said();
        let heard: Vec<&Said> = said.iter().filter(within).collect();
        if heard.is_empty() {
            return self.echo.to_owned();
        }
        let words = heard.iter().map(|said| said.words).filter(|words| !words.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }
}

impl Services {
    /// Creates the services of a conversation that starts now.
    pub(super) fn new(scene: &Scene) -> Self {
        Self(Arc::new(World {
            epoch: Instant::now(),
            upstreams: scene.upstreams,
            question: scene.question.words,
            reply: scene.reply.clone(),
            other: scene.other.clone(),
            echo: scene.echo.as_ref().map_or("", |echo| echo.words),
            said: Mutex::default(),
        }))
    }

    /// Registers a voice.
    pub(super) fn said(&self, said: Said) {
        self.0.said().push(said);
    }

    pub(super) fn ports(&self, turn_detector: Option<Arc<dyn TurnDetector>>) -> Ports {
        Ports {
            asr: Arc::new(self.clone()),
            llm: Arc::new(self.clone()),
            tts: Arc::new(self.clone()),
            turn_detector,
            people: None,
            tools: Arc::new(|_, _| Arc::new(Vec::new)),
            vision: None,
            style: Arc::new(|_| ConversationStyle::default()),
            roles: Arc::new(|_| None),
            now: Arc::new(String::new),
            describer: None,
        }
    }
}

struct Utterance {
    world: Arc<World>,
    samples: usize,
}

#[async_trait]
impl Asr for Services {
    async fn open(&self, _: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        Ok(Box::new(Utterance { world: Arc::clone(&self.0), samples: 0 }))
    }
}

#[async_trait]
impl AsrStream for Utterance {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        self.samples += pcm.len();
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
        let text = self.world.words(pcm::duration(self.samples, UPLINK_RATE_HZ));
        tokio::time::sleep(self.world.upstreams.recogniser).await;
        Ok(Transcript { text })
    }
}

impl Llm for Services {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let world = &self.0;
        let asked = prompt.messages.last().is_some_and(|last| last.content == world.question);
        let sentences: Vec<&str> = if asked {
            world.reply.iter().map(|sentence| sentence.text).collect()
        } else {
            vec![world.other.text]
        };
        let text = sentences.join(" ");
        let takes = world.upstreams.model;
        let words = stream::once(async move {
            tokio::time::sleep(takes).await;
            Ok(LlmDelta::Text(text))
        });
        let end = stream::iter([Ok(LlmDelta::Finished { truncated: false, usage: None })]);
        words.chain(end).boxed()
    }
}

impl Tts for Services {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let all = self.0.reply.iter().chain([&self.0.other]);
        let said = all.clone().find(|sentence| sentence.text == &*line.text);
        let samples = Arc::clone(&said.unwrap_or(&self.0.other).sound);
        let takes = self.0.upstreams.synthesiser;
        stream::once(async move {
            tokio::time::sleep(takes).await;
            Ok(Pcm { samples, sample_rate_hz: UPLINK_RATE_HZ })
        })
        .boxed()
    }

    fn sample_rate_hz(&self) -> Option<u32> {
        Some(UPLINK_RATE_HZ)
    }
}
