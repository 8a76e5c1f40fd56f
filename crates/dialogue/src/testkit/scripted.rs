//! Scripted ports: they follow a script and record their requests. When a script runs out, they
//! return sensible defaults, so that a test only writes the part that it is about.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use hearken_audio::pcm;
use hearken_ports::{
    Asr, AsrStream, Line, Llm, LlmDelta, Pcm, Prompt, ProviderError, ProviderErrorKind, Role,
    ToolRequest, Transcript, Tts, TurnDetector, UtteranceSpec,
};
use tokio::time::Instant;

use crate::ConversationStyle;

/// Scripted behaviour of the recogniser for one utterance.
#[derive(Debug, Clone)]
pub enum AsrAct {
    /// Returns this text after this long.
    Text(&'static str, Duration),
    /// Returns these partial transcripts, one after each half second of audio, and the last of them
    /// at the end.
    Partials(&'static [&'static str]),
    /// Returns words while it listens, delayed by `lag`, and all of them `finish` after the end:
    /// one word for each 20 ms up to the last loud frame.
    Streaming {
        /// Age of the audio that the current words cover.
        lag: Duration,
        /// Wait for the transcript.
        finish: Duration,
    },
    /// Fails to open.
    Refuse,
    /// Fails while audio is sent.
    Reset,
    /// Fails with this kind of error after this long.
    Fail(ProviderErrorKind, Duration),
}

/// Scripted behaviour of the model for one prompt.
#[derive(Debug, Clone)]
pub enum LlmAct {
    /// Writes these pieces, each after this long.
    Write(Vec<&'static str>, Duration),
    /// Writes this, then calls these tools with these arguments.
    Call(&'static str, Vec<(&'static str, &'static str)>),
    /// Makes these calls unchanged.
    Requests(Vec<ToolRequest>),
    /// Fails with this kind of error after this long.
    Fail(ProviderErrorKind, Duration),
    /// Writes this, then fails.
    Break(&'static str, ProviderErrorKind),
}

/// Scripted behaviour of the synthesiser for one sentence.
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
    /// Makes audio piece by piece: for each, a wait and the length of its audio.
    Pieces(Vec<(Duration, Duration)>),
    /// Makes this audio, 16 kHz mono, after this long.
    Recorded(Vec<i16>, Duration),
    /// Fails with this kind of error after this long.
    Fail(ProviderErrorKind, Duration),
    /// Makes 300 ms of audio, then fails.
    Break(ProviderErrorKind),
    /// Panics.
    Panic,
}

/// Behaviour of the ports once a script has run out; it also observes their requests.
pub trait Plan: Send + Sync {
    /// Returns the recogniser's behaviour for the utterance that starts.
    fn hears(&self) -> AsrAct;

    /// Called when the recogniser has received a whole utterance, with its behaviour for it.
    fn heard(&self, act: &AsrAct);

    /// Returns the model's behaviour for this prompt.
    fn thinks(&self, prompt: &Prompt) -> LlmAct;

    /// Returns the synthesiser's behaviour for this sentence.
    fn says(&self, line: &str) -> TtsAct;
}

/// Behaviour of the ports, in order, and a record of their requests.
#[derive(Default)]
pub struct Script {
    /// Behaviour for each utterance.
    pub asr: Mutex<VecDeque<AsrAct>>,
    /// Behaviour for each prompt.
    pub llm: Mutex<VecDeque<LlmAct>>,
    /// Words that the model answers as those of a person in danger.
    pub urgent: Mutex<Vec<&'static str>>,
    /// Behaviour for each sentence.
    pub tts: Mutex<VecDeque<TtsAct>>,
    /// Plan that decides when these have run out.
    pub plan: Mutex<Option<Arc<dyn Plan>>>,
    /// Number of samples of each completed utterance.
    pub utterances: Mutex<Vec<usize>>,
    /// Prompts that the model received.
    pub prompts: Mutex<Vec<Prompt>>,
    /// Prompt openings to prefetch; each takes 10 s.
    pub openings: Mutex<Vec<Prompt>>,
    /// Number of prefetches in progress.
    pub reading: AtomicUsize,
    /// Sentences that the synthesiser received, with the time of each.
    pub lines: Mutex<Vec<(Instant, String)>>,
    /// Voice of each of these sentences; empty for the configured one.
    pub voices: Mutex<Vec<Arc<str>>>,
    /// Time at which each reply of the model was complete.
    pub written: Mutex<Vec<Instant>>,
    /// Conversation style of the device.
    pub style: Mutex<ConversationStyle>,
    /// Date and time in prompts.
    pub now: Mutex<String>,
    /// Turn detector. Without one, no silence is judged.
    pub turn_detector: Mutex<Option<Arc<dyn TurnDetector>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds a script")
}

impl Script {
    /// Returns the conversation style of the device.
    pub fn style(&self) -> ConversationStyle {
        lock(&self.style).clone()
    }

    /// Returns the date and time in prompts.
    pub fn now(&self) -> String {
        lock(&self.now).clone()
    }

    fn plan(&self) -> Option<Arc<dyn Plan>> {
        lock(&self.plan).clone()
    }

    /// Adds the behaviour for the next utterance.
    pub fn hears(&self, act: AsrAct) -> &Self {
        lock(&self.asr).push_back(act);
        self
    }

    /// Adds the behaviour for the next prompt.
    pub fn thinks(&self, act: LlmAct) -> &Self {
        lock(&self.llm).push_back(act);
        self
    }

    /// Adds the behaviour for the next sentence.
    pub fn says(&self, act: TtsAct) -> &Self {
        lock(&self.tts).push_back(act);
        self
    }

    /// Returns the last prompt's messages, as `role: content`.
    pub fn last_prompt(&self) -> Vec<String> {
        let prompts = lock(&self.prompts);
        let messages = prompts.last().map(|p| p.messages.clone()).unwrap_or_default();
        messages.iter().map(|m| format!("{:?}: {}", m.role, m.content)).collect()
    }
}

fn failure(kind: ProviderErrorKind) -> ProviderError {
    ProviderError::because("scripted", kind, "as the script says")
}

/// Scripted recogniser.
pub struct ScriptedAsr(pub Arc<Script>);

struct ScriptedUtterance {
    script: Arc<Script>,
    act: AsrAct,
    samples: usize,
    /// Number of partial transcripts, or of words, returned so far.
    told: usize,
    /// For each 20 ms, whether it is loud.
    loud: Vec<bool>,
    rest: Vec<i16>,
}

/// Samples of 20 ms, and the level above which they are loud.
const FRAME: usize = 320;
const LOUD: f64 = 300.0;

impl ScriptedUtterance {
    fn listen(&mut self, pcm: &[i16]) {
        self.rest.extend_from_slice(pcm);
        let whole = self.rest.len() / FRAME * FRAME;
        let frames = self.rest[..whole].chunks_exact(FRAME);
        self.loud.extend(frames.map(|frame| pcm::rms(frame) > LOUD));
        self.rest.drain(..whole);
    }

    /// Returns the number of words, ignoring the last `lag` of audio.
    fn words(&self, lag: Duration) -> usize {
        let frames = self.loud.len().saturating_sub(pcm::samples_in(lag, 16_000) / FRAME);
        self.loud[..frames].iter().rposition(|loud| *loud).map_or(0, |last| last + 1)
    }
}

/// Audio per partial transcript, in samples: half a second.
const PARTIAL_SAMPLES: usize = 8_000;

#[async_trait]
impl Asr for ScriptedAsr {
    async fn open(&self, _: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let next = lock(&self.0.asr).pop_front();
        let act = next.or_else(|| self.0.plan().map(|plan| plan.hears()));
        let act = act.unwrap_or(AsrAct::Text("hello there", Duration::from_millis(50)));
        if matches!(act, AsrAct::Refuse) {
            return Err(failure(ProviderErrorKind::Unavailable));
        }
        Ok(Box::new(ScriptedUtterance {
            script: Arc::clone(&self.0),
            act,
            samples: 0,
            told: 0,
            loud: Vec::new(),
            rest: Vec::new(),
        }))
    }
}

#[async_trait]
impl AsrStream for ScriptedUtterance {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        self.samples += pcm.len();
        if matches!(self.act, AsrAct::Streaming { .. }) {
            self.listen(pcm);
        }
        match self.act {
            AsrAct::Reset => Err(failure(ProviderErrorKind::Unavailable)),
            _ => Ok(()),
        }
    }

    fn partial(&mut self) -> Option<String> {
        if let AsrAct::Streaming { lag, .. } = self.act {
            let words = self.words(lag);
            let known = std::mem::replace(&mut self.told, words);
            return (known != words).then(|| format!("word {words}"));
        }
        let AsrAct::Partials(words) = &mut self.act else { return None };
        let due = self.samples / PARTIAL_SAMPLES;
        let told = std::mem::replace(&mut self.told, due);
        (told < due).then(|| words.get(told)).flatten().map(|words| (*words).into())
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
            AsrAct::Streaming { finish, .. } => {
                let text = format!("Word {}.", self.words(Duration::ZERO));
                tokio::time::sleep(finish).await;
                Ok(Transcript { text })
            }
            AsrAct::Partials(words) => {
                let text = words.last().copied().unwrap_or_default().into();
                Ok(Transcript { text })
            }
            AsrAct::Fail(kind, wait) => {
                tokio::time::sleep(wait).await;
                Err(failure(kind))
            }
            AsrAct::Refuse | AsrAct::Reset => Err(failure(ProviderErrorKind::Unavailable)),
        }
    }
}

/// Turn detector of the script.
pub struct ScriptedTurnDetector(pub Arc<Script>);

#[async_trait]
impl TurnDetector for ScriptedTurnDetector {
    async fn judge(&self, speech: Vec<i16>) -> Option<f32> {
        let detector = lock(&self.0.turn_detector).clone()?;
        detector.judge(speech).await
    }
}

/// Scripted language model.
pub struct ScriptedLlm(pub Arc<Script>);

/// Guard that counts a prefetch while it is in progress.
struct Reading(Arc<Script>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.reading.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Llm for ScriptedLlm {
    fn is_urgent(&self, prompt: &Prompt) -> bool {
        let last = prompt.messages.iter().rfind(|message| message.role == Role::User);
        let urgent = lock(&self.0.urgent);
        last.is_some_and(|last| urgent.iter().any(|words| last.content.contains(words)))
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
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
                    let id = format!("id-{n}");
                    let name = name.to_owned();
                    Ok(LlmDelta::Call(ToolRequest {
                        id,
                        name,
                        arguments: arguments.to_owned(),
                        ..ToolRequest::default()
                    }))
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

/// Scripted synthesiser.
pub struct ScriptedTts(pub Arc<Script>);

const TTS_RATE_HZ: u32 = 16_000;
const PIECE: Duration = Duration::from_millis(100);

impl Tts for ScriptedTts {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        lock(&self.0.lines).push((Instant::now(), line.text.to_string()));
        lock(&self.0.voices).push(Arc::clone(&line.voice));
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
            TtsAct::Recorded(samples, wait) => stream::once(async move {
                tokio::time::sleep(wait).await;
                Ok(Pcm { samples: samples.into(), sample_rate_hz: TTS_RATE_HZ })
            })
            .boxed(),
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
