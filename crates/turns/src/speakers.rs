//! Speaker verification: error rates of the speaker embedder for pairs of recordings and for
//! persons with a profile of three recordings. What the server does with a voice is elsewhere.

mod table;
mod trials;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_audio::opus::Decoder;
use hearken_audio::pcm;
use hearken_ports::speaker_embedder::LONGEST_VOICE;
use hearken_speaker_embedder::CamPlusPlus;
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use crate::manifest::Sample;
use crate::run::in_parallel;
use crate::speech;

pub use table::table;
pub use trials::{Errors, Trials};

/// Number of recordings of a profile.
const ENROLLED: usize = 3;
/// Minimum length of speech for a profile.
const SHORTEST_ENROLLED: Duration = Duration::from_millis(1_500);
/// Maximum number of consecutive parts of a length per recording.
const PARTS: usize = 4;
/// Group of all languages.
const ALL: &str = "all";

/// Conditions of a measurement.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Model file.
    pub embedder: PathBuf,
    /// Lengths of the judged parts of speech.
    pub lengths: Vec<Duration>,
    /// Length of the room's sound before and after the speech that is added to both ends of each part.
    pub silence: Duration,
    /// True to pass the speech through the device's Opus.
    pub through_opus: bool,
    /// Number of recordings at a time.
    pub jobs: usize,
}

/// Kind of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A part with a part of another recording, both of the same length.
    Pair,
    /// A part with the mean of three other recordings of up to 5 s.
    Enrolled,
}

/// Result for one language or all of them, and one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Language, or `all`.
    pub group: String,
    /// Kind of comparison.
    pub kind: Kind,
    /// Length of the judged speech.
    pub length: Duration,
    /// Number of persons with recordings of this length.
    pub speakers: usize,
    /// Trials, each within one language.
    pub trials: Trials,
}

/// Embeddings of a recording, and its speaker.
struct Voice {
    group: String,
    speaker: String,
    /// Embeddings of the parts, by length.
    parts: Vec<Vec<Vec<f32>>>,
    /// Embedding of all the speech.
    whole: Option<Vec<f32>>,
}

/// Measures all recordings of known speakers, and returns their number too.
///
/// # Errors
/// Fails if a recording cannot be read, or the model cannot be used.
pub fn measure(samples: &[Sample], conditions: &Conditions) -> anyhow::Result<(Vec<Found>, usize)> {
    let known = samples.iter().filter_map(|sample| Some((sample, speaker(sample)?)));
    let known: Vec<(&Sample, String)> = known.collect();
    let models = (0..conditions.jobs.max(1)).map(|_| CamPlusPlus::load(&conditions.embedder));
    let models = Mutex::new(models.collect::<Result<Vec<_>, _>>()?);
    let voices = Mutex::new(Ok(BTreeMap::new()));
    in_parallel(conditions.jobs, known.len(), |number| {
        let model = models.lock().expect("no panic while locked").pop();
        let Some(mut model) = model else { return };
        let (sample, speaker) = &known[number];
        let voice = voice(sample, speaker, conditions, &mut model);
        let voice = voice.with_context(|| sample.file.display().to_string());
        models.lock().expect("no panic while locked").push(model);
        let mut voices = voices.lock().expect("no panic while locked");
        match (voice, &mut *voices) {
            (Ok(voice), Ok(voices)) => drop(voices.insert(number, voice)),
            (Err(error), voices) => *voices = Err(error),
            (Ok(_), Err(_)) => {}
        }
    });
    let voices = voices.into_inner().expect("no panic while locked")?;
    let voices: Vec<Voice> = voices.into_values().collect();
    if voices.is_empty() {
        bail!("no recording has a known speaker");
    }
    Ok((compare(&voices, &conditions.lengths), voices.len()))
}

/// Returns the speaker according to the manifest, or else the file name of AISHELL or LibriSpeech.
fn speaker(sample: &Sample) -> Option<String> {
    let named = || {
        let name = sample.file.file_stem()?.to_str()?;
        let libri = name.split_once("libri-").map(|(_, rest)| rest.split('-').next());
        let aishell = name.split_once("BAC009S").map(|(_, rest)| rest.split('W').next());
        libri.or(aishell)?.map(str::to_owned)
    };
    sample.speaker.clone().or_else(named)
}

fn voice(
    sample: &Sample,
    speaker: &str,
    conditions: &Conditions,
    model: &mut CamPlusPlus,
) -> anyhow::Result<Voice> {
    let mut sound = speech::read(&sample.file)?;
    if conditions.through_opus {
        sound = through_opus(sound)?;
    }
    let at = |time| pcm::samples_in(time, UPLINK_RATE_HZ).min(sound.len());
    let from = at(sample.speech.start);
    let to = at(sample.speech.end);
    let silence = pcm::samples_in(conditions.silence, UPLINK_RATE_HZ);
    let before = &sound[..from];
    let speech = &sound[from..to];
    let behind = &sound[to..];
    let before = &before[before.len().saturating_sub(silence)..];
    let behind = &behind[..silence.min(behind.len())];
    let mut embed = |part: &[i16]| model.embed(&[before, part, behind].concat());
    let mut parts = Vec::new();
    for length in &conditions.lengths {
        let cut = speech.chunks_exact(pcm::samples_in(*length, UPLINK_RATE_HZ).max(1)).take(PARTS);
        parts.push(cut.map(&mut embed).collect::<Result<_, _>>()?);
    }
    let enough = speech.len() >= pcm::samples_in(SHORTEST_ENROLLED, UPLINK_RATE_HZ);
    let longest = speech.len().min(pcm::samples_in(LONGEST_VOICE, UPLINK_RATE_HZ));
    let whole = enough.then(|| embed(&speech[..longest])).transpose()?;
    let group = sample.group.clone();
    let speaker = speaker.to_owned();
    Ok(Voice { group, speaker, parts, whole })
}

/// Returns the audio as the server decodes it from a device.
fn through_opus(sound: Vec<i16>) -> anyhow::Result<Vec<i16>> {
    let mut decoder = Decoder::new(UPLINK_RATE_HZ)?;
    let mut heard = Vec::with_capacity(sound.len());
    for packet in speech::packets(sound)? {
        decoder.decode(&packet, &mut heard)?;
    }
    Ok(heard)
}

/// Compares all recordings of a language with each other, and with profiles of three recordings.
fn compare(voices: &[Voice], lengths: &[Duration]) -> Vec<Found> {
    let mut groups: BTreeMap<&str, Vec<&Voice>> = BTreeMap::new();
    for voice in voices {
        groups.entry(&voice.group).or_default().push(voice);
    }
    let mut found = Vec::new();
    for kind in [Kind::Pair, Kind::Enrolled] {
        for (place, length) in lengths.iter().enumerate() {
            let mut all = Found::empty(ALL, kind, *length);
            for (group, voices) in &groups {
                let mut one = Found::empty(group, kind, *length);
                one.speakers =
                    by_speaker(voices.iter().filter(|v| !v.parts[place].is_empty())).len();
                one.trials = match kind {
                    Kind::Pair => pairs(voices, place),
                    Kind::Enrolled => enrolled(voices, place),
                };
                all.speakers += one.speakers;
                all.trials.extend(&one.trials);
                found.push(one);
            }
            if groups.len() > 1 {
                found.push(all);
            }
        }
    }
    found
}

impl Found {
    fn empty(group: &str, kind: Kind, length: Duration) -> Self {
        Self { group: group.to_owned(), kind, length, speakers: 0, trials: Trials::default() }
    }
}

fn by_speaker<'a, 'b: 'a>(
    voices: impl Iterator<Item = &'a &'b Voice>,
) -> BTreeMap<&'b str, Vec<&'b Voice>> {
    let mut speakers: BTreeMap<&str, Vec<&Voice>> = BTreeMap::new();
    for voice in voices {
        speakers.entry(&voice.speaker).or_default().push(voice);
    }
    speakers
}

fn pairs(voices: &[&Voice], place: usize) -> Trials {
    let mut trials = Trials::default();
    for (n, voice) in voices.iter().enumerate() {
        for other in &voices[n + 1..] {
            let same = voice.speaker == other.speaker;
            for part in &voice.parts[place] {
                other.parts[place].iter().for_each(|o| trials.add(same, alike(part, o)));
            }
        }
    }
    trials
}

/// Each three consecutive recordings of a person form a profile, which is compared with all others.
fn enrolled(voices: &[&Voice], place: usize) -> Trials {
    let mut trials = Trials::default();
    for (speaker, own) in by_speaker(voices.iter().filter(|v| v.whole.is_some())) {
        for profile in own.chunks_exact(ENROLLED) {
            let mean = mean(profile.iter().filter_map(|v| v.whole.as_deref()));
            let others = voices.iter().filter(|v| !profile.iter().any(|p| std::ptr::eq(*p, **v)));
            for other in others {
                let same = speaker == other.speaker;
                other.parts[place].iter().for_each(|part| trials.add(same, alike(&mean, part)));
            }
        }
    }
    trials
}

/// Returns the mean of vectors, normalised to length 1.
fn mean<'a>(vectors: impl Iterator<Item = &'a [f32]>) -> Vec<f32> {
    let mut sum: Vec<f32> = Vec::new();
    for vector in vectors {
        sum.resize(vector.len(), 0.0);
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    let length = alike(&sum, &sum).sqrt().max(f32::MIN_POSITIVE);
    sum.iter().map(|value| value / length).collect()
}

fn alike(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(file: &str, speaker: Option<&str>) -> Sample {
        Sample {
            file: file.into(),
            speaker: speaker.map(str::to_owned),
            group: "en".into(),
            speech: Duration::ZERO..Duration::from_secs(1),
            ends_turn: true,
            pauses: Vec::new(),
            spliced: None,
        }
    }

    #[test]
    fn the_speaker_is_read_from_the_manifest_or_the_file_name() {
        let named = |file: &str, speaker: Option<&str>| super::speaker(&sample(file, speaker));
        assert_eq!(named("x/en_libri-1688-142285-0000.opus", None).as_deref(), Some("1688"));
        assert_eq!(named("zh_aishell-BAC009S0150W0002.opus", None).as_deref(), Some("0150"));
        assert_eq!(named("en_pico-00ff.opus", Some("Ann")).as_deref(), Some("Ann"));
        assert_eq!(named("en_pico-00ff.opus", None), None);
    }

    /// A voice in a plane, by its direction in degrees.
    fn voice(speaker: &str, degrees: f32, group: &str) -> Voice {
        let vector = vec![degrees.to_radians().cos(), degrees.to_radians().sin()];
        let group = group.to_owned();
        let speaker = speaker.to_owned();
        let parts = vec![vec![vector.clone()], Vec::new()];
        Voice { group, speaker, parts, whole: Some(vector) }
    }

    #[test]
    fn recordings_are_compared_with_others_and_with_profiles_in_their_language() {
        let of = |(speaker, degrees): (&str, f32)| voice(speaker, degrees, "en");
        let mut voices: Vec<Voice> =
            [("a", 0.0), ("a", 10.0), ("a", 20.0), ("a", 50.0), ("b", 90.0)].map(of).into();
        voices.push(voice("c", 0.0, "zh"));
        let lengths = [Duration::from_secs(1), Duration::from_secs(9)];
        let found = compare(&voices, &lengths);
        let one = |group: &str, kind, length| {
            let is = |f: &&Found| f.group == group && f.kind == kind && f.length == length;
            found.iter().find(is).unwrap()
        };
        let pairs = one("en", Kind::Pair, lengths[0]);
        assert_eq!((pairs.trials.same.len(), pairs.trials.different.len()), (6, 4));
        assert_eq!(pairs.speakers, 2);
        let profile = one("en", Kind::Enrolled, lengths[0]);
        // The mean of three is at 10 degrees: 40 from the fourth, 80 from the other person.
        let expected = [40.0_f32, 80.0].map(|degrees| degrees.to_radians().cos());
        let [same, different] =
            [profile.trials.same[..].to_vec(), profile.trials.different.clone()];
        assert_eq!((same.len(), different.len()), (1, 1));
        assert!((same[0] - expected[0]).abs() < 1e-6 && (different[0] - expected[1]).abs() < 1e-6);
        assert_eq!(one(ALL, Kind::Pair, lengths[0]).trials, pairs.trials);
        assert_eq!(one("en", Kind::Pair, lengths[1]).trials, Trials::default());
    }
}
