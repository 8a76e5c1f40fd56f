//! A recogniser, a model and a synthesiser on an ordinary bad day, driven by a seed; and what they
//! know of the dialogue, for the judge. Not for the actions of people.
//!
//! The recogniser takes 50 to 800 ms. Of a hundred utterances, two have an empty transcript and
//! three fail, one of them only at its deadline.
//!
//! The model writes pieces of 3 to 14 characters at intervals of 5 to 120 ms, after 100 to 1,500
//! ms; one in fifty answers fails: at once, at its deadline, or midway.
//!
//! The synthesiser is ten times as fast as the audio, which it sends in pieces of 100 ms, one every
//! 10 ms. Each piece is up to 200 ms late, in order, so that they arrive in bursts; delays do not
//! add up. Now and then it stalls for up to 500 ms, usually for all of it, and the following pieces
//! may be late besides: there is no audio for at most 710 ms. After a stall at least [`REFILL`] of
//! audio follows before the next one: the audio played meanwhile and the server's prebuffer. A
//! synthesiser that stalls more often is slower than its audio, and no prebuffer helps. Of a
//! hundred sentences one fails: at once, midway, or after silence until its deadline; a gap in that
//! sentence is not the server's fault.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use hearken_actors::pipeline::Ports;
use hearken_audio::pcm;
use hearken_dialogue::ConversationStyle;
use hearken_ports::{
    Asr, AsrStream, Line, Llm, LlmDelta, Pcm, Prompt, ProviderError, ProviderErrorKind, Role,
    Transcript, Tts, UtteranceSpec,
};
use hearken_virtual_device::dice::Dice;
use tokio::time::Instant;

/// The longest reply: 16 sentences of 10 s.
pub(crate) const LONGEST_REPLY: Duration = Duration::from_secs(160);
/// Audio between two stalls.
const REFILL: Duration = Duration::from_millis(1_500);
const RATE_HZ: u32 = 8_000;
const PIECE: Duration = Duration::from_millis(100);
/// Less voice than this, in steps of 10 ms, is a cough.
const SHORTEST_WORDS: usize = 25;
/// Number of samples in 10 ms, the input of the recogniser.
const STEP: usize = 160;
/// Samples above this level are voice.
const VOICE_RMS: f64 = 300.0;

/// Content of a person's speech that is longer than a cough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Utters {
    Words,
    /// A backchannel.
    Backchannel,
    /// A noise without words.
    Noise,
}

const BACKCHANNEL: &str = "嗯。";

/// Knowledge of the vendors, for the judge.
pub(crate) struct World {
    dice: Dice,
    /// The transcript of the current speech.
    pub(crate) utters: Utters,
    /// Answers that the model started, by number: their numbers of sentences.
    answers: Vec<Answer>,
    /// Number of utterances with words.
    pub(crate) words: u32,
    /// Number of utterances with an empty transcript.
    pub(crate) deaf: u32,
    /// Number of utterances for which the recogniser is about to fail.
    pub(crate) failing: u32,
    /// Number of utterances that the model received.
    pub(crate) asked: u32,
    /// Sentences whose synthesis failed or was slower than modelled.
    troubled: HashSet<Sentence>,
    /// Sentences that the person heard at least in part.
    pub(crate) sounded: HashSet<Sentence>,
    pub(crate) faults: Vec<String>,
    /// Number of injected failures, by vendor.
    pub(crate) failures: HashMap<&'static str, u32>,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    sentences: u32,
    /// Breaks off before its end.
    fails: bool,
    long: bool,
}

/// A sentence of an answer of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sentence {
    pub(crate) answer: u32,
    pub(crate) part: u32,
}

impl Sentence {
    /// Parses a sentence; `None` for a fixed phrase of the server.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix("Answer ")?.trim_end_matches('.').split(' ');
        let answer = words.next()?.parse().ok()?;
        let part = words.nth(1)?.parse().ok()?;
        Some(Self { answer, part })
    }

    fn words(self) -> String {
        format!("Answer {} part {}.", self.answer, self.part)
    }
}

pub(crate) type Shared = Arc<Mutex<World>>;

pub(crate) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().expect("no panic while the world is locked")
}

impl World {
    pub(crate) fn new(dice: Dice) -> Shared {
        Arc::new(Mutex::new(Self {
            dice,
            utters: Utters::Words,
            answers: Vec::new(),
            words: 0,
            deaf: 0,
            failing: 0,
            asked: 0,
            troubled: HashSet::new(),
            sounded: HashSet::new(),
            faults: Vec::new(),
            failures: HashMap::new(),
        }))
    }

    pub(crate) fn ports(world: &Shared) -> Ports {
        Ports {
            asr: Arc::new(Ear(Arc::clone(world))),
            llm: Arc::new(Brain(Arc::clone(world))),
            tts: Arc::new(Mouth(Arc::clone(world))),
            turn_detector: None,
            people: None,
            tools: Arc::new(|_, _| Arc::new(Vec::new)),
            vision: None,
            style: Arc::new(|_| ConversationStyle::default()),
            roles: Arc::new(|_| None),
            now: Arc::new(String::new),
            describer: None,
        }
    }

    /// Whether words may have been missed since there were this many empty transcripts.
    pub(crate) fn excuses(&self, deaf: u32) -> bool {
        self.unheard() > 0 || self.failing > 0 || self.deaf > deaf
    }

    /// Number of utterances for which the recogniser failed.
    pub(crate) fn unheard(&self) -> u32 {
        self.failures.get("asr").copied().unwrap_or_default()
    }

    /// Number of answers that were started.
    pub(crate) fn answers(&self) -> u32 {
        u32::try_from(self.answers.len()).unwrap()
    }

    /// Whether a reply that ended with this sentence is complete, or was cut by a failure.
    pub(crate) fn may_end_with(&self, last: Sentence) -> bool {
        let answer = &self.answers[last.answer as usize - 1];
        answer.fails || last.part == answer.sentences || self.troubled.contains(&last)
    }

    /// Whether the synthesiser caused a gap in this sentence.
    pub(crate) fn is_troubled(&self, sentence: Sentence) -> bool {
        self.troubled.contains(&sentence)
    }

    fn failed(&mut self, vendor: &'static str) {
        *self.failures.entry(vendor).or_default() += 1;
    }

    /// Delay of a failure: none, or until a deadline of this many seconds.
    fn wait_for_failure(&mut self, deadline_s: u64) -> Duration {
        let late = self.dice.chance(400);
        if late { self.dice.ms(1_000, deadline_s * 1_000) } else { self.dice.ms(0, 300) }
    }

    /// Everything in the prompt must have been heard or said by the person.
    fn check_history(&mut self, prompt: &Prompt) {
        for message in prompt.messages.iter().filter(|m| m.role == Role::Assistant) {
            for sentence in
                message.content.split_inclusive(". ").filter(|s| s.trim().ends_with('.'))
            {
                // The start of a broken-off answer may precede it.
                let whole = sentence.rfind("Answer ").map_or("", |at| sentence[at..].trim());
                let known = Sentence::of(whole);
                if known.is_none_or(|s| !self.sounded.contains(&s)) {
                    self.faults.push(format!("remembers an unplayed sentence: {sentence}"));
                }
            }
        }
        let question = prompt.messages.last().map_or("", |m| m.content.as_str());
        let numbers = question.split(' ').filter_map(|w| w.trim_end_matches('.').parse().ok());
        match numbers.max() {
            Some(words) => self.asked = self.asked.max(words),
            // A backchannel near the end of a reply counts as an utterance.
            None if question.contains(BACKCHANNEL) => {}
            None => self.faults.push(format!("a request without words: {question}")),
        }
    }
}

fn failure(kind: ProviderErrorKind) -> ProviderError {
    ProviderError::because("simulated", kind, "by chance")
}

struct Ear(Shared);

struct Utterance {
    world: Shared,
    samples: usize,
    /// The part of them that is voice.
    voiced: usize,
    breaks: bool,
}

#[async_trait]
impl Asr for Ear {
    async fn open(&self, _: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let mut world = lock(&self.0);
        if world.dice.chance(10) {
            world.failed("asr");
            return Err(failure(ProviderErrorKind::Unavailable));
        }
        let breaks = world.dice.chance(10);
        Ok(Box::new(Utterance { world: Arc::clone(&self.0), samples: 0, voiced: 0, breaks }))
    }
}

#[async_trait]
impl AsrStream for Utterance {
    async fn push(&mut self, sound: &[i16]) -> Result<(), ProviderError> {
        self.samples += sound.len();
        self.voiced += sound.chunks_exact(STEP).filter(|step| pcm::rms(step) > VOICE_RMS).count();
        if self.breaks && self.samples > 8_000 {
            lock(&self.world).failed("asr");
            return Err(failure(ProviderErrorKind::Unavailable));
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
        let (wait, fails, utters) = {
            let mut world = lock(&self.world);
            let fails = world.dice.chance(10);
            let wait = if fails { world.wait_for_failure(30) } else { world.dice.ms(50, 800) };
            // Speech after the end of the audio is not in it.
            (wait, fails, world.utters)
        };
        let failing = fails.then(|| Failing::new(&self.world));
        tokio::time::sleep(wait).await;
        drop(failing);
        let mut world = lock(&self.world);
        if fails {
            world.failed("asr");
            return Err(failure(ProviderErrorKind::Timeout));
        }
        if utters == Utters::Backchannel {
            return Ok(Transcript { text: BACKCHANNEL.into() });
        }
        let noise = utters == Utters::Noise || self.voiced < SHORTEST_WORDS;
        if noise || world.dice.chance(20) {
            world.deaf += 1;
            return Ok(Transcript::default());
        }
        world.words += 1;
        Ok(Transcript { text: format!("Words {}.", world.words) })
    }
}

/// Counts an utterance for which the recogniser is about to fail, while a caller waits for it.
struct Failing(Shared);

impl Failing {
    fn new(world: &Shared) -> Self {
        lock(world).failing += 1;
        Self(Arc::clone(world))
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        lock(&self.0).failing -= 1;
    }
}

struct Brain(Shared);

impl Llm for Brain {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let mut world = lock(&self.0);
        world.check_history(&prompt);
        let long = world.dice.chance(15);
        let sentences = if long { 16 } else { world.dice.between(1, 8) };
        let answer = world.answers() + 1;
        let mut pieces = vec![(world.dice.ms(100, 1_500), String::new())];
        let text: String = (1..=sentences).fold(String::new(), |text, part| {
            let part = u32::try_from(part).unwrap();
            text + &Sentence { answer, part }.words() + " "
        });
        let mut rest = text.trim_end();
        while !rest.is_empty() {
            let size = usize::try_from(world.dice.between(3, 14)).unwrap().min(rest.len());
            pieces.push((world.dice.ms(5, 120), rest[..size].to_owned()));
            rest = &rest[size..];
        }
        let fails = world.dice.chance(20);
        let mut end = Ok(LlmDelta::Finished { truncated: false, usage: None });
        let mut last_wait = Duration::ZERO;
        if fails {
            world.failed("llm");
            let midway = world.dice.chance(500);
            let kept = if midway { world.dice.between(1, pieces.len() as u64) } else { 0 };
            pieces.truncate(usize::try_from(kept).unwrap());
            last_wait = world.wait_for_failure(if midway { 20 } else { 60 });
            end = Err(failure(ProviderErrorKind::Timeout));
        }
        let sentences = u32::try_from(sentences).unwrap();
        world.answers.push(Answer { sentences, fails, long });
        let pieces = stream::iter(pieces).then(|(wait, text)| async move {
            tokio::time::sleep(wait).await;
            Ok(LlmDelta::Text(text))
        });
        let end = stream::once(async move {
            tokio::time::sleep(last_wait).await;
            end
        });
        pieces.chain(end).boxed()
    }
}

struct Mouth(Shared);

impl Tts for Mouth {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let mut world = lock(&self.0);
        let Some(sentence) = Sentence::of(&line.text) else {
            // A fixed phrase, whose audio is cached.
            let length = world.dice.ms(800, 2_500);
            return sound(vec![(Duration::ZERO, length)], Ok(()), Duration::ZERO);
        };
        let long = world.answers.get(sentence.answer as usize - 1).is_some_and(|a| a.long);
        let length = match world.dice.between(0, 9) {
            _ if long => world.dice.ms(8_000, 10_000),
            0..2 => world.dice.ms(300, 800),
            2..8 => world.dice.ms(800, 4_000),
            _ => world.dice.ms(4_000, 12_000),
        };
        let mut pieces = delivery(&mut world.dice, length);
        let mut end = Ok(());
        let mut wait = Duration::ZERO;
        if world.dice.chance(10) {
            world.failed("tts");
            world.troubled.insert(sentence);
            let kept = world.dice.between(0, pieces.len() as u64 - 1);
            pieces.truncate(usize::try_from(kept).unwrap());
            wait = world.wait_for_failure(30);
            end = Err(ProviderErrorKind::Timeout);
        }
        sound(pieces, end, wait)
    }
}

/// Delivery times of the pieces of a sentence, since its request, with their lengths.
fn delivery(dice: &mut Dice, length: Duration) -> Vec<(Duration, Duration)> {
    let mut at = dice.ms(80, 600);
    let mut last = at;
    let mut since_stall = REFILL;
    let mut left = length;
    let mut pieces = Vec::new();
    while !left.is_zero() {
        let piece = left.min(PIECE);
        left -= piece;
        at += piece / 10;
        if since_stall >= REFILL && dice.chance(60) {
            at += if dice.chance(700) { Duration::from_millis(500) } else { dice.ms(100, 500) };
            since_stall = Duration::ZERO;
        }
        since_stall += piece;
        let late = if dice.chance(100) { Duration::from_millis(200) } else { dice.ms(0, 200) };
        last = last.max(at + late);
        match pieces.last_mut() {
            Some((came, together)) if *came == last => *together += piece,
            _ => pieces.push((last, piece)),
        }
    }
    pieces
}

fn sound(
    pieces: Vec<(Duration, Duration)>,
    end: Result<(), ProviderErrorKind>,
    wait: Duration,
) -> BoxStream<'static, Result<Pcm, ProviderError>> {
    let asked = Instant::now();
    let pieces = stream::iter(pieces).then(move |(at, length)| async move {
        tokio::time::sleep_until(asked + at).await;
        let samples = hearken_audio::pcm::samples_in(length, RATE_HZ);
        Ok(Pcm { samples: vec![0; samples].into(), sample_rate_hz: RATE_HZ })
    });
    let end = stream::iter(end.err()).then(move |kind| async move {
        tokio::time::sleep(wait).await;
        Err(failure(kind))
    });
    pieces.chain(end).boxed()
}
