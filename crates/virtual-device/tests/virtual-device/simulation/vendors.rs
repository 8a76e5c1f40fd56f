//! A recogniser, a model and a synthesiser as they are on an ordinary bad day, by chance of a
//! seed; and what they know of the talk, for the judge. Not for what people do.
//!
//! The recogniser takes 50 to 800 ms; of a hundred utterances it hears nothing in two and fails in
//! three, one of them after as long as its deadline lets it.
//!
//! The model writes pieces of 3 to 14 characters with 5 to 120 ms between, after 100 to 1,500 ms;
//! one in fifty answers fails: at once, at its deadline, or midway.
//!
//! The synthesiser is ten times as fast as the sound, which comes in pieces of 100 ms of sound:
//! one each 10 ms. Each comes up to 200 ms late, in order, so that they come in bursts; lateness
//! does not add up. Now and then it stalls for up to 500 ms, usually the whole of it, and what
//! follows may be late besides: nothing comes for at most 710 ms. After a stall at least
//! [`REFILL`] of sound comes before the next: what was played meanwhile and the prebuffer that the
//! server keeps. A synthesiser that stalls more often than that is slower than its sound, and no
//! prebuffer helps. Of a hundred sentences one fails: at once, midway, or after a silence as long as
//! its deadline; a gap in that sentence is not the server's doing.

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
/// Sound between two stalls.
const REFILL: Duration = Duration::from_millis(1_500);
const RATE_HZ: u32 = 8_000;
const PIECE: Duration = Duration::from_millis(100);
/// Less voice than this, in steps of 10 ms, is a cough.
const SHORTEST_WORDS: usize = 25;
/// Samples of 10 ms, as the recogniser gets them.
const STEP: usize = 160;
/// Louder than this is voice.
const VOICE_RMS: f64 = 300.0;

/// What a person utters when they make more than a cough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Utters {
    Words,
    /// That they listen.
    Backchannel,
    /// Nothing that has words.
    Noise,
}

const BACKCHANNEL: &str = "嗯。";

/// What the vendors know, and the judge asks.
pub(crate) struct World {
    dice: Dice,
    /// What the recogniser hears now.
    pub(crate) utters: Utters,
    /// Answers begun by the model, by number: how many sentences each has.
    answers: Vec<Answer>,
    /// Utterances with words, counted.
    pub(crate) words: u32,
    /// Utterances in which nothing was heard.
    pub(crate) deaf: u32,
    /// Utterances that the recogniser is about to fail at.
    pub(crate) failing: u32,
    /// Words given to the model so far.
    pub(crate) asked: u32,
    /// Sentences whose synthesis failed or was slower than modelled.
    troubled: HashSet<Sentence>,
    /// Sentences of which the person heard something.
    pub(crate) sounded: HashSet<Sentence>,
    pub(crate) faults: Vec<String>,
    /// Failures played so far, by vendor.
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
    /// From its words; none where it is a phrase of the server's own.
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
    world.lock().expect("nobody panics while holding the world")
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

    /// Reports whether words may not have been understood since it was deaf so often.
    pub(crate) fn excuses(&self, deaf: u32) -> bool {
        self.unheard() > 0 || self.failing > 0 || self.deaf > deaf
    }

    /// Utterances that the recogniser failed on.
    pub(crate) fn unheard(&self) -> u32 {
        self.failures.get("asr").copied().unwrap_or_default()
    }

    /// Answers begun so far.
    pub(crate) fn answers(&self) -> u32 {
        u32::try_from(self.answers.len()).unwrap()
    }

    /// Whether a reply that ended with this sentence is complete, or was cut by a failure.
    pub(crate) fn may_end_with(&self, last: Sentence) -> bool {
        let answer = &self.answers[last.answer as usize - 1];
        answer.fails || last.part == answer.sentences || self.troubled.contains(&last)
    }

    /// Whether a gap in this sentence is the synthesiser's doing.
    pub(crate) fn is_troubled(&self, sentence: Sentence) -> bool {
        self.troubled.contains(&sentence)
    }

    fn failed(&mut self, vendor: &'static str) {
        *self.failures.entry(vendor).or_default() += 1;
    }

    /// A failure that comes at once or as late as a deadline of so many seconds.
    fn wait_for_failure(&mut self, deadline_s: u64) -> Duration {
        let late = self.dice.chance(400);
        if late { self.dice.ms(1_000, deadline_s * 1_000) } else { self.dice.ms(0, 300) }
    }

    /// What is in the prompt must have been heard by the person, or said by them.
    fn check_history(&mut self, prompt: &Prompt) {
        for message in prompt.messages.iter().filter(|m| m.role == Role::Assistant) {
            for sentence in
                message.content.split_inclusive(". ").filter(|s| s.trim().ends_with('.'))
            {
                // The beginning of one that broke off may stand before it.
                let whole = sentence.rfind("Answer ").map_or("", |at| sentence[at..].trim());
                let known = Sentence::of(whole);
                if known.is_none_or(|s| !self.sounded.contains(&s)) {
                    self.faults.push(format!("remembers what nobody heard: {sentence}"));
                }
            }
        }
        let question = prompt.messages.last().map_or("", |m| m.content.as_str());
        let numbers = question.split(' ').filter_map(|w| w.trim_end_matches('.').parse().ok());
        match numbers.max() {
            Some(words) => self.asked = self.asked.max(words),
            // To a reply that was nearly over it is an answer.
            None if question.contains(BACKCHANNEL) => {}
            None => self.faults.push(format!("asks the model nothing: {question}")),
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
    /// Of these, how much is voice.
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
            // What is said after the end of the sound is not in it.
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

/// Counts an utterance that the recogniser is about to fail at, as long as somebody waits for it.
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
            // A fixed phrase, whose sound is kept.
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

/// When the pieces of a sentence come, since it was asked for, and how long each is.
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
