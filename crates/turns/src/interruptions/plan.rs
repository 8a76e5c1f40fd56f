//! Draws conversations with a sound over a reply from recordings, by a seed. Judging them is elsewhere.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use hearken_audio::pcm;
use hearken_virtual_device::profile::{Build, PROFILES, Profile};
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use super::sounds::{self, length, levelled, piece, samples_in, voiced};
use crate::acted::{Echo, Scene, Sentence, Sound};
use crate::echo::room::Room;
use crate::manifest::Sample;
use crate::run::Conditions;
use crate::score::Groups;
use crate::speech;

/// Level of a person at the microphone, of 32,768; also the level of the echo.
pub(crate) const PERSON: f64 = 1_500.0;
/// Level of replies before the loudspeaker.
pub(crate) const MADE: f64 = 3_000.0;
/// How much quieter than a person a television is, in decibels.
const TELEVISION_DB: std::ops::Range<f64> = 12.0..20.0;
/// Longest question, and longest sentence of a reply.
const SENTENCE: Duration = Duration::from_secs(4);
/// Shortest sentence of a reply.
const SHORTEST: Duration = Duration::from_millis(700);
/// Minimum length of a reply.
const REPLY: Duration = Duration::from_secs(14);
/// Earliest start of a sound over a reply.
const EARLIEST: Duration = Duration::from_millis(500);
/// Latest start of a sound over a reply.
const LATEST: Duration = Duration::from_secs(7);
/// Longest words over a reply.
const WORDS: Duration = Duration::from_secs(5);

/// Sound over a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The user says something.
    Words,
    /// The user asks for silence.
    StopWords,
    /// The user answers a question in the reply with a backchannel.
    Answer,
    /// The user speaks as loud as the echo.
    OverEcho,
    /// The user speaks 10 dB below the echo.
    UnderEcho,
    /// The user signals that they are listening.
    Backchannel,
    /// A cough or a click.
    Noise,
    /// A television whose speech is not recognised.
    Television,
    /// A television whose speech is recognised.
    UnderstoodTelevision,
    /// Only the echo of the reply.
    Echo,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Words,
        Self::StopWords,
        Self::Answer,
        Self::OverEcho,
        Self::UnderEcho,
        Self::Backchannel,
        Self::Noise,
        Self::Television,
        Self::UnderstoodTelevision,
        Self::Echo,
    ];

    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::StopWords => "stop words",
            Self::Answer => "a backchannel after a question",
            Self::OverEcho => "words, as loud as the echo",
            Self::UnderEcho => "words, 10 dB below the echo",
            Self::Backchannel => "a backchannel",
            Self::Noise => "a cough or click",
            Self::Television => "a television, not understood",
            Self::UnderstoodTelevision => "a television, understood",
            Self::Echo => "the echo alone, understood",
        }
    }

    /// Reports whether this sound should end the reply.
    pub const fn ends_reply(self) -> bool {
        matches!(
            self,
            Self::Words | Self::StopWords | Self::Answer | Self::OverEcho | Self::UnderEcho
        )
    }

    /// Reports whether this sound should be answered.
    pub const fn is_answered(self) -> bool {
        self.ends_reply() && !matches!(self, Self::StopWords)
    }

    const fn echoes(self) -> bool {
        matches!(self, Self::OverEcho | Self::UnderEcho | Self::Echo)
    }
}

/// Texts of a conversation in one language.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) question: &'static str,
    pub(crate) words: &'static str,
    pub(crate) other: &'static str,
    pub(crate) sentences: [&'static str; 8],
    questions: [&'static str; 8],
    pub(crate) backchannels: &'static [&'static str],
    stop_words: &'static [&'static str],
}

const CHINESE: Script = Script {
    question: "请讲讲这件事。",
    words: "明天的天气怎么样？",
    other: "这是另外一个回答。",
    sentences: [
        "这是回答的第一句话。",
        "这是回答的第二句话。",
        "这是回答的第三句话。",
        "这是回答的第四句话。",
        "这是回答的第五句话。",
        "这是回答的第六句话。",
        "这是回答的第七句话。",
        "这是回答的第八句话。",
    ],
    questions: [
        "要听第一件事吗？",
        "要听第二件事吗？",
        "要听第三件事吗？",
        "要听第四件事吗？",
        "要听第五件事吗？",
        "要听第六件事吗？",
        "要听第七件事吗？",
        "要听第八件事吗？",
    ],
    backchannels: &["嗯。", "嗯嗯。", "对。", "好的。", "哦。", "是的。", "明白。"],
    stop_words: &["停。", "别说了。", "停一下。", "安静。"],
};

const ENGLISH: Script = Script {
    question: "Please tell me about it.",
    words: "What about the weather tomorrow?",
    other: "That is quite another matter.",
    sentences: [
        "This is the first sentence of it.",
        "This is the second sentence of it.",
        "This is the third sentence of it.",
        "This is the fourth sentence of it.",
        "This is the fifth sentence of it.",
        "This is the sixth sentence of it.",
        "This is the seventh sentence of it.",
        "This is the eighth sentence of it.",
    ],
    questions: [
        "Do you want the first of them?",
        "Do you want the second of them?",
        "Do you want the third of them?",
        "Do you want the fourth of them?",
        "Do you want the fifth of them?",
        "Do you want the sixth of them?",
        "Do you want the seventh of them?",
        "Do you want the eighth of them?",
    ],
    backchannels: &["Mm-hmm.", "Uh-huh.", "Yeah.", "Okay.", "Right.", "I see.", "Oh."],
    stop_words: &["Stop.", "Be quiet.", "That's enough.", "Stop talking."],
};

/// Recordings in one language.
#[derive(Debug)]
pub struct Voices {
    pub(crate) script: &'static Script,
    /// Short, complete turns.
    pub(crate) questions: Vec<Vec<i16>>,
    /// Speech over replies, also of televisions.
    pub(crate) persons: Vec<Vec<i16>>,
    /// Sentences of replies.
    pub(crate) replies: Vec<Vec<i16>>,
}

/// Reads the recordings of a manifest, by language: half of them become replies, the others persons.
///
/// # Errors
/// Fails if a recording cannot be read, or a language has too few.
pub fn read(samples: &[Sample]) -> anyhow::Result<Groups<Voices>> {
    let mut groups: Groups<Voices> = Groups::new();
    for (n, sample) in samples.iter().enumerate() {
        let sound = speech::read(&sample.file)?;
        let at = |time| samples_in(time).min(sound.len());
        let spoken = sound[at(sample.speech.start)..at(sample.speech.end)].to_vec();
        let voices =
            groups.entry(sample.group.clone()).or_insert_with(|| Voices::new(&sample.group));
        voices.add(spoken, n % 2 == 0, sample.ends_turn);
    }
    for (group, Voices { questions, persons, replies, .. }) in &groups {
        let enough = [questions, persons, replies].iter().all(|sounds| !sounds.is_empty());
        ensure!(enough, "{group}: too few recordings of at most {SENTENCE:?}");
    }
    Ok(groups)
}

impl Voices {
    /// Creates an empty collection for a language.
    pub(crate) fn new(language: &str) -> Self {
        let script = if language.starts_with("zh") { &CHINESE } else { &ENGLISH };
        Self { script, questions: Vec::new(), persons: Vec::new(), replies: Vec::new() }
    }

    /// Adds the speech of a recording, for replies or for persons.
    pub(crate) fn add(&mut self, spoken: Vec<i16>, replies: bool, ends_turn: bool) {
        let short = (SHORTEST..=SENTENCE).contains(&length(&spoken));
        if replies {
            self.replies.extend(short.then_some(spoken));
            return;
        }
        self.questions.extend((short && ends_turn).then(|| spoken.clone()));
        self.persons.push(spoken);
    }

    /// Returns the sentences of a reply.
    pub(crate) fn reply(
        &self,
        texts: &[&'static str],
        chance: &mut fastrand::Rng,
    ) -> Vec<Sentence> {
        let mut total = Duration::ZERO;
        let mut reply = Vec::new();
        for text in texts {
            if total >= REPLY {
                break;
            }
            let sound = levelled(one_of(&self.replies, chance), MADE);
            total += length(&sound);
            reply.push(Sentence { text, sound: Arc::from(sound) });
        }
        reply
    }

    fn television(&self, words: &'static str, chance: &mut fastrand::Rng) -> Sound {
        let seconds = Duration::from_millis(chance.u64(3_000..8_000));
        let mut sound = Vec::new();
        while sound.len() < samples_in(seconds) {
            sound.extend(levelled(one_of(&self.persons, chance), PERSON));
        }
        sound.truncate(samples_in(seconds));
        let below = TELEVISION_DB.start + chance.f64() * (TELEVISION_DB.end - TELEVISION_DB.start);
        voiced(levelled(&sound, PERSON * 10_f64.powf(-below / 20.0)), words)
    }

    /// Returns the sound over the reply.
    fn over(&self, kind: Kind, chance: &mut fastrand::Rng) -> Sound {
        let Script { words, backchannels, stop_words, .. } = self.script;
        let person = one_of(&self.persons, chance);
        let said = &person[..person.len().min(samples_in(WORDS))];
        let mut short =
            |low, high| piece(person, Duration::from_millis(chance.u64(low..high)), chance);
        match kind {
            Kind::Words | Kind::OverEcho => voiced(levelled(said, PERSON), words),
            Kind::UnderEcho => voiced(levelled(said, PERSON / 10_f64.sqrt()), words),
            Kind::StopWords => {
                let sound = levelled(&short(400, 900), PERSON);
                voiced(sound, stop_words[chance.usize(..stop_words.len())])
            }
            Kind::Answer | Kind::Backchannel => {
                let sound = levelled(&short(250, 650), PERSON);
                voiced(sound, backchannels[chance.usize(..backchannels.len())])
            }
            Kind::Noise if chance.bool() => voiced(sounds::click(chance), ""),
            Kind::Noise => voiced(sounds::cough(chance), ""),
            Kind::Television => self.television("", chance),
            Kind::UnderstoodTelevision => self.television(words, chance),
            Kind::Echo => Sound { samples: Arc::from([0; 16]), ..Sound::default() },
        }
    }
}

fn one_of<'a>(sounds: &'a [Vec<i16>], chance: &mut fastrand::Rng) -> &'a [i16] {
    &sounds[chance.usize(..sounds.len())]
}

/// Draws a conversation. Equal seeds return equal conversations.
pub fn scene(voices: &Voices, kind: Kind, seed: u64, conditions: &Conditions) -> Scene {
    let mut chance = fastrand::Rng::with_seed(seed);
    let script = voices.script;
    let texts = if kind == Kind::Answer { &script.questions } else { &script.sentences };
    let room = kind.echoes().then(|| Room::new(1.0, &mut chance));
    let announces = |profile: &&Profile| profile.features_in_hello && profile.newest_framing >= 2;
    let fits = |profile: &&Profile| !kind.echoes() || announces(profile);
    let profiles: Vec<&Profile> = PROFILES.iter().filter(fits).collect();
    let question = levelled(one_of(&voices.questions, &mut chance), PERSON);
    let other = &voices.replies[chance.usize(..voices.replies.len())];
    let after =
        Duration::from_millis(chance.u64(EARLIEST.as_millis() as u64..LATEST.as_millis() as u64));
    Scene {
        profile: profiles[chance.usize(..profiles.len())].clone(),
        build: Build { server_aec: kind.echoes(), ..Build::default() },
        framing: if kind.echoes() { 2 } else { chance.u32(1..=3) },
        network: conditions.network,
        upstreams: conditions.upstreams,
        noise: room.as_ref().map_or_else(|| 5.0 + 15.0 * chance.f64(), |room| room.noise),
        echo: room.map(|room| Echo { room, gain: PERSON / MADE, words: script.words }),
        question: voiced(question, script.question),
        reply: voices.reply(texts, &mut chance),
        other: Sentence { text: script.other, sound: Arc::from(levelled(other, MADE)) },
        over: Some((after, voices.over(kind, &mut chance))),
        seed,
        keeps_sound: false,
    }
}

/// Returns the minimum number of packets of a sentence.
pub(crate) fn packets(sentence: &Sentence) -> usize {
    let packet = pcm::samples_in(hearken_virtual_device::sound::PACKET, UPLINK_RATE_HZ);
    sentence.sound.len() / packet
}
