//! Echo: a device plays a reply in a room, its microphone records the reply and a person, and the
//! server's voice detection reports speech. Measures the residual echo, the rate of false
//! detections, and the share of persons detected over the echo. How a reply reacts to a detection
//! is in [`interruptions`](crate::interruptions).

pub mod conditions;
mod device;
mod hearing;
pub(crate) mod room;

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use hearken_audio::pcm;
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use self::conditions::Condition;
use self::hearing::Seen;
use self::room::Room;
use crate::manifest::Sample;
use crate::run::in_parallel;
use crate::speech;

pub use self::hearing::Remedy;

/// Length of a scene.
const SCENE: Duration = Duration::from_secs(60);
/// Time for the canceller to adapt to the room.
const LEARNED: Duration = Duration::from_secs(5);
/// Time between the words of two persons.
const APART: Duration = Duration::from_secs(9);
/// Longest words over a reply.
const WORDS: Duration = Duration::from_millis(2_500);
/// Longest delay from speech to the server's detection.
const REACHES: Duration = Duration::from_millis(300);
/// Level of the reply as sent, of 32,768.
const REPLY_LEVEL: f64 = 3_000.0;
/// Level of the reply at the microphone.
const ECHO_LEVEL: f64 = 1_500.0;

/// Result of a number of scenes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Echo {
    /// Playback time without speech, after the canceller has adapted.
    pub alone: Duration,
    /// Number of false detections in that time.
    pub false_starts: usize,
    /// Energy of the microphone signal in that time, without and with the remedy.
    pub energy: [f64; 2],
    /// Number of persons who spoke over the reply.
    pub speakers: usize,
    /// Number of those that were detected while they spoke.
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

    /// Returns the echo reduction in decibels.
    pub fn erle_db(&self) -> f64 {
        10.0 * (self.energy[0] / self.energy[1].max(1e-9)).max(1e-9).log10()
    }
}

/// Recordings for replies and for persons.
pub struct Voices {
    replies: Vec<Vec<i16>>,
    persons: Vec<Vec<i16>>,
}

/// Reads the recordings of a manifest: half of them become replies, the others persons.
///
/// # Errors
/// Fails if a recording cannot be read, or there are fewer than two.
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

/// Person who speaks over the reply.
struct Person {
    from: Duration,
    until: Duration,
    sound: Vec<i16>,
}

/// For each level of the person, in decibels over the echo: the result of each remedy.
pub type Found = Vec<(f64, Vec<(Remedy, Echo)>)>;

/// Plays the scenes in this range with each remedy, on several threads. Persons speak at these
/// levels, in decibels over the echo.
///
/// # Errors
/// Fails if libopus cannot be used.
pub fn measure(
    voices: &Voices,
    condition: &Condition,
    scenes: Range<u64>,
    levels_db: &[f64],
    jobs: usize,
) -> anyhow::Result<Found> {
    let nothing = || Remedy::ALL.map(|remedy| (remedy, Echo::default())).to_vec();
    let found: Found = levels_db.iter().map(|level_db| (*level_db, nothing())).collect();
    let found = Mutex::new(Ok(found));
    in_parallel(jobs, usize::try_from(scenes.end - scenes.start)?, |number| {
        let scene = scene(voices, condition, scenes.start + number as u64, levels_db);
        let mut found = found.lock().expect("no panic while locked");
        match (scene, &mut *found) {
            (Ok(scene), Ok(all)) => {
                let all = all.iter_mut().flat_map(|(_, remedies)| remedies);
                all.zip(&scene).for_each(|((_, all), one)| all.add(one));
            }
            (Err(error), all) => *all = Err(error),
            (Ok(_), Err(_)) => {}
        }
    });
    found.into_inner().expect("no panic while locked")
}

/// Plays one scene at each level with each remedy.
fn scene(
    voices: &Voices,
    condition: &Condition,
    seed: u64,
    levels_db: &[f64],
) -> anyhow::Result<Vec<Echo>> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let reply = reply(voices, &mut chance);
    let persons = people(voices, &mut chance);
    let room = Room::new(condition.drive, &mut chance);
    let drift_ppm = if seed.is_multiple_of(2) { -condition.drift_ppm } else { condition.drift_ppm };
    let mut chance = fastrand::Rng::with_seed(seed ^ 7);
    let mut played = device::play(&reply, condition, drift_ppm, &mut chance)?;
    device::lose(&mut played.told, condition, &mut chance);
    let gain = ECHO_LEVEL / REPLY_LEVEL;
    let echo = room::drifted(&room.echo(&played.sound, reply.len()), drift_ppm);
    let noise = |_| (chance.f64() * 2.0 - 1.0) * room.noise;
    let noise: Vec<f64> = (0..reply.len()).map(noise).collect();
    let background: Vec<f64> =
        echo.iter().zip(noise).map(|(echo, noise)| f64::from(*echo) * gain + noise).collect();
    let mut found = Vec::new();
    for level_db in levels_db {
        let level = ECHO_LEVEL * 10_f64.powf(level_db / 20.0);
        let packets = hearing::encode(&microphone(&background, &persons, level))?;
        let mut plain = None;
        for remedy in Remedy::ALL {
            let seen = hearing::hear(remedy, &played.sent, &played.told, &packets, seed)?;
            let energy = alone(&persons, &seen.sound);
            let energy = [*plain.get_or_insert(energy), energy];
            found.push(judge(&persons, &seen, energy));
        }
    }
    Ok(found)
}

/// Returns the signal of the microphone, with persons at this level.
fn microphone(background: &[f64], persons: &[Person], level: f64) -> Vec<i16> {
    let mut heard = background.to_vec();
    for person in persons {
        let from = pcm::samples_in(person.from, UPLINK_RATE_HZ);
        let spoken = levelled(&person.sound, level);
        heard[from..]
            .iter_mut()
            .zip(spoken)
            .for_each(|(heard, spoken)| *heard += f64::from(spoken));
    }
    heard.into_iter().map(room::sample).collect()
}

fn judge(persons: &[Person], seen: &Seen, energy: [f64; 2]) -> Echo {
    let speaking: Duration = persons.iter().map(|p| p.until - p.from + REACHES).sum();
    let spoken = |at: &Duration| persons.iter().any(|p| *at >= p.from && *at < p.until + REACHES);
    let starts = || seen.starts.iter().filter(|at| **at >= LEARNED);
    let in_words = |p: &&Person| starts().any(|at| *at >= p.from && *at < p.until + REACHES);
    Echo {
        alone: SCENE - LEARNED - speaking,
        false_starts: starts().filter(|at| !spoken(at)).count(),
        energy,
        speakers: persons.len(),
        heard: persons.iter().filter(in_words).count(),
    }
}

/// Returns the energy of the microphone signal while no person spoke.
fn alone(persons: &[Person], sound: &[i16]) -> f64 {
    let speaks = |n: usize| {
        let at = pcm::duration(n, UPLINK_RATE_HZ);
        at < LEARNED || persons.iter().any(|p| at + REACHES >= p.from && at < p.until + REACHES)
    };
    let frame = UPLINK_RATE_HZ as usize / 50;
    let frames = sound.chunks(frame).enumerate().filter(|(n, _)| !speaks(n * frame));
    frames.flat_map(|(_, frame)| frame).map(|s| f64::from(*s) * f64::from(*s)).sum()
}

fn reply(voices: &Voices, chance: &mut fastrand::Rng) -> Vec<i16> {
    let length = pcm::samples_in(SCENE, UPLINK_RATE_HZ);
    let mut reply = Vec::with_capacity(length);
    while reply.len() < length {
        reply.extend(levelled(&voices.replies[chance.usize(..voices.replies.len())], REPLY_LEVEL));
    }
    reply.truncate(length);
    reply
}

fn people(voices: &Voices, chance: &mut fastrand::Rng) -> Vec<Person> {
    let mut persons = Vec::new();
    let mut from = LEARNED + APART / 2;
    while from + WORDS + APART / 2 < SCENE {
        let mut sound = voices.persons[chance.usize(..voices.persons.len())].clone();
        sound.truncate(pcm::samples_in(WORDS, UPLINK_RATE_HZ));
        let until = from + pcm::duration(sound.len(), UPLINK_RATE_HZ);
        persons.push(Person { from, until, sound });
        from = until + APART;
    }
    persons
}

fn levelled(sound: &[i16], level: f64) -> Vec<i16> {
    let gain = level / pcm::rms(sound).max(1.0);
    sound.iter().map(|s| room::sample(f64::from(*s) * gain)).collect()
}

#[cfg(test)]
mod tests {
    use hearken_audio::sound;

    use super::*;

    #[test]
    fn each_remedy_prevents_false_starts_by_echo() {
        let recorded = |name| sound::decoded(&sound::recorded(name));
        let voices = Voices {
            replies: vec![recorded("zh_trade_stalls")],
            persons: vec![recorded("en_go_forward")],
        };
        let plain = conditions::named("plain").unwrap();
        let found = measure(&voices, &plain, 3..4, &[0.0], 1).unwrap();
        let [(level_db, found)] = &found[..] else { panic!("one level") };
        let of = |remedy| found.iter().find(|(one, _)| *one == remedy).map(|(_, echo)| echo);
        assert!(level_db.abs() < f64::EPSILON);
        assert!(of(Remedy::None).unwrap().false_starts > 3);
        for remedy in [Remedy::Guard, Remedy::Cancel] {
            let found = of(remedy).unwrap();
            assert_eq!((found.false_starts, found.heard), (0, found.speakers), "{remedy:?}");
        }
        let reduction = of(Remedy::Cancel).unwrap().erle_db();
        assert!(reduction > 20.0, "{reduction:.1} dB");
    }
}
