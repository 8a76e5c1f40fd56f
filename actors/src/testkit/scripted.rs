//! Ports that do what a script says, and note what was asked of them. A script runs out into
//! sensible answers, so that a test only writes what it is about.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use tokio::time::Instant;

use crate::audio::pcm;
use crate::dialogue::ConversationStyle;
use crate::ports::{
    Asr, AsrStream, Line, Llm, LlmDelta, Pcm, Prompt, ProviderError, ProviderErrorKind,
    ToolRequest, Transcript, Tts, UtteranceSpec,
};

/// What the recogniser does with one utterance.
#[derive(Debug, Clone)]
pub enum AsrAct {
    /// Answers after this long.
    Text(&'static str, Duration),
    /// Cannot be opened.
    Refuse,
    /// Breaks off while audio is sent.
    Reset,
    /// Fails like this after this long.
    Fail(ProviderErrorKind, Duration),
}

/// What the model does with one prompt.
#[derive(Debug, Clone)]
pub enum LlmAct {
    /// Writes these pieces, each after this long.
    Write(Vec<&'static str>, Duration),
    /// Writes this, then calls these tools with these arguments.
    Call(&'static str, Vec<(&'static str, &'static str)>),
    /// Makes these calls as they stand.
    Requests(Vec<ToolRequest>),
    /// Fails like this after this long.
    Fail(ProviderErrorKind, Duration),
    /// Writes this, then breaks off.
    Break(&'static str, ProviderErrorKind),
}

/// What the synthesiser does with one sentence.
#[derive(Debug, Clone)]
pub enum TtsAct {
    /// Makes audio of this length, in pieces of 100 ms: the first after `first`, each further one
    /// after `each`.
    Audio {
        /// Length of the audio.
        length: Duration,
        /// Wait before the first piece.
        first: Duration,
        /// Wait before each further piece.
        each: Duration,
    },
    /// Makes audio piece by piece: a wait, then so much audio.
    Pieces(Vec<(Duration, Duration)>),
    /// Fails like this after this long.
    Fail(ProviderErrorKind, Duration),
    /// Makes 300 ms of audio, then breaks off.
    Break(ProviderErrorKind),
    /// Panics.
    Panic,
}

/// Decides what the ports do where a script has run out, and sees what they are asked.
pub trait Plan: Send + Sync {
    /// What the recogniser does with the utterance that it is about to hear.
    fn hears(&self) -> AsrAct;

    /// The recogniser has heard the whole of an utterance that it was to handle like this.
    fn heard(&self, act: &AsrAct);

    /// What the model does with this prompt.
    fn thinks(&self, prompt: &Prompt) -> LlmAct;

    /// What the synthesiser does with this sentence.
    fn says(&self, line: &str) -> TtsAct;
}

/// What the ports will do, in order, and what they were asked.
#[derive(Default)]
pub struct Script {
    /// For each utterance.
    pub asr: Mutex<VecDeque<AsrAct>>,
    /// For each prompt.
    pub llm: Mutex<VecDeque<LlmAct>>,
    /// For each sentence.
    pub tts: Mutex<VecDeque<TtsAct>>,
    /// Asked where these have run out.
    pub plan: Mutex<Option<Arc<dyn Plan>>>,
    /// Samples of each utterance that came to its end.
    pub utterances: Mutex<Vec<usize>>,
    /// Prompts asked.
    pub prompts: Mutex<Vec<Prompt>>,
    /// Openings to be read ahead, which takes 10 s.
    pub openings: Mutex<Vec<Prompt>>,
    /// How many of them are being read.
    pub reading: AtomicUsize,
    /// Sentences asked for, and when.
    pub lines: Mutex<Vec<(Instant, String)>>,
    /// When each reply of the model was complete.
    pub written: Mutex<Vec<Instant>>,
    /// How the device is talked to.
    pub style: Mutex<ConversationStyle>,
    /// The date and time that the model is told.
    pub now: Mutex<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds a script")
}

impl Script {
    /// How the device is talked to.
    pub(super) fn style(&self) -> ConversationStyle {
        lock(&self.style).clone()
    }

    /// The date and time that the model is told.
    pub(super) fn now(&self) -> String {
        lock(&self.now).clone()
    }

    fn plan(&self) -> Option<Arc<dyn Plan>> {
        lock(&self.plan).clone()
    }

    /// The next utterance is handled like this.
    pub fn hears(&self, act: AsrAct) -> &Self {
        lock(&self.asr).push_back(act);
        self
    }

    /// The next prompt is handled like this.
    pub fn thinks(&self, act: LlmAct) -> &Self {
        lock(&self.llm).push_back(act);
        self
    }

    /// The next sentence is handled like this.
    pub fn says(&self, act: TtsAct) -> &Self {
        lock(&self.tts).push_back(act);
        self
    }

    /// The last prompt's messages, as `role: content`.
    pub fn last_prompt(&self) -> Vec<String> {
        let prompts = lock(&self.prompts);
        let messages = prompts.last().map(|p| p.messages.clone()).unwrap_or_default();
        messages.iter().map(|m| format!("{:?}: {}", m.role, m.content)).collect()
    }
}

fn failure(kind: ProviderErrorKind) -> ProviderError {
    ProviderError::because("scripted", kind, "as the script says")
}

/// The recogniser of a script.
pub struct ScriptedAsr(pub Arc<Script>);

struct ScriptedUtterance {
    script: Arc<Script>,
    act: AsrAct,
    samples: usize,
}

#[async_trait]
impl Asr for ScriptedAsr {
    async fn open(&self, _: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let next = lock(&self.0.asr).pop_front();
        let act = next.or_else(|| self.0.plan().map(|plan| plan.hears()));
        let act = act.unwrap_or(AsrAct::Text("hello there", Duration::from_millis(50)));
        if matches!(act, AsrAct::Refuse) {
            return Err(failure(ProviderErrorKind::Unavailable));
        }
        Ok(Box::new(ScriptedUtterance { script: Arc::clone(&self.0), act, samples: 0 }))
    }
}

#[async_trait]
impl AsrStream for ScriptedUtterance {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        self.samples += pcm.len();
        match self.act {
            AsrAct::Reset => Err(failure(ProviderErrorKind::Unavailable)),
            _ => Ok(()),
        }
    }

    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
        lock(&self.script.utterances).push(self.samples);
        if let Some(plan) = self.script.plan() {
            plan.heard(&self.act);
        }
        match self.act {
            AsrAct::Text(text, wait) => {
                tokio::time::sleep(wait).await;
                Ok(Transcript { text: text.into() })
            }
            AsrAct::Fail(kind, wait) => {
                tokio::time::sleep(wait).await;
                Err(failure(kind))
            }
            AsrAct::Refuse | AsrAct::Reset => Err(failure(ProviderErrorKind::Unavailable)),
        }
    }
}

/// The language model of a script.
pub struct ScriptedLlm(pub Arc<Script>);

/// Counts an opening while it is being read.
struct Reading(Arc<Script>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.reading.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Llm for ScriptedLlm {
    fn read_ahead(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        lock(&self.0.openings).push(opening);
        self.0.reading.fetch_add(1, Ordering::Relaxed);
        let reading = Reading(Arc::clone(&self.0));
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            drop(reading);
        })
    }

    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        lock(&self.0.prompts).push(prompt.clone());
        let act = lock(&self.0.llm).pop_front();
        let act = act.or_else(|| self.0.plan().map(|plan| plan.thinks(&prompt)));
        let act = act.unwrap_or(LlmAct::Write(vec!["Good ", "day."], Duration::from_millis(20)));
        let script = Arc::clone(&self.0);
        let text = |t: &str| Ok(LlmDelta::Text(t.to_owned()));
        match act {
            LlmAct::Write(pieces, each) => {
                let pieces = stream::iter(pieces).then(move |piece| async move {
                    tokio::time::sleep(each).await;
                    text(piece)
                });
                let end = stream::once(async move {
                    lock(&script.written).push(Instant::now());
                    Ok(LlmDelta::Finished { truncated: false, usage: None })
                });
                pieces.chain(end).boxed()
            }
            LlmAct::Call(words, calls) => {
                let call = |(n, (name, arguments)): (usize, (&str, &str))| {
                    let (id, name) = (format!("id-{n}"), name.to_owned());
                    Ok(LlmDelta::Call(ToolRequest { id, name, arguments: arguments.to_owned() }))
                };
                let calls = calls.into_iter().enumerate().map(call).collect::<Vec<_>>();
                let end = Ok(LlmDelta::Finished { truncated: false, usage: None });
                let before = [text(words), Ok(LlmDelta::Calling)];
                stream::iter(before.into_iter().chain(calls).chain([end])).boxed()
            }
            LlmAct::Requests(calls) => {
                let end = Ok(LlmDelta::Finished { truncated: false, usage: None });
                let calls = calls.into_iter().map(|call| Ok(LlmDelta::Call(call)));
                stream::iter([Ok(LlmDelta::Calling)].into_iter().chain(calls).chain([end])).boxed()
            }
            LlmAct::Fail(kind, wait) => stream::once(async move {
                tokio::time::sleep(wait).await;
                Err(failure(kind))
            })
            .boxed(),
            LlmAct::Break(piece, kind) => stream::iter([text(piece), Err(failure(kind))]).boxed(),
        }
    }
}

/// The synthesiser of a script.
pub struct ScriptedTts(pub Arc<Script>);

const TTS_RATE_HZ: u32 = 16_000;
const PIECE: Duration = Duration::from_millis(100);

impl Tts for ScriptedTts {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        lock(&self.0.lines).push((Instant::now(), line.text.to_string()));
        let act = lock(&self.0.tts).pop_front();
        let act = act.or_else(|| self.0.plan().map(|plan| plan.says(&line.text)));
        let act = act.unwrap_or(TtsAct::Audio {
            length: Duration::from_millis(900),
            first: Duration::from_millis(80),
            each: Duration::from_millis(5),
        });
        match act {
            TtsAct::Audio { length, first, each } => {
                let pieces = usize::try_from(length.as_millis() / PIECE.as_millis()).unwrap_or(0);
                pieces_of_audio(pieces, first, each)
            }
            TtsAct::Pieces(pieces) => audio(pieces),
            TtsAct::Fail(kind, wait) => stream::once(async move {
                tokio::time::sleep(wait).await;
                Err(failure(kind))
            })
            .boxed(),
            TtsAct::Break(kind) => pieces_of_audio(3, PIECE, Duration::ZERO)
                .chain(stream::once(async move { Err(failure(kind)) }))
                .boxed(),
            TtsAct::Panic => stream::once(async { panic!("as the script says") }).boxed(),
        }
    }
}

fn pieces_of_audio(
    pieces: usize,
    first: Duration,
    each: Duration,
) -> BoxStream<'static, Result<Pcm, ProviderError>> {
    let wait = |n| if n == 0 { first } else { each };
    audio((0..pieces).map(|n| (wait(n), PIECE)).collect())
}

fn audio(pieces: Vec<(Duration, Duration)>) -> BoxStream<'static, Result<Pcm, ProviderError>> {
    stream::iter(pieces)
        .then(|(wait, length)| async move {
            tokio::time::sleep(wait).await;
            let length = pcm::samples_in(length, TTS_RATE_HZ);
            let samples = pcm::tone(300.0, length, TTS_RATE_HZ).into();
            Ok(Pcm { samples, sample_rate_hz: TTS_RATE_HZ })
        })
        .boxed()
}
