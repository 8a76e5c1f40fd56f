//! Echo: a reply is played by a device in a room, its microphone hears both the reply and a person, and the server's
//! voice detection says when somebody speaks. How much echo is left, how often it is taken for a person, and how often a
//! person is heard over it. Not for what becomes of a reply then.

mod device;
pub(crate) mod room;

use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use hearken_actors::audio::pcm;
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use self::device::Scene;
use self::room::Room;
use crate::manifest::Sample;
use crate::run::in_parallel;
use crate::speech;

/// Length of a scene.
const SCENE: Duration = Duration::from_secs(60);
/// The canceller has learned the room by then.
const LEARNED: Duration = Duration::from_secs(5);
/// From one person's words to the next.
const APART: Duration = Duration::from_secs(9);
/// Longest words over a reply.
const WORDS: Duration = Duration::from_millis(2_500);
/// What a person says reaches the server's decision this long after it, at the latest.
const REACHES: Duration = Duration::from_millis(300);
/// Level of the reply at the microphone, of 32,768.
const ECHO_LEVEL: f64 = 1_500.0;

/// What was found in some scenes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Echo {
    /// Time in which a reply was played and nobody spoke, after the canceller had learned the room.
    pub alone: Duration,
    /// Times that a person was heard then.
    pub false_starts: usize,
    /// Energy of the microphone in that time, without and with the canceller.
    pub energy: [f64; 2],
    /// Persons who spoke over the reply.
    pub speakers: usize,
    /// Those who were heard while they spoke.
    pub heard: usize,
}

impl Echo {
    fn add(&mut self, other: &Self) {
        self.alone += other.alone;
        self.false_starts += other.false_starts;
        self.energy[0] += other.energy[0];
        self.energy[1] += other.energy[1];
        self.speakers += other.speakers;
        self.heard += other.heard;
    }

    /// Returns by how many decibels the echo was reduced.
    pub fn erle_db(&self) -> f64 {
        10.0 * (self.energy[0] / self.energy[1].max(1e-9)).max(1e-9).log10()
    }
}

/// Recordings that replies and persons are made of.
pub struct Voices {
    replies: Vec<Vec<i16>>,
    persons: Vec<Vec<i16>>,
}

/// Reads the recordings of a manifest: replies are made of one half, persons of the other.
///
/// # Errors
/// Fails if a recording cannot be read, or there are too few.
pub fn read(samples: &[Sample]) -> anyhow::Result<Voices> {
    let mut voices = Voices { replies: Vec::new(), persons: Vec::new() };
    for (n, sample) in samples.iter().enumerate() {
        let sound = speech::read(&sample.file)?;
        let at = |time| pcm::samples_in(time, UPLINK_RATE_HZ).min(sound.len());
        let spoken = sound[at(sample.speech.start)..at(sample.speech.end)].to_vec();
        if n % 2 == 0 { &mut voices.replies } else { &mut voices.persons }.push(spoken);
    }
    let enough = !voices.replies.is_empty() && !voices.persons.is_empty();
    enough.then_some(voices).context("at least two recordings are needed")
}

/// Plays so many scenes with and without the canceller, on several threads. A person speaks at this level, in decibels
/// over the echo.
///
/// # Errors
/// Fails if libopus cannot be used.
pub fn measure(
    voices: &Voices,
    scenes: usize,
    level_db: f64,
    jobs: usize,
) -> anyhow::Result<[Echo; 2]> {
    let found = Mutex::new(Ok([Echo::default(), Echo::default()]));
    in_parallel(jobs, scenes, |number| {
        let scene = scene(voices, number as u64, level_db);
        let mut found = found.lock().expect("no thread panics with it");
        match (scene, &mut *found) {
            (Ok(scene), Ok(all)) => all.iter_mut().zip(&scene).for_each(|(all, one)| all.add(one)),
            (Err(error), all) => *all = Err(error),
            (Ok(_), Err(_)) => {}
        }
    });
    found.into_inner().expect("no thread panics with it")
}

/// Plays one scene without and with the canceller.
fn scene(voices: &Voices, seed: u64, level_db: f64) -> anyhow::Result<[Echo; 2]> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let reply = reply(voices, &mut chance);
    let persons = persons(voices, ECHO_LEVEL * 10_f64.powf(level_db / 20.0), &mut chance);
    let room = Room::new(&mut chance);
    let scene = Scene { reply, persons, room, seed, level: ECHO_LEVEL };
    let plain = device::play(&scene, false)?;
    let cleaned = device::play(&scene, true)?;
    let energy = [alone(&scene, &plain.sound), alone(&scene, &cleaned.sound)];
    let speaking: Duration = scene.persons.iter().map(|p| p.until - p.from + REACHES).sum();
    Ok([&plain, &cleaned].map(|seen| {
        let spoken =
            |at: &Duration| scene.persons.iter().any(|p| *at >= p.from && *at < p.until + REACHES);
        let starts = || seen.starts.iter().filter(|at| **at >= LEARNED);
        let in_words =
            |p: &&device::Person| starts().any(|at| *at >= p.from && *at < p.until + REACHES);
        Echo {
            alone: SCENE - LEARNED - speaking,
            false_starts: starts().filter(|at| !spoken(at)).count(),
            energy,
            speakers: scene.persons.len(),
            heard: scene.persons.iter().filter(in_words).count(),
        }
    }))
}

/// Returns the energy of what the microphone heard while nobody spoke.
fn alone(scene: &Scene, sound: &[i16]) -> f64 {
    let speaks = |n: usize| {
        let at = pcm::duration(n, UPLINK_RATE_HZ);
        at < LEARNED
            || scene.persons.iter().any(|p| at + REACHES >= p.from && at < p.until + REACHES)
    };
    let frame = UPLINK_RATE_HZ as usize / 50;
    let frames = sound.chunks(frame).enumerate().filter(|(n, _)| !speaks(n * frame));
    frames.flat_map(|(_, frame)| frame).map(|s| f64::from(*s) * f64::from(*s)).sum()
}

fn reply(voices: &Voices, chance: &mut fastrand::Rng) -> Vec<i16> {
    let length = pcm::samples_in(SCENE, UPLINK_RATE_HZ);
    let mut reply = Vec::with_capacity(length);
    while reply.len() < length {
        reply.extend(levelled(&voices.replies[chance.usize(..voices.replies.len())], 3_000.0));
    }
    reply.truncate(length);
    reply
}

fn persons(voices: &Voices, level: f64, chance: &mut fastrand::Rng) -> Vec<device::Person> {
    let mut persons = Vec::new();
    let mut from = LEARNED + APART / 2;
    while from + WORDS + APART / 2 < SCENE {
        let mut sound = voices.persons[chance.usize(..voices.persons.len())].clone();
        sound.truncate(pcm::samples_in(WORDS, UPLINK_RATE_HZ));
        let sound = levelled(&sound, level);
        let until = from + pcm::duration(sound.len(), UPLINK_RATE_HZ);
        persons.push(device::Person { from, until, sound });
        from = until + APART;
    }
    persons
}

fn levelled(sound: &[i16], level: f64) -> Vec<i16> {
    let gain = level / pcm::rms(sound).max(1.0);
    sound.iter().map(|s| room::sample(f64::from(*s) * gain)).collect()
}
